// Sorting and selecting are those of local arrays, however the arrays are cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using ::testing::AllOf;
using testing::expect_same;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

template <class A>
using Results = std::vector<std::pair<std::string, A>>;

#define QUARRY_CASE(...) results.emplace_back(#__VA_ARGS__, __VA_ARGS__);

// Of two axes and elements.
template <class A>
Results<A> sorts(const A& x) {
  Results<A> results;
  QUARRY_CASE(sort(x))
  QUARRY_CASE(sort(x, 0))
  QUARRY_CASE(sort(x, std::nullopt))
  QUARRY_CASE(sort(x, 0, "stable"))
  QUARRY_CASE(sort(x, 1, "heapsort"))
  QUARRY_CASE(sort(x, -1, std::nullopt, std::nullopt, true))
  QUARRY_CASE(argsort(x))
  QUARRY_CASE(argsort(x, -2, "mergesort"))
  QUARRY_CASE(argsort(x, std::nullopt))
  QUARRY_CASE(x.argsort(0))
  QUARRY_CASE(partition(x, 1))
  QUARRY_CASE(partition(x, {0, -1}, 0))
  QUARRY_CASE(partition(x, 3, std::nullopt))
  // Positions beside the kth are in any order, and another one on a GPU.
  if (chunk_policy().device != local::DeviceKind::cuda) {
    QUARRY_CASE(argpartition(x, 1))
    QUARRY_CASE(x.argpartition({0, -1}, 0))
  }
  QUARRY_CASE(lexsort(std::vector<A>{x, x}))
  QUARRY_CASE(lexsort(std::vector<A>{x, sort(x, 0)}, 0))
  for (const int64_t k : {0, 1, 2, 4}) {
    for (const int64_t axis : {0, -1}) {
      for (const bool largest : {true, false}) {
        const auto [values, positions] = top_k(x, k, axis, largest);
        QUARRY_CASE(values)
        QUARRY_CASE(positions)
      }
    }
  }
  return results;
}

// Ties, both zeros, and what is no number.
std::vector<NdArray> arrays() {
  const NdArray numbers = local::round(local::default_rng(3).normal(0, 2, {4, 30}));
  NdArray special = (numbers + 0.).copy();
  const double values[] = {kNan, -0.0, 0.0, kInf, -kInf, -kNan, 0.0, -0.0};
  for (int64_t i = 0; i < 8; ++i) special(i % 4, 3 * i) = values[i];
  std::vector<NdArray> result{special, special.astype(f32), special.astype(f16)};
  for (const DType dtype : {i64, i8, DType::bool_, c128}) result.push_back(numbers.astype(dtype));
  result.push_back(local::abs(numbers).astype(u64));
  result.push_back(special + local::flip(special) * std::complex<double>(0, 1));
  return result;
}

class Sorting : public testing::OnDeviceKinds {};

TEST_P(Sorting, IsTheLocalOneOnAnyChunks) {
  const Runtime runtime(options("64MiB"));
  std::mt19937 random(1);
  // Few on the device, which has the same path for all.
  const bool all = on_cpu();
  for (const NdArray& x : all ? arrays() : std::vector<NdArray>{arrays().front(), arrays().back()}) {
    const Results<NdArray> expected = sorts(x);
    for (const Array& cut : all ? testing::cuts(x, random) : std::vector<Array>{testing::cut(x, random)}) {
      const Results<Array> got = sorts(cut);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i)
        expect_same(got[i].second, expected[i].second, got[i].first + " of " + cut.repr());
    }
  }
}

