#include "quarry/local/cuda/sorting/merge.cuh"

namespace quarry::local::cuda {

template void merge_two<uint32_t>(void*, size_t&, const keys::RuntimeKey<uint32_t>&, const uint32_t*, int64_t,
                                  const uint32_t*, int64_t, uint32_t*, cudaStream_t);

}  // namespace quarry::local::cuda
