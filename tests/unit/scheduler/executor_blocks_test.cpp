// Blocks that others read during the run, blocks that outlive it, deferred tasks and staging memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "executor_support.h"
#include "quarry/local/memory/buffer.h"

namespace quarry::scheduler {
namespace {

using namespace testing_support;

class ExecutorBlocksTest : public ::testing::TestWithParam<DeviceKind> {};

// A thread that stands for the communication thread.
class Helper {
 public:
  Helper() : thread_([this] { work(); }) {}
  ~Helper() {
    post(nullptr);
    thread_.join();
  }
  void post(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    changed_.notify_one();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !jobs_.empty(); });
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      if (!job) return;
      lock.unlock();
      job();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::thread thread_;
};

TEST_P(ExecutorBlocksTest, DeferredTasksEndWhenTheyAreFinished) {
  const auto executor = Executor::create(config_for(GetParam(), 4 << 10));
  Helper helper;
  Graph graph;
  // Fills its output later, from another thread, as a transfer does.
  const int32_t receive = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
    const auto completion = run.defer();
    const BlockView out = run.outputs[0];
    helper.post([completion, out, index = run.index] {
      if (index % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      mix(index, {}, {out});
      completion->finish();
      completion->finish();  // the second time means nothing
    });
  }));
  const int32_t copy = graph.add_body(std::make_unique<Mix>());
  std::vector<BlockId> results;
  for (int i = 0; i < 50; ++i) {
    const BlockId in = graph.add_block(800), out = graph.add_block(800, 0, true);
    add(graph, {.body = receive, .outputs = {in}, .queue = QueueKind::comm, .kind = TaskKind::receive});
    add(graph, {.body = copy, .inputs = {in}, .outputs = {out}});
    results.push_back(out);
  }
  executor->run(graph);
  for (int i = 0; i < 50; ++i) {
    std::vector<uint64_t> in(100), out(100);
    const std::vector<BlockView> iv{{in.data(), 800}}, ov{{out.data(), 800}};
    mix(2 * i, {}, iv);
    mix(2 * i + 1, iv, ov);
    EXPECT_EQ(words_of(*executor, *executor->stored_block(results[static_cast<size_t>(i)])), out) << i;
  }
  EXPECT_GT(executor->statistics().busy_seconds[static_cast<int>(QueueKind::comm)], 0);
}

TEST_P(ExecutorBlocksTest, RemoteReadersReadFromEveryTierAndKeepTheRunOpen) {
  // 30 blocks of 2 KiB with room for four: most have left the compute tier when their reader comes.
  ExecutorConfig config = config_for(GetParam(), 8 << 10);
  if (GetParam() != DeviceKind::cpu) config.host_bytes = 280 << 10;
  const auto executor = Executor::create(config);
  Helper helper;
  std::atomic<int> reads = 0;
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  for (int i = 0; i < 30; ++i) add(graph, {.body = body, .outputs = {graph.add_block(2000, 2)}});
  const auto read = [&](BlockId block, int64_t offset, int64_t bytes) {
    std::vector<uint64_t> expected(250);
    std::vector<char> got(static_cast<size_t>(bytes));
    mix(block, {}, {{expected.data(), 2000}});
    executor->read_block(block, offset, bytes, got.data());
    EXPECT_EQ(
        std::memcmp(got.data(), reinterpret_cast<const char*>(expected.data()) + offset, static_cast<size_t>(bytes)),
        0);
    ++reads;
    executor->release_remote(block);
  };
  for (BlockId block = 0; block < 30; ++block) {
    // One reader at once, registered before the run; the other when nearly everything has been produced.
    executor->when_ready(block, [&, block] { helper.post([&, block] { read(block, 0, 2000); }); });
  }
  std::thread late([&] {
    while (executor->progress().tasks_done < 25) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (BlockId block = 29; block >= 0; --block) {
      executor->when_ready(block, [&, block] { helper.post([&, block] { read(block, 13, 700); }); });
    }
  });
  executor->run(graph);
  late.join();
  EXPECT_EQ(reads, 60);
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
  EXPECT_GT(executor->statistics().spilled_bytes, 0);
  char byte;
  EXPECT_THROW(executor->read_block(0, 0, 1, &byte), local::Cancelled);
  executor->release_remote(0);  // late: means nothing
}

