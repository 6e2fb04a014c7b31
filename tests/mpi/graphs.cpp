// Random graphs on several ranks against eager evaluation: every rank gets the value.
#include <gtest/gtest.h>

#include "quarry/chunked/runtime/runtime.h"
#include "tests/support/evaluate.h"
#include "tests/support/job_devices.h"
#include "tests/support/random_expressions.h"

namespace quarry {
namespace {

TEST(Graphs, AgreeWithEager) {
  static_cast<void>(test::job());
  for (const local::DeviceKind device : test::real_job_device_kinds()) {
    const Runtime runtime(test::options_on(device));
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const testing::SmallChunks small(int64_t{1} << (5 + seed % 7));
      testing::Expressions expressions(seed);
      const std::vector<Array> arrays = expressions.grow(static_cast<int>(4 + seed % 12));
      const std::vector<local::NdArray> values = to_host(arrays);
      for (size_t k = 0; k < arrays.size(); ++k) {
        const local::NdArray expected = testing::evaluate(arrays[k].node());
        ASSERT_TRUE(testing::close(values[k], expected, 1e-3, 1e-3))
            << "seed " << seed << ", result " << k << ": " << expr::to_string(arrays[k].node(), 2000)
            << "\nchunked: " << values[k].to_string() << "\neager: " << expected.to_string();
      }
    }
  }
}

TEST(Graphs, AKeptArrayIsReadBySeveralRuns) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "64MiB";
  Runtime runtime(options);
  const testing::SmallChunks small(256);
  const Array x = random::Generator(3).standard_normal({50, 40});
  const Array kept = (x * 2).persist();
  const std::vector<Array> results{sum(kept, 0), matmul(kept.T(), kept), kept[{local::Slice{{}, {}, -7}}]};
  const std::vector<local::NdArray> values = to_host(results);
  const Array fresh = x * 2;
  const Array expected[] = {sum(fresh, 0), matmul(fresh.T(), fresh), fresh[{local::Slice{{}, {}, -7}}]};
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(testing::close(values[i], testing::evaluate(expected[i].node()), 1e-12, 1e-9)) << i;
}

TEST(Graphs, AKeptChunkIsServedThoughItsOwnerDoesNotReadIt) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "64MiB";
  Runtime runtime(options);
  const Array kept = arange(160).rechunk({10}).persist();
  // The one chunk of the result is the last rank's, and what it is made of the first's.
  const Array first = kept[{local::Slice{{}, 5, {}}}].rechunk({-1});
  EXPECT_EQ(first.to_host().to_string(), "[0 1 2 3 4]");
  EXPECT_EQ((first + 1).to_host().to_string(), "[1 2 3 4 5]");
}

}  // namespace
}  // namespace quarry
