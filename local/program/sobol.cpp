#include "quarry/local/program/sobol.h"

#include <array>
#include <bit>

#include "quarry/local/program/op_functions.h"

namespace quarry::local {

// J. Matousek, On the L2-discrepancy for anchored boxes (1998): every digit becomes itself plus a random combination of
// the digits above it, which is a matrix applied to the direction numbers, and a random digit is added to it.
template <class T>
T scramble_directions(std::span<T, sizeof(T) * 8> directions, uint64_t seed, int64_t dimension) {
  constexpr int kBits = sizeof(T) * 8;
  const auto random = [&](int row) {
    return static_cast<T>(fn::random_bits<uint64_t>(dimension * (kBits + 1) + row, seed, /*stream=*/0) >> (64 - kBits));
  };
  std::array<T, sizeof(T) * 8> rows;
  for (int row = 0; row < kBits; ++row) {
    const T digit = T{1} << (kBits - 1 - row);
    rows[static_cast<size_t>(row)] = (random(row) & ~(digit | (digit - 1))) | digit;
  }
  for (T& direction : directions) {
    T result = 0;
    for (const T row : rows) result = static_cast<T>(result << 1 | (std::popcount(row & direction) & 1));
    direction = result;
  }
  return random(kBits);
}

template uint32_t scramble_directions<uint32_t>(std::span<uint32_t, 32>, uint64_t, int64_t);
template uint64_t scramble_directions<uint64_t>(std::span<uint64_t, 64>, uint64_t, int64_t);

}  // namespace quarry::local
