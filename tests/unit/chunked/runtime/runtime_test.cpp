#include "quarry/chunked/runtime/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/memory_size.h"
#include "quarry/local/base/error.h"
#include "quarry/local/memory/policy.h"
#include "quarry/scheduler/executor.h"

namespace quarry {
namespace {

constexpr int64_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;

TEST(ParseSize, UnitsAreDecimalOrBinary) {
  EXPECT_EQ(parse_size("1536", 0), 1536);
  EXPECT_EQ(parse_size("0", 0), 0);
  EXPECT_EQ(parse_size("7B", 0), 7);
  EXPECT_EQ(parse_size("256MiB", 0), 256 * kMiB);
  EXPECT_EQ(parse_size("1.5 GiB", 0), 3 * kGiB / 2);
  EXPECT_EQ(parse_size("512 MB", 0), 512000000);
  EXPECT_EQ(parse_size("2KB", 0), 2000);
  EXPECT_EQ(parse_size("3 KiB", 0), 3072);
  EXPECT_EQ(parse_size("4gb", 0), 4000000000);
  EXPECT_EQ(parse_size("1TB", 0), 1000000000000);
  EXPECT_EQ(parse_size("  2 TiB ", 0), 2048 * kGiB);
  EXPECT_EQ(parse_size("0.5KiB", 0), 512);
  EXPECT_EQ(parse_size("9223372036854775807", 0), std::numeric_limits<int64_t>::max());
}

TEST(ParseSize, PercentIsOfWhatIsFree) {
  EXPECT_EQ(parse_size("50%", 1000), 500);
  EXPECT_EQ(parse_size("12.5 %", 1000), 125);
  EXPECT_EQ(parse_size("100%", int64_t{1} << 50), int64_t{1} << 50);
  EXPECT_EQ(parse_size("0%", 1000), 0);
}

TEST(ParseSize, ErrorsQuoteTheText) {
  for (const char* text : {"", "  ", "MiB", "-5", "+5", "1e9", "12 parsecs", "1.2.3", ".", "5MiB extra", "101%", "0x10",
                           "9223372036854775808", "99999999999TiB", "inf", "nan", "5 M i B"}) {
    try {
      static_cast<void>(parse_size(text, 1000));
      ADD_FAILURE() << "\"" << text << "\" was taken";
    } catch (const local::InvalidArgument& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("\"" + std::string(text) + "\""));
    }
  }
}

// A made-up /proc and /sys.
class FreeBytes : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) / (std::string("quarry_free_") + info->name());
    std::filesystem::remove_all(root_);
    write("proc/meminfo", "MemTotal:       32768 kB\nMemFree:         100 kB\nMemAvailable:   16384 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  int64_t free() const { return free_host_bytes_below(root_.string()); }
  std::filesystem::path root_;
};

TEST_F(FreeBytes, WithoutGroupsTheMachine) { EXPECT_EQ(free(), 16 * kMiB); }

TEST_F(FreeBytes, Version2CountsCacheAsFree) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.max", "8388608\n");
  write("sys/fs/cgroup/job/step/memory.current", "4194304\n");
  write("sys/fs/cgroup/job/step/memory.stat", "anon 1048576\ninactive_file 3145728\n");
  EXPECT_EQ(free(), 7 * kMiB);
}

TEST_F(FreeBytes, Version2TheTightestParentCounts) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.current", "100\n");
  write("sys/fs/cgroup/job/memory.max", "2097152\n");
  write("sys/fs/cgroup/job/memory.current", "1048576\n");
  EXPECT_EQ(free(), kMiB);
}

TEST_F(FreeBytes, Version2LimitAboveTheMachine) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1099511627776\n");
  write("sys/fs/cgroup/memory.current", "0\n");
  EXPECT_EQ(free(), 16 * kMiB);
}

TEST_F(FreeBytes, Version1InAContainerWhosePathIsTheHosts) {
  write("proc/self/cgroup", "12:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4194304\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "2097152\n");
  write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 1048576\n");
  EXPECT_EQ(free(), 3 * kMiB);
}

TEST_F(FreeBytes, MoreUsedThanAllowedIsZero) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "1000\n");
  write("sys/fs/cgroup/job/memory.current", "5000\n");
  EXPECT_EQ(free(), 0);
}

