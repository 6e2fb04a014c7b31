// Rates of the GPU engine against the ceilings of the same run. usage: bench_gpu [--quick] [--json FILE] [name-part
// ...]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/program/decompositions.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/products.h"
#include "quarry/local/program/program.h"

using namespace quarry::local;

namespace {

constexpr Device kGpu{DeviceKind::cuda, 0};

struct Bench {
  ExecContext gpu;
  bool quick = false;
  std::vector<std::string> wanted;
  std::FILE* json = nullptr;
  double copy_rate = 0;  // bytes/s read + written by the device's own copy

  // Median seconds of one call, from batches long enough to time on the host.
  double time(const std::function<void()>& call) {
    call();
    gpu.stream->synchronize();
    using Clock = std::chrono::steady_clock;
    const auto batch = [&](int repeats) {
      const auto begin = Clock::now();
      for (int i = 0; i < repeats; ++i) call();
      gpu.stream->synchronize();
      return std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
    };
    const double once = batch(1);
    const int repeats = std::clamp(static_cast<int>((quick ? 0.01 : 0.03) / std::max(once, 1e-6)), 1, 1000);
    std::vector<double> times;
    for (int i = 0; i < (quick ? 3 : 7); ++i) times.push_back(batch(repeats));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
  bool wants(const std::string& name) const {
    return wanted.empty() || std::any_of(wanted.begin(), wanted.end(),
                                         [&](const std::string& part) { return name.find(part) != std::string::npos; });
  }
  void report(const std::string& name, double seconds, double amount, const char* unit, double ceiling) {
    const double rate = amount / seconds / 1e12;
    const std::string share = ceiling > 0 ? fmt::format("{:5.1f} %", 100 * amount / seconds / ceiling) : "";
    fmt::print("{:<44} {:>10.3f} ms {:>9.3f} {} {}\n", name, seconds * 1e3, rate, unit, share);
    std::fflush(stdout);
    if (json != nullptr)
      fmt::print(json, "{{\"name\": \"{}\", \"seconds\": {:.9g}, \"rate\": {:.6g}, \"unit\": \"{}\"}}\n", name, seconds,
                 rate, unit);
  }
  void bytes(const std::string& name, double moved, const std::function<void()>& call) {
    if (wants(name)) report(name, time(call), moved, "TB/s", copy_rate);
  }
  void flops(const std::string& name, double operations, const std::function<void()>& call) {
    if (wants(name)) report(name, time(call), operations, "TFLOP/s", 0);
  }
};

class Array {
 public:
  Array(const Bench& bench, DType dtype, const Dims& shape, const std::optional<Dims>& strides = std::nullopt)
      : buffer_(element_count(shape) * itemsize(dtype), *bench.gpu.memory, bench.gpu.stream),
        operand_{buffer_.data(), strides.value_or(contiguous_strides(shape, itemsize(dtype)))} {}
  const Operand& operand() const { return operand_; }
  void* data() const { return buffer_.data(); }

