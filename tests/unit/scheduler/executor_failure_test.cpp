// Tasks, disks and allocations that fail, and runs that are stopped: the first error is thrown with its type, nothing
// leaks, and the executor works afterwards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "executor_support.h"

#include "quarry/local/base/detail.h"

namespace quarry::scheduler {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;

class ExecutorFailureTest : public ::testing::TestWithParam<DeviceKind> {
 protected:
  // Nothing is reserved any more and a graph that spills gives the right answer.
  static void expect_usable(Executor& executor, int64_t budget) {
    EXPECT_EQ(executor.memory_budget().reserved_bytes(), 0);
    const RandomGraph plan(21, 100, 100, 0.2);
    const auto reference = plan.reference();
    Graph graph;
    plan.build(graph);
    ASSERT_LE(least_workable_bytes(graph), budget);
    executor.run(graph);
    for (size_t b = 0; b < plan.bytes.size(); ++b) {
      if (plan.keep[b]) {
        ASSERT_EQ(words_of(executor, *executor.stored_block(static_cast<BlockId>(b))), reference[b]);
      }
    }
  }
};

constexpr int64_t kBudget = 16 << 10;

// Throws for one index, does the arithmetic for all others.
class Failing final : public TaskBody {
 public:
  explicit Failing(int64_t bad) : bad_(bad) {}
  std::string name(int64_t index) const override { return "failing[" + std::to_string(index) + "]"; }
  bool supports_batching() const override { return true; }
  void run(TaskRun& run) override {
    mix_.run(run);
    if (run.index == bad_) throw local::TypeError("a bad type of " + std::to_string(index_seen(run)));
  }

