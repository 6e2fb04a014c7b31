// Values of chunked arrays in host memory, and the budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/base/error.h"
#include "tests/support/on_devices.h"
#include "tests/support/runtime_on.h"

namespace quarry {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A line of /proc/self/status in bytes.
int64_t memory_status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

// The most that the process has had since begin().
class PeakMemory {
 public:
  // Linux counts anew.
  PeakMemory() { std::ofstream("/proc/self/clear_refs") << "5"; }
  int64_t more_bytes() const { return memory_status("VmHWM") - before_; }

 private:
  const int64_t before_ = memory_status("VmRSS");
};

class HostValues : public ::testing::TestWithParam<local::DeviceKind> {};
QUARRY_ON_DEVICE_KINDS(HostValues);

RuntimeOptions small_runtime(local::DeviceKind kind) {
  RuntimeOptions options = testing::runtime_on(kind, "48MiB");
  options.host_memory = "16MiB";
  return options;
}

TEST_P(HostValues, ThatDoNotFitAreRefusedWithTheNumber) {
  const Runtime runtime(small_runtime(GetParam()));
  const Array large = zeros({80, kMiB / 8}).rechunk(Dims{1, kMiB / 8}) + 1.;  // 80 MiB
  const int64_t tasks = runtime.statistics().tasks;
  try {
    static_cast<void>(large.to_host());
    FAIL();
  } catch (const local::BudgetError& error) {
    EXPECT_EQ(error.least_bytes(), 80 * kMiB);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("83886080 bytes (80.0 MiB)"));
  }
  EXPECT_EQ(runtime.statistics().tasks, tasks) << "nothing ran";
  // Two that only together do not fit.
  const Array half = large(slice(0, 40));
  const Array arrays[] = {half, half + 1.};
  EXPECT_THROW(to_host(arrays), local::BudgetError);
  EXPECT_EQ(half.to_host().shape(), (Dims{40, kMiB / 8}));
}

TEST(HostValue, TakesNoMoreThanTheBudgetWhileItIsMade) {
  const Runtime runtime(small_runtime(local::DeviceKind::cpu));
  const Array array = arange(0., 44. * kMiB / 8).rechunk(Dims{kMiB / 8});
  static_cast<void>((array(slice(0, 1000)) * 2.).to_host());
  const PeakMemory peak;
  const NdArray value = array.to_host();
  // Without the budget it would be chunks and value together, 88 MiB.
  EXPECT_LE(peak.more_bytes(), 48 * kMiB + 12 * kMiB);
  EXPECT_GE(peak.more_bytes(), 30 * kMiB);
  EXPECT_EQ(value.data<const double>()[44 * kMiB / 8 - 1], 44. * kMiB / 8 - 1);
  EXPECT_EQ(value.data<const double>()[0], 0.);
}

// Persisted arrays make way to the spill file, also beside a value that fills the budget.
TEST(HostValue, BesidePersistedArrays) {
  const Runtime runtime(small_runtime(local::DeviceKind::cpu));
  const Array kept = arange(0., 40. * kMiB / 8).rechunk(Dims{kMiB / 8}).persist();
  const NdArray value = (kept + 1.).to_host();
  EXPECT_EQ(value.data<const double>()[kMiB], kMiB + 1.);
  EXPECT_EQ(sum(kept).item<double>(), (40. * kMiB / 8) * (40. * kMiB / 8 - 1) / 2);
}

TEST(HostValue, OfTheSameArrayTwiceAndOfNothing) {
  const Runtime runtime(small_runtime(local::DeviceKind::cpu));
  const Array array = arange(0., 8. * kMiB / 8).rechunk(Dims{kMiB / 8}), empty = zeros({0, 3});
  const Array arrays[] = {array, array, empty, sum(array)};
  const std::vector<NdArray> values = to_host(arrays);
  EXPECT_EQ(values[0].data<const double>()[kMiB / 2], kMiB / 2.);
  EXPECT_EQ(values[1].data<const double>()[kMiB / 2], kMiB / 2.);
  EXPECT_EQ(values[2].shape(), (Dims{0, 3}));
  EXPECT_EQ(values[3].item<double>(), kMiB * (kMiB - 1.) / 2);
}

}  // namespace
}  // namespace quarry
