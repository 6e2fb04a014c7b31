// Owners decide who computes, never what: whoever owns the chunks of stages and of stored arrays, the bits are those of
// blocks on these ranks and of one rank alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/local/local.h"
#include "tests/support/evaluate.h"
#include "tests/support/job_devices.h"

namespace quarry {
namespace {

bool same_bits(const local::NdArray& a, const local::NdArray& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.copy().raw(), b.copy().raw(), static_cast<size_t>(a.nbytes())) == 0;
}

// Of very different sizes, so that the bits of sums depend on their order.
local::NdArray numbers(uint64_t seed, const local::Dims& shape) {
  return local::exp(local::multiply(local::random::default_rng(seed).standard_normal(shape), 6.0));
}

// What each kind of stage makes of stored arrays in many chunks: reductions over few and many segments and axes,
// products over tiles and over k, scans, copies, sorts, chains of them.
std::vector<Array> results_of(const Array& x, const Array& y) {
  const Array product = matmul(x, y.T());
  return {x * 2 + 1,
          sum(x),
          sum(x, 0),
          mean(x * x, 1),
          var(y),
          max(x - sum(x, 0), 1),
          product,
          sum(product * product, 0),
          matmul(x.T(), x),
          matmul(x.T(), y),
          cumsum(x, 0),
          x.T() + 1,
          x - mean(x) + max(x * y),
          x + cumsum(y, 0)[150],
          x.rechunk({50, 4}) - 1,
          sort(y, 0),
          x + y};
}

RuntimeOptions options_on(local::DeviceKind device) {
  RuntimeOptions options = test::options_on(device);
  if (device != local::DeviceKind::cpu) options.host_memory = "16MiB";
  return options;
}

class OwnersOfStages : public ::testing::TestWithParam<local::DeviceKind> {};

TEST_P(OwnersOfStages, DoNotChangeBits) {
  static_cast<void>(test::job());
  if (!test::has_job_devices(GetParam())) GTEST_SKIP() << "no device of the kind for every rank";
  Runtime runtime(options_on(GetParam()));
  std::vector<Owners> kinds{Owners::cyclic(0, 0), Owners::everywhere()};
  if (GetParam() == local::DeviceKind::cpu)
    kinds.insert(kinds.end(), {Owners::blocks(), Owners::cyclic(), Owners::cyclic(1), Owners::cyclic(3, 2)});
  const local::NdArray a = numbers(3, {199, 24}), b = numbers(4, {199, 24});
  const auto compute = [&](const std::optional<Owners>& stored, const std::optional<Owners>& computed) {
    runtime.internals().stage_owners = stored;
    const Array x = (Array::from_local(a).rechunk({2, 5}) * 1).persist();
    const Array y = (Array::from_local(b).rechunk({2, 5}) * 1).persist();
    runtime.internals().stage_owners = computed;
    const std::vector<Array> results = results_of(x, y);
    std::vector<local::NdArray> values = to_host(results);
    if (!stored && !computed) {
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_TRUE(testing::close(values[i], testing::evaluate(results[i].node()), 1e-9, 1e-9)) << "result " << i;
    }
    return values;
  };
  const std::vector<local::NdArray> expected = compute({}, {});
  for (const Owners& stored : kinds) {
    for (const std::optional<Owners>& computed : {std::optional<Owners>(), std::optional(stored)}) {
      SCOPED_TRACE(stored.to_string() + ", " + (computed ? computed->to_string() : "as chosen"));
      test::going_on(stored.to_string());
      const std::vector<local::NdArray> values = compute(stored, computed);
      for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(same_bits(values[i], expected[i])) << "result " << i;
    }
  }
}

// Nearly all of an array is on one rank: its chunks, or one chunk that is larger than all others together. The cuts of
// a sort are exact, so every rank gets its part of the result.
TEST_P(OwnersOfStages, SortsOfWhatOneRankHas) {
  static_cast<void>(test::job());
  if (!test::has_job_devices(GetParam())) GTEST_SKIP() << "no device of the kind for every rank";
  Runtime runtime(options_on(GetParam()));
  const ChunkPolicyScope small({GetParam(), {}, /*target_bytes=*/800});
  const int64_t ranks = runtime.communicator().size(), n = 6000, few = 7;
  std::vector<int64_t> sizes(static_cast<size_t>(ranks), few);
  sizes.back() = n - few * (ranks - 1);
  const local::NdArray random = local::random::default_rng(5).normal(0., 40., local::Ints{n});
  const local::NdArray rounded = local::round(random), kind = local::remainder(local::arange(double(n)), 5.);
  const local::NdArray special =
      local::where(kind == 0, local::nan, local::where(kind == 1, -0., local::where(kind == 2, 0., random)));
  const std::pair<const char*, local::NdArray> data[] = {{"random", random},
                                                         {"few values", rounded},
                                                         {"ascending", local::sort(random)},
                                                         {"descending", local::flip(local::sort(random)).copy()},
                                                         {"all equal", local::full({n}, 2.5)},
                                                         {"zeros and NaN", special}};
  for (const bool in_one_chunk : {false, true}) {
    for (const auto& [name, values] : data) {
      SCOPED_TRACE(::testing::Message() << name << (in_one_chunk ? ", in one chunk" : ", in many chunks"));
      test::going_on(name);
      const Array whole = Array::from_local(values);
      if (!in_one_chunk) runtime.internals().stage_owners = Owners::cyclic(1);
      const Array x =
          (whole.rechunk(in_one_chunk ? Grid({AxisChunks(sizes)}) : Grid::regular({n}, {100})) * 1).persist();
      runtime.internals().stage_owners.reset();
      const Array sorted = sort(x), places = argsort(x, 0, "stable");
      EXPECT_GT(sorted.chunks().count(), ranks);
      EXPECT_LT(sorted.chunks().axis(0).largest(), n / ranks + n / 10);
      EXPECT_TRUE(same_bits(sorted.to_host(), local::sort(values)));
      EXPECT_TRUE(same_bits(places.to_host(), local::argsort(values, 0, "stable")));
      const auto distinct = unique_counts(x);
      const auto expected = local::unique_counts(values);
      EXPECT_TRUE(same_bits(distinct.values.to_host(), expected.values));
      EXPECT_TRUE(same_bits(distinct.counts.to_host(), expected.counts));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OwnersOfStages, ::testing::ValuesIn(test::device_kinds()),
                         [](const auto& info) { return std::string(local::name(info.param)); });

// The same on a rank alone, through the values that are broadcast: every rank computes them again for itself.
TEST(OwnersOfRanks, BitsAreThoseOfOneRank) {
  const local::NdArray a = numbers(3, {700, 6}), b = numbers(4, {700, 6});
  for (const local::DeviceKind device : test::real_job_device_kinds()) {
    const auto compute = [&](const std::string& transport) {
      RuntimeOptions options = options_on(device);
      options.transport = transport;
      Runtime runtime(options);
      const Array x = Array::from_local(a).rechunk({3, 2}), y = Array::from_local(b).rechunk({3, 2});
      return to_host(results_of(x, y));
    };
    const std::vector<local::NdArray> expected = compute("self"), values = compute("");
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(same_bits(values[i], expected[i])) << local::name(device) << ", result " << i;
  }
}

// Ranks in layers that each sum a part of k, as many as the ranks can be divided into, in any budget.
TEST(LayersOfProducts, BitsAreThoseOfOneRank) {
  const local::NdArray a = numbers(5, {93, 310}), b = numbers(6, {310, 61}), c = numbers(7, {61, 93});
  const auto compute = [&](local::DeviceKind device, const std::string& transport, const std::string& memory,
                           int layers) {
    RuntimeOptions options = options_on(device);
    options.memory = memory;
    options.transport = transport;
    Runtime runtime(options);
    runtime.internals().product_layers = layers;
    const Array x = Array::from_local(a).rechunk({8, 7}), y = Array::from_local(b).rechunk({7, 8}),
                z = Array::from_local(c).rechunk({8, 8}).persist();
    const Array product = matmul(x, y), square = matmul(product, z);
    const std::vector<Array> results{product, square, matmul(x * 2, y + 1), sum(matmul(square, product), 0),
                                     matmul(y.T(), x.T())};
    return to_host(results);
  };
  using local::DeviceKind;
  const std::vector<local::NdArray> expected = compute(DeviceKind::cpu, "self", "64MiB", 0);
  for (const int layers : {1, 2, 3, 4, 6, 7, 8}) {
    for (const char* memory : {"64MiB", "640KiB"}) {
      SCOPED_TRACE(fmt::format("{} layers, {}", layers, memory));
      test::going_on(fmt::format("{} layers, {}", layers, memory));
      const std::vector<local::NdArray> values = compute(DeviceKind::cpu, "", memory, layers);
      for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(same_bits(values[i], expected[i])) << "result " << i;
    }
  }
  if (!test::has_job_devices(DeviceKind::cuda)) return;
  const std::vector<local::NdArray> on_gpu = compute(DeviceKind::cuda, "self", "1GiB", 0);
  for (const int layers : {1, 2, 4}) {
    const std::vector<local::NdArray> values = compute(DeviceKind::cuda, "", "1GiB", layers);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(same_bits(values[i], on_gpu[i])) << layers << " layers, result " << i;
  }
}

}  // namespace
}  // namespace quarry
