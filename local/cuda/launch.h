// Queueing generated kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "quarry/local/cuda/compiler.h"
#include "quarry/local/cuda/stream.h"

namespace quarry::local::cuda {

// Queues a kernel that takes one struct of 64-bit slots, with `shared_bytes` of dynamic shared memory.
void launch_kernel(CUfunction kernel, int64_t grid_x, int64_t grid_y, int threads, std::vector<int64_t>& slots,
                   CudaStream& stream, int64_t grid_z = 1, int64_t shared_bytes = 0);

// An address as a slot.
inline int64_t address(const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); }

ModuleCache& module_cache();

}  // namespace quarry::local::cuda
