// Short runs: the calling thread runs tasks itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "executor_support.h"
#include "quarry/scheduler/executor.h"
#include "tests/support/patience.h"

namespace quarry::scheduler {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;

const ShortRun kNothingToWaitFor{[] { std::this_thread::yield(); }, [] {}};

TEST(ShortRuns, RandomGraphsEqualThePlainLoopAtEveryBudget) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    for (const double visits : {0.0, 0.5}) {
      const RandomGraph plan(seed, 60, 600, 0.1, visits);
      const auto reference = plan.reference();
      Graph sized;
      plan.build(sized);
      const int64_t least = least_workable_bytes(sized);
      for (const int64_t budget : {least, least * 2, int64_t{64} << 20}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << " budget " << budget << " least " << least);
        const auto executor = Executor::create(config_for(DeviceKind::cpu, budget));
        Graph graph;
        plan.build(graph);
        executor->run(graph, nullptr, &kNothingToWaitFor);
        for (size_t b = 0; b < plan.bytes.size(); ++b) {
          if (!plan.keep[b]) continue;
          const auto stored = executor->stored_block(static_cast<BlockId>(b));
          ASSERT_EQ(words_of(*executor, *stored), reference[b]) << "block " << b;
        }
        EXPECT_EQ(executor->statistics().tasks, static_cast<int64_t>(plan.tasks.size()));
        EXPECT_LE(executor->statistics().peak_memory_bytes, budget);
      }
    }
  }
}

// What stands for the network: completes what waits when it is asked to, and by itself once the run has been given up.
class Network {
 public:
  void expect(std::shared_ptr<Completion> completion) {
    const std::unique_lock lock(mutex_);
    waiting_ = std::move(completion);
    if (by_itself_) end();
  }
  void progress() {
    const std::unique_lock lock(mutex_);
    end();
  }
  void go_on_by_itself() {
    const std::unique_lock lock(mutex_);
    by_itself_ = true;
    end();
  }

 private:
  void end() {
    if (auto completion = std::exchange(waiting_, nullptr)) completion->finish();
  }

  std::mutex mutex_;
  std::shared_ptr<Completion> waiting_;
  bool by_itself_ = false;
};

// A chain, every other task of which is finished by what the thread does while it waits. A thread that is just
// starting, or takes over because this one was off its core, may run a task; nobody may be woken for one. So that some
// of many rows of runs must be this thread's alone.
TEST(ShortRuns, NoOtherThreadIsWokenForAChain) {
  constexpr int kRow = 100, kMostRows = 100;
  const auto executor = Executor::create(config_for(DeviceKind::cpu, 1 << 20));
  const auto is_alone = [&] {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    const auto note = [&] {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    };
    Network network;
    Graph graph;
    const int32_t compute = graph.add_body(std::make_unique<Call>([&](TaskRun&) { note(); }));
    const int32_t receive = graph.add_body(std::make_unique<Call>([&](TaskRun& task) {
      note();
      network.expect(task.defer());
    }));
    BlockId last = -1;
    for (int i = 0; i < 10; ++i) {
      const BlockId made = graph.add_block(64);
      const auto inputs = last < 0 ? std::vector<BlockId>() : std::vector<BlockId>{last};
      add(graph, {.body = i % 2 == 0 ? compute : receive,
                  .inputs = inputs,
                  .outputs = {made},
                  .queue = i % 2 == 0 ? QueueKind::compute : QueueKind::comm});
      last = made;
    }
    const ShortRun how{[&] { network.progress(); }, [&] { network.go_on_by_itself(); }};
    executor->run(graph, nullptr, &how);
    threads.erase(std::this_thread::get_id());
    return threads.empty();
  };
  int rows = 0;
  bool alone = false;
  for (; rows < kMostRows && !alone; ++rows) {
    alone = true;
    for (int run = 0; run < kRow; ++run) alone = is_alone() && alone;
  }
  EXPECT_TRUE(alone) << rows << " rows";
  RecordProperty("rows", rows);
}

