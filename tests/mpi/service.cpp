// Remote reads and the failure protocol between real ranks, with the real executor.
#include "quarry/chunked/exec/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <fstream>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "quarry/chunked/exec/paths/paths.h"
#include "quarry/chunked/exec/service_messages.h"
#include "quarry/local/memory/policy.h"
#include "quarry/scheduler/executor.h"
#include "tests/support/mpi_job.h"
#include "tests/support/patience.h"

namespace quarry::exec {
namespace {

using local::DeviceKind;
using scheduler::BlockId;
using scheduler::Executor;
using scheduler::Graph;
using scheduler::QueueKind;
using scheduler::TaskDecl;
using scheduler::TaskKind;
using scheduler::TaskRun;
using test::job;

uint64_t next_epoch() {
  static uint64_t epoch = 0;
  return ++epoch;
}

class Body : public scheduler::TaskBody {
 public:
  explicit Body(std::function<void(TaskRun&)> run) : run_(std::move(run)) {}
  std::string name(int64_t index) const override { return "test " + std::to_string(index); }
  void run(TaskRun& run) override { run_(run); }

 private:
  std::function<void(TaskRun&)> run_;
};

// Element e of chunk c.
int32_t value(int64_t chunk, int64_t element) { return static_cast<int32_t>(chunk * 1000003 + element * 7); }

struct Settings {
  DeviceKind device = DeviceKind::cpu;
  int64_t memory_bytes = int64_t{64} << 20;
};

// Paths that are connected; closed before any of the memory that they reach is freed.
class Connected {
 public:
  Connected(Executor& executor, comm::PathUse copies, comm::PathUse messages = comm::PathUse::automatic)
      : paths_(std::make_unique<Paths>(job(), executor.device())) {
    paths_->connect({{"peer-copy", copies}, {"device-message", messages}});
  }
  ~Connected() {
    paths_.reset();
    job().barrier();
  }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;
  const Paths* get() const { return paths_.get(); }
  bool reaches(const char* path, int owner) const { return paths_->find(path).obstacle(owner).empty(); }

 private:
  std::unique_ptr<Paths> paths_;
};

std::unique_ptr<Executor> make_executor(const Settings& settings) {
  scheduler::ExecutorConfig config;
  config.device.kind = settings.device;
  // Ranks that share a GPU copy inside it.
  if (settings.device == DeviceKind::cuda) {
    config.device.index = job().node_rank() % local::backend(settings.device).device_count();
  }
  config.memory_bytes = settings.memory_bytes;
  config.host_bytes = settings.device == DeviceKind::cpu ? 0 : int64_t{64} << 20;
  config.spill_dir = "/tmp";
  return Executor::create(config);
}

// The job, but what this rank says about its failure is under way for long: every other message overtakes it.
class LateFailures : public comm::Communicator {
 public:
  int rank() const override { return job().rank(); }
  int size() const override { return job().size(); }
  int node_rank() const override { return job().node_rank(); }
  int node_size() const override { return job().node_size(); }
  int node_of(int rank) const override { return job().node_of(rank); }
  const char* transport() const override { return job().transport(); }
  std::unique_ptr<comm::Communicator> split(int color, int key) override { return job().split(color, key); }
  void barrier() override { job().barrier(); }
  void broadcast(void* data, int64_t bytes, int root) override { job().broadcast(data, bytes, root); }
  void all_gather(const void* mine, int64_t bytes_each, void* all) override { job().all_gather(mine, bytes_each, all); }
  void all_reduce(std::span<int64_t> values, comm::ReduceOp op) override { job().all_reduce(values, op); }
  void all_reduce(std::span<double> values, comm::ReduceOp op) override { job().all_reduce(values, op); }
  std::unique_ptr<comm::Request> send(const void* data, int64_t bytes, int to, uint64_t tag) override {
    return job().send(data, bytes, to, tag);
  }
  std::unique_ptr<comm::Request> receive(void* data, int64_t bytes, int from, uint64_t tag) override {
    return job().receive(data, bytes, from, tag);
  }
  void set_handler(Handler handler) override { job().set_handler(std::move(handler)); }
  void post(int to, std::span<const std::byte> message) override {
    if (decode(message).kind != MessageKind::failed) return job().post(to, message);
    const std::lock_guard lock(mutex_);
    late_.push_back({std::chrono::steady_clock::now() + std::chrono::milliseconds(300), to,
                     std::vector<std::byte>(message.begin(), message.end())});
  }
  bool progress() override {
    {
      const std::lock_guard lock(mutex_);
      while (!late_.empty() && late_.front().when <= std::chrono::steady_clock::now()) {
        job().post(late_.front().to, late_.front().bytes);
        late_.pop_front();
      }
    }
    return job().progress();
  }
  void wait_for_event(double seconds) override { job().wait_for_event(seconds); }
  void check_ranks(int64_t calls) override { job().check_ranks(calls); }
  void wake() override { job().wake(); }
  int64_t bytes_sent() const override { return job().bytes_sent(); }
  [[noreturn]] void abort(int status) override {
    job().abort(status);
    std::abort();  // not reached; the compiler does not see that
  }

