// Parts of all ranks reach rank 0, in order and on its clock.
#include <gtest/gtest.h>

#include <algorithm>

#include "quarry/chunked/report/gather.h"
#include "quarry/chunked/report/thinning.h"
#include "tests/support/mpi_job.h"

namespace quarry::report {
namespace {

using test::job;

TEST(GatherTraces, EveryRanksEventsOnOneClock) {
  const auto kept = static_cast<int>(kMostGathered / static_cast<size_t>(job().size()));  // of each rank
  for (const int count : {0, 1, std::min(20000, kept)}) {
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

// More than rank 0 takes: neighbours become one, and nothing of what they say is lost.
TEST(GatherTraces, VeryManyEventsAreThinned) {
  const auto kept = static_cast<int64_t>(kMostGathered / static_cast<size_t>(job().size()));
  const int64_t count = kept + 1000;
  RankTrace mine;
  mine.rank = job().rank();
  for (int64_t i = 0; i < count; ++i) {
    local::TraceEvent event;
    event.name = "task";
    event.track = "compute";
    event.begin_ns = 10 * i;
    event.end_ns = event.begin_ns + 5;
    event.bytes = 3;
    mine.events.push_back(event);
  }
  const std::vector<RankTrace> all = gather_traces(job(), mine);
  for (const RankTrace& part : all) {
    EXPECT_LE(std::ssize(part.events), kept);
    int64_t events = 0, bytes = 0;
    for (const local::TraceEvent& event : part.events) {
      events += event.count;
      bytes += event.bytes;
    }
    EXPECT_EQ(events, count);
    EXPECT_EQ(bytes, 3 * count);
  }
  EXPECT_EQ(std::ssize(all), job().rank() == 0 ? job().size() : 0);
}

}  // namespace
}  // namespace quarry::report
