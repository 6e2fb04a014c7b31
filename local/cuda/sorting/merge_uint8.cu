#include "quarry/local/cuda/sorting/merge.cuh"

namespace quarry::local::cuda {

template void merge_two<uint8_t>(void*, size_t&, const keys::RuntimeKey<uint8_t>&, const uint8_t*, int64_t,
                                 const uint8_t*, int64_t, uint8_t*, cudaStream_t);

}  // namespace quarry::local::cuda