 private:
  struct Late {
    std::chrono::steady_clock::time_point when;
    int to;
    std::vector<std::byte> bytes;
  };
  std::mutex mutex_;
  std::deque<Late> late_;
};

// Fills host memory through the task's stream where it is device memory.
void put(TaskRun& run, void* to, const void* from, int64_t bytes) {
  run.context.stream->copy(to, from, bytes);
  if (run.context.device.kind != DeviceKind::cpu) run.context.stream->synchronize();
}

// A run in which rank r makes the chunks c with c % ranks == r, and fetches hyperslabs of random chunks, each checked
// in a task of its own.
class RandomFetches {
 public:
  RandomFetches(const Settings& settings, int64_t chunks, int fetches_each, const local::Dims& shape, uint64_t seed)
      : settings_(settings), chunks_(chunks), shape_(shape) {
    // All ranks draw the same, so that owners know how often each chunk is read.
    std::mt19937_64 random(seed);
    for (int r = 0; r < job().size(); ++r) {
      for (int i = 0; i < fetches_each; ++i) {
        Fetch fetch{r, static_cast<int64_t>(random() % static_cast<uint64_t>(chunks)), {}};
        fetch.hyperslab.shape = shape;
        fetch.hyperslab.itemsize = sizeof(int32_t);
        for (const int64_t extent : shape) {
          const auto start = static_cast<int64_t>(random() % static_cast<uint64_t>(extent));
          fetch.hyperslab.start.push_back(start);
          fetch.hyperslab.count.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(extent - start + 1)));
        }
        if (i % 3 == 0) {  // whole chunks too
          fetch.hyperslab.start = local::Dims::filled(shape.size());
          fetch.hyperslab.count = shape;
        }
        fetches_.push_back(fetch);
      }
    }
  }

  std::atomic<bool> interrupt{false};  // of its runs
  bool is_short = false;               // the same
  // What a producing task does before it fills its chunk.
  std::function<void(int64_t chunk, TaskRun&)> before = [](int64_t, TaskRun&) {};

  void run(Executor& executor, comm::Communicator& communicator = job(), const Paths* paths = nullptr) {
    const auto service = Service::create(communicator, executor, next_epoch(), paths, &interrupt);
    Graph graph;
    const int64_t elements = local::element_count(shape_);
    const int32_t make = graph.add_body(std::make_unique<Body>([&, elements](TaskRun& run) {
      before(run.index, run);
      std::vector<int32_t> data(static_cast<size_t>(elements));
      for (int64_t e = 0; e < elements; ++e) data[static_cast<size_t>(e)] = value(run.index, e);
      put(run, run.outputs[0].data, data.data(), run.outputs[0].bytes);
    }));
    const int32_t receive = graph.add_body(std::make_unique<Body>([&](TaskRun& run) {
      const Fetch& fetch = fetches_[static_cast<size_t>(run.index)];
      fetch_output(*service, run, owner(fetch.chunk), {0, 0, fetch.chunk}, fetch.hyperslab);
    }));
    const int32_t check = graph.add_body(std::make_unique<Body>([&](TaskRun& run) {
      const Fetch& fetch = fetches_[static_cast<size_t>(run.index)];
      std::vector<int32_t> got(static_cast<size_t>(run.inputs[0].bytes) / sizeof(int32_t));
      put(run, got.data(), run.inputs[0].data, run.inputs[0].bytes);
      wrong_ += !matches(fetch, got);
      ++checked_;
    }));
    for (int64_t c = 0; c < chunks_; ++c) {
      if (owner(c) != job().rank()) continue;
      int32_t readers = 0;
      for (const Fetch& fetch : fetches_) readers += fetch.chunk == c;
      const BlockId block = graph.add_block(elements * static_cast<int64_t>(sizeof(int32_t)), readers);
      if (readers > 0) service->expose({0, 0, c}, block);
      TaskDecl task;
      task.body = make;
      task.index = c;
      task.position = 2 * c;
      task.outputs = std::span(&block, 1);
      graph.add_task(task);
    }
    for (size_t i = 0; i < fetches_.size(); ++i) {
      const Fetch& fetch = fetches_[i];
      if (fetch.rank != job().rank()) continue;
      const BlockId block =
          graph.add_block(local::element_count(fetch.hyperslab.count) * static_cast<int64_t>(sizeof(int32_t)));
      TaskDecl task;
      task.kind = TaskKind::receive;
      task.queue = QueueKind::comm;
      task.body = receive;
      task.index = static_cast<int64_t>(i);
      task.position = 2 * fetch.chunk + 1;
      task.outputs = std::span(&block, 1);
      graph.add_task(task);
      task = {};
      task.body = check;
      task.index = static_cast<int64_t>(i);
      task.position = 2 * fetch.chunk + 1;
      task.inputs = std::span(&block, 1);
      graph.add_task(task);
      ++own_fetches_;
    }
    service->run(graph, is_short);
    EXPECT_EQ(checked_, own_fetches_);
    EXPECT_EQ(wrong_, 0);
  }

