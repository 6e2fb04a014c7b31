// Random graphs against a plain loop, at every budget that works, on the CPU and on the emulated device.

#include "quarry/scheduler/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "executor_support.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/device/device.h"

namespace quarry::scheduler {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;

class ExecutorTest : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void expect_reference(const RandomGraph& plan, const ExecutorConfig& config) {
    const auto reference = plan.reference();
    Graph graph;
    plan.build(graph);
    const auto executor = Executor::create(config);
    executor->run(graph);
    for (size_t b = 0; b < plan.bytes.size(); ++b) {
      if (!plan.keep[b]) continue;
      const auto stored = executor->stored_block(static_cast<BlockId>(b));
      ASSERT_EQ(stored->bytes(), plan.bytes[b]);
      ASSERT_EQ(words_of(*executor, *stored), reference[b]) << "block " << b;
    }
    const Progress progress = executor->progress();
    EXPECT_EQ(progress.tasks_done, static_cast<int64_t>(plan.tasks.size()));
    EXPECT_EQ(progress.bytes_done, progress.bytes_total);
    EXPECT_LE(executor->statistics().peak_memory_bytes, config.memory_bytes);
    EXPECT_EQ(executor->statistics().tasks, static_cast<int64_t>(plan.tasks.size()));
  }
};

TEST_P(ExecutorTest, RandomGraphsEqualThePlainLoopAtEveryBudget) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const RandomGraph plan(seed, 200, 600);
    Graph graph;
    plan.build(graph);
    const int64_t least = least_workable_bytes(graph);
    ASSERT_GT(least, 0);
    for (const int64_t budget : {least, least + 256, least * 2, least * 5, int64_t{64} << 20}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " budget " << budget << " least " << least);
      expect_reference(plan, config_for(GetParam(), budget));
    }
  }
}

TEST_P(ExecutorTest, RandomGraphsWithVisitsEqualThePlainLoopAtEveryBudget) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    for (const double share : {0.3, 1.0}) {
      const RandomGraph plan(seed, 200, 600, 0.1, share);
      Graph graph;
      plan.build(graph);
      const int64_t least = least_workable_bytes(graph);
      for (const int64_t budget : {least, least + 256, least * 2, least * 5, int64_t{64} << 20}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << " budget " << budget << " least " << least);
        expect_reference(plan, config_for(GetParam(), budget));
      }
    }
  }
}

TEST_P(ExecutorTest, RandomGraphsThatChangeBlocksInPlaceEqualThePlainLoopAtEveryBudget) {
  int changed = 0;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    for (const double visits : {0.0, 0.3}) {
      RandomGraph plan(seed, 200, 600, 0.1, visits);
      changed += plan.change_in_place(seed, 900);
      Graph graph;
      plan.build(graph);
      const int64_t least = least_workable_bytes(graph);
      for (const int64_t budget : {least, least + 256, least * 2, least * 5, int64_t{64} << 20}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << " budget " << budget << " least " << least);
        expect_reference(plan, config_for(GetParam(), budget));
      }
    }
  }
  EXPECT_GT(changed, 100);
}

// A block that is changed again and again needs its own memory alone, wherever it was before.
TEST_P(ExecutorTest, ABlockThatIsChangedInPlaceTakesNoOtherMemory) {
  constexpr int64_t kBytes = 64 << 10;
  const ExecutorConfig config = config_for(GetParam(), kBytes);
  const auto executor = Executor::create(config);
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  constexpr int kBlocks = 3, kTimes = 4;
  std::vector<BlockId> blocks;
  std::vector<std::vector<uint64_t>> words(kBlocks, std::vector<uint64_t>(kBytes / 8));
  for (int b = 0; b < kBlocks; ++b) {
    mix(graph.task_count(), {}, {{words[static_cast<size_t>(b)].data(), kBytes}});
    blocks.push_back(graph.add_block(kBytes));
    add(graph, {.body = body, .outputs = {blocks.back()}});
  }
  for (int k = 0; k < kTimes; ++k) {
    for (size_t b = 0; b < kBlocks; ++b) {
      std::vector<uint64_t> before = words[b];
      mix(graph.task_count(), {{before.data(), kBytes}}, {{words[b].data(), kBytes}});
      const BlockId after = graph.add_block(kBytes, 0, /*keep=*/k + 1 == kTimes);
      add(graph, {.body = body, .inputs = {blocks[b]}, .outputs = {after}, .in_place = 1});
      blocks[b] = after;
    }
  }
  EXPECT_EQ(least_workable_bytes(graph), kBytes);
  executor->run(graph);
  for (size_t b = 0; b < kBlocks; ++b) EXPECT_EQ(words_of(*executor, *executor->stored_block(blocks[b])), words[b]);
  EXPECT_LE(executor->statistics().peak_memory_bytes, kBytes);
}

