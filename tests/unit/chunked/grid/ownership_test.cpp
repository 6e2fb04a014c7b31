// Which rank owns which chunks.
#include "quarry/chunked/grid/ownership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "quarry/local/base/error.h"

namespace quarry {
namespace {

// Largest count of chunks that one rank owns.
int64_t most_owned(const Ownership& ownership, const Owners& owners, const Grid& grid) {
  int64_t most = 0;
  for (int rank = 0; rank < ownership.ranks(); ++rank)
    most = std::max(most, ownership.owned(owners, grid, rank).size());
  return most;
}

TEST(Ownership, OfBlocksIsContiguousAndComplete) {
  for (const int64_t chunks : {1, 2, 3, 63, 64, 65, 100, 1000, 12345}) {
    for (const int ranks : {1, 2, 3, 4, 7, 48, 64, 65, 100, 1000, 10000}) {
      SCOPED_TRACE(testing::Message() << chunks << " chunks, " << ranks << " ranks");
      int64_t next = 0;
      const Ownership owners(ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto [first, last] = owners.owned(rank, chunks);
        ASSERT_EQ(first, next);
        next = last;
        for (int64_t chunk = first; chunk < last; chunk += std::max<int64_t>(1, (last - first) / 3))
          ASSERT_EQ(owners.owner(chunk, chunks), rank) << chunk;
        if (last > first) {
          ASSERT_EQ(owners.owner(last - 1, chunks), rank);
        }
      }
      ASSERT_EQ(next, chunks);
    }
  }
}

TEST(Ownership, GivesEveryRankItsShareOfBlocks) {
  for (const int ranks : {1, 3, 48, 64, 65, 128, 1000, 10000}) {
    for (const int64_t chunks : {int64_t{ranks}, int64_t{ranks} * 7 + 3, int64_t{20000}}) {
      SCOPED_TRACE(testing::Message() << chunks << " chunks, " << ranks << " ranks");
      const Ownership owners(ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto [first, last] = owners.owned(rank, chunks);
        EXPECT_GE(last - first, chunks / ranks);
        EXPECT_LE(last - first, (chunks - 1) / ranks + 1);
      }
    }
  }
}

// The segments of the reduction tree stay whole where the ranks divide them.
TEST(Ownership, OfBlocksKeepsSegmentsWhole) {
  for (const int64_t chunks : {65, 100, 1000, 12345}) {
    for (const int ranks : {1, 2, 4, 16, 64}) {
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(Ownership(ranks).owned(rank, chunks).first, chunks * (64 * rank / ranks) / 64);
    }
  }
}

TEST(Ownership, FollowsTheRanksWeights) {
  const std::vector<std::vector<int64_t>> all{{3, 1}, {1, 3}, {1, 1000, 1}, {5, 2, 2, 7}, {1, 1, 1, 1000000}};
  for (const std::vector<int64_t>& weights : all) {
    const Ownership owners(weights);
    int64_t sum = 0;
    for (const int64_t weight : weights) sum += weight;
    for (const int64_t chunks : {0, 1, 2, 5, 63, 64, 65, 1000}) {
      int64_t next = 0;
      for (int rank = 0; rank < std::ssize(weights); ++rank) {
        const auto [first, last] = owners.owned(rank, chunks);
        ASSERT_EQ(first, next);
        ASSERT_LE(first, last);
        for (int64_t chunk = first; chunk < last; ++chunk) ASSERT_EQ(owners.owner(chunk, chunks), rank);
        const double share = static_cast<double>(chunks) * static_cast<double>(weights[static_cast<size_t>(rank)]) /
                             static_cast<double>(sum);
        EXPECT_NEAR(static_cast<double>(last - first), share, 1);
        next = last;
      }
      ASSERT_EQ(next, chunks);
    }
  }
  const std::vector<int64_t> unequal{3, 1}, equal{7, 7}, none{1, 0}, many{1, int64_t{1} << 31};
  EXPECT_EQ(Ownership(unequal).owned(0, 6400), (std::pair<int64_t, int64_t>{0, 4800}));
  EXPECT_EQ(Ownership(equal).owned(0, 6400), Ownership(2).owned(0, 6400));
  EXPECT_EQ(Ownership(2).owned(0, 6400), (std::pair<int64_t, int64_t>{0, 3200}));
  EXPECT_THROW(Ownership{none}, local::InvalidArgument);
  EXPECT_THROW(Ownership{many}, local::InvalidArgument);
}

TEST(Owners, OfEveryKindHaveEachChunkOnce) {
  const std::vector<int64_t> unequal{5, 1, 1, 3};
  const std::vector<Ownership> jobs{Ownership(1),  Ownership(4),   Ownership(7),
                                    Ownership(48), Ownership(100), Ownership(unequal)};
  const std::vector<Grid> grids{Grid(),
                                Grid::regular({0}, {4}),
                                Grid::regular({100}, {3}),
                                Grid::regular({70, 50}, {10, 5}),
                                Grid::regular({90, 20}, {1, 10}),
                                Grid::regular({6, 40, 50}, {1, 10, 25})};
  const std::vector<Owners> kinds{Owners::blocks(),     Owners::cyclic(),     Owners::cyclic(3),
                                  Owners::cyclic(0, 0), Owners::cyclic(2, 3), Owners::cyclic(1, 1)};
  for (const Ownership& job : jobs) {
    for (const Grid& grid : grids) {
      for (const Owners& wanted : kinds) {
        SCOPED_TRACE(testing::Message() << job.ranks() << " ranks, " << grid.to_string() << wanted.to_string());
        const Owners owners = job.settled(wanted, grid);
        EXPECT_EQ(job.settled(owners, grid), owners);
        std::vector<int> owner(static_cast<size_t>(grid.count()), -1);
        for (int rank = 0; rank < job.ranks(); ++rank) {
          const OwnedChunks owned = job.owned(owners, grid, rank);
          int64_t before = -1, at = 0;
          for (const int64_t chunk : owned) {
            ASSERT_GT(chunk, before);
            before = chunk;
            ASSERT_EQ(owner[static_cast<size_t>(chunk)], -1);
            owner[static_cast<size_t>(chunk)] = rank;
            ASSERT_EQ(job.owner(owners, grid, chunk), rank);
            ASSERT_EQ(owned.index_of(chunk), at++);
          }
          ASSERT_EQ(at, owned.size());
        }
        for (int64_t chunk = 0; chunk < grid.count(); ++chunk) {
          ASSERT_GE(owner[static_cast<size_t>(chunk)], 0);
          const int other = (owner[static_cast<size_t>(chunk)] + 1) % job.ranks();
          if (job.ranks() > 1) {
            ASSERT_EQ(job.owned(owners, grid, other).index_of(chunk), -1);
          }
        }
        if (job.ranks() == 4) {
          EXPECT_EQ(job.owned(Owners::everywhere(), grid, 2).size(), grid.count());
        }
      }
    }
  }
}

TEST(Owners, OfTilesReadFewRowsAndColumns) {
  const Ownership job(16);
  const Grid grid = Grid::regular({64, 64}, {4, 4});
  const Owners owners = job.settled(Owners::cyclic(0, 0), grid);
  EXPECT_EQ(owners, Owners::cyclic(4, 4));
  for (int rank = 0; rank < job.ranks(); ++rank) {
    std::set<int64_t> rows, columns;
    for (const int64_t chunk : job.owned(owners, grid, rank)) {
      rows.insert(grid.coordinates(chunk)[0]);
      columns.insert(grid.coordinates(chunk)[1]);
    }
    EXPECT_EQ(rows.size(), 4u);
    EXPECT_EQ(columns.size(), 4u);
  }
}

TEST(Owners, OfTilesLoadRanksAlike) {
  for (const int ranks : {2, 3, 6, 7, 16, 64, 97, 100, 1000, 1009}) {
    const Ownership job(ranks);
    for (const Dims& tiles : {Dims{100, 100}, Dims{100, 2}, Dims{2, 100}, Dims{1000, 3}, Dims{33, 33}}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << local::to_string(tiles));
      const Grid grid = Grid::regular(tiles, {1, 1});
      const int64_t least = (grid.count() - 1) / ranks + 1;
      EXPECT_LE(4 * most_owned(job, job.settled(Owners::cyclic(0, 0), grid), grid), 5 * least);
    }
  }
}

TEST(Owners, FollowWeights) {
  const std::vector<int64_t> unequal{3, 1};
  const Ownership job(unequal);
  const Grid grid = Grid::regular({80, 80}, {1, 1});
  for (const Owners& wanted : {Owners::cyclic(), Owners::cyclic(0, 0)}) {
    const Owners owners = job.settled(wanted, grid);
    EXPECT_NEAR(static_cast<double>(job.owned(owners, grid, 0).size()), 4800, 10) << owners.to_string();
  }
}

TEST(Owners, RefuseRectanglesOfNothing) {
  EXPECT_THROW(Owners::cyclic(-1), local::InvalidArgument);
  EXPECT_THROW(Owners::cyclic(0, 2), local::InvalidArgument);
  EXPECT_THROW(Owners::cyclic(2, -2), local::InvalidArgument);
}

}  // namespace
}  // namespace quarry