 private:
  struct Fetch {
    int rank;
    int64_t chunk;
    Hyperslab hyperslab;
  };
  static int owner(int64_t chunk) { return static_cast<int>(chunk % job().size()); }

  bool matches(const Fetch& fetch, const std::vector<int32_t>& got) const {
    local::Dims at = local::Dims::filled(shape_.size());
    const local::Dims strides = local::contiguous_strides(shape_, 1);
    for (size_t i = 0; i < got.size(); ++i) {
      int64_t element = 0;
      for (int d = 0; d < shape_.size(); ++d) element += (fetch.hyperslab.start[d] + at[d]) * strides[d];
      if (got[i] != value(fetch.chunk, element)) return false;
      for (int d = shape_.size() - 1; d >= 0 && ++at[d] == fetch.hyperslab.count[d]; --d) at[d] = 0;
    }
    return static_cast<int64_t>(got.size()) == local::element_count(fetch.hyperslab.count);
  }

  Settings settings_;
  int64_t chunks_;
  local::Dims shape_;
  std::vector<Fetch> fetches_;
  std::atomic<int> wrong_{0}, checked_{0};
  int own_fetches_ = 0;
};

class OnDevice : public ::testing::TestWithParam<DeviceKind> {};

TEST_P(OnDevice, RandomBoxes) {
  const auto executor = make_executor({GetParam()});
  RandomFetches(Settings{GetParam()}, 20, 60, {40, 7, 30}, 1).run(*executor);
}

TEST_P(OnDevice, SeveralPiecesEach) {
  const auto executor = make_executor({GetParam()});
  RandomFetches(Settings{GetParam()}, 6, 6, {1100, 1000}, 2).run(*executor);
}

TEST_P(OnDevice, BudgetMuchSmallerThanTheChunks) {
  // 4.4 MiB chunks: the producers' blocks are spilled and fetched from there.
  const Settings settings{GetParam(), int64_t{12} << 20};
  const auto executor = make_executor(settings);
  RandomFetches(settings, 12, 12, {1100, 1000}, 3).run(*executor);
  EXPECT_LE(executor->memory_budget().peak_bytes(), settings.memory_bytes);
}

// They come in the answer.
TEST_P(OnDevice, SmallBoxes) {
  const auto executor = make_executor({GetParam()});
  RandomFetches(Settings{GetParam()}, 60, 200, {1000}, 5).run(*executor);
  RandomFetches(Settings{GetParam()}, 60, 200, {20, 40}, 6).run(*executor);
}

TEST_P(OnDevice, SmallBoxesOfBlocksThatWereSpilled) {
  const Settings settings{GetParam(), int64_t{1} << 20};
  const auto executor = make_executor(settings);
  const int each = 2000 / job().size();
  RandomFetches(settings, 400 * job().size(), each, {1000}, 7).run(*executor);
  EXPECT_LE(executor->memory_budget().peak_bytes(), settings.memory_bytes);
}

TEST_P(OnDevice, MoreRanksThanWork) {
  const auto executor = make_executor({GetParam()});
  RandomFetches(Settings{GetParam()}, 1, 1, {5}, 4).run(*executor);
  RandomFetches(Settings{GetParam()}, 1, 0, {5}, 4).run(*executor);
}

TEST_P(OnDevice, RepeatedRuns) {
  const auto executor = make_executor({GetParam()});
  for (uint64_t i = 0; i < 20; ++i) RandomFetches(Settings{GetParam()}, 5, 4, {10, 10}, 100 + i).run(*executor);
}