// Blocks of which a task reads parts need no memory for it, and what was visited last goes with the visit.
TEST_P(ExecutorTest, VisitedInputsCostNothing) {
  constexpr int64_t kBytes = 200 << 10;  // more than one checksum covers
  constexpr int kBlocks = 8;
  ExecutorConfig config = config_for(GetParam(), kBytes + 512);
  const auto executor = Executor::create(config);
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  std::vector<BlockId> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.push_back(graph.add_block(kBytes));
    add(graph, {.body = body, .outputs = {blocks.back()}});
  }
  const BlockId first = graph.add_block(kBytes, 0, true), second = graph.add_block(kBytes, 0, true);
  add(graph, {.body = body, .inputs = blocks, .outputs = {first}, .scratch = 512, .visits = true});
  add(graph, {.body = body, .inputs = blocks, .outputs = {second}, .scratch = 512, .visits = true});
  EXPECT_EQ(least_workable_bytes(graph), kBytes + 512);
  executor->run(graph);
  std::vector<std::vector<uint64_t>> words(kBlocks + 2, std::vector<uint64_t>(kBytes / 8));
  std::vector<BlockView> views;
  for (auto& block : words) views.push_back({block.data(), kBytes});
  const std::vector<BlockView> sources(views.begin(), views.begin() + kBlocks);
  for (int i = 0; i < kBlocks; ++i) mix(i, {}, {views[static_cast<size_t>(i)]});
  mix(kBlocks, sources, {views[kBlocks]});
  mix(kBlocks + 1, sources, {views[kBlocks + 1]});
  EXPECT_EQ(words_of(*executor, *executor->stored_block(first)), words[kBlocks]);
  EXPECT_EQ(words_of(*executor, *executor->stored_block(second)), words[kBlocks + 1]);
  EXPECT_LE(executor->statistics().peak_memory_bytes, config.memory_bytes);
  // Every block is written at most once.
  EXPECT_LE(executor->statistics().spilled_bytes, (kBlocks + 2) * 2 * kBytes);
}

// Where there is room, what is visited stays, and tasks that visit run side by side.
TEST_P(ExecutorTest, VisitsDoNotSpillWhereThereIsRoom) {
  const auto executor = Executor::create(config_for(GetParam(), 64 << 10));
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  std::vector<BlockId> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(graph.add_block(4096));
    add(graph, {.body = body, .outputs = {blocks.back()}});
  }
  for (int i = 0; i < 64; ++i)
    add(graph, {.body = body, .inputs = blocks, .outputs = {graph.add_block(4096)}, .visits = true});
  executor->run(graph);
  EXPECT_EQ(executor->statistics().spilled_bytes, 0);
  EXPECT_EQ(executor->statistics().restored_bytes, 0);
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
}

TEST_P(ExecutorTest, LargeBlocksSpillInManyPieces) {
  const RandomGraph plan(77, 60, 40000, 0.3);  // up to 320 KB
  Graph graph;
  plan.build(graph);
  ExecutorConfig config = config_for(GetParam(), least_workable_bytes(graph));
  config.host_bytes = GetParam() == DeviceKind::cpu ? 0 : 700 << 10;
  expect_reference(plan, config);
  config.io_threads = 1;
  config.compute_threads = 1;
  config.host_bytes *= 4;
  expect_reference(plan, config);
}

