// Every operator on several ranks: what it means on whole arrays, and the bits that one rank would give, chunk by
// chunk.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/evaluate.h"
#include "tests/support/job_devices.h"
#include "tests/support/operator_rows.h"
#include "tests/support/random_grids.h"

namespace quarry {
namespace {

using test::options_on;

class Operators : public ::testing::TestWithParam<testing::OperatorRow> {};

bool same_bits(const local::NdArray& a, const local::NdArray& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.copy().raw(), static_cast<size_t>(a.nbytes())) == 0;
}

TEST_P(Operators, MeanTheSameOnRanks) {
  static_cast<void>(test::job());
  const Runtime runtime(options_on(local::DeviceKind::cpu));
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::Choices choices(seed);
    const testing::OperatorCall call = GetParam().make(choices);
    const std::vector<local::NdArray> values = to_host(call.chunked);
    ASSERT_EQ(values.size(), call.expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(testing::close(values[i], call.expected[i], 1e-4, 1e-4))
          << "result " << i << "\nchunked: " << values[i].repr() << "\nwhole: " << call.expected[i].repr();
      // Products of the row of eigh add up in the order of chunks, which the evaluation of whole arrays does not have.
      const local::NdArray alone = testing::evaluate(call.chunked[i].node());
      EXPECT_TRUE(std::string_view(GetParam().name) == "eigh" || same_bits(values[i], alone)) << "result " << i;
    }
  }
}

// On GPUs, whose library functions have sums in an order of their own.
TEST_P(Operators, HaveTheBitsOfOneRankOnCuda) {
  static_cast<void>(test::job());
  if (!test::has_job_devices(local::DeviceKind::cuda)) GTEST_SKIP() << "no GPU for every rank";
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto values_of = [&](const char* transport) {
      const Runtime runtime(options_on(local::DeviceKind::cuda, transport));
      testing::Choices choices(seed);
      const testing::OperatorCall call = GetParam().make(choices);
      std::vector<local::NdArray> values = to_host(call.chunked);
      for (size_t i = 0; i < values.size(); ++i) {
        // The last result of the row of sorts is an argpartition(), which each device has as it likes.
        const bool is_any_order = std::string_view(GetParam().name) == "sort" && i + 1 == values.size();
        EXPECT_TRUE(is_any_order || testing::close(values[i], call.expected[i], 1e-4, 1e-4))
            << "result " << i << "\nchunked: " << values[i].repr() << "\nwhole: " << call.expected[i].repr();
      }
      return values;
    };
    const std::vector<local::NdArray> alone = values_of("self"), together = values_of("auto");
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(same_bits(together[i], alone[i])) << "result " << i;
  }
}

// Sums whose bits depend on the order: numbers of very different sizes, in chunks that lie on all ranks.
TEST(OperatorBits, SumsOfPrefixesDoNotDependOnRanks) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "64MiB";
  Runtime runtime(options);
  const local::NdArray x =
      local::exp(local::multiply(local::random::default_rng(5).standard_normal(local::Dims{1000, 3}), 9.0));
  const Array cut = Array::from_local(x).rechunk({7, 2});
  const std::vector<Array> results{cumsum(cut, 0), cumsum(cut), cumprod(cut, 1)};
  const std::vector<local::NdArray> values = to_host(results);
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_TRUE(same_bits(values[i], testing::evaluate(results[i].node()))) << i;
  // Sums of positive numbers ascend, across chunks too.
  const local::NdArray steps = local::diff(values[1]);
  EXPECT_GE(local::min(steps).item<double>(), 0);
}

// Arrays on disk, on all ranks, to any other chunks in little more than three of them.
TEST(Rechunk, AnyGridToAnyGridOnRanks) {
  for (const local::DeviceKind device : {local::DeviceKind::cpu, local::DeviceKind::emulated}) {
    for (uint32_t seed = 100; seed < 112; ++seed) {
      testing::Draw draw(seed);
      const Dims shape = draw.shape();
      const Grid from = draw.grid(shape), to = draw.grid(shape);
      constexpr int64_t kMessages = 256 << 10;
      const int64_t memory =
          3 * std::max(largest_chunk_bytes(from, 8), largest_chunk_bytes(to, 8)) + (48 << 10) + kMessages;
      SCOPED_TRACE(fmt::format("seed {}: {} to {} of {} in {} bytes", seed, from.to_string(), to.to_string(),
                               local::to_string(shape), memory));
      RuntimeOptions options;
      options.device = device;
      options.memory = std::to_string(memory);
      if (device != local::DeviceKind::cpu) options.host_memory = "2MiB";
      options.threads = 1;
      const Runtime runtime(options);
      const Array expected = testing::numbers(shape), stored = expected.rechunk(from).persist();
      const Array made = stored.rechunk(to).persist();
      EXPECT_EQ(made.chunks(), to);
      EXPECT_TRUE(quarry::all(made == expected).item<bool>());
      EXPECT_TRUE(
          all(transpose(stored).rechunk(draw.grid(transpose(stored).shape())) == transpose(expected)).item<bool>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Operators, ::testing::ValuesIn(testing::operator_rows()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace quarry
