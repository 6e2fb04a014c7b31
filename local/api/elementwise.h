// NumPy's ufuncs, their methods, and functions made of ufuncs.
//
// Every function takes arrays, numbers and numbers in braces, which broadcast, and dtype or NumPy's keyword arguments:
//   ql::add(x, 1), ql::sqrt(x, f32), ql::add(x, y, {.out = z, .where = mask})
// See local/ops/ufunc/apply.h for what all of them throw; none waits for its result.
#pragma once

#include <optional>

#include "quarry/local/ops/fuse/fuse.h"
#include "quarry/local/ops/indexing/elements.h"
#include "quarry/local/ops/ufunc/in_place.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "quarry/local/program/rows.h"

namespace quarry::local {

#define QUARRY_NAME(name, alias) using ops::alias;
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, ...) \
  QUARRY_PUBLIC(rule, QUARRY_NAME(name, name)) QUARRY_EACH(QUARRY_NAME, name, aliases)
#define QUARRY_SPECIAL_NAME(name, alias) using ops::special::alias;
#define QUARRY_SPECIAL(name, aliases, ...)                                        \
  namespace special {                                                             \
  QUARRY_SPECIAL_NAME(name, name) QUARRY_EACH(QUARRY_SPECIAL_NAME, name, aliases) \
  }
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_NAME
#undef QUARRY_SPECIAL_NAME

namespace detail {

// The same for arguments whose types are arrays and numbers exactly, so that log(x) and pow(x, 2) without a namespace
// are these functions and not those of C, to whose double an array of one element would convert.
template <class T>
concept ArrayValue = std::is_base_of_v<NdArray, T> || std::is_same_v<T, Elements>;
template <class T>
concept OperandValue = ArrayValue<T> || Literal<T> || std::is_same_v<T, Scalar>;
template <class... T>
concept ArrayCall = (OperandValue<T> && ...) && (ArrayValue<T> || ...);

}  // namespace detail

#define QUARRY_EXACT_1(text, alias) \
  template <class X>                \
  requires detail::ArrayCall<X> NdArray alias(const X& x) { return detail::apply(detail::named_op<text>(), {Arg(x)}); }
#define QUARRY_EXACT_2(text, alias)                                        \
  template <class X, class Y>                                              \
  requires detail::ArrayCall<X, Y> NdArray alias(const X& x, const Y& y) { \
    return detail::apply(detail::named_op<text>(), {Arg(x), Arg(y)});      \
  }
#define QUARRY_EXACT_3(text, alias)                                                       \
  template <class X, class Y, class Z>                                                    \
  requires detail::ArrayCall<X, Y, Z> NdArray alias(const X& x, const Y& y, const Z& z) { \
    return detail::apply(detail::named_op<text>(), {Arg(x), Arg(y), Arg(z)});             \
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

using ops::divmod;
using ops::frexp;
using ops::modf;
using ops::position_of;  // in fuse()
using ops::Traced;

// With one bound absent: clip(x, none, 1).
inline NdArray clip(const NdArray& a, std::nullopt_t, const Arg& high) { return ops::clip_method(a, {}, high); }
inline NdArray clip(const NdArray& a, const Arg& low, std::nullopt_t) { return ops::clip_method(a, low, {}); }
// To `decimals` places, halves to even.
inline NdArray round(const NdArray& a, int64_t decimals = 0, const std::optional<NdArray>& out = {}) {
  return ops::round_to(a, decimals, out);
}
inline NdArray around(const NdArray& a, int64_t decimals = 0, const std::optional<NdArray>& out = {}) {
  return ops::round_to(a, decimals, out);
}

using ops::allclose;
using ops::angle;
using ops::array_equal;
using ops::array_equiv;
using ops::fix;
using ops::i0;
using ops::isclose;
using ops::iscomplex;
using ops::iscomplexobj;
using ops::isneginf;
using ops::isposinf;
using ops::isreal;
using ops::isrealobj;
using ops::nan_to_num;
using ops::nanargmax;
using ops::nanargmin;
using ops::nanmax;
using ops::nanmean;
using ops::nanmin;
using ops::nanprod;
using ops::nanstd;
using ops::nansum;
using ops::nanvar;
using ops::ptp;
using ops::real_if_close;
using ops::sinc;

// NumPy's np.add.reduce(x): ql::ufunc::add.reduce(x). The objects are called like the functions of their names.
namespace ufunc {

template <detail::RowName name>
struct Ufunc {
  static detail::Op op() { return detail::named_op<name>(); }
  // See local/ops/ufunc/methods.h and, for at(), local/ops/indexing/indexing.h.
  NdArray reduce(const NdArray& array, const Axes& axis = Axes(0), const ReduceOptions& options = {}) const {
    return ops::ufunc_reduce(op(), array, axis, options);
  }
  NdArray accumulate(const NdArray& array, int64_t axis = 0, std::optional<DType> dtype = {},
                     const std::optional<NdArray>& out = {}) const {
    return ops::ufunc_accumulate(op(), array, axis, dtype, out);
  }
  NdArray outer(const Arg& a, const Arg& b, const UfuncOptions& options = {}) const {
    return ops::ufunc_outer(op(), a, b, options);
  }
  NdArray reduceat(const NdArray& array, const NdArray& indices, int64_t axis = 0, std::optional<DType> dtype = {},
                   const std::optional<NdArray>& out = {}) const {
    return ops::ufunc_reduceat(op(), array, indices, axis, dtype, out);
  }
  template <detail::IndexLike Index>
  void at(const NdArray& array, const Index& index, const std::optional<Arg>& value = std::nullopt) const {
    std::vector<IndexTerm> terms;
    detail::append_terms(terms, index);
    ops::ufunc_at(op(), array, terms, value);
  }
  template <class... Args>
  NdArray operator()(const Args&... args) const {
    return detail::apply(op(), {Arg(args)...});
  }
};

#define QUARRY_UFUNC(name, alias) inline constexpr Ufunc<#name> alias{};
#define QUARRY_OP(name, aliases, arity, kinds, result, rule, ...) \
  QUARRY_PUBLIC(rule, QUARRY_UFUNC(name, name)) QUARRY_EACH(QUARRY_UFUNC, name, aliases)
#define QUARRY_SPECIAL(...)  // they have no methods that anybody uses
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_UFUNC

}  // namespace ufunc
}  // namespace quarry::local
