#include "local/cuda/form_q.h"

#include <algorithm>
#include <vector>

#include "local/cuda/launch.h"

namespace quarry::local::cuda {
namespace {

// A warp makes one column: the reflections, last to first, applied to a column of the identity. cuSOLVER's orgqr takes
// one matrix per call.
constexpr const char* kFormQSource = R"cuda(
namespace quarry::local::form_q {
struct Params { int64_t s[8]; };
QUARRY_FN float conj(float x) { return x; }
QUARRY_FN double conj(double x) { return x; }
template <class T> QUARRY_FN cx<T> conj(cx<T> x) { return {x.re, -x.im}; }
QUARRY_FN float product(float x, float y) { return x * y; }
QUARRY_FN double product(double x, double y) { return x * y; }
template <class T> QUARRY_FN cx<T> product(cx<T> x, cx<T> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
QUARRY_FN float sum(float x, float y) { return x + y; }
QUARRY_FN double sum(double x, double y) { return x + y; }
template <class T> QUARRY_FN cx<T> sum(cx<T> x, cx<T> y) { return {x.re + y.re, x.im + y.im}; }
QUARRY_FN float difference(float x, float y) { return x - y; }
QUARRY_FN double difference(double x, double y) { return x - y; }
template <class T> QUARRY_FN cx<T> difference(cx<T> x, cx<T> y) { return {x.re - y.re, x.im - y.im}; }
QUARRY_FN float number(float, int x) { return static_cast<float>(x); }
QUARRY_FN double number(double, int x) { return static_cast<double>(x); }
template <class T> QUARRY_FN cx<T> number(cx<T>, int x) { return {static_cast<T>(x), static_cast<T>(0)}; }
QUARRY_FN float across(float x, int lane) { return __shfl_xor_sync(0xffffffffu, x, lane); }
QUARRY_FN double across(double x, int lane) { return __shfl_xor_sync(0xffffffffu, x, lane); }
template <class T> QUARRY_FN cx<T> across(cx<T> x, int lane) { return {across(x.re, lane), across(x.im, lane)}; }

template <class T> QUARRY_FN void form(const Params& p) {
  const T* const factors = reinterpret_cast<const T*>(p.s[0]);
  const T* const all_tau = reinterpret_cast<const T*>(p.s[1]);
  T* const out = reinterpret_cast<T*>(p.s[2]);
  const int64_t count = p.s[3], rows = p.s[4], columns = p.s[5], reflectors = p.s[6], tau_step = p.s[7];
  const int lane = threadIdx.x % 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / 32);
  for (int64_t task = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; task < count * columns;
       task += warps) {
    const int64_t matrix = task / columns, column = task % columns;
    const T* const a = factors + matrix * rows * columns;
    T* const q = out + task * rows;
    for (int64_t i = lane; i < rows; i += 32) q[i] = number(T(), i == column);
    // Reflection j changes nothing above row j: those after the column leave its one alone.
    for (int64_t j = column < reflectors ? column : reflectors - 1; j >= 0; --j) {
      const T tau = all_tau[matrix * tau_step + j];
      const T* const v = a + j * rows;
      T dot = number(T(), 0);
      for (int64_t i = lane; i < rows; i += 32) {
        if (i == j) dot = sum(dot, q[i]);
        if (i > j) dot = sum(dot, product(conj(v[i]), q[i]));
      }
      for (int step = 16; step > 0; step /= 2) dot = sum(dot, across(dot, step));
      dot = product(tau, dot);
      for (int64_t i = lane; i < rows; i += 32) {
        if (i == j) q[i] = difference(q[i], dot);
        if (i > j) q[i] = difference(q[i], product(v[i], dot));
      }
    }
  }
}
extern "C" __global__ void __launch_bounds__(256) form_4(const __grid_constant__ Params p) { form<float>(p); }
extern "C" __global__ void __launch_bounds__(256) form_8(const __grid_constant__ Params p) { form<double>(p); }
extern "C" __global__ void __launch_bounds__(256) form_c8(const __grid_constant__ Params p) { form<cx<float>>(p); }
extern "C" __global__ void __launch_bounds__(256) form_c16(const __grid_constant__ Params p) { form<cx<double>>(p); }
}
)cuda";

size_t form_q_kernel(DType dtype) {
  if (dtype == DType::float32) return 0;
  if (dtype == DType::float64) return 1;
  return dtype == DType::complex64 ? 2 : 3;
}

}  // namespace

ModuleSource form_q_source() { return {kFormQSource, {"form_4", "form_8", "form_c8", "form_c16"}}; }

void form_q(const FormQ& task, const void* factors, CudaStream& stream) {
  const auto address = [](const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); };
  const int64_t columns = task.a.count * task.a.columns;
  std::vector<int64_t> slots = {address(factors), address(task.tau), address(task.a.data), task.a.count,
                                task.a.rows,      task.a.columns,    task.reflectors,      task.tau_step};
  constexpr int kThreads = 256;
  constexpr int64_t kColumnsPerBlock = kThreads / 32, kMostBlocks = 1 << 20;
  const int64_t blocks = std::clamp<int64_t>((columns + kColumnsPerBlock - 1) / kColumnsPerBlock, 1, kMostBlocks);
  const Module& module = module_cache().get("form_q", stream.device().index, form_q_source);
  launch_kernel(module.kernel(form_q_kernel(task.dtype)), blocks, 1, kThreads, slots, stream);
}

}  // namespace quarry::local::cuda
