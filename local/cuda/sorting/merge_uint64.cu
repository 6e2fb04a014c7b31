#include "quarry/local/cuda/sorting/merge.cuh"

namespace quarry::local::cuda {

template void merge_two<uint64_t>(void*, size_t&, const keys::RuntimeKey<uint64_t>&, const uint64_t*, int64_t,
                                  const uint64_t*, int64_t, uint64_t*, cudaStream_t);

}  // namespace quarry::local::cuda
