// Elements of any alignment as words of their size.
#pragma once

#include <cstdint>
#include <cstring>

#include "quarry/local/base/error.h"

namespace quarry::local::cpu {

struct Bytes16 {
  uint64_t low, high;
};

// Calls f with a word of that many bytes: 1, 2, 4, 8 or 16.
template <class F>
decltype(auto) with_width(int64_t itemsize, const F& f) {
  switch (itemsize) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      QUARRY_CHECK(itemsize == 16);
      return f(Bytes16{});
  }
}

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace quarry::local::cpu