 private:
  Buffer buffer_;
  Operand operand_;
};

// Uniform numbers in [0, 1).
void fill_random(const Bench& bench, const Array& array, DType dtype, int64_t n, uint64_t seed) {
  Program program;
  const DType drawn = dtype == DType::float64 ? DType::float64 : DType::float32;
  const std::array args = {program.index(0), program.constant(Scalar(seed), DType::uint64),
                           program.constant(Scalar(0), DType::uint64)};
  program.output(program.cast(program.apply("random_uniform"_op, args, drawn), dtype));
  engine(kGpu).run(program,
                   {.shape = Dims{n},
                    .index_offset = {},
                    .inputs = {},
                    .outputs = {{array.data(), Dims{itemsize(dtype)}}},
                    .states = {}},
                   bench.gpu);
}

Launch elementwise(const Dims& shape, std::vector<Operand> inputs, const Operand& output) {
  Launch launch;
  launch.shape = shape;
  launch.inputs = std::move(inputs);
  launch.outputs = {output};
  return launch;
}

void ceilings(Bench& b, int64_t n) {
  const Array x(b, DType::float64, Dims{n}), y(b, DType::float64, Dims{n});
  const double bytes = static_cast<double>(n) * 16;
  fill_random(b, x, DType::float64, n, 1);
  Program copy;
  copy.output(copy.input(DType::float64));
  const Launch launch = elementwise(Dims{n}, {x.operand()}, y.operand());
  const double kernel = b.time([&] { engine(kGpu).run(copy, launch, b.gpu); });
  const double driver = b.time([&] { b.gpu.stream->copy(y.data(), x.data(), n * 8); });
  b.copy_rate = bytes / std::min(kernel, driver);
  b.report("ceiling: device copy by the driver", driver, bytes, "TB/s", b.copy_rate);
  b.report("copy float64", kernel, bytes, "TB/s", b.copy_rate);

  Backend& gpu = backend(DeviceKind::cuda);
  const int64_t host_bytes = b.quick ? int64_t{256} << 20 : int64_t{1} << 30;
  void* const host = gpu.allocate_pinned(host_bytes);
  std::memset(host, 1, static_cast<size_t>(host_bytes));
  const double in = b.time([&] { b.gpu.stream->copy(x.data(), host, host_bytes); });
  b.report("ceiling: pinned host to device", in, static_cast<double>(host_bytes), "TB/s", 0);
  const double out = b.time([&] { b.gpu.stream->copy(host, x.data(), host_bytes); });
  b.report("ceiling: device to pinned host", out, static_cast<double>(host_bytes), "TB/s", 0);
  gpu.free_pinned(host, host_bytes);
}

void elementwise_rates(Bench& b, int64_t n) {
  struct Unary {
    const char* name;
    Op op;
    DType dtype;
  };
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::uint8}) {
    const double size = static_cast<double>(itemsize(dtype));
    const Array x(b, dtype, Dims{n}), y(b, dtype, Dims{n}), z(b, dtype, Dims{n});
    fill_random(b, x, dtype, n, 1);
    fill_random(b, y, dtype, n, 2);
    Program add;
    const ValueId p = add.input(dtype), q = add.input(dtype);
    add.output(add.apply("add"_op, std::array{p, q}));
    const Launch launch = elementwise(Dims{n}, {x.operand(), y.operand()}, z.operand());
    b.bytes(fmt::format("add {}", name(dtype)), 3 * size * static_cast<double>(n),
            [&] { engine(kGpu).run(add, launch, b.gpu); });
    if (dtype != DType::float64 && dtype != DType::float32) continue;
    for (const Op op : {"exp"_op, "sin"_op, "log"_op, "tanh"_op}) {
      Program program;
      program.output(program.apply(op, std::array{program.input(dtype)}));
      const Launch one = elementwise(Dims{n}, {x.operand()}, z.operand());
      b.bytes(fmt::format("{} {}", info(op).name, name(dtype)), 2 * size * static_cast<double>(n),
              [&] { engine(kGpu).run(program, one, b.gpu); });
    }
  }
  const int64_t side = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  const Dims shape{side, side};
  const double square = 8.0 * static_cast<double>(side * side);
  const Array x(b, DType::float64, shape), z(b, DType::float64, shape), row(b, DType::float64, Dims{side});
  fill_random(b, x, DType::float64, side * side, 1);
  fill_random(b, row, DType::float64, side, 2);
  Program add, copy;
  const ValueId p = add.input(DType::float64), q = add.input(DType::float64);
  add.output(add.apply("add"_op, std::array{p, q}));
  copy.output(copy.input(DType::float64));
  const auto run = [&](const std::string& name, double bytes, const Program& program, const Launch& launch) {
    b.bytes(name, bytes, [&] { engine(kGpu).run(program, launch, b.gpu); });
  };
  run("add a row, float64", 2 * square, add, elementwise(shape, {x.operand(), {row.data(), Dims{0, 8}}}, z.operand()));
  run("add a column, float64", 2 * square, add,
      elementwise(shape, {x.operand(), {row.data(), Dims{8, 0}}}, z.operand()));
  run("transpose float64", 2 * square, copy, elementwise(shape, {{x.data(), Dims{8, 8 * side}}}, z.operand()));
  run("x + x.T float64", 3 * square, add,
      elementwise(shape, {x.operand(), {x.data(), Dims{8, 8 * side}}}, z.operand()));
  const int64_t edge = static_cast<int64_t>(std::cbrt(static_cast<double>(side * side)));
  run("transpose (2, 1, 0) float64", 16.0 * static_cast<double>(edge * edge * edge), copy,
      elementwise(Dims{edge, edge, edge}, {{x.data(), Dims{8, 8 * edge, 8 * edge * edge}}},
                  {z.data(), Dims{8 * edge * edge, 8 * edge, 8}}));
  run("every second element float64", 8.0 * 1.5 * static_cast<double>(side * side), copy,
      elementwise(Dims{side * side / 2}, {{x.data(), Dims{16}}}, {z.data(), Dims{8}}));

