// The global order of tasks: what is computed twice on purpose runs when it is wanted.
#include <gtest/gtest.h>

#include <algorithm>

#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "tests/support/memory_dataset.h"

namespace quarry {
namespace {

TEST(LoweringOrder, OperandsOfALateProductRunLate) {
  const Array x(
      expr::source(std::make_shared<testing::MemoryDataset>("/x", Dims{524288, 512}, DType::float64, Dims{8192, 64})));
  const Array z = (x - mean(x, 0)) / std(x, 0);
  const Array vectors = linalg::eigh(matmul(z.T(), z)).second;
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

}  // namespace
}  // namespace quarry
