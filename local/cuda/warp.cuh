// What decoders that give a warp to each stream share.
//
// On the host, where tests run and fuzz them, a warp is one thread: tests/support/one_thread_warp.h comes before it.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define QUARRY_UNROLL _Pragma("unroll 8")
#else
#define QUARRY_UNROLL
#endif

namespace quarry::local::cuda {
namespace {

#ifdef __CUDACC__
constexpr int kWarp = 32;
#endif

constexpr unsigned kAll = ~0u;
// Calls f(i) for i below `count`, each in a thread of the warp; all in one where a warp is one thread.
template <class F>
__device__ void in_threads(uint32_t count, const F& f) {
  if constexpr (kWarp == 1) {
    for (uint32_t i = 0; i < count; ++i) f(i);
  } else if (threadIdx.x < count) {
    f(threadIdx.x);
  }
}

}  // namespace
}  // namespace quarry::local::cuda
