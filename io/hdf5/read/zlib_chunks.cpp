// Chunks of deflate, with shuffling below and checksums above it or without, for devices.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "quarry/io/hdf5/filters.h"
#include "quarry/io/hdf5/read/hdf5_dataset.h"
#include "quarry/io/storage/trace.h"
#include "quarry/io/zlib_chunks.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::io::hdf5 {
namespace {

local::StreamStatus decode_on_host(const local::EncodedStream& stream) {
  static const std::vector<Filter> deflate{{Filter::Kind::deflate, 0, "deflate"}};
  try {
    decode_chunk(deflate, /*mask=*/0, /*itemsize=*/1, {stream.from, static_cast<size_t>(stream.bytes)},
                 {stream.to, static_cast<size_t>(stream.to_bytes)}, {});
    return local::StreamStatus::good;
  } catch (const local::IoError&) {
    return local::StreamStatus::damaged;
  }
}

}  // namespace

class Hdf5Dataset::Streams final : public ZlibChunks {
 public:
  Streams(const Hdf5Dataset& dataset, bool shuffled) : dataset_(dataset) {
    layout_ = {dataset.block_bytes_, dataset.stored_.storage.index.largest(), shuffled};
  }

  const Layout& layout() const override { return layout_; }

  std::vector<Part> parts(const local::Region& region) const override {
    const AscendingRegion ascending(region, dataset_.stored_.info.shape);
    PartCursor cursor(ascending, dataset_.stored_.info.shape, dataset_.block_);
    std::vector<Part> parts;
    for (io::Part part; cursor.next(part);) parts.push_back({part.number, part.first, part.at, part.count});
    return parts;
  }

  local::StreamDecoder::OnHost on_host() const override { return &decode_on_host; }

  Stored read(int64_t number, std::span<std::byte> room) const override {
    const std::optional<ChunkEntry> entry = dataset_.find(number);
    const std::span<std::byte> chunk = room.first(static_cast<size_t>(layout_.chunk_bytes));
    if (!entry) {
      const std::span<const std::byte> fill = dataset_.stored_.storage.fill;
      for (size_t at = 0; at < chunk.size(); at += fill.size())
        std::memcpy(chunk.data() + at, fill.data(), fill.size());
      return {chunk, false};
    }
    if (const auto kept = dataset_.kept_.get()) kept->note_read(number, entry->bytes);
    if (entry->mask != 0) {  // some of the filters were not applied
      const std::span<std::byte> scratch = room.last(static_cast<size_t>(scratch_bytes()));
      const std::span<std::byte> stored = scratch.first(entry->bytes);
      dataset_.load(entry->address, stored);
      dataset_.decode(*entry, stored.data(), chunk,
                      scratch.subspan(static_cast<size_t>(aligned(layout_.stored_bytes))));
      return {chunk, false};
    }
    const std::span<std::byte> stored = room.first(entry->bytes);
    dataset_.load(entry->address, stored);
    try {
      return {without_checksums(dataset_.stored_.info.filters, stored), true};
    } catch (const local::IoError& error) {
      dataset_.refuse_chunk(number, error.what());
    }
  }

  void refuse(int64_t number, local::StreamStatus status) const override {
    dataset_.refuse_chunk(number, reason_of(status));
  }

 private:
  static int64_t aligned(int64_t bytes) { return local::align_up(bytes, local::kAllocationAlignment); }
  int64_t scratch_bytes() const override {
    return aligned(layout_.stored_bytes) + decode_scratch_bytes(dataset_.stored_.info.filters, layout_.chunk_bytes);
  }

  const Hdf5Dataset& dataset_;
  Layout layout_;
};

std::unique_ptr<ZlibChunks> Hdf5Dataset::make_streams() const {
  const Storage& storage = stored_.storage;
  const bool plain = dense() && storage.bits.precision == 0 && storage.array_axes == 0 && record_ == item_ && !bools_;
  if (storage.kind != Storage::Kind::chunked || library_ || !plain) return nullptr;
  const std::optional<int64_t> shuffled = shuffled_below_deflate(stored_.info.filters, record_);
  if (!shuffled || (*shuffled != 1 && *shuffled != item_)) return nullptr;
  return std::make_unique<Streams>(*this, *shuffled != 1);
}

}  // namespace quarry::io::hdf5
