#include "quarry/local/cuda/multiprocessors.h"

#include <array>
#include <atomic>

#include "quarry/local/cuda/check.h"

namespace quarry::local::cuda {

int64_t multiprocessor_count() {
  static std::array<std::atomic<int>, 64> known{};  // by device; 0: not asked yet
  int device = 0, count = 0;
  const cudaError_t found = cudaGetDevice(&device);
  if (found == cudaErrorNoDevice || found == cudaErrorInsufficientDriver) {
    cudaGetLastError();  // forgotten
    return kPlannedMultiprocessors;
  }
  QUARRY_CUDA_CALL(found);
  const auto index = static_cast<size_t>(device);
  if (index < known.size()) count = known[index].load(std::memory_order_relaxed);
  if (count > 0) return count;
  QUARRY_CUDA_CALL(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  if (index < known.size()) known[index].store(count, std::memory_order_relaxed);
  return count;
}

}  // namespace quarry::local::cuda
