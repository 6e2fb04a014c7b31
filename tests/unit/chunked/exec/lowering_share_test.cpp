// What a rank's part of a plan costs: its share of tasks, of memory and of time.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "tests/support/memory_dataset.h"

namespace quarry {
namespace {

struct Cost {
  int64_t tasks = 0, blocks = 0, bytes = 0;
  double seconds = 1e9;
};

// Of lowering for one rank, without running.
Cost lower_for(const plan::Plan& plan, const std::vector<exec::Sink>& sinks, int rank, int ranks) {
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  };
  const auto cpu_seconds = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  exec::LoweringContext context;
  context.rank = rank;
  context.owners = Ownership(ranks);
  context.thieves = 2;
  Cost cost;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const int64_t before = in_use();
    const double begin = cpu_seconds();
    const auto lowered = exec::lower(plan, sinks, context);
    cost.seconds = std::min(cost.seconds, cpu_seconds() - begin);
    cost.bytes = in_use() - before;
    cost.tasks = lowered->graph.task_count();
    cost.blocks = lowered->graph.block_count();
  }
  return cost;
}

TEST(LoweringShare, EachRankPaysForItsPart) {
  constexpr int64_t kChunks = 100000;
  constexpr int kRanks = 4;
  const Array x(
      expr::source(std::make_shared<testing::MemoryDataset>("/x", Dims{kChunks, 64}, DType::float64, Dims{1, 64})));
  const Array y = x.rechunk(Grid::regular({kChunks, 64}, {1, 64}));
  const plan::Plan plan = plan::make_plan({(y * 2 + 1).node(), sum(y * y, 0).node()}, {});
  std::vector<exec::Sink> sinks(2);
  for (size_t i = 0; i < sinks.size(); ++i) sinks[i].array = plan.results[i];
  const Cost whole = lower_for(plan, sinks, 0, 1);
  EXPECT_GE(whole.tasks, kChunks);
  int64_t tasks = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    const Cost part = lower_for(plan, sinks, rank, kRanks);
    tasks += part.tasks;
    // A share, and a few tasks along the tree.
    constexpr int64_t kTree = 300;
    EXPECT_LE(part.tasks, whole.tasks / kRanks + kTree);
    EXPECT_LE(part.blocks, whole.blocks / kRanks + kTree);
    EXPECT_LE(part.bytes, whole.bytes * 13 / (10 * kRanks));
    EXPECT_LE(part.seconds, whole.seconds * 2 / kRanks);
  }
  EXPECT_GE(tasks, whole.tasks);
}

}  // namespace
}  // namespace quarry
