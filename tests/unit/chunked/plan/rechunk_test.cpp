// Grids between the chunks of an array and those that are wanted.
#include "quarry/chunked/plan/rechunk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "quarry/chunked/grid/chunking.h"

namespace quarry::plan {
namespace {

using Kind = RechunkSource::Kind;
constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;

Grid rows(int64_t n, int64_t m, int64_t together) { return Grid::regular({n, m}, {together, m}); }
Grid columns(int64_t n, int64_t m, int64_t together) { return Grid::regular({n, m}, {n, together}); }

// What the stages after the first one read from disk or memory, and the parts of the worst.
int64_t most_parts(const RechunkSource& from, const std::vector<Grid>& grids, int64_t itemsize) {
  int64_t most = 0;
  RechunkSource source = from;
  for (const Grid& grid : grids) {
    most = std::max(most, rechunk_stage(source, grid, itemsize).most_parts);
    source = {Kind::memory, grid, {}};
  }
  return most;
}

TEST(RechunkStage, CountsPartsAndRuns) {
  const Grid from = rows(1000, 64, 10), to = columns(1000, 64, 8);
  const RechunkStage stage = rechunk_stage({Kind::memory, from, {}}, to, 8);
  EXPECT_EQ(stage.parts, 100 * 8);
  EXPECT_EQ(stage.most_parts, 100);
  EXPECT_EQ(stage.read_bytes, 1000 * 64 * 8);
  // A contiguous file: a run for every row of a column chunk, or one for each chunk of rows.
  const Grid file = Grid::single({1000, 64});
  EXPECT_EQ(rechunk_stage({Kind::file, file, {}}, to, 8).runs, 8000);
  EXPECT_EQ(rechunk_stage({Kind::file, file, {}}, from, 8).runs, 100);
  // The same seen through a transposition.
  EXPECT_EQ(rechunk_stage({Kind::file, file, {1, 0}}, to, 8).runs, 8);
  // Every file chunk that is touched is decoded whole.
  EXPECT_EQ(rechunk_stage({Kind::decoded, from, {}}, to, 8).read_bytes, 8 * 1000 * 64 * 8);
}

TEST(PlanRechunk, WhatIsCheapAtOnceIsOneStage) {
  const Grid from = rows(4096, 4096, 64), to = columns(4096, 4096, 64);
  // Parts of 32 KiB in memory.
  EXPECT_EQ(plan_rechunk({Kind::memory, from, {}}, to, {8, 4 * kMiB, false}), std::vector{to});
  EXPECT_EQ(plan_rechunk({Kind::spilled, from, {}}, from, {8, 4 * kMiB, true}), std::vector{from});
  // Merging and splitting along one axis costs nothing extra, also on disk.
  const Grid merged = rows(4096, 4096, 128);
  EXPECT_EQ(plan_rechunk({Kind::spilled, from, {}}, merged, {8, 8 * kMiB, true}), std::vector{merged});
}

TEST(PlanRechunk, FarPartsAreFewWhereTheyAreDear) {
  // 64 GiB in chunks of 63 MiB: a million parts of 63 KiB at once.
  const int64_t n = 92160;
  const Grid from = rows(n, n, 90), to = columns(n, n, 90);
  RechunkLimits limits{8, 256 * kMiB, false};
  EXPECT_EQ(plan_rechunk({Kind::memory, from, {}}, to, limits), std::vector{to});
  limits.part_bytes = kMiB;
  limits.own_part_bytes = 256 * kKiB;
  limits.own_cost = 0.25;
  // Ranks have the same rows of both grids first, or last, and the other stage has few parts.
  const std::vector<Grid> there = plan_rechunk({Kind::memory, from, {}}, to, limits);
  ASSERT_EQ(there.size(), 2u);
  EXPECT_LE(rechunk_stage({Kind::memory, there[0], {}}, to, 8).parts, 32 * 1024);
  EXPECT_GE(there[0].axis(0).count(), 8);
  const std::vector<Grid> back = plan_rechunk({Kind::memory, to, {}}, from, limits);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_LE(rechunk_stage({Kind::memory, to, {}}, back[0], 8).parts, 32 * 1024);
  EXPECT_GE(back[0].axis(0).count(), 8);
  EXPECT_LE(largest_chunk_bytes(there[0], 8), 2 * largest_chunk_bytes(to, 8));
  // Three axes, of which two change places: slabs of a Fourier transform.
  const Grid slabs = Grid::regular({1024, 1024, 1024}, {8, 1024, 1024});
  const Grid turned = Grid::regular({1024, 1024, 1024}, {1024, 8, 1024});
  const std::vector<Grid> grids = plan_rechunk({Kind::memory, slabs, {}}, turned, limits);
  ASSERT_EQ(grids.size(), 2u);
  EXPECT_LE(rechunk_stage({Kind::memory, grids[0], {}}, turned, 8).parts, 16 * 128);
  // One rank has all parts itself, and a few fetch their shares of chunks.
  for (const int ranks : {1, 2, 4}) {
    limits.ranks = ranks;
    EXPECT_EQ(plan_rechunk({Kind::memory, slabs, {}}, turned, limits), std::vector{turned}) << ranks;
  }
  limits.ranks = 64;
  EXPECT_EQ(plan_rechunk({Kind::memory, slabs, {}}, turned, limits).size(), 2u);
  limits.ranks = 0;
  // Parts of 4 MiB are moved once.
  const Grid few = rows(8192, 8192, 512), wide = columns(8192, 8192, 512);
  EXPECT_EQ(plan_rechunk({Kind::memory, few, {}}, wide, limits), std::vector{wide});
}

TEST(PlanRechunk, RowsOnDiskBecomeColumnsByWholeChunks) {
  // 1 GiB in chunks of 1 MiB, room for 8 MiB: parts would be of 8 KiB, a million of them.
  const Grid from = rows(8192, 16384, 8), to = columns(8192, 16384, 16);
  const RechunkSource source{Kind::spilled, from, {}};
  const RechunkLimits limits{8, 8 * kMiB, true};
  const std::vector<Grid> grids = plan_rechunk(source, to, limits);
  ASSERT_GT(grids.size(), 1u);
  EXPECT_EQ(grids.back(), to);
  EXPECT_LE(most_parts(source, grids, 8), limits.most_parts);
  for (const Grid& grid : grids) EXPECT_LE(largest_chunk_bytes(grid, 8), limits.room) << grid.to_string();
  // Whoever waits reads and writes whole chunks of at least 64 KiB.
  const auto smallest =
      std::ranges::min_element(grids, {}, [](const Grid& grid) { return largest_chunk_bytes(grid, 8); });
  EXPECT_GE(largest_chunk_bytes(*smallest, 8), 64 * kKiB);
}

TEST(PlanRechunk, AFileIsReadInWholeRows) {
  const Grid file = Grid::single({8192, 16384});
  const RechunkSource source{Kind::file, file, {0, 1}};
  const Grid to = columns(8192, 16384, 64);
  const std::vector<Grid> grids = plan_rechunk(source, to, {8, 10 * kMiB, true});
  ASSERT_GT(grids.size(), 1u);
  EXPECT_EQ(grids.front().axis(1).count(), 1) << grids.front().to_string();
}

TEST(PlanRechunk, FileChunksAreDecodedOnce) {
  const Grid file = Grid::regular({4096, 4096}, {100, 300});
  const RechunkSource source{Kind::decoded, file, {0, 1}};
  const Grid to = columns(4096, 4096, 16);
  for (const bool spills : {false, true}) {
    const std::vector<Grid> grids = plan_rechunk(source, to, {8, 4 * kMiB, spills});
    ASSERT_GT(grids.size(), 1u);
    const RechunkStage first = rechunk_stage(source, grids.front(), 8);
    EXPECT_EQ(first.read_bytes, 4096.0 * 4096 * 8) << grids.front().to_string();
    EXPECT_EQ(grids.back(), to);
    // Also where there is room for one chunk of the file only.
    const std::vector<Grid> tight = plan_rechunk(source, to, {8, 100 * 300 * 8, spills});
    EXPECT_EQ(rechunk_stage(source, tight.front(), 8).read_bytes, 4096.0 * 4096 * 8) << tight.front().to_string();
  }
}

TEST(PlanRechunk, FewRoomTakesMoreSteps) {
  // 64 GiB through 1 MiB: one step would have parts of 16 bytes.
  const int64_t n = int64_t{1} << 16, m = int64_t{1} << 17;
  const Grid from = rows(n, m, 1), to = columns(n, m, 2);
  const RechunkLimits limits{8, kMiB, true};
  const std::vector<Grid> grids = plan_rechunk({Kind::spilled, from, {}}, to, limits);
  EXPECT_GE(grids.size(), 4u);
  EXPECT_LE(most_parts({Kind::spilled, from, {}}, grids, 8), limits.most_parts);
  for (const Grid& grid : grids) EXPECT_LE(largest_chunk_bytes(grid, 8), limits.room) << grid.to_string();
}

// Any grids: the last one is what is wanted, those between cut the same shape and have room.
TEST(PlanRechunk, RandomGrids) {
  std::mt19937 random(5);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<AxisChunks> from, to;
    const int64_t ndim = pick(0, 5);
    for (int64_t d = 0; d < ndim; ++d) {
      const int64_t extent = pick(0, 20) == 0 ? 0 : pick(1, 200);
      for (std::vector<AxisChunks>* axes : {&from, &to}) {
        std::vector<int64_t> extents;
        for (int64_t left = extent; left > 0; left -= extents.back())
          extents.push_back(pick(0, 2) == 0 ? 1 : std::min(left, pick(1, 100)));
        axes->push_back(pick(0, 1) == 0 ? AxisChunks(extents) : AxisChunks(extent, pick(1, 200)));
      }
    }
    const Grid a(from), b(to);
    RechunkSource source{static_cast<Kind>(pick(0, 3)), a, {}};
    for (int d = 0; d < a.ndim(); ++d) source.order.push_back(a.ndim() - 1 - d);
    const RechunkLimits limits{8, pick(0, 3) == 0 ? 0 : pick(1, 1 << 20), pick(0, 1) == 0};
    const std::vector<Grid> grids = plan_rechunk(source, b, limits);
    ASSERT_FALSE(grids.empty());
    EXPECT_EQ(grids.back(), b);
    for (size_t i = 0; i + 1 < grids.size(); ++i) {
      EXPECT_EQ(grids[i].shape(), a.shape());
      EXPECT_NE(grids[i], grids[i + 1]);
      if (limits.room > 0) {
        EXPECT_LE(largest_chunk_bytes(grids[i], 8), limits.room);
      }
    }
  }
}

}  // namespace
}  // namespace quarry::plan
