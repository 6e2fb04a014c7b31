// Plans that are used again: for other arrays of the same form, never for another expression, and without holding data.
#include "quarry/chunked/runtime/plan_cache.h"

#include <gtest/gtest.h>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/local.h"
#include "quarry/scheduler/executor.h"
#include "tests/support/evaluate.h"
#include "tests/support/hdf5_file.h"
#include "tests/support/on_devices.h"
#include "tests/support/random_expressions.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using local::DType;

class KeptPlans : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  int64_t found() { return runtime_.internals().plans ? runtime_.internals().plans->found() : 0; }
  int64_t kept() { return runtime_.internals().plans->size(); }

  Runtime runtime_{testing::runtime_on(GetParam())};
};
QUARRY_ON_DEVICE_KINDS(KeptPlans);

NdArray numbers(const Dims& shape, int64_t seed) {
  return local::random::default_rng(seed).normal(0., 1., Ints(shape));
}

TEST_P(KeptPlans, StepsOfALoopArePlannedOnce) {
  const NdArray a = numbers({30, 30}, 1) * 0.1;
  NdArray expected = numbers({30}, 2);
  const Array matrix = Array::from_local(a).rechunk({8, 8}).persist();
  Array x = Array::from_local(expected).rechunk({8}).persist();
  for (int step = 0; step < 12; ++step) {
    const double factor = 1.0 / (step + 1);
    const Array next = matvec(matrix, x) * Array::from_local(local::from_vector<double>({factor}).reshape({})) + x;
    const Array total[] = {sum(next)}, keep[] = {next};
    const Settled settled = settle(total, keep);
    expected = local::matmul(a, expected) * factor + expected;
    x = settled.kept[0];
    EXPECT_TRUE(testing::close(x.to_host(), expected));
    EXPECT_NEAR(settled.values[0].item<double>(), local::sum(expected).item<double>(), 1e-9);
  }
  EXPECT_GE(found(), 10 + 10);  // of twelve steps, and their to_host()
}

// What was lowered, and what was bound to tasks that had been, since start_tracing().
struct Lowerings {
  int64_t lowered = 0, bound = 0;
};
Lowerings lowerings() {
  Lowerings found;
  for (const local::TraceEvent& event : local::stop_tracing()) {
    if (event.track != "plan") continue;
    found.lowered += event.name == "lower";
    found.bound += event.name == "bind";
  }
  return found;
}

TEST_P(KeptPlans, ShortStepsOfALoopAreLoweredOnce) {
  const bool on_cpu = GetParam() == local::DeviceKind::cpu;
  for (const int64_t chunks : {1, 3, 100}) {
    const int64_t n = 100;
    const Grid grid({AxisChunks(n, (n + chunks - 1) / chunks)});
    NdArray expected = numbers({n}, 7);
    Array x = Array::from_local(expected).rechunk(grid).persist();
    local::start_tracing();
    for (int step = 0; step < 12; ++step) {
      const NdArray factor = local::from_vector<double>({1.0 + step}).reshape({});
      const Array next = x * Array::from_local(factor) - sum(x);
      const Array total[] = {max(next)}, keep[] = {next};
      const Settled settled = settle(total, keep);
      x = settled.kept[0];
      expected = expected * factor - local::sum(expected);
      EXPECT_NEAR(settled.values[0].item<double>() / local::max(expected).item<double>(), 1, 1e-9);
    }
    const auto [lowered, bound] = lowerings();
    EXPECT_EQ(bound, on_cpu && chunks == 100 ? 0 : 10) << chunks;  // of many tasks of a CPU none are kept
    EXPECT_EQ(lowered + bound, 12);
    EXPECT_TRUE(testing::close(x.to_host(), expected));
  }
}

