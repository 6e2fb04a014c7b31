// Faults of the world at every kind of task: memory that is refused, moves between tiers that fail, a disk that is
// full, a task that stalls. The run throws that error, nothing leaks, and the executor works afterwards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "executor_support.h"
#include "tests/support/patience.h"

#include "quarry/local/base/detail.h"

namespace quarry::scheduler {
namespace {

using namespace testing_support;
using Operation = ExecutorConfig::Operation;
using ::testing::HasSubstr;

// Fails one call of an operation.
struct Fault {
  std::atomic<int64_t> left = -1;  // calls until then; negative: never
  std::atomic<int64_t> calls = 0;
  Operation operation = Operation::allocate;
  std::function<void(Operation)> hook() {
    return [this](Operation now) {
      if (now != operation) return;
      ++calls;
      if (left < 0 || left-- != 0) return;
      switch (now) {
        case Operation::allocate:
          throw local::OutOfMemory("refused for the test");
        case Operation::spill:
          throw local::IoError("no space left, for the test");
        case Operation::restore:
          throw local::DeviceError("the copy failed for the test");
      }
    };
  }
};

class ExecutorFaultTest : public ::testing::TestWithParam<DeviceKind> {
 protected:
  static ExecutorConfig config(int64_t memory_bytes, Fault& fault) {
    ExecutorConfig made = config_for(GetParam(), memory_bytes);
    if (GetParam() != DeviceKind::cpu) made.host_bytes = 272 << 10;
    made.fault = fault.hook();
    return made;
  }
  static void expect_right(Executor& executor, const RandomGraph& plan) {
    const auto reference = plan.reference();
    Graph graph;
    plan.build(graph);
    executor.run(graph);
    for (size_t b = 0; b < plan.bytes.size(); ++b) {
      if (plan.keep[b]) {
        ASSERT_EQ(words_of(executor, *executor.stored_block(static_cast<BlockId>(b))), reference[b]);
      }
    }
  }
};

// A chain of each kind through blocks that do not all fit.
void build_kinds(Graph& graph, TaskKind kind) {
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  std::vector<BlockId> made;
  for (int i = 0; i < 24; ++i) {
    made.push_back(graph.add_block(4096));
    add(graph,
        {.body = body, .outputs = {made.back()}, .queue = static_cast<QueueKind>(i % kQueueCount), .kind = kind});
  }
  for (size_t i = 0; i < made.size(); ++i) {
    add(graph, {.body = body,
                .inputs = {made[i]},
                .queue = static_cast<QueueKind>(i % kQueueCount),
                .kind = kind,
                .scratch = 512});
  }
}

TEST_P(ExecutorFaultTest, EveryOperationAtEveryKindOfTask) {
  constexpr int64_t kBudget = 16 << 10;
  Fault fault;
  const auto executor = Executor::create(config(kBudget, fault));
  for (const TaskKind kind : kKinds) {
    for (const Operation operation : {Operation::allocate, Operation::spill, Operation::restore}) {
      for (const int64_t call : {0, 1, 5, 11}) {
        SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << " operation "
                                        << static_cast<int>(operation) << " call " << call);
        Graph graph;
        build_kinds(graph, kind);
        fault.operation = operation;
        fault.left = call;
        try {
          executor->run(graph);
          ADD_FAILURE() << "no error";
        } catch (const local::OutOfMemory& e) {
          EXPECT_EQ(operation, Operation::allocate);
          EXPECT_THAT(e.what(), HasSubstr("mix["));
        } catch (const local::IoError& e) {
          EXPECT_EQ(operation, Operation::spill);
          EXPECT_THAT(e.what(), HasSubstr("spilling mix["));
        } catch (const local::DeviceError& e) {
          EXPECT_EQ(operation, Operation::restore);
          EXPECT_THAT(e.what(), HasSubstr("bringing back mix["));
        }
        fault.left = -1;
        EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
        EXPECT_EQ(executor->progress().disk_used, 0);
      }
    }
    Graph graph;
    build_kinds(graph, kind);
    executor->run(graph);
  }
  const RandomGraph plan(21, 100, 100, 0.2);
  expect_right(*executor, plan);
}

TEST_P(ExecutorFaultTest, RandomGraphsWithAFaultAnywhere) {
  for (const double visits : {0.0, 0.5}) {
    RandomGraph plan(8, 200, 600, 0.05, visits);
    if (visits == 0) plan.change_in_place(8, 900);
    Graph graph;
    plan.build(graph);
    Fault fault;
    const auto executor = Executor::create(config(least_workable_bytes(graph), fault));
    for (const Operation operation : {Operation::allocate, Operation::spill, Operation::restore}) {
      fault.operation = operation;
      fault.calls = 0;
      expect_right(*executor, plan);
      const int64_t calls = fault.calls;
      EXPECT_GT(calls, 0);
      for (int64_t call = 0; call < calls; call += std::max<int64_t>(1, calls / 12)) {
        Graph failing;
        plan.build(failing);
        fault.left = call;
        // Another order of moves may have fewer of them.
        try {
          executor->run(failing);
        } catch (const local::Error& e) {
          EXPECT_THAT(e.what(), HasSubstr("for the test"));
          EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
        }
        fault.left = -1;
      }
      expect_right(*executor, plan);
    }
  }
}

// A task of each kind and of each queue, and one that changes a block in place, early and late in the order.
TEST_P(ExecutorFaultTest, RandomGraphsWhoseTasksThrow) {
  for (const double visits : {0.0, 0.5}) {
    RandomGraph plan(9, 300, 600, 0.05, visits);
    const int changed = plan.change_in_place(9, 900);
    std::map<std::string, std::vector<int64_t>> tasks;  // by what they are
    for (const RandomGraph::Task& task : plan.tasks) {
      tasks["kind " + std::to_string(static_cast<int>(task.kind))].push_back(task.index);
      tasks[name(task.queue)].push_back(task.index);
      if (task.in_place != 0) tasks["in place"].push_back(task.index);
      if (task.visits) tasks["visits"].push_back(task.index);
    }
    EXPECT_GT(changed, 10);
    EXPECT_EQ(tasks.size(), kKinds.size() + kQueueCount + (visits > 0 ? 2 : 1));
    Graph graph;
    plan.build(graph);
    Fault none;
    const auto executor = Executor::create(config(least_workable_bytes(graph), none));
    for (const auto& [what, indices] : tasks) {
      for (const size_t at : {size_t{0}, indices.size() / 2, indices.size() - 1}) {
        SCOPED_TRACE(testing::Message() << what << ", task " << indices[at]);
        Graph failing;
        plan.build(failing, std::make_unique<Mix>(/*throws_at=*/indices[at]));
        try {
          executor->run(failing);
          ADD_FAILURE() << "no error";
        } catch (const local::IoError& e) {
          EXPECT_THAT(e.what(), HasSubstr("mix[" + std::to_string(indices[at]) + "]"));
        }
        EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
        EXPECT_EQ(executor->progress().disk_used, 0);
      }
      expect_right(*executor, plan);
    }
  }
}

TEST_P(ExecutorFaultTest, AStalledTaskIsNamedAndTheRunCanBeStopped) {
  Fault fault;
  const auto executor = Executor::create(config(64 << 10, fault));
  for (const TaskKind kind : kKinds) {
    for (int queue = 0; queue < kQueueCount; ++queue) {
      Graph graph;
      const int32_t stalled = graph.add_body(std::make_unique<Call>(
          [](TaskRun& run) {
            while (!run.is_cancelled()) std::this_thread::sleep_for(std::chrono::microseconds(100));
          },
          "stalled"));
      const int32_t after = graph.add_body(std::make_unique<Mix>());
      const BlockId block = graph.add_block(512);
      add(graph, {.body = stalled, .outputs = {block}, .queue = static_cast<QueueKind>(queue), .kind = kind});
      add(graph, {.body = after, .inputs = {block}});
      std::string waits;
      std::thread other([&] {
        while (waits.find("running: stalled[0]") == std::string::npos) waits = executor->describe_waits();
        executor->cancel({local::ErrorCode::cancelled, "given up", 0});
      });
      EXPECT_THROW(executor->run(graph), local::Cancelled);
      other.join();
      const bool is_computed = goes_first(static_cast<QueueKind>(queue)) && GetParam() == local::DeviceKind::cpu;
      EXPECT_THAT(waits, HasSubstr(name(is_computed ? QueueKind::compute : static_cast<QueueKind>(queue))));
      EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
    }
  }
}

// Short tasks that one thread has taken together with one that takes long for once are taken back by the others.
TEST_P(ExecutorFaultTest, ALongTaskHoldsNothingElseUp) {
  Fault fault;
  ExecutorConfig two = config(64 << 10, fault);
  two.compute_threads = 2;
  const auto executor = Executor::create(two);
  Graph graph;
  constexpr int kTasks = 4000, kLong = 3000;
  std::atomic<int> done = 0;
  std::atomic<bool> others_went_on = false;
  const int32_t body = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
    if (run.index == kLong) {
      // Ends when all others have, or after a while.
      others_went_on = test::waits_until([&] { return done == kTasks - 1; });
    }
    ++done;
  }));
  // One thread queues the work of a device, several move it.
  const QueueKind queue = GetParam() == DeviceKind::cpu ? QueueKind::compute : QueueKind::io;
  for (int i = 0; i < kTasks; ++i) add(graph, {.body = body, .queue = queue});
  executor->run(graph);
  EXPECT_TRUE(others_went_on);
}

INSTANTIATE_TEST_SUITE_P(Devices, ExecutorFaultTest, ::testing::Values(DeviceKind::cpu, DeviceKind::emulated),
                         [](const auto& info) { return std::string(local::name(info.param)); });

}  // namespace
}  // namespace quarry::scheduler
