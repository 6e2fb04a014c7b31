// A running 64-bit hash: of nodes, operators and plans, the same on every rank.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "quarry/chunked/grid/grid.h"

namespace quarry::op {

struct Hash {
  uint64_t value = 0x9e3779b97f4a7c15u;
  // The finaliser of splitmix64 over a running value.
  Hash& add(uint64_t x) {
    uint64_t z = value ^ (x + 0x9e3779b97f4a7c15u + (value << 6) + (value >> 2));
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    value = z ^ (z >> 31);
    return *this;
  }
  Hash& add(int64_t x) { return add(static_cast<uint64_t>(x)); }
  Hash& add(int x) { return add(static_cast<uint64_t>(static_cast<int64_t>(x))); }
  Hash& add(bool x) { return add(static_cast<uint64_t>(x)); }
  Hash& add(double x) { return add(std::bit_cast<uint64_t>(x)); }
  Hash& add(const Dims& dims) {
    add(dims.size());
    for (int64_t d : dims) add(d);
    return *this;
  }
  Hash& add_bytes(const void* data, size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(data);
    add(static_cast<uint64_t>(bytes));
    for (; bytes >= 8; bytes -= 8, p += 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      add(word);
    }
    uint64_t rest = 0;
    if (bytes > 0) std::memcpy(&rest, p, bytes);  // of no bytes, p may be null
    return add(rest);
  }
  Hash& add(std::string_view text) { return add_bytes(text.data(), text.size()); }
  Hash& add(const Grid& grid) { return add(grid.hash()); }
};

}  // namespace quarry::op