TEST(FreeHostBytes, OfThisMachineIsPositive) {
  EXPECT_GT(free_host_bytes(), kMiB);
  EXPECT_LT(free_host_bytes(), int64_t{1} << 50);
}

// Sets an environment variable for a scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

RuntimeOptions on_cpu() {
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  return options;
}

TEST(Runtime, ExplicitBeatsEnvironmentBeatsDefault) {
  const Environment memory("QUARRY_MEMORY", "64MiB"), threads("QUARRY_THREADS", "3"), chunks("QUARRY_CHUNKS", "40,5"),
      spill("QUARRY_SPILL_DIR", "/var/tmp"), device("QUARRY_DEVICE", "cpu");
  {
    const Runtime runtime{RuntimeOptions{}};
    EXPECT_EQ(runtime.memory_bytes(), 64 * kMiB);
    EXPECT_EQ(runtime.threads(), 3);
    EXPECT_EQ(runtime.options().chunks, (local::Dims{40, 5}));
    EXPECT_EQ(runtime.options().spill_dir, "/var/tmp");
    EXPECT_EQ(runtime.device(), local::kCpu);
  }
  RuntimeOptions options;
  options.device = local::DeviceKind::emulated;
  options.memory = "32MiB";
  options.host_memory = "48 MiB";
  options.threads = 2;
  options.chunks = local::Dims{7};
  options.spill_dir = "/tmp";
  const Runtime runtime(options);
  EXPECT_EQ(runtime.memory_bytes(), 32 * kMiB);
  EXPECT_EQ(runtime.host_bytes(), 48 * kMiB);
  EXPECT_EQ(runtime.threads(), 2);
  EXPECT_EQ(runtime.options().chunks, (local::Dims{7}));
  EXPECT_EQ(runtime.options().spill_dir, "/tmp");
  EXPECT_EQ(runtime.device().kind, local::DeviceKind::emulated);
}

TEST(Runtime, Defaults) {
  const Runtime runtime(on_cpu());
  EXPECT_EQ(runtime.rank(), 0);
  EXPECT_EQ(runtime.size(), 1);
  EXPECT_GE(runtime.threads(), 1);
  EXPECT_LE(runtime.threads(), static_cast<int>(std::thread::hardware_concurrency()));
  const double share = static_cast<double>(runtime.memory_bytes()) / static_cast<double>(free_host_bytes());
  EXPECT_NEAR(share, 0.6, 0.1);
  EXPECT_FALSE(runtime.options().chunks.has_value());
}

TEST(Runtime, BadOptionsAreTheUsersMistake) {
  const auto bad = [](auto change) {
    RuntimeOptions options = on_cpu();
    change(options);
    EXPECT_THROW(Runtime{options}, local::InvalidArgument);
  };
  bad([](RuntimeOptions& o) { o.memory = "much"; });
  bad([](RuntimeOptions& o) { o.memory = "0"; });
  bad([](RuntimeOptions& o) { o.threads = -1; });
  bad([](RuntimeOptions& o) { o.chunks = local::Dims{4, 0}; });
  {
    const Environment threads("QUARRY_THREADS", "many");
    bad([](RuntimeOptions&) {});
  }
  {
    const Environment chunks("QUARRY_CHUNKS", "4,,5");
    bad([](RuntimeOptions&) {});
  }
  {
    const Environment device("QUARRY_DEVICE", "abacus");
    EXPECT_THROW(Runtime{RuntimeOptions{}}, local::InvalidArgument);
  }
}

TEST(Runtime, BannerSaysRanksDevicesThreadsBudget) {
  RuntimeOptions options = on_cpu();
  options.memory = "256MiB";
  options.threads = 2;
  EXPECT_EQ(Runtime(options).banner(), "1 rank, CPU, 2 threads, 256 MiB of memory");
  options.device = local::DeviceKind::emulated;
  options.host_memory = "1GiB";
  options.threads = 1;
  EXPECT_EQ(Runtime(options).banner(), "1 rank, emulated:0, 1 thread, 256 MiB of device and 1.00 GiB of host memory");
}

