// What moving data between ranks costs. Runs under mpirun; rank 0 prints one JSON object a line, scripts/bench/comm the
// table.
//   bench_comm [--device cpu|cuda|emulated] [--chunk MIB] [--total MIB] [latency|bandwidth|first|fetches|rechunk|
//   collectives ...]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/exec/paths/paths.h"
#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/comm/device_collectives.h"
#include "quarry/comm/world/world.h"
#include "quarry/scheduler/executor.h"
#include "tests/bench/plain_nccl.h"

namespace quarry::bench {
namespace {

using Clock = std::chrono::steady_clock;
using scheduler::BlockId;
using scheduler::TaskDecl;
using scheduler::TaskRun;

struct Options {
  local::DeviceKind device = local::DeviceKind::cpu;
  int64_t chunk_bytes = int64_t{64} << 20;
  int64_t total_bytes = int64_t{1} << 30;  // per rank
  std::vector<std::string> rows;
  bool wants(const std::string& row) const { return rows.empty() || std::ranges::count(rows, row) > 0; }
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(comm::Communicator& job, const Options& options) : job_(job), options_(options) {
    device_.kind = options.device;
    if (on_gpu()) device_.index = job.node_rank() % local::backend(device_.kind).device_count();
  }

  void run() {
    if (options_.wants("latency")) latency();
    if (options_.wants("bandwidth")) bandwidth();
    if (options_.wants("rechunk")) rechunk();
    if (options_.device == local::DeviceKind::cpu) {
      if (options_.wants("fetches")) fetches(comm::PathUse::off);
      return;
    }
    if (options_.wants("first")) first_copy();
    if (options_.wants("fetches")) {
      fetches(comm::PathUse::automatic);
      fetches(comm::PathUse::off);
    }
    if (on_gpu() && options_.wants("collectives")) collectives();
  }

 private:
  bool on_gpu() const { return options_.device == local::DeviceKind::cuda; }

  void report(nlohmann::json row) {
    if (job_.rank() != 0) return;
    row["transport"] = job_.transport();
    row["ranks"] = job_.size();
    fmt::print("{}\n", row.dump());
    std::fflush(stdout);
  }

  // Half of a round trip between ranks 0 and 1, the median of rounds.
  void latency() {
    for (const int64_t bytes : {int64_t{8}, int64_t{1024}, int64_t{4096}, int64_t{65536}}) {
      std::vector<double> seconds;
      std::vector<std::byte> data(static_cast<size_t>(bytes));
      constexpr int kRounds = 2000, kGroups = 9;
      for (int group = 0; group < kGroups; ++group) {
        job_.barrier();
        const auto begin = Clock::now();
        for (int i = 0; i < kRounds && job_.rank() < 2; ++i) {
          const int other = 1 - job_.rank();
          if (job_.rank() == 0) job_.send(data.data(), bytes, other, 1)->wait();
          job_.receive(data.data(), bytes, other, 1)->wait();
          if (job_.rank() == 1) job_.send(data.data(), bytes, other, 1)->wait();
        }
        seconds.push_back(seconds_since(begin) / (2 * kRounds));
      }
      report({{"row", "latency"}, {"bytes", bytes}, {"us", median(seconds) * 1e6}});
    }
  }

