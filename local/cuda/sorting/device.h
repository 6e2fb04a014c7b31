// What the .cu files of sorting offer to sorting.cpp: CUB's sorts compiled ahead of time by key width, and kernels.
//
// A call of a CUB sort without `temporary` only sets `temporary_bytes`. Key and Value types are those of the explicit
// instantiations; DoubleBuffer's `current` holds the result afterwards.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "quarry/local/base/dtype.h"
#include "quarry/local/program/sorting.h"
#include "quarry/local/program/sorting_keys.h"

namespace quarry::local::cuda {

template <class T>
struct Buffers {
  T* current;
  T* other;
};

// One range, by the bits [0, end_bit) of unsigned keys (all bits of the others).
// Key: uint16_t, uint32_t, uint64_t, and by the first function alone int32_t, int64_t, float and double: of these
// both zeros are equal, and NaNs stand at the end that their sign says.
template <class Key>
void radix_sort_keys(void* temporary, size_t& temporary_bytes, const Key* in, Key* out, int64_t count,
                     cudaStream_t stream);
template <class Key>
void radix_sort_keys(void* temporary, size_t& temporary_bytes, Buffers<Key>& keys, int64_t count, int end_bit,
                     cudaStream_t stream);
// Stable. Key: uint32_t, uint64_t. Value: uint32_t, uint64_t.
template <class Key, class Value>
void radix_sort_pairs(void* temporary, size_t& temporary_bytes, Buffers<Key>& keys, Buffers<Value>& values,
                      int64_t count, int end_bit, cudaStream_t stream);
// Every row on its own. Key: uint32_t, uint64_t.
template <class Key>
void segmented_sort_keys(void* temporary, size_t& temporary_bytes, Buffers<Key>& keys, Rows rows, cudaStream_t stream);
// Stable.
template <class Key>
void segmented_sort_pairs(void* temporary, size_t& temporary_bytes, Buffers<Key>& keys, Buffers<uint32_t>& values,
                          Rows rows, cudaStream_t stream);

// Two sorted ranges as one; of equal elements those of the first come first. Bits: uint8_t, uint16_t, uint32_t,
// uint64_t.
template <class Bits>
void merge_two(void* temporary, size_t& temporary_bytes, const keys::RuntimeKey<Bits>& key, const Bits* first,
               int64_t first_count, const Bits* second, int64_t second_count, Bits* out, cudaStream_t stream);

// Keys of sorting_keys.h. `row_shift`: the row's number is written above that many bits (0: it is not).
// Key: uint16_t (8- and 16-bit dtypes), uint32_t (up to 32 bits), uint64_t. Not for complex dtypes.
template <class Key>
void encode_keys(DType dtype, const void* in, Key* keys, Rows rows, int row_shift, cudaStream_t stream);
template <class Key>
void decode_keys(DType dtype, const Key* keys, void* out, int64_t count, cudaStream_t stream);
// Ranks (complex64 too, as 64 bits), and the positions in the rows.
template <class Key, class Value>
void rank_keys(DType dtype, const void* in, Key* keys, Value* positions, Rows rows, int row_shift, cudaStream_t stream);
// The less (word 0) or more significant word of the ranks of complex128 elements in[order[i]]; the identity for no
// order.
template <class Value>
void complex_rank_words(const void* in, const Value* order, int word, uint64_t* keys, int64_t count,
                        cudaStream_t stream);
template <class Value>
void iota(Value* values, int64_t count, cudaStream_t stream);
// The number of the row that order[i] is in.
template <class Value>
void row_numbers(const Value* order, int64_t row_length, uint32_t* rows, int64_t count, cudaStream_t stream);
// out[i] = order[i] % row_length.
template <class Value>
void positions_in_rows(const Value* order, int64_t row_length, int64_t* out, int64_t count, cudaStream_t stream);
// out[row][i] = in[row][order[row][i]] for elements of 2, 4, 8 or 16 bytes.
void gather_rows(int64_t itemsize, const void* in, const int64_t* order, void* out, Rows rows, cudaStream_t stream);

// out[row][i] = sorted[row][kth[i]], for elements of any size.
void gather_positions(int64_t itemsize, const void* sorted, Rows rows, const std::vector<int64_t>& kth, void* out,
                      cudaStream_t stream);

// Radix selection in one row of elements that are not complex (sorting_select.cu).
inline constexpr int64_t kMostRanks = 8;
int64_t select_state_bytes(int64_t ranks);
int64_t select_candidate_bytes(DType dtype, int64_t count);
int64_t select_place_bytes(int64_t ranks, int64_t count);
// The keys (`ranked`: the ranks) of the elements at the positions `kth` of the sorted row; ascending, at most
// kMostRanks. Their place is `state`, for the functions below.
void select_keys(DType dtype, bool ranked, const void* in, int64_t count, const std::vector<int64_t>& kth, void* state,
                 void* candidates, cudaStream_t stream);
// The elements with those keys.
void selected_elements(DType dtype, const void* state, int64_t ranks, void* out, cudaStream_t stream);
// The row's elements, or their `positions` as int64, with what is less than the first key in front, then what is equal
// to it, what is between it and the next key, and so on, each part in the order that it had.
void place_by_keys(DType dtype, bool ranked, bool positions, const void* in, int64_t count, const void* state,
                   int64_t ranks, void* place, void* out, cudaStream_t stream);

// Of floats that radix_sort_keys() sorted: NaNs with a sign come behind the numbers too, zeros with a sign before the
// others, and NaNs are all alike: the order and the elements that decode_keys() gives. `parts`: memory for `count`
// elements; `counts`: for two numbers.
void order_signs(DType dtype, void* sorted, int64_t count, void* parts, int64_t* counts, cudaStream_t stream);
// `out`: the floats `in` in order. What is equal though it differs, both zeros and all NaNs, gets the bits and the
// order that it has in `in`. `parts`: memory for `count` elements; `counts`: for two numbers. Without `temporary` only
// its size is set.
void settle_equal(void* temporary, size_t& temporary_bytes, DType dtype, const void* in, int64_t count, void* parts,
                  int64_t* counts, void* out, cudaStream_t stream);

void search_sorted(DType dtype, const void* sorted, Rows rows, const void* values, int64_t values_per_row, bool right,
                   int64_t* out, cudaStream_t stream);
void contains_sorted(DType dtype, const void* sorted, int64_t length, const void* values, int64_t count, bool invert,
                     bool* out, cudaStream_t stream);
void interpolate_points(const Interpolation& task, cudaStream_t stream);
// Add to `out`, which the caller has set to zero.
void count_bins(const int64_t* positions, int64_t count, const double* weights, int64_t bins, void* out,
                cudaStream_t stream);
void count_histogram(DType dtype, const void* values, int64_t count, DType edges_dtype, const void* edges, int64_t bins,
                     bool uniform, const double* weights, void* out, cudaStream_t stream);

}  // namespace quarry::local::cuda
