// The product of layers as CUDA source and as a snippet for every device: the example raw_kernel, and what the
// benchmarks time (tests/bench/kernel_calls.cpp, scripts/bench/kernel_rows.py).
#pragma once

namespace examples {

inline constexpr const char* kLayersSource = R"cuda(
extern "C" __global__ void in_memory(const double* layers, double* product, int count, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  product[i] = 1;
  for (int k = 0; k < count; ++k) product[i] *= layers[(long long)k * size + i];
}
extern "C" __global__ void in_register(const double* layers, double* product, int count, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  double value = 1;
  for (int k = 0; k < count; ++k) value *= layers[(long long)k * size + i];
  product[i] = value;
}
)cuda";

// Of the elements i of layers[k], "raw T layers, int64 count" to "T product".
inline constexpr const char* kLayersSnippet = R"(
T value = 1;
for (long long k = 0; k < count; ++k) value *= layers[k * n + i];
product = value)";

}  // namespace examples
