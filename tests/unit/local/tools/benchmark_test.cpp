#include "quarry/local/tools/benchmark.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "quarry/local/base/error.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/device/device.h"
#include "quarry/local/device/range.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Benchmark : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Benchmark);

TEST_P(Benchmark, TimesEveryCallOnHostAndDevice) {
  const NdArray x = from_vector(std::vector<double>(10000, 1.0));
  int calls = 0;
  const BenchmarkResult result = benchmark(
      [&] {
        ++calls;
        static_cast<void>(x + x);
      },
      {.name = "add", .repeat = 7, .warmup = 3, .devices = {}});
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(result.cpu_times.size(), 7u);
  const bool on_cpu = GetParam() == DeviceKind::cpu;
  ASSERT_EQ(result.devices.size(), on_cpu ? 0u : 1u);
  ASSERT_EQ(result.gpu_times.size(), result.devices.size());
  for (double seconds : result.cpu_times) EXPECT_GE(seconds, 0);
  if (!on_cpu) {
    EXPECT_EQ(result.gpu_times[0].size(), 7u);
    for (double seconds : result.gpu_times[0]) EXPECT_GT(seconds, 0);
  }
  const std::string number = " *[0-9]+[.][0-9][0-9][0-9]";
  const std::string times = number + " us   [+]/- " + number + " [(]min: " + number + " / max: " + number + "[)] us";
  EXPECT_THAT(result.to_string(), ContainsRegex("^add                 :    CPU: " + times));
  if (!on_cpu) {
    EXPECT_THAT(result.to_string(), ContainsRegex("     GPU-0: " + times));
  }
  EXPECT_EQ(result.to_string().find("GPU") == std::string::npos, on_cpu);
  EXPECT_THAT(result.to_string(/*show_gpu=*/false), ::testing::Not(HasSubstr("GPU")));
}

TEST_P(Benchmark, TheDeviceTimeIsThatOfTheWork) {
  const BenchmarkResult result = benchmark(
      [] {
        current_context().stream->host_callback([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
      },
      {.name = "", .repeat = 2, .warmup = 0, .devices = {current_device()}});
  ASSERT_EQ(result.gpu_times.size(), 1u);
  for (double seconds : result.gpu_times[0]) {
    EXPECT_GE(seconds, 0.019);
    EXPECT_LT(seconds, 2);
  }
}

TEST_P(Benchmark, StopsAfterTheLongestDuration) {
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  const auto calls =
      benchmark(wait, {.name = "", .repeat = 1000, .warmup = 0, .max_duration = 0.02, .devices = {}}).cpu_times.size();
  EXPECT_GE(calls, 1u);
  EXPECT_LE(calls, 5u);
  EXPECT_EQ(benchmark(wait, {.name = "", .warmup = 0, .max_duration = 0, .devices = {}}).cpu_times.size(), 1u);
}

TEST_P(Benchmark, PassesErrorsOn) {
  EXPECT_THROW(benchmark([] { throw IndexError("x"); }, 3), IndexError);
  EXPECT_THROW(benchmark([] {}, 0), InvalidArgument);
  EXPECT_THROW(benchmark([] {}, {.name = "", .repeat = 1, .warmup = -1, .devices = {}}), InvalidArgument);
  EXPECT_THROW(benchmark([] {}, {.name = "", .max_duration = -1.0, .devices = {}}), InvalidArgument);
  EXPECT_EQ(benchmark([] {}, 3).cpu_times.size(), 3u);
}

TEST(Benchmarks, NameADeviceThatIsMissing) {
  EXPECT_THROW(benchmark([] {}, {.name = "", .devices = {{DeviceKind::emulated, 99}}}), DeviceError);
}

TEST(Benchmarks, Summary) {
  const std::vector<double> seconds = {1, 2, 3, 6};
  const TimeSummary summary = summarize(seconds);
  EXPECT_EQ(summary.mean, 3);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 6);
  EXPECT_DOUBLE_EQ(summary.standard_deviation, std::sqrt(3.5));
  EXPECT_EQ(summarize({}).mean, 0);
  const BenchmarkResult once{"f", {1.5e-6}, {}, {}};
  EXPECT_EQ(once.to_string(), "f                   :    CPU:     1.500 us");
}

TEST_P(Benchmark, TimersNeedToBeReached) {
  Backend& owner = backend(GetParam());
  const auto begin = owner.create_timer(0), end = owner.create_timer(0);
  DeviceStream& stream = *current_context().stream;
  EXPECT_THROW(static_cast<void>(end->seconds_since(*begin)), InvalidArgument);
  stream.record(*begin);
  stream.record(*end);
  stream.synchronize();
  EXPECT_GE(end->seconds_since(*begin), 0);
}

TEST(Ranges, NestAndName) {
  EXPECT_EQ(to_string(current_ranges()), "");
  {
    const Range a("a");
    const Range b(std::string("b") + "1");
    EXPECT_EQ(to_string(current_ranges()), "a / b1");
    const Range c("c"), d("d");
    EXPECT_EQ(to_string(current_ranges()), "a / b1 / c");
    std::thread([] { EXPECT_EQ(to_string(current_ranges()), ""); }).join();
  }
  const Range here;
  EXPECT_THAT(to_string(current_ranges()), HasSubstr("TestBody"));
}

TEST(Ranges, AreShownOnRequest) {
  show_ranges(DeviceKind::emulated);
  start_tracing();
  {
    const Range outer("outer");
    const Range inner("inner");
    show_ranges(std::nullopt);
    const Range hidden("hidden");
  }
  const std::vector<TraceEvent> events = stop_tracing();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "outer");
  EXPECT_EQ(events[1].name, "inner");
  EXPECT_LE(events[0].begin_ns, events[1].begin_ns);
  EXPECT_GE(events[0].end_ns, events[1].end_ns);
}

TEST(Ranges, OnAGpuOnlyWhereThereIsOne) {
  if (available(DeviceKind::cuda)) {
    show_ranges(DeviceKind::cuda);
    {
      const Range range("test");
      const ProfilerScope profiler;
    }
    show_ranges(std::nullopt);
  } else {
    EXPECT_THROW(show_ranges(DeviceKind::cuda), DeviceError);
    EXPECT_THROW(ProfilerScope{}, DeviceError);
  }
}

}  // namespace
}  // namespace quarry::local