  // One way, several in flight, as ucx_perftest.
  void bandwidth() {
    for (const int64_t bytes : {int64_t{1} << 20, int64_t{16} << 20, int64_t{128} << 20}) {
      constexpr size_t kWindow = 4;
      const int64_t messages = std::max<int64_t>(16, (int64_t{2} << 30) / bytes);
      std::vector<std::byte> data(static_cast<size_t>(bytes));  // one buffer for all, as ucx_perftest has
      std::vector<double> rates;
      for (int group = 0; group < 5; ++group) {
        job_.barrier();
        const auto begin = Clock::now();
        if (job_.rank() < 2) {
          std::vector<std::unique_ptr<comm::Request>> open(kWindow);
          for (int64_t i = 0; i < messages; ++i) {
            auto& slot = open[static_cast<size_t>(i) % kWindow];
            if (slot) slot->wait();
            slot = job_.rank() == 0 ? job_.send(data.data(), bytes, 1, 2) : job_.receive(data.data(), bytes, 0, 2);
          }
          for (const auto& request : open) request->wait();
          // The sender's clock stops when the last message has arrived.
          char done = 0;
          if (job_.rank() == 0) job_.receive(&done, 1, 1, 3)->wait();
          if (job_.rank() == 1) job_.send(&done, 1, 0, 3)->wait();
        }
        rates.push_back(static_cast<double>(bytes * messages) / seconds_since(begin) / 1e9);
      }
      report({{"row", "bandwidth"}, {"bytes", bytes}, {"GB/s", median(rates)}});
    }
  }

  class Body : public scheduler::TaskBody {
   public:
    explicit Body(std::function<void(TaskRun&)> run) : run_(std::move(run)) {}
    std::string name(int64_t) const override { return "bench"; }
    void run(TaskRun& run) override { run_(run); }

   private:
    std::function<void(TaskRun&)> run_;
  };

  // The executor of a row, with the paths to the other ranks.
  struct Setup {
    std::unique_ptr<scheduler::Executor> executor;
    std::unique_ptr<exec::Paths> paths;
  };

  Setup make_setup(int64_t bytes, comm::PathUse copies) {
    scheduler::ExecutorConfig config;
    config.device = device_;
    config.memory_bytes = bytes;
    config.host_bytes = options_.device == local::DeviceKind::cpu ? 0 : int64_t{1} << 30;
    config.spill_dir = "/tmp";
    Setup setup;
    setup.executor = scheduler::Executor::create(config);
    setup.paths = std::make_unique<exec::Paths>(job_, device_);
    if (options_.device != local::DeviceKind::cpu) {
      setup.paths->connect({{"peer-copy", copies}});
    }
    return setup;
  }

  // What a fetch of so many bytes from the next rank goes by.
  std::string path_of(const Setup& setup, int64_t bytes, int64_t run_bytes) const {
    const int owner = (job_.rank() + 1) % job_.size();
    if (owner == job_.rank()) return "none";
    const exec::Path& path = setup.paths->choose(owner, bytes, run_bytes);
    return fmt::format("{} ({})", path.name(), path.link(owner));
  }

  void leave(Setup& setup) {
    setup.paths.reset();
    job_.barrier();
  }

  struct Fetch {
    int owner;
    int64_t chunk;
    exec::Hyperslab hyperslab;
  };

