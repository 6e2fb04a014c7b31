// Chunks of a device through the public functions. Every rate stands beside a ceiling of the same run: the same program
// over one large array in one launch of the engine, and copies from pinned memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/base/nameless_file.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/program/engine.h"
#include "scheduler_rows.h"

namespace quarry::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

double median_seconds(int repeats, const std::function<void()>& call) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

// What is summed: with the root, arithmetic takes as long as memory on a GPU.
enum class Summed { line, root };
constexpr std::array kSummed = {Summed::line, Summed::root};
const char* name(Summed summed) { return summed == Summed::line ? "sum(x * 2 + 1)" : "sum(sqrt(x) * 2 + 1)"; }

struct Ceilings {
  double read = 0;       // of the device's memory by a plain sum, bytes per second
  double program[2]{};   // by a program of kSummed
  double to_device = 0;  // from pinned memory
  double to_host = 0;
};

// Of the program over all of `x`, in bytes per second.
double program_rate(Summed summed, const local::NdArray& x) {
  constexpr auto kType = local::DType::float32;
  local::Program program;
  local::ValueId value = program.input(kType);
  if (summed == Summed::root) value = program.apply("sqrt"_op, {&value, 1});
  const local::ValueId product[] = {value, program.constant(Scalar(2), kType)};
  const local::ValueId sum[] = {program.apply("multiply"_op, product), program.constant(Scalar(1), kType)};
  value = program.apply("add"_op, sum);
  program.reduce("sum"_reduction, {&value, 1}, local::accumulate_dtype("sum"_reduction, kType));
  program.keep_key();
  const local::ExecContext& context = local::current_context();
  const local::Buffer states(1024, *context.memory, context.stream);
  local::Launch launch;
  launch.shape = x.shape();
  launch.inputs.push_back({const_cast<void*>(x.raw()), x.strides()});
  launch.reduce_axes = 1;
  launch.states.push_back({states.data(), Dims{0}});
  const auto run = [&] {
    constexpr int kCalls = 4;
    for (int i = 0; i < kCalls; ++i) local::engine(context.device).run(program, launch, context);
    context.stream->synchronize();
  };
  run();
  return 4 * static_cast<double>(x.nbytes()) / median_seconds(5, run);
}

Ceilings measure_ceilings(const SchedulerOptions& options) {
  Ceilings found;
  {
    const local::DeviceScope scope(options.device);
    local::DeviceStream& stream = *local::current_context().stream;
    const bool gpu = options.device.kind == local::DeviceKind::cuda;
    const int64_t bytes = options.quick ? 16 * kMiB : gpu ? 16 * kGiB : 2 * kGiB;
    const local::NdArray x = local::ops::full({bytes / 4}, 1.0, local::DType::float32);
    const auto sum = [&] {
      constexpr int kCalls = 4;
      for (int i = 0; i < kCalls; ++i) local::ops::sum(x);
      stream.synchronize();
    };
    sum();
    found.read = 4 * static_cast<double>(bytes) / median_seconds(5, sum);
    for (const Summed summed : kSummed) found.program[static_cast<size_t>(summed)] = program_rate(summed, x);
  }
  local::current_context().memory->free_unused();
  local::Backend& backend = local::backend(options.device.kind);
  const local::ExecContext context = local::default_context(options.device);
  const int64_t bytes = options.quick ? 16 * kMiB : kGiB;
  void* const host = backend.allocate_pinned(bytes);
  std::memset(host, 1, static_cast<size_t>(bytes));
  {
    const local::Buffer device(bytes, *context.memory, context.stream);
    const auto rate = [&](void* to, const void* from) {
      return static_cast<double>(bytes) / median_seconds(7, [&] {
               context.stream->copy(to, from, bytes);
               context.stream->synchronize();
             });
    };
    found.to_device = rate(device.data(), host);
    found.to_host = rate(host, device.data());
  }
  backend.free_pinned(host, bytes);
  context.memory->free_unused();
  report({{"name", "ceilings"},
          {"read_bytes_per_second", found.read},
          {"line_bytes_per_second", found.program[0]},
          {"root_bytes_per_second", found.program[1]},
          {"to_device_bytes_per_second", found.to_device},
          {"to_host_bytes_per_second", found.to_host}});
  return found;
}

