// Histograms and places in tables are those of local arrays, however the arrays are cut.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/cuts.h"
#include "tests/support/evaluate.h"
#include "tests/support/random_expressions.h"
#include "tests/support/runtime_on.h"

namespace quarry {
namespace {

using local::NdArray;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void expect_equal(const Array& got, const NdArray& expected, const std::string& what, double tolerance = 0) {
  const NdArray value = got.to_host();
  EXPECT_EQ(value.dtype(), expected.dtype()) << what;
  EXPECT_TRUE(testing::close(value, expected, tolerance, tolerance))
      << what << ":\n"
      << value.to_string() << "\nlocally " << expected.to_string();
}

void expect_equal(const std::pair<Array, Array>& got, const std::pair<NdArray, NdArray>& expected,
                  const std::string& what, double tolerance = 0) {
  expect_equal(got.first, expected.first, "counts, " + what, tolerance);
  expect_equal(got.second, expected.second, "edges, " + what);
}

TEST(Histograms, AreTheLocalOnesOnAnyChunks) {
  std::mt19937 random(1);
  for (const Dims& shape : {Dims{60}, Dims{7, 9}, Dims{}, Dims{0, 3}}) {
    const NdArray numbers = local::default_rng(1).normal(0, 10, local::Ints(shape));
    const NdArray weights = local::default_rng(2).random(local::Ints(shape));
    const NdArray edges{-20., -3., 0., 0., 4.5, 11.};
    for (const DType dtype : {f64, f32, i16, u8, DType::bool_}) {
      const NdArray x = (dtype == DType::uint8 ? local::absolute(numbers) : numbers).astype(dtype);
      for (const Array& cut : testing::cuts(x, random)) {
        const std::string what = cut.repr() + " of " + x.to_string();
        const Array w = testing::cut(weights, random);
        expect_equal(histogram(cut), local::histogram(x), what);
        expect_equal(histogram(cut, 7, {.range = {{-5, 10}}}), local::histogram(x, 7, {.range = {{-5, 10}}}), what);
        expect_equal(histogram(cut, Array::from_local(edges)), local::histogram(x, edges), what);
        expect_equal(histogram(cut, 4, {.range = {{-50, 50}}, .density = true}),
                     local::histogram(x, 4, {.range = {{-50, 50}}, .density = true}), what, 1e-15);
        expect_equal(histogram(cut, 4, {.weights = w}), local::histogram(x, 4, {.weights = weights}), what, 1e-13);
        expect_equal(histogram(cut, 4, {.weights = w * std::complex<double>(0, 2)}),
                     local::histogram(x, 4, {.weights = weights * std::complex<double>(0, 2)}), what, 1e-13);
        expect_equal(histogram_bin_edges(cut, "sturges"), local::histogram_bin_edges(x, "sturges"), what);
      }
    }
  }
  const NdArray missing{1., kNan, 3., 3.};
  expect_equal(histogram(Array::from_local(missing).rechunk({1}), 2, {.range = {{1, 3}}}),
               local::histogram(missing, 2, {.range = {{1, 3}}}), "NaN");
}

// More bins than are counted by reductions: every chunk is counted by itself.
TEST(Histograms, OfManyBins) {
  std::mt19937 random(4);
  for (const Dims& shape : {Dims{60}, Dims{5, 2, 6}, Dims{}}) {
    const NdArray numbers = local::default_rng(1).normal(0, 10, local::Ints(shape));
    const NdArray weights = local::default_rng(2).random(local::Ints(shape));
    for (const DType dtype : {f64, f32, f16, i16, u8, DType::bool_}) {
      const NdArray x = (dtype == DType::uint8 ? local::absolute(numbers) : numbers).astype(dtype);
      const NdArray edges = local::linspace(-20, 20, 6001);
      for (const Array& cut : testing::cuts(x, random)) {
        const std::string what = cut.repr() + " of " + x.to_string();
        expect_equal(histogram(cut, 500, {.range = {{-3, 19}}}), local::histogram(x, 500, {.range = {{-3, 19}}}), what);
        expect_equal(histogram(cut, Array::from_local(edges)), local::histogram(x, edges), what);
        expect_equal(histogram(cut, 300, {.range = {{-9, 9}}, .weights = testing::cut(weights, random)}),
                     local::histogram(x, 300, {.range = {{-9, 9}}, .weights = weights}), what, 1e-13);
      }
    }
  }
}

// Of more than a chunk, by passes.
TEST(Histograms, ByRulesOfLargeArrays) {
  std::mt19937 random(8);
  const testing::SmallChunks small(256);
  const NdArray numbers = local::default_rng(1).gamma(2.5, 7, {40, 25});
  for (const DType dtype : {f64, f32, i16, u8}) {
    const NdArray x = numbers.astype(dtype);
    const Array cut = testing::cut(x, random);
    for (const char* rule : {"auto", "doane", "fd", "rice", "scott", "sqrt", "sturges"}) {
      expect_equal(histogram(cut, rule), local::histogram(x, rule), rule);
      expect_equal(histogram(cut, rule, {.range = {{3, 20}}}), local::histogram(x, rule, {.range = {{3, 20}}}), rule);
      expect_equal(histogram(cut, rule, {.range = {{300, 2000}}}), local::histogram(x, rule, {.range = {{300, 2000}}}),
                   rule);
      expect_equal(histogram_bin_edges(cut * 0, rule), local::histogram_bin_edges(x * 0, rule), rule);
    }
  }
}

TEST(Histograms, CountIntegers) {
  std::mt19937 random(5);
  const NdArray k = local::remainder(local::arange(40) * 7, 23), w = local::default_rng(1).random(40);
  for (const DType dtype : {i64, u8, i16, u64, DType::bool_}) {
    const NdArray x = k.astype(dtype);
    for (const Array& cut : testing::cuts(x, random)) {
      expect_equal(bincount(cut), local::bincount(x), cut.repr());
      expect_equal(bincount(cut, std::nullopt, 100), local::bincount(x, std::nullopt, 100), cut.repr());
      expect_equal(bincount(cut, testing::cut(w, random)), local::bincount(x, w), cut.repr(), 1e-13);
      expect_equal(bincount(cut, testing::cut(w.astype(f32), random), 3), local::bincount(x, w.astype(f32), 3),
                   cut.repr(), 1e-13);
    }
  }
  {
    // Counts of several chunks.
    const testing::SmallChunks small(64);
    for (const Array& cut : testing::cuts(k, random)) {
      expect_equal(bincount(cut), local::bincount(k), cut.repr());
      expect_equal(bincount(cut, testing::cut(w, random), 31), local::bincount(k, w, 31), cut.repr(), 1e-13);
    }
  }
  expect_equal(bincount(zeros({0}), zeros({0}), 3), local::bincount(local::zeros({0}), local::zeros({0}), 3), "none");
  expect_equal(bincount(Array{5}.rechunk({1})), local::bincount(NdArray{5}), "one");
  const Array x = arange(6).rechunk({2});
  EXPECT_THROW(bincount(x - 1), local::InvalidArgument);
  EXPECT_THROW(bincount(reshape(x, {2, 3})), local::InvalidArgument);
  EXPECT_THROW(bincount(x[0]), local::InvalidArgument);
  EXPECT_THROW(bincount(x.astype(f64)), local::TypeError);
  EXPECT_THROW(bincount(x.astype(f32)), local::TypeError);
  EXPECT_THROW(bincount(x, std::nullopt, -1), local::InvalidArgument);
  EXPECT_THROW(bincount(x + (std::numeric_limits<int64_t>::max() - 5)), local::InvalidArgument);
  EXPECT_THROW(bincount(x, ones({5})), local::InvalidArgument);
  EXPECT_THROW(bincount(x, ones({6, 1})), local::InvalidArgument);
  EXPECT_THROW(bincount(x, ones({6}) * std::complex<double>(0, 1)), local::TypeError);
}

void expect_equal(const std::pair<Array, std::vector<Array>>& got,
                  const std::pair<NdArray, std::vector<NdArray>>& expected, const std::string& what) {
  expect_equal(got.first, expected.first, "counts, " + what, 1e-13);
  ASSERT_EQ(got.second.size(), expected.second.size()) << what;
  for (size_t i = 0; i < got.second.size(); ++i) expect_equal(got.second[i], expected.second[i], "edges, " + what);
}

TEST(Histograms, OfPointsAreTheLocalOnes) {
  std::mt19937 random(6);
  using local::ArrayTuple;
  const auto given = [](const NdArray& array) { return Array::from_local(array); };
  for (const DType dtype : {f64, f32, i16, DType::bool_}) {
    for (const int64_t n : {50, 1, 0}) {
      const NdArray points = local::default_rng(1).normal(0, 5, {n, 3}).astype(dtype);
      const NdArray weights = local::default_rng(2).random(n), first{-3., 0., 0.5, 4.}, second{-9., 9.};
      const std::vector<NdArray> columns{points(_, 0).copy(), points(_, 1).copy(), points(_, 2).copy()};
      const ArrayTuple tuple(columns.begin(), columns.end()), bins{first, local::full(Dims{}, 4), second};
      const std::vector<local::ops::BinRange> ranges{{}, {{-2, 7}}, {{0, 3}}}, all{{{-1, 1}}, {{-2, 7}}, {{0, 3}}};
      for (const Array& cut : testing::cuts(points, random)) {
        const std::string what = cut.repr() + " of " + points.to_string();
        const Array w = testing::cut(weights, random);
        std::vector<Array> cut_columns;
        for (const NdArray& column : columns) cut_columns.push_back(testing::cut(column, random));
        expect_equal(histogramdd(cut), local::histogramdd(points), what);
        expect_equal(histogramdd(cut_columns, int64_t{4}), local::histogramdd(tuple, int64_t{4}), what);
        expect_equal(histogramdd(cut, std::vector<Array>{given(first), given(bins[1]), given(second)}),
                     local::histogramdd(points, bins), what);
        expect_equal(histogramdd(cut, Array{2, 3, 5}, ranges), local::histogramdd(points, NdArray{2, 3, 5}, ranges),
                     what);
        expect_equal(histogramdd(cut_columns, int64_t{3}, all, {}, w),
                     local::histogramdd(tuple, int64_t{3}, all, {}, weights), what);
        expect_equal(histogramdd(cut(_, 0), int64_t{3}), local::histogramdd(columns[0], int64_t{3}), what);
        const auto check_pair = [&](const auto& got, const auto& expected) {
          expect_equal({std::get<0>(got), {std::get<1>(got), std::get<2>(got)}},
                       {std::get<0>(expected), {std::get<1>(expected), std::get<2>(expected)}}, "pair, " + what);
        };
        check_pair(histogram2d(cut_columns[0], cut_columns[1], 4),
                   local::ops::histogram2d(columns[0], columns[1], int64_t{4}));
        check_pair(histogram2d(cut_columns[0], cut_columns[1], given(first)),
                   local::ops::histogram2d(columns[0], columns[1], first));
        check_pair(histogram2d(cut_columns[0], cut_columns[1], std::vector<Array>{given(first), given(second)}),
                   local::ops::histogram2d(columns[0], columns[1], ArrayTuple{first, second}));
        if (n < 50) continue;
        expect_equal(histogramdd(cut, int64_t{3}, {}, true), local::histogramdd(points, int64_t{3}, {}, true), what);
      }
    }
  }
  const Array x = arange(6.).rechunk({4});
  expect_equal(histogramdd(std::vector<Array>{x[0], x[3]}),
               local::histogramdd(ArrayTuple{local::full(Dims{}, 0.), local::full(Dims{}, 3.)}), "numbers");
  EXPECT_THROW(histogramdd(reshape(x, {1, 2, 3})), local::InvalidArgument);
  EXPECT_THROW(histogramdd(std::vector<Array>{}), local::InvalidArgument);
  EXPECT_THROW(histogramdd(std::vector<Array>{x, x[slice(1, 6)]}), local::InvalidArgument);
  EXPECT_THROW(histogramdd(std::vector<Array>{x, x}, Array{2, 3, 4}), local::InvalidArgument);
  EXPECT_THROW(histogramdd(x, int64_t{0}), local::InvalidArgument);
  EXPECT_THROW(histogramdd(Array{1., kNan}), local::InvalidArgument);
  EXPECT_THROW(histogramdd(std::vector<Array>{x, x * std::complex<double>(0, 1)}), local::TypeError);
  EXPECT_THROW(histogramdd(x, int64_t{3}, {}, {}, ones({5})), local::InvalidArgument);
  EXPECT_THROW(histogram2d(x, arange(5.)), local::InvalidArgument);
  EXPECT_THROW(histogram2d(x[0], x), local::TypeError);
}

TEST(Histograms, RefuseWhatTheLocalOnesRefuse) {
  const Array x = arange(100.);
  EXPECT_THROW(histogram(x, -1), local::InvalidArgument);
  EXPECT_THROW(histogram(x, Array{3., 1.}), local::InvalidArgument);
  EXPECT_THROW(histogram(x, 3, {.range = {{3, 1}}}), local::InvalidArgument);
  EXPECT_THROW(histogram(x, 3, {.weights = arange(3.)}), local::InvalidArgument);
  EXPECT_THROW(histogram(Array{1., kNan}), local::InvalidArgument);
  EXPECT_THROW(histogram(x, "sturge"), local::InvalidArgument);
  EXPECT_THROW(histogram(x * std::complex<double>(0, 1)), local::TypeError);
  const testing::SmallChunks small(64);
  EXPECT_THROW(histogram(x, "stone"), local::NotSupported);
  EXPECT_THROW(histogram(x, "auto", {.weights = x}), local::TypeError);
}

TEST(Tables, PlaceElementsAsTheLocalOnes) {
  const testing::CpuRuntime runtime;
  std::mt19937 random(2);
  const NdArray table{-1., 0., 0., 2., kNan}, bins{0., 1., 2.5, 4.}, falling{4., 2.5, 1., 0.}, order{1, 0, 2};
  const NdArray unsorted{2., -1., 7.};
  const NdArray x =
      local::concatenate({local::default_rng(1).normal(1, 2, 30), NdArray{0., 2., kNan, 4., 2.5}}, 0).reshape({5, 7});
  for (const Array& cut : testing::cuts(x, random)) {
    for (const char* side : {"left", "right"}) {
      expect_equal(searchsorted(Array::from_local(table), cut, side), local::searchsorted(table, x, side), side);
      expect_equal(searchsorted(Array::from_local(unsorted), cut, side, Array::from_local(order)),
                   local::searchsorted(unsorted, x, side, order), side);
    }
    for (const NdArray& edges : {bins, falling})
      for (const bool right : {false, true})
        expect_equal(digitize(cut, Array::from_local(edges), right), local::digitize(x, edges, right), cut.repr());
    expect_equal(isin(cut, Array::from_local(bins)), local::isin(x, bins), cut.repr());
    expect_equal(isin(cut, {4, 2}, false, true), local::isin(x, {4, 2}, false, true), cut.repr());
    expect_equal(isin(cut, zeros({0})), local::isin(x, local::zeros({0})), cut.repr());
  }
  // Tables that are an axis of their own.
  const NdArray large = local::linspace(-3, 5, 50);
  const Array cut = testing::cut(x, random);
  expect_equal(searchsorted(Array::from_local(large), cut), local::searchsorted(large, x), "a large table");
  expect_equal(searchsorted(Array::from_local(large), cut, "right"), local::searchsorted(large, x, "right"), "right");
  expect_equal(isin(cut, Array::from_local(large)), local::isin(x, large), "a large table");
  expect_equal(histogram(testing::cut(large, random), 200), local::histogram(large, 200), "many bins");
  expect_equal(searchsorted(Array::from_local(table), 1.5), local::searchsorted(table, 1.5), "a number");
  // Searched chunk by chunk; complex numbers are, in any table.
  const NdArray longer = local::arange(-3, 5, 0.001),
                complex_table{std::complex<double>(0, 1), 2., std::complex<double>(2, 3)};
  const NdArray integers = local::arange(5000) * 3;
  for (const Array& each : testing::cuts(x, random)) {
    for (const char* side : {"left", "right"}) {
      expect_equal(searchsorted(Array::from_local(longer), each, side), local::searchsorted(longer, x, side), side);
      expect_equal(searchsorted(Array::from_local(complex_table), each, side),
                   local::searchsorted(complex_table, x, side), "complex");
    }
    expect_equal(digitize(each, Array::from_local(longer)), local::digitize(x, longer), each.repr());
    expect_equal(digitize(each, Array::from_local(local::flip(longer)), true),
                 local::digitize(x, local::flip(longer), true), each.repr());
    expect_equal(isin(each, Array::from_local(integers)), local::isin(x, integers), each.repr());
    expect_equal(isin(each, Array::from_local(longer), false, true), local::isin(x, longer, false, true), each.repr());
  }
  expect_equal(isin(arange(9).astype(u64), Array::from_local(integers - 9)),
               local::isin(local::arange(9).astype(u64), integers - 9), "signed and unsigned");
  // Edges that are no numbers, and integers that are compared as floats.
  const NdArray nothing{kNan, kNan}, some{4., 1., kNan}, close_by{int64_t{1} << 53, (int64_t{1} << 53) + 1};
  for (const NdArray& edges : {nothing, some, NdArray{kNan, 2., 1.}, NdArray{1., 2., kNan}})
    for (const bool right : {false, true})
      expect_equal(digitize(cut, Array::from_local(edges), right), local::digitize(x, edges, right), "NaN as edges");
  for (const char* side : {"left", "right"})
    expect_equal(searchsorted(Array::from_local(close_by), Array::from_local(close_by.astype(u64)), side),
                 local::searchsorted(close_by, close_by.astype(u64), side), "int64 and uint64");
  // Tables of many chunks.
  {
    const testing::SmallChunks small(256);
    const NdArray table_order = local::argsort(local::sin(longer)), shuffled = local::sin(longer);
    const Array sorted = testing::cut(longer, random), set = testing::cut(integers.reshape({50, 100}), random);
    for (const Array& each : testing::cuts(x, random)) {
      expect_equal(searchsorted(sorted, each), local::searchsorted(longer, x), each.repr());
      expect_equal(isin(each, set), local::isin(x, integers), each.repr());
    }
    expect_equal(searchsorted(sorted, cut, "right"), local::searchsorted(longer, x, "right"), "right");
    expect_equal(searchsorted(sorted, 1.5), local::searchsorted(longer, 1.5), "a number");
    expect_equal(searchsorted(testing::cut(shuffled, random), cut, "left", testing::cut(table_order, random)),
                 local::searchsorted(shuffled, x, "left", table_order), "by a sorter");
    expect_equal(isin(cut, set, false, true), local::isin(x, integers, false, true), "inverted");
    expect_equal(isin(zeros({0, 2}), set), local::zeros({0, 2}, DType::bool_), "of nothing");
    EXPECT_THROW(searchsorted(sorted, cut, "middle"), local::InvalidArgument);
    EXPECT_THROW(searchsorted(sorted, cut, "left", arange(3)), local::InvalidArgument);
  }
  // Narrow elements, which are compared as wide ones, have their scratch.
  const Array narrow = (arange(1 << 20) % 100).astype(i8).rechunk({1 << 19});
  expect_equal(isin(narrow, Array::from_local(integers)), local::isin(narrow.to_host(), integers), "narrow elements");
  expect_equal(isin(narrow, Array::from_local(longer)), local::isin(narrow.to_host(), longer), "narrow elements");
  expect_equal(searchsorted(Array::from_local(longer), narrow), local::searchsorted(longer, narrow.to_host()),
               "narrow");
  expect_equal(searchsorted(Array::from_local(longer), zeros({0, 2})), local::zeros({0, 2}, i64), "of nothing");
  EXPECT_THROW(searchsorted(zeros({2, 2}), arange(3.)), local::InvalidArgument);
  EXPECT_THROW(searchsorted(arange(3.), arange(3.), "middle"), local::InvalidArgument);
  EXPECT_THROW(digitize(arange(3.), Array{1., 3., 2.}), local::InvalidArgument);
}

}  // namespace
}  // namespace quarry