TEST_P(ExecutorTest, OneByteLessThanLeastIsRefusedWithTheNumber) {
  const RandomGraph plan(3, 50, 300);
  Graph graph;
  plan.build(graph);
  const int64_t least = least_workable_bytes(graph);
  const auto executor = Executor::create(config_for(GetParam(), least - 1));
  try {
    executor->run(graph);
    FAIL();
  } catch (const local::BudgetError& e) {
    EXPECT_EQ(e.least_bytes(), least);
    EXPECT_THAT(e.what(), HasSubstr(std::to_string(least)));
  }
  EXPECT_EQ(executor->statistics().tasks, 0);
}

TEST_P(ExecutorTest, EmptyGraphsAndEmptyTasks) {
  const auto executor = Executor::create(config_for(GetParam(), 0));
  Graph none;
  executor->run(none);
  Graph graph;
  std::atomic<int> runs = 0;
  const int32_t body = graph.add_body(std::make_unique<Call>([&](TaskRun&) { ++runs; }));
  for (int i = 0; i < 10000; ++i) add(graph, {.body = body, .queue = static_cast<QueueKind>(i % 4)});
  const BlockId empty = graph.add_block(0, 0, true);
  add(graph, {.body = body, .outputs = {empty}});
  executor->run(graph);
  EXPECT_EQ(runs, 10001);
  EXPECT_EQ(executor->stored_block(empty)->bytes(), 0);
  EXPECT_EQ(executor->describe_waits(), "no run\n");
}

TEST_P(ExecutorTest, ContextIsTheTasksOwn) {
  const auto executor = Executor::create(config_for(GetParam(), 1 << 20));
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
    EXPECT_EQ(run.context.device.kind, GetParam());
    EXPECT_EQ(run.context.memory->device(), run.context.device);
    EXPECT_EQ(run.context.stream->device(), run.context.device);
    EXPECT_EQ(local::current_context().memory, run.context.memory);
    EXPECT_EQ(run.outputs[0].bytes, 1000);
    // Exactly the declared scratch, again after it was given back, in aligned pieces.
    for (int round = 0; round < 3; ++round) {
      void* a = run.context.memory->allocate(1, run.context.stream);
      void* b = run.context.memory->allocate(256, run.context.stream);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 256, 0u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 256, 0u);
      EXPECT_THROW(run.context.memory->allocate(1, run.context.stream), local::OutOfMemory);
      void* none = run.context.memory->allocate(0, run.context.stream);
      EXPECT_NE(none, nullptr);
      run.context.memory->deallocate(none, 0, run.context.stream);
      run.context.memory->deallocate(a, 1, run.context.stream);
      run.context.memory->deallocate(b, 256, run.context.stream);
    }
    // Not given back: the executor does it.
    run.context.memory->allocate(512, run.context.stream);
    run.context.memory->allocate(0, run.context.stream);
  }));
  for (int i = 0; i < 20; ++i) add(graph, {.body = body, .outputs = {graph.add_block(1000)}, .scratch = 512});
  executor->run(graph);
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
}

TEST_P(ExecutorTest, ReservedNeverExceedsTheBudgetInTheTrace) {
  const RandomGraph plan(11, 300, 500);
  Graph graph;
  plan.build(graph);
  const int64_t budget = least_workable_bytes(graph) * 2;
  const auto executor = Executor::create(config_for(GetParam(), budget));
  local::start_tracing();
  executor->run(graph);
  const std::vector<local::TraceEvent> events = local::stop_tracing();
  int64_t tasks = 0, spills = 0;
  for (const local::TraceEvent& event : events) {
    EXPECT_LE(event.budget_used, budget);
    EXPECT_LE(event.begin_ns, event.end_ns);
    if (event.track == kTierTrack) {
      EXPECT_GE(event.bytes, 0);
      EXPECT_TRUE(event.name == "spill file" || event.name == "pinned host") << event.name;
    } else {
      event.track == "spill" ? ++spills : ++tasks;
    }
  }
  EXPECT_EQ(tasks, 300);
  EXPECT_GT(spills, 0);
  EXPECT_GT(executor->statistics().spilled_bytes, 0);
}

