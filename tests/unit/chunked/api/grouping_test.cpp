// Values by their keys: as NumPy's reductions of the values of each key, however the arrays are cut.
#include "quarry/chunked/api/grouping.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/local.h"
#include "tests/support/beyond_memory.h"
#include "tests/support/chunked_values.h"
#include "tests/support/cuts.h"

namespace quarry {
namespace {

using local::NdArray;
using testing::expect_same;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr GroupOp kAll[] = {GroupOp::mean, GroupOp::sum, GroupOp::count, GroupOp::min, GroupOp::max};

// The same by a selection for every key.
std::vector<NdArray> expected(const NdArray& keys, const NdArray& values) {
  const NdArray distinct = local::unique(keys);
  std::vector<std::vector<NdArray>> parts(5);
  for (int64_t i = 0; i < distinct.size(); ++i) {
    const NdArray key = distinct[{i}];
    const bool is_nan = local::is_float(keys.dtype()) && local::isnan(key).item<bool>();
    const NdArray here = local::compress(is_nan ? local::isnan(keys) : NdArray(keys == key), values);
    parts[0].push_back(local::mean(here));
    parts[1].push_back(local::sum(here));
    parts[2].push_back(local::full({}, here.size()).astype(DType::int64));
    parts[3].push_back(local::min(here));
    parts[4].push_back(local::max(here));
  }
  std::vector<NdArray> result{distinct};
  for (const auto& part : parts) result.push_back(local::stack(part, 0));
  return result;
}

class Grouping : public testing::OnDeviceKinds {
 protected:
  static void check(const NdArray& keys, const NdArray& values, const Array& cut_keys, const Array& cut_values,
                    const std::string& what) {
    const std::vector<NdArray> wanted = expected(keys, values);
    const Grouped got = group_reduce({cut_keys}, cut_values, kAll);
    ASSERT_EQ(got.keys.size(), 1U);
    ASSERT_EQ(got.results.size(), 5U);
    expect_same(got.keys[0], wanted[0], "keys of " + what);
    for (size_t i = 0; i < 5; ++i) expect_same(got.results[i], wanted[i + 1], std::to_string(i) + " of " + what);
  }
};

TEST_P(Grouping, ReducesTheValuesOfEachKey) {
  const Runtime runtime(options("64MiB"));
  std::mt19937 random(1);
  auto rng = local::default_rng(5);
  const NdArray drawn = rng.integers(0, 40, 500);
  const std::vector<NdArray> keys{
      drawn,                                                       // some of each
      local::zeros(500),                                           // all equal: one group over all chunks
      local::arange(500) * 7 % 500,                                // all different
      local::sort(drawn / 20).astype(DType::uint8),                // groups of several chunks
      local::where(drawn % 5 == 0, kNan, (drawn % 3).astype(f64))  // NaN is one key
  };
  for (const NdArray& key : keys) {
    for (const DType dtype : {DType::float64, DType::int32, DType::float32, DType::bool_}) {
      const NdArray values = (rng.integers(0, 100, 500) - (dtype == DType::bool_ ? 0 : 50)).astype(dtype);
      for (const int64_t bytes : {200, 1 << 20}) {
        const ChunkPolicyScope policy = testing::small_chunks(bytes);
        check(key, values, testing::cut(Array::from_local(key).to_host(), random), testing::cut(values, random),
              std::string(local::name(dtype)) + " by " + local::name(key.dtype()) + ", " + std::to_string(bytes));
      }
    }
  }
}

TEST_P(Grouping, OfSeveralKeys) {
  const Runtime runtime(options("64MiB"));
  const ChunkPolicyScope policy = testing::small_chunks(256);
  auto rng = local::default_rng(6);
  const NdArray a = rng.integers(0, 5, 400), b = rng.integers(0, 7, 400), values = rng.integers(0, 100, 400);
  const Grouped got = group_reduce({Array::from_local(b).rechunk({30}), Array::from_local(a).rechunk({45})},
                                   Array::from_local(values).rechunk({60}), {GroupOp::sum, GroupOp::count});
  const std::vector<NdArray> wanted = expected(a * 7 + b, values);
  expect_same(got.keys[1], local::floor_divide(wanted[0], 7), "first key");
  expect_same(got.keys[0], wanted[0] % 7, "second key");
  expect_same(got.results[0], wanted[2], "sums");
  expect_same(got.results[1], wanted[3], "counts");
}

TEST_P(Grouping, OfOneValueOrNone) {
  const Runtime runtime(options("64MiB"));
  for (const int64_t n : {0, 1}) {
    const Grouped got = group_reduce({arange(static_cast<double>(n))}, ones({n}), kAll);
    EXPECT_EQ(got.keys[0].shape(), Dims{n});
    for (const Array& result : got.results) EXPECT_EQ(result.to_host().shape(), Dims{n});
  }
}

// NaN among values are NaN in the results of their group alone; the numbers of narrow floats are added up in float64.
TEST_P(Grouping, AddsUpInFloat64) {
  const Runtime runtime(options("64MiB"));
  const NdArray ones = local::full(5000, 1).astype(DType::float16);
  expect_same(group_reduce({zeros({5000})}, Array::from_local(ones).rechunk({700}), {GroupOp::mean}).results[0],
              local::full(1, 1).astype(DType::float16), "mean of many");
  expect_same(group_reduce({Array{0., 1., 1.}}, Array{1., kNan, 2.}, {GroupOp::sum}).results[0], {1., kNan}, "NaN");
}

// More groups than a task holds.
TEST_P(Grouping, OfMoreThanMemory) {
  const int64_t n = on_cpu() ? 400000 : 60000;
  const NdArray keys = local::arange(n) * 7919 % n, values = local::arange(n) % 1000;
  const NdArray wanted = local::take(values, local::argsort(keys));
  testing::BeyondMemory arrays;
  arrays.write("keys", keys);
  arrays.write("values", values);
  for (const char* memory : {"2MiB", "100MiB"}) {
    {
      const Runtime runtime(options(memory));
      const ChunkPolicyScope policy = testing::small_chunks(128 << 10);
      const Grouped got = group_reduce({arrays.open("keys")}, arrays.open("values"), {GroupOp::sum, GroupOp::max});
      arrays.expect(got.keys[0], local::arange(n), memory);
      arrays.expect(got.results[0], wanted, memory);
      arrays.expect(got.results[1], wanted, memory);
      EXPECT_LE(runtime.statistics().peak_device_bytes, runtime.memory_bytes());
    }
    arrays.check();
  }
}

TEST(GroupingErrors, NameTheShapes) {
  EXPECT_THROW(group_reduce({}, ones({3}), {GroupOp::sum}), local::InvalidArgument);
  EXPECT_THROW(group_reduce({ones({2})}, ones({3}), {GroupOp::sum}), local::InvalidArgument);
  EXPECT_THROW(group_reduce({ones({2, 2})}, ones({2, 2}), {GroupOp::sum}), local::InvalidArgument);
}

QUARRY_ON_DEVICE_KINDS(Grouping);

}  // namespace
}  // namespace quarry