// A compute queue of one thread has this one meanwhile, also for many tasks that are ready at once, each of which takes
// as long as a thread takes to wake up. Of runs that are not given up after a while, another thread may have a part
// only where it was still awake: hardly ever.
TEST(ShortRuns, NoOtherThreadComputesWhereOneIsToDoSo) {
  constexpr int kRuns = 200, kTasks = 6;
  constexpr auto kTask = std::chrono::microseconds(50), kWhile = std::chrono::microseconds(900);
  ExecutorConfig config = config_for(DeviceKind::cpu, 1 << 20);
  config.compute_threads = 1;
  const auto executor = Executor::create(config);
  int shared = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::atomic<bool> alone{true};
    const auto self = std::this_thread::get_id();
    Graph graph;
    for (int i = 0; i < kTasks; ++i) {
      const int32_t body = graph.add_body(std::make_unique<Call>([&](TaskRun&) {
        const auto until = std::chrono::steady_clock::now() + kTask;
        while (std::chrono::steady_clock::now() < until) {
        }
        if (std::this_thread::get_id() != self) alone = false;
      }));
      add(graph, {.body = body});
    }
    const auto begin = std::chrono::steady_clock::now();
    executor->run(graph, nullptr, &kNothingToWaitFor);
    if (!alone && std::chrono::steady_clock::now() - begin < kWhile) ++shared;
  }
  EXPECT_LE(shared, kRuns / 10);
}

// Each of two tasks waits for the other: while this thread is at one, the other is for somebody else.
TEST(ShortRuns, OthersTakeWhatRemains) {
  const auto executor = Executor::create(config_for(DeviceKind::cpu, 1 << 20));
  std::atomic<int> begun{0};
  bool met = true;
  std::mutex mutex;
  Graph graph;
  const int32_t body = graph.add_body(std::make_unique<Call>([&](TaskRun&) {
    ++begun;
    const bool both = test::waits_until([&] { return begun == 2; });
    const std::lock_guard lock(mutex);
    met = met && both;
  }));
  for (int i = 0; i < 2; ++i) add(graph, {.body = body});
  executor->run(graph, nullptr, &kNothingToWaitFor);
  EXPECT_TRUE(met);
}

TEST(ShortRuns, OneThatTakesLongIsGivenUpOnce) {
  const auto executor = Executor::create(config_for(DeviceKind::cpu, 1 << 20));
  std::shared_ptr<Completion> waiting;
  std::thread::id last;
  Graph graph;
  const BlockId made = graph.add_block(64);
  const int32_t receive = graph.add_body(std::make_unique<Call>([&](TaskRun& task) { waiting = task.defer(); }));
  const int32_t compute = graph.add_body(std::make_unique<Call>([&](TaskRun&) { last = std::this_thread::get_id(); }));
  add(graph, {.body = receive, .outputs = {made}, .queue = QueueKind::comm});
  add(graph, {.body = compute, .inputs = {made}});
  int given_up = 0;
  std::thread other;
  const ShortRun how{[] { std::this_thread::yield(); },
                     [&] {
                       ++given_up;
                       other = std::thread([&] { waiting->finish(); });
                     }};
  executor->run(graph, nullptr, &how);
  other.join();
  EXPECT_EQ(given_up, 1);
  EXPECT_NE(last, std::this_thread::get_id());
}

// The calling thread is at a task: another one sees that it takes long.
TEST(ShortRuns, OneWithATaskThatTakesLongIsGivenUpByAnotherThread) {
  const auto executor = Executor::create(config_for(DeviceKind::cpu, 1 << 20));
  for (int run = 0; run < 2; ++run) {
    std::atomic<bool> given_up{false};
    std::thread::id task, by;
    Graph graph;
    add(graph, {.body = graph.add_body(std::make_unique<Call>([&](TaskRun&) {
          task = std::this_thread::get_id();
          EXPECT_TRUE(test::waits_until([&] { return given_up.load(); }));
        }))});
    const ShortRun how{[] { std::this_thread::yield(); },
                       [&] {
                         by = std::this_thread::get_id();
                         given_up = true;
                       }};
    executor->run(graph, nullptr, &how);
    EXPECT_NE(by, task);
  }
}

TEST(ShortRuns, AnErrorNamesItsTaskAndTheExecutorGoesOn) {
  const auto executor = Executor::create(config_for(DeviceKind::cpu, 1 << 20));
  for (int run = 0; run < 2; ++run) {
    Graph graph;
    const BlockId made = graph.add_block(64);
    const int32_t fails =
        graph.add_body(std::make_unique<Call>([](TaskRun&) { throw local::IoError("for the test"); }, "failing"));
    const int32_t never = graph.add_body(std::make_unique<Call>([](TaskRun&) { ADD_FAILURE(); }));
    add(graph, {.body = fails, .outputs = {made}});
    add(graph, {.body = never, .inputs = {made}});
    try {
      executor->run(graph, nullptr, &kNothingToWaitFor);
      ADD_FAILURE() << "no error";
    } catch (const local::IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("failing[0]"));
    }
    EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
  }
}

}  // namespace
}  // namespace quarry::scheduler
