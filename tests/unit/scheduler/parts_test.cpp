// The executor's parts one by one: queues and times, reserved bytes, eviction, callbacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quarry/scheduler/blocks/block_table.h"
#include "quarry/scheduler/blocks/reserved_bytes.h"
#include "quarry/scheduler/core/callbacks.h"
#include "quarry/scheduler/queues/work_queue.h"

namespace quarry::scheduler {
namespace {

using ::testing::ElementsAre;

TEST(WorkQueue, AFewShortTasksAreLeftToTheThreadThatWillBeBack) {
  WorkQueue queue;
  EXPECT_FALSE(queue.is_worth_joining());
  queue.push({0, 0, Job::task, /*ns=*/200});
  EXPECT_TRUE(queue.is_worth_joining());  // nobody else would come
  queue.in_short_rounds = 1;
  EXPECT_FALSE(queue.is_worth_joining());
  queue.push({1, 1, Job::task, /*ns=*/2000});
  EXPECT_TRUE(queue.is_worth_joining());
  EXPECT_EQ(queue.pop().what, 0);
  EXPECT_EQ(queue.pop().what, 1);
  EXPECT_FALSE(queue.is_worth_joining());
  queue.push({2, 2, Job::task, /*ns=*/200});
  queue.note_overdue();
  EXPECT_TRUE(queue.is_worth_joining());
  queue.pop();
  EXPECT_FALSE(queue.is_worth_joining());
}

TEST(WorkQueue, WakesAsManyThreadsAsTheWorkIsWorthOnceEach) {
  WorkQueue queue;
  queue.threads = 4;
  queue.idle = 3;
  EXPECT_EQ(queue.wake_for_ready(), 0);
  EXPECT_FALSE(queue.is_known_worth_joining());
  for (int i = 0; i < 10; ++i) queue.push({i, i, Job::task, /*ns=*/kRoundNs});
  EXPECT_EQ(queue.wake_for_ready(), 3);
  EXPECT_TRUE(queue.is_known_worth_joining());
  EXPECT_EQ(queue.wake_for_ready(), 0);
  EXPECT_EQ(queue.tokens, 3);
  queue.idle = 2;
  queue.tokens = 0;
  queue.looking = 1;
  while (queue.size() > 2) queue.pop();
  EXPECT_EQ(queue.wake_for_ready(), 0);  // the one that looks takes it
  queue.threads = 2;
  while (queue.size() < 10) queue.push({10, 10, Job::task, /*ns=*/kRoundNs});
  EXPECT_EQ(queue.wake_for_ready(), 1);  // beside the one that looks
}

TEST(WorkQueue, ClearingVisitsEverythingAndForgetsIt) {
  WorkQueue queue;
  for (const int order : {3, 1, 2}) queue.push({order, order, Job::spill});
  std::vector<int64_t> orders;
  queue.clear([&](const WorkItem& item) { orders.push_back(item.order); });
  EXPECT_THAT(orders, ::testing::UnorderedElementsAre(1, 2, 3));
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.is_worth_joining());
}

TEST(BusyTime, OverlappingDeferredTasksCountOnce) {
  BusyTime busy;
  busy.begin_deferred(100);
  busy.begin_deferred(150);
  busy.end_deferred(300);
  busy.end_deferred(400);
  EXPECT_DOUBLE_EQ(busy.seconds(), 300e-9);
  busy.add(200);
  EXPECT_DOUBLE_EQ(busy.seconds(), 500e-9);
}

TEST(BusyTime, TasksOfAStreamRunOneAfterTheOther) {
  BusyTime busy;
  EXPECT_EQ(busy.end_on_stream(/*queued_ns=*/10, /*end_ns=*/50), 10);
  EXPECT_EQ(busy.end_on_stream(/*queued_ns=*/20, /*end_ns=*/80), 50);
  EXPECT_DOUBLE_EQ(busy.seconds(), 70e-9);
}

TEST(TaskTimes, FollowWhatTasksOfABodyTake) {
  TaskTimes times;
  times.begin_run(/*bodies=*/2, {});
  EXPECT_EQ(times.expected_ns(0), kRoundNs);
  times.add(0, 100);
  EXPECT_EQ(times.expected_ns(0), 100);
  times.add(0, 500);
  EXPECT_EQ(times.expected_ns(0), 200);
  times.add(0, 1'000'000'000);  // long for once
  EXPECT_LT(times.expected_ns(0), 3 * kRoundNs);
  EXPECT_EQ(times.expected_ns(1), kRoundNs);
}

TEST(TaskTimes, GoOnFromAnEarlierRun) {
  TaskTimes times;
  times.begin_run(/*bodies=*/2, {});
  times.add(1, 100);
  const std::vector<int64_t> known = times.end_run();
  times.begin_run(/*bodies=*/2, known);
  EXPECT_EQ(times.expected_ns(0), kRoundNs);
  EXPECT_EQ(times.expected_ns(1), 100);
  times.begin_run(/*bodies=*/2, {});
  EXPECT_EQ(times.expected_ns(1), kRoundNs);
}

TEST(ReservedBytes, WhatIsReleasedServesTheNextRequestAndGoesBackWhenAskedTo) {
  local::Budget budget("test", 1000);
  ReservedBytes reserved(budget);
  EXPECT_TRUE(reserved.reserve(600));
  EXPECT_FALSE(reserved.reserve(500));
  EXPECT_EQ(reserved.bytes(), 600);
  reserved.release(400);
  EXPECT_EQ(reserved.bytes(), 200);
  EXPECT_EQ(reserved.free_bytes(), 800);
  EXPECT_EQ(reserved.least_free_bytes(), 800);
  EXPECT_EQ(budget.reserved_bytes(), 600);
  EXPECT_TRUE(reserved.reserve(300));
  EXPECT_EQ(budget.reserved_bytes(), 600);
  reserved.return_unused();
  EXPECT_EQ(budget.reserved_bytes(), 500);
  EXPECT_EQ(reserved.least_free_bytes(), 500);
  reserved.release(500);
  reserved.return_unused();
  EXPECT_EQ(budget.reserved_bytes(), 0);
}

class Nothing final : public TaskBody {
 public:
  std::string name(int64_t) const override { return "nothing"; }
  void run(TaskRun&) override {}
};

// Three blocks that are read by tasks 3, 5 and 4 of a graph of which tasks 0 to 2 made them.
struct ThreeBlocks {
  ThreeBlocks() {
    const int32_t body = graph.add_body(std::make_unique<Nothing>());
    for (int i = 0; i < 3; ++i) {
      const BlockId made = graph.add_block(256);
      TaskDecl task;
      task.body = body;
      task.outputs = {&made, 1};
      graph.add_task(task);
    }
    for (const BlockId read : {0, 2, 1}) {
      TaskDecl task;
      task.body = body;
      task.inputs = {&read, 1};
      graph.add_task(task);
    }
    table.begin_run(graph, Consumers(graph, {}));
    for (BlockId block = 0; block < 3; ++block) {
      const int32_t index = table.add();
      table.set_index(block, index);
      BlockRecord& r = table[index];
      r.block = block;
      r.bytes = 256;
      r.cursor = table.consumers().begin(block);
      r.end = table.consumers().end(block);
      r.resident = r.produced = r.available = true;
    }
  }
  Graph graph;
  BlockTable table;
};

TEST(EvictionQueue, TheFarthestNextUseGoesFirstAndWhatIsNeededSoonStays) {
  ThreeBlocks blocks;
  EvictionQueue queue(blocks.table);
  EXPECT_FALSE(queue.is_kept());
  EXPECT_EQ(queue.pop_farthest(/*before_order=*/3), blocks.table.index_of(1));  // read by task 5
  EXPECT_TRUE(queue.is_kept());
  blocks.table.of(1).resident = false;
  EXPECT_EQ(queue.pop_farthest(3), blocks.table.index_of(2));
  blocks.table.of(2).resident = false;
  EXPECT_EQ(queue.pop_farthest(3), -1);
  EXPECT_EQ(queue.pop_farthest(2), blocks.table.index_of(0));
}

TEST(EvictionQueue, EntriesOfBlocksThatHaveChangedAreSkipped) {
  ThreeBlocks blocks;
  EvictionQueue queue(blocks.table);
  queue.add(blocks.table.index_of(0));  // not kept yet
  EXPECT_EQ(queue.pop_farthest(/*before_order=*/BlockTable::kNever), -1);
  blocks.table.of(1).pins = 1;
  const int32_t gone = blocks.table.index_of(2);
  blocks.table.remove(gone);
  EXPECT_EQ(queue.pop_farthest(0), blocks.table.index_of(0));
  EXPECT_EQ(queue.pop_farthest(0), -1);
  blocks.table.of(1).pins = 0;
  queue.add(blocks.table.index_of(1));
  EXPECT_EQ(queue.pop_farthest(0), blocks.table.index_of(1));
}

TEST(Callbacks, OfABlockAreDueWhenItIsReady) {
  Callbacks callbacks;
  std::vector<int> called;
  callbacks.add_when_ready(7, [&] { called.push_back(7); });
  callbacks.add_when_ready(8, [&] { called.push_back(8); });
  callbacks.on_ready(7);
  callbacks.on_ready(7);
  callbacks.add([&] { called.push_back(0); });
  callbacks.drop_waiting();
  callbacks.on_ready(8);
  for (const Callbacks::Call& call : callbacks.take_due()) call();
  EXPECT_THAT(called, ElementsAre(7, 0));
  EXPECT_TRUE(callbacks.take_due().empty());
}

}  // namespace
}  // namespace quarry::scheduler
