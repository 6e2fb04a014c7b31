// Reductions over axes, by NumPy's names. Lazy. `axis`: none (all axes), one, or several; an axis out of range or named
// twice throws. The result has the kept axes (with keepdims, the reduced ones with length 1).
#pragma once

#include "quarry/chunked/api/operand.h"
#include "quarry/local/program/op.h"
#include "quarry/local/program/rows.h"

namespace quarry {

using ReduceOptions = local::detail::BasicReduceOptions<Array>;

namespace detail {

// Any reduction of the table. Throws InvalidArgument for no elements where there is no identity, TypeError for a dtype
// without a loop or argmin and argmax over several axes.
Array reduce(local::detail::Reduction reduction, const Array& x, const Axes& axis = {},
             const ReduceOptions& options = {});

}  // namespace detail

// The first is a template because some compilers take {.ddof = 1} for an axis: then the second is preferred.
#define QUARRY_REDUCING(name, function)                                                      \
  template <class = void>                                                                    \
  Array function(const Array& x, const Axes& axis = {}, const ReduceOptions& options = {}) { \
    return detail::reduce(local::detail::named_reduction<#name>(), x, axis, options);        \
  }                                                                                          \
  inline Array function(const Array& x, const ReduceOptions& options) {                      \
    return detail::reduce(local::detail::named_reduction<#name>(), x, {}, options);          \
  }
#define QUARRY_REDUCTION(name, aliases, ...) QUARRY_REDUCING(name, name) QUARRY_EACH(QUARRY_REDUCING, name, aliases)
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
#undef QUARRY_REDUCING

}  // namespace quarry