TEST_P(ExecutorBlocksTest, ProgressCountsTheWorkOfRunningTasks) {
  const auto executor = Executor::create(config_for(GetParam(), 8 << 10));
  Graph graph;
  std::atomic<bool> seen{false};
  const int32_t quick = graph.add_body(std::make_unique<Call>([](TaskRun&) {}));
  const int32_t slow = graph.add_body(std::make_unique<Call>([&](TaskRun&) {
    while (!seen) std::this_thread::yield();
  }));
  for (int i = 0; i < 4; ++i) add(graph, {.body = quick, .outputs = {graph.add_block(8)}});
  add(graph, {.body = slow, .outputs = {graph.add_block(8)}});
  graph.set_work({0.25, 100});
  EXPECT_EQ(graph.total_work(), 101);
  EXPECT_EQ(graph.longest_work(), 100);
  std::thread watcher([&] {
    double done = 0;
    while (done <= 1.01) done = executor->progress().work_done;  // all quick ones, and some of the slow one
    EXPECT_LT(done, 96 + 1);                                     // which is not at its end
    seen = true;
  });
  executor->run(graph);
  watcher.join();
  EXPECT_EQ(executor->progress().work_done, 101);
  EXPECT_EQ(executor->progress().work_total, 101);
  EXPECT_EQ(executor->statistics().tasks, 5);
}

TEST_P(ExecutorBlocksTest, CancelledRunsDoNotWaitForRemoteReaders) {
  const auto executor = Executor::create(config_for(GetParam(), 8 << 10));
  Graph graph;
  const BlockId block = graph.add_block(100, 1);
  add(graph, {.body = graph.add_body(std::make_unique<Mix>()), .outputs = {block}});
  std::thread other([&] {
    while (executor->progress().tasks_done < 1) std::this_thread::yield();
    EXPECT_THAT(executor->describe_waits(), ::testing::HasSubstr("still to read"));
    executor->cancel({local::ErrorCode::comm, "gone", 0});
  });
  EXPECT_THROW(executor->run(graph), local::CommError);
  other.join();
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
}

TEST_P(ExecutorBlocksTest, StoredBlocksLiveAcrossRunsAndMakeWay) {
  const auto executor = Executor::create(config_for(GetParam(), 8 << 10));
  std::vector<std::shared_ptr<StoredBlock>> stored;
  std::vector<std::vector<uint64_t>> values;
  // 12 KiB of stored blocks in 8 KiB of memory.
  for (int i = 0; i < 6; ++i) {
    Graph graph;
    const int32_t body = graph.add_body(std::make_unique<Mix>());
    for (int skip = 0; skip < i; ++skip) add(graph, {.body = body});  // so that every index differs
    const BlockId block = graph.add_block(2048, 0, true);
    add(graph, {.body = body, .outputs = {block}});
    executor->run(graph);
    stored.push_back(executor->stored_block(block));
    values.emplace_back(256);
    mix(i, {}, {{values.back().data(), 2048}});
  }
  EXPECT_LE(executor->memory_budget().reserved_bytes(), 8 << 10);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(words_of(*executor, *stored[i]), values[i]);

  // A run that needs all the memory and reads them all, some twice and remotely.
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  const BlockId big = graph.add_block(8 << 10);
  add(graph, {.body = body, .outputs = {big}});
  const BlockId a = graph.add_stored(stored[0]), b = graph.add_stored(stored[5], 1);
  EXPECT_EQ(graph.add_stored(stored[0]), a);
  const BlockId out = graph.add_block(2048, 0, true);
  const TaskId last = add(graph, {.body = body, .inputs = {a, b, a}, .outputs = {out}});
  Helper helper;
  executor->when_ready(b, [&] {
    helper.post([&] {
      std::vector<uint64_t> got(256);
      executor->read_block(b, 0, 2048, got.data());
      EXPECT_EQ(got, values[5]);
      executor->release_remote(b);
    });
  });
  executor->run(graph);
  std::vector<uint64_t> expected(256);
  mix(last, {{values[0].data(), 2048}, {values[5].data(), 2048}, {values[0].data(), 2048}}, {{expected.data(), 2048}});
  const auto result = executor->stored_block(out);
  EXPECT_EQ(words_of(*executor, *result), expected);

  // A failed run leaves them alone.
  Graph failing;
  const int32_t bad = failing.add_body(std::make_unique<Call>([](TaskRun&) { throw local::IoError("x"); }));
  const int32_t good = failing.add_body(std::make_unique<Mix>());
  add(failing, {.body = good, .outputs = {failing.add_block(8 << 10)}});
  add(failing, {.body = bad, .inputs = {failing.add_stored(stored[1]), failing.add_stored(stored[2])}});
  EXPECT_THROW(executor->run(failing), local::IoError);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(words_of(*executor, *stored[i]), values[i]);
}

