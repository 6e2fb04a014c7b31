// The eager reductions: one per row of reduction.def, by NumPy's names.
#pragma once

#include "local/ops/arguments.h"
#include "local/program/op.h"

namespace quarry::local {

// The shape of a reduction over the axes of `mask`.
Dims reduced_shape(const Dims& shape, uint32_t mask, bool keepdims);

// Throws TypeError, IndexError, InvalidArgument (duplicate axes; no elements where there is no identity; several axes
// for argmin and argmax), OutOfMemory. Positions of argmin and argmax count in C order over the reduced axis, or over
// the whole array. Does not wait for the result.
NdArray reduce(Reduction reduction, const NdArray& x, const Axes& axes = {}, const ReduceOptions& options = {});

namespace ops {

#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, f0, f1, f2, c0, c1, c2, finalize) \
  inline NdArray name(const NdArray& x, const Axes& axes = {}, const ReduceOptions& options = {}) {         \
    return reduce(Reduction::name, x, axes, options);                                                       \
  }
#include "local/ops/reduction.def"
#undef QUARRY_REDUCTION

}  // namespace ops
}  // namespace quarry::local
