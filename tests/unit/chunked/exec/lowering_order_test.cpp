// The global order of tasks: what is computed twice on purpose runs when it is wanted.
#include <gtest/gtest.h>

#include <algorithm>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/lowering/order.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "tests/support/memory_dataset.h"

namespace quarry {
namespace {

TEST(LoweringOrder, OperandsOfALateProductRunLate) {
  const Array x(
      expr::source(std::make_shared<testing::MemoryDataset>("/x", Dims{524288, 512}, DType::float64, Dims{8192, 64})));
  const Array z = (x - mean(x, 0)) / std(x, 0);
  const Array vectors = linalg::eigh(matmul(z.T(), z)).eigenvectors;
  const Array scores = matmul(z, vectors);
  const plan::Plan plan = plan::make_plan({scores.node()}, {});
  exec::Sink sink;
  sink.array = plan.results[0];
  const auto lowered = exec::lower(plan, {sink}, {});
  // Bytes that exist after each task when tasks run one by one in order.
  const scheduler::Graph& graph = lowered->graph;
  std::vector<int64_t> order(static_cast<size_t>(graph.task_count()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return graph.task(a).position < graph.task(b).position; });
  std::vector<int64_t> readers(static_cast<size_t>(graph.block_count()));
  for (int64_t task : order)
    for (scheduler::BlockId block : graph.inputs(graph.task(task))) ++readers[static_cast<size_t>(block)];
  int64_t held = 0, most = 0;
  for (int64_t task : order) {
    for (scheduler::BlockId block : graph.outputs(graph.task(task)))
      if (!graph.block(block).keep) held += graph.block(block).bytes;
    most = std::max(most, held);
    for (scheduler::BlockId block : graph.inputs(graph.task(task)))
      if (--readers[static_cast<size_t>(block)] == 0 && !graph.block(block).keep) held -= graph.block(block).bytes;
  }
  EXPECT_LT(most, int64_t{256} << 20) << "of 2 GiB of data";
}

// A plan of `count` stages, each of which reads the reduction before it.
plan::Plan chain_of_barriers(int count) {
  plan::Plan plan;
  for (int s = 0; s < count; ++s) {
    plan::Fused fused;
    const local::ValueId value = fused.program.input(DType::float64);
    fused.program.reduce("sum"_reduction, {&value, 1}, DType::float64);
    fused.reductions.push_back({0, 0, DType::float64});
    fused.reduce_axes = 1;
    plan::Input input{{}, plan::AccessMap::identity(1), DType::float64, Dims{8}, Grid::regular(Dims{8}, Dims{2})};
    if (s > 0) input = {{}, {{{}}, {}}, DType::float64, Dims{}, Grid::single({})};
    input.array.kind = s > 0 ? plan::ArrayRef::Kind::stage : plan::ArrayRef::Kind::stored;
    input.array.stage = s - 1;
    fused.inputs.push_back(std::move(input));
    plan.stages.push_back({std::move(fused),
                           "sum",
                           Dims{8},
                           Grid::regular(Dims{8}, Dims{2}),
                           {{Dims{}, DType::float64, Grid::single({})}}});
  }
  return plan;
}

TEST(LoweringOrder, HoldsForMorePhasesThanTenBitsCount) {
  constexpr int kStages = 5000;
  const plan::Plan plan = chain_of_barriers(kStages);
  exec::Order order(plan, {});
  int64_t last = -1;
  for (int s = 0; s < kStages; ++s) {
    for (const int64_t progress : {order.progress(s, 0), order.progress(s, 3), exec::kProgressEnd}) {
      const int64_t position = order.position(s, progress, exec::kMain);
      ASSERT_GT(position, last) << "stage " << s;
      ASSERT_GT(order.position(s, progress, exec::kSink), position);
      last = order.position(s, progress, exec::kSink);
    }
  }
}

TEST(LoweringOrder, RefusesMoreStagesThanAPositionHolds) {
  EXPECT_NO_THROW(exec::check_stage_count(static_cast<size_t>(exec::kMostStages)));
  EXPECT_THROW(exec::check_stage_count(static_cast<size_t>(exec::kMostStages) + 1), local::InvalidArgument);
}

TEST(LoweringOrder, AThousandBarriersRun) {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "64MiB";
  options.threads = 2;
  Runtime runtime(options);
  constexpr int kBarriers = 1100;
  Array least = min(arange(4));
  for (int i = 0; i < kBarriers; ++i) least = min(arange(1, 5) + least);
  EXPECT_EQ(least.to_host().item<int64_t>(), kBarriers);
}

}  // namespace
}  // namespace quarry
