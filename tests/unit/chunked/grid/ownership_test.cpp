// Which rank owns which chunks.
#include "quarry/chunked/grid/ownership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "quarry/local/base/error.h"

namespace quarry {
namespace {

TEST(Ownership, FollowsTheRanksWeightsInWholeSegments) {
  const std::vector<std::vector<int64_t>> all{{3, 1}, {1, 3}, {1, 1000, 1}, {5, 2, 2, 7}, {1, 1, 1, 1000000}};
  for (const std::vector<int64_t>& weights : all) {
    const Ownership owners(weights);
    const int ranks = static_cast<int>(weights.size());
    for (const int64_t chunks : {0, 1, 2, 5, 63, 64, 65, 1000}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto [first, last] = owners.owned(rank, chunks);
        ASSERT_EQ(first, next);
        ASSERT_LE(first, last);
        for (int64_t chunk = first; chunk < last; ++chunk) ASSERT_EQ(owners.owner(chunk, chunks), rank);
        // What equal ranks have in one piece stays in one piece.
        if (first > 0 && first < chunks) {
          EXPECT_NE(Ownership(64).owner(first, chunks), Ownership(64).owner(first - 1, chunks));
        }
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

TEST(Ownership, IsContiguousCompleteAndAlignedToSegments) {
  for (int64_t chunks : {1, 2, 3, 63, 64, 65, 100, 1000, 12345}) {
    for (int ranks : {1, 2, 3, 4, 7, 64, 100}) {
      int64_t next = 0;
      const int64_t segments = std::min<int64_t>(chunks, 64);
      const Ownership owners(ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto [first, last] = owners.owned(rank, chunks);
        ASSERT_EQ(first, next);
        next = last;
        bool aligned = false;
        for (int64_t s = 0; s <= segments; ++s) aligned = aligned || chunks * s / segments == last;
        ASSERT_TRUE(aligned) << chunks << " chunks, " << ranks << " ranks";
        for (int64_t chunk = first; chunk < last; chunk += std::max<int64_t>(1, (last - first) / 3))
          ASSERT_EQ(owners.owner(chunk, chunks), rank) << chunk << " of " << chunks << ", " << ranks << " ranks";
      }
      ASSERT_EQ(next, chunks);
    }
  }
}

}  // namespace
}  // namespace quarry
