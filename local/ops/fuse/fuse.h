// fuse(): a C++ callable of several operations as one kernel.
//
//   const auto f = fuse([](auto x, auto y, auto z) { return x * y + z; });
//   const NdArray w = f(x, y, 2.0);
//
// The callable runs once per combination of argument dtypes, on values of type Traced that record what is done to them:
// every ufunc of ufunc.def by its names and the operators, with NumPy's dtypes (literals are weak), x.astype(dtype),
// and at the end reductions (sum(x, axis), max(x, axis, {.keepdims = true}) ...). What it returns - one value, a pair,
// tuple, array or vector of them - becomes arrays. Results of one shape, and reductions over the same axes of it, are
// one kernel. Elementwise results, and reductions that do not round, are bit for bit those of the operations done one
// by one; sums, means and variances are as accurate as those, but may be added up in another order.
#pragma once

#include <array>
#include <complex>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/op.h"
#include "quarry/local/program/rows.h"

namespace quarry::local {

namespace detail {
class Trace;  // fuse.cpp
}

namespace ops {

// A value inside of a callable that fuse() traces: one element of an array each time, or a literal.
class Traced {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Traced(T literal) : literal_(literal) {}
  Traced(std::complex<double> literal) : literal_(literal) {}
  Traced(const Scalar& literal) : literal_(literal) {}

  DType dtype() const;
  Traced astype(DType dtype) const;  // as NdArray's: without a casting rule

