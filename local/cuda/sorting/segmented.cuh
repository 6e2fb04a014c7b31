// Wrappers of CUB's segmented sorts, as sorting_radix.cuh.
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_segmented_sort.cuh>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/sorting/device.h"

namespace quarry::local::cuda {

struct RowStart {
  int64_t length;
  __host__ __device__ int64_t operator()(int64_t row) const { return row * length; }
};

inline auto row_starts(int64_t length, int64_t first) {
  return thrust::make_transform_iterator(thrust::make_counting_iterator(first), RowStart{length});
}

template <class Key>
void segmented_sort_keys(void* temporary, size_t& temporary_bytes, Buffers<Key>& keys, Rows rows, cudaStream_t stream) {
  cub::DoubleBuffer<Key> buffers(keys.current, keys.other);
  QUARRY_CUDA_CALL(cub::DeviceSegmentedSort::SortKeys(temporary, temporary_bytes, buffers, rows.elements(), rows.rows,
                                                      row_starts(rows.length, 0), row_starts(rows.length, 1), stream));
  keys = {buffers.Current(), buffers.Alternate()};
}

template <class Key>
void segmented_sort_pairs(void* temporary, size_t& temporary_bytes, Buffers<Key>& keys, Buffers<uint32_t>& values,
                          Rows rows, cudaStream_t stream) {
  cub::DoubleBuffer<Key> key_buffers(keys.current, keys.other);
  cub::DoubleBuffer<uint32_t> value_buffers(values.current, values.other);
  QUARRY_CUDA_CALL(cub::DeviceSegmentedSort::StableSortPairs(temporary, temporary_bytes, key_buffers, value_buffers,
                                                             rows.elements(), rows.rows, row_starts(rows.length, 0),
                                                             row_starts(rows.length, 1), stream));
  keys = {key_buffers.Current(), key_buffers.Alternate()};
  values = {value_buffers.Current(), value_buffers.Alternate()};
}

}  // namespace quarry::local::cuda
