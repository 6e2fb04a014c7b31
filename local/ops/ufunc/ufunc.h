// The eager elementwise functions: one per row of ufunc.def, by each of NumPy's names. What apply() says holds for all.
//   ops::add(a, b), ops::abs(x), ops::sqrt(x, {.out = y}), ops::where(condition, x, y), ops::clip(x, low, high)
// Code inside the library that needs few of them says apply("add"_op, {a, b}), and is not compiled again for a new row.
#pragma once

#include <utility>

#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/program/rows.h"

namespace quarry::local {
namespace ops {

using OptionalDType = std::optional<DType>;

#define QUARRY_EAGER_1(function, name)                                                                             \
  inline NdArray function(const Arg& x, OptionalDType dtype = {}) { return apply(named_op<#name>(), {x}, dtype); } \
  inline NdArray function(const Arg& x, const UfuncOptions& options) { return apply(named_op<#name>(), {x}, options); }
#define QUARRY_EAGER_2(function, name)                                               \
  inline NdArray function(const Arg& x, const Arg& y, OptionalDType dtype = {}) {    \
    return apply(named_op<#name>(), {x, y}, dtype);                                  \
  }                                                                                  \
  inline NdArray function(const Arg& x, const Arg& y, const UfuncOptions& options) { \
    return apply(named_op<#name>(), {x, y}, options);                                \
  }
#define QUARRY_EAGER_3(function, name)                                                             \
  inline NdArray function(const Arg& x, const Arg& y, const Arg& z, OptionalDType dtype = {}) {    \
    return apply(named_op<#name>(), {x, y, z}, dtype);                                             \
  }                                                                                                \
  inline NdArray function(const Arg& x, const Arg& y, const Arg& z, const UfuncOptions& options) { \
    return apply(named_op<#name>(), {x, y, z}, options);                                           \
  }
#define QUARRY_EAGER_ALIAS_1(name, alias) QUARRY_EAGER_1(alias, name)
#define QUARRY_EAGER_ALIAS_2(name, alias) QUARRY_EAGER_2(alias, name)
#define QUARRY_EAGER_ALIAS_3(name, alias) QUARRY_EAGER_3(alias, name)
#define QUARRY_OP(name, aliases, arity, ...) \
  QUARRY_EAGER_##arity(name, name) QUARRY_EACH(QUARRY_EAGER_ALIAS_##arity, name, aliases)
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
