// Methods of the binary ufuncs: add.reduce, add.accumulate, add.outer, add.reduceat as NumPy has them.
// All throw InvalidArgument for an operation that is not binary, TypeError where the operation has no loop from two
// values of a dtype to one of the same. None waits for its result but where it says so.
#pragma once

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/op.h"

namespace quarry::local {

// The value of no elements, where the operation has one.
std::optional<Scalar> identity_of(Op op, DType dtype);
// Whether it may reduce several axes at once.
bool is_reorderable(Op op);
// What a reduction of `op` over values of `input` accumulates in, and its result's dtype.
DType fold_dtype(Op op, DType input, std::optional<DType> dtype, const std::optional<NdArray>& out);

namespace ops {

// The fold along an axis, in order; over several axes for the reorderable operations, which group as they like.
// Options: dtype, out, keepdims, initial (which precedes the elements) and where. Throws InvalidArgument for no
// elements where the operation has no identity.
NdArray ufunc_reduce(Op op, const NdArray& array, const Axes& axis = Axes(0), const ReduceOptions& options = {});

// Every prefix's fold along an axis. The shape of the array. Throws TypeError for a 0-d array.
NdArray ufunc_accumulate(Op op, const NdArray& array, int64_t axis = 0, std::optional<DType> dtype = {},
                         const std::optional<NdArray>& out = {});

// op of all pairs: shape(a) + shape(b).
NdArray ufunc_outer(Op op, const Arg& a, const Arg& b, const UfuncOptions& options = {});

// Along the axis, result i folds [indices[i], indices[i + 1]), or is the element at indices[i] where that range is
// empty; the last one reaches to the end. Throws IndexError for an index that is no position. Waits for the indices.
NdArray ufunc_reduceat(Op op, const NdArray& array, const NdArray& indices, int64_t axis = 0,
                       std::optional<DType> dtype = {}, const std::optional<NdArray>& out = {});

}  // namespace ops

// Folds along one axis of an array of `dtype`; the result has extent 1 there. Long axes of associative operations are
// cut into parts.
NdArray fold_axis(Op op, const NdArray& array, int axis);
// Scans along one axis into `out`, an array of the result's dtype and the input's shape that shares no memory with
// `array` unless element for element.
void scan_axis(Op op, const NdArray& array, int axis, const NdArray& out);

}  // namespace quarry::local
