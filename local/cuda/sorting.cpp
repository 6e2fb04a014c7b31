#include "local/cuda/sorting.h"

namespace quarry::local::cuda {
namespace {

class CudaSorting final : public Sorting {};

}  // namespace

Sorting& cuda_sorting() {
  static CudaSorting instance;
  return instance;
}

}  // namespace quarry::local::cuda
