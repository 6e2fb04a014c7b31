// Plans of random expressions against eager evaluation of the same graphs: views of everything, broadcasting, negative
// steps, empty and 0-d arrays, several results at once, tiny chunks.
#include <gtest/gtest.h>

#include "quarry/chunked/plan/passes.h"
#include "tests/support/evaluate.h"
#include "tests/support/random_expressions.h"

namespace quarry {
namespace {

using testing::Expressions;
using testing::SmallChunks;

void check(const std::vector<Array>& results, const plan::PlanOptions& options, uint64_t seed) {
  std::vector<expr::NodePtr> roots;
  for (const Array& result : results) roots.push_back(result.node());
  std::vector<local::NdArray> values;
  plan::Plan plan;
  try {
    plan = plan::make_plan(roots, options);
    values = testing::evaluate(plan);
  } catch (const std::exception& error) {
    std::string text;
    for (const Array& result : results) text += expr::to_string(result.node(), 2000) + "\n";
    FAIL() << "seed " << seed << ": " << error.what() << "\n" << text << describe(plan);
  }
  ASSERT_EQ(values.size(), results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const local::NdArray expected = testing::evaluate(results[i].node());
    ASSERT_EQ(expected.shape(), results[i].shape());
    ASSERT_EQ(expected.dtype(), results[i].dtype());
    // float32 leaves may hide anywhere; sums take another order.
    ASSERT_TRUE(testing::close(values[i], expected, 1e-3, 1e-3))
        << "seed " << seed << ", result " << i << ": " << expr::to_string(results[i].node(), 2000) << "\n"
        << describe(plan) << "plan: " << values[i].to_string() << "\neager: " << expected.to_string();
  }
}

class PlanRandom : public ::testing::TestWithParam<int> {};

TEST_P(PlanRandom, AgreesWithEager) {
  for (uint64_t i = 0; i < 25; ++i) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1000 + i;
    const SmallChunks small(int64_t{1} << (5 + i % 7));
    Expressions expressions(seed);
    plan::PlanOptions options;
    if (i % 3 == 0) options.memory_bytes = 2048;
    check(expressions.grow(static_cast<int>(4 + i)), options, seed);
    if (HasFatalFailure()) return;
  }
}

TEST_P(PlanRandom, AgreesWithEagerWithoutAnyOnePass) {
  for (const plan::Pass& pass : plan::passes()) {
    if (!pass.optional) continue;
    for (uint64_t i = 0; i < 6; ++i) {
      const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1000 + 500 + i;
      const SmallChunks small(int64_t{1} << (5 + i % 7));
      Expressions expressions(seed);
      plan::PlanOptions options;
      options.passes_off = {std::string(pass.name)};
      if (i % 3 == 0) options.memory_bytes = 2048;
      SCOPED_TRACE(std::string("without ") + std::string(pass.name));
      check(expressions.grow(static_cast<int>(8 + 3 * i)), options, seed);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlanRandom, ::testing::Range(0, 12));

}  // namespace
}  // namespace quarry
