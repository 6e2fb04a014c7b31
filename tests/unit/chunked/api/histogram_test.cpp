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

TEST(Histograms, RefuseWhatTheLocalOnesRefuse) {
  const Array x = arange(100.);
  EXPECT_THROW(histogram(x, -1), local::InvalidArgument);
  EXPECT_THROW(histogram(x, Array{3., 1.}), local::InvalidArgument);
  EXPECT_THROW(histogram(x, 3, {.range = {{3, 1}}}), local::InvalidArgument);
  EXPECT_THROW(histogram(x, 3, {.weights = arange(3.)}), local::InvalidArgument);
  EXPECT_THROW(histogram(Array{1., kNan}), local::InvalidArgument);
  EXPECT_THROW(histogram(x, "sturge"), local::InvalidArgument);
  EXPECT_THROW(histogram(x * std::complex<double>(0, 1)), local::TypeError);
  EXPECT_THROW(histogram(x, 5000), local::NotSupported);
  const testing::SmallChunks small(64);
  EXPECT_THROW(histogram(x, "auto"), local::NotSupported);
}

TEST(Tables, PlaceElementsAsTheLocalOnes) {
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
  EXPECT_THROW(searchsorted(zeros({2, 2}), arange(3.)), local::InvalidArgument);
  EXPECT_THROW(searchsorted(arange(3.), arange(3.), "middle"), local::InvalidArgument);
  EXPECT_THROW(digitize(arange(3.), Array{1., 3., 2.}), local::InvalidArgument);
  EXPECT_THROW(isin(arange(3.), arange(5000.)), local::NotSupported);
}

}  // namespace
}  // namespace quarry
