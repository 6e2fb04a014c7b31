// Little byte streams: plain numbers, strings and shapes, and integers of varying length for sorted tables.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/base/shape.h"

namespace quarry::io {

class ByteWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void put_bytes(std::span<const std::byte> bytes) {
    put<int64_t>(static_cast<int64_t>(bytes.size()));
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void put_string(const std::string& text) { put_bytes(std::as_bytes(std::span(text.data(), text.size()))); }
  void put_dims(const local::Dims& dims) {
    put<int32_t>(dims.size());
    for (int64_t value : dims) put(value);
  }
  // Seven bits a byte, lowest first.
  void put_unsigned(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void put_signed(int64_t value) {
    put_unsigned((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  void put_view(std::string_view bytes) { bytes_ += bytes; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  std::string bytes_;
};

// Throws InternalError where the bytes end early: they come from another rank of the same program.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    QUARRY_CHECK(left() >= sizeof(T));
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::span<const std::byte> get_bytes() {
    const auto size = get<int64_t>();
    QUARRY_CHECK(size >= 0 && static_cast<uint64_t>(size) <= left());
    const auto* begin = reinterpret_cast<const std::byte*>(at_);
    at_ += size;
    return {begin, static_cast<size_t>(size)};
  }
  std::string get_string() {
    const auto bytes = get_bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  local::Dims get_dims() {
    local::Dims dims = local::Dims::filled(get<int32_t>());
    for (int64_t& value : dims) value = get<int64_t>();
    return dims;
  }
  uint64_t get_unsigned() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = get<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }
  int64_t get_signed() {
    const uint64_t value = get_unsigned();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  // The next bytes as they are.
  std::string_view get_view(size_t size) {
    QUARRY_CHECK(size <= left());
    const std::string_view view(at_, size);
    at_ += size;
    return view;
  }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

 private:
  const char* at_;
  const char* end_;
};

}  // namespace quarry::io