TEST_P(Sorting, OfFewElementsOrNone) {
  const Runtime runtime(options("64MiB"));
  for (const Dims& shape : {Dims{0}, Dims{1}, Dims{0, 3}, Dims{3, 0}, Dims{1, 1}}) {
    const NdArray x = local::full(shape, 2.5);
    const Array cut = Array::from_local(x);
    expect_same(sort(cut), local::sort(x), cut.repr());
    expect_same(sort(cut, std::nullopt), local::sort(x, std::nullopt), cut.repr());
    expect_same(argsort(cut, 0), local::argsort(x, 0), cut.repr());
    expect_same(lexsort({cut}, 0), local::lexsort({x}, 0), cut.repr());
    expect_same(topk(cut, 5, 0), local::top_k(x, shape[0], 0).first, cut.repr());
  }
  expect_same(partition(zeros({0, 3}), 7), local::partition(local::zeros({0, 3}), 7), "any position of nothing");
  const Array one = Array::from_local(local::full(Dims{}, 2.5));
  EXPECT_THROW(sort(one), local::IndexError);
  expect_same(sort(one, std::nullopt), NdArray{2.5}, "sort of a number");
  expect_same(argsort(one), local::argsort(local::full(Dims{}, 2.5)), "argsort of a number");
  expect_same(lexsort({one}), local::lexsort({local::full(Dims{}, 2.5)}), "lexsort of a number");
}

// Dask's meaning of k.
TEST_P(Sorting, TopkTakesTheSmallestForNegativeNumbers) {
  const Runtime runtime(options("64MiB"));
  const Array x = Array{{3., 1., 2., 3., kNan}, {5., 5., 5., 4., 0.}}.rechunk({1, 2});
  expect_same(topk(x, 2), {{kNan, 3.}, {5., 5.}}, "topk");
  expect_same(x.argtopk(3), {{4, 3, 0}, {2, 1, 0}}, "argtopk");
  expect_same(topk(x, -2), {{1., 2.}, {0., 4.}}, "the smallest");
  expect_same(argtopk(x, -3), {{1, 2, 0}, {4, 3, 0}}, "argtopk of the smallest");
  expect_same(x.topk(1, 0), {{5., 5., 5., 4., kNan}}, "along the first axis");
  expect_same(topk(x, 0), local::zeros({2, 0}), "none");
  EXPECT_EQ(topk(x, 9).shape(), (Dims{2, 5}));
  EXPECT_EQ(argtopk(x, -9, 0).shape(), (Dims{2, 5}));
}

// The candidates of many chunks meet in several levels.
TEST_P(Sorting, TopOfManyChunks) {
  const Runtime runtime(options("64MiB"));
  const NdArray x = local::remainder(local::arange(on_cpu() ? 5000 : 700) * 7919, 1013);
  for (const int64_t chunk : {1, 13}) {
    const Array cut = Array::from_local(x).rechunk({chunk});
    for (const int64_t k : {1, 20, 300}) {
      for (const bool largest : {true, false}) {
        const auto [values, positions] = top_k(cut, k, 0, largest);
        const auto expected = local::top_k(x, k, 0, largest);
        expect_same(values, expected.first, "values");
        expect_same(positions, expected.second, "positions");
      }
    }
  }
}

// Those that are sorted whole and those that are not, in little memory.
TEST_P(Sorting, LinesThatNoTaskHoldsAreSortedByRuns) {
  const NdArray x = local::remainder(local::arange(500000.) * 7919, 1e5);
  const NdArray lines = x.reshape({2, 250000});
  testing::BeyondMemory arrays;
  arrays.write("x", x);
  arrays.write("lines", lines);
  {
    const Runtime runtime(options("4MiB"));
    const Array cut = arrays.open("x");
    EXPECT_THAT(sort_method(cut), HasSubstr("sorted runs"));
    arrays.expect(sort(cut), local::sort(x), "sort");
    arrays.expect(argsort(arrays.open("lines"), 1), local::argsort(lines, 1), "argsort");
    arrays.expect(lexsort({cut, cut % 10}), local::lexsort({x, local::remainder(x, 10.)}), "lexsort");
    expect_same(topk(cut.rechunk({20000}), 2), {99999., 99999.}, "topk");
    const Array y = arange(1000000.).rechunk({20000});
    expect_same(sort(reshape(-y, {1000, 1000}).rechunk({20, 400}))(3, slice(0, 2)), {-3999., -3998.}, "short lines");
  }
  arrays.check();
}

