// x += y and its relatives, as NumPy's: the result is written into x, which y must broadcast to; casts of kind
// same_kind. x may be a view: x[{0}] += 1. Throw what the ufunc with `out` throws.
#pragma once

#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local {

#define QUARRY_OPERATOR(symbol, name)                                        \
  inline const NdArray& operator symbol##=(const NdArray& x, const Arg& y) { \
    UfuncOptions options;                                                    \
    options.out = x;                                                         \
    detail::apply(detail::named_op<#name>(), {x, y}, options);               \
    return x;                                                                \
  }
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_OPERATOR

}  // namespace quarry::local