 private:
  friend class detail::Trace;
  detail::Trace* trace_ = nullptr;  // null: a literal that has not met an array yet
  int id_ = -1;                     // value of the trace's program
  int reduction_ = -1;              // or this reduction of it
  Scalar literal_;
  int parameter_ = -1;  // the literal is this argument of the call
};

// Where the element is in `x`, counted in C order: int64. What random numbers are a function of:
// random_normal(position_of(x), seed, stream, DType::float32), seed and stream strong uint64 scalars.
Traced position_of(const Traced& x);

// Records one operation. Throws TypeError and InvalidArgument as apply() does, NotSupported for a value that was
// reduced.
Traced record(detail::Op op, std::initializer_list<Traced> args, std::optional<DType> dtype = std::nullopt);
// The same for operators: literals among themselves stay weak.
Traced record_operator(detail::Op op, std::initializer_list<Traced> args);
// Throws NotSupported for options other than keepdims, dtype and ddof.
Traced record_reduction(detail::Reduction reduction, const Traced& x, const Axes& axes, const ReduceOptions& options);

template <class T>
concept TracedValue = std::is_same_v<T, Traced>;
template <class T>
concept TraceOperand =
    TracedValue<T> || std::is_arithmetic_v<T> || std::is_same_v<T, Scalar> || std::is_same_v<T, std::complex<double>>;
template <class... T>
concept TracedCall = (TraceOperand<T> && ...) && (TracedValue<T> || ...);

// The ufuncs, found by the type of their arguments: sqrt(x), maximum(x, 0), where(x > 0, x, y), add(x, y, DType::int8).
#define QUARRY_TRACED_1(function, text)                                 \
  template <TracedValue A>                                              \
  Traced function(const A& x, const std::optional<DType>& dtype = {}) { \
    return record(detail::named_op<text>(), {x}, dtype);                \
  }
#define QUARRY_TRACED_2(function, text)                                                                       \
  template <class A, class B>                                                                                 \
  requires TracedCall<A, B> Traced function(const A& x, const B& y, const std::optional<DType>& dtype = {}) { \
    return record(detail::named_op<text>(), {x, y}, dtype);                                                   \
  }
#define QUARRY_TRACED_3(function, text)                                                  \
  template <class A, class B, class C>                                                   \
  requires TracedCall<A, B, C> Traced function(const A& x, const B& y, const C& z,       \
                                               const std::optional<DType>& dtype = {}) { \
    return record(detail::named_op<text>(), {x, y, z}, dtype);                           \
  }
#define QUARRY_TRACED_ALIAS_1(text, alias) QUARRY_TRACED_1(alias, text)
#define QUARRY_TRACED_ALIAS_2(text, alias) QUARRY_TRACED_2(alias, text)
#define QUARRY_TRACED_ALIAS_3(text, alias) QUARRY_TRACED_3(alias, text)
#define QUARRY_OP(name, aliases, arity, ...) \
  QUARRY_TRACED_##arity(name, #name) QUARRY_EACH(QUARRY_TRACED_ALIAS_##arity, #name, aliases)
#define QUARRY_SPECIAL(name, aliases, arity, ...)                                                                   \
  namespace special {                                                                                               \
  QUARRY_TRACED_##arity(name, "special." #name) QUARRY_EACH(QUARRY_TRACED_ALIAS_##arity, "special." #name, aliases) \
  }
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_TRACED_1
#undef QUARRY_TRACED_2
#undef QUARRY_TRACED_3
#undef QUARRY_TRACED_ALIAS_1
#undef QUARRY_TRACED_ALIAS_2
#undef QUARRY_TRACED_ALIAS_3

template <class A, class B>
requires TracedCall<A, B> std::pair<Traced, Traced> divmod(const A& x, const B& y) {
  return {record(detail::named_op<"floor_divide">(), {x, y}), record(detail::named_op<"remainder">(), {x, y})};
}
template <TracedValue A>
std::pair<Traced, Traced> modf(const A& x) {
  return {record(detail::named_op<"modf_fraction">(), {x}), record(detail::named_op<"modf_integer">(), {x})};
}
template <TracedValue A>
std::pair<Traced, Traced> frexp(const A& x) {
  return {record(detail::named_op<"frexp_mantissa">(), {x}), record(detail::named_op<"frexp_exponent">(), {x})};
}

// The reductions. They end a traced callable: nothing can be done to their results in it.
#define QUARRY_REDUCING(name, function)                                                   \
  template <TracedValue A>                                                                \
  Traced function(const A& x, const Axes& axes = {}, const ReduceOptions& options = {}) { \
    return record_reduction(detail::named_reduction<#name>(), x, axes, options);          \
  }
#define QUARRY_REDUCTION(name, aliases, ...) QUARRY_REDUCING(name, name) QUARRY_EACH(QUARRY_REDUCING, name, aliases)
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
#undef QUARRY_REDUCING

#define QUARRY_OPERATOR(symbol, name)                                        \
  template <class A, class B>                                                \
  requires TracedCall<A, B> Traced operator symbol(const A& x, const B& y) { \
    return record_operator(detail::named_op<#name>(), {x, y});               \
  }
#define QUARRY_COMPARISON QUARRY_OPERATOR
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_COMPARISON
#undef QUARRY_OPERATOR
template <TracedValue A>
Traced operator-(const A& x) {
  return record_operator(detail::named_op<"negative">(), {x});
}
template <TracedValue A>
Traced operator+(const A& x) {
  return record_operator(detail::named_op<"positive">(), {x});
}
template <TracedValue A>
Traced operator~(const A& x) {
  return record_operator(detail::named_op<"invert">(), {x});
}

}  // namespace ops

namespace detail {

// What a fused function keeps from call to call. Copies share it; thread-safe.
class FusionCache {
 public:
  using Tracer = std::function<std::vector<ops::Traced>(const std::vector<ops::Traced>& args)>;

  FusionCache();
  ~FusionCache();
  FusionCache(const FusionCache&) = default;
  FusionCache(FusionCache&&) noexcept = default;
  FusionCache& operator=(const FusionCache&) = default;
  FusionCache& operator=(FusionCache&&) noexcept = default;

  std::vector<NdArray> run(std::span<const Arg> args, const Tracer& tracer) const;
  // Combinations of argument dtypes that were traced.
  int64_t traces() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Arrays in the form of what the callable returns.
template <class Returned>
struct FusedResult {
  static NdArray of(std::vector<NdArray> results) { return std::move(results[0]); }
};
template <>
struct FusedResult<std::vector<ops::Traced>> {
  static std::vector<NdArray> of(std::vector<NdArray> results) { return results; }
};
template <class... Each>
struct FusedResult<std::tuple<Each...>> {
  template <size_t... I>
  static auto fill(std::vector<NdArray>& results, std::index_sequence<I...>) {
    return std::make_tuple(std::move(results[I])...);
  }
  static auto of(std::vector<NdArray> results) { return fill(results, std::index_sequence_for<Each...>{}); }
};
template <class A, class B>
struct FusedResult<std::pair<A, B>> {
  static std::pair<NdArray, NdArray> of(std::vector<NdArray> results) {
    return {std::move(results[0]), std::move(results[1])};
  }
};
template <size_t N>
struct FusedResult<std::array<ops::Traced, N>> {
  static std::array<NdArray, N> of(std::vector<NdArray> results) {
    std::array<NdArray, N> all;
    std::move(results.begin(), results.end(), all.begin());
    return all;
  }
};

}  // namespace detail

template <class F>
class Fusion {
 public:
  explicit Fusion(F function) : function_(std::move(function)) {}

  // Arrays, which broadcast, and literals. New arrays, in C order, on the arguments' device. Throws InvalidArgument
  // (shapes that do not broadcast, devices that differ, literals out of range), TypeError (no loop), IndexError (axis),
  // NotSupported, OutOfMemory. Does not wait for the results. Literals that the callable captures are those of the
  // first call with the same dtypes: what changes from call to call is to be an argument.
  template <class... Args>
  auto operator()(const Args&... args) const {
    const std::array<Arg, sizeof...(Args)> list{Arg(args)...};
    using Returned =
        decltype(call(std::declval<const std::vector<ops::Traced>&>(), std::index_sequence_for<Args...>{}));
    std::vector<NdArray> results = cache_.run(list, [this](const std::vector<ops::Traced>& traced) {
      return flatten(call(traced, std::index_sequence_for<Args...>{}));
    });
    return detail::FusedResult<Returned>::of(std::move(results));
  }
  int64_t traces() const { return cache_.traces(); }

 private:
  template <size_t... I>
  auto call(const std::vector<ops::Traced>& args, std::index_sequence<I...>) const {
    return function_(args[I]...);
  }

  static std::vector<ops::Traced> flatten(const ops::Traced& value) { return {value}; }
  static std::vector<ops::Traced> flatten(std::vector<ops::Traced> values) { return values; }
  template <class Tuple>
  static std::vector<ops::Traced> flatten(const Tuple& values) {
    return std::apply([](const auto&... each) { return std::vector<ops::Traced>{ops::Traced(each)...}; }, values);
  }

  F function_;
  detail::FusionCache cache_;
};

// Nothing runs and nothing is traced before the first call.
template <class F>
Fusion<F> fuse(F function) {
  return Fusion<F>(std::move(function));
}

}  // namespace quarry::local
