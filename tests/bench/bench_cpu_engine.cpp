// Rates of the CPU engine on one thread (and on all, where the name says so).
#include <benchmark/benchmark.h>

#include <vector>

#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/program/products.h"

namespace {

using namespace quarry::local;

ExecContext context(int threads) {
  ExecContext c;
  c.memory = &default_pool(kCpu);
  c.threads = threads;
  return c;
}

struct Case {
  Program program;
  Launch launch;
  std::vector<std::vector<double>> memory;
  double* array(int64_t n, double start = 0.5) {
    memory.emplace_back(static_cast<size_t>(2 * n));  // room for complex128
    for (int64_t i = 0; i < n; ++i)
      memory.back()[static_cast<size_t>(i)] = start + static_cast<double>(i % 1000) * 1e-3;
    return memory.back().data();
  }
};

void report(benchmark::State& state, const Case& c, int64_t bytes, int threads = 1) {
  for (auto _ : state) cpu_engine().run(c.program, c.launch, context(threads));
  state.SetBytesProcessed(state.iterations() * bytes);
}

void sum(benchmark::State& state) {
  const int64_t n = state.range(0);
  Case c;
  const ValueId x[] = {c.program.input(DType::float64)};
  c.program.reduce("sum"_reduction, x, DType::float64);
  c.launch.shape = {n};
  c.launch.inputs = {{c.array(n), {8}}};
  c.launch.reduce_axes = 1;
  c.launch.states = {{c.array(1), {0}}};
  report(state, c, n * 8);
}
BENCHMARK(sum)->Arg(16)->Arg(32 * 1024)->Arg(1 << 20);

void fold(benchmark::State& state, Reduction reduction, DType dtype) {
  const int64_t n = 32 * 1024;
  Case c;
  std::vector<ValueId> args = {c.program.input(dtype)};
  if (info(reduction).has_position) args.push_back(c.program.index(0));
  c.program.reduce(reduction, args, accumulate_dtype(reduction, dtype));
  c.launch.shape = {n};
  c.launch.inputs = {{c.array(n), {itemsize(dtype)}}};
  c.launch.reduce_axes = 1;
  for (size_t i = 0; i < state_dtypes(reduction, dtype).size(); ++i) c.launch.states.push_back({c.array(2), {0}});
  report(state, c, n * itemsize(dtype));
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK_CAPTURE(fold, min_float64, "min"_reduction, DType::float64);
BENCHMARK_CAPTURE(fold, argmax_float64, "argmax"_reduction, DType::float64);
BENCHMARK_CAPTURE(fold, any_float64, "any"_reduction, DType::float64);
BENCHMARK_CAPTURE(fold, count_nonzero_bool, "count_nonzero"_reduction, DType::bool_);
BENCHMARK_CAPTURE(fold, sum_int32, "sum"_reduction, DType::int32);
BENCHMARK_CAPTURE(fold, max_int8, "max"_reduction, DType::int8);
BENCHMARK_CAPTURE(fold, sum_float16, "sum"_reduction, DType::float16);
BENCHMARK_CAPTURE(fold, sum_complex128, "sum"_reduction, DType::complex128);
BENCHMARK_CAPTURE(fold, prod_float64, "prod"_reduction, DType::float64);

// Over axis 0 (down) or 1 (across) of rows x columns; the third argument says var instead of sum.
void sum_along(benchmark::State& state, int axis) {
  const int64_t rows = state.range(0), columns = state.range(1);
  const Reduction reduction = state.range(2) ? "var"_reduction : "sum"_reduction;
  Case c;
  const ValueId x[] = {c.program.input(DType::float64)};
  c.program.reduce(reduction, x, DType::float64);
  c.launch.shape = {rows, columns};
  c.launch.inputs = {{c.array(rows * columns), {8 * columns, 8}}};
  c.launch.reduce_axes = 1u << axis;
  const Dims strides = axis == 0 ? Dims{0, 8} : Dims{8, 0};
  for (size_t i = 0; i < state_dtypes(reduction, DType::float64).size(); ++i)
    c.launch.states.push_back({c.array(axis == 0 ? columns : rows), strides});
  report(state, c, rows * columns * 8);
}
BENCHMARK_CAPTURE(sum_along, down, 0)
    ->Args({512, 64, 0})
    ->Args({8192, 64, 0})
    ->Args({8192, 512, 0})
    ->Args({512, 64, 1})
    ->Args({8192, 64, 1})
    ->Args({100000, 3, 0});
BENCHMARK_CAPTURE(sum_along, across, 1)
    ->Args({512, 64, 0})
    ->Args({100000, 3, 0})
    ->Args({512, 512, 1})
    ->Args({512, 512, 0});

// mean(sqrt(x * x + 1) * exp(-x))
void mean_of_chain(benchmark::State& state) {
  const int64_t n = state.range(0);
  Case c;
  Program& p = c.program;
  const auto apply = [&](Op op, std::vector<ValueId> args) { return p.apply(op, args); };
  const ValueId x = p.input(DType::float64);
  const ValueId root =
      apply("sqrt"_op, {apply("add"_op, {apply("multiply"_op, {x, x}), p.constant(Scalar(1), DType::float64)})});
  const ValueId y[] = {apply("multiply"_op, {root, apply("exp"_op, {apply("negative"_op, {x})})})};
  p.reduce("mean"_reduction, y, DType::float64);
  c.launch.shape = {n};
  c.launch.inputs = {{c.array(n), {8}}};
  c.launch.reduce_axes = 1;
  c.launch.states = {{c.array(1), {0}}, {c.array(1), {0}}};
  report(state, c, n * 8);
}
BENCHMARK(mean_of_chain)->Arg(32 * 1024)->Arg(1 << 20);

// (x - mean) / std by columns
void standardise(benchmark::State& state) {
  const int64_t rows = state.range(0), columns = state.range(1);
  Case c;
  Program& p = c.program;
  const ValueId first[] = {p.input(DType::float64), p.input(DType::float64)};
  const ValueId second[] = {p.apply("subtract"_op, first), p.input(DType::float64)};
  p.output(p.apply("divide"_op, second));
  c.launch.shape = {rows, columns};
  c.launch.inputs = {
      {c.array(rows * columns), {8 * columns, 8}}, {c.array(columns), {0, 8}}, {c.array(columns), {0, 8}}};
  c.launch.outputs = {{c.array(rows * columns), {8 * columns, 8}}};
  report(state, c, rows * columns * 16);
}
BENCHMARK(standardise)->Args({512, 64})->Args({512, 512});

void transpose_add(benchmark::State& state) {
  const int64_t n = state.range(0);
  Case c;
  const ValueId args[] = {c.program.input(DType::float64), c.program.input(DType::float64)};
  c.program.output(c.program.apply("add"_op, args));
  c.launch.shape = {n, n};
  c.launch.inputs = {{c.array(n * n), {8 * n, 8}}, {c.array(n * n), {8, 8 * n}}};
  c.launch.outputs = {{c.array(n * n), {8 * n, 8}}};
  report(state, c, n * n * 24);
}
BENCHMARK(transpose_add)->Arg(512)->Arg(2048);

void unary(benchmark::State& state, Op op, DType dtype) {
  const int64_t n = 16384;
  Case c;
  const ValueId x[] = {c.program.cast(c.program.input(DType::float64), dtype)};
  c.program.output(c.program.apply(op, x));
  c.launch.shape = {n};
  c.launch.inputs = {{c.array(n), {8}}};
  c.launch.outputs = {{c.array(n), {itemsize(dtype)}}};
  report(state, c, n * 8);
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK_CAPTURE(unary, sqrt_float64, "sqrt"_op, DType::float64);
BENCHMARK_CAPTURE(unary, exp_float64, "exp"_op, DType::float64);
BENCHMARK_CAPTURE(unary, log_float64, "log"_op, DType::float64);
BENCHMARK_CAPTURE(unary, sin_float64, "sin"_op, DType::float64);
BENCHMARK_CAPTURE(unary, exp_float32, "exp"_op, DType::float32);
BENCHMARK_CAPTURE(unary, absolute_int32, "absolute"_op, DType::int32);
BENCHMARK_CAPTURE(unary, isnan_float64, "isnan"_op, DType::float64);
BENCHMARK_CAPTURE(unary, negative_float16, "negative"_op, DType::float16);

void random_normal(benchmark::State& state) {
  const int64_t n = 16384;
  Case c;
  Program& p = c.program;
  const ValueId args[] = {p.index(0), p.constant(Scalar(1), DType::uint64), p.constant(Scalar(2), DType::uint64)};
  p.output(p.apply(state.range(0) ? "random_normal"_op : "random_uniform"_op, args, DType::float64));
  c.launch.shape = {n};
  c.launch.outputs = {{c.array(n), {8}}};
  report(state, c, n * 8);
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(random_normal)->Arg(0)->Arg(1);

void small_call(benchmark::State& state) {
  Case c;
  const ValueId args[] = {c.program.input(DType::float64), c.program.input(DType::float64)};
  c.program.output(c.program.apply("add"_op, args));
  c.launch.shape = {16};
  c.launch.inputs = {{c.array(16), {8}}, {c.array(16), {8}}};
  c.launch.outputs = {{c.array(16), {8}}};
  report(state, c, 384);
}
BENCHMARK(small_call);

void syrk(benchmark::State& state) {
  const int64_t rows = state.range(0), columns = state.range(1);
  Case c;
  const MatrixView a{c.array(rows * columns), rows, columns, columns, 1};
  const MatrixView out{c.array(columns * columns), columns, columns, columns, 1};
  for (auto _ : state)
    cpu_engine().products().syrk({DType::float64, 1, a, 0, out}, context(static_cast<int>(state.range(2))));
  state.counters["flops"] =
      benchmark::Counter(static_cast<double>(rows * columns * columns), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(syrk)->Args({8192, 64, 1})->Args({8192, 512, 1})->Args({8192, 512, 0})->UseRealTime();

void gemm(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Case c;
  const MatrixView a{c.array(m * k), m, k, k, 1}, b{c.array(k * n), k, n, n, 1}, out{c.array(m * n), m, n, n, 1};
  for (auto _ : state)
    cpu_engine().products().gemm({DType::float64, 1, a, b, 0, out}, context(static_cast<int>(state.range(3))));
  state.counters["flops"] =
      benchmark::Counter(static_cast<double>(2 * m * n * k), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(gemm)->Args({1024, 1024, 1024, 1})->Args({1024, 1024, 1024, 0})->Args({8192, 10, 512, 1})->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