// A Runtime for chunks of so many float32.
struct Job {
  Job(const SchedulerOptions& options, int64_t memory_bytes, int64_t host_bytes, int64_t chunk_bytes)
      : runtime(settings(options, memory_bytes, host_bytes, chunk_bytes)) {}
  static RuntimeOptions settings(const SchedulerOptions& options, int64_t memory_bytes, int64_t host_bytes,
                                 int64_t chunk_bytes) {
    RuntimeOptions result;
    result.device = options.device.kind;
    result.memory = fmt::format("{}B", memory_bytes);
    result.host_memory = fmt::format("{}B", host_bytes);
    result.threads = options.threads;
    result.compute_streams = options.streams;
    result.chunks = Dims{chunk_bytes / 4};
    return result;
  }
  Array persisted(int64_t bytes) const { return random::uniform({bytes / 4}, 0, 1, DType::float32).persist(); }
  Runtime runtime;
};

double elementwise_sum(const Array& x, Summed summed) {
  const Array& value = summed == Summed::root ? sqrt(x) : x;
  const NdArray host = sum(value * Scalar(2) + Scalar(1)).to_host();
  return static_cast<double>(*static_cast<const float*>(host.raw()));
}

// Chunks that are on the device already.
void resident_row(const SchedulerOptions& options, const Ceilings& ceilings, int64_t chunk_bytes, int64_t chunks) {
  const int64_t bytes = chunk_bytes * chunks;
  const Job job(options, bytes + std::max(bytes / 8, 64 * kMiB), kGiB / 4, chunk_bytes);
  const Array x = job.persisted(bytes);
  for (const Summed summed : kSummed) {
    elementwise_sum(x, summed);
    const RunStatistics before = job.runtime.statistics();
    constexpr int kRepeats = 15;
    const double seconds = median_seconds(kRepeats, [&] { elementwise_sum(x, summed); });
    const auto tasks = static_cast<double>(job.runtime.statistics().tasks - before.tasks) / kRepeats;
    const double rate = static_cast<double>(bytes) / seconds;
    const std::string size =
        chunk_bytes >= kMiB ? fmt::format("{} MiB", chunk_bytes / kMiB) : fmt::format("{} KiB", chunk_bytes >> 10);
    report({{"name", fmt::format("{} chunks of {}, {}", chunks, size, name(summed))},
            {"seconds", seconds},
            {"bytes_per_second", rate},
            {"share_of_ceiling", rate / ceilings.program[static_cast<size_t>(summed)]},
            {"share_of_reading", rate / ceilings.read},
            {"tasks", tasks},
            {"streams", options.streams},
            {"seconds_per_chunk", seconds / static_cast<double>(chunks)},
            {"seconds_per_task", seconds / tasks}});
  }
}

// An array that is several times the device's budget, read in passes: what does not stay must come from the pinned
// memory that holds it. Nothing is spilled.
void passes_row(const SchedulerOptions& options, const Ceilings& ceilings, const std::string& name, int64_t bytes,
                int64_t budget) {
  const int64_t chunk = options.quick ? kMiB : 64 * kMiB;
  const Job job(options, budget, bytes + bytes / 8, chunk);
  const auto begin = Clock::now();
  const Array x = job.persisted(bytes);
  const double making = std::chrono::duration<double>(Clock::now() - begin).count();
  // What has no copy on the host yet gets one, which takes memory from the system: not part of a pass.
  constexpr int kMostPasses = 16;
  for (int64_t pass = 0, before = -1; pass < kMostPasses && before != job.runtime.statistics().spilled_bytes; ++pass) {
    before = job.runtime.statistics().spilled_bytes;
    elementwise_sum(x, Summed::line);
  }
  constexpr int kRepeats = 5;
  const int64_t restored = job.runtime.statistics().restored_bytes;
  const double seconds = median_seconds(kRepeats, [&] { elementwise_sum(x, Summed::line); });
  const int64_t moved = (job.runtime.statistics().restored_bytes - restored) / kRepeats;
  const auto least = static_cast<double>(bytes - budget);
  report({{"name", name},
          {"seconds", seconds},
          {"making_seconds", making},
          {"bytes", bytes},
          {"budget_bytes", budget},
          {"least_moved_bytes", bytes - budget},
          {"moved_bytes", moved},
          {"bytes_per_second", least / seconds},
          {"ceiling", ceilings.to_device},
          {"share_of_ceiling", least / seconds / ceilings.to_device},
          {"spilled_bytes", job.runtime.statistics().spilled_bytes}});
}

