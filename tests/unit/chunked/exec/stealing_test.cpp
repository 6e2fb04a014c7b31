// Chunks that ranks steal from each other, without a job: tests/mpi/balance.cpp has the rest.
#include "quarry/chunked/exec/stealing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

namespace quarry::exec {
namespace {

constexpr BlockKey kKey{3, kStolen | 7, 0};
constexpr int64_t kState = 100;

// Ranks whose messages arrive at once.
struct Ranks {
  explicit Ranks(int count, int64_t limit = 1 << 20) {
    for (int r = 0; r < count; ++r) {
      ranks.push_back(std::make_unique<WorkStealing>(r, count, [this, r](int to, const Message& message) {
        const Message arrived = decode(encode(message));
        if (message.kind == MessageKind::steal_request) {
          ++requests;
          ranks[static_cast<size_t>(to)]->handle_request(r, arrived.request.key.stage, arrived.request.fetch);
        } else {
          ranks[static_cast<size_t>(to)]->handle_reply(r, arrived);
        }
      }));
    }
    for (auto& rank : ranks) {
      WorkStealing::Settings settings;
      settings.is_victim = [](int) { return true; };
      settings.limit_bytes = limit;
      settings.budget = &budget;
      rank->configure(settings);
    }
  }
  local::Budget budget{"test", 1 << 20};
  std::atomic<int64_t> requests{0};
  std::vector<std::unique_ptr<WorkStealing>> ranks;
};

bool never() { return false; }

TEST(WorkStealing, TheLastUnclaimedChunkIsStolen) {
  Ranks job(2);
  job.ranks[0]->make_stealable(kKey, 10, 14);
  EXPECT_EQ(job.ranks[0]->claim(3, 10), 0);
  EXPECT_EQ(job.ranks[0]->claim(3, 13), 0);
  const auto stolen = job.ranks[1]->steal(3, never);
  ASSERT_TRUE(stolen.has_value());
  EXPECT_EQ(stolen->victim, 0);
  EXPECT_EQ(stolen->key, (BlockKey{3, kStolen | 7, 12}));
  EXPECT_EQ(job.ranks[0]->claim(3, 12), 1);
  EXPECT_EQ(job.ranks[0]->claim(3, 12), 1);
  EXPECT_EQ(job.ranks[1]->steal(3, never)->key.chunk, 11);
  EXPECT_FALSE(job.ranks[1]->steal(3, never).has_value());
}

TEST(WorkStealing, NothingToSteal) {
  Ranks job(4);
  job.ranks[1]->make_stealable(kKey, 0, 0);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(job.ranks[0]->steal(3, never).has_value());
  EXPECT_EQ(job.requests, 3);  // each other rank once
  Ranks alone(1);
  EXPECT_FALSE(alone.ranks[0]->steal(3, never).has_value());
}

TEST(WorkStealing, AsksFewOfManyRanks) {
  for (const int ranks : {2, 16, 100, 1000}) {
    Ranks job(ranks);
    EXPECT_FALSE(job.ranks[0]->steal(3, never).has_value());
    EXPECT_LE(job.requests, std::max(ranks <= 16 ? ranks - 1 : 0, 2 * static_cast<int>(std::ceil(std::log2(ranks)))));
    // Who may be asked knows who asks: chunks of every rank find as many thieves.
    EXPECT_EQ(WorkStealing::known_ranks(0, ranks).size(), WorkStealing::known_ranks(ranks / 2, ranks).size());
    const std::vector<int> known = WorkStealing::known_ranks(1, ranks);
    const int last = known.back();
    job.ranks[static_cast<size_t>(last)]->make_stealable(kKey, 0, 1);
    EXPECT_EQ(job.ranks[1]->steal(3, never)->victim, last);
  }
}

TEST(WorkStealing, OnlyRanksThatComputeTheSameBits) {
  Ranks job(2);
  job.ranks[0]->make_stealable(kKey, 0, 5);
  WorkStealing::Settings settings;
  settings.is_victim = [](int rank) { return rank == 1; };
  settings.budget = &job.budget;
  job.ranks[1]->configure(settings);
  EXPECT_FALSE(job.ranks[1]->steal(3, never).has_value());
}

TEST(WorkStealing, StolenBytesAreBounded) {
  Ranks job(2, 3 * local::rounded_allocation(kState));
  std::vector<std::shared_ptr<std::byte>> held;
  for (int i = 0; i < 3; ++i) held.push_back(job.ranks[0]->reserve(kState));
  EXPECT_THAT(held, testing::Each(testing::NotNull()));
  EXPECT_EQ(job.budget.reserved_bytes(), 3 * local::rounded_allocation(kState));
  EXPECT_EQ(job.ranks[0]->reserve(kState), nullptr);
  held.pop_back();
  EXPECT_NE(job.ranks[0]->reserve(kState), nullptr);
  held.clear();
  EXPECT_EQ(job.budget.reserved_bytes(), 0);
}

TEST(WorkStealing, ACancelledRankDoesNotWait) {
  WorkStealing alone(0, 2, [](int, const Message&) {});  // nobody answers
  local::Budget budget("test", 1000);
  WorkStealing::Settings settings;
  settings.is_victim = [](int) { return true; };
  settings.budget = &budget;
  alone.configure(settings);
  std::atomic<bool> cancelled = false;
  std::jthread cancel([&] { cancelled = true; });
  EXPECT_FALSE(alone.steal(3, [&] { return cancelled.load(); }).has_value());
}

TEST(WorkStealing, EveryChunkIsMadeOnceByManyThreads) {
  constexpr int kRanks = 4;
  constexpr int64_t kChunks = 4000;
  for (const bool idle : {false, true}) {
    Ranks job(kRanks);
    std::vector<std::atomic<int>> made(kRanks * kChunks);
    for (int r = 0; r < kRanks; ++r)
      job.ranks[static_cast<size_t>(r)]->make_stealable(kKey, r * kChunks, (r + 1) * kChunks);
    {
      std::vector<std::jthread> threads;
      for (int r = 0; r < kRanks; ++r) {
        threads.emplace_back([&, r] {
          WorkStealing& mine = *job.ranks[static_cast<size_t>(r)];
          for (int64_t chunk = r * kChunks; chunk < (r + 1) * kChunks && !(idle && r == 1); ++chunk) {
            if (mine.claim(3, chunk) == r) ++made[static_cast<size_t>(chunk)];
          }
        });
        threads.emplace_back([&, r] {
          while (const auto stolen = job.ranks[static_cast<size_t>(r)]->steal(3, never)) {
            EXPECT_NE(stolen->victim, r);
            ++made[static_cast<size_t>(stolen->key.chunk)];
          }
        });
      }
    }
    for (const auto& times : made) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace quarry::exec
