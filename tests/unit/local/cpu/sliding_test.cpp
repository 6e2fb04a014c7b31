// Sliding products: the definition, and the same bits at every instruction-set level and for every division of work.
#include "quarry/local/cpu/sliding.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

namespace quarry::local {
namespace {

struct Sizes {
  int64_t elements, taps, before, results;
};
constexpr Sizes kSizes[] = {{1, 1, 0, 1},       {5, 3, 2, 7},         {7, 7, 3, 7},
                            {1000, 3, 2, 1002}, {300, 300, 299, 599}, {1000, 600, 300, 1000},
                            {900, 257, 0, 644}, {64, 20, 19, 83},     {3000, 1030, 1029, 4029},
                            {70, 2, 1, 70},     {100, 90, 0, 11}};

std::vector<char> slid(cpu::SlidingLoop loop, DType dtype, const Sizes& sizes, const std::vector<char>& a,
                       const std::vector<char>& v, int64_t piece) {
  std::vector<char> out(static_cast<size_t>(sizes.results * itemsize(dtype)), 0x55);
  const SlidingProduct product{dtype,      a.data(),   sizes.elements, v.data(),
                               sizes.taps, out.data(), sizes.results,  sizes.before};
  for (int64_t i = 0; i < sizes.results; i += piece) loop(product, i, std::min(i + piece, sizes.results));
  return out;
}

template <class T>
void check(DType dtype) {
  for (const Sizes& sizes : kSizes) {
    const auto numbers = [](int64_t n, int64_t step) {
      std::vector<T> values;
      for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>(static_cast<double>(i * step % 23) - 7));
      return values;
    };
    const std::vector<T> x = numbers(sizes.elements, 5), y = numbers(sizes.taps, 7);
    const auto bytes = [](const std::vector<T>& values) {
      const char* const data = reinterpret_cast<const char*>(values.data());
      return std::vector<char>(data, data + values.size() * sizeof(T));
    };
    const std::vector<char> a = bytes(x), v = bytes(y);
    // Small whole numbers, whose sums are exact.
    std::vector<T> want(static_cast<size_t>(sizes.results), T(0));
    for (int64_t i = 0; i < sizes.results; ++i)
      for (int64_t t = 0; t < sizes.taps; ++t) {
        const int64_t at = i + t - sizes.before;
        if (at >= 0 && at < sizes.elements) {
          T& sum = want[static_cast<size_t>(i)];
          sum = static_cast<T>(sum + x[static_cast<size_t>(at)] * y[static_cast<size_t>(t)]);
        }
      }
    for (cpu::Level level : cpu::kLevels) {
      if (level > cpu::cpu_level()) continue;
      for (int64_t piece : {sizes.results, int64_t{256}, int64_t{33}}) {
        EXPECT_EQ(slid(cpu::sliding_loop(level, dtype), dtype, sizes, a, v, piece), bytes(want))
            << fmt::format("{} level {} pieces of {}: {} elements, {} taps", name(dtype), static_cast<int>(level) + 2,
                           piece, sizes.elements, sizes.taps);
      }
    }
  }
}

TEST(Sliding, SumsAsDefined) {
  check<uint8_t>(DType::uint8);
  check<int8_t>(DType::int8);
  check<int16_t>(DType::int16);
  check<uint32_t>(DType::uint32);
  check<int64_t>(DType::int64);
  check<float>(DType::float32);
  check<double>(DType::float64);
  check<std::complex<float>>(DType::complex64);
  check<std::complex<double>>(DType::complex128);
}

// Rounding shows the order of the sums.
template <class R>
void check_bits(DType dtype, int64_t parts) {
  for (const Sizes& sizes : kSizes) {
    const auto numbers = [&](int64_t n, double step) {
      std::vector<char> data(static_cast<size_t>(n * parts) * sizeof(R));
      for (int64_t i = 0; i < n * parts; ++i) {
        const R value = static_cast<R>(1.0 / (1.0 + step * static_cast<double>(i)) - 0.1);
        std::memcpy(&data[static_cast<size_t>(i) * sizeof(R)], &value, sizeof value);
      }
      return data;
    };
    const std::vector<char> a = numbers(sizes.elements, 0.37), v = numbers(sizes.taps, 0.73);
    const std::vector<char> want = slid(cpu::sliding_loop(cpu::kLevels[0], dtype), dtype, sizes, a, v, sizes.results);
    for (cpu::Level level : cpu::kLevels) {
      if (level > cpu::cpu_level()) continue;
      for (int64_t piece : {sizes.results, int64_t{33}})
        EXPECT_EQ(slid(cpu::sliding_loop(level, dtype), dtype, sizes, a, v, piece), want)
            << name(dtype) << " at " << sizes.elements << " elements, " << sizes.taps << " taps";
    }
  }
}
TEST(Sliding, BitsDependOnTheSizesOnly) {
  check_bits<float>(DType::float32, 1);
  check_bits<double>(DType::float64, 1);
  check_bits<float>(DType::complex64, 2);
  check_bits<double>(DType::complex128, 2);
}

// A missing element is no zero: it does not meet v's infinity.
TEST(Sliding, MissingElementsDoNotCount) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> a = {1, 2, 3}, v = {1, inf};
  std::vector<double> out(4);
  const SlidingProduct product{DType::float64, a.data(), 3, v.data(), 2, out.data(), 4, 1};
  for (cpu::Level level : cpu::kLevels) {
    if (level > cpu::cpu_level()) continue;
    cpu::sliding_loop(level, DType::float64)(product, 0, 4);
    EXPECT_EQ(out, (std::vector<double>{inf, inf, inf, 3}));
  }
}

}  // namespace
}  // namespace quarry::local