// What steps read may lie anywhere; a run that fails leaves steps that work.
TEST_P(KeptPlans, StepsReadArraysThatWereSpilled) {
  constexpr int64_t kArrays = 180, n = 50'000;
  std::vector<Array> arrays;
  for (int64_t i = 0; i < kArrays; ++i) arrays.push_back((arange(double(n)) + double(i)).rechunk({n / 4}).persist());
  EXPECT_GT(kArrays * n * 8, runtime_.executor().memory_budget().limit_bytes());
  const NdArray k = local::arange(double(n));
  local::start_tracing();
  for (int64_t i = 0; i + 1 < kArrays; ++i) {
    const Array value = sum(arrays[static_cast<size_t>(i)] * arrays[static_cast<size_t>(i + 1)]);
    if (i == 40) {
      runtime_.interrupt();
      EXPECT_THROW(static_cast<void>(value.to_host()), local::Cancelled);
    }
    EXPECT_EQ(value.item<double>(), local::sum((k + double(i)) * (k + double(i + 1))).item<double>()) << i;
  }
  // The first two steps, and what follows the one that failed, are lowered.
  EXPECT_EQ(lowerings().bound, kArrays - 1 - 2);
  EXPECT_GT(runtime_.statistics().restored_bytes, 0);
}

// Bases of any number of vectors are extended by a few forms of steps: each is planned at most twice.
TEST_P(KeptPlans, BasesOfIterativeMethodsHaveFewForms) {
  namespace solvers = sparse::linalg;
  const int64_t n = 400;
  const NdArray d = numbers({n}, 5), b = numbers({n}, 6);
  const Array factors = (Array::from_local(d).rechunk({90}) + 5.).persist();
  const solvers::LinearOperator a({n, n}, [=](const Array& x) { return x * factors; });
  for (const int64_t space : {30, 90}) {
    int64_t steps = 0;
    solvers::SolveOptions solve;
    solve.rtol = 0;
    solve.maxiter = 3;
    solve.callback = [&](const Array&) { ++steps; };
    int64_t before = runtime_.internals().plans ? runtime_.internals().plans->made() : 0;
    static_cast<void>(solvers::gmres(a, Array::from_local(b), solve, space));
    EXPECT_GT(steps, space + 20);
    EXPECT_LE(runtime_.internals().plans->made() - before, 50);

    before = runtime_.internals().plans->made();
    solvers::EigenOptions eigen;
    eigen.ncv = space;
    const NdArray values = solvers::eigsh(a, 5, eigen).values.to_host();
    EXPECT_TRUE(testing::close(values, local::sort(d + 5.)(local::slice(n - 5, n)), 1e-9, 1e-9));
    EXPECT_LE(runtime_.internals().plans->made() - before, 50);
  }
}

TEST_P(KeptPlans, PlacesOfArraysTellExpressionsApart) {
  const NdArray a = numbers({9, 9}, 3), b = numbers({9, 9}, 4);
  const Array x = Array::from_local(a).rechunk({4, 4}).persist(), y = Array::from_local(b).rechunk({4, 4}).persist();
  for (int times = 0; times < 3; ++times) {
    EXPECT_TRUE(testing::close((x - y).to_host(), a - b));
    EXPECT_TRUE(testing::close((x - x).to_host(), a - a));
    EXPECT_TRUE(testing::close((y - x).to_host(), b - a));
    EXPECT_TRUE(testing::close(matmul(x.T(), x).to_host(), local::matmul(a.T(), a)));  // reads x once
    EXPECT_TRUE(testing::close(matmul(x.T(), y).to_host(), local::matmul(a.T(), b)));
    EXPECT_TRUE(testing::close((x + y.rechunk({3, 9})).to_host(), a + b));
    EXPECT_TRUE(testing::close(sum(x * y, 0).to_host(), local::sum(a * b, 0)));
    EXPECT_TRUE(testing::close(sum(x * y, 1).to_host(), local::sum(a * b, 1)));
    EXPECT_TRUE(testing::close((x * 2. + y).to_host(), a * 2. + b));
    EXPECT_TRUE(testing::close((x * 3. + y).to_host(), a * 3. + b));
    const Array other = (times % 2 == 0 ? y : x).astype(DType::float32).persist();
    EXPECT_EQ((other + other).to_host().dtype(), DType::float32);
  }
  EXPECT_GT(found(), 9);
}

TEST_P(KeptPlans, ChunkPoliciesTellPlansApart) {
  const NdArray a = numbers({24, 24}, 3);
  const Array x = Array::from_local(a).persist();
  for (const int64_t bytes : {512, 512, 512, 64, 64, 64}) {
    const ChunkPolicyScope small({GetParam(), {}, bytes});
    const Array made = (x[{Slice{0, 20, std::nullopt}}] * ones({20, 24})).persist();
    EXPECT_TRUE(testing::close(made.to_host(), a[{Slice{0, 20, std::nullopt}}].copy()));
    EXPECT_TRUE(testing::close(matmul(x, x).to_host(), local::matmul(a, a)));
  }
}