 private:
  static int64_t index_seen(const TaskRun& run) { return run.index; }
  Mix mix_;
  int64_t bad_;
};

TEST_P(ExecutorFailureTest, TheFirstErrorKeepsItsTypeAndNamesItsTask) {
  const auto executor = Executor::create(config_for(GetParam(), kBudget));
  for (const int64_t bad : {0, 1, 17, 60, 119}) {
    const RandomGraph plan(5, 120, 100);
    Graph graph;
    plan.build(graph, std::make_unique<Failing>(bad));
    try {
      executor->run(graph);
      FAIL() << bad;
    } catch (const local::TypeError& e) {
      EXPECT_EQ(std::string(e.what()), "failing[" + std::to_string(bad) + "]: a bad type of " + std::to_string(bad));
    }
    EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
  }
  expect_usable(*executor, kBudget);
}

TEST_P(ExecutorFailureTest, EveryQueueAndEveryKindOfException) {
  const auto executor = Executor::create(config_for(GetParam(), kBudget));
  const auto run_throwing = [&](QueueKind queue, const std::function<void(TaskRun&)>& body) {
    Graph graph;
    const int32_t good = graph.add_body(std::make_unique<Mix>());
    const int32_t bad = graph.add_body(std::make_unique<Call>(body, "bad"));
    for (int i = 0; i < 30; ++i) {
      const BlockId block = graph.add_block(512);
      add(graph, {.body = good, .outputs = {block}, .queue = QueueKind::io});
      add(graph, {.body = i == 15 ? bad : good, .inputs = {block}, .queue = queue});
    }
    executor->run(graph);
  };
  for (int queue = 0; queue < kQueueCount; ++queue) {
    const auto kind = static_cast<QueueKind>(queue);
    EXPECT_THROW(run_throwing(kind, [](TaskRun&) { throw local::IoError("x"); }), local::IoError);
    EXPECT_THROW(run_throwing(kind, [](TaskRun&) { throw local::BudgetError("x", 7); }), local::BudgetError);
    EXPECT_THROW(run_throwing(kind, [](TaskRun&) { throw std::bad_alloc(); }), local::OutOfMemory);
    EXPECT_THROW(run_throwing(kind, [](TaskRun&) { throw std::runtime_error("x"); }), local::InternalError);
    EXPECT_THROW(run_throwing(kind, [](TaskRun&) { throw 42; }), local::InternalError);
    // After deferring, and from the completion, and by dropping it.
    EXPECT_THROW(run_throwing(kind,
                              [](TaskRun& run) {
                                run.defer();
                                throw local::CommError("x");
                              }),
                 local::CommError);
    EXPECT_THROW(
        run_throwing(kind, [](TaskRun& run) { run.defer()->fail(std::make_exception_ptr(local::DeviceError("x"))); }),
        local::DeviceError);
    EXPECT_THROW(run_throwing(kind, [](TaskRun& run) { run.defer(); }), local::InternalError);
  }
  expect_usable(*executor, kBudget);
}

TEST_P(ExecutorFailureTest, WorkThatFailsOnTheStream) {
  const auto executor = Executor::create(config_for(GetParam(), kBudget));
  Graph graph;
  const int32_t bad = graph.add_body(std::make_unique<Call>(
      [](TaskRun& run) { run.context.stream->host_callback([] { throw local::DeviceError("the kernel faulted"); }); }));
  const BlockId block = graph.add_block(512);
  add(graph, {.body = bad, .outputs = {block}});
  add(graph, {.body = graph.add_body(std::make_unique<Mix>()), .inputs = {block}});
  EXPECT_THROW(executor->run(graph), local::DeviceError);
  expect_usable(*executor, kBudget);
}

TEST_P(ExecutorFailureTest, ScratchBeyondWhatWasDeclared) {
  const auto executor = Executor::create(config_for(GetParam(), kBudget));
  Graph graph;
  const int32_t body = graph.add_body(
      std::make_unique<Call>([](TaskRun& run) { run.context.memory->allocate(257, run.context.stream); }));
  add(graph, {.body = body, .scratch = 256});
  EXPECT_THROW(executor->run(graph), local::OutOfMemory);
  expect_usable(*executor, kBudget);
}

// More live bytes than the budget: everything must go through the disk.
void build_wide(Graph& graph, int blocks, int64_t bytes) {
  const int32_t body = graph.add_body(std::make_unique<Mix>());
  std::vector<BlockId> made;
  for (int i = 0; i < blocks; ++i) {
    made.push_back(graph.add_block(bytes));
    add(graph, {.body = body, .outputs = {made.back()}});
  }
  for (const BlockId block : made) add(graph, {.body = body, .inputs = {block}});
}

ExecutorConfig little_host(DeviceKind kind, int64_t budget) {
  ExecutorConfig config = config_for(kind, budget);
  if (kind != DeviceKind::cpu) config.host_bytes = 272 << 10;  // the bounce buffers and 16 KiB
  return config;
}

TEST_P(ExecutorFailureTest, FullSpillDirectoryIsAnIoErrorThatNamesIt) {
  ExecutorConfig config = little_host(GetParam(), kBudget);
  config.spill_limit_bytes = 20 << 10;
  const auto executor = Executor::create(config);
  Graph graph;
  build_wide(graph, 40, 4096);
  try {
    executor->run(graph);
    FAIL();
  } catch (const local::IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr("no space left"));
    EXPECT_THAT(e.what(), HasSubstr(config.spill_dir));
  }
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
  // What fits the limit works.
  Graph small;
  build_wide(small, 8, 4096);
  executor->run(small);
  EXPECT_GT(executor->statistics().spilled_bytes, 0);
}

TEST_P(ExecutorFailureTest, SpillDirectoryThatIsNotThere) {
  ExecutorConfig config = little_host(GetParam(), kBudget);
  config.spill_dir = "/does/not/exist";
  const auto executor = Executor::create(config);
  Graph fits;
  build_wide(fits, 2, 4096);
  executor->run(fits);  // nobody asks for the directory
  Graph graph;
  build_wide(graph, 40, 4096);
  EXPECT_THROW(executor->run(graph), local::IoError);
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
}

TEST_P(ExecutorFailureTest, WithoutSpillingTheTaskThatDoesNotFitIsNamed) {
  ExecutorConfig config = little_host(GetParam(), kBudget);
  config.spill_dir = "";
  const auto executor = Executor::create(config);
  Graph graph;
  build_wide(graph, 40, 4096);
  try {
    executor->run(graph);
    FAIL();
  } catch (const local::OutOfMemory& e) {
    EXPECT_THAT(e.what(), HasSubstr("mix["));
    EXPECT_THAT(e.what(), HasSubstr("no spill directory"));
  }
  EXPECT_EQ(executor->memory_budget().reserved_bytes(), 0);
}