TEST(Runtime, TakesAsMuchOfADeviceAsIsNeeded) {
  RuntimeOptions options = on_cpu();
  options.device = local::DeviceKind::emulated;
  options.memory = "512MiB";
  options.host_memory = "64MiB";
  Runtime runtime(options);
  EXPECT_EQ(runtime.executor().device_bytes(), 0);
  EXPECT_EQ(runtime.executor().staging().acquired_bytes(), 0);
  EXPECT_EQ((full({1000}, 1.0) + 1.0).sum().to_host().item<double>(), 2000);
  EXPECT_GT(runtime.executor().device_bytes(), 0);
  EXPECT_LE(runtime.executor().device_bytes(), local::memory_policy::first_segment_bytes(runtime.memory_bytes()));
}

TEST(FreeHostBytes, NoMoreThanSlurmGivesTheJob) {
  EXPECT_EQ(bytes_given_by_slurm(), std::numeric_limits<int64_t>::max());
  {
    const Environment node("SLURM_MEM_PER_NODE", "3");
    EXPECT_EQ(bytes_given_by_slurm(), 3 * kMiB);
    EXPECT_EQ(free_host_bytes(), 3 * kMiB);
  }
  const Environment cpu("SLURM_MEM_PER_CPU", "2");
  EXPECT_EQ(bytes_given_by_slurm(), std::numeric_limits<int64_t>::max());
  const Environment cpus("SLURM_CPUS_ON_NODE", "4");
  EXPECT_EQ(bytes_given_by_slurm(), 8 * kMiB);
  const Environment all("SLURM_MEM_PER_NODE", "0");
  EXPECT_EQ(bytes_given_by_slurm(), 8 * kMiB);
}

