#include "quarry/local/cuda/sorting/segmented.cuh"

namespace quarry::local::cuda {

template void segmented_sort_keys<uint64_t>(void*, size_t&, Buffers<uint64_t>&, Rows, cudaStream_t);

}  // namespace quarry::local::cuda
