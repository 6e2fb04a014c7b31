// Methods of the binary ufuncs: add.reduce, add.accumulate, add.outer, add.reduceat as NumPy has them.
// All throw InvalidArgument for an operation that is not binary, TypeError where the operation has no loop from two
// values of a dtype to one of the same. None waits for its result but where it says so.
#pragma once

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/op.h"

namespace quarry::local {

namespace ops {

// The fold along an axis, in order; over several axes for the reorderable operations, which group as they like.
// Options: dtype, out, keepdims, initial (which precedes the elements) and where. Throws InvalidArgument for no
// elements where the operation has no identity.
NdArray ufunc_reduce(detail::Op op, const NdArray& array, const Axes& axis = Axes(0),
                     const ReduceOptions& options = {});

// Every prefix's fold along an axis. The shape of the array. Throws TypeError for a 0-d array.
NdArray ufunc_accumulate(detail::Op op, const NdArray& array, int64_t axis = 0, std::optional<DType> dtype = {},
                         const std::optional<NdArray>& out = {});

// op of all pairs: shape(a) + shape(b).
NdArray ufunc_outer(detail::Op op, const Arg& a, const Arg& b, const UfuncOptions& options = {});

// Along the axis, result i folds [indices[i], indices[i + 1]), or is the element at indices[i] where that range is
// empty; the last one reaches to the end. Throws IndexError for an index that is no position. Waits for the indices.
NdArray ufunc_reduceat(detail::Op op, const NdArray& array, const NdArray& indices, int64_t axis = 0,
                       std::optional<DType> dtype = {}, const std::optional<NdArray>& out = {});

}  // namespace ops
}  // namespace quarry::local
