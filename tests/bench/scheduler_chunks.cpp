// Chunks of a device through the public functions. Every rate stands beside a ceiling of the same run: the engine's own
// sum over one large array, and copies from pinned memory.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "chunked/quarry.h"
#include "local/ops/creation.h"
#include "local/ops/reduce.h"
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

struct Ceilings {
  double read = 0;       // of the device's memory by a sum, bytes per second
  double to_device = 0;  // from pinned memory
  double to_host = 0;
};

Ceilings measure_ceilings(const SchedulerOptions& options) {
  Ceilings found;
  {
    const local::DeviceScope scope(options.device);
    local::Stream& stream = *local::current_context().stream;
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

double elementwise_sum(const Array& x) {
  const NdArray host = sum(sqrt(x) * Scalar(2) + Scalar(1)).to_host();
  return static_cast<double>(*static_cast<const float*>(host.raw()));
}

// Chunks that are on the device already.
void resident_row(const SchedulerOptions& options, const Ceilings& ceilings, int64_t chunk_bytes, int64_t chunks) {
  const int64_t bytes = chunk_bytes * chunks;
  const Job job(options, bytes + std::max(bytes / 8, 64 * kMiB), kGiB / 4, chunk_bytes);
  const Array x = job.persisted(bytes);
  elementwise_sum(x);
  const RunStatistics before = job.runtime.statistics();
  constexpr int kRepeats = 7;
  const double seconds = median_seconds(kRepeats, [&] { elementwise_sum(x); });
  const auto tasks = static_cast<double>((job.runtime.statistics().tasks - before.tasks) / kRepeats);
  const double rate = static_cast<double>(bytes) / seconds;
  report({{"name", fmt::format("{} chunks of {}, elementwise and sum", chunks,
                               chunk_bytes >= kMiB ? fmt::format("{} MiB", chunk_bytes / kMiB)
                                                   : fmt::format("{} KiB", chunk_bytes >> 10))},
          {"seconds", seconds},
          {"bytes_per_second", rate},
          {"share_of_ceiling", rate / ceilings.read},
          {"tasks", tasks},
          {"streams", options.streams},
          {"seconds_per_chunk", seconds / static_cast<double>(chunks)},
          {"seconds_per_task", seconds / tasks}});
}

// An array that is several times the device's budget, read in passes: what does not stay must come from the host.
void passes_row(const SchedulerOptions& options, const Ceilings& ceilings, const std::string& name, int64_t bytes,
                int64_t budget) {
  const int64_t chunk = options.quick ? kMiB : 64 * kMiB;
  const Job job(options, budget, bytes + bytes / 8, chunk);
  const auto begin = Clock::now();
  const Array x = job.persisted(bytes);
  const double making = std::chrono::duration<double>(Clock::now() - begin).count();
  elementwise_sum(x);  // what is still dirty goes down
  constexpr int kRepeats = 5;
  const int64_t restored = job.runtime.statistics().restored_bytes;
  const double seconds = median_seconds(kRepeats, [&] { elementwise_sum(x); });
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

}  // namespace

void chunk_rows(const SchedulerOptions& options) {
  const Ceilings ceilings = measure_ceilings(options);
  const bool gpu = options.device.kind == local::DeviceKind::cuda;
  const bool quick = options.quick;
  const auto asked = [&](const char* row) { return wanted(options, "chunks") || wanted(options, row); };
  if (asked("64KiB")) resident_row(options, ceilings, 64 << 10, quick ? 500 : 10000);
  if (asked("4MiB")) resident_row(options, ceilings, 4 * kMiB, quick ? 10 : gpu ? 4000 : 500);
  if (asked("64MiB")) resident_row(options, ceilings, 64 * kMiB, quick ? 4 : gpu ? 1000 : 32);
  if (options.device.kind == local::DeviceKind::cpu) return;
  const int64_t budget = quick ? 24 * kMiB : gpu ? 8 * kGiB : 512 * kMiB;
  if (asked("passes")) passes_row(options, ceilings, "working set of 3 times the device's budget", 3 * budget, budget);
  if (asked("streaming")) {
    passes_row(options, ceilings, "streaming from host memory", quick ? 64 * kMiB : 3 * budget,
               quick ? 8 * kMiB : budget / 8);
  }
}

}  // namespace quarry::bench
