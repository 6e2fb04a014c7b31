#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/program/engine.h"

namespace quarry::local {
namespace {

ExecContext context(int threads = 0) {
  ExecContext c;
  c.memory = &default_pool(kCpu);
  c.threads = threads;
  return c;
}

// Strides of a C-order array with some axes broadcast.
Dims strides_of(const Dims& shape, int64_t itemsize, uint32_t broadcast = 0) {
  Dims strides = Dims::filled(shape.size());
  int64_t step = itemsize;
  for (int d = shape.size() - 1; d >= 0; --d) {
    strides[d] = (broadcast >> d & 1u) ? 0 : step;
    if (!(broadcast >> d & 1u)) step *= shape[d];
  }
  return strides;
}

double value_at(int64_t i) { return static_cast<double>((i * 7919) % 1009) / 64.0 - 7.0; }

TEST(CpuEngine, ElementwiseChainWithBroadcastRow) {
  for (int64_t rows : {1, 3, 33, 1000})
    for (int64_t columns : {1, 2, 5, 64, 700, 3000}) {
      const Dims shape{rows, columns};
      std::vector<double> x(static_cast<size_t>(rows * columns)), mean(static_cast<size_t>(columns)), out(x.size(), -1);
      for (size_t i = 0; i < x.size(); ++i) x[i] = value_at(static_cast<int64_t>(i));
      for (size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<double>(i);
      Program p;
      const ValueId a = p.input(DType::float64), b = p.input(DType::float64);
      const ValueId ab[] = {a, b};
      const ValueId d = p.apply("subtract"_op, ab);
      const ValueId dd[] = {d, p.constant(Scalar(2.0), DType::float64)};
      p.output(p.apply("multiply"_op, dd));
      Launch launch;
      launch.shape = shape;
      launch.inputs = {{x.data(), strides_of(shape, 8)}, {mean.data(), strides_of(shape, 8, 1)}};
      launch.outputs = {{out.data(), strides_of(shape, 8)}};
      cpu_engine().run(p, launch, context());
      for (int64_t i = 0; i < rows * columns; ++i)
        ASSERT_EQ(out[static_cast<size_t>(i)], (value_at(i) - static_cast<double>(i % columns)) * 2.0)
            << rows << 'x' << columns << " at " << i;
    }
}

TEST(CpuEngine, TransposedOperandsAndNegativeStrides) {
  const int64_t rows = 75, columns = 130;
  std::vector<float> x(static_cast<size_t>(rows * columns)), y(x.size()), out(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i), y[i] = static_cast<float>(2 * i);
  Program p;
  const ValueId args[] = {p.input(DType::float32), p.input(DType::float32)};
  p.output(p.apply("add"_op, args));
  Launch launch;
  launch.shape = {rows, columns};
  launch.inputs = {{x.data(), {4, 4 * rows}}, {&y[static_cast<size_t>(rows * columns - 1)], {-4 * columns, -4}}};
  launch.outputs = {{out.data(), {4 * columns, 4}}};
  cpu_engine().run(p, launch, context());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      ASSERT_EQ(out[static_cast<size_t>(i * columns + j)],
                static_cast<float>(j * rows + i) + static_cast<float>(2 * (rows * columns - 1 - (i * columns + j))));
}

TEST(CpuEngine, InPlaceOutput) {
  std::vector<double> x(5000);
  std::iota(x.begin(), x.end(), 0.0);
  Program p;
  const ValueId a = p.input(DType::float64);
  const ValueId one = p.constant(Scalar(1), DType::float64);
  const ValueId first[] = {a, one};
  const ValueId sum = p.apply("add"_op, first);
  const ValueId second[] = {sum, a};
  std::vector<double> other(x.size());
  p.output(sum);
  p.output(p.apply("multiply"_op, second));
  Launch launch;
  launch.shape = {5000};
  launch.inputs = {{x.data(), {8}}};
  launch.outputs = {{x.data(), {8}}, {other.data(), {8}}};
  cpu_engine().run(p, launch, context());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(x[i], static_cast<double>(i + 1));
    ASSERT_EQ(other[i], static_cast<double>(i * (i + 1)));
  }
}

// Every subset of axes of a 3-d array, in several memory orders, against the plain definition.
TEST(CpuEngine, ReductionsOverAllAxisSubsets) {
  const Dims shape{7, 19, 45};
  std::vector<double> x(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < x.size(); ++i) x[i] = value_at(static_cast<int64_t>(i));
  const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
  for (const auto& order : orders)
    for (uint32_t mask = 0; mask < 8; ++mask) {
      Dims strides = Dims::filled(3);
      int64_t step = 8;
      for (int k = 2; k >= 0; --k) strides[order[k]] = step, step *= shape[order[k]];
      Program p;
      const ValueId v = p.input(DType::float64);
      const ValueId one[] = {v};
      const ValueId arg[] = {v, p.index(1)};
      p.reduce("sum"_reduction, one, DType::float64);
      p.reduce("var"_reduction, one, DType::float64);
      p.reduce("max"_reduction, one, DType::float64);
      p.reduce("argmin"_reduction, arg, DType::float64);
      p.reduce("mean"_reduction, one, DType::float64);
      const int64_t kept = [&] {
        int64_t n = 1;
        for (int d = 0; d < 3; ++d)
          if (!(mask >> d & 1u)) n *= shape[d];
        return n;
      }();
      const size_t k = static_cast<size_t>(kept);
      std::vector<double> sum(k), mean(k), m2(k), high(k), low(k), mean_sum(k);
      std::vector<int64_t> count(k), at(k), mean_count(k);
      const Dims out = strides_of(shape, 8, mask);
      Launch launch;
      launch.shape = shape;
      launch.index_offset = {0, 100, 0};
      launch.reduce_axes = mask;
      launch.inputs = {{x.data(), strides}};
      launch.states = {{sum.data(), out}, {count.data(), out},    {mean.data(), out},
                       {m2.data(), out},  {high.data(), out},     {low.data(), out},
                       {at.data(), out},  {mean_sum.data(), out}, {mean_count.data(), out}};
      cpu_engine().run(p, launch, context());
      std::vector<std::vector<double>> groups(k);
      std::vector<std::vector<int64_t>> places(k);
      for (int64_t i = 0; i < 7; ++i)
        for (int64_t j = 0; j < 19; ++j)
          for (int64_t l = 0; l < 45; ++l) {
            const size_t g = static_cast<size_t>((i * out[0] + j * out[1] + l * out[2]) / 8);
            groups[g].push_back(x[static_cast<size_t>((i * strides[0] + j * strides[1] + l * strides[2]) / 8)]);
            places[g].push_back(j + 100);
          }
      for (size_t g = 0; g < k; ++g) {
        const double n = static_cast<double>(groups[g].size());
        const double s = std::accumulate(groups[g].begin(), groups[g].end(), 0.0);
        double ss = 0;
        for (double value : groups[g]) ss += (value - s / n) * (value - s / n);
        const auto lowest = std::min_element(groups[g].begin(), groups[g].end());
        int64_t first = 1000;
        for (size_t i = 0; i < groups[g].size(); ++i)
          if (groups[g][i] == *lowest) first = std::min(first, places[g][i]);
        ASSERT_NEAR(sum[g], s, 1e-9);
        ASSERT_NEAR(mean_sum[g], s, 1e-9);
        ASSERT_EQ(count[g], static_cast<int64_t>(groups[g].size()));
        ASSERT_EQ(mean_count[g], count[g]);
        ASSERT_NEAR(mean[g], s / n, 1e-12);
        ASSERT_NEAR(m2[g], ss, 1e-8 * (1 + ss));
        ASSERT_EQ(high[g], *std::max_element(groups[g].begin(), groups[g].end()));
        ASSERT_EQ(low[g], *lowest);
        ASSERT_EQ(at[g], first) << "mask " << mask << " group " << g;
      }
    }
}

TEST(CpuEngine, LargeSumIsSplitAndThreadCountDoesNotMatter) {
  const int64_t n = 3000001;
  std::vector<double> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = value_at(i) * 1e-3;
  double results[2];
  int k = 0;
  for (int threads : {1, 4}) {
    Program p;
    const ValueId one[] = {p.input(DType::float64)};
    p.reduce("sum"_reduction, one, DType::float64);
    Launch launch;
    launch.shape = {n};
    launch.inputs = {{x.data(), {8}}};
    launch.reduce_axes = 1;
    launch.states = {{&results[k++], {0}}};
    cpu_engine().run(p, launch, context(threads));
  }
  long double exact = 0;
  for (double v : x) exact += v;
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NEAR(results[0], static_cast<double>(exact), 1e-12 * std::abs(static_cast<double>(exact)) + 1e-9);
}

TEST(CpuEngine, EmptyReductionGivesIdentities) {
  Program p;
  const ValueId v = p.input(DType::float32);
  const ValueId one[] = {v};
  const ValueId arg[] = {v, p.index(0)};
  p.reduce("prod"_reduction, one, DType::float32);
  p.reduce("min"_reduction, one, DType::float32);
  p.reduce("argmax"_reduction, arg, DType::float32);
  float prod[3], low[3], high[3];
  int64_t at[3];
  Launch launch;
  launch.shape = {0, 3};
  launch.inputs = {{nullptr, {12, 4}}};
  launch.reduce_axes = 1;
  launch.states = {{prod, {0, 4}}, {low, {0, 4}}, {high, {0, 4}}, {at, {0, 8}}};
  cpu_engine().run(p, launch, context());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(prod[i], 1.0f);
    EXPECT_EQ(low[i], std::numeric_limits<float>::infinity());
    EXPECT_EQ(at[i], -1);
  }
}

}  // namespace
}  // namespace quarry::local