  // One run in which every rank makes `chunks` blocks of `shape` and fetches hyperslabs; the seconds from when all
  // blocks are there until all hyperslabs are.
  double run_fetches(Setup& setup, int64_t chunks, const local::Dims& shape, int64_t itemsize,
                     const std::vector<int32_t>& readers, const std::vector<Fetch>& own) {
    const auto service = exec::Service::create(job_, *setup.executor, ++epoch_, setup.paths.get());
    scheduler::Graph graph;
    std::atomic<int64_t> begin_ns{0}, end_ns{0};
    const auto now = [] { return Clock::now().time_since_epoch().count(); };
    const int32_t make = graph.add_body(std::make_unique<Body>([](TaskRun&) {}));
    // Fetches begin together: the blocks' producers cost nothing, so the first fetch marks the begin.
    const int32_t receive = graph.add_body(std::make_unique<Body>([&](TaskRun& run) {
      int64_t none = 0;
      begin_ns.compare_exchange_strong(none, now());
      const Fetch& fetch = own[static_cast<size_t>(run.index)];
      auto completion = run.defer();
      service->fetch(fetch.owner, {0, 0, fetch.chunk}, fetch.hyperslab, run.outputs[0].data,
                     [completion, &end_ns, now](const std::exception_ptr& error) {
                       end_ns = now();
                       if (error) {
                         completion->fail(error);
                       } else {
                         completion->finish();
                       }
                     });
    }));
    for (int64_t c = 0; c < chunks; ++c) {
      const BlockId block =
          graph.add_block(local::element_count(shape) * itemsize, readers[static_cast<size_t>(c)], /*keep=*/false);
      service->expose({0, 0, c}, block);
      TaskDecl task;
      task.body = make;
      task.index = c;
      task.position = c;
      task.outputs = std::span(&block, 1);
      graph.add_task(task);
    }
    for (size_t i = 0; i < own.size(); ++i) {
      const BlockId block = graph.add_block(local::element_count(own[i].hyperslab.count) * itemsize);
      TaskDecl task;
      task.kind = scheduler::TaskKind::receive;
      task.queue = scheduler::QueueKind::comm;
      task.body = receive;
      task.index = static_cast<int64_t>(i);
      task.position = chunks + static_cast<int64_t>(i);
      task.outputs = std::span(&block, 1);
      graph.add_task(task);
    }
    job_.barrier();
    service->run(graph);
    std::vector<double> seconds{static_cast<double>(end_ns - begin_ns) * 1e-9};
    job_.all_reduce(std::span(seconds), comm::ReduceOp::max);
    return seconds[0];
  }

  // One chunk from the neighbour, when nothing of its memory is open yet and afterwards.
  void first_copy() {
    Setup setup = make_setup(std::max(options_.total_bytes, 8 * options_.chunk_bytes), comm::PathUse::automatic);
    const local::Dims shape{options_.chunk_bytes / 8};
    const std::vector<Fetch> own{{(job_.rank() + 1) % job_.size(), 0, {shape, {0}, shape, 8}}};
    const double first = run_fetches(setup, /*chunks=*/1, shape, 8, {1}, own);
    std::vector<double> later;
    for (int i = 0; i < 9; ++i) later.push_back(run_fetches(setup, /*chunks=*/1, shape, 8, {1}, own));
    report({{"row", "first copy"},
            {"path", path_of(setup, options_.chunk_bytes, options_.chunk_bytes)},
            {"bytes", options_.chunk_bytes},
            {"us", first * 1e6},
            {"later us", median(later) * 1e6}});
    leave(setup);
  }

  // Whole chunks: rank 1 from rank 0, then each from its neighbour at once.
  void fetches(comm::PathUse copies) {
    // Messages through the host are much slower: fewer of them.
    constexpr int64_t kMessageBytes = int64_t{2} << 30;
    const int64_t bytes =
        copies == comm::PathUse::off ? std::min(options_.total_bytes, kMessageBytes) : options_.total_bytes;
    const int64_t chunks = std::max<int64_t>(1, bytes / options_.chunk_bytes);
    const local::Dims shape{options_.chunk_bytes / 8};
    // Room for what is owned and what is fetched, and for spilling none of it.
    Setup setup = make_setup(3 * chunks * options_.chunk_bytes, copies);
    for (const bool both : {false, true}) {
      const bool fetching = both || job_.rank() == 1;
      const bool fetched = both || job_.rank() == 0;
      std::vector<Fetch> own;
      for (int64_t c = 0; fetching && c < chunks; ++c) {
        own.push_back({both ? (job_.rank() + 1) % job_.size() : 0, c, {shape, {0}, shape, 8}});
      }
      const std::vector<int32_t> readers(static_cast<size_t>(chunks), fetched ? 1 : 0);
      std::vector<double> seconds;
      for (int i = 0; i < 5; ++i) seconds.push_back(run_fetches(setup, chunks, shape, 8, readers, own));
      report({{"row", "fetches"},
              {"direction", both ? "all from their neighbours" : "1 from 0"},
              {"path", path_of(setup, options_.chunk_bytes, options_.chunk_bytes)},
              {"bytes", options_.chunk_bytes},
              {"GB/s", static_cast<double>(chunks * options_.chunk_bytes) / median(seconds) / 1e9}});
    }
    leave(setup);
  }