TEST_P(ExecutorTest, TasksOverlapUpToTheBudget) {
  // Two blocks fit: reading the second chunk overlaps computing on the first.
  const auto executor = Executor::create(config_for(GetParam(), 2 << 10));
  Graph graph;
  std::atomic<int> live = 0, most = 0;
  const int32_t read = graph.add_body(std::make_unique<Call>([&](TaskRun&) { most = std::max(most.load(), ++live); }));
  const int32_t use = graph.add_body(std::make_unique<Call>([&](TaskRun&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --live;
  }));
  for (int i = 0; i < 30; ++i) {
    const BlockId block = graph.add_block(1 << 10);
    add(graph, {.body = read, .outputs = {block}, .queue = QueueKind::io, .kind = TaskKind::read});
    add(graph, {.body = use, .inputs = {block}});
  }
  executor->run(graph);
  EXPECT_EQ(most, 2);
  EXPECT_EQ(executor->statistics().spilled_bytes, 0);
}

TEST(ExecutorReads, WhatNoThreadHasBegunHoldsNoDeviceMemory) {
  // All 400 blocks would fit.
  constexpr int64_t kBytes = 64 << 10;
  constexpr int kReads = 400, kThreads = 2, kReadyForEach = 4;
  ExecutorConfig config = config_for(DeviceKind::emulated, 2 * kReads * kBytes);
  config.io_threads = kThreads;
  const auto executor = Executor::create(config);
  Graph graph;
  std::atomic<int> used = 0;
  const int32_t read = graph.add_body(
      std::make_unique<Call>([](TaskRun&) { std::this_thread::sleep_for(std::chrono::microseconds(200)); }));
  const int32_t use = graph.add_body(std::make_unique<Call>([&](TaskRun&) { ++used; }));
  for (int i = 0; i < kReads; ++i) {
    const BlockId block = graph.add_block(kBytes);
    add(graph, {.body = read, .outputs = {block}, .queue = QueueKind::io, .kind = TaskKind::read});
    add(graph, {.body = use, .inputs = {block}});
  }
  executor->run(graph);
  EXPECT_EQ(used, kReads);
  // As many more may be under way, and read but not used.
  EXPECT_LE(executor->statistics().peak_memory_bytes, kReads / 4 * kBytes);
  EXPECT_GE(executor->statistics().peak_memory_bytes, kThreads * kReadyForEach * kBytes);
}

TEST(ExecutorGrowth, NoDeviceMemoryIsTakenOnlyToRunFarAhead) {
  constexpr int64_t kBytes = 16 << 10, kBudget = 48 << 20;
  constexpr int kMade = 4000;  // more than fits
  const auto executor = Executor::create(config_for(DeviceKind::emulated, kBudget));
  Graph graph;
  const int32_t make = graph.add_body(std::make_unique<Call>([](TaskRun&) {}));
  const int32_t use = graph.add_body(
      std::make_unique<Call>([](TaskRun&) { std::this_thread::sleep_for(std::chrono::microseconds(50)); }));
  for (int i = 0; i < kMade; ++i) {
    const BlockId block = graph.add_block(kBytes);
    add(graph, {.body = make, .outputs = {block}});
    add(graph, {.body = use, .inputs = {block}});
  }
  executor->run(graph);
  EXPECT_LE(executor->device_bytes(), kBudget / 3);
}

TEST_P(ExecutorTest, KeptBlocksDoNotMakeWayForRunningFarAhead) {
  // The second run reads what the first one kept, and then makes far more than fits, a little at a time.
  constexpr int64_t kBytes = 16 << 10;
  constexpr int kKept = 32, kMade = 1000;
  const auto executor = Executor::create(config_for(GetParam(), 6 * kKept * kBytes));
  std::vector<std::shared_ptr<StoredBlock>> kept;
  {
    Graph graph;
    const int32_t body = graph.add_body(std::make_unique<Mix>());
    std::vector<BlockId> blocks;
    for (int i = 0; i < kKept; ++i) {
      blocks.push_back(graph.add_block(kBytes, 0, true));
      add(graph, {.body = body, .outputs = {blocks.back()}});
    }
    executor->run(graph);
    for (const BlockId block : blocks) kept.push_back(executor->stored_block(block));
  }
  Graph graph;
  const int32_t pause = graph.add_body(
      std::make_unique<Call>([](TaskRun&) { std::this_thread::sleep_for(std::chrono::microseconds(50)); }));
  for (const std::shared_ptr<StoredBlock>& block : kept)
    add(graph, {.body = pause, .inputs = {graph.add_stored(block)}});
  for (int i = 0; i < kMade; ++i) {
    const BlockId block = graph.add_block(kBytes);
    add(graph, {.body = pause, .outputs = {block}});
    add(graph, {.body = pause, .inputs = {block}});
  }
  executor->run(graph);
  EXPECT_EQ(executor->statistics().spilled_bytes, 0);
}

