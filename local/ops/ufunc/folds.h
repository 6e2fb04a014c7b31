// Folds and scans of an operation along axes: what methods of ufuncs are made of.
#pragma once

#include "quarry/local/base/detail.h"
#include "quarry/local/ops/ufunc/methods.h"

namespace quarry::local {

// The value of no elements, where the operation has one.
std::optional<Scalar> identity_of(Op op, DType dtype);
// Whether it may reduce several axes at once.
bool is_reorderable(Op op);
// What a reduction of `op` over values of `input` accumulates in, and its result's dtype.
DType fold_dtype(Op op, DType input, std::optional<DType> dtype, const std::optional<NdArray>& out);

// Folds along one axis of an array of `dtype`; the result has extent 1 there. Long axes of associative operations are
// cut into parts.
NdArray fold_axis(Op op, const NdArray& array, int axis);
// Scans along one axis into `out`, an array of the result's dtype and the input's shape that shares no memory with
// `array` unless element for element. With `before`, of `out`'s dtype and extent 1 along the axis: op(before, scan).
void scan_axis(Op op, const NdArray& array, int axis, const NdArray& out, const std::optional<NdArray>& before = {});
// The last elements of a scan into a new array alone, to the bit; `out` has extent 1 along the axis, which is not
// empty.
void last_of_scan(Op op, const NdArray& array, int axis, const NdArray& out);
// The same scan in passes in which no part waits for another one: the axis is cut into segments of `length` elements,
// of which the last may be shorter. First the fold of every segment: `out` has one element per segment along the axis,
// of the result's dtype.
void fold_segments(Op op, const NdArray& array, int axis, int64_t length, const NdArray& out);
// Then every segment's own scan after what precedes it, `before`, which is laid out as the folds.
void scan_segments(Op op, const NdArray& array, int axis, int64_t length, const NdArray& before, const NdArray& out);
// The value that changes no other one by a bit as the left operand, NaNs and zeros of either sign included; none for
// operations without one.
std::optional<Scalar> exact_identity(Op op, DType dtype);

}  // namespace quarry::local
