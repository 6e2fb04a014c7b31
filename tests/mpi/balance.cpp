// Idle ranks compute chunks of slow ones: faster, with the same bits, every chunk once.
#include "quarry/chunked/exec/stealing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/runtime/runtime.h"
#include "tests/support/mpi_job.h"

namespace quarry {
namespace {

using test::job;

constexpr int64_t kRows = 16384, kColumns = 64, kChunkRows = 256;  // 64 chunks of 128 KiB
constexpr int64_t kBytes = kRows * kColumns * int64_t{sizeof(double)};
constexpr double kSlowSeconds = 1.2;  // that a slow rank takes for its share
// On a busy machine the other ranks may be late to help: tests of help try again with a rank three times as slow.
constexpr double kSlowest = 9 * kSlowSeconds;
constexpr double kVerySlowSeconds = 20, kMostSeconds = 15;  // of runs that end before

using Expression = std::function<Array(const Array&)>;

struct Fault {
  int rank = -1;
  const char* variable = nullptr;
  int64_t value = 0;
};

struct Outcome {
  std::vector<std::byte> value;
  double seconds = 0;
  RunStatistics own, total;
};

RuntimeOptions options(const std::string& balance, local::DeviceKind kind = local::DeviceKind::cpu) {
  RuntimeOptions options;
  options.device = kind;
  options.memory = "64MiB";
  options.host_memory = "32MiB";
  options.threads = 1;
  options.balance = balance;
  options.chunks = Dims{kChunkRows, kColumns};
  return options;
}

bool on_all_ranks(bool here) {
  int64_t value = here ? 1 : 0;
  job().all_reduce(std::span(&value, 1), comm::ReduceOp::min);
  return value != 0;
}

class Balanced : public testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    path_ = job().broadcast_string(
        (std::filesystem::temp_directory_path() / fmt::format("quarry_balance_{}.h5", getpid())).string(), 0);
    const Runtime runtime(options("off", GetParam()));
    random::seed(7);
    store(path_, {{"/x", random::normal({kRows, kColumns})}});
  }
  void TearDown() override {
    job().barrier();
    if (job().rank() == 0) std::filesystem::remove(path_);
  }

  Outcome compute(const Expression& expression, const RuntimeOptions& how, const Fault& fault = {}) {
    Runtime runtime(how);
    if (fault.rank == job().rank()) setenv(fault.variable, std::to_string(fault.value).c_str(), /*overwrite=*/1);
    const Array x = open_hdf5(path_, "/x");
    if (fault.rank == job().rank()) unsetenv(fault.variable);
    Outcome outcome;
    job().barrier();
    const auto begin = std::chrono::steady_clock::now();
    const NdArray value = expression(x).to_host();
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto* data = static_cast<const std::byte*>(value.raw());
    outcome.value.assign(data, data + value.nbytes());
    outcome.own = runtime.statistics();
    outcome.total = runtime.total_statistics();
    return outcome;
  }

  // Reading a rank's share takes `seconds`; on one rank there is nothing to see.
  static Fault slow(int rank, double seconds = kSlowSeconds) {
    if (job().size() == 1) return {};
    const int readers = GetParam() == local::DeviceKind::cpu ? 1 : 2;  // threads
    return {rank, "QUARRY_FAULT_READ_RATE",
            static_cast<int64_t>(static_cast<double>(kBytes) / job().size() / readers / seconds)};
  }

  std::string path_;
};

TEST_P(Balanced, ASlowRankIsHelpedWithoutChangingBits) {
  const std::vector<Expression> expressions{
      [](const Array& x) { return sum(x * x + x); }, [](const Array& x) { return mean(x, 0); },
      [](const Array& x) { return var(x, 0); },
      [](const Array& x) { return sum((x - mean(x, 0)) * 0.5, 0); },  // what all chunks read is on every rank
  };
  for (size_t e = 0; e < expressions.size(); ++e) {
    SCOPED_TRACE(e);
    const Outcome alone = compute(expressions[e], options("off", GetParam()));
    EXPECT_EQ(alone.total.stolen_chunks, 0);
    bool was_helped = false;
    for (double seconds = kSlowSeconds; seconds <= kSlowest && !was_helped; seconds *= 3) {
      const Outcome helped = compute(expressions[e], options("on", GetParam()), slow(job().size() - 1, seconds));
      EXPECT_EQ(alone.value, helped.value);
      // Every chunk was read once.
      EXPECT_EQ(alone.total.read_bytes, helped.total.read_bytes);
      EXPECT_GE(helped.total.read_bytes, kBytes);
      if (job().size() == 1) {
        EXPECT_EQ(helped.total.stolen_chunks, 0);
        break;
      }
      const bool slow_one = job().rank() == job().size() - 1;
      const bool read_less = !slow_one || helped.own.read_bytes < alone.own.read_bytes / 2 + kBytes / 64;
      was_helped = on_all_ranks(helped.total.stolen_chunks > 0 && read_less);
    }
    EXPECT_EQ(was_helped, job().size() > 1);
  }
}

