// x += y and its relatives, as NumPy's: the result is written into x, which y must broadcast to; casts of kind
// same_kind. x may be a view: x[{0}] += 1. Throw what the ufunc with `out` throws.
#pragma once

#include "local/ops/ufunc.h"

namespace quarry::local {

#define QUARRY_IN_PLACE(symbol, name)                                     \
  inline const NdArray& operator symbol(const NdArray& x, const Arg& y) { \
    UfuncOptions options;                                                 \
    options.out = x;                                                      \
    apply(Op::name, {x, y}, options);                                     \
    return x;                                                             \
  }
QUARRY_IN_PLACE(+=, add)
QUARRY_IN_PLACE(-=, subtract)
QUARRY_IN_PLACE(*=, multiply)
QUARRY_IN_PLACE(/=, divide)
QUARRY_IN_PLACE(%=, remainder)
QUARRY_IN_PLACE(&=, bitwise_and)
QUARRY_IN_PLACE(|=, bitwise_or)
QUARRY_IN_PLACE(^=, bitwise_xor)
QUARRY_IN_PLACE(<<=, left_shift)
QUARRY_IN_PLACE(>>=, right_shift)
#undef QUARRY_IN_PLACE

}  // namespace quarry::local
