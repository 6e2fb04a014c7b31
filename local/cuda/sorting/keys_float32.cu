#include "quarry/local/cuda/sorting/radix.cuh"

namespace quarry::local::cuda {

template void radix_sort_keys<float>(void*, size_t&, const float*, float*, int64_t, cudaStream_t);

}  // namespace quarry::local::cuda