  const int64_t few = 1000;
  const Launch small = elementwise(Dims{few}, {{x.data(), Dims{8}}, {row.data(), Dims{8}}}, {z.data(), Dims{8}});
  if (b.wants("small add")) {
    const double seconds = b.time([&] { engine(kGpu).run(add, small, b.gpu); });
    fmt::print("{:<44} {:>10.3f} us per call\n", "small add float64 (1000)", seconds * 1e6);
    if (b.json != nullptr)
      fmt::print(b.json, "{{\"name\": \"small add float64 (1000)\", \"seconds\": {:.9g}}}\n", seconds);
  }
  Program normal;
  const std::array args = {normal.index(0), normal.constant(Scalar(1), DType::uint64),
                           normal.constant(Scalar(0), DType::uint64)};
  normal.output(normal.apply("random_normal"_op, args, DType::float32));
  const Launch draw = elementwise(Dims{n}, {}, {x.data(), Dims{4}});
  b.bytes("standard normal float32", 4.0 * static_cast<double>(n), [&] { engine(kGpu).run(normal, draw, b.gpu); });
}

void fused(Bench& b, int64_t n) {
  const Array x(b, DType::float64, Dims{n}), y(b, DType::float64, Dims{n}), z(b, DType::float64, Dims{n});
  fill_random(b, x, DType::float64, n, 1);
  fill_random(b, y, DType::float64, n, 2);
  Program program;
  const ValueId p = program.input(DType::float64), q = program.input(DType::float64);
  const ValueId squares = program.apply("add"_op, std::array{program.apply("multiply"_op, std::array{p, p}),
                                                             program.apply("multiply"_op, std::array{q, q})});
  program.output(program.apply("add"_op, std::array{program.apply("sqrt"_op, std::array{squares}), p}));
  const Launch launch = elementwise(Dims{n}, {x.operand(), y.operand()}, z.operand());
  b.bytes("fused sqrt(x*x+y*y)+x float64", 24.0 * static_cast<double>(n),
          [&] { engine(kGpu).run(program, launch, b.gpu); });

  // The fused expression with its reduction: no result array at all.
  Program mean;
  const ValueId v = mean.input(DType::float64);
  const ValueId root =
      mean.apply("sqrt"_op, std::array{mean.apply("add"_op, std::array{mean.apply("multiply"_op, std::array{v, v}),
                                                                       mean.constant(Scalar(1.0), DType::float64)})});
  const ValueId decay = mean.apply("exp"_op, std::array{mean.apply("negative"_op, std::array{v})});
  mean.reduce("mean"_reduction, std::array{mean.apply("multiply"_op, std::array{root, decay})}, DType::float64);
  const Array sum(b, DType::float64, Dims{1}), count(b, DType::int64, Dims{1});
  Launch reduce;
  reduce.shape = Dims{n};
  reduce.reduce_axes = 1;
  reduce.inputs = {x.operand()};
  reduce.states = {{sum.data(), Dims{0}}, {count.data(), Dims{0}}};
  b.bytes("fused mean(sqrt(x*x+1)*exp(-x)) float64", 8.0 * static_cast<double>(n),
          [&] { engine(kGpu).run(mean, reduce, b.gpu); });
}

void reductions(Bench& b, int64_t rows, int64_t columns) {
  struct Case {
    const char* name;
    Reduction reduction;
    DType dtype;
  };
  for (const Case& c : {Case{"sum", "sum"_reduction, DType::float64}, Case{"sum", "sum"_reduction, DType::float32},
                        Case{"mean", "mean"_reduction, DType::float64}, Case{"var", "var"_reduction, DType::float64},
                        Case{"var", "var"_reduction, DType::float32}, Case{"max", "max"_reduction, DType::float64},
                        Case{"argmax", "argmax"_reduction, DType::float64},
                        Case{"count_nonzero", "count_nonzero"_reduction, DType::uint8}}) {
    const Dims shape{rows, columns};
    const int64_t size = itemsize(c.dtype);
    const Array x(b, c.dtype, shape);
    fill_random(b, x, c.dtype, rows * columns, 3);
    Program program;
    std::vector<ValueId> args = {program.input(c.dtype)};
    if (info(c.reduction).has_position) args.push_back(program.index(1));
    program.reduce(c.reduction, args, c.dtype);
    for (const uint32_t axes : {3u, 2u, 1u}) {
      if (info(c.reduction).has_position && axes != 2) continue;
      Launch launch;
      launch.shape = shape;
      launch.reduce_axes = axes;
      launch.inputs = {x.operand()};
      std::list<Array> states;
      for (const DType field : state_dtypes(c.reduction, c.dtype)) {
        const int64_t item = itemsize(field);
        states.emplace_back(b, field, Dims{std::max(rows, columns)});
        launch.states.push_back({states.back().data(), axes == 3   ? Dims{0, 0}
                                                       : axes == 2 ? Dims{item, 0}
                                                                   : Dims{0, item}});
      }
      b.bytes(fmt::format("{} {} {}", c.name, name(c.dtype),
                          axes == 3   ? "all"
                          : axes == 2 ? "axis 1"
                                      : "axis 0"),
              static_cast<double>(rows * columns * size), [&] { engine(kGpu).run(program, launch, b.gpu); });
    }
  }
}