TEST_P(OnDevice, ARanksFailureReachesAllWithItsType) {
  const auto executor = make_executor({GetParam()});
  const int culprit = job().size() - 1;
  for (int round = 0; round < 3; ++round) {
    RandomFetches run(Settings{GetParam()}, 40, 30, {100, 100}, 7);
    run.before = [&](int64_t chunk, TaskRun& task) {
      if (job().rank() == culprit && chunk >= 20 && chunk < 20 + job().size()) {
        throw local::IoError(fmt::format("chunk {} cannot be read", chunk));
      }
      // Others compute for long, but ask whether they should.
      if (job().rank() != culprit && chunk > 30) {
        EXPECT_TRUE(test::waits_until([&] { return task.is_cancelled(); }));
      }
    };
    try {
      run.run(*executor);
      ADD_FAILURE() << "no error";
    } catch (const local::IoError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("cannot be read"));
      if (job().size() > 1) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(fmt::format("[rank {}]", culprit)));
      }
      const auto all = job().all_gather_strings(error.what());
      for (const std::string& text : all) EXPECT_EQ(text, all[0]);
    }
    // The executor and the communicator are as good as new.
    RandomFetches(Settings{GetParam()}, 10, 10, {100, 10}, 8).run(*executor);
  }
}

TEST_P(OnDevice, FailureBeforeTheRunBegins) {
  // A task larger than the budget on one rank only.
  const auto executor = make_executor({GetParam()});
  const auto service = Service::create(job(), *executor, next_epoch());
  Graph graph;
  if (job().rank() == 0) {
    const BlockId block = graph.add_block(int64_t{1} << 40);
    TaskDecl task;
    task.body = graph.add_body(std::make_unique<Body>([](TaskRun&) {}));
    task.outputs = std::span(&block, 1);
    graph.add_task(task);
  }
  try {
    service->run(graph);
    ADD_FAILURE() << "no error";
  } catch (const local::BudgetError& error) {
    EXPECT_GE(error.least_bytes(), int64_t{1} << 40);
  }
}

TEST_P(OnDevice, InterruptCancelsEveryRank) {
  const auto executor = make_executor({GetParam()});
  RandomFetches run(Settings{GetParam()}, 8, 8, {10}, 9);
  run.before = [&](int64_t, TaskRun& task) {
    if (job().rank() == 0) run.interrupt = true;
    EXPECT_TRUE(test::waits_until([&] { return task.is_cancelled(); }));
  };
  EXPECT_THROW(run.run(*executor), local::Cancelled);
  job().barrier();
  RandomFetches(Settings{GetParam()}, 8, 8, {10}, 9).run(*executor);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OnDevice, ::testing::Values(DeviceKind::cpu, DeviceKind::emulated),
                         [](const auto& kind) { return local::name(kind.param); });

// Blocks of devices that reach each other are copied from device to device.
class PeerCopies : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no GPU on this machine";
  }
};

TEST_P(PeerCopies, RandomHyperslabsOfEveryShape) {
  const Settings settings{GetParam()};
  const auto executor = make_executor(settings);
  const Connected paths(*executor, comm::PathUse::automatic);
  for (int r = 0; r < job().size(); ++r) {
    EXPECT_EQ(paths.reaches("peer-copy", r), r != job().rank() && job().node_of(r) == job().node_of(job().rank()));
  }
  const int64_t before = job().bytes_sent();
  RandomFetches(settings, 20, 60, {40, 7, 30}, 1).run(*executor, job(), paths.get());
  RandomFetches(settings, 6, 6, {1100, 1000}, 2).run(*executor, job(), paths.get());
  RandomFetches(settings, 4, 6, {300000}, 3).run(*executor, job(), paths.get());
  RandomFetches(settings, 1, 1, {5}, 4).run(*executor, job(), paths.get());
  if (job().node_size() == job().size()) {
    EXPECT_LT(job().bytes_sent() - before, 4096) << "blocks travelled as messages";
  }
}

TEST_P(PeerCopies, BlocksThatWereSpilledComeAsMessages) {
  const Settings settings{GetParam(), int64_t{12} << 20};
  const auto executor = make_executor(settings);
  const Connected paths(*executor, comm::PathUse::automatic);
  RandomFetches(settings, 12, 12, {1100, 1000}, 3).run(*executor, job(), paths.get());
  EXPECT_LE(executor->memory_budget().peak_bytes(), settings.memory_bytes);
}

TEST_P(PeerCopies, TurnedOff) {
  const Settings settings{GetParam()};
  const auto executor = make_executor(settings);
  const Connected paths(*executor, comm::PathUse::off);
  for (int r = 0; r < job().size(); ++r) EXPECT_FALSE(paths.reaches("peer-copy", r));
  RandomFetches(settings, 6, 6, {1000}, 2).run(*executor, job(), paths.get());
}

