// A data set in memory, for tests that plan or evaluate without files.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "quarry/io/dataset.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::testing {

class MemoryDataset : public io::Dataset {
 public:
  // Without bytes only planning works.
  MemoryDataset(const std::string& object, const local::Dims& shape, local::DType dtype,
                std::optional<local::Dims> chunks = std::nullopt, std::vector<std::byte> bytes = {}) {
    info_.file = "memory.h5";
    info_.object = object;
    info_.shape = shape;
    info_.dtype = dtype;
    info_.chunks = std::move(chunks);
    info_.layout = info_.chunks ? "chunked" : "contiguous";
    info_.direct = true;
    bytes_ = std::move(bytes);
  }
  void set_filters(std::vector<io::Filter> filters) { info_.filters = std::move(filters); }
  const io::DatasetInfo& info() const override { return info_; }
  const io::Format& format() const override { throw local::NotSupported("it is in no file"); }
  std::string layout() const override { return {}; }
  int64_t read_scratch_bytes(const local::Region&) const override { return 0; }
  void read(const local::Region& region, void* to, std::span<std::byte>) const override {
    const int64_t itemsize = local::itemsize(info_.dtype);
    const local::Dims strides = local::contiguous_strides(info_.shape, itemsize);
    auto* out = static_cast<std::byte*>(to);
    if (region.elements() == 0) return;
    local::Dims at = local::Dims::filled(region.ndim(), 0);
    for (;;) {
      int64_t offset = 0;
      for (int d = 0; d < region.ndim(); ++d) offset += (region.start[d] + at[d] * region.step[d]) * strides[d];
      std::memcpy(out, bytes_.data() + offset, static_cast<size_t>(itemsize));
      out += itemsize;
      int d = region.ndim() - 1;
      while (d >= 0 && ++at[d] == region.count[d]) at[d--] = 0;
      if (d < 0) return;
    }
  }
  // A piece for each position along the first axis.
  int64_t visit_scratch_bytes(const local::Region& region) const override {
    return region.elements() * local::itemsize(info_.dtype);
  }
  void visit(const local::Region& region, std::span<std::byte> scratch,
             const std::function<void(const Piece&)>& consume) const override {
    if (region.elements() == 0) return;
    read(region, scratch.data(), {});
    const local::Dims strides = local::contiguous_strides(region.count, local::itemsize(info_.dtype));
    Piece piece{local::Dims::filled(region.ndim(), 0), region.count, scratch.data(), strides};
    if (region.ndim() > 0) piece.count[0] = 1;
    for (int64_t i = 0; i < (region.ndim() > 0 ? region.count[0] : 1); ++i) {
      if (region.ndim() > 0) {
        piece.start[0] = i;
        piece.data = scratch.data() + i * strides[0];
      }
      consume(piece);
    }
  }
  int64_t bytes_read() const override { return 0; }

 private:
  io::DatasetInfo info_;
  std::vector<std::byte> bytes_;
};

}  // namespace quarry::testing