TEST_P(ExecutorFailureTest, CancelFromAnotherThread) {
  const auto executor = Executor::create(config_for(GetParam(), kBudget));
  for (int round = 0; round < 5; ++round) {
    Graph graph;
    std::promise<void> started;
    std::atomic<int> runs = 0;
    const int32_t body = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
      if (runs++ == 3) started.set_value();
      if (runs > 3) {
        while (!run.is_cancelled()) std::this_thread::yield();
      }
    }));
    for (int i = 0; i < 1000; ++i) add(graph, {.body = body, .outputs = {graph.add_block(512)}});
    std::thread other([&] {
      started.get_future().wait();
      executor->cancel({local::ErrorCode::cancelled, "interrupted", 0});
    });
    EXPECT_THROW(executor->run(graph), local::Cancelled);
    other.join();
    EXPECT_LT(runs, 100);
  }
  expect_usable(*executor, kBudget);
}

TEST_P(ExecutorFailureTest, CancelBeforeTheRunIsNotLost) {
  const auto executor = Executor::create(config_for(GetParam(), kBudget));
  executor->cancel({local::ErrorCode::comm, "rank 3: lost", 0});
  Graph graph;
  bool ran = false;
  add(graph, {.body = graph.add_body(std::make_unique<Call>([&](TaskRun&) { ran = true; }))});
  EXPECT_THROW(executor->run(graph), local::CommError);
  EXPECT_FALSE(ran);
  executor->cancel({local::ErrorCode::comm, "late", 0});
  executor->clear_cancel();
  executor->run(graph);
  EXPECT_TRUE(ran);
}

TEST_P(ExecutorFailureTest, FailureHandlerComesBeforeDeferredTasksEnd) {
  const auto executor = Executor::create(config_for(GetParam(), kBudget));
  std::promise<local::ErrorRecord> told;
  std::atomic<int> calls = 0;
  executor->set_failure_handler([&](const local::ErrorRecord& error) {
    ++calls;
    told.set_value(error);
  });
  Graph graph;
  std::shared_ptr<Completion> pending;
  std::promise<void> deferred;
  const int32_t receive = graph.add_body(std::make_unique<Call>([&](TaskRun& run) {
    pending = run.defer();
    deferred.set_value();
  }));
  std::future<void> is_deferred = deferred.get_future();
  const int32_t bad = graph.add_body(std::make_unique<Call>([&](TaskRun&) {
    is_deferred.wait();
    throw local::IoError("disk");
  }));
  add(graph, {.body = receive, .outputs = {graph.add_block(64)}, .queue = QueueKind::comm, .kind = TaskKind::receive});
  add(graph, {.body = bad});
  std::thread other([&] {
    const local::ErrorRecord error = told.get_future().get();
    EXPECT_EQ(error.code, local::ErrorCode::io);
    // The run waits for the transfer; its failure afterwards is not the first.
    pending->fail(std::make_exception_ptr(local::Cancelled("stopped")));
    pending.reset();
  });
  EXPECT_THROW(executor->run(graph), local::IoError);
  other.join();
  EXPECT_EQ(calls, 1);
  executor->set_failure_handler(nullptr);
  expect_usable(*executor, kBudget);
}

TEST_P(ExecutorFailureTest, CreateChecksItsConfiguration) {
  ExecutorConfig config = config_for(GetParam(), -1);
  EXPECT_THROW(Executor::create(config), local::InvalidArgument);
  config = config_for(GetParam(), 1024);
  config.io_threads = 0;
  EXPECT_THROW(Executor::create(config), local::InvalidArgument);
  if (GetParam() != DeviceKind::cpu) {
    config = config_for(GetParam(), 1024);
    config.host_bytes = 1000;
    EXPECT_THROW(Executor::create(config), local::BudgetError);
    config.host_bytes = 512 << 10;
    config.memory_bytes = int64_t{1} << 50;
    EXPECT_THROW(Executor::create(config), local::OutOfMemory);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ExecutorFailureTest, ::testing::Values(DeviceKind::cpu, DeviceKind::emulated),
                         [](const auto& info) { return std::string(local::name(info.param)); });

}  // namespace
}  // namespace quarry::scheduler
