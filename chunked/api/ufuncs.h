// Elementwise functions and operators: one function for every row of local/program/ufunc.def, by NumPy's names, SciPy's
// in namespace special. All are
// lazy; shapes broadcast (InvalidArgument names both where they do not), dtypes follow NumPy 2, TypeError where there
// is no loop.
#pragma once

#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/program/op.h"
#include "quarry/local/program/rows.h"

namespace quarry {

namespace detail {

// Any operation of the table by its number; `dtype` forces the loop as NumPy's dtype= does, and `casting` is the rule
// by which operands are converted to it.
Array apply(local::detail::Op op, std::span<const Operand> args, std::optional<DType> dtype = std::nullopt,
            local::Casting casting = local::Casting::same_kind);

}  // namespace detail

#define QUARRY_ARGS_1 const Operand& x
#define QUARRY_ARGS_2 const Operand &x, const Operand &y
#define QUARRY_ARGS_3 const Operand &x, const Operand &y, const Operand &z
#define QUARRY_FUNCTION(name, arity) Array name(QUARRY_ARGS_##arity, std::optional<DType> dtype = std::nullopt);
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, ...) QUARRY_PUBLIC(rule, QUARRY_FUNCTION(name, arity))
#define QUARRY_SPECIAL(name, aliases, arity, ...) \
  namespace special {                             \
  QUARRY_FUNCTION(name, arity)                    \
  }
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_FUNCTION

// NumPy's other names.
#define QUARRY_ALIAS_1(name, alias) \
  inline Array alias(const Operand& x, std::optional<DType> dtype = std::nullopt) { return name(x, dtype); }
#define QUARRY_ALIAS_2(name, alias)                                                                   \
  inline Array alias(const Operand& x, const Operand& y, std::optional<DType> dtype = std::nullopt) { \
    return name(x, y, dtype);                                                                         \
  }
#define QUARRY_ALIAS_3(name, alias)                                        \
  inline Array alias(const Operand& x, const Operand& y, const Operand& z, \
                     std::optional<DType> dtype = std::nullopt) {          \
    return name(x, y, z, dtype);                                           \
  }
#define QUARRY_OP(name, aliases, arity, ...) QUARRY_EACH(QUARRY_ALIAS_##arity, name, aliases)
#define QUARRY_SPECIAL(name, aliases, arity, ...)  \
  namespace special {                              \
  QUARRY_EACH(QUARRY_ALIAS_##arity, name, aliases) \
  }
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_ALIAS_1
#undef QUARRY_ALIAS_2
#undef QUARRY_ALIAS_3

namespace detail {

// The same for arguments whose types are arrays and numbers exactly, so that log(x) and pow(x, 2) without a namespace
// are these functions and not those of C, to whose double an array of one element would convert.
template <class T>
concept ChunkedExactly = std::is_base_of_v<Array, T> || std::is_same_v<T, Elements>;
template <class T>
concept ChunkedOperand = ChunkedExactly<T> || local::detail::Literal<T> || std::is_same_v<T, Scalar>;
template <class... T>
concept ChunkedCall = (ChunkedOperand<T> && ...) && (ChunkedExactly<T> || ...);

}  // namespace detail
#define QUARRY_EXACT_1(text, alias)                              \
  template <class X>                                             \
  requires detail::ChunkedCall<X> Array alias(const X& x) {      \
    const Operand args[] = {x};                                  \
    return detail::apply(local::detail::named_op<text>(), args); \
  }
#define QUARRY_EXACT_2(text, alias)                                        \
  template <class X, class Y>                                              \
  requires detail::ChunkedCall<X, Y> Array alias(const X& x, const Y& y) { \
    const Operand args[] = {x, y};                                         \
    return detail::apply(local::detail::named_op<text>(), args);           \
  }
#define QUARRY_EXACT_3(text, alias)                                                       \
  template <class X, class Y, class Z>                                                    \
  requires detail::ChunkedCall<X, Y, Z> Array alias(const X& x, const Y& y, const Z& z) { \
    const Operand args[] = {x, y, z};                                                     \
    return detail::apply(local::detail::named_op<text>(), args);                          \
  }
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, ...) \
  QUARRY_PUBLIC(rule, QUARRY_EXACT_##arity(#name, name)) QUARRY_EACH(QUARRY_EXACT_##arity, #name, aliases)
#define QUARRY_SPECIAL(name, aliases, arity, ...)                                                           \
  namespace special {                                                                                       \
  QUARRY_EXACT_##arity("special." #name, name) QUARRY_EACH(QUARRY_EXACT_##arity, "special." #name, aliases) \
  }
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_EXACT_1
#undef QUARRY_EXACT_2
#undef QUARRY_EXACT_3

// With one bound absent: clip(x, none, 1).
Array clip(const Array& x, const std::optional<Operand>& low, const std::optional<Operand>& high,
           std::optional<DType> dtype = std::nullopt, local::Casting casting = local::Casting::same_kind);
Array astype(const Array& x, DType dtype);  // unsafe, as NumPy's
// To `decimals` places, halves to even. Throws TypeError for bool with decimals.
Array round(const Array& x, int64_t decimals = 0);

std::pair<Array, Array> divmod(const Operand& x, const Operand& y);
std::pair<Array, Array> modf(const Operand& x);
std::pair<Array, Array> frexp(const Operand& x);

// The operators of NumPy's arrays; `/` is true division, `%` Python's remainder.
#define QUARRY_OPERATOR(symbol, name)                                                  \
  inline Array operator symbol(const Array& x, const Array& y) { return name(x, y); }  \
  inline Array operator symbol(const Array& x, const Scalar& y) { return name(x, y); } \
  inline Array operator symbol(const Scalar& x, const Array& y) { return name(x, y); } \
  template <local::detail::Literal T>                                                  \
  Array operator symbol(const Array& x, const T& y) {                                  \
    return name(x, Scalar(y));                                                         \
  }                                                                                    \
  template <local::detail::Literal T>                                                  \
  Array operator symbol(const T& x, const Array& y) {                                  \
    return name(Scalar(x), y);                                                         \
  }
#define QUARRY_COMPARISON QUARRY_OPERATOR
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_COMPARISON
#undef QUARRY_OPERATOR
inline Array operator-(const Array& x) { return negative(x); }
inline Array operator+(const Array& x) { return positive(x); }
inline Array operator~(const Array& x) { return invert(x); }

}  // namespace quarry
