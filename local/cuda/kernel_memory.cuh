// What kernels that also run on the host, in tests, say otherwise there: tests/support/host_block.h comes before this
// file then.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include "quarry/local/cuda/check.h"
#endif

// The memory that a launch gives a block beside its own, and loops whose arrays are registers, or that stay
// loops.
#ifdef __CUDACC__
#define QUARRY_LAUNCH_MEMORY(name) extern __shared__ __align__(16) unsigned char name[]
#define QUARRY_UNROLLED _Pragma("unroll")
#define QUARRY_ROLLED _Pragma("unroll 1")
#else
#define QUARRY_LAUNCH_MEMORY(name) unsigned char* const name = launch_memory()
#define QUARRY_UNROLLED
#define QUARRY_ROLLED
#endif

namespace quarry::local::cuda {
namespace {

constexpr int kLanes = 32;

#ifdef __CUDACC__
// Before launches that give a block so much of that memory.
inline void allow_launch_memory(const void* kernel, size_t bytes) {
  constexpr size_t kWithoutAsking = 48 << 10;
  if (bytes > kWithoutAsking)
    QUARRY_CUDA_CALL(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

// From global to shared memory, behind the back of the thread.
template <class T>
__device__ inline void copy_later(T* to, const T* from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(sizeof(T)) : "memory");
}
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif

}  // namespace
}  // namespace quarry::local::cuda
