// Wrappers of CUB's sorts, instantiated one key width per translation unit (they take long to compile).
#pragma once

#include <cub/device/device_radix_sort.cuh>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/sorting/device.h"

namespace quarry::local::cuda {

template <class Key>
void radix_sort_keys(void* temporary, size_t& temporary_bytes, const Key* in, Key* out, int64_t count,
                     cudaStream_t stream) {
  constexpr int kBits = 8 * static_cast<int>(sizeof(Key));
  QUARRY_CUDA_CALL(
      cub::DeviceRadixSort::SortKeys(temporary, temporary_bytes, in, out, count, /*begin_bit=*/0, kBits, stream));
}

template <class Key>
void radix_sort_keys(void* temporary, size_t& temporary_bytes, Buffers<Key>& keys, int64_t count, int end_bit,
                     cudaStream_t stream) {
  cub::DoubleBuffer<Key> buffers(keys.current, keys.other);
  QUARRY_CUDA_CALL(
      cub::DeviceRadixSort::SortKeys(temporary, temporary_bytes, buffers, count, /*begin_bit=*/0, end_bit, stream));
  keys = {buffers.Current(), buffers.Alternate()};
}

template <class Key, class Value>
void radix_sort_pairs(void* temporary, size_t& temporary_bytes, Buffers<Key>& keys, Buffers<Value>& values,
                      int64_t count, int end_bit, cudaStream_t stream) {
  cub::DoubleBuffer<Key> key_buffers(keys.current, keys.other);
  cub::DoubleBuffer<Value> value_buffers(values.current, values.other);
  QUARRY_CUDA_CALL(cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes, key_buffers, value_buffers, count,
                                                   /*begin_bit=*/0, end_bit, stream));
  keys = {key_buffers.Current(), key_buffers.Alternate()};
  values = {value_buffers.Current(), value_buffers.Alternate()};
}

}  // namespace quarry::local::cuda