// Pieces of other processes' memory that this one has mapped, by inode: emulated devices map them read-only.
std::set<std::string> mapped_of_others() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> inodes;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, access, offset, device, inode, name;
    words >> range >> access >> offset >> device >> inode >> name;
    if (access == "r--s" && name.starts_with("/memfd:quarry")) inodes.insert(inode);
  }
  return inodes;
}

TEST_P(PeerCopies, OpenASegmentAtTheFirstCopyFromIt) {
  if (GetParam() != DeviceKind::emulated) GTEST_SKIP() << "nothing to look at";
  const Settings settings{GetParam()};
  const auto executor = make_executor(settings);
  {
    const Connected off(*executor, comm::PathUse::off);
    RandomFetches(settings, 12, 12, {1000}, 2).run(*executor, job(), off.get());
    EXPECT_EQ(mapped_of_others().size(), 0u);
  }
  const Connected paths(*executor, comm::PathUse::automatic);
  EXPECT_EQ(mapped_of_others().size(), 0u);
  RandomFetches(settings, 1, 3, {1000}, 2).run(*executor, job(), paths.get());  // of rank 0
  const size_t opened = job().rank() > 0 && job().node_of(job().rank()) == job().node_of(0) ? 1 : 0;
  EXPECT_EQ(mapped_of_others().size(), opened);
  RandomFetches(settings, 1, 3, {2000}, 3).run(*executor, job(), paths.get());
  EXPECT_EQ(mapped_of_others().size(), opened);  // kept
  EXPECT_LE(executor->device_bytes(), local::memory_policy::first_segment_bytes(settings.memory_bytes));
}

TEST_P(PeerCopies, RequiredOnesAreTriedAtTheStart) {
  const auto executor = make_executor({GetParam()});
  const Connected paths(*executor, comm::PathUse::required);
  for (int r = 0; r < job().size(); ++r) {
    EXPECT_EQ(paths.reaches("peer-copy", r), r != job().rank() && job().node_of(r) == job().node_of(job().rank()));
  }
  EXPECT_EQ(mapped_of_others().size(), 0u);
  EXPECT_EQ(executor->device_bytes(), 0);
}

// Segments that others have open go back to the device when memory is needed in longer pieces.
TEST_P(PeerCopies, SegmentsAreRecalledForLongerBlocks) {
  const Settings settings{GetParam(), int64_t{16} << 20};
  const auto executor = make_executor(settings);
  const Connected paths(*executor, comm::PathUse::automatic);
  const int ranks = job().size();
  int64_t closed[] = {0};
  for (uint64_t round = 0; round < 3; ++round) {
    // Fills the budget with blocks of 0.4 MB, of which others read.
    RandomFetches(settings, 60 * ranks, 60, {100000}, 20 + round).run(*executor, job(), paths.get());
    const std::set<std::string> small = mapped_of_others();
    // A block and its copy take more than half of it, and at last nearly all.
    const auto elements = static_cast<int64_t>(1300000 + 300000 * round);
    RandomFetches(settings, 2 * ranks, 4, {elements}, 30 + round).run(*executor, job(), paths.get());
    EXPECT_LE(executor->device_bytes(), settings.memory_bytes);
    const std::set<std::string> now = mapped_of_others();
    for (const std::string& inode : small) closed[0] += now.contains(inode) ? 0 : 1;
  }
  job().all_reduce(closed, comm::ReduceOp::sum);
  if (GetParam() == DeviceKind::emulated && ranks > 1 && job().node_size() == ranks) {
    EXPECT_GT(closed[0], 0);
  }
  EXPECT_LE(executor->memory_budget().peak_bytes(), settings.memory_bytes);
}

// While it lives this process opens no files.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    const int free = open("/dev/null", O_RDONLY);
    close(free);
    limit.rlim_cur = static_cast<rlim_t>(free);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

TEST_P(PeerCopies, WhatCannotBeOpenedTakesAnotherPath) {
  if (GetParam() != DeviceKind::emulated) GTEST_SKIP() << "opening CUDA's memory takes no file";
  const Settings settings{GetParam()};
  const auto executor = make_executor(settings);
  const bool alone = job().node_size() == 1;
  const int ranks = job().size(), blocks = 8 * ranks, tasks = 30 * ranks;  // every rank reads of every other one
  {
    const Connected off(*executor, comm::PathUse::off);  // every rank has memory and connections
    RandomFetches(settings, blocks, tasks, {1000}, 2).run(*executor, job(), off.get());
  }
  const Connected paths(*executor, comm::PathUse::automatic);
  {
    const NoMoreFiles none;
    RandomFetches(settings, blocks, tasks, {40, 7, 30}, 3).run(*executor, job(), paths.get());
  }
  EXPECT_EQ(mapped_of_others().size(), 0u);
  for (int r = 0; r < ranks; ++r) EXPECT_FALSE(!alone && paths.reaches("peer-copy", r)) << r;
  // And later.
  RandomFetches(settings, 20, 40, {40, 7, 30}, 4).run(*executor, job(), paths.get());
  EXPECT_EQ(mapped_of_others().size(), 0u);
}

