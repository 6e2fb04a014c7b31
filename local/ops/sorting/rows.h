// An array as the rows that the engines sort: what the functions of sorting.h, sets.h and statistics.h share.
#pragma once

#include <optional>
#include <string_view>

#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/program/sorting.h"

namespace quarry::local {

// The array itself where it has C order without gaps, else a copy that has.
inline NdArray packed(const NdArray& a, const ExecContext& context) { return a.is_contiguous() ? a : a.copy(context); }
inline NdArray flattened(const NdArray& a) { return a.reshape({-1}); }
// A view with two axes exchanged.
NdArray swapped_axes(const NdArray& a, int first, int second);
inline NdArray to_last_axis(const NdArray& a, int axis) { return swapped_axes(a, axis, a.ndim() - 1); }

// Of an array of at least one dimension, the last one running along a row.
inline Rows rows_of(const NdArray& a) {
  const int64_t length = a.shape().back();
  return {length == 0 ? 0 : a.size() / length, length};
}

// A row for each position along all axes but the last, sorted; in `out` where it is given, another array of a's shape
// and dtype in C order, else new and so.
using Out = std::optional<NdArray>;
NdArray sorted_rows(const NdArray& a, const ExecContext& context, const Out& out = {});
// Where equal elements differ (both zeros, NaNs), they keep their order.
NdArray stably_sorted_rows(const NdArray& a, const ExecContext& context, const Out& out = {});
// Of a 1-d array of sorted stretches, one behind the other, of such lengths: all of it sorted. Stretches and result are
// as stably_sorted_rows() gives them, or (`stably` is false) as sorted_rows() does. Throws InvalidArgument for lengths
// that are not the array's.
NdArray merged_stretches(const NdArray& a, const std::vector<int64_t>& lengths, bool stably, const Out& out = {});
NdArray argsorted_rows(const NdArray& a, const ExecContext& context);
NdArray partitioned_rows(const NdArray& a, const std::vector<int64_t>& kth, const ExecContext& context);
// Of every sorted row only the elements at the positions `kth`, ascending and once each: shape (..., kth.size()).
NdArray selected_rows(const NdArray& a, const std::vector<int64_t>& kth, const ExecContext& context);

// Whether sort() with these options is stable: "stable" and "mergesort". NumPy's other sorts leave open how equal
// elements come out.
bool is_stable(std::optional<std::string_view> kind, std::optional<bool> stable);

namespace ops {

// Of a sorted 1-d array which elements differ from the one before; the first does. bool.
NdArray run_starts(const NdArray& sorted, bool equal_nan, const ExecContext& context);

}  // namespace ops

}  // namespace quarry::local
