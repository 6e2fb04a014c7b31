#include "local/cuda/indexing.h"

namespace quarry::local::cuda {
namespace {

class CudaIndexing final : public Indexing {};

}  // namespace

Indexing& cuda_indexing() {
  static CudaIndexing instance;
  return instance;
}

}  // namespace quarry::local::cuda