TEST_P(ExecutorBlocksTest, StoredBlocksAreFreedWithTheirLastHandle) {
  auto executor = Executor::create(config_for(GetParam(), 8 << 10));
  std::shared_ptr<StoredBlock> survivor;
  {
    Graph graph;
    const int32_t body = graph.add_body(std::make_unique<Mix>());
    const BlockId a = graph.add_block(2048, 0, true), b = graph.add_block(2048, 0, true);
    add(graph, {.body = body, .outputs = {a, b}});
    executor->run(graph);
    survivor = executor->stored_block(a);
    EXPECT_EQ(executor->memory_budget().reserved_bytes(), 4096);
    // b was never asked for: the next run gives it up. A second graph holds a beyond the handle.
    Graph next;
    next.add_body(std::make_unique<Mix>());
    next.add_stored(survivor);
    executor->run(next);
    EXPECT_EQ(executor->memory_budget().reserved_bytes(), 2048);
  }
  survivor.reset();
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
  Graph graph;
  const BlockId a = graph.add_block(2048, 0, true);
  add(graph, {.body = graph.add_body(std::make_unique<Mix>()), .outputs = {a}});
  executor->run(graph);
  survivor = executor->stored_block(a);
  executor.reset();
  EXPECT_EQ(survivor->bytes(), 2048);
}

TEST_P(ExecutorBlocksTest, StoredBlocksCountWhenTheyCannotMove) {
  ExecutorConfig config = config_for(GetParam(), 8 << 10);
  config.spill_dir = "";
  const auto executor = Executor::create(config);
  Graph graph;
  const BlockId a = graph.add_block(4096, 0, true);
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  add(graph, {.body = body, .outputs = {a}});
  executor->run(graph);
  const auto held = executor->stored_block(a);
  Graph next;
  next.add_body(std::make_unique<Mix>());
  add(next, {.outputs = {next.add_block(6000)}});
  try {
    executor->run(next);
    FAIL();
  } catch (const local::BudgetError& e) {
    EXPECT_EQ(e.least_bytes(), 4096 + 6144);
  }
}

TEST_P(ExecutorBlocksTest, StagingIsInsideItsBudgetAndBlocksMakeWayForIt) {
  const bool cpu = GetParam() == DeviceKind::cpu;
  ExecutorConfig config = config_for(GetParam(), 64 << 10);
  if (!cpu) config.host_bytes = (256 + 64) << 10;
  const auto executor = Executor::create(config);
  local::Budget& budget = cpu ? executor->memory_budget() : executor->host_budget();
  const int64_t before = budget.reserved_bytes();
  // On the CPU stored blocks fill the memory; on the device the pinned tier, pushed out by a block as large as all.
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  const BlockId kept = graph.add_block(60 << 10, 0, true);
  add(graph, {.body = body, .outputs = {kept}});
  if (!cpu) add(graph, {.body = body, .outputs = {graph.add_block(64 << 10)}});
  executor->run(graph);
  const auto stored = executor->stored_block(kept);
  local::MemoryResource& staging = executor->staging();
  EXPECT_EQ(staging.device(), local::kCpu);
  void* a = staging.allocate(40 << 10, nullptr);
  std::memset(a, 1, 40 << 10);
  EXPECT_GE(budget.reserved_bytes(), before + (40 << 10));
  EXPECT_LE(budget.reserved_bytes(), budget.limit_bytes());
  EXPECT_EQ(staging.used_bytes(), 40 << 10);
  EXPECT_THROW(staging.allocate(1 << 20, nullptr), local::OutOfMemory);
  staging.deallocate(a, 40 << 10, nullptr);
  std::vector<uint64_t> expected(60 * 128);
  mix(0, {}, {{expected.data(), 60 << 10}});
  EXPECT_EQ(words_of(*executor, *stored), expected);
}

