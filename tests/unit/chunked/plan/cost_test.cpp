// What stages cost, and that planning costs what the plan's length says.
#include "quarry/chunked/plan/cost.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <limits>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/fft.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/sorting.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/program/op.h"
#include "tests/support/cpu_chunks.h"
#include "tests/support/memory_dataset.h"

namespace quarry::plan {
namespace {

using quarry::testing::MemoryDataset;

class Cost : public quarry::testing::CpuChunks {
 protected:
  static Array dataset(const Dims& shape, local::DType dtype = local::DType::float64) {
    return Array(expr::source(std::make_shared<MemoryDataset>("/x", shape, dtype, std::nullopt)));
  }
  static Plan plan_of(const Array& x) { return make_plan({x.node()}, {}); }
  // Units of a kind of work, over all stages.
  static double units(const Plan& plan, Work::Kind kind) {
    double sum = 0;
    for (const Stage& stage : plan.stages)
      for (const Work& work : work_of(stage))
        if (work.kind == kind) sum += work.units;
    return sum;
  }
  static double seconds(const Plan& plan, const Rates& rates) {
    double sum = 0;
    for (const Stage& stage : plan.stages) sum += seconds_of(stage, rates);
    return sum;
  }
};

TEST_F(Cost, ProductsAreCountedByTheirMultiplications) {
  const Array a = dataset({300, 70}), b = dataset({300, 50});
  const Plan product = plan_of(matmul(a.T(), b));
  EXPECT_EQ(units(product, Work::Kind::product), 300.0 * 70 * 50);
  EXPECT_EQ(units(plan_of(matmul(a.T(), a)), Work::Kind::product), 300.0 * 70 * 70 / 2);  // half of a symmetric result
  EXPECT_EQ(units(plan_of(matmul(dataset({0, 4}), dataset({4, 5}))), Work::Kind::product), 0);
}

TEST_F(Cost, FlopsAreThoseOfTheBook) {
  const auto flops = [](const Array& x) {
    double sum = 0;
    for (const Stage& stage : plan_of(x).stages) sum += matrix_flops(stage);
    return sum;
  };
  const auto expect_flops = [&](const Array& x, double expected) { EXPECT_NEAR(flops(x) / expected, 1, 1e-12); };
  const double n = 3000, cube = n * n * n;
  const Array square = dataset({3000, 3000}), tall = dataset({100000, 50});
  // By tiles they are the sums of those of tasks.
  expect_flops(linalg::cholesky(square), cube / 3);
  expect_flops(linalg::cholesky(square, /*upper=*/true), cube / 3);
  expect_flops(linalg::cholesky(dataset({3000, 3000}, local::DType::complex128)), 4 * cube / 3);
  expect_flops(linalg::lu(dataset({3000, 2000}), linalg::permute_l).second, 2000. * 2000 * (3000 - 2000 / 3.));
  expect_flops(linalg::lu(dataset({2000, 3000}), linalg::permute_l).second, 2000. * 2000 * (3000 - 2000 / 3.));
  expect_flops(linalg::solve(square, dataset({3000, 7})), 2 * cube / 3 + 2 * n * n * 7);
  expect_flops(linalg::solve(square, dataset({3000})), 2 * cube / 3 + 2 * n * n);
  expect_flops(linalg::solve_triangular(square, dataset({3000, 7})), n * n * 7);
  // Panels of the identity are solved whole from their own first row on.
  const double of_inverse = flops(linalg::inv(square)) / (2 * cube);
  EXPECT_GT(of_inverse, 1);
  EXPECT_LT(of_inverse, 1.05);
  expect_flops(linalg::qr(square).R, cube * 8 / 3);
  expect_flops(matmul(tall.T(), tall), 100000. * 50 * 50);
  expect_flops(matmul(tall, dataset({50, 20})), 2 * 100000. * 50 * 20);
  expect_flops(matmul(dataset({300, 70}, local::DType::complex64), dataset({70, 50}, local::DType::complex64)),
               4 * 2 * 300. * 70 * 50);
  // A stack of small matrices.
  EXPECT_DOUBLE_EQ(flops(linalg::cholesky(dataset({40, 6, 6}))), 40 * 6 * 6 * 6 / 3.);
  EXPECT_DOUBLE_EQ(flops(linalg::solve(dataset({40, 6, 6}), dataset({40, 6, 2}))), 40 * (2 * 216 / 3. + 2 * 36 * 2));
  for (const Array& none : {sum(square), sort(tall), linalg::cholesky(dataset({0, 0})), square + 1})
    EXPECT_EQ(flops(none), 0);
}

TEST_F(Cost, DecompositionsGrowWithTheThirdPower) {
  const auto of = [](int64_t n) { return units(plan_of(linalg::eigh(dataset({n, n})).eigenvalues), Work::Kind::call); };
  EXPECT_DOUBLE_EQ(of(3000) / of(300), 1000);
  EXPECT_EQ(of(3000), 27e9);
  // Solvers and factors too, of one chunk or of tiles; a system of one right-hand side is a factorisation.
  const auto call_of = [](const Array& x) { return units(plan_of(x), Work::Kind::call); };
  const auto square = [](int64_t n) { return dataset({n, n}); };
  EXPECT_DOUBLE_EQ(call_of(linalg::cholesky(square(3000))) / call_of(linalg::cholesky(square(300))), 1000);
  EXPECT_DOUBLE_EQ(
      call_of(linalg::solve(square(3000), square(3000))) / call_of(linalg::solve(square(300), square(300))), 1000);
  EXPECT_NEAR(call_of(linalg::solve(square(3000), dataset({3000}))) / 27e9, 1, 0.01);
  EXPECT_GT(call_of(linalg::inv(square(3000))) / call_of(linalg::inv(square(300))), 900);
  // Of a triangle each right-hand side costs its square.
  EXPECT_EQ(call_of(linalg::solve_triangular(square(300), dataset({300}))), 300.0 * 300);
  EXPECT_EQ(call_of(linalg::solve_triangular(square(300), dataset({300, 7}))), 300.0 * 300 * 7);
  // An estimate of a few seconds and not of none: the usual rate where nothing was measured.
  EXPECT_GT(seconds(plan_of(linalg::eigh(dataset({3000, 3000})).eigenvalues), {}), 1);
}

TEST_F(Cost, ElementwiseWorkHasEachFunctionOnce) {
  const Array x = dataset({1000, 10});
  std::vector<std::string> names;
  for (const Stage& stage : plan_of(sum(exp(x) + 1)).stages)
    for (const Work& work : work_of(stage))
      if (work.kind == Work::Kind::ufunc || work.kind == Work::Kind::reduction) {
        names.push_back(work.name());
        EXPECT_EQ(work.units, 10000) << work.name();
      }
  EXPECT_EQ(names, (std::vector<std::string>{"ufunc exp float64 float64", "ufunc add float64 float64",
                                             "reduction sum float64"}));
  EXPECT_EQ(units(plan_of(sum(x)), Work::Kind::read), 80000);
  EXPECT_EQ(units(plan_of(sum(dataset({0, 10}))), Work::Kind::read), 0);
}

TEST_F(Cost, MeasuredRatesCountAndOthersAreTheUsualOnes) {
  const Plan plan = plan_of(sum(exp(dataset({1000, 1000}))));
  Rates rates;
  const double usual = seconds(plan, rates);
  EXPECT_GT(usual, 0);
  rates.set("ufunc exp float64 float64", 1e-6);
  EXPECT_NEAR(seconds(plan, rates), usual + 1, 0.1);
  EXPECT_TRUE(rates.is_known("ufunc exp float64 float64"));
  EXPECT_FALSE(rates.is_known("ufunc exp float32 float32"));
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of this thread's processor, the least of three times: what else the machine does counts little.
double planning_seconds(int phases) {
  Array x = arange(1000.0);
  for (int i = 0; i < phases; ++i) x = x - mean(x);
  const Array total = sum(x);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const double begin = thread_seconds();
    make_plan({total.node()}, {});
    least = std::min(least, thread_seconds() - begin);
  }
  return least;
}

// Four times as many dependent means cost four to eight times the time, of a busy machine too; sixteen would be a
// square.
TEST_F(Cost, PlanningOfDependentPhasesGrowsWithTheirNumber) {
  EXPECT_LT(planning_seconds(1600), 12 * planning_seconds(400));
}

}  // namespace
}  // namespace quarry::plan