  // A square float64 matrix that ranks hold in chunks of rows becomes one in chunks of columns, by Array::rechunk of a
  // persisted array: planned, run and kept as in any program.
  void rechunk() {
    const int64_t ranks = job_.size();
    constexpr int64_t kItem = 8;
    const int64_t total = options_.total_bytes * ranks;
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(total) / kItem));
    const int64_t thickness = std::max<int64_t>(1, options_.chunk_bytes / kItem / side);
    RuntimeOptions settings;
    settings.device = options_.device;
    settings.memory = fmt::format("{}B", 4 * options_.total_bytes + 8 * options_.chunk_bytes);
    settings.host_memory = "1GiB";
    settings.threads = 1;
    settings.chunks = Dims{thickness, -1};
    Runtime runtime(settings);
    const Array x = random::uniform({side, side}).persist();
    std::vector<double> seconds;
    const int64_t sent = runtime.statistics().communicated_bytes;
    constexpr int kRounds = 6;
    for (int i = 0; i < kRounds; ++i) {
      job_.barrier();
      const auto begin = Clock::now();
      const Array y = x.rechunk({-1, thickness}).persist();
      std::vector<double> slowest{seconds_since(begin)};
      job_.all_reduce(std::span(slowest), comm::ReduceOp::max);
      if (i > 0) seconds.push_back(slowest[0]);
    }
    const auto moved = static_cast<double>(runtime.statistics().communicated_bytes - sent) / kRounds;
    // What a rank must have from the others.
    const double bytes = static_cast<double>(side * side * kItem) / static_cast<double>(ranks) *
                         static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    nlohmann::json row = {
        {"row", "rechunk"},           {"bytes", side * side * kItem},      {"GB/s", bytes / median(seconds) / 1e9},
        {"seconds", median(seconds)}, {"chunk", thickness * side * kItem}, {"sent of the least", moved / bytes}};
    const auto each = static_cast<int64_t>(bytes) / std::max<int64_t>(1, ranks - 1);
    if (const double plain = plain_all_to_all(each); plain > 0) {
      row["plain NCCL GB/s"] = bytes / plain / 1e9;
    } else if (options_.device == local::DeviceKind::cpu) {
      row["plain all-to-all GB/s"] = bytes / host_all_to_all(each) / 1e9;
    }
    report(row);
  }

  // Median seconds of an all-to-all of contiguous host memory, over the same transport.
  double host_all_to_all(int64_t bytes_each) {
    const auto ranks = static_cast<size_t>(job_.size());
    std::vector<std::byte> from(static_cast<size_t>(bytes_each) * ranks, std::byte{1}), to(from.size());
    const std::vector<int64_t> counts(ranks, bytes_each);
    std::vector<double> seconds;
    for (int i = 0; i < 5; ++i) {
      job_.barrier();
      const auto begin = Clock::now();
      job_.all_to_all(from.data(), counts, to.data(), counts);
      std::vector<double> slowest{seconds_since(begin)};
      job_.all_reduce(std::span(slowest), comm::ReduceOp::max);
      seconds.push_back(slowest[0]);
    }
    return median(seconds);
  }

  std::unique_ptr<PlainNccl> plain() {
    if (!on_gpu()) return nullptr;
    if (!comm::device_collectives_obstacle(job_, device_).empty()) return nullptr;
    return make_plain_nccl(job_.rank(), job_.size(), device_.index,
                           [this](void* data, int64_t bytes) { job_.broadcast(data, bytes, /*root=*/0); });
  }

