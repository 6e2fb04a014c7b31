// Parts of all ranks reach rank 0, in order and on its clock.
#include <gtest/gtest.h>

#include "quarry/chunked/report/gather.h"
#include "tests/support/mpi_job.h"

namespace quarry::report {
namespace {

using test::job;

TEST(GatherTraces, EveryRanksEventsOnOneClock) {
  for (const int count : {0, 1, 20000}) {
    RankTrace mine;
    mine.rank = job().rank();
    mine.host = "host" + std::to_string(mine.rank);
    mine.read_bytes = 100 + mine.rank;
    job().barrier();
    const int64_t now = local::trace_clock_ns();
    for (int i = 0; i < count; ++i) {
      local::TraceEvent event;
      event.name = "task " + std::to_string(i);
      event.track = "compute";
      event.begin_ns = now + i;
      event.end_ns = now + i + 5;
      mine.events.push_back(event);
    }
    const std::vector<RankTrace> all = gather_traces(job(), mine);
    if (job().rank() != 0) {
      EXPECT_TRUE(all.empty());
      continue;
    }
    ASSERT_EQ(all.size(), static_cast<size_t>(job().size()));
    for (int rank = 0; rank < job().size(); ++rank) {
      const RankTrace& part = all[static_cast<size_t>(rank)];
      EXPECT_EQ(part.rank, rank);
      EXPECT_EQ(part.host, "host" + std::to_string(rank));
      EXPECT_EQ(part.read_bytes, 100 + rank);
      ASSERT_EQ(part.events.size(), static_cast<size_t>(count));
      if (count == 0) continue;
      EXPECT_EQ(part.events.back().name, "task " + std::to_string(count - 1));
      // One machine has one clock: what the exchange adds is its own time at most.
      EXPECT_NEAR(static_cast<double>(part.events[0].begin_ns - now), 0, 2e9);
      EXPECT_EQ(part.events[0].end_ns - part.events[0].begin_ns, 5);
    }
  }
}

}  // namespace
}  // namespace quarry::report
