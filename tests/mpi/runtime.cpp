// The Runtime on several ranks.
#include "quarry/chunked/runtime/runtime.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <thread>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/runtime/internals.h"
#include "tests/support/mpi_job.h"
#include "tests/support/patience.h"

namespace quarry {
namespace {

using test::job;

RuntimeOptions small() {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "16MiB";
  options.threads = 1;
  return options;
}

class Body : public scheduler::TaskBody {
 public:
  explicit Body(std::function<void(scheduler::TaskRun&)> run) : run_(std::move(run)) {}
  std::string name(int64_t index) const override { return "test " + std::to_string(index); }
  void run(scheduler::TaskRun& run) override { run_(run); }

 private:
  std::function<void(scheduler::TaskRun&)> run_;
};

void add_tasks(scheduler::Graph& graph, int count, std::function<void(scheduler::TaskRun&)> run) {
  const int32_t body = graph.add_body(std::make_unique<Body>(std::move(run)));
  for (int i = 0; i < count; ++i) {
    scheduler::TaskDecl task;
    task.body = body;
    task.index = i;
    task.position = i;
    graph.add_task(task);
  }
}

TEST(Runtime, EveryRankIsPartOfIt) {
  Runtime runtime(small());
  EXPECT_EQ(runtime.rank(), job().rank());
  EXPECT_EQ(runtime.size(), job().size());
  EXPECT_EQ(runtime.memory_bytes(), 16 << 20);
  if (job().size() == 2) {
    EXPECT_EQ(runtime.banner(),
              fmt::format("2 ranks on 1 node over {}, CPU, 1 thread per rank, 16.0 MiB of memory per rank",
                          job().transport()));
  }
}

TEST(Runtime, AHostBudgetWithoutRoomForMessagesIsRefused) {
  if (job().size() == 1) return;
  RuntimeOptions options = small();
  options.device = local::DeviceKind::emulated;
  options.host_memory = "256KiB";  // all for the bounce buffers of two threads
  int64_t least = 0;
  try {
    const Runtime runtime(options);
    sum(random::normal({1000})).to_host();
    ADD_FAILURE() << "no error";
  } catch (const local::BudgetError& error) {
    least = error.least_bytes();
  }
  EXPECT_GT(least, 256 << 10);
  options.host_memory = std::to_string(least);
  const Runtime runtime(options);
  EXPECT_TRUE(std::isfinite(sum(random::normal({1000})).item<double>()));
}

// What a rank has computed by itself, before and in between, does not tell its functions from those of the others.
TEST(Runtime, FunctionsAreToldApartByTheCallsOfTheirRuntime) {
  RuntimeOptions of_one = small();
  of_one.transport = "self";
  const auto same = [](const Array& x) { return map_blocks([](const NdArray& a) { return a; }, x); };
  const auto compute_alone = [&] {
    Runtime alone(of_one);
    const RuntimeScope scope(alone);
    for (int i = 0; i < job().rank(); ++i) EXPECT_EQ(sum(same(arange(4))).item<int64_t>(), 6);
  };
  compute_alone();
  Runtime runtime(small());
  const RuntimeScope scope(runtime);
  EXPECT_EQ(sum(same(arange(5))).item<int64_t>(), 10);
  compute_alone();
  EXPECT_EQ(sum(same(arange(6))).item<int64_t>(), 15);
}

// They travel with the end of the run, in whatever chunks they are.
TEST(Runtime, SmallValuesReachEveryRank) {
  Runtime runtime(small());
  const RuntimeScope scope(runtime);
  std::vector<int64_t> doubled, turned;
  for (int64_t i = 0; i < 30; ++i) {
    doubled.push_back(2 * i);
    turned.push_back(i % 5 * 6 + i / 5);
  }
  for (const int64_t chunk : {1, 3, 7, 100}) {
    const Array x = arange(30).rechunk(Dims{chunk}).persist();
    const Array table = x.reshape({5, 6}).rechunk(Dims{2, std::min<int64_t>(chunk, 6)});
    const Array arrays[] = {x * 2, sum(x), table.T(), x[Slice{0, 0, 1}]};
    const std::vector<NdArray> values = to_host(arrays);
    ASSERT_EQ(values.size(), 4U);
    EXPECT_EQ(local::to_vector<int64_t>(values[0]), doubled);
    EXPECT_EQ(values[1].item().as_int64(), 435);
    EXPECT_EQ(values[2].shape(), (Dims{6, 5}));
    EXPECT_EQ(local::to_vector<int64_t>(values[2]), turned);
    EXPECT_EQ(values[3].size(), 0);
  }
}

// Even where everything else of a small computation does: they may take any time.
TEST(Runtime, FunctionsOfTheProgramRunInOtherThreads) {
  Runtime runtime(small());
  const RuntimeScope scope(runtime);
  std::atomic<int> calls{0}, own{0};
  const auto caller = std::this_thread::get_id();
  const auto same = [&, caller](const NdArray& a) {
    ++calls;
    own += std::this_thread::get_id() == caller;
    return a;
  };
  const Array x = map_blocks(same, arange(8).rechunk(Dims{1}), {}, {.dtypes = {local::DType::int64}});
  EXPECT_EQ(sum(x).item<int64_t>(), 28);
  EXPECT_GT(calls, runtime.size() <= 8 ? 0 : -1);
  EXPECT_EQ(own, 0);
}

TEST(Runtime, SharesMemoryAndThreadsOfTheNode) {
  RuntimeOptions options = small();
  options.memory = "50%";
  options.threads = 0;
  const Runtime runtime(options);
  EXPECT_LE(runtime.memory_bytes() * runtime.size(), free_host_bytes());
  EXPECT_LE(runtime.threads(), std::max(1U, std::thread::hardware_concurrency() / static_cast<unsigned>(job().size())));
}

TEST(Runtime, OneRanksMistakeIsEveryRanksError) {
  RuntimeOptions options = small();
  if (job().rank() == job().size() - 1) options.memory = "lots";
  EXPECT_THROW(Runtime{options}, local::InvalidArgument);
}

TEST(Runtime, DifferentDevicesAreRefused) {
  if (job().size() == 1) return;  // one rank has one opinion
  RuntimeOptions options = small();
  if (job().rank() == 1) options.device = local::DeviceKind::emulated;
  EXPECT_THROW(Runtime{options}, local::InvalidArgument);
  options = small();
  if (job().rank() == 1) options.chunks = local::Dims{3};
  EXPECT_THROW(Runtime{options}, local::InvalidArgument);
}

TEST(Runtime, TotalsAddUp) {
  Runtime runtime(small());
  runtime.internals().read_bytes += job().rank() + 1;
  runtime.internals().written_bytes += 10;
  scheduler::Graph graph;
  add_tasks(graph, 5, [](scheduler::TaskRun&) {});
  exec::Service::create(runtime.communicator(), runtime.executor(), 1)->run(graph);
  const RunStatistics total = runtime.total_statistics();
  const int n = job().size();
  EXPECT_EQ(total.read_bytes, n * (n + 1) / 2);
  EXPECT_EQ(total.written_bytes, 10 * n);
  EXPECT_EQ(total.tasks, 5 * n);
}

TEST(Runtime, WeightsMoveChunksAndChangeNoBits) {
  const auto compute = [] {
    RuntimeOptions options = small();
    options.chunks = local::Dims{100};
    const Runtime runtime(options);
    const Array x = random::normal({20000});
    const NdArray total = sum(x * x + x).to_host();
    return std::pair(*static_cast<const double*>(total.raw()), runtime.statistics().tasks);
  };
  random::seed(0);
  const auto [equal, own_tasks] = compute();
  setenv("QUARRY_WEIGHT", job().rank() == 0 ? "5" : "0.5", 1);
  random::seed(0);
  const auto [weighted, more_tasks] = compute();
  setenv("QUARRY_WEIGHT", "heavy", 1);
  EXPECT_THROW(Runtime{small()}, local::InvalidArgument);
  unsetenv("QUARRY_WEIGHT");
  EXPECT_EQ(equal, weighted);
  if (job().size() == 1) return;
  if (job().rank() == 0) {
    EXPECT_GT(more_tasks, own_tasks);
  } else {
    EXPECT_LT(more_tasks, own_tasks);
  }
}

TEST(Runtime, CpuRanksBesideDevices) {
  if (job().size() == 1) return;
  RuntimeOptions options = small();
  options.device = job().rank() == 0 ? local::DeviceKind::emulated : local::DeviceKind::cpu;
  options.host_memory = "16MiB";
  options.chunks = local::Dims{100};
  options.without_gpu = "error";
  EXPECT_THROW(Runtime{options}, local::InvalidArgument);
  options.without_gpu = "cpu";
  Runtime runtime(options);
  EXPECT_EQ(runtime.job_device_kind(), local::DeviceKind::emulated);
  EXPECT_EQ(runtime.device_kinds()[0], local::DeviceKind::emulated);
  EXPECT_EQ(runtime.device_kinds()[1], local::DeviceKind::cpu);
  EXPECT_THAT(runtime.banner(), testing::HasSubstr(job().rank() == 0 ? "on the CPU" : "1 rank on devices"));
  // What is made everywhere is the same everywhere; a CPU rank has less to do.
  random::seed(0);
  const NdArray x = (random::normal({20000}) + 1).to_host();
  const RunStatistics mine = runtime.statistics();
  int64_t tasks[] = {job().rank() == 0 ? mine.tasks : 0};
  job().all_reduce(tasks, comm::ReduceOp::max);
  if (job().rank() != 0) {
    EXPECT_LT(mine.tasks, tasks[0] / 4);
  }
  const double sum =
      std::accumulate(static_cast<const double*>(x.raw()), static_cast<const double*>(x.raw()) + 20000, 0.0);
  EXPECT_NEAR(sum / 20000, 1, 0.05);
}

TEST(Runtime, ProgressIsTheSumOverRanks) {
  Runtime runtime(small());
  std::mutex mutex;
  std::vector<Progress> seen;
  runtime.set_progress([&](const Progress& progress) {
    const std::lock_guard lock(mutex);
    seen.push_back(progress);
  });
  scheduler::Graph graph;
  add_tasks(graph, 30, [](scheduler::TaskRun&) { std::this_thread::sleep_for(std::chrono::milliseconds(25)); });
  exec::Service::create(runtime.communicator(), runtime.executor(), 2)->run(graph);
  // The last word comes a moment after the run.
  const auto complete = [&] {
    const std::lock_guard lock(mutex);
    return !seen.empty() && seen.back().tasks_done == 30 * job().size();
  };
  if (job().rank() == 0) {
    EXPECT_TRUE(test::waits_until(complete));
  }
  job().barrier();
  runtime.set_progress(nullptr);
  if (job().rank() != 0) {
    EXPECT_TRUE(seen.empty());
  } else {
    ASSERT_GE(seen.size(), 2u);
    EXPECT_EQ(seen.back().tasks_done, 30 * job().size());
    EXPECT_EQ(seen.back().tasks_total, 30 * job().size());
    for (size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i].tasks_done, seen[i - 1].tasks_done);
    EXPECT_EQ(seen.back().memory_limit, job().size() * (int64_t{16} << 20));
  }
}

TEST(Runtime, InterruptOnOneRankCancelsAll) {
  Runtime runtime(small());
  std::jthread signal;
  if (job().rank() == job().size() - 1) {
    signal = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      runtime.interrupt();
    });
  }
  scheduler::Graph graph;
  add_tasks(graph, 10,
            [](scheduler::TaskRun& run) { EXPECT_TRUE(test::waits_until([&] { return run.is_cancelled(); })); });
  const auto service = exec::Service::create(runtime.communicator(), runtime.executor(), 3, /*paths=*/nullptr,
                                             &runtime.internals().interrupt);
  EXPECT_THROW(service->run(graph), local::Cancelled);
}

