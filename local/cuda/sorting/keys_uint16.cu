#include "quarry/local/cuda/sorting/radix.cuh"

namespace quarry::local::cuda {

template void radix_sort_keys<uint16_t>(void*, size_t&, Buffers<uint16_t>&, int64_t, int, cudaStream_t);

}  // namespace quarry::local::cuda
