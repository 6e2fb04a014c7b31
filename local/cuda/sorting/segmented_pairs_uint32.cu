#include "quarry/local/cuda/sorting/segmented.cuh"

namespace quarry::local::cuda {

template void segmented_sort_pairs<uint32_t>(void*, size_t&, Buffers<uint32_t>&, Buffers<uint32_t>&, Rows,
                                             cudaStream_t);

}  // namespace quarry::local::cuda
