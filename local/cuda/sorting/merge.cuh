// CUB's merge of two sorted ranges, instantiated one key width per translation unit.
#pragma once

#include <cub/device/device_merge.cuh>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/sorting/device.h"

namespace quarry::local::cuda {

template <class Bits>
struct ByKey {
  keys::RuntimeKey<Bits> key;
  __host__ __device__ bool operator()(Bits a, Bits b) const { return key.key(a) < key.key(b); }
};

template <class Bits>
void merge_two(void* temporary, size_t& temporary_bytes, const keys::RuntimeKey<Bits>& key, const Bits* first,
               int64_t first_count, const Bits* second, int64_t second_count, Bits* out, cudaStream_t stream) {
  QUARRY_CUDA_CALL(cub::DeviceMerge::MergeKeys(temporary, temporary_bytes, first, first_count, second, second_count,
                                               out, ByKey<Bits>{key}, stream));
}

}  // namespace quarry::local::cuda
