// What is fuzzed: parsers and decoders, each with all that can be asked of it, on bytes that nobody has checked. The
// programs are scripts/fuzz's (libFuzzer) and test_fuzz, which replays what it found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace quarry::test {

struct Target {
  std::string_view name;
  // Whether the bytes are right from begin to end. quarry's errors are caught; whatever else is wrong ends the process.
  bool (*run)(std::span<const std::byte> bytes);
  // Right ones, to begin from.
  std::vector<std::vector<std::byte>> (*seeds)();
  bool checked = false;  // it reads blocks with HDF5's checksums of metadata: mutants of right ones get right ones
};
std::span<const Target> targets();

// The tables of the files beside this.
std::span<const Target> hdf5_targets();
std::span<const Target> decoder_targets();
std::span<const Target> format_targets();

// Takes what a target asks for besides the file or stream from the begin of its input; zeros where it ends early.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : left_(bytes) {}
  uint64_t number(size_t width) {
    uint64_t value = 0;
    const size_t there = std::min(width, left_.size());
    for (size_t i = there; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(left_[i]);
    left_ = left_.subspan(there);
    return value;
  }
  uint32_t u8() { return static_cast<uint32_t>(number(1)); }
  uint32_t u16() { return static_cast<uint32_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  std::span<const std::byte> rest() const { return left_; }

 private:
  std::span<const std::byte> left_;
};

// The other way.
class Output {
 public:
  Output& number(uint64_t value, size_t width) {
    for (size_t i = 0; i < width; ++i) bytes_.push_back(static_cast<std::byte>(value >> 8 * i));
    return *this;
  }
  Output& u8(uint64_t value) { return number(value, 1); }
  Output& u16(uint64_t value) { return number(value, 2); }
  Output& u32(uint64_t value) { return number(value, 4); }
  Output& append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Output& append(std::string_view text) { return append(std::as_bytes(std::span(text))); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace quarry::test
