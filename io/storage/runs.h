// Writing many short runs with few calls of the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "quarry/io/byte_file.h"

namespace quarry::io {

// Collects runs that follow each other in the file into gathered writes. Short ones are copied together first: the
// kernel takes long for each, and lets one thread at a time write to a file.
class Runs {
 public:
  explicit Runs(const ByteFile& file) : file_(file) {}

  void add(int64_t offset, const std::byte* from, int64_t bytes) {
    const bool is_short = bytes <= kShort;
    if (count_ == kBuffers || (count_ > 0 && offset != end_) || (is_short && packed_ + bytes > kPacked)) flush();
    if (count_ == 0) begin_ = end_ = offset;
    end_ += bytes;
    if (is_short) {
      if (!pack_) pack_ = std::make_unique_for_overwrite<std::byte[]>(kPacked);
      std::memcpy(pack_.get() + packed_, from, static_cast<size_t>(bytes));
      from = pack_.get() + packed_;
      packed_ += bytes;
    }
    if (count_ > 0) {
      iovec& last = buffers_[count_ - 1];
      if (static_cast<const std::byte*>(last.iov_base) + last.iov_len == from) {
        last.iov_len += static_cast<size_t>(bytes);
        return;
      }
    }
    buffers_[count_++] = {const_cast<std::byte*>(from), static_cast<size_t>(bytes)};
  }

  void flush() {
    if (count_ > 0) file_.write_at(begin_, std::span(buffers_, count_));
    count_ = 0;
    packed_ = 0;
  }

 private:
  static constexpr size_t kBuffers = 1024;  // IOV_MAX on Linux
  static constexpr int64_t kShort = 4096, kPacked = 256 << 10;
  const ByteFile& file_;
  iovec buffers_[kBuffers];
  size_t count_ = 0;
  std::unique_ptr<std::byte[]> pack_;
  int64_t packed_ = 0;
  int64_t begin_ = 0, end_ = 0;
};

}  // namespace quarry::io
