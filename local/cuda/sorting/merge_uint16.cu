#include "quarry/local/cuda/sorting/merge.cuh"

namespace quarry::local::cuda {

template void merge_two<uint16_t>(void*, size_t&, const keys::RuntimeKey<uint16_t>&, const uint16_t*, int64_t,
                                  const uint16_t*, int64_t, uint16_t*, cudaStream_t);

}  // namespace quarry::local::cuda
