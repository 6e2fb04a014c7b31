// How long calls take, on the host and on devices.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "quarry/local/device/kind.h"

namespace quarry::local {

struct BenchmarkOptions {
  std::string name = {};                                          // shown in front
  int64_t repeat = 1000;                                          // calls that are timed, at most
  int64_t warmup = 10;                                            // calls before them
  double max_duration = std::numeric_limits<double>::infinity();  // seconds of timed calls after which no other begins
  std::vector<Device> devices = {};  // whose work is timed; empty: the current one, unless it is the CPU
};

struct TimeSummary {
  double mean = 0, standard_deviation = 0, min = 0, max = 0;  // seconds
};

namespace detail {

TimeSummary summarize(std::span<const double> seconds);  // zeros of nothing

}  // namespace detail

struct BenchmarkResult {
  std::string name;
  std::vector<double> cpu_times;  // seconds from call to return, one per call
  std::vector<Device> devices;
  std::vector<std::vector<double>> gpu_times;  // per device: seconds from event to event around the call, on its clock

  // As cupyx.profiler.benchmark prints: "add  :    CPU:   12.345 us   +/-  0.500 (min: ... / max: ...) us     GPU-0:
  // ..."
  std::string to_string(bool show_gpu = true) const;
};

// Calls `function` again and again and times each call: on the host, and by events on the stream that eager calls of
// this thread use on each device. The host waits for the devices after every call. What the function throws is passed
// on. Throws InvalidArgument for counts or durations out of range.
BenchmarkResult benchmark(const std::function<void()>& function, const BenchmarkOptions& options);
inline BenchmarkResult benchmark(const std::function<void()>& function, int64_t repeat = 1000) {
  return benchmark(function, BenchmarkOptions{.name = "", .repeat = repeat, .devices = {}});
}

}  // namespace quarry::local
