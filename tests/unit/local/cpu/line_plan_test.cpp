#include "quarry/local/cpu/line_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <thread>
#include <vector>

#include "quarry/local/cpu/short_plan.h"
#include "quarry/local/cpu/transforms.h"

namespace quarry::local::cpu {
namespace {

TEST(LinePlan, RootsOfUnity) {
  for (const int64_t n : {1, 2, 3, 4, 7, 8, 12, 100, 1009, 65536}) {
    for (int64_t k = 0; k < n; ++k) {
      const long double angle =
          2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / static_cast<long double>(n);
      const std::complex<double> root = unit_root(k, n);
      ASSERT_NEAR(root.real(), static_cast<double>(std::cos(angle)), 0x1.8p-53) << k << " of " << n;
      ASSERT_NEAR(root.imag(), static_cast<double>(std::sin(angle)), 0x1.8p-53) << k << " of " << n;
    }
  }
  EXPECT_EQ(unit_root(1, 4), std::complex<double>(0, 1));
  EXPECT_EQ(unit_root(2, 4), std::complex<double>(-1, 0));
}

TEST(LinePlan, PlansAreKeptUpToABound) {
  const auto plan = line_plan(TransformKind::complex, DType::float64, false, 1200);
  const int64_t made = line_plan_cache_use().made;
  EXPECT_EQ(line_plan(TransformKind::complex, DType::float64, false, 1200), plan);
  // Real transforms have one direction.
  EXPECT_EQ(line_plan(TransformKind::real_to_half, DType::float32, false, 12),
            line_plan(TransformKind::real_to_half, DType::float32, true, 12));
  EXPECT_EQ(line_plan_cache_use().made, made + 1);
  EXPECT_NE(line_plan(TransformKind::complex, DType::float64, true, 1200), plan);
  EXPECT_NE(line_plan(TransformKind::complex, DType::float32, false, 1200), plan);
  for (int64_t n = 1; n <= 400; ++n) line_plan(TransformKind::complex, DType::float32, false, n);
  EXPECT_LE(line_plan_cache_use().plans, 128);
  EXPECT_GE(line_plan_cache_use().plans, 64);
  // A plan in use outlives the cache's.
  EXPECT_NE(line_plan(TransformKind::complex, DType::float64, false, 1200), plan);
  std::vector<std::complex<double>> x(1200, 1), y(1200);
  plan->execute({reinterpret_cast<char*>(x.data()), 0}, {reinterpret_cast<char*>(y.data()), 0}, 1, nullptr, 1);
  EXPECT_EQ(y[0], std::complex<double>(1200, 0));
}

TEST(LinePlan, FromSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(6, 0);
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t n = 1; n <= 300; ++n) {
        const auto plan = line_plan(TransformKind::complex, DType::float64, t % 2 == 0, n);
        std::vector<std::complex<double>> x(static_cast<size_t>(n), 1), y(static_cast<size_t>(n));
        std::vector<char> scratch(static_cast<size_t>(plan->scratch_bytes(1) + 1));
        plan->execute({reinterpret_cast<char*>(x.data()), 0}, {reinterpret_cast<char*>(y.data()), 0}, 1, scratch.data(),
                      1);
        if (std::abs(y[0] - static_cast<double>(n)) > 1e-12 * static_cast<double>(n)) ++wrong[static_cast<size_t>(t)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

// The code that serves where FFTW is not, against FFTW.
TEST(LinePlan, PlainPlansAgree) {
  for (const TransformKind kind : {TransformKind::complex, TransformKind::real_to_half, TransformKind::half_to_real}) {
    for (const bool inverse : {false, true}) {
      for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 30, 61, 64, 77, 100, 128, 360, 1024}) {
        std::vector<std::complex<double>> x(static_cast<size_t>(n)), y(x.size()), z(x.size());
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = {std::sin(1 + static_cast<double>(i)), std::cos(static_cast<double>(i * i))};
        const auto run = [&](const LinePlan& plan, std::vector<std::complex<double>>& to) {
          std::vector<std::complex<double>> from = x, scratch(static_cast<size_t>(plan.scratch_bytes(1) / 16 + 1));
          plan.execute({reinterpret_cast<char*>(from.data()), 0}, {reinterpret_cast<char*>(to.data()), 0}, 1,
                       reinterpret_cast<char*>(scratch.data()), 1);
        };
        run(*short_plan(kind, DType::float64, inverse, n), y);
        run(*plain_plan(kind, DType::float64, inverse, n), z);
        for (size_t i = 0; i < x.size(); ++i)
          ASSERT_NEAR(std::abs(y[i] - z[i]), 0, 1e-14 * static_cast<double>(n)) << n << ' ' << i;
      }
    }
  }
}

// More threads or none: the same bits.
TEST(CpuTransforms, ThreadsDoNotChangeBits) {
  const int64_t rows = 300, columns = 257;
  std::vector<std::complex<double>> x(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = {std::sin(static_cast<double>(i)), std::cos(3.0 * static_cast<double>(i))};
  const auto run = [&](int threads) {
    std::vector<std::complex<double>> y(x.size());
    Transform t;
    t.shape = t.input_shape = {rows, columns};
    t.axes = {0, 1};
    const Dims strides{columns * 16, 16};
    t.input = {x.data(), strides};
    t.output = {y.data(), strides};
    ExecContext context = default_context(kCpu);
    context.threads = threads;
    cpu_transforms().transform(t, context);
    return y;
  };
  EXPECT_EQ(run(1), run(0));
}

}  // namespace
}  // namespace quarry::local::cpu
