// The eager reductions: one per row of reduction.def, by each of NumPy's names.
#pragma once

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/op.h"
#include "quarry/local/program/rows.h"

namespace quarry::local {

namespace detail {

// Throws TypeError, IndexError, InvalidArgument (duplicate axes; no elements where there is no identity; several axes
// for argmin and argmax; `where` without `initial` for min and max), OutOfMemory. Positions of argmin and argmax count
// in C order over the reduced axis, or over the whole array. var and std shift the data by an element of each result,
// so that a large mean costs no digits. Does not wait for the result.
NdArray reduce(Reduction reduction, const NdArray& x, const Axes& axes = {}, const ReduceOptions& options = {});

}  // namespace detail

namespace ops {

// The first is a template because some compilers take {.ddof = 1} for an axis: then the second is preferred.
#define QUARRY_REDUCING(name, function)                                                          \
  template <class = void>                                                                        \
  NdArray function(const NdArray& x, const Axes& axes = {}, const ReduceOptions& options = {}) { \
    return detail::reduce(detail::named_reduction<#name>(), x, axes, options);                   \
  }                                                                                              \
  inline NdArray function(const NdArray& x, const ReduceOptions& options) {                      \
    return detail::reduce(detail::named_reduction<#name>(), x, {}, options);                     \
  }
#define QUARRY_REDUCTION(name, aliases, ...) QUARRY_REDUCING(name, name) QUARRY_EACH(QUARRY_REDUCING, name, aliases)
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
#undef QUARRY_REDUCING

}  // namespace ops
}  // namespace quarry::local
