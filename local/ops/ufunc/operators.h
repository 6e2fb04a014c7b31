// The operators of arrays: a + b, -a, a < b. What apply() says holds for all.
#pragma once

#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local {

// Operators on arrays; a literal may stand on either side. They are templates over it, so that an array beside a number
// is never taken for a number itself.
#define QUARRY_OPERATOR(symbol, name)                                  \
  inline NdArray operator symbol(const NdArray& x, const NdArray& y) { \
    return detail::apply(detail::named_op<#name>(), {x, y});           \
  }                                                                    \
  inline NdArray operator symbol(const NdArray& x, const Scalar& y) {  \
    return detail::apply(detail::named_op<#name>(), {x, y});           \
  }                                                                    \
  inline NdArray operator symbol(const Scalar& x, const NdArray& y) {  \
    return detail::apply(detail::named_op<#name>(), {x, y});           \
  }                                                                    \
  template <detail::Literal T>                                         \
  NdArray operator symbol(const NdArray& x, const T& y) {              \
    return detail::apply(detail::named_op<#name>(), {x, Scalar(y)});   \
  }                                                                    \
  template <detail::Literal T>                                         \
  NdArray operator symbol(const T& x, const NdArray& y) {              \
    return detail::apply(detail::named_op<#name>(), {Scalar(x), y});   \
  }
#define QUARRY_COMPARISON QUARRY_OPERATOR
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_COMPARISON
#undef QUARRY_OPERATOR
inline NdArray operator-(const NdArray& x) { return detail::apply(detail::named_op<"negative">(), {x}); }
inline NdArray operator+(const NdArray& x) { return detail::apply(detail::named_op<"positive">(), {x}); }
inline NdArray operator~(const NdArray& x) { return detail::apply(detail::named_op<"invert">(), {x}); }

}  // namespace quarry::local