TEST_P(KeptPlans, PrecisionsTellPlansApart) {
  const Array x = Array::from_local(numbers({24, 24}, 3).astype(DType::float32)).persist();
  std::vector<int64_t> made;
  for (const auto precision : {Precision::exact, Precision::tf32, Precision::bf16x3}) {
    const int64_t before = runtime_.internals().plans->made();
    for (int times = 0; times < 3; ++times) matmul(x, x, precision).persist();
    made.push_back(runtime_.internals().plans->made() - before);
  }
  EXPECT_GT(made[0], 0);
  EXPECT_EQ(made[1], made[0]);
  EXPECT_EQ(made[2], made[0]);
}

TEST_P(KeptPlans, HoldNoData) {
  const int64_t before = runtime_.executor().memory_budget().reserved_bytes();
  for (int step = 0; step < 4; ++step) {
    const Array x = (random::normal({1000, 100}).rechunk({100, 100})).persist();
    const Array y = (x * 2.).persist();
    EXPECT_GE(runtime_.executor().memory_budget().reserved_bytes(), before + 1600000);
  }
  EXPECT_GE(found(), 1);
  EXPECT_EQ(runtime_.executor().memory_budget().reserved_bytes(), before);
}

TEST_P(KeptPlans, ExpressionsThatComeOnceAreNotKept) {
  for (int step = 0; step < 5; ++step) static_cast<void>(sum(ones({10 + step})).to_host());
  EXPECT_EQ(kept(), 0);
  for (int step = 0; step < 200; ++step) {
    const Array x = ones({5}) + double(step % 50);
    EXPECT_EQ(sum(x).item<double>(), 5. + 5. * (step % 50));
  }
  EXPECT_EQ(kept(), 32);
}

// A run that fails leaves a plan that works.
TEST_P(KeptPlans, SurviveErrors) {
  BlockOptions options;
  options.name = "checked";
  options.identity = 77;
  options.dtypes = {DType::float64};
  const auto checked = [](const NdArray& part) {
    if (local::max(part).item<double>() > 9) throw local::InvalidArgument("too large");
    return part * 2.;
  };
  for (int step = 0; step < 6; ++step) {
    const NdArray values = local::arange(8.) + (step == 3 ? 5. : 0.);
    const Array x = Array::from_local(values).rechunk({4}).persist();
    const Array doubled = map_blocks(checked, x, {}, options);
    if (step == 3) {
      EXPECT_THROW(doubled.persist(), local::InvalidArgument);
    } else {
      EXPECT_TRUE(testing::close(doubled.to_host(), values * 2.));
    }
  }
  EXPECT_GE(found(), 3);
}

// Every kind of node, with the values of its arrays replaced.
TEST_P(KeptPlans, RandomExpressionsOfOtherArrays) {
  int64_t used = 0;
  for (uint64_t seed = 100; seed < 130; ++seed) {
    const testing::SmallChunks small(int64_t{1} << (5 + seed % 7));
    testing::Expressions expressions(seed);
    std::vector<Array> arrays = expressions.grow(static_cast<int>(4 + seed % 12));
    for (int step = 0; step < 4; ++step) {
      const int64_t before = found();
      const std::vector<NdArray> values = to_host(arrays);
      used += found() - before;
      for (size_t k = 0; k < arrays.size(); ++k)
        ASSERT_TRUE(testing::close(values[k], testing::evaluate(arrays[k].node()), 1e-3, 1e-3))
            << "seed " << seed << ", step " << step << ": " << expr::to_string(arrays[k].node(), 2000);
      std::vector<expr::NodePtr> nodes;
      for (const Array& array : arrays) nodes.push_back(array.node());
      nodes = expr::rewritten(nodes, [](const expr::NodePtr& node, std::span<const expr::NodePtr> arguments) {
        const auto* stored = node->as<expr::Stored>();
        if (stored == nullptr || !stored->array->replicated()) return expr::with_arguments(node, arguments);
        const NdArray& value = stored->array->value();
        return Array::from_local((value * local::Scalar(-1)).astype(value.dtype())).node();
      });
      for (size_t k = 0; k < arrays.size(); ++k) arrays[k] = Array(nodes[k]);
    }
  }
  EXPECT_GT(used, 20);
}

}  // namespace
}  // namespace quarry
