// Sobol's sequence in the order of the Gray code, as cuRAND: point i is the exclusive or of the direction numbers of
// the bits of i ^ (i >> 1). Bytes moved: those written.
#include "quarry/local/cpu/sobol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/program/sobol.h"

namespace quarry::local {
namespace cpu {
namespace {

#include "quarry/local/cpu/sobol_numbers.inl"

// The primitive polynomials over GF(2) of degree 1, 2, ...; they take the dimensions from the second on in this order.
constexpr std::array<int, 13> kPolynomials{1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630};

// Reads kSobolNumbers.
class Numbers {
 public:
  uint64_t take(int bits) {
    uint64_t value = 0;
    for (int i = 0; i < bits; ++i, ++at_) value |= (kSobolNumbers[at_ / 64] >> (at_ % 64) & 1) << i;
    return value;
  }

 private:
  size_t at_ = 0;
};

template <class T>
using Directions = std::array<T, sizeof(T) * 8>;  // of the bits of a position, lowest first

// Of the first `count` dimensions.
template <class T>
std::vector<Directions<T>> direction_numbers(int64_t count) {
  constexpr int kBits = sizeof(T) * 8;
  std::vector<Directions<T>> all(static_cast<size_t>(count));
  for (int i = 0; i < kBits; ++i) all[0][static_cast<size_t>(i)] = T{1} << (kBits - 1 - i);
  Numbers numbers;
  size_t dimension = 1;
  for (size_t s = 1; s <= kPolynomials.size(); ++s) {
    for (int left = kPolynomials[s - 1]; left > 0 && dimension < all.size(); --left, ++dimension) {
      Directions<T>& v = all[dimension];
      const uint64_t inner = numbers.take(static_cast<int>(s) - 1);
      for (size_t i = 0; i < s; ++i) {
        const uint64_t m = numbers.take(static_cast<int>(i)) << 1 | 1;
        v[i] = static_cast<T>(m) << (kBits - 1 - static_cast<int>(i));
      }
      for (size_t i = s; i < v.size(); ++i) {
        v[i] = v[i - s] ^ (v[i - s] >> s);
        for (size_t k = 1; k < s; ++k)
          if (inner >> (s - 1 - k) & 1) v[i] ^= v[i - k];
      }
    }
  }
  return all;
}

// Points [first, first + count) of a dimension. They share what lies above the lowest bits of their positions.
template <class T>
void write_points(const Directions<T>& v, T shift, uint64_t first, int64_t count, T* out) {
  constexpr int kLowBits = 8;
  constexpr uint64_t kLow = 1 << kLowBits;
  std::array<T, kLow> low{};
  for (uint64_t i = 0; i < kLow; ++i)
    for (int bit = 0; bit < kLowBits; ++bit)
      if ((i ^ (i >> 1)) >> bit & 1) low[i] ^= v[static_cast<size_t>(bit)];
  const uint64_t end = first + static_cast<uint64_t>(count);
  for (uint64_t i = first; i != end;) {
    const uint64_t above = i >> kLowBits, from = i % kLow, many = std::min(kLow - from, end - i);
    T base = shift;
    for (uint64_t gray = above ^ (above >> 1); gray != 0; gray &= gray - 1)
      base ^= v[static_cast<size_t>(std::countr_zero(gray)) + kLowBits];
    if (above & 1) base ^= v[kLowBits - 1];
    for (uint64_t k = 0; k < many; ++k) out[k] = base ^ low[from + k];
    out += many;
    i += many;
  }
}

template <class T>
void fill_points(const BitGenerator& bits, T* words, int64_t count, int threads) {
  constexpr int64_t kPoints = int64_t{1} << 15;  // of a unit of work
  std::vector<Directions<T>> directions = direction_numbers<T>(bits.dimensions);
  std::vector<T> shifts(directions.size());
  if (is_scrambled(bits.kind))
    for (size_t d = 0; d < shifts.size(); ++d)
      shifts[d] = scramble_directions<T>(directions[d], bits.seed, static_cast<int64_t>(d));
  const int64_t points = count / bits.dimensions, pieces = (points + kPoints - 1) / kPoints;
  const int64_t units = pieces * bits.dimensions;
  const int64_t most = threads > 0 ? std::min(threads, arena_threads()) : arena_threads();
  const auto slots = static_cast<int>(std::clamp<int64_t>(count / kPoints, 1, most));
  for_each_unit(units, slots, [&](int64_t unit, int) {
    const int64_t dimension = unit / pieces, begin = unit % pieces * kPoints;
    const auto d = static_cast<size_t>(dimension);
    write_points(directions[d], shifts[d], bits.offset + static_cast<uint64_t>(begin),
                 std::min(kPoints, points - begin), words + dimension * points + begin);
  });
}

class CpuRandomWords final : public RandomWords {
 public:
  void check(const BitGenerator& bits) override {
    if (!is_quasi_random(bits.kind)) throw NotSupported(fmt::format("{} needs a GPU", name(bits.kind)));
    if (bits.dimensions > kSobolDimensions) {
      throw NotSupported(fmt::format("{} of {} dimensions needs a GPU: the CPU has direction numbers of {}",
                                     name(bits.kind), bits.dimensions, kSobolDimensions));
    }
  }
  void fill(const BitGenerator& bits, void* words, int64_t count, const ExecContext& context) override {
    check(bits);
    if (count == 0) return;
    if (word_size(bits.kind) == 4)
      fill_points(bits, static_cast<uint32_t*>(words), count, context.threads);
    else
      fill_points(bits, static_cast<uint64_t*>(words), count, context.threads);
  }
};

}  // namespace

}  // namespace cpu

RandomWords& cpu_random_words() {
  static cpu::CpuRandomWords instance;
  return instance;
}

}  // namespace quarry::local
