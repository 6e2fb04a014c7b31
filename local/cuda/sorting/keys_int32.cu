#include "quarry/local/cuda/sorting/radix.cuh"

namespace quarry::local::cuda {

template void radix_sort_keys<int32_t>(void*, size_t&, const int32_t*, int32_t*, int64_t, cudaStream_t);

}  // namespace quarry::local::cuda
