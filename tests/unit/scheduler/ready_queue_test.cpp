// The line and the heap together against a sorted list.

#include "quarry/scheduler/queues/ready_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>

namespace quarry::scheduler {
namespace {

struct Numbered {
  int64_t order;
};

TEST(ReadyQueue, LowestFirstInAnyOrderOfComing) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    ReadyQueue<Numbered> queue;
    std::multiset<int64_t> reference;
    int64_t next = 0;
    for (int i = 0; i < 5000; ++i) {
      // Runs of ascending ones, some from before, and phases that fill or drain.
      const bool fill = (i / 700) % 2 == 0;
      if (reference.empty() || random() % 10 < (fill ? 7u : 3u)) {
        const int64_t order = random() % 4 < seed % 5 ? next - static_cast<int64_t>(random() % 300) : next++;
        queue.push({order});
        reference.insert(order);
      } else {
        ASSERT_EQ(queue.front().order, *reference.begin());
        ASSERT_EQ(queue.pop().order, *reference.begin());
        reference.erase(reference.begin());
      }
      ASSERT_EQ(queue.size(), reference.size());
      ASSERT_EQ(queue.empty(), reference.empty());
    }
    std::multiset<int64_t> seen;
    queue.for_each([&](const Numbered& item) { seen.insert(item.order); });
    ASSERT_EQ(seen, reference);
    queue.clear();
    EXPECT_TRUE(queue.empty());
    queue.push({7});
    EXPECT_EQ(queue.pop().order, 7);
  }
}

}  // namespace
}  // namespace quarry::scheduler
