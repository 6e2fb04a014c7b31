#include "quarry/local/cuda/sorting/radix.cuh"

namespace quarry::local::cuda {

template void radix_sort_pairs<uint32_t, uint32_t>(void*, size_t&, Buffers<uint32_t>&, Buffers<uint32_t>&, int64_t, int,
                                                   cudaStream_t);

}  // namespace quarry::local::cuda