  // Device memory for one row.
  class Memory {
   public:
    Memory(local::Device device, int64_t bytes)
        : device_(device), bytes_(bytes), data_(local::backend(device.kind).allocate_slab(device.index, bytes)) {}
    ~Memory() { local::backend(device_.kind).free_slab(device_.index, data_, bytes_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    void* data() const { return data_; }

   private:
    local::Device device_;
    int64_t bytes_;
    void* data_;
  };

  // Median seconds of five calls, after two; the slowest rank's.
  double timed(local::DeviceStream& stream, const std::function<void()>& call) {
    std::vector<double> seconds;
    for (int i = 0; i < 7; ++i) {
      stream.synchronize();
      job_.barrier();
      const auto begin = Clock::now();
      call();
      stream.synchronize();
      if (i >= 2) seconds.push_back(seconds_since(begin));
    }
    std::vector<double> slowest{median(seconds)};
    job_.all_reduce(std::span(slowest), comm::ReduceOp::max);
    return slowest[0];
  }

  double plain_all_to_all(int64_t bytes_each) {
    const auto nccl = plain();
    if (!nccl || bytes_each == 0) return 0;
    const auto stream = local::backend(device_.kind).create_stream(device_.index, local::StreamRole::compute);
    const Memory from(device_, bytes_each * job_.size()), to(device_, bytes_each * job_.size());
    return timed(*stream, [&] { nccl->all_to_all(from.data(), to.data(), bytes_each, stream->native()); });
  }

  void collectives() {
    const auto nccl = plain();
    const auto ours = comm::make_device_collectives(job_, device_);
    if (!ours) {
      report({{"row", "collectives"}, {"skipped", "NCCL cannot serve these ranks"}});
      return;
    }
    const auto stream = local::backend(device_.kind).create_stream(device_.index, local::StreamRole::compute);
    for (const int64_t bytes : {int64_t{1} << 20, int64_t{64} << 20, int64_t{1} << 30}) {
      const Memory data(device_, bytes), other(device_, bytes);
      const double mine = timed(*stream, [&] {
        ours->all_reduce(data.data(), bytes / 4, local::DType::float32, comm::ReduceOp::sum, *stream);
      });
      nlohmann::json row = {{"row", "all-reduce"}, {"bytes", bytes}, {"us", mine * 1e6}};
      if (nccl) {
        row["plain NCCL us"] =
            timed(*stream, [&] { nccl->all_reduce_float32(data.data(), bytes / 4, stream->native()); }) * 1e6;
      }
      report(row);
      const std::vector<int64_t> pieces(static_cast<size_t>(job_.size()), bytes / job_.size());
      const double all = timed(*stream, [&] { ours->all_to_all(data.data(), pieces, other.data(), pieces, *stream); });
      row = {{"row", "all-to-all"}, {"bytes", bytes}, {"us", all * 1e6}};
      if (nccl) {
        row["plain NCCL us"] =
            timed(*stream, [&] { nccl->all_to_all(data.data(), other.data(), pieces[0], stream->native()); }) * 1e6;
      }
      report(row);
    }
  }

  comm::Communicator& job_;
  const Options& options_;
  local::Device device_;
  uint64_t epoch_ = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--device" && has_value) {
      const auto kind = local::parse_device_kind(argv[++i]);
      if (!kind) throw local::InvalidArgument("--device: cpu, cuda or emulated");
      options.device = *kind;
    } else if (argument == "--chunk" && has_value) {
      options.chunk_bytes = std::max<int64_t>(1, std::atoll(argv[++i])) << 20;
    } else if (argument == "--total" && has_value) {
      options.total_bytes = std::max<int64_t>(1, std::atoll(argv[++i])) << 20;
    } else {
      options.rows.push_back(argument);
    }
  }
  return options;
}

}  // namespace
}  // namespace quarry::bench

int main(int argc, char** argv) {
  using namespace quarry;
  try {
    const auto job = comm::world(&argc, &argv);
    const bench::Options options = bench::parse(argc, argv);
    if (job->size() < 2) throw local::InvalidArgument("bench_comm needs two ranks: mpirun -n 2 bench_comm");
    bench::Bench(*job, options).run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_comm: {}\n", error.what());
    return 1;
  }
}
