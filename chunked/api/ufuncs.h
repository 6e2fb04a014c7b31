// Elementwise functions and operators: one function for every row of local/program/ufunc.def, by NumPy's name. All are
// lazy; shapes broadcast (InvalidArgument names both where they do not), dtypes follow NumPy 2, TypeError where there
// is no loop.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/program/op.h"

namespace quarry {

// Any operation of the table by its number; `dtype` forces the loop as NumPy's dtype= does.
Array apply(local::Op op, std::span<const Operand> args, std::optional<DType> dtype = std::nullopt);

#define QUARRY_ARGS_1 const Operand& x
#define QUARRY_ARGS_2 const Operand &x, const Operand &y
#define QUARRY_ARGS_3 const Operand &x, const Operand &y, const Operand &z
// By rule: which rows are functions of their own.
#define QUARRY_FUNCTION(name, arity) Array name(QUARRY_ARGS_##arity, std::optional<DType> dtype = std::nullopt);
#define QUARRY_FUNCTION_plain QUARRY_FUNCTION
#define QUARRY_FUNCTION_no_bool QUARRY_FUNCTION
#define QUARRY_FUNCTION_true_divide QUARRY_FUNCTION
#define QUARRY_FUNCTION_double_only QUARRY_FUNCTION
#define QUARRY_FUNCTION_comparison QUARRY_FUNCTION
#define QUARRY_FUNCTION_logical QUARRY_FUNCTION
#define QUARRY_FUNCTION_select QUARRY_FUNCTION
#define QUARRY_FUNCTION_scale QUARRY_FUNCTION
#define QUARRY_FUNCTION_storage QUARRY_FUNCTION
#define QUARRY_FUNCTION_cast(name, arity)
#define QUARRY_FUNCTION_random(name, arity)
#define QUARRY_FUNCTION_bounded(name, arity)
#define QUARRY_FUNCTION_sampler(name, arity)
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, expression) QUARRY_FUNCTION_##rule(name, arity)
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_FUNCTION

// NumPy's other names.
#define QUARRY_ALIAS_1(alias, name) \
  inline Array alias(const Operand& x) { return name(x); }
#define QUARRY_ALIAS_2(alias, name) \
  inline Array alias(const Operand& x, const Operand& y) { return name(x, y); }
QUARRY_ALIAS_2(true_divide, divide)
QUARRY_ALIAS_2(mod, remainder)
QUARRY_ALIAS_2(pow, power)
QUARRY_ALIAS_1(abs, absolute)
QUARRY_ALIAS_1(conj, conjugate)
QUARRY_ALIAS_1(asin, arcsin)
QUARRY_ALIAS_1(acos, arccos)
QUARRY_ALIAS_1(atan, arctan)
QUARRY_ALIAS_2(atan2, arctan2)
QUARRY_ALIAS_1(asinh, arcsinh)
QUARRY_ALIAS_1(acosh, arccosh)
QUARRY_ALIAS_1(atanh, arctanh)
QUARRY_ALIAS_1(rad2deg, degrees)
QUARRY_ALIAS_1(deg2rad, radians)
QUARRY_ALIAS_1(bitwise_not, invert)
QUARRY_ALIAS_1(bitwise_invert, invert)
QUARRY_ALIAS_2(bitwise_left_shift, left_shift)
QUARRY_ALIAS_2(bitwise_right_shift, right_shift)
#undef QUARRY_ALIAS_1
#undef QUARRY_ALIAS_2

// With one bound absent.
Array clip(const Operand& x, const std::optional<Operand>& low, const std::optional<Operand>& high);
Array astype(const Array& x, DType dtype);  // unsafe, as NumPy's

std::pair<Array, Array> divmod(const Operand& x, const Operand& y);
std::pair<Array, Array> modf(const Operand& x);
std::pair<Array, Array> frexp(const Operand& x);

// The operators of NumPy's arrays; `/` is true division, `%` Python's remainder.
#define QUARRY_OPERATOR(symbol, name)                                                  \
  inline Array operator symbol(const Array& x, const Array& y) { return name(x, y); }  \
  inline Array operator symbol(const Array& x, const Scalar& y) { return name(x, y); } \
  inline Array operator symbol(const Scalar& x, const Array& y) { return name(x, y); }
#define QUARRY_COMPARISON QUARRY_OPERATOR
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_COMPARISON
#undef QUARRY_OPERATOR
inline Array operator-(const Array& x) { return negative(x); }
inline Array operator+(const Array& x) { return positive(x); }
inline Array operator~(const Array& x) { return invert(x); }

}  // namespace quarry
