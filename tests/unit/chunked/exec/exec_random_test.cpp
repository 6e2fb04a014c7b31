// Random graphs through the whole machine on one rank, against eager evaluation.
#include <gtest/gtest.h>

#include "quarry/chunked/runtime/runtime.h"
#include "tests/support/evaluate.h"
#include "tests/support/random_expressions.h"

namespace quarry {
namespace {

using testing::Expressions;
using testing::SmallChunks;

class ExecRandom : public ::testing::TestWithParam<int> {};

void run(int group) {
  for (uint64_t i = 0; i < 12; ++i) {
    const uint64_t seed = static_cast<uint64_t>(group) * 1000 + i;
    const SmallChunks small(int64_t{1} << (5 + i % 7));
    Expressions expressions(seed);
    const std::vector<Array> arrays = expressions.grow(static_cast<int>(4 + i));
    std::vector<local::NdArray> values;
    try {
      values = to_host(arrays);
    } catch (const std::exception& error) {
      std::string text;
      for (const Array& array : arrays) text += expr::to_string(array.node(), 2000) + "\n";
      FAIL() << "seed " << seed << ": " << error.what() << "\n" << text;
    }
    for (size_t k = 0; k < arrays.size(); ++k) {
      const local::NdArray expected = testing::evaluate(arrays[k].node());
      ASSERT_TRUE(testing::close(values[k], expected, 1e-3, 1e-3))
          << "seed " << seed << ", result " << k << ": " << expr::to_string(arrays[k].node(), 2000)
          << "\nchunked: " << values[k].to_string() << "\neager: " << expected.to_string();
    }
  }
}

TEST_P(ExecRandom, AgreesWithEager) { run(GetParam()); }

TEST_P(ExecRandom, AgreesWithEagerInATightBudget) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "512KiB";
  options.threads = 1;
  Runtime runtime(options);
  run(GetParam());
}

TEST_P(ExecRandom, AgreesWithEagerOnAnEmulatedDevice) {
  RuntimeOptions options;
  options.device = local::DeviceKind::emulated;
  options.memory = "16MiB";
  options.host_memory = "16MiB";
  options.threads = 1;
  Runtime runtime(options);
  run(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExecRandom, ::testing::Range(0, 8));

}  // namespace
}  // namespace quarry
