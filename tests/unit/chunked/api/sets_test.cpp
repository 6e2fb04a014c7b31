// Distinct elements and set operations are those of local arrays, however the arrays are cut.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/beyond_memory.h"
#include "tests/support/chunked_values.h"
#include "tests/support/cuts.h"

namespace quarry {
namespace {

using local::NdArray;
using testing::expect_same;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class A>
using Results = std::vector<std::pair<std::string, A>>;

#define QUARRY_CASE(...) results.emplace_back(#__VA_ARGS__, __VA_ARGS__);
#define QUARRY_CASES(...) \
  for (const auto& each : __VA_ARGS__) results.emplace_back(#__VA_ARGS__, each);

template <class A>
Results<A> uniques(const A& x) {
  Results<A> results;
  QUARRY_CASE(unique(x))
  QUARRY_CASE(unique(x, std::nullopt, false))
  QUARRY_CASES(unique(x, return_index))
  QUARRY_CASES(unique(x, return_inverse))
  QUARRY_CASES(unique(x, return_counts))
  QUARRY_CASES(unique(x, return_counts, return_index, return_inverse))
  const auto all = unique_all(x);
  QUARRY_CASE(all.values)
  QUARRY_CASE(all.indices)
  QUARRY_CASE(all.inverse_indices)
  QUARRY_CASE(all.counts)
  QUARRY_CASE(unique_counts(x).values)
  QUARRY_CASE(unique_counts(x).counts)
  QUARRY_CASE(unique_inverse(x).values)
  QUARRY_CASE(unique_inverse(x).inverse_indices)
  QUARRY_CASE(unique_values(x))
  return results;
}

template <class A>
Results<A> sets(const A& x, const A& y) {
  Results<A> results;
  QUARRY_CASE(union1d(x, y))
  QUARRY_CASE(intersect1d(x, y))
  QUARRY_CASES(intersect1d(x, y, return_indices))
  QUARRY_CASE(setdiff1d(x, y))
  QUARRY_CASE(setdiff1d(x, y, true))
  QUARRY_CASE(setxor1d(x, y))
  QUARRY_CASE(intersect1d(unique(x), unique(y), true))
  QUARRY_CASES(intersect1d(unique(x), unique(y), return_indices, true))
  QUARRY_CASE(setxor1d(unique(x), unique(y), true))
  return results;
}

void expect_same(const Results<Array>& got, const Results<NdArray>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) expect_same(got[i].second, expected[i].second, got[i].first + " of " + what);
}

// With ties, both zeros and NaN where there are any.
NdArray numbers(const Dims& shape, DType dtype, uint64_t seed) {
  const NdArray x = local::round(local::default_rng(seed).normal(0, 3, local::Ints(shape)));
  if (!local::is_float(dtype) && !local::is_complex(dtype)) return local::abs(x).astype(dtype);
  const NdArray kind = local::default_rng(seed + 1).integers(0, 9, local::Ints(shape));
  const NdArray real = local::where(kind == 0, kNan, local::where(kind == 1, -0.0, local::where(kind == 2, 0.0, x)));
  if (local::is_float(dtype)) return real.astype(dtype);
  const NdArray imag = local::where(kind == 3, kNan, local::remainder(x, 2.0));
  return (real + imag * std::complex<double>(0, 1)).astype(dtype);
}

class Sets : public testing::OnDeviceKinds {};

TEST_P(Sets, DistinctElementsAreTheLocalOnesOnAnyChunks) {
  const Runtime runtime(options("64MiB"));
  std::mt19937 random(1);
  for (const Dims& shape : {Dims{61}, Dims{7, 9}, Dims{}, Dims{1}, Dims{0, 3}}) {
    for (const DType dtype : {f64, c128, i64, f32, f16, u8, DType::bool_}) {
      if (!on_cpu() && dtype != f64 && dtype != c128) continue;
      const NdArray x = numbers(shape, dtype, 5);
      const Results<NdArray> expected = uniques(x);
      for (const Array& cut : testing::cuts(x, random))
        expect_same(uniques(cut), expected, cut.repr() + " of " + x.to_string());
    }
  }
}

TEST_P(Sets, DistinctSlicesAreTheLocalOnes) {
  const Runtime runtime(options("64MiB"));
  std::mt19937 random(2);
  for (const Dims& shape : {Dims{12, 2}, Dims{2, 3, 20}, Dims{9}, Dims{3, 0}, Dims{0, 2}}) {
    for (const DType dtype : {f64, i32, c64}) {
      const NdArray x = local::round(numbers(shape, dtype, 7).astype(dtype) / 3).astype(dtype);
      for (int64_t axis = -1; axis < x.ndim(); ++axis) {
        for (const Array& cut : testing::cuts(x, random)) {
          const std::string what = cut.repr() + ", axis " + std::to_string(axis) + " of " + x.to_string();
          expect_same(unique(cut, axis), local::unique(x, axis), what);
          const auto expected = std::get<local::ArrayTuple>(local::ops::unique(x, true, true, true, axis));
          const std::vector<Array> got = detail::unique(cut, {true, true, true}, axis, true);
          ASSERT_EQ(got.size(), expected.size());
          for (size_t i = 0; i < got.size(); ++i) expect_same(got[i], expected[i], std::to_string(i) + " of " + what);
        }
      }
    }
  }
}

TEST_P(Sets, OperationsAreTheLocalOnes) {
  const Runtime runtime(options("64MiB"));
  std::mt19937 random(3);
  for (const auto& [one, other] :
       {std::pair(f64, f64), std::pair(f64, i32), std::pair(i64, u8), std::pair(c128, f64)}) {
    for (const Dims& shape : {Dims{40}, Dims{5, 4}, Dims{}, Dims{0}}) {
      const NdArray x = numbers({31}, one, 11), y = numbers(shape, other, 12);
      for (const auto& [a, b] : {std::pair(x, y), std::pair(y, x)}) {
        const Results<NdArray> expected = sets(a, b);
        for (int i = 0; i < 3; ++i) {
          const Array cut_a = testing::cut(a, random), cut_b = testing::cut(b, random);
          expect_same(sets(cut_a, cut_b), expected, a.to_string() + " and " + b.to_string());
        }
      }
    }
  }
  // int64 and uint64 promote to float64, which does not tell these apart.
  const NdArray large = local::NdArray{int64_t{1} << 62, (int64_t{1} << 62) + 1, int64_t{-1}};
  const Array a = Array::from_local(large).rechunk({1}), b = Array::from_local(large[":1"_s].astype(u64));
  expect_same(setdiff1d(a, b), local::setdiff1d(large, large[":1"_s].astype(u64)), "int64 and uint64");
}

// States of many chunks meet in several levels, and most of them have more room than elements.
TEST_P(Sets, OfManyChunks) {
  const Runtime runtime(options("64MiB"));
  const NdArray few = local::remainder(local::arange(6000) * 7919, 37), many = local::remainder(few * 7919, 5003);
  for (const NdArray& x : {few, many, local::arange(3000)}) {
    for (const int64_t chunk : {7, 100}) {
      const Array cut = Array::from_local(x).rechunk({chunk});
      const auto got = unique(cut, return_index, return_inverse, return_counts);
      const auto expected = local::unique(x, return_index, return_inverse, return_counts);
      for (size_t i = 0; i < 4; ++i) expect_same(got[i], expected[i], std::to_string(i));
    }
  }
}

// What the first chunk lets expect is too little for the others.
TEST_P(Sets, OfChunksThatDiffer) {
  const Runtime runtime(options("64MiB"));
  const NdArray x = local::concatenate({local::zeros(1000, i64), local::arange(20000)});
  const auto got = unique(Array::from_local(x).rechunk({1000}), return_index, return_counts);
  const auto expected = local::unique(x, return_index, return_counts);
  for (size_t i = 0; i < 3; ++i) expect_same(got[i], expected[i], std::to_string(i));
}

// Narrow elements take much less than their positions.
TEST_P(Sets, OfNarrowElementsHaveTheirScratch) {
  const Runtime runtime(options("256MiB"));
  constexpr int64_t n = 1 << 20;
  const NdArray x = local::remainder(local::arange(n), 100).astype(i8);
  const auto got = unique(Array::from_local(x).rechunk({n / 2}), return_index, return_inverse, return_counts);
  expect_same(got[0], local::arange(100).astype(i8), "values");
  expect_same(got[1], local::arange(100), "first positions");
  expect_same(got[2][slice(n - 2, n)], local::remainder(local::arange(n - 2, n), 100), "places");
  EXPECT_EQ(sum(got[3]).item<int64_t>(), n);
  EXPECT_EQ(argsort(Array::from_local(x))[n - 1].item<int64_t>(), local::argsort(x)[n - 1].item<int64_t>());
  EXPECT_EQ(topk(Array::from_local(x), 3).to_host().to_string(), "[99 99 99]");
}

// They are sorted by positions, which takes far more than the elements.
TEST_P(Sets, OfComplexNumbersHaveTheirScratch) {
  const Runtime runtime(options("64MiB"));
  for (const DType dtype : {DType::complex64, DType::complex128}) {
    const int64_t n = 20000;
    const NdArray numbers = local::arange(n).astype(dtype) * std::complex<double>(0, 1);
    const NdArray x = numbers + local::remainder(local::arange(n) * 7919, n), y = x[slice(n / 2, n)] + 1;
    const Array cut = Array::from_local(x).rechunk({1000}), other = Array::from_local(y).rechunk({3000});
    const std::string of = std::string(" of ") + local::name(dtype);
    expect_same(unique(cut), local::unique(x), "unique" + of);
    const auto got = unique(cut, return_index, return_inverse, return_counts);
    const auto wanted = local::unique(x, local::return_index, local::return_inverse, local::return_counts);
    for (size_t i = 0; i < 4; ++i) expect_same(got[i], wanted[i], "part " + std::to_string(i) + of);
    expect_same(intersect1d(cut, other), local::intersect1d(x, y), "intersect1d" + of);
    expect_same(setdiff1d(cut, other), local::setdiff1d(x, y), "setdiff1d" + of);
    expect_same(setxor1d(cut, other), local::setxor1d(x, y), "setxor1d" + of);
    expect_same(union1d(cut, other), local::union1d(x, y), "union1d" + of);
    expect_same(isin(cut, other), local::isin(x, y), "isin" + of);
  }
}

// By a sort, with any number of them.
TEST_P(Sets, OfMoreElementsThanTheBudgetHolds) {
  const int64_t n = on_cpu() ? 200000 : 60000;
  const NdArray x = local::remainder(local::arange(2 * n) * 7919, n);
  const NdArray special = local::where(x == 5, kNan, local::where(x % 1000 == 7, -0.0, x.astype(f64)));
  testing::BeyondMemory arrays;
  arrays.write("x", x);
  arrays.write("special", special);
  {
    const Runtime runtime(options("2MiB"));
    for (const auto& [name, all] : {std::pair("x", x), std::pair("special", special)}) {
      const std::string with = std::string(" of ") + name;
      const Array cut = arrays.open(name), rows = reshape(cut, {n / 10, 20});
      arrays.expect(unique(cut), local::unique(all), "unique" + with);
      const auto got = unique(cut, return_index, return_inverse, return_counts);
      const auto wanted = local::unique(all, local::return_index, local::return_inverse, local::return_counts);
      for (size_t i = 0; i < 4; ++i) arrays.expect(got[i], wanted[i], "part " + std::to_string(i) + with);
      arrays.expect(unique_counts(rows).counts, local::unique_counts(all).counts, "NaN apart" + with);
      arrays.expect(unique_inverse(rows).inverse_indices,
                    local::unique_inverse(all.reshape({n / 10, 20})).inverse_indices, "NaN apart" + with);
    }
    const Array cut = arrays.open("x");
    arrays.expect(unique(cut % 1000), local::arange(1000), "what fits");
    arrays.expect(unique(cut >= n / 4, return_counts)[1], {n / 2, 3 * n / 2}, "of two");
    EXPECT_LE(runtime.statistics().peak_device_bytes, runtime.memory_bytes());
  }
  arrays.check();
}

// Whatever the budget is beside the chunks that a sort makes: narrow elements have most of them in a chunk.
TEST_P(Sets, OfNarrowElementsInAnyBudget) {
  const int64_t n = on_cpu() ? 400000 : 40000;
  const NdArray x = local::remainder(local::arange(n) * 7919, n);
  for (const DType dtype : {DType::float32, i16}) {
    const NdArray narrow = x.astype(dtype), wanted = local::unique(narrow);
    for (const char* budget : {"2MiB", "3MiB", "4MiB", "6MiB", "8MiB"}) {
      const Runtime runtime(options(budget));
      const Array a = (arange(n) * 7919 % n).astype(dtype);
      EXPECT_EQ(unique(a).size(), wanted.size()) << budget;
      EXPECT_EQ(sum(isin(a, a[slice(0, n, 2)])).item<int64_t>(),
                local::sum(local::isin(narrow, narrow[slice(0, n, 2)])).item<int64_t>())
          << budget;
    }
  }
}

TEST_P(Sets, SetsOfMoreElementsThanTheBudgetHolds) {
  const int64_t n = on_cpu() ? 120000 : 40000;
  const NdArray x = local::remainder(local::arange(n) * 7919, n);
  const NdArray y = (3 * local::flip(local::arange(n)) - n / 2).astype(f64);
  testing::BeyondMemory arrays;
  arrays.write("x", x);
  arrays.write("y", y);
  {
    const Runtime runtime(options("2MiB"));
    const Array a = arrays.open("x"), b = arrays.open("y");
    arrays.expect(union1d(a, b), local::union1d(x, y), "union1d");
    arrays.expect(intersect1d(a, b), local::intersect1d(x, y), "intersect1d");
    const auto got = intersect1d(a, b, return_indices);
    const auto wanted = local::intersect1d(x, y, local::return_indices);
    for (size_t i = 0; i < 3; ++i) arrays.expect(got[i], wanted[i], "intersect1d, part " + std::to_string(i));
    arrays.expect(setdiff1d(a, b), local::setdiff1d(x, y), "setdiff1d");
    arrays.expect(setxor1d(a, b), local::setxor1d(x, y), "setxor1d");
    EXPECT_LE(runtime.statistics().peak_device_bytes, runtime.memory_bytes());
  }
  arrays.check();
}

// Few columns, and more than are sorted at once; rows that differ in any of them, and some that are equal.
TEST_P(Sets, OfMoreRowsThanTheBudgetHolds) {
  const int64_t n = on_cpu() ? 60000 : 12000;
  testing::BeyondMemory arrays;
  Results<NdArray> all;
  for (const int64_t width : {1, 2, 11}) {
    const NdArray row = local::remainder(local::arange(n) * 7919, n / 2), column = local::arange(width);
    // Each row in one column of its own.
    const NdArray x = local::where(local::remainder(row, width).reshape({n, 1}) == column, row.reshape({n, 1}), 7);
    all.emplace_back(std::to_string(width) + " integers", x);
    const NdArray special = local::where(local::remainder(x, 97) == 5, kNan,
                                         local::where(local::remainder(x, 10) == 7, -0.0, x.astype(f64)));
    all.emplace_back(std::to_string(width) + " floats", special);
  }
  all.emplace_back("complex numbers", all[3].second.astype(c64) * std::complex<double>(0, 1));
  // NaN and both zeros in any column, before others.
  const NdArray kind = local::default_rng(3).integers(0, 4, local::Ints{n, 11});
  all.emplace_back("mixed", local::where(kind == 0, kNan, local::where(kind == 1, -0.0, (kind - 2).astype(f64))));
  // No task holds several rows.
  const NdArray wide = local::default_rng(4).integers(0, 3, local::Ints{20, 4000}).astype(f64);
  all.emplace_back("wide rows", local::concatenate({wide, wide[":5"_s]}, 0));
  for (const auto& [name, x] : all) arrays.write(name, x);
  {
    const Runtime runtime(options("2MiB"));
    for (const auto& [name, x] : all) {
      const Array cut = arrays.open(name);
      const std::vector<Array> got = detail::unique(cut, {true, true, true}, 0, true);
      const auto wanted = std::get<local::ArrayTuple>(local::ops::unique(x, true, true, true, 0));
      for (size_t i = 0; i < got.size(); ++i)
        arrays.expect(got[i], wanted[i], "part " + std::to_string(i) + " of " + name);
      arrays.expect(unique(moveaxis(cut, 0, 1), 1), local::unique(x.T(), 1), "columns of " + name);
    }
    const Array blocks = reshape(arrays.open("2 floats"), {n / 2, 2, 2})(_, "::-1"_s, _);
    arrays.expect(unique(blocks, 0), local::unique(all[3].second.reshape({n / 2, 2, 2})(_, "::-1"_s, _), 0), "blocks");
    EXPECT_LE(runtime.statistics().peak_device_bytes, runtime.memory_bytes());
  }
  arrays.check();
}

TEST_P(Sets, TheInverseIsLazyAndPutsTheArrayTogether) {
  const Runtime runtime(options("64MiB"));
  const Array x = Array{{3., kNan, 1.}, {1., -0.0, 0.0}}.rechunk({1, 2});
  const auto [values, inverse] = unique(x, return_inverse);
  EXPECT_EQ(inverse.shape(), x.shape());
  expect_same(values, {-0.0, 1., 3., kNan}, "values");
  expect_same(inverse, {{2, 3, 1}, {1, 0, 0}}, "inverse");
  EXPECT_TRUE(std::signbit(values.to_host().copy().data<const double>()[0]));
}

TEST(SetsErrors, AreTheLocalOnes) {
  const Array x = arange(12.).reshape(3, 4).rechunk({2, 2});
  EXPECT_THROW(unique(x, 2), local::IndexError);
  EXPECT_THROW(unique(x, -3), local::IndexError);
  EXPECT_THROW(unique(x[0][0], 0), local::IndexError);
}

QUARRY_ON_DEVICE_KINDS(Sets);

}  // namespace
}  // namespace quarry