void linear_algebra(Bench& b, int64_t n) {
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::complex128}) {
    const Dims shape{n, n};
    const Array x(b, dtype, shape), y(b, dtype, shape), z(b, dtype, shape);
    const int64_t reals = is_complex(dtype) ? 2 : 1;
    fill_random(b, x, is_complex(dtype) ? DType::float64 : dtype, n * n * reals, 1);
    fill_random(b, y, is_complex(dtype) ? DType::float64 : dtype, n * n * reals, 2);
    const MatrixView a{x.data(), n, n, n, 1}, c{y.data(), n, n, n, 1}, r{z.data(), n, n, n, 1};
    const double operations = 2.0 * std::pow(static_cast<double>(n), 3) * (is_complex(dtype) ? 4 : 1);
    b.flops(fmt::format("gemm {} {}", n, name(dtype)), operations, [&] {
      engine(kGpu).products().gemm({dtype, 1, a, c, 0, r}, b.gpu);
    });
    // Counted as the whole product: what it would cost without the symmetry.
    b.flops(fmt::format("syrk {} {} (as gemm)", n, name(dtype)), operations, [&] {
      engine(kGpu).products().syrk({dtype, 1, a, 0, r}, b.gpu);
    });
  }
  const int64_t rows = b.quick ? 65536 : 524288, columns = 512;
  const Array tall(b, DType::float64, Dims{rows, columns}), square(b, DType::float64, Dims{columns, columns});
  fill_random(b, tall, DType::float64, rows * columns, 1);
  b.flops(fmt::format("syrk {} x {} float64 (as gemm)", rows, columns),
          2.0 * static_cast<double>(rows) * static_cast<double>(columns * columns), [&] {
            engine(kGpu).products().syrk({DType::float64,
                                          1,
                                          {tall.data(), rows, columns, columns, 1},
                                          0,
                                          {square.data(), columns, columns, columns, 1}},
                                         b.gpu);
          });
  const int64_t size = b.quick ? 512 : 4096;
  if (b.wants("eigh")) {
    const Array m(b, DType::float64, Dims{size, size}), v(b, DType::float64, Dims{size, size});
    const Array w(b, DType::float64, Dims{size});
    fill_random(b, m, DType::float64, size * size, 1);
    const double seconds = b.time([&] {
      engine(kGpu).decompositions().eigh(DType::float64, Triangle::lower, {m.data(), size, size, size, 1}, w.data(),
                                         {v.data(), size, size, size, 1}, b.gpu);
    });
    fmt::print("{:<44} {:>10.3f} ms\n", fmt::format("eigh {} float64", size), seconds * 1e3);
    if (b.json != nullptr)
      fmt::print(b.json, "{{\"name\": \"eigh {} float64\", \"seconds\": {:.9g}}}\n", size, seconds);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!available(DeviceKind::cuda)) {
    fmt::print("bench_gpu: no GPU on this machine\n");
    return 0;
  }
  Bench b;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0)
      b.quick = true;
    else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
      b.json = std::fopen(argv[++i], "w");
    else
      b.wanted.emplace_back(argv[i]);
  }
  try {
    const int64_t free_before = backend(DeviceKind::cuda).info(0).free_bytes;
    const DeviceScope scope(kGpu);
    b.gpu = current_context();
    const DeviceInfo info = backend(DeviceKind::cuda).info(0);
    fmt::print("{}, {:.1f} of {:.1f} GiB free\n", info.name, static_cast<double>(info.free_bytes) / 0x1p30,
               static_cast<double>(info.total_bytes) / 0x1p30);
    const int64_t n = b.quick ? int64_t{1} << 26 : int64_t{1} << 29;
    ceilings(b, n);
    elementwise_rates(b, n);
    fused(b, b.quick ? n : int64_t{1} << 30);
    reductions(b, b.quick ? 4096 : 32768, 16384);
    linear_algebra(b, b.quick ? 2048 : 8192);
    const int64_t outside = free_before - backend(DeviceKind::cuda).info(0).free_bytes - b.gpu.memory->acquired_bytes();
    fmt::print("device memory outside the pool (context, modules, library handles): {:.0f} MiB\n",
               static_cast<double>(outside) / 0x1p20);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: error: {}\n", error.what());
    return 1;
  }
  if (b.json != nullptr) std::fclose(b.json);
  return 0;
}
