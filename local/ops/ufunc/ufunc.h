// The eager elementwise functions: one per row of ufunc.def, by NumPy's names. What apply() says holds for all.
//   ops::add(a, b), ops::sqrt(x, {.out = y}), ops::where(condition, x, y), ops::clip(x, low, high); a + b, -a, a < b
#pragma once

#include <utility>

#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local {
namespace ops {

using OptionalDType = std::optional<DType>;

#define QUARRY_EAGER_1(name)                                                                          \
  inline NdArray name(const Arg& x, OptionalDType dtype = {}) { return apply(Op::name, {x}, dtype); } \
  inline NdArray name(const Arg& x, const UfuncOptions& options) { return apply(Op::name, {x}, options); }
#define QUARRY_EAGER_2(name)                                                                                           \
  inline NdArray name(const Arg& x, const Arg& y, OptionalDType dtype = {}) { return apply(Op::name, {x, y}, dtype); } \
  inline NdArray name(const Arg& x, const Arg& y, const UfuncOptions& options) {                                       \
    return apply(Op::name, {x, y}, options);                                                                           \
  }
#define QUARRY_EAGER_3(name)                                                                   \
  inline NdArray name(const Arg& x, const Arg& y, const Arg& z, OptionalDType dtype = {}) {    \
    return apply(Op::name, {x, y, z}, dtype);                                                  \
  }                                                                                            \
  inline NdArray name(const Arg& x, const Arg& y, const Arg& z, const UfuncOptions& options) { \
    return apply(Op::name, {x, y, z}, options);                                                \
  }
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, expression) QUARRY_EAGER_##arity(name)
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_EAGER_1
#undef QUARRY_EAGER_2
#undef QUARRY_EAGER_3

// (floor_divide, remainder), (fractional part, integral part), (mantissa, exponent), each in one pass.
std::pair<NdArray, NdArray> divmod(const Arg& x, const Arg& y, OptionalDType dtype = {});
std::pair<NdArray, NdArray> modf(const Arg& x, OptionalDType dtype = {});
std::pair<NdArray, NdArray> frexp(const Arg& x, OptionalDType dtype = {});
// With keyword arguments and either output given: apply(*find_multi_output("divmod"), args, options, out).

}  // namespace ops

// Operators on arrays; a literal may stand on either side.
#define QUARRY_OPERATOR(symbol, name)                                                                    \
  inline NdArray operator symbol(const NdArray& x, const NdArray& y) { return apply(Op::name, {x, y}); } \
  inline NdArray operator symbol(const NdArray& x, const Scalar& y) { return apply(Op::name, {x, y}); }  \
  inline NdArray operator symbol(const Scalar& x, const NdArray& y) { return apply(Op::name, {x, y}); }
#define QUARRY_COMPARISON QUARRY_OPERATOR
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_COMPARISON
#undef QUARRY_OPERATOR
inline NdArray operator-(const NdArray& x) { return apply(Op::negative, {x}); }
inline NdArray operator+(const NdArray& x) { return apply(Op::positive, {x}); }
inline NdArray operator~(const NdArray& x) { return apply(Op::invert, {x}); }

}  // namespace quarry::local