// Seconds in which threads that do nothing else write so many bytes to a file without a name in `folder`, and read as
// many of another size from it.
double plain_file_seconds(const std::string& folder, int threads, int64_t written, int64_t read, int64_t chunk) {
  const int file = local::open_nameless_file(folder, "bench");
  if (file < 0) throw local::IoError("cannot make a file in " + folder);
  const int64_t held = std::max(std::max(written, read) / chunk / threads, int64_t{1}) * chunk;  // of a thread
  const auto move = [&](int64_t bytes, bool write) {
    std::vector<std::jthread> pool;
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back([=] {
        std::vector<char> buffer(static_cast<size_t>(chunk), 1);
        for (int64_t at = 0; at < bytes / threads; at += chunk) {
          const off_t offset = t * held + at;
          const ssize_t moved = write ? pwrite(file, buffer.data(), buffer.size(), offset)
                                      : pread(file, buffer.data(), buffer.size(), offset);
          if (moved < 0) std::abort();
        }
      });
    }
  };
  move(std::max(written, read), /*write=*/true);  // blocks of the file that are there are written again, as in a run
  const auto begin = Clock::now();
  move(written, /*write=*/true);
  move(read, /*write=*/false);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  close(file);
  return seconds;
}

// x = x * 2 + 1 again and again, of an array that is several times the budget: every pass makes it anew, so what does
// not fit is written to the tier below and brought back. The ceiling moves as many bytes and does nothing else: on the
// CPU through a file, on a device with enough host memory by copies to and from pinned memory.
void spilling_row(const SchedulerOptions& options, const Ceilings& ceilings, const std::string& name, int64_t bytes,
                  int64_t budget, int64_t host_bytes) {
  const bool on_cpu = options.device.kind == local::DeviceKind::cpu;
  const int64_t chunk = options.quick ? kMiB : on_cpu ? 16 * kMiB : 64 * kMiB;
  const Job job(options, budget, host_bytes, chunk);
  Array x = job.persisted(bytes);
  const auto pass = [&] { x = (x * Scalar(0.5) + Scalar(1)).persist(); };
  pass();
  constexpr int kRepeats = 5;
  const RunStatistics before = job.runtime.statistics();
  const double seconds = median_seconds(kRepeats, pass);
  const RunStatistics after = job.runtime.statistics();
  const int64_t spilled = (after.spilled_bytes - before.spilled_bytes) / kRepeats;
  const int64_t restored = (after.restored_bytes - before.restored_bytes) / kRepeats;
  nlohmann::json row = {{"name", name},
                        {"seconds", seconds},
                        {"bytes", bytes},
                        {"budget_bytes", budget},
                        {"spilled_bytes", spilled},
                        {"restored_bytes", restored},
                        {"bytes_per_second", static_cast<double>(2 * bytes) / seconds}};
  double plain = 0;
  if (on_cpu) {
    plain = plain_file_seconds(job.runtime.options().spill_dir, options.threads, spilled, restored, chunk);
  } else if (host_bytes > 2 * bytes) {
    plain = static_cast<double>(spilled) / ceilings.to_host + static_cast<double>(restored) / ceilings.to_device;
  }
  if (plain > 0) row["share_of_ceiling"] = plain / seconds;
  report(row);
}

}  // namespace

void chunk_rows(const SchedulerOptions& options) {
  const Ceilings ceilings = measure_ceilings(options);
  const bool gpu = options.device.kind == local::DeviceKind::cuda;
  const bool quick = options.quick;
  const auto asked = [&](const char* row) { return wanted(options, "chunks") || wanted(options, row); };
  if (asked("64KiB")) resident_row(options, ceilings, 64 << 10, quick ? 500 : 10000);
  if (asked("4MiB")) resident_row(options, ceilings, 4 * kMiB, quick ? 10 : gpu ? 4000 : 500);
  if (asked("64MiB")) resident_row(options, ceilings, 64 * kMiB, quick ? 4 : gpu ? 1000 : 32);
  const int64_t budget = quick ? 24 * kMiB : gpu ? 8 * kGiB : 512 * kMiB;
  const std::string working_set = "working set of 3 times the budget, made anew in passes, spilled to ";
  if (options.device.kind == local::DeviceKind::cpu) {
    if (asked("spilling")) spilling_row(options, ceilings, working_set + "disk", 3 * budget, budget, 0);
    return;
  }
  if (asked("spilling")) {
    spilling_row(options, ceilings, working_set + "host memory", 3 * budget, budget, 7 * budget);
    spilling_row(options, ceilings, working_set + "host memory and disk", 3 * budget, budget, budget);
  }
  if (asked("streaming")) {
    passes_row(options, ceilings, "streaming from host memory", quick ? 64 * kMiB : 3 * budget,
               quick ? 8 * kMiB : budget / 8);
  }
}

}  // namespace quarry::bench
