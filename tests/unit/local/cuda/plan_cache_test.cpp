// The cache of plans with plans of its own, on machines without a GPU too; cuFFT's on those with one.
#include "quarry/local/cuda/plan_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "quarry/local/cuda/transform_plans.h"
#include "quarry/local/ops/fft/fft.h"
#include "tests/support/on_devices.h"

namespace quarry::local::cuda {
namespace {

std::atomic<int> alive{0};

struct TestPlan {
  explicit TestPlan(std::shared_ptr<std::atomic<bool>> idle) : idle_(std::move(idle)) { ++alive; }
  ~TestPlan() { --alive; }
  bool idle() const { return *idle_; }
  std::shared_ptr<std::atomic<bool>> idle_;
};
using Cache = PlanCache<int, TestPlan>;

TEST(PlanCache, MakesEachPlanOnceAndForgetsTheOldest) {
  Cache cache(3);
  const auto idle = std::make_shared<std::atomic<bool>>(true);
  const auto make = [&] { return std::make_unique<TestPlan>(idle); };
  for (const int key : {1, 2, 3, 1, 2}) cache.get(key, make);
  EXPECT_EQ(cache.made(), 3);
  cache.get(4, make);  // 3 goes
  EXPECT_EQ(cache.plans(), 3);
  EXPECT_EQ(alive, 3);
  for (const int key : {1, 2, 4}) cache.get(key, make);
  EXPECT_EQ(cache.made(), 4);
  cache.get(3, make);
  EXPECT_EQ(cache.made(), 5);
}

TEST(PlanCache, WhatADeviceStillUsesIsKeptWithoutAWait) {
  const int before = alive;
  Cache cache(1);
  const auto busy = std::make_shared<std::atomic<bool>>(false), idle = std::make_shared<std::atomic<bool>>(true);
  std::shared_ptr<TestPlan> held = cache.get(1, [&] { return std::make_unique<TestPlan>(busy); });
  cache.get(2, [&] { return std::make_unique<TestPlan>(idle); });
  EXPECT_EQ(cache.retired(), 0);  // a caller has it
  held.reset();
  EXPECT_EQ(cache.retired(), 1);
  EXPECT_EQ(alive, before + 2);
  cache.get(3, [&] { return std::make_unique<TestPlan>(idle); });
  EXPECT_EQ(cache.retired(), 1);
  *busy = true;
  cache.get(4, [&] { return std::make_unique<TestPlan>(idle); });
  EXPECT_EQ(cache.retired(), 0);
  EXPECT_EQ(alive, before + 1);
}

// A plan that takes long to make does not stop other keys, and is made once for all who wait for it.
TEST(PlanCache, MakingLocksItsKeyAlone) {
  Cache cache(8);
  const auto idle = std::make_shared<std::atomic<bool>>(true);
  std::promise<void> started, go;
  std::shared_future<void> gone = go.get_future().share();
  const auto slow = [&] {
    started.set_value();
    gone.wait();
    return std::make_unique<TestPlan>(idle);
  };
  auto first = std::async(std::launch::async, [&] { return cache.get(1, slow); });
  started.get_future().wait();
  auto same = std::async(std::launch::async, [&] { return cache.get(1, slow); });
  EXPECT_NE(cache.get(2, [&] { return std::make_unique<TestPlan>(idle); }), nullptr);
  EXPECT_EQ(cache.plans(), 2);
  go.set_value();
  EXPECT_EQ(first.get(), same.get());
  EXPECT_EQ(cache.made(), 2);
}

TEST(PlanCache, AFailureIsTriedAgain) {
  Cache cache(2);
  const auto idle = std::make_shared<std::atomic<bool>>(true);
  const auto fail = []() -> std::unique_ptr<TestPlan> { throw std::runtime_error("no plan"); };
  EXPECT_THROW(cache.get(1, fail), std::runtime_error);
  EXPECT_NE(cache.get(1, [&] { return std::make_unique<TestPlan>(idle); }), nullptr);
  EXPECT_EQ(cache.made(), 1);
}

TEST(PlanCache, ManyThreadsAndKeys) {
  const int before = alive;
  {
    Cache cache(5);
    const auto idle = std::make_shared<std::atomic<bool>>(true);
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 2000; ++i) {
          *idle = i % 7 != 0;
          EXPECT_NE(cache.get((i * (t + 1)) % 11, [&] { return std::make_unique<TestPlan>(idle); }), nullptr);
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(cache.plans(), 5);
  }
  EXPECT_EQ(alive, before);
}

// More plans than are kept, on two threads; results stay right, and what was forgotten is destroyed in the end.
TEST(TransformPlans, ManyLengthsFromTwoThreads) {
  if (!available(DeviceKind::cuda)) GTEST_SKIP() << "no device of kind cuda";
  const auto transform = [] {
    const DeviceScope scope(Device{DeviceKind::cuda, 0});
    for (int64_t n = 2; n < 160; ++n) {
      const NdArray x = test::arange({n}).astype(DType::float64);
      const auto sum = to_vector<std::complex<double>>(ops::fft::fft(x))[0];
      EXPECT_NEAR(sum.real(), static_cast<double>(n * (n - 1)) / 2, 1e-6) << n;
    }
  };
  std::thread other(transform);
  transform();
  other.join();
  EXPECT_LE(fft_plan_cache_use(0).plans, 64);
  EXPECT_GE(fft_plan_cache_use(0).made, 158);
  EXPECT_LE(fft_plan_cache_use(0).retired, 8);  // the last ones may be waiting
}

}  // namespace
}  // namespace quarry::local::cuda
