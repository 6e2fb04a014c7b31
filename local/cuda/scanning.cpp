#include "local/cuda/scanning.h"

namespace quarry::local::cuda {
namespace {

class CudaScanning final : public Scanning {};

}  // namespace

Scanning& cuda_scanning() {
  static CudaScanning instance;
  return instance;
}

}  // namespace quarry::local::cuda