// Of two tasks that want most of the staging memory one waits until the other has done what takes it long.
TEST_P(ExecutorBlocksTest, StagingIsWaitedForAsLongAsATaskWorks) {
  ExecutorConfig config = config_for(GetParam(), 64 << 10);
  if (GetParam() != DeviceKind::cpu) config.host_bytes = (256 + 64) << 10;
  config.patience = std::chrono::milliseconds(50);
  const auto executor = Executor::create(config);
  Graph graph;
  std::atomic<int> done{0};
  const int32_t body = graph.add_body(std::make_unique<Call>([&](TaskRun&) {
    local::MemoryResource& staging = executor->staging();
    void* const piece = staging.allocate(40 << 10, nullptr);
    std::this_thread::sleep_for(10 * config.patience);
    staging.deallocate(piece, 40 << 10, nullptr);
    ++done;
  }));
  for (int i = 0; i < 2; ++i) add(graph, {.body = body, .queue = QueueKind::io, .kind = TaskKind::read});
  executor->run(graph);
  EXPECT_EQ(done, 2);
}

// What another rank sends slowly moves too.
TEST_P(ExecutorBlocksTest, StagingIsWaitedForAsLongAsDataArrives) {
  ExecutorConfig config = config_for(GetParam(), 64 << 10);
  if (GetParam() != DeviceKind::cpu) config.host_bytes = (256 + 64) << 10;
  config.patience = std::chrono::milliseconds(200);
  const auto executor = Executor::create(config);
  local::MemoryResource& staging = executor->staging();
  void* held = staging.allocate(40 << 10, nullptr);
  std::thread sender([&] {
    for (int i = 0; i < 40; ++i) {
      std::this_thread::sleep_for(config.patience / 10);
      executor->note_arrival();
    }
    staging.deallocate(held, 40 << 10, nullptr);
  });
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Call>(
      [&](TaskRun&) { staging.deallocate(staging.allocate(40 << 10, nullptr), 40 << 10, nullptr); }));
  add(graph, {.body = body, .queue = QueueKind::io, .kind = TaskKind::read});
  EXPECT_NO_THROW(executor->run(graph));
  sender.join();
}

// Two that hold what the other one wants would wait for ever.
TEST_P(ExecutorBlocksTest, StagingThatNobodyGivesBackIsAnError) {
  ExecutorConfig config = config_for(GetParam(), 64 << 10);
  if (GetParam() != DeviceKind::cpu) config.host_bytes = (256 + 64) << 10;
  config.patience = std::chrono::milliseconds(100);
  const auto executor = Executor::create(config);
  Graph graph;
  std::atomic<int> holding{0};
  const int32_t body = graph.add_body(std::make_unique<Call>([&](TaskRun&) {
    local::MemoryResource& staging = executor->staging();
    const local::Buffer first(24 << 10, staging, nullptr);
    ++holding;
    while (holding < 2) std::this_thread::yield();
    const local::Buffer second(24 << 10, staging, nullptr);
  }));
  for (int i = 0; i < 2; ++i) add(graph, {.body = body, .queue = QueueKind::io, .kind = TaskKind::read});
  EXPECT_THROW(executor->run(graph), local::OutOfMemory);
}

TEST_P(ExecutorBlocksTest, BlocksMakeWayForMemoryOutside) {
  const bool cpu = GetParam() == DeviceKind::cpu;
  const auto executor = Executor::create(config_for(GetParam(), 64 << 10));
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  const BlockId kept = graph.add_block(60 << 10, 0, true);
  add(graph, {.body = body, .outputs = {kept}});
  executor->run(graph);
  const auto stored = executor->stored_block(kept);
  {
    const local::Reservation outside = executor->reserve_outside(40 << 10);
    EXPECT_EQ(outside.bytes(), cpu ? 40 << 10 : 0);
    EXPECT_LE(executor->memory_budget().reserved_bytes(), 64 << 10);
    if (cpu) {
      EXPECT_THROW(executor->reserve_outside(40 << 10), local::OutOfMemory);
    }
  }
  std::vector<uint64_t> expected(60 * 128);
  mix(0, {}, {{expected.data(), 60 << 10}});
  EXPECT_EQ(words_of(*executor, *stored), expected);
}

