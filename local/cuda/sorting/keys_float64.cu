#include "quarry/local/cuda/sorting/radix.cuh"

namespace quarry::local::cuda {

template void radix_sort_keys<double>(void*, size_t&, const double*, double*, int64_t, cudaStream_t);

}  // namespace quarry::local::cuda
