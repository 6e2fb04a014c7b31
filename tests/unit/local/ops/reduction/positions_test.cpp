// Extremes and their first positions against a plain loop, on every device: ties, NaN, signed zeros, any order of the
// axes in memory, rows and columns around the sizes that kernels cut at. And programs that write over what they read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

template <class T>
bool is_nan(T x) {
  return x != x;
}
template <class T>
bool further(T x, T y, bool greatest) {
  if (is_nan(y)) return false;
  return is_nan(x) || (greatest ? x > y : x < y);
}

// Few different values, so that most have equals.
template <class T>
std::vector<T> values(int64_t n, int variant) {
  std::mt19937 random(static_cast<unsigned>(n * 7 + variant));
  std::vector<T> result(static_cast<size_t>(n));
  for (T& x : result) x = static_cast<T>(random() % 5);
  if (variant == 1) {
    for (size_t i = 0; i < result.size(); i += 1 + random() % 400) {
      if constexpr (std::is_floating_point_v<T>)
        result[i] = random() % 3 == 0 ? std::numeric_limits<T>::quiet_NaN() : -std::numeric_limits<T>::infinity();
      else
        result[i] = std::numeric_limits<T>::lowest();
    }
  }
  if (variant == 2) std::fill(result.begin(), result.end(), static_cast<T>(3));
  return result;
}

class Positions : public test::OnDevice {
 protected:
  // Along the first (0), the second (1) or both axes (none) of a matrix in C or Fortran order.
  template <class T>
  static void check(int64_t rows, int64_t columns, int variant, bool transposed) {
    const std::vector<T> data = values<T>(rows * columns, variant);
    const NdArray stored = transposed ? from_vector(data, {columns, rows}) : from_vector(data, {rows, columns});
    const NdArray x = transposed ? stored.T() : stored;
    const auto at = [&](int64_t i, int64_t j) {
      return data[static_cast<size_t>(transposed ? j * rows + i : i * columns + j)];
    };
    for (const bool greatest : {true, false}) {
      for (const int axis : {-1, 0, 1}) {
        const Axes axes = axis < 0 ? Axes() : Axes(axis);
        const NdArray positions = reduce(greatest ? "argmax"_reduction : "argmin"_reduction, x, axes);
        const NdArray extremes = reduce(greatest ? "max"_reduction : "min"_reduction, x, axes);
        const auto found = to_vector<int64_t>(positions);
        const auto best = to_vector<T>(extremes);
        const int64_t results = axis < 0 ? 1 : axis == 0 ? columns : rows;
        const int64_t count = rows * columns / results;
        const auto element = [&](int64_t result, int64_t k) {
          return axis < 0 ? at(k / columns, k % columns) : axis == 0 ? at(k, result) : at(result, k);
        };
        for (int64_t r = 0; r < results; ++r) {
          int64_t expected = 0;
          for (int64_t k = 1; k < count; ++k)
            if (further(element(r, k), element(r, expected), greatest)) expected = k;
          ASSERT_EQ(found[static_cast<size_t>(r)], expected)
              << rows << " x " << columns << " variant " << variant << " axis " << axis << " transposed " << transposed;
          const T value = element(r, expected), got = best[static_cast<size_t>(r)];
          ASSERT_TRUE(got == value || (is_nan(got) && is_nan(value)))
              << rows << " x " << columns << " variant " << variant << " axis " << axis;
        }
      }
    }
  }
  template <class T>
  static void check_all() {
    for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 1}, {1, 7}, {5, 8}, {300, 3}, {2, 63}, {130, 129}, {40, 515}, {1037, 40}, {3, 5000}})
      for (int variant = 0; variant < 3; ++variant)
        for (const bool transposed : {false, true}) check<T>(rows, columns, variant, transposed);
  }
};
QUARRY_ON_EVERY_DEVICE(Positions);

TEST_P(Positions, Floats) {
  check_all<float>();
  check_all<double>();
}
TEST_P(Positions, Integers) {
  check_all<int8_t>();
  check_all<uint8_t>();
  check_all<int16_t>();
  check_all<int32_t>();
  check_all<uint64_t>();
  check_all<int64_t>();
}

// Reduced axes on both sides of one that is kept, contiguous and with gaps: the same bits.
TEST_P(Positions, AxesAroundAKeptOne) {
  const std::vector<double> data = values<double>(int64_t{9} * 37 * 701, 0);
  const NdArray x = from_vector(data, {9, 37, 701}) * 0.1;
  NdArray wide({9, 37, 2 * 701}, DType::float64);
  wide.fill(7);
  const NdArray gaps = wide[{ellipsis, Slice{std::nullopt, std::nullopt, 2}}];
  gaps.assign(x);
  for (const Reduction reduction : {"sum"_reduction, "max"_reduction, "var"_reduction}) {
    const auto sums = to_vector<double>(reduce(reduction, x, Axes({0, 2})));
    EXPECT_EQ(sums, to_vector<double>(reduce(reduction, gaps, Axes({0, 2}))));
    for (size_t j = 0; j < sums.size(); ++j) {
      const NdArray slice = x[{full_slice, static_cast<int64_t>(j)}];
      EXPECT_NEAR(sums[j], reduce(reduction, slice).item().as_double(), 1e-9);
    }
  }
}

class InPlace : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(InPlace);

TEST_P(InPlace, ResultsTakeTheArgumentsPlace) {
  for (const int64_t n : {int64_t{1}, int64_t{10}, int64_t{1000}, int64_t{5000}}) {
    std::vector<double> data(static_cast<size_t>(n));
    for (size_t i = 0; i < data.size(); ++i) data[i] = 0.37 * static_cast<double>(i % 2000) - 11;
    data.back() = 800;
    for (const Op op : {"negative"_op, "square"_op, "exp"_op, "expm1"_op, "sinh"_op, "log1p"_op, "sqrt"_op, "sin"_op}) {
      const NdArray x = from_vector(data), expected = apply(op, {x});
      apply(op, {x}, UfuncOptions{.out = x});
      const auto got = to_vector<double>(x), wanted = to_vector<double>(expected);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_TRUE(got[i] == wanted[i] || (is_nan(got[i]) && is_nan(wanted[i]))) << info(op).name << ' ' << i;
    }
    // The argument is read again after the result is known.
    const NdArray x = from_vector(data);
    const auto wanted = to_vector<double>(ops::add(ops::multiply(x, 3), x));
    Fused fused;
    const auto in = fused.input(x);
    fused.run_into(fused("add"_op, fused("multiply"_op, in, 3), in), x);
    EXPECT_EQ(to_vector<double>(x), wanted);
    // Bits of one dtype become those of another.
    const NdArray numbers = from_vector(data);
    const NdArray places = numbers.astype(DType::int64);
    apply("multiply"_op, {places, Scalar(2)}, UfuncOptions{.out = places});
    EXPECT_EQ(to_vector<int64_t>(places), to_vector<int64_t>(ops::multiply(numbers.astype(DType::int64), 2)));
  }
}

}  // namespace
}  // namespace quarry::local
