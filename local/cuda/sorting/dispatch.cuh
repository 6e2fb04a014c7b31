// Launches of one thread per element.
#pragma once

#include <cstdint>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/sorting/device.h"
#include "quarry/local/program/sorting_dispatch.h"

namespace quarry::local::cuda {

using keys::with_key;

inline constexpr int kSortThreads = 256;

// Calls f(i) for i in [0, count), each in a thread of its own.
template <class F>
__global__ void for_each_kernel(int64_t count, F f) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (i < count) f(i);
}
template <class F>
void for_each_element(int64_t count, cudaStream_t stream, F f) {
  if (count == 0) return;
  const int64_t blocks = (count + kSortThreads - 1) / kSortThreads;
  for_each_kernel<<<static_cast<unsigned>(blocks), kSortThreads, 0, stream>>>(count, f);
  QUARRY_CUDA_CALL(cudaGetLastError());
}

}  // namespace quarry::local::cuda
