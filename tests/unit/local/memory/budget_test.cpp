#include "quarry/local/memory/budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "quarry/local/base/error.h"

namespace quarry::local {
namespace {

TEST(Budget, HoldsItsLimit) {
  Budget budget("device", 100);
  Reservation first = budget.reserve(60);
  EXPECT_EQ(first.bytes(), 60);
  EXPECT_FALSE(budget.try_reserve(41));
  Reservation rest = budget.try_reserve(40);
  EXPECT_TRUE(rest);
  try {
    budget.reserve(1);
    FAIL() << "no exception";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(), "device memory: 1 bytes do not fit: 100 of 100 are reserved");
  }
  EXPECT_TRUE(budget.try_reserve(0));
  first.release();
  EXPECT_EQ(budget.reserved_bytes(), 40);
  Reservation moved = std::move(rest);
  EXPECT_FALSE(rest);  // NOLINT: moved from on purpose
  EXPECT_EQ(budget.reserved_bytes(), 40);
  moved = Reservation();
  EXPECT_EQ(budget.reserved_bytes(), 0);
  EXPECT_EQ(budget.peak_bytes(), 100);
}

TEST(Budget, ThreadsNeverExceedIt) {
  Budget budget("host", 1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget] {
      for (int i = 0; i < 2000; ++i) {
        const Reservation reservation = budget.try_reserve(300);
        EXPECT_LE(budget.reserved_bytes(), 1000);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(budget.reserved_bytes(), 0);
  EXPECT_LE(budget.peak_bytes(), 1000);
  EXPECT_EQ(budget.peak_bytes() % 300, 0);
}

}  // namespace
}  // namespace quarry::local
