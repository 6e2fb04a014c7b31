// OpenBLAS's number of threads is the host program's before, between and after our calls, and 1 during them.
#include "quarry/local/cpu/blas_threads.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>
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

}  // namespace
}  // namespace quarry::local