TEST_P(Balanced, TheTimeFalls) {
  if (job().size() == 1) return;
  const Expression total = [](const Array& x) { return sum(x, 0); };
  bool fell = false;
  for (double seconds = kSlowSeconds; seconds <= kSlowest && !fell; seconds *= 3) {
    const Outcome alone = compute(total, options("off", GetParam()), slow(0, seconds));
    const Outcome helped = compute(total, options("on", GetParam()), slow(0, seconds));
    EXPECT_EQ(alone.value, helped.value);
    EXPECT_GT(alone.seconds, 0.9 * seconds);
    fell = on_all_ranks(helped.seconds < 0.6 * alone.seconds);
  }
  EXPECT_TRUE(fell);
}

TEST_P(Balanced, MoreRanksThanChunks) {
  const Expression total = [](const Array& x) { return mean(x, 0); };
  for (const int64_t rows : {kRows, kRows / 2, kRows / 3 + 1}) {
    RuntimeOptions few = options("off", GetParam());
    few.chunks = Dims{rows, kColumns};
    const Outcome alone = compute(total, few);
    few.balance = "on";
    const Outcome helped = compute(total, few, slow(0, kSlowSeconds / 8));
    EXPECT_EQ(alone.value, helped.value);
    EXPECT_EQ(alone.total.read_bytes, helped.total.read_bytes);
  }
}

TEST_P(Balanced, TheLeastBudgetIsTheSame) {
  if (GetParam() != local::DeviceKind::cpu) return;  // there, staging memory has a budget of its own
  const Expression total = [](const Array& x) { return mean(x, 0); };
  const Outcome alone = compute(total, options("off", GetParam()));
  const auto least = [&](RuntimeOptions how) {
    how.memory = "128KiB";
    try {
      compute(total, how);
    } catch (const local::BudgetError& error) {
      return error.least_bytes();
    }
    return int64_t{0};
  };
  const int64_t bytes = least(options("on", GetParam()));
  EXPECT_EQ(bytes, least(options("off", GetParam())));
  ASSERT_GT(bytes, 0);
  for (const int64_t more : {int64_t{0}, int64_t{1} << 10, bytes / 8}) {
    RuntimeOptions tight = options("on", GetParam());
    tight.memory = std::to_string(bytes + more);
    EXPECT_EQ(compute(total, tight, slow(0, kSlowSeconds / 4)).value, alone.value);
  }
}

TEST_P(Balanced, WhatFailsForAnotherRankFailsTheRun) {
  if (job().size() == 1) return;
  // Rank 1 reads its own chunks and fails at the first of another rank; all others take long.
  Runtime runtime(options("on", GetParam()));
  const Fault fault =
      job().rank() == 1 ? Fault{1, "QUARRY_FAULT_READ_BYTES", kBytes / job().size() - 1} : slow(0, kVerySlowSeconds);
  setenv(fault.variable, std::to_string(fault.value).c_str(), /*overwrite=*/1);
  const Array x = open_hdf5(path_, "/x");
  unsetenv(fault.variable);
  const auto begin = std::chrono::steady_clock::now();
  try {
    sum(x, 0).to_host();
    ADD_FAILURE() << "no error";
  } catch (const local::IoError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("a fault of the test"), testing::HasSubstr("[rank 1]")));
  }
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), kMostSeconds);
  // The next run is none the worse.
  const Array again = random::normal({1000});
  EXPECT_TRUE(std::isfinite(*static_cast<const double*>(sum(again).to_host().raw())));
}

TEST_P(Balanced, AnInterruptEndsHelping) {
  if (job().size() == 1) return;
  Runtime runtime(options("on", GetParam()));
  const Fault slowed = slow(0, kVerySlowSeconds);
  setenv(slowed.variable, std::to_string(slowed.value).c_str(), 1);  // all ranks are slow
  const Array x = open_hdf5(path_, "/x");
  unsetenv(slowed.variable);
  std::jthread signal;
  if (job().rank() == job().size() - 1) {
    signal = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      runtime.interrupt();
    });
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(sum(x, 0).to_host(), local::Cancelled);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), kMostSeconds);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Balanced, testing::Values(local::DeviceKind::cpu, local::DeviceKind::emulated),
                         [](const auto& kind) { return std::string(local::name(kind.param)); });

TEST(Balance, TheSwitchIsTheSameOnAllRanks) {
  EXPECT_THROW(Runtime{options("perhaps")}, local::InvalidArgument);
  if (job().size() == 1) return;
  EXPECT_THROW(Runtime{options(job().rank() == 0 ? "on" : "off")}, local::InvalidArgument);
}

}  // namespace
}  // namespace quarry