// A cache beside the blocks, as Executor::set_reclaim() has it.
struct Cache {
  Executor& executor;
  local::Reservation memory;
  int calls = 0;

  Cache(Executor& of, int64_t bytes) : executor(of), memory(of.try_reserve_outside(bytes)) {
    executor.set_reclaim([this](int64_t wanted) {
      ++calls;
      const int64_t given = std::min(wanted, memory.bytes());
      if (given > 0) memory.split(given).release();
      return given;
    });
  }
  ~Cache() { executor.set_reclaim(nullptr); }
};

TEST_P(ExecutorBlocksTest, OnlyFreeBytesAreReservedOutsideWithoutWaiting) {
  const auto executor = Executor::create(config_for(GetParam(), 64 << 10));
  const bool cpu = GetParam() == DeviceKind::cpu;
  local::Budget& budget = cpu ? executor->memory_budget() : executor->host_budget();
  const int64_t before = budget.reserved_bytes(), free_bytes = budget.limit_bytes() - before;
  {
    const local::Reservation most = executor->try_reserve_outside(free_bytes);
    EXPECT_EQ(most.bytes(), free_bytes);
    EXPECT_FALSE(executor->try_reserve_outside(64));
  }
  EXPECT_EQ(budget.reserved_bytes(), before);
}

TEST_P(ExecutorBlocksTest, ACacheMakesWayBeforeBlocksThatAreStillRead) {
  const bool cpu = GetParam() == DeviceKind::cpu;
  ExecutorConfig config = config_for(GetParam(), 64 << 10);
  if (!cpu) config.host_bytes = (256 + 64) << 10;
  const auto executor = Executor::create(config);
  // The first block is read again at the end. On a device it goes to the pinned tier, which the cache fills.
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  const BlockId first = graph.add_block(30 << 10), second = graph.add_block(cpu ? 30 << 10 : 60 << 10);
  const BlockId last = graph.add_block(1 << 10, 0, true);
  add(graph, {.body = body, .outputs = {first}});
  add(graph, {.body = body, .outputs = {second}});
  add(graph, {.body = body, .inputs = {first}, .outputs = {last}});
  Cache cache(*executor, cpu ? 30 << 10 : 60 << 10);
  ASSERT_GT(cache.memory.bytes(), 0);
  executor->run(graph);
  EXPECT_GT(cache.calls, 0);
  EXPECT_LT(cache.memory.bytes(), cpu ? 30 << 10 : 60 << 10);
  if (cpu) {
    EXPECT_EQ(executor->statistics().spilled_bytes, 0);
  }
  std::vector<uint64_t> of_first(30 * 128), expected(128);
  mix(0, {}, {{of_first.data(), 30 << 10}});
  mix(2, {{of_first.data(), 30 << 10}}, {{expected.data(), 1 << 10}});
  EXPECT_EQ(words_of(*executor, *executor->stored_block(last)), expected);
}

// On a device blocks need other memory.
TEST(ExecutorCache, StaysWhereBlocksThatNobodyReadsCanGo) {
  const auto executor = Executor::create(config_for(DeviceKind::cpu, 64 << 10));
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  std::vector<BlockId> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(graph.add_block(16 << 10, 0, true));
    add(graph, {.body = body, .outputs = {blocks.back()}});
  }
  Cache cache(*executor, 30 << 10);
  executor->run(graph);
  EXPECT_EQ(cache.memory.bytes(), 30 << 10);
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<uint64_t> expected(16 * 128);
    mix(static_cast<int64_t>(i), {}, {{expected.data(), 16 << 10}});
    EXPECT_EQ(words_of(*executor, *executor->stored_block(blocks[i])), expected) << i;
  }
}