// Steps of a loop in which ranks need nothing of each other speak once, when they have run. What goes wrong on one rank
// then is every rank's error as in other runs.
TEST(Runtime, StepsWithoutFetchesSpeakOnce) {
  Runtime runtime(small());
  const RuntimeScope scope(runtime);
  const bool is_last = job().rank() == job().size() - 1;
  const Array x = (arange(9.) + 1.).rechunk(Dims{9}).persist();
  const auto step = [&](double factor) {
    return sum(x * Array::from_local(local::from_vector<double>({factor}))).to_host();
  };
  // The last one at least is of kept tasks.
  const auto expect_steps = [&](int count) {
    for (int i = 1; i <= count; ++i) {
      const int64_t calls = runtime.communicator().calls();
      EXPECT_EQ(step(i).item<double>(), 45. * i);
      if (job().size() > 1) {
        EXPECT_EQ(runtime.communicator().calls() - calls, i == count ? 1 : 2) << i;
      }
    }
  };
  expect_steps(3);
  if (is_last) {
    const std::lock_guard lock(runtime.internals().failure_mutex);
    runtime.internals().failure = {local::ErrorCode::invalid_argument, "what a callback threw", 0};
  }
  const std::string where = job().size() == 1 ? "" : fmt::format(" [rank {}]", job().size() - 1);
  EXPECT_THAT([&] { step(2); }, ::testing::Throws<local::InvalidArgument>(
                                    ::testing::Property(&std::exception::what, "what a callback threw" + where)));
  expect_steps(2);
  if (is_last) runtime.interrupt();
  EXPECT_THROW(step(2), local::Cancelled);
  expect_steps(2);
  if (job().size() > 1) {
    EXPECT_THAT([&] { job().rank() == 0 ? (x * 3.).to_host() : step(2); },
                ::testing::Throws<local::CommError>(
                    ::testing::Property(&std::exception::what, ::testing::HasSubstr("ranks diverged"))));
    expect_steps(2);
  }
}

}  // namespace
}  // namespace quarry