TEST_P(ExecutorTest, FarthestNextUseIsEvicted) {
  // Blocks 0..3 are used again in order 0, 1, 2, 3 with room for three of them: only what is used last moves.
  const auto executor = Executor::create(config_for(GetParam(), 4 * 1024));
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  std::vector<BlockId> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(graph.add_block(1024));
    add(graph, {.body = body, .outputs = {blocks.back()}});
  }
  const BlockId extra = graph.add_block(1024);
  add(graph, {.body = body, .inputs = {blocks[0]}, .outputs = {extra}});
  add(graph, {.body = body, .inputs = {blocks[0], extra}});
  for (int i = 1; i < 4; ++i) add(graph, {.body = body, .inputs = {blocks[static_cast<size_t>(i)]}});
  executor->run(graph);
  EXPECT_EQ(executor->statistics().spilled_bytes, 1024);
}

TEST_P(ExecutorTest, CleanCopiesAreNotWrittenTwice) {
  // Three blocks in turn through room for two, four times over: each is written down at most once.
  const auto executor = Executor::create(config_for(GetParam(), 2 * 4096));
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  std::vector<BlockId> blocks;
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(graph.add_block(4096));
    add(graph, {.body = body, .outputs = {blocks.back()}});
  }
  for (int round = 0; round < 4; ++round) {
    for (const BlockId block : blocks) add(graph, {.body = body, .inputs = {block}});
  }
  executor->run(graph);
  EXPECT_LE(executor->statistics().spilled_bytes, 3 * 4096);
  EXPECT_GE(executor->statistics().spilled_bytes, 4096);
}

TEST_P(ExecutorTest, ABlockReadTwiceByOneTask) {
  const auto executor = Executor::create(config_for(GetParam(), 2048));
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  const BlockId a = graph.add_block(1024), big = graph.add_block(2048), b = graph.add_block(1024, 0, true);
  add(graph, {.body = body, .outputs = {a}});
  add(graph, {.body = body, .outputs = {big}});  // pushes a out
  add(graph, {.body = body, .inputs = {a, a}, .outputs = {b}});
  executor->run(graph);
  std::vector<uint64_t> first(128), second(128);
  std::vector<BlockView> none, av{{first.data(), 1024}}, bv{{second.data(), 1024}};
  mix(0, none, av);
  mix(2, {av[0], av[0]}, bv);
  EXPECT_EQ(words_of(*executor, *executor->stored_block(b)), second);
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

TEST(ExecutorMemory, ResidentMemoryFollowsTheBudgetNotTheData) {
  // 640 MiB go through a budget of 64 MiB, in blocks of sizes that change; what is spilled comes back.
  constexpr int64_t kBudget = 64 << 20;
  const auto executor = Executor::create(config_for(DeviceKind::cpu, kBudget));
  Graph graph;
  std::atomic<int64_t> most = 0;
  const int64_t before = resident_bytes();
  const int32_t touch = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
    for (const BlockView& out : run.outputs) std::memset(out.data, 1, static_cast<size_t>(out.bytes));
    const int64_t now = resident_bytes() - before;
    int64_t seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
  }));
  std::mt19937 random(4);
  std::vector<BlockId> blocks;
  for (int64_t sum = 0; sum < 10 * kBudget; sum += graph.block(blocks.back()).bytes) {
    // Phases of large, odd, middle and small blocks.
    const int64_t phase = sum * 4 / (10 * kBudget);
    const int64_t bytes = phase == 0   ? 8 << 20
                          : phase == 1 ? 1000000 + random() % 9000000
                          : phase == 2 ? 100000
                                       : 30000;
    blocks.push_back(graph.add_block(bytes));
    std::vector<BlockId> inputs;
    if (blocks.size() > 40 && random() % 2) inputs.push_back(blocks[random() % (blocks.size() - 1)]);
    add(graph, {.body = touch, .inputs = inputs, .outputs = {blocks.back()}});
  }
  executor->run(graph);
  EXPECT_GT(executor->statistics().spilled_bytes, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their own memory counts too
  EXPECT_LE(most, kBudget + (32 << 20));
#endif
  EXPECT_GE(most, kBudget / 4);
}

