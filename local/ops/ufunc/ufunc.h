// The eager elementwise functions: one per row of ufunc.def, by each of NumPy's names. What apply() says holds for all.
//   ops::add(a, b), ops::abs(x), ops::sqrt(x, {.out = y}), ops::where(condition, x, y), ops::clip(x, low, high),
//   ops::special::erf(x)
// Code inside the library that needs few of them says apply("add"_op, {a, b}), and is not compiled again for a new row.
#pragma once

#include <utility>

#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/program/rows.h"

namespace quarry::local {
namespace ops {

using OptionalDType = std::optional<DType>;

#define QUARRY_EAGER_1(function, text)                                 \
  inline NdArray function(const Arg& x, OptionalDType dtype = {}) {    \
    return detail::apply(detail::named_op<text>(), {x}, dtype);        \
  }                                                                    \
  inline NdArray function(const Arg& x, const UfuncOptions& options) { \
    return detail::apply(detail::named_op<text>(), {x}, options);      \
  }
#define QUARRY_EAGER_2(function, text)                                               \
  inline NdArray function(const Arg& x, const Arg& y, OptionalDType dtype = {}) {    \
    return detail::apply(detail::named_op<text>(), {x, y}, dtype);                   \
  }                                                                                  \
  inline NdArray function(const Arg& x, const Arg& y, const UfuncOptions& options) { \
    return detail::apply(detail::named_op<text>(), {x, y}, options);                 \
  }
#define QUARRY_EAGER_3(function, text)                                                             \
  inline NdArray function(const Arg& x, const Arg& y, const Arg& z, OptionalDType dtype = {}) {    \
    return detail::apply(detail::named_op<text>(), {x, y, z}, dtype);                              \
  }                                                                                                \
  inline NdArray function(const Arg& x, const Arg& y, const Arg& z, const UfuncOptions& options) { \
    return detail::apply(detail::named_op<text>(), {x, y, z}, options);                            \
  }
#define QUARRY_EAGER_ALIAS_1(text, alias) QUARRY_EAGER_1(alias, text)
#define QUARRY_EAGER_ALIAS_2(text, alias) QUARRY_EAGER_2(alias, text)
#define QUARRY_EAGER_ALIAS_3(text, alias) QUARRY_EAGER_3(alias, text)
#define QUARRY_OP(name, aliases, arity, ...) \
  QUARRY_EAGER_##arity(name, #name) QUARRY_EACH(QUARRY_EAGER_ALIAS_##arity, #name, aliases)
#define QUARRY_SPECIAL(name, aliases, arity, ...)                                                                 \
  namespace special {                                                                                             \
  QUARRY_EAGER_##arity(name, "special." #name) QUARRY_EACH(QUARRY_EAGER_ALIAS_##arity, "special." #name, aliases) \
  }
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_EAGER_1
#undef QUARRY_EAGER_2
#undef QUARRY_EAGER_3
#undef QUARRY_EAGER_ALIAS_1
#undef QUARRY_EAGER_ALIAS_2
#undef QUARRY_EAGER_ALIAS_3

// (floor_divide, remainder), (fractional part, integral part), (mantissa, exponent), each in one pass.
std::pair<NdArray, NdArray> divmod(const Arg& x, const Arg& y, OptionalDType dtype = {});
std::pair<NdArray, NdArray> modf(const Arg& x, OptionalDType dtype = {});
std::pair<NdArray, NdArray> frexp(const Arg& x, OptionalDType dtype = {});
// With keyword arguments and either output given: apply(*find_multi_output("divmod"), args, options, out).

}  // namespace ops
}  // namespace quarry::local