TEST_P(PeerCopies, WhatCannotBeSharedTakesAnotherPath) {
  if (GetParam() != DeviceKind::emulated) GTEST_SKIP() << "CUDA's memory is always shared";
  const Settings settings{GetParam()};
  std::unique_ptr<Executor> executor;
  {
    // Memory without a file.
    const NoMoreFiles none;
    executor = make_executor(settings);
    Graph graph;
    const BlockId block = graph.add_block(1000);
    TaskDecl task;
    task.body = graph.add_body(std::make_unique<Body>([](TaskRun&) {}));
    task.outputs = std::span(&block, 1);
    graph.add_task(task);
    executor->run(graph);
  }
  const Connected paths(*executor, comm::PathUse::automatic);
  RandomFetches(settings, 20, 40, {40, 7, 30}, 3).run(*executor, job(), paths.get());
  EXPECT_EQ(mapped_of_others().size(), 0u);
}

TEST_P(PeerCopies, AFailureEndsThemEverywhere) {
  const Settings settings{GetParam()};
  const auto executor = make_executor(settings);
  const Connected paths(*executor, comm::PathUse::automatic);
  const int culprit = job().size() - 1;
  for (int round = 0; round < 5; ++round) {
    RandomFetches run(settings, 40, 30, {100, 100}, 7);
    run.before = [&](int64_t chunk, TaskRun&) {
      if (job().rank() == culprit && chunk >= 20) throw local::IoError("cannot be read");
    };
    EXPECT_THROW(run.run(*executor, job(), paths.get()), local::IoError);
    RandomFetches(settings, 10, 10, {100, 10}, 8).run(*executor, job(), paths.get());
  }
}

// Blocks of devices that do not reach each other, by a transport that moves their memory.
class DeviceMessages : public PeerCopies {
 protected:
  void SetUp() override {
    PeerCopies::SetUp();
    if (IsSkipped()) return;
    if (!job().moves_memory_of(GetParam())) GTEST_SKIP() << job().transport() << " has no CUDA memory here";
  }
};

TEST_P(DeviceMessages, HyperslabsOfEveryShape) {
  const Settings settings{GetParam()};
  const auto executor = make_executor(settings);
  const Connected paths(*executor, comm::PathUse::off, comm::PathUse::required);
  for (int r = 0; r < job().size(); ++r) EXPECT_EQ(paths.reaches("device-message", r), r != job().rank());
  RandomFetches(settings, 20, 60, {40, 7, 30}, 1).run(*executor, job(), paths.get());
  RandomFetches(settings, 6, 6, {1100, 1000}, 2).run(*executor, job(), paths.get());
  RandomFetches(settings, 12, 30, {300000}, 3).run(*executor, job(), paths.get());
}

TEST_P(DeviceMessages, BlocksThatWereSpilledComeThroughTheHost) {
  const Settings settings{GetParam(), int64_t{12} << 20};
  const auto executor = make_executor(settings);
  const Connected paths(*executor, comm::PathUse::off, comm::PathUse::required);
  RandomFetches(settings, 12, 24, {1100000}, 3).run(*executor, job(), paths.get());
  EXPECT_LE(executor->memory_budget().peak_bytes(), settings.memory_bytes);
}

