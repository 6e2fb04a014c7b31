// What make_plan makes of typical graphs: how many stages, what they read, where they are cut.
#include <gtest/gtest.h>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/plan/passes.h"
#include "tests/support/cpu_chunks.h"
#include "tests/support/memory_dataset.h"

namespace quarry {
namespace {

using plan::Plan;
using testing::MemoryDataset;

Array dataset(const std::string& name, const Dims& shape, const std::optional<Dims>& chunks = std::nullopt,
              DType dtype = DType::float64) {
  return Array(expr::source(std::make_shared<MemoryDataset>(name, shape, dtype, chunks)));
}

Plan plan_of(std::initializer_list<Array> arrays, int64_t memory = 0) {
  std::vector<expr::NodePtr> roots;
  for (const Array& array : arrays) roots.push_back(array.node());
  plan::PlanOptions options;
  options.memory_bytes = memory;
  return plan::make_plan(roots, options);
}

const plan::Fused& fused(const Plan& plan, size_t stage) { return std::get<plan::Fused>(plan.stages[stage].work); }

class PlanStages : public testing::CpuChunks {};

TEST_F(PlanStages, ASumReadsItsFileOnce) {
  const Array x = dataset("/x", {1 << 20, 64}, Dims{8192, 64});
  const Plan plan = plan_of({sum(x)});
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(fused(plan, 0).inputs.size(), 1u);
  EXPECT_EQ(fused(plan, 0).inputs[0].array.kind, plan::ArrayRef::Kind::dataset);
  EXPECT_EQ(fused(plan, 0).program.outputs().size(), 0u);
  EXPECT_EQ(plan.stages[0].grid.largest(), (Dims{32768, 64}));
  EXPECT_EQ(plan.stages[0].outputs[0].shape, Dims{});
}

TEST_F(PlanStages, AChainAndItsReductionAreOneStage) {
  const Array x = dataset("/x", {1 << 20});
  const Plan plan = plan_of({mean(sqrt(x * x + 1) * exp(-x))});
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(fused(plan, 0).inputs.size(), 1u);
}

TEST_F(PlanStages, SiblingReductionsShareOnePass) {
  const Array x = dataset("/x", {524288, 512}, Dims{8192, 64});
  const Plan plan = plan_of({mean(x, 0), std(x, 0, {.ddof = 1}), sum(isnan(x), 0)});
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(fused(plan, 0).inputs.size(), 1u);
  EXPECT_EQ(fused(plan, 0).reductions.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(plan.results[static_cast<size_t>(i)].output, i);
}

TEST_F(PlanStages, AFoldPerChunkFusesWithItsExpression) {
  const Array x = dataset("/x", {1 << 20}).rechunk({1 << 18}), mask = x * x > 0.5;
  const Array counts(algo::true_counts(mask.node()));
  const Plan alone = plan_of({counts});
  ASSERT_EQ(alone.stages.size(), 1u);
  EXPECT_EQ(alone.stages[0].kind(), "fold");
  EXPECT_EQ(fused(alone, 0).inputs[0].array.kind, plan::ArrayRef::Kind::dataset);
  EXPECT_EQ(alone.stages[0].outputs[0].shape, (Dims{4}));
  EXPECT_EQ(alone.stages[0].outputs[0].grid.count(), 4);
  EXPECT_FALSE(alone.stages[0].is_barrier(0));
  // With the mask it is one pass; a reduction over all chunks is another one, over the same read.
  EXPECT_EQ(plan_of({mask, counts}).stages.size(), 1u);
  EXPECT_EQ(plan_of({sum(x), counts}).stages.size(), 3u);
}

TEST_F(PlanStages, TotalsOfAnExactScanAreFolds) {
  const Array x = dataset("/x", {1 << 20}, std::nullopt, DType::int32).rechunk({1 << 18});
  const auto folds = [](const Plan& plan) {
    return std::ranges::count_if(plan.stages, [](const plan::Stage& stage) { return stage.kind() == "fold"; });
  };
  EXPECT_EQ(folds(plan_of({cumsum(x * 2, 0)})), 1);
  EXPECT_EQ(folds(plan_of({cumsum(x * 0.5, 0)})), 0);  // its totals are those of the scan
}

TEST_F(PlanStages, ADiagonalReadsNElements) {
  const Array x = dataset("/x", {1000, 1000});
  const Plan plan = plan_of({diagonal(x * 2 + 1)});
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(plan.stages[0].file_bytes(), 8000);
}

TEST_F(PlanStages, ADependentReductionWaits) {
  const Array x = dataset("/x", {524288, 512}, Dims{8192, 64});
  const Plan plan = plan_of({mean(x, 0), mean(x - mean(x, 0), 0)});
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(fused(plan, 1).inputs.size(), 2u);
}

TEST_F(PlanStages, PrincipalComponents) {
  const Array x = dataset("/x", {524288, 512}, Dims{8192, 64});
  const Array z = (x - mean(x, 0)) / std(x, 0);
  const Array again = (x - mean(x, 0)) / std(x, 0);
  const Array c = matmul(z.T(), again) / double(x.shape(0) - 1);
  auto [values, vectors] = linalg::eigh(c);
  const Array scores = matmul(z, Array(expr::view(vectors.node(), {{0, 0, 1}, {1, 511, -1}}, {}, {512, 5})));
  const Plan plan = plan_of({values, vectors, scores}, int64_t{256} << 20);
  int reads = 0, syrks = 0;
  for (const plan::Stage& stage : plan.stages) {
    if (const auto* f = std::get_if<plan::Fused>(&stage.work))
      for (const plan::Input& input : f->inputs) reads += input.array.kind == plan::ArrayRef::Kind::dataset;
    if (const auto* m = std::get_if<plan::MatMul>(&stage.work)) syrks += m->syrk;
  }
  EXPECT_EQ(syrks, 1) << describe(plan);
  // Statistics, covariance and scores each read the file once; z is never kept.
  EXPECT_EQ(reads, 3) << describe(plan);
  EXPECT_EQ(plan.note, "") << describe(plan);
}

}  // namespace
}  // namespace quarry
