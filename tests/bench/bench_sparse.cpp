// Times operations on the 5-point Laplacian of a square grid for scripts/bench/sparse: one JSON object a line.
// usage: bench_sparse cpu|cuda|emulated THREADS SIDE [ROW]     only rows whose names contain ROW
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/device/device.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/sparse/sparse.h"

namespace quarry::local {
namespace {

namespace sp = sparse;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Median seconds of a call, of five batches.
double median_seconds(const std::function<void()>& call) {
  constexpr double kBatch = 0.1, kLongEnough = 2;
  DeviceStream& stream = *current_context().stream;
  const auto batch = [&](int count) {
    const double begin = now();
    for (int i = 0; i < count; ++i) call();
    stream.synchronize();
    return (now() - begin) / count;
  };
  batch(1);
  const double once = batch(1);
  if (once > kLongEnough) return once;
  const int count = std::clamp(static_cast<int>(kBatch / once), 1, 100);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) times.push_back(batch(count));
  std::nth_element(times.begin(), times.begin() + 2, times.end());
  return times[2];
}

sp::SparseArray laplacian(int64_t side, DType dtype) {
  const NdArray two = ops::full(Ints{1}, 2.0), minus = ops::full(Ints{1}, -1.0);
  const sp::SparseArray line = sp::diags({two, minus, minus}, {0, -1, 1}, Dims{side, side}, sp::Format::csr);
  return sp::kronsum(line, line, sp::Format::csr).astype(dtype);
}

int run(int argc, char** argv) {
  if (argc < 4 || !parse_device_kind(argv[1])) {
    fmt::print(stderr, "usage: bench_sparse cpu|cuda|emulated THREADS SIDE [ROW]\n");
    return 2;
  }
  set_cpu_threads(std::stoi(argv[2]));
  const int64_t side = std::stoll(argv[3]);
  const std::string only = argc > 4 ? argv[4] : "";
  const DeviceScope scope(Device{*parse_device_kind(argv[1]), 0});
  const auto row = [&](const std::string& name, const std::function<void()>& call) {
    if (name.find(only) == std::string::npos) return;
    nlohmann::json answer{{"name", name}};
    try {
      answer["seconds"] = median_seconds(call);
    } catch (const std::exception& e) {
      answer["error"] = e.what();
    }
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  };
  const int64_t n = side * side;
  constexpr int64_t kColumns = 16;
  for (const DType dtype : {DType::float64, DType::float32}) {
    const sp::SparseArray a = laplacian(side, dtype);
    const NdArray x = ops::ones(Ints{n}, dtype), many = ops::ones(Ints{n, kColumns}, dtype);
    const std::string type = name(dtype);
    row("spmv " + type, [&] { sp::matmul(a, x); });
    row("spmm 16 " + type, [&] { sp::matmul(a, many); });
    if (dtype == DType::float32) continue;
    row("spmv transposed " + type, [&] { sp::matmul(a.T(), x); });
    row("tocsc " + type, [&] { a.tocsc(); });
    const sp::SparseArray other = a.copy() * Scalar(2);
    row("add " + type, [&] { static_cast<void>(a + other); });
    row("sum axis 1 " + type, [&] { a.sum(1); });
    row("cg 50 iterations " + type, [&] { sp::linalg::cg(a, x, {.rtol = 0, .maxiter = 50}); });
  }
  const sp::SparseArray smaller = laplacian(std::max<int64_t>(4, side / 4), DType::float64);
  row("spgemm float64", [&] { sp::matmul(smaller, smaller); });
  const sp::SparseArray direct = laplacian(std::max<int64_t>(4, side / 12), DType::float64);
  const NdArray right = ops::ones(Ints{direct.rows()});
  row("spsolve float64", [&] { sp::linalg::spsolve(direct, right); });
  return 0;
}

}  // namespace
}  // namespace quarry::local

int main(int argc, char** argv) { return quarry::local::run(argc, argv); }