TEST_P(DeviceMessages, AFailureEndsThemEverywhere) {
  const Settings settings{GetParam()};
  const auto executor = make_executor(settings);
  const Connected paths(*executor, comm::PathUse::off, comm::PathUse::required);
  const int culprit = job().size() - 1;
  for (int round = 0; round < 5; ++round) {
    RandomFetches run(settings, 40, 30, {100000}, 7);
    run.before = [&](int64_t chunk, TaskRun&) {
      if (job().rank() == culprit && chunk >= 20) throw local::IoError("cannot be read");
    };
    EXPECT_THROW(run.run(*executor, job(), paths.get()), local::IoError);
    RandomFetches(settings, 10, 10, {100000}, 8).run(*executor, job(), paths.get());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceMessages, ::testing::Values(DeviceKind::emulated, DeviceKind::cuda),
                         [](const auto& kind) { return local::name(kind.param); });

INSTANTIATE_TEST_SUITE_P(Kinds, PeerCopies, ::testing::Values(DeviceKind::emulated, DeviceKind::cuda),
                         [](const auto& kind) { return local::name(kind.param); });

// What each rank's watchdog says while rank 0 computes for some seconds.
std::string said_while_rank_0_computes(double seconds) {
  setenv("QUARRY_WATCHDOG", "0.2", 1);
  const auto executor = make_executor({});
  RandomFetches run({}, job().size(), 8, {10}, 9);
  run.before = [&](int64_t, TaskRun&) {
    if (job().rank() == 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  };
  testing::internal::CaptureStderr();
  run.run(*executor);
  unsetenv("QUARRY_WATCHDOG");
  return testing::internal::GetCapturedStderr();
}

TEST(Service, TheWatchdogSaysWhatEachRankWaitsFor) {
  using ::testing::AllOf, ::testing::AnyOf, ::testing::HasSubstr;
  // A rank that happens to fetch nothing from rank 0 is done.
  const ::testing::Matcher<std::string> waits =
      AnyOf(HasSubstr("from rank 0"), HasSubstr("its own tasks are done; other ranks are not"));
  const ::testing::Matcher<std::string> runs = HasSubstr("running: test 0");
  const ::testing::Matcher<std::string> expected =
      AllOf(HasSubstr("no progress for "), job().rank() == 0 ? runs : waits);
  // On a busy machine a rank may notice late: once more, with more time.
  std::string said;
  for (double seconds = 0.6; seconds < 20; seconds *= 3) {
    said = said_while_rank_0_computes(seconds);
    int64_t as_expected = ::testing::Matches(expected)(said) ? 1 : 0;
    job().all_reduce(std::span(&as_expected, 1), comm::ReduceOp::min);
    if (as_expected != 0) return;
  }
  EXPECT_THAT(said, expected);
  ADD_FAILURE() << "not on every rank";
}

// Each step is another rank's and adds one to what the step before made.
void run_chain(bool is_short) {
  constexpr int64_t kSteps = 500;
  const auto executor = make_executor({});
  const auto service = Service::create(job(), *executor, next_epoch());
  const auto owner = [](int64_t step) { return static_cast<int>(step % job().size()); };
  Graph graph;
  int64_t last = -1;
  const int32_t receive = graph.add_body(std::make_unique<Body>([&](TaskRun& run) {
    fetch_output(*service, run, owner(run.index), {0, 0, run.index}, {{1}, {0}, {1}, 8});
  }));
  const int32_t add = graph.add_body(std::make_unique<Body>([&](TaskRun& run) {
    int64_t number = 0;
    if (run.index > 0) std::memcpy(&number, run.inputs[0].data, sizeof number);
    ++number;
    std::memcpy(run.outputs[0].data, &number, sizeof number);
    if (run.index == kSteps - 1) last = number;
  }));
  for (int64_t step = 0; step < kSteps; ++step) {
    if (owner(step) != job().rank()) continue;
    BlockId before = -1;
    TaskDecl task;
    task.position = step;
    task.index = step - 1;
    if (step > 0) {
      before = graph.add_block(8);
      task.kind = TaskKind::receive;
      task.queue = QueueKind::comm;
      task.body = receive;
      task.outputs = std::span(&before, 1);
      graph.add_task(task);
    }
    const BlockId made = graph.add_block(8, step + 1 < kSteps ? 1 : 0);
    service->expose({0, 0, step}, made);
    task = {};
    task.position = task.index = step;
    task.body = add;
    if (step > 0) task.inputs = std::span(&before, 1);
    task.outputs = std::span(&made, 1);
    graph.add_task(task);
  }
  service->run(graph, is_short);
  EXPECT_EQ(last, owner(kSteps - 1) == job().rank() ? kSteps : -1);
}

TEST(Service, AChainOfShortTasksAcrossRanks) {
  for (const bool is_short : {false, true, true}) run_chain(is_short);
}

TEST(Service, ShortRunsOfRandomBoxes) {
  const auto executor = make_executor({});
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RandomFetches run({}, 2 * job().size(), 4, {4, 5}, seed);
    run.is_short = true;
    run.run(*executor);
  }
}

// One rank comes a while later than the others think that a short run takes.
TEST(Service, AShortRunThatTakesLong) {
  const auto executor = make_executor({});
  for (const int late : {0, job().size() - 1}) {
    RandomFetches run({}, 8, 8, {10}, 9);
    run.is_short = true;
    run.before = [&](int64_t, TaskRun&) {
      if (job().rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    };
    run.run(*executor);
  }
}

TEST(Service, LastWordsReachEveryRank) {
  const auto executor = make_executor({});
  for (const bool is_short : {false, true}) {
    const auto service = Service::create(job(), *executor, next_epoch());
    Graph graph;
    LastWords words;
    words.bytes = sizeof(int32_t);
    words.write = [](std::byte* mine) {
      const int32_t word = 100 + job().rank();
      std::memcpy(mine, &word, sizeof word);
    };
    service->run(graph, is_short, &words);
    ASSERT_EQ(words.all.size(), sizeof(int32_t) * static_cast<size_t>(job().size()));
    for (int r = 0; r < job().size(); ++r) {
      int32_t word = 0;
      std::memcpy(&word, &words.all[static_cast<size_t>(r) * sizeof word], sizeof word);
      EXPECT_EQ(word, 100 + r);
    }
  }
}

TEST(Service, WhoCannotSayItsLastWordsFailsEveryRank) {
  const auto executor = make_executor({});
  const auto service = Service::create(job(), *executor, next_epoch());
  Graph graph;
  LastWords words;
  words.bytes = 8;
  words.write = [](std::byte* mine) {
    std::memset(mine, 0, 8);
    if (job().rank() == job().size() - 1) throw local::IoError("no word");
  };
  EXPECT_THROW(service->run(graph, /*is_short=*/true, &words), local::IoError);
  EXPECT_TRUE(words.all.empty());
}

// Threads look for what is about to come, but not for long.
TEST(Service, RanksThatWaitLeaveTheCoresAlone) {
  const auto executor = make_executor({});
  RandomFetches run({}, 40 * job().size(), 40, {10}, 9);
  run.before = [](int64_t chunk, TaskRun&) {
    if (chunk == 20 * job().size()) std::this_thread::sleep_for(std::chrono::seconds(2));
  };
  const auto cpu_seconds = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  job().barrier();
  const double begin = cpu_seconds();
  run.run(*executor);
  EXPECT_LT(cpu_seconds() - begin, 0.5);
}

TEST(Service, AnInterruptBetweenRunsCancelsTheNext) {
  const auto executor = make_executor({});
  RandomFetches run({}, 8, 8, {10}, 9);
  if (job().rank() == job().size() - 1) run.interrupt = true;
  run.before = [&](int64_t, TaskRun& task) { EXPECT_TRUE(test::waits_until([&] { return task.is_cancelled(); })); };
  EXPECT_THROW(run.run(*executor), local::Cancelled);
}

// Rank `owner` exposes nothing; all others fetch from it (or it from itself, where it is alone).
void fetch_what_is_not_exposed(comm::Communicator& communicator, int owner) {
  const auto executor = make_executor({});
  const auto service = Service::create(communicator, *executor, next_epoch());
  Graph graph;
  if (job().rank() != owner || job().size() == 1) {
    const BlockId block = graph.add_block(40);
    TaskDecl task;
    task.queue = QueueKind::comm;
    task.body = graph.add_body(std::make_unique<Body>([&](TaskRun& run) {
      auto completion = run.defer();
      service->fetch(owner, {9, 9, 9}, {{10}, {0}, {10}, 4}, run.outputs[0].data,
                     [completion](const std::exception_ptr& error) {
                       EXPECT_NE(error, nullptr);
                       completion->fail(error);
                     });
    }));
    task.outputs = std::span(&block, 1);
    graph.add_task(task);
  }
  EXPECT_THROW(service->run(graph), local::InternalError) << "owner " << owner;
}

TEST(Service, FetchOfWhatIsNotExposedFailsEverywhere) {
  for (int owner = 0; owner < job().size(); ++owner) fetch_what_is_not_exposed(job(), owner);
}

TEST(Service, TheCauseIsReportedWhenItsConsequencesAreHeardOfFirst) {
  LateFailures communicator;
  for (int owner = 0; owner < job().size(); ++owner) fetch_what_is_not_exposed(communicator, owner);
  const auto executor = make_executor({});
  for (int culprit = 0; culprit < job().size(); ++culprit) {
    RandomFetches run({}, 40, 30, {100, 100}, 7);
    run.before = [&](int64_t chunk, TaskRun&) {
      if (job().rank() == culprit && chunk >= 20) throw local::IoError("cannot be read");
    };
    EXPECT_THROW(run.run(*executor, communicator), local::IoError) << "culprit " << culprit;
  }
}

}  // namespace
}  // namespace quarry::exec
