// Bounds-checked reading of a file's little-endian fields.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {

[[noreturn]] inline void damaged(const std::string& what) { throw local::IoError("damaged: " + what); }

// Bytes [offset, offset + count) of the file; `what` names them in the error.
inline std::vector<std::byte> read_range(const ByteSource& file, int64_t offset, int64_t count, const char* what) {
  if (offset < 0 || count < 0 || offset > file.size() || count > file.size() - offset)
    damaged(fmt::format("{} at {} ({} bytes) lies outside of the file's {} bytes", what, offset, count, file.size()));
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  file.read_at(offset, bytes);
  return bytes;
}

// Walks over a block of bytes; reading past its end is damage.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const char* what) : bytes_(bytes), what_(what) {}
  size_t left() const { return bytes_.size() - at_; }
  size_t position() const { return at_; }
  std::span<const std::byte> take(size_t count) {
    if (count > left()) damaged(fmt::format("{} ends early", what_));
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  void skip(size_t count) { take(count); }
  uint64_t number(int width) {
    uint64_t value = 0;
    const auto bytes = take(static_cast<size_t>(width));
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
    return value;
  }
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  // An absolute address, kNoAddress where undefined (all ones).
  int64_t address(const FileFormat& format) {
    const uint64_t value = number(format.offset_bytes);
    const uint64_t none = format.offset_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * format.offset_bytes) - 1;
    if (value == none) return kNoAddress;
    if (value > static_cast<uint64_t>(INT64_MAX - format.base)) damaged(fmt::format("{} holds a wild address", what_));
    return static_cast<int64_t>(value) + format.base;
  }
  int64_t length(const FileFormat& format) {
    const uint64_t value = number(format.length_bytes);
    if (value > static_cast<uint64_t>(INT64_MAX)) damaged(fmt::format("{} holds a wild length", what_));
    return static_cast<int64_t>(value);
  }
  void signature(std::string_view text) {
    const auto bytes = take(text.size());
    if (std::memcmp(bytes.data(), text.data(), text.size()) != 0)
      damaged(fmt::format("{} does not begin with {}", what_, text));
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  const char* what_;
};

}  // namespace quarry::io::hdf5