TEST_P(Sorting, OfChunksOfManyLinesKeepsTheirSize) {
  const Runtime runtime(options("64MiB"));
  const Array x = zeros({64, 4096}).rechunk({64, 64});
  const Array sorted = sort(x, 1);
  EXPECT_EQ(sorted.chunks().counts(), (Dims{64, 1}));
  EXPECT_EQ(sort(x, 0).chunks().counts(), (Dims{1, 64}));
}

TEST(SortingErrors, AreTheLocalOnes) {
  const Array x = arange(12.).reshape(3, 4).rechunk({2, 2});
  EXPECT_THROW(sort(x, 2), local::IndexError);
  EXPECT_THROW(sort(x, 0, "fast"), local::InvalidArgument);
  EXPECT_THROW(sort(x, 0, "stable", {}, true), local::InvalidArgument);
  EXPECT_THROW(sort(x, 0, {}, "f0"), local::InvalidArgument);
  EXPECT_THROW(argsort(x, -3), local::IndexError);
  EXPECT_THROW(partition(x, 4), local::InvalidArgument);
  EXPECT_THROW(partition(x, {1, -4}, 0), local::InvalidArgument);
  EXPECT_THROW(partition(x, 1, 0, "quick"), local::InvalidArgument);
  EXPECT_THROW(argpartition(x, 12, std::nullopt), local::InvalidArgument);
  EXPECT_THROW(lexsort({}), local::TypeError);
  EXPECT_THROW(lexsort({x, x[0]}), local::InvalidArgument);
  EXPECT_THROW(lexsort({x}, 2), local::IndexError);
  EXPECT_THROW(lexsort({x[0][0]}, 1), local::IndexError);
  EXPECT_THROW(top_k(x, 5), local::InvalidArgument);
  EXPECT_THROW(top_k(x, -1), local::InvalidArgument);
  EXPECT_THROW(topk(x, 1, 2), local::IndexError);
}

TEST_P(Sorting, ShuffleKeepsGroupsTogether) {
  const Runtime runtime(options("64MiB"));
  const NdArray x = local::arange(24.).reshape(2, 12);
  const std::vector<std::vector<int64_t>> groups{{11, 0, 5}, {1, 2}, {10, 9, 8, 7, 6, 5, 4, 3}, {0}, {-1, -1}};
  NdArray order{11, 0, 5, 1, 2, 10, 9, 8, 7, 6, 5, 4, 3, 0, -1, -1};
  std::mt19937 random(5);
  for (const Array& cut : testing::cuts(x, random))
    expect_same(shuffle(cut, groups, 1), local::take(x, order, 1), cut.repr());
  const Array shuffled = shuffle(Array::from_local(x).rechunk({1, 4}), groups, 1);
  EXPECT_EQ(shuffled.chunks().axis(1), AxisChunks(std::vector<int64_t>{5, 8, 3}));
  EXPECT_EQ(shuffled.chunks().axis(0).count(), 2);
  EXPECT_EQ(shuffle(Array::from_local(x), {}, 0).shape(), (Dims{0, 12}));
  expect_same(shuffle(Array::from_local(x).rechunk({1, 5}), {{1}, {}, {0}}, 0), local::flip(x, 0), "rows");
  EXPECT_THAT(
      [&] {
        shuffle(Array::from_local(x), {{0}, {12}}, 1);
      },
      ThrowsMessage<local::IndexError>(HasSubstr("index 12 is out of bounds for axis 1 with size 12")));
  EXPECT_THROW(shuffle(Array::from_local(x), {{0}}, 2), local::IndexError);
}

QUARRY_ON_DEVICE_KINDS(Sorting);

}  // namespace
}  // namespace quarry