TEST_P(ExecutorBlocksTest, ACacheMakesWayForATaskThatNeedsAllMemory) {
  for (const bool spills : {true, false}) {
    ExecutorConfig config = config_for(GetParam(), 64 << 10);
    if (!spills) config.spill_dir = "";
    const auto executor = Executor::create(config);
    Graph graph;
    const int32_t body = graph.add_body(std::make_unique<Mix>());
    const BlockId block = graph.add_block(64 << 10, 0, true);
    add(graph, {.body = body, .outputs = {block}});
    Cache cache(*executor, 30 << 10);
    ASSERT_EQ(cache.memory.bytes(), 30 << 10);
    EXPECT_NO_THROW(executor->run(graph));
    EXPECT_EQ(cache.memory.bytes(), GetParam() == DeviceKind::cpu ? 0 : 30 << 10);
  }
}

TEST(ExecutorStaging, IsReusedOnlyBehindTheStream) {
  // Each task fills staging memory and queues a copy out of it; the next one must not overwrite it before. (Tasks on
  // the CPU use their scratch.)
  ExecutorConfig config = config_for(DeviceKind::emulated, 64 << 10);
  config.host_bytes = (256 + 16) << 10;
  const auto executor = Executor::create(config);
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
    local::MemoryResource& staging = executor->staging();
    void* piece = staging.allocate(4096, run.context.stream);
    mix(run.index, {}, {{piece, 4096}});
    run.context.stream->copy(run.outputs[0].data, piece, 4096);
    staging.deallocate(piece, 4096, run.context.stream);
  }));
  std::vector<BlockId> blocks;
  for (int i = 0; i < 60; ++i) {
    blocks.push_back(graph.add_block(4096, 0, true));
    add(graph, {.body = body, .outputs = {blocks.back()}, .queue = QueueKind::io, .kind = TaskKind::read});
  }
  executor->run(graph);
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<uint64_t> expected(512);
    mix(static_cast<int64_t>(i), {}, {{expected.data(), 4096}});
    EXPECT_EQ(words_of(*executor, *executor->stored_block(blocks[i])), expected) << i;
  }
}

TEST_P(ExecutorBlocksTest, ConcurrentRemoteReadersAndSpilling) {
  ExecutorConfig config = config_for(GetParam(), 16 << 10);
  const auto executor = Executor::create(config);
  const RandomGraph plan(31, 150, 200, 0.0);
  const auto reference = plan.reference();
  Graph graph;
  const int32_t mixer = graph.add_body(std::make_unique<Mix>());
  for (const int64_t bytes : plan.bytes) graph.add_block(bytes, 2);
  for (const auto& task : plan.tasks) {
    TaskDecl decl;
    const std::vector<BlockId> inputs(task.inputs.begin(), task.inputs.end());
    const std::vector<BlockId> outputs(task.outputs.begin(), task.outputs.end());
    decl.body = mixer;
    decl.queue = task.queue;
    decl.index = decl.position = task.index;
    decl.scratch_bytes = task.scratch;
    decl.inputs = inputs;
    decl.outputs = outputs;
    graph.add_task(decl);
  }
  ASSERT_LE(least_workable_bytes(graph), config.memory_bytes);
  std::vector<std::unique_ptr<Helper>> helpers;
  for (int i = 0; i < 3; ++i) helpers.push_back(std::make_unique<Helper>());
  for (size_t b = 0; b < plan.bytes.size(); ++b) {
    for (size_t reader = 0; reader < 2; ++reader) {
      executor->when_ready(static_cast<BlockId>(b), [&, b, reader] {
        helpers[(b + reader) % 3]->post([&, b] {
          std::vector<uint64_t> got(reference[b].size());
          executor->read_block(static_cast<BlockId>(b), 0, plan.bytes[b], got.data());
          EXPECT_EQ(got, reference[b]) << b;
          executor->release_remote(static_cast<BlockId>(b));
        });
      });
    }
  }
  executor->run(graph);
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, ExecutorBlocksTest, ::testing::Values(DeviceKind::cpu, DeviceKind::emulated),
                         [](const auto& info) { return std::string(local::name(info.param)); });

}  // namespace
}  // namespace quarry::scheduler