TEST(ExecutorDevice, SuccessorsAreQueuedBeforeTheirInputsAreDone) {
  // The first task's work on the stream ends only when the body of the last task of a chain has been called.
  const auto executor = Executor::create(config_for(DeviceKind::emulated, 1 << 20));
  Graph graph;
  std::promise<void> last_called;
  std::atomic<bool> waited_too_long = false;
  const int32_t first = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
    run.context.stream->host_callback([&, out = run.outputs[0]] {
      if (last_called.get_future().wait_for(std::chrono::seconds(30)) != std::future_status::ready)
        waited_too_long = true;
      mix(0, {}, {out});
    });
  }));
  const int32_t middle = graph.add_body(std::make_unique<Mix>());
  const int32_t last = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
    Mix().run(run);
    last_called.set_value();
  }));
  const BlockId a = graph.add_block(800), b = graph.add_block(800), c = graph.add_block(800, 0, true);
  add(graph, {.body = first, .outputs = {a}});
  add(graph, {.body = middle, .inputs = {a}, .outputs = {b}});
  add(graph, {.body = last, .inputs = {b}, .outputs = {c}, .queue = QueueKind::io, .kind = TaskKind::write});
  executor->run(graph);
  EXPECT_FALSE(waited_too_long);
  std::vector<uint64_t> av(100), bv(100), cv(100);
  mix(0, {}, {{av.data(), 800}});
  mix(1, {{av.data(), 800}}, {{bv.data(), 800}});
  mix(2, {{bv.data(), 800}}, {{cv.data(), 800}});
  EXPECT_EQ(words_of(*executor, *executor->stored_block(c)), cv);
}

TEST(ExecutorDevice, TasksWaitForPanelsThatBeganBefore) {
  ExecutorConfig config = config_for(DeviceKind::emulated, 1 << 20);
  config.panels_alone = true;
  const auto executor = Executor::create(config);
  Graph graph;
  std::promise<void> begun;
  std::atomic<bool> done = false;
  std::atomic<int> beside = 0, behind = 0;
  // A panel that takes the host long, and then the device.
  const int32_t panel = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
    begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run.context.stream->host_callback([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      done = true;
    });
  }));
  const int32_t gate = graph.add_body(std::make_unique<Call>(
      [future = begun.get_future().share()](TaskRun&) { future.wait_for(std::chrono::seconds(30)); }));
  const int32_t bulk = graph.add_body(std::make_unique<Call>(
      [&](TaskRun& run) { run.context.stream->host_callback([&] { ++(done ? behind : beside); }); }));
  const BlockId a = graph.add_block(8), open = graph.add_block(8);
  add(graph, {.body = panel, .outputs = {a}, .queue = QueueKind::panel});
  add(graph, {.body = gate, .outputs = {open}, .queue = QueueKind::worker});
  constexpr int kTasks = 20;
  for (int i = 0; i < kTasks; ++i) add(graph, {.body = bulk, .inputs = {open}, .outputs = {graph.add_block(8)}});
  executor->run(graph);
  EXPECT_EQ(beside, 0);
  EXPECT_EQ(behind, kTasks);
}

INSTANTIATE_TEST_SUITE_P(Devices, ExecutorTest, ::testing::Values(DeviceKind::cpu, DeviceKind::emulated),
                         [](const auto& info) { return std::string(local::name(info.param)); });

}  // namespace
}  // namespace quarry::scheduler