TEST(Runtime, WhatCannotBeIsSaidAtTheStart) {
  const auto message = [](const RuntimeOptions& options) -> std::string {
    try {
      const Runtime runtime(options);
    } catch (const local::InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  RuntimeOptions options = on_cpu();
  options.spill_dir = "/does/not/exist";
  EXPECT_EQ(message(options), "spill_dir: '/does/not/exist' does not exist");
  options.spill_dir = "/dev/null";
  EXPECT_EQ(message(options), "spill_dir: '/dev/null' is no directory");
  options = on_cpu();
  options.memory = "1Gibi";
  EXPECT_THAT(message(options), ::testing::StartsWith("memory: \"1Gibi\" is no size"));
  options.from_command_line = true;
  EXPECT_THAT(message(options), ::testing::StartsWith("--memory: \"1Gibi\" is no size"));
  options = on_cpu();
  options.balance = "maybe";
  EXPECT_EQ(message(options), "balance: \"maybe\": expected on or off");
  {
    const Environment spill("QUARRY_SPILL_DIR", "/does/not/exist");
    EXPECT_EQ(message(on_cpu()), "QUARRY_SPILL_DIR: '/does/not/exist' does not exist");
  }
  {
    const Environment memory("QUARRY_MEMORY", "0");
    EXPECT_EQ(message(on_cpu()), "QUARRY_MEMORY: \"0\" is nothing");
  }
  {
    const Environment level("QUARRY_CPU_LEVEL", "v9");
    EXPECT_EQ(message(on_cpu()), "QUARRY_CPU_LEVEL=v9: expected auto, v2, v3 or v4; did you mean 'v2'?");
  }
  const Environment patience("QUARRY_WATCHDOG", "soon");
  EXPECT_EQ(message(on_cpu()), "QUARRY_WATCHDOG=soon: expected seconds");
}

TEST(Runtime, TasksOfSlurmWithoutMpiAreRefused) {
  const Environment tasks("SLURM_STEP_NUM_TASKS", "2");
  try {
    const Runtime runtime(on_cpu());
    ADD_FAILURE() << "two copies of one run";
  } catch (const local::InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("srun started 2 processes"));
  }
  RuntimeOptions options = on_cpu();
  options.transport = "self";
  EXPECT_EQ(Runtime(options).size(), 1);
  const Environment one("SLURM_STEP_NUM_TASKS", "1");
  EXPECT_EQ(Runtime(on_cpu()).size(), 1);
}

TEST(Runtime, CurrentIsTheProgramsOwnElseOneRank) {
  {
    Runtime runtime(on_cpu());
    EXPECT_EQ(&Runtime::current(), &runtime);
  }
  const Environment memory("QUARRY_MEMORY", "16MiB"), device("QUARRY_DEVICE", "cpu");
  Runtime& alone = Runtime::current();
  EXPECT_EQ(alone.size(), 1);
  EXPECT_EQ(&Runtime::current(), &alone);
}

// --- two Runtimes ---

RuntimeOptions chunked_by(int64_t extent) {
  RuntimeOptions options = on_cpu();
  options.memory = "16MiB";
  options.chunks = local::Dims{extent};
  return options;
}

TEST(Runtimes, TheSecondSeesNothingOfTheFirst) {
  uint64_t first = 0;
  {
    const Environment weight("QUARRY_WEIGHT", "3");
    Runtime runtime(chunked_by(10));
    EXPECT_FALSE(runtime.any_run_started());
    const Array x = ones({100}).persist();
    EXPECT_EQ(x.chunks().count(), 10);
    EXPECT_TRUE(runtime.any_run_started());
    EXPECT_EQ(runtime.internals().runs, 1u);
    first = x.node()->hash;
  }
  Runtime runtime(chunked_by(20));
  EXPECT_FALSE(runtime.any_run_started());
  EXPECT_EQ(runtime.internals().runs, 0u);
  EXPECT_EQ(runtime.statistics().tasks, 0);
  const Array x = ones({100}).persist();
  EXPECT_EQ(x.chunks().count(), 5);
  EXPECT_NE(x.node()->hash, first) << "the chunks differ";
  EXPECT_EQ(runtime.internals().persisted, 1u);
}

TEST(Runtimes, TwoThatAreAliveKeepToThemselves) {
  Runtime a(chunked_by(10));
  const Array of_a = arange(100).persist();
  {
    Runtime b(chunked_by(25));
    EXPECT_EQ(&Runtime::current(), &b);
    const Array of_b = arange(100).persist();
    EXPECT_EQ(of_b.chunks().count(), 4);
    {
      const RuntimeScope scope(a);
      EXPECT_EQ(&Runtime::current(), &a);
      EXPECT_EQ(ones({100}).chunks().count(), 10);
      EXPECT_EQ(sum(of_a).to_host().item<int64_t>(), 4950);
      {
        const RuntimeScope inner(b);
        EXPECT_EQ(ones({100}).chunks().count(), 4);
      }
      EXPECT_EQ(&Runtime::current(), &a);
    }
    EXPECT_EQ(&Runtime::current(), &b);
    EXPECT_EQ(sum(of_b).to_host().item<int64_t>(), 4950);
    EXPECT_EQ(a.internals().runs, 2u);
    EXPECT_EQ(b.internals().runs, 2u);
    EXPECT_THROW(sum(of_a).to_host(), local::InvalidArgument);
    EXPECT_EQ(a.internals().persisted, 1u);
    EXPECT_GT(a.statistics().tasks, b.statistics().tasks);
    // Another thread has no scope.
    std::jthread([&] { EXPECT_EQ(&Runtime::current(), &b); }).join();
  }
  EXPECT_EQ(&Runtime::current(), &a);
  EXPECT_EQ(ones({100}).chunks().count(), 10);
  EXPECT_EQ(sum(of_a).to_host().item<int64_t>(), 4950);
}

TEST(Runtimes, PassesAreSwitchedOffByOptionOrEnvironment) {
  const auto off = [](const RuntimeOptions& options) { return Runtime(options).internals().passes_off; };
  RuntimeOptions options = on_cpu();
  EXPECT_TRUE(off(options).empty());
  const Environment passes("QUARRY_PASSES", "-cse,-syrk");
  EXPECT_EQ(off(options), (plan::PassNames{"cse", "syrk"}));
  options.passes = "-fit";
  EXPECT_EQ(off(options), (plan::PassNames{"fit"}));
  options.passes = "-nonsense";
  EXPECT_THROW(Runtime{options}, local::InvalidArgument);
  const Environment wrong("QUARRY_PASSES", "-cse,-sirk");
  try {
    const Runtime refused(on_cpu());
    ADD_FAILURE();
  } catch (const local::InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("QUARRY_PASSES=-cse,-sirk: '-sirk' names no pass"));
  }
}

TEST(Runtime, CountsWhatWasReadAndWritten) {
  Runtime runtime(on_cpu());
  runtime.internals().read_bytes += 101;
  runtime.internals().written_bytes += 22;
  const RunStatistics total = runtime.total_statistics();
  EXPECT_EQ(total.read_bytes, 101);
  EXPECT_EQ(total.written_bytes, 22);
  EXPECT_EQ(total.communicated_bytes, 0);
}

}  // namespace
}  // namespace quarry
