#include "quarry/local/tools/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "quarry/local/base/error.h"
#include "quarry/local/device/device.h"
#include "quarry/local/memory/exec_context.h"

namespace quarry::local {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Timers {
  DeviceStream* stream;
  std::unique_ptr<DeviceEvent> begin, end;
};

Timers timers_for(Device device) {
  const ExecContext context = current_device() == device ? current_context() : default_context(device);
  Backend& owner = backend(device.kind);
  return {context.stream, owner.create_timer(device.index), owner.create_timer(device.index)};
}

void check(const BenchmarkOptions& options) {
  if (options.repeat < 1)
    throw InvalidArgument(fmt::format("benchmark: repeat must be positive, not {}", options.repeat));
  if (options.warmup < 0)
    throw InvalidArgument(fmt::format("benchmark: warmup must not be negative, as {} is", options.warmup));
  if (!(options.max_duration >= 0))
    throw InvalidArgument(fmt::format("benchmark: max_duration must not be negative, as {} is", options.max_duration));
}

std::string line(const std::string& name, std::span<const double> seconds) {
  const TimeSummary summary = summarize(seconds);
  std::string text = fmt::format("    {}: {:9.3f} us", name, summary.mean * 1e6);
  if (seconds.size() > 1) {
    text += fmt::format("   +/- {:6.3f} (min: {:9.3f} / max: {:9.3f}) us", summary.standard_deviation * 1e6,
                        summary.min * 1e6, summary.max * 1e6);
  }
  return text;
}

}  // namespace

TimeSummary detail::summarize(std::span<const double> seconds) {
  TimeSummary summary;
  if (seconds.empty()) return summary;
  const auto count = static_cast<double>(seconds.size());
  summary.mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / count;
  double squares = 0;
  for (double value : seconds) squares += (value - summary.mean) * (value - summary.mean);
  summary.standard_deviation = std::sqrt(squares / count);
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  summary.min = *least;
  summary.max = *most;
  return summary;
}

std::string BenchmarkResult::to_string(bool show_gpu) const {
  std::string text = fmt::format("{:<20}:{}", name, line("CPU", cpu_times));
  for (size_t i = 0; show_gpu && i < devices.size(); ++i)
    text += " " + line(fmt::format("GPU-{}", devices[i].index), gpu_times[i]);
  return text;
}

BenchmarkResult benchmark(const std::function<void()>& function, const BenchmarkOptions& options) {
  check(options);
  BenchmarkResult result;
  result.name = options.name;
  result.devices = options.devices;
  if (result.devices.empty() && current_device().kind != DeviceKind::cpu) result.devices = {current_device()};
  std::vector<Timers> timers;
  for (const Device& device : result.devices) timers.push_back(timers_for(device));
  result.gpu_times.resize(timers.size());
  const auto finish = [&] {
    for (const Timers& timer : timers) timer.stream->synchronize();
  };

  for (int64_t i = 0; i < options.warmup; ++i) function();
  finish();
  double duration = 0;
  for (int64_t i = 0; i < options.repeat && duration <= options.max_duration; ++i) {
    for (const Timers& timer : timers) timer.stream->record(*timer.begin);
    const double begin = now();
    function();
    const double returned = now();
    for (const Timers& timer : timers) timer.stream->record(*timer.end);
    finish();
    duration += now() - begin;
    result.cpu_times.push_back(returned - begin);
    for (size_t k = 0; k < timers.size(); ++k)
      result.gpu_times[k].push_back(timers[k].end->seconds_since(*timers[k].begin));
  }
  return result;
}

}  // namespace quarry::local
