// Shares of the memory budget: within their bounds, and together no more than there is.
#include <gtest/gtest.h>

#include <numeric>

#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/policy.h"
#include "quarry/local/memory/shares.h"

namespace quarry::local {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(Sizes, AreWrittenWithThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(32 * kMiB), "32.0 MiB");
  EXPECT_EQ(format_bytes(256 * kMiB), "256 MiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 60), "3.00 EiB");
  EXPECT_EQ(format_bytes(-1536), "-1.50 KiB");
}

TEST(Sizes, AlignUpGoesToTheNextMultiple) {
  EXPECT_EQ(align_up(0, 256), 0);
  EXPECT_EQ(align_up(1, 256), 256);
  EXPECT_EQ(align_up(256, 256), 256);
  EXPECT_EQ(align_up(257, 256), 512);
}

TEST(MemoryPolicy, BuffersStaySmallInEveryBudget) {
  for (int64_t budget = kMiB; budget < int64_t{1} << 40; budget *= 3) {
    EXPECT_GE(memory_policy::message_piece_bytes(budget), memory_policy::kLeastMessagePiece);
    EXPECT_LE(memory_policy::message_piece_bytes(budget), memory_policy::kMostMessagePiece);
    if (budget >= 4 * kMiB) {
      EXPECT_LT(memory_policy::message_bytes(budget, /*buffers=*/7), budget / 16);
    }
    for (const int threads : {1, 2, 8, 16}) {
      const int64_t bounce = memory_policy::bounce_bytes(budget, threads);
      EXPECT_EQ(bounce % (2 * memory_policy::kBounceUnit), 0);
      EXPECT_LE(bounce, memory_policy::kMostBounceBytes);
      if (budget >= 8 * kMiB) {
        EXPECT_LE(bounce * threads, budget / memory_policy::kBouncePart);
      }
    }
  }
}

TEST(MemoryPolicy, ManyIoThreadsNeedRoomForTheirBuffers) {
  constexpr int64_t kMany = memory_policy::kManyIoThreadsBytes;
  EXPECT_EQ(memory_policy::io_threads(1, kMany), 2);
  EXPECT_EQ(memory_policy::io_threads(12, kMany), 12);
  EXPECT_EQ(memory_policy::io_threads(64, kMany), 16);
  EXPECT_EQ(memory_policy::io_threads(64, kMany - 1), 8);
  EXPECT_EQ(memory_policy::io_threads(64, /*host_budget=*/0), 8);
  const int threads = memory_policy::io_threads(64, kMany);
  EXPECT_LE(threads * (2 * memory_policy::staging_piece_bytes(kMany) + memory_policy::bounce_bytes(kMany, threads)),
            kMany / 2);
}

TEST(MemoryPolicy, SegmentsAreFewAndTheFirstIsSmall) {
  for (int64_t budget = 256; budget < int64_t{1} << 40; budget *= 3) {
    EXPECT_LE(memory_policy::first_segment_bytes(budget), 256 * kMiB);
    EXPECT_LE(memory_policy::first_segment_bytes(budget), memory_policy::most_segment_bytes(budget));
    EXPECT_LE(memory_policy::most_segment_bytes(budget), budget / 4);
  }
}

TEST(MemoryPolicy, TasksHaveWhatMessagesLeaveOnTheCpuAndAllOnADevice) {
  EXPECT_EQ(memory_policy::task_bytes(256 * kMiB, /*on_device=*/false, /*buffers=*/4), 248 * kMiB);
  EXPECT_EQ(memory_policy::task_bytes(256 * kMiB, /*on_device=*/true, /*buffers=*/7), 256 * kMiB);
}

TEST(MemoryPolicy, StolenChunksTakeWhatNoTaskNeeds) {
  EXPECT_EQ(memory_policy::stolen_bytes(256 * kMiB, 100 * kMiB, /*on_device=*/false), 16 * kMiB);
  EXPECT_EQ(memory_policy::stolen_bytes(256 * kMiB, 3 * kMiB, /*on_device=*/false), 3 * kMiB);
  EXPECT_EQ(memory_policy::stolen_bytes(256 * kMiB, -1, /*on_device=*/false), 0);
  EXPECT_EQ(memory_policy::stolen_bytes(256 * kMiB, 0, /*on_device=*/true), 4 * kMiB);
}

TEST(MemoryPolicy, DecodedChunksLeaveTasksMore) {
  constexpr int64_t kMuch = int64_t{1} << 40;
  EXPECT_EQ(memory_policy::chunk_cache_bytes(256 * kMiB, 200 * kMiB, kMuch), 64 * kMiB);
  EXPECT_EQ(memory_policy::chunk_cache_bytes(256 * kMiB, 200 * kMiB, 90 * kMiB), 90 * kMiB);
  EXPECT_EQ(memory_policy::chunk_cache_bytes(256 * kMiB, 100 * kMiB, kMuch), 50 * kMiB);
  EXPECT_EQ(memory_policy::chunk_cache_bytes(256 * kMiB, -1, kMuch), 0);
  EXPECT_EQ(memory_policy::chunk_cache_bytes(256 * kMiB, 200 * kMiB, 0), 0);
}

TEST(MemoryShares, AddUpToTheBudgetOfTheirTier) {
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::emulated}) {
    for (const int ranks : {1, 2, 8}) {
      for (const int64_t bytes : {8 * kMiB, 100 * kMiB, 70000 * kMiB}) {
        const std::vector<MemoryTier> tiers =
            memory_tiers({kind, bytes, bytes / 2, ranks, /*message_buffers=*/7, /*io_threads=*/2, true});
        ASSERT_EQ(tiers.size(), kind == DeviceKind::cpu ? 1u : 2u);
        EXPECT_EQ(tiers[0].bytes, bytes);
        for (const MemoryTier& tier : tiers) {
          int64_t sum = 0;
          for (const MemoryShare& share : tier.shares) {
            EXPECT_GE(share.bytes, 0) << share.name;
            EXPECT_LE(share.bytes, tier.bytes) << share.name;
            if (!share.at_most) sum += share.bytes;
          }
          EXPECT_EQ(sum, tier.bytes) << tier.name;
        }
      }
    }
  }
}

TEST(MemoryShares, OfOneRankHaveNoMessagesAndNothingStolen) {
  for (const MemoryTier& tier :
       memory_tiers({DeviceKind::cuda, 64 * kMiB, 64 * kMiB, 1, /*message_buffers=*/7, 2, true})) {
    for (const MemoryShare& share : tier.shares) {
      EXPECT_EQ(share.name.find("between ranks"), std::string::npos);
      EXPECT_EQ(share.name.find("stolen"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace quarry::local
