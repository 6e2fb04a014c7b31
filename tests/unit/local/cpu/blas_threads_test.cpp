// OpenBLAS's number of threads is the host program's before, between and after our calls, and 1 during them.
#include "quarry/local/cpu/blas_threads.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "quarry/local/local.h"

namespace quarry::local {
namespace {

// OpenBLAS's own functions, from the library that the CPU engine has loaded.
int blas_threads() {
  static const auto get = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  EXPECT_NE(get, nullptr);
  return get();
}
void set_blas_threads(int threads) {
  static const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  ASSERT_NE(set, nullptr);
  set(threads);
}

class BlasThreads : public testing::Test {
 protected:
  void SetUp() override {
    before_ = blas_threads();
    set_blas_threads(kHost);
    ASSERT_EQ(blas_threads(), kHost);
  }
  void TearDown() override { set_blas_threads(before_); }

  static constexpr int kHost = 3;
  int before_ = 1;
  std::jthread waiting_;
};

TEST_F(BlasThreads, IsOneDuringACall) {
  const cpu::OneThreadPerCall outer;
  EXPECT_EQ(blas_threads(), 1);
  {
    const cpu::OneThreadPerCall inner;
    EXPECT_EQ(blas_threads(), 1);
  }
  EXPECT_EQ(blas_threads(), 1);
}

TEST_F(BlasThreads, AreTheHostProgramsAfterEveryKindOfCall) {
  const NdArray a = reshape(arange(16), {4, 4}) + 10 * eye(4);
  static_cast<void>(matmul(a, a));
  EXPECT_EQ(blas_threads(), kHost);
  static_cast<void>(linalg::solve(a, a));
  EXPECT_EQ(blas_threads(), kHost);
  static_cast<void>(linalg::eigh(a));
  EXPECT_EQ(blas_threads(), kHost);
  static_cast<void>(linalg::svd(a));
  EXPECT_EQ(blas_threads(), kHost);
  EXPECT_THROW(static_cast<void>(linalg::cholesky(-a)), LinAlgError);
  EXPECT_EQ(blas_threads(), kHost);
}

TEST_F(BlasThreads, AreTheHostProgramsAfterCallsOfSeveralThreads) {
  const NdArray a = reshape(arange(64 * 64), {64, 64}) + 0.5;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&a] {
      for (int i = 0; i < 50; ++i) static_cast<void>(matmul(a, a));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(blas_threads(), kHost);
}

// Their number is the address space's: OpenBLAS itself would ask for ever.
TEST_F(BlasThreads, ShareTheBuffersThatTheAddressSpaceHas) {
  constexpr int kFew = 2, kMany = 64;
  { const cpu::OneThreadPerCall reserves(kFew); }
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit less{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{300} << 20), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &less), 0);
  {
    const cpu::OneThreadPerCall many(kMany);  // fewer than asked for, and one inside takes none
    EXPECT_GE(many.calls(), kFew);
    EXPECT_LT(many.calls(), kMany);
    const cpu::OneThreadPerCall inside(kMany);
    EXPECT_EQ(inside.calls(), many.calls());
    // Another thread's call waits for them.
    std::atomic<bool> done{false};
    std::jthread other;
    {
      const cpu::OneThreadPerCall all(kMany);
      other = std::jthread([&] {
        const cpu::OneThreadPerCall waits;
        done = true;
      });
      usleep(20'000);
      EXPECT_FALSE(done);
    }
    EXPECT_FALSE(done);
    waiting_ = std::move(other);
  }
  waiting_.join();
  // Units on as many threads as there are buffers, each with a scope of its own.
  std::atomic<int> units{0};
  cpu::for_each_blas_unit(kMany, 4, [&](int64_t, int) {
    const cpu::OneThreadPerCall inside;
    ++units;
  });
  EXPECT_EQ(units, kMany);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(blas_threads(), kHost);
}

}  // namespace
}  // namespace quarry::local
