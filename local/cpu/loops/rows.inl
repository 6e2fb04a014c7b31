// Loops of reductions made of their rows in reduction.def, for those without a loop of their own: the row's map and
// combine as plain C++. Along a row of the tile as a binary tree of short runs, down the columns one row after the
// other.
#include <string_view>

#include "quarry/local/cpu/loops/map.inl"
#include "quarry/local/program/reduction_enum.h"
#include "quarry/local/program/rows.h"

namespace quarry::local::cpu::QUARRY_LEVEL {

static_assert(kReductionCount <= kReductionCapacity);

namespace {

template <class T>
struct parts {
  using type = T;
  static constexpr bool complex = false;
};
template <class R>
struct parts<cx<R>> {
  using type = R;
  static constexpr bool complex = true;
};
template <class T>
using part = typename parts<T>::type;

// kind() of a dtype, with both signs of integers as 'i'.
template <class T>
constexpr char kind_of = parts<T>::complex             ? 'c'
                         : std::is_floating_point_v<T> ? 'f'
                         : std::is_same_v<T, bool>     ? 'b'
                                                       : 'i';

template <int bytes>
using signed_of = std::conditional_t<bytes == 2, int16_t, std::conditional_t<bytes == 4, int32_t, int64_t>>;

// A value of NumPy's common type of two.
template <class X, class Y>
auto common(X x, Y y) {
  if constexpr (std::is_same_v<X, Y>) {
    return x;
  } else if constexpr (parts<X>::complex || parts<Y>::complex) {
    return cx<decltype(common(part<X>{}, part<Y>{}))>{};
  } else if constexpr (std::is_floating_point_v<X> && std::is_floating_point_v<Y>) {
    return double{};
  } else if constexpr (std::is_floating_point_v<X>) {
    return std::conditional_t<sizeof(Y) <= 2, X, double>{};
  } else if constexpr (std::is_floating_point_v<Y> || std::is_same_v<X, bool>) {
    return common(y, std::conditional_t<std::is_same_v<X, bool>, Y, X>{});
  } else if constexpr (std::is_same_v<Y, bool>) {
    return x;
  } else if constexpr (std::is_signed_v<X> == std::is_signed_v<Y>) {
    return std::conditional_t<(sizeof(X) > sizeof(Y)), X, Y>{};
  } else if constexpr (std::is_signed_v<Y>) {
    return common(y, x);
  } else if constexpr (sizeof(X) > sizeof(Y)) {
    return x;
  } else {
    return std::conditional_t<sizeof(Y) == 8, double, signed_of<2 * static_cast<int>(sizeof(Y))>>{};
  }
}
// The loop of a row for arguments of that type: theirs, or the first one that they cast to safely.
template <class Row, class T>
using loop_type =
    std::conditional_t<contains(Row::kinds, kind_of<T>), T,
                       std::conditional_t<kind_of<T> == 'b' && contains(Row::kinds, 'i'), int8_t, double>>;

template <class Row, class X>
auto call(X x) {
  using L = loop_type<Row, X>;
  const L a = fn::convert<L>::from(x);
  return Row::template apply<L>(a, a, a);
}
template <class Row, class X, class Y>
auto call(X x, Y y) {
  using L = loop_type<Row, decltype(common(x, y))>;
  const L b = fn::convert<L>::from(y);
  return Row::template apply<L>(fn::convert<L>::from(x), b, b);
}
template <class Row, class X, class Y, class Z>
auto call(X x, Y y, Z z) {
  if constexpr (Row::rule == OpRule::select) {
    using L = decltype(common(y, z));
    return Row::template apply<L>(fn::truth(x), fn::convert<L>::from(y), fn::convert<L>::from(z));
  } else {
    using L = loop_type<Row, decltype(common(common(x, y), z))>;
    return Row::template apply<L>(fn::convert<L>::from(x), fn::convert<L>::from(y), fn::convert<L>::from(z));
  }
}

template <class T, FieldDType dtype>
using field_type = std::conditional_t<
    dtype == FieldDType::real_value, part<T>,
    std::conditional_t<dtype == FieldDType::position, int64_t,
                       std::conditional_t<dtype == FieldDType::value || dtype == FieldDType::exact, T, bool>>>;

template <class T, FieldDType d0, FieldDType d1, FieldDType d2>
struct RowState {
  static constexpr FieldDType dtypes[] = {d0, d1, d2};
  field_type<T, d0> f0;
  field_type<T, d1> f1;
  field_type<T, d2> f2;
};

// The functions that expressions are made of, and every row's expressions, for values of type T (float for the 16-bit
// floats).
template <class T>
struct Rows {
  using R = part<T>;
  template <class X>
  static T to_value(X x) {
    return fn::convert<T>::from(x);
  }
  template <class X>
  static R to_real(X x) {
    return fn::convert<R>::from(x);
  }
  template <class X>
  static bool truth(X x) {
    return fn::truth(x);
  }
  static int64_t lit(int64_t n) { return n; }

#define QUARRY_FUNCTION_1(name) \
  template <class X>            \
  static auto name(X x) {       \
    return call<row_##name>(x); \
  }
#define QUARRY_FUNCTION_2(name)    \
  template <class X, class Y>      \
  static auto name(X x, Y y) {     \
    return call<row_##name>(x, y); \
  }
#define QUARRY_FUNCTION_3(name)        \
  template <class X, class Y, class Z> \
  static auto name(X x, Y y, Z z) {    \
    return call<row_##name>(x, y, z);  \
  }
#define QUARRY_OP(name, aliases, arity, ...) QUARRY_FUNCTION_##arity(name)
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#undef QUARRY_FUNCTION_1
#undef QUARRY_FUNCTION_2
#undef QUARRY_FUNCTION_3

  // As in local/program/program.cpp.
  static bool first_wins(bool better, T a0, int64_t a1, T b0, int64_t b1) {
    const bool a_nan = fn::isnan(a0), b_nan = fn::isnan(b0);
    const bool tie = fn::equal(a0, b0) || (a_nan && b_nan);
    const bool kept = better || (a_nan && !b_nan) || (tie && a1 < b1);
    return a1 >= 0 && (b1 < 0 || kept);
  }
  static bool first_is_min(T a0, int64_t a1, T b0, int64_t b1) { return first_wins(fn::less(a0, b0), a0, a1, b0, b1); }
  static bool first_is_max(T a0, int64_t a1, T b0, int64_t b1) { return first_wins(fn::less(b0, a0), a0, a1, b0, b1); }
  static T chan_mean(int64_t a0, T a1, int64_t b0, T b1) {
    if (b0 == 0 || a0 == 0) return b0 == 0 ? a1 : b1;
    const R share = to_real(b0) / to_real(a0 + b0);
    return fn::add(a1, fn::multiply(fn::subtract(b1, a1), to_value(share)));
  }
  static R chan_m2(int64_t a0, T a1, R a2, int64_t b0, T b1, R b2) {
    if (b0 == 0 || a0 == 0) return b0 == 0 ? a2 : b2;
    const T delta = fn::subtract(b1, a1);
    const R re = fn::real(delta), im = fn::imag(delta), share = to_real(b0) / to_real(a0 + b0);
    const R distance = parts<T>::complex ? re * re + im * im : re * re;
    return (a2 + b2) + distance * (to_real(a0) * share);
  }

#define QUARRY_SET(field, ...) __VA_OPT__(s.field = fn::convert<decltype(s.field)>::from(__VA_ARGS__);)
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, ufunc, loop, field0, field1, field2, final) \
  struct reduce_##name {                                                                                              \
    using State = RowState<T, FieldDType::QUARRY_FIELD_DTYPE field0, FieldDType::QUARRY_FIELD_DTYPE field1,           \
                           FieldDType::QUARRY_FIELD_DTYPE field2>;                                                    \
    static State map(T x, [[maybe_unused]] int64_t p) {                                                               \
      State s{};                                                                                                      \
      QUARRY_SET(f0, QUARRY_FIELD_MAP field0)                                                                         \
      QUARRY_SET(f1, QUARRY_FIELD_MAP field1) QUARRY_SET(f2, QUARRY_FIELD_MAP field2) return s;                       \
    }                                                                                                                 \
    static State combine(const State& a, const State& b) {                                                            \
      [[maybe_unused]] const auto a0 = a.f0;                                                                          \
      [[maybe_unused]] const auto a1 = a.f1;                                                                          \
      [[maybe_unused]] const auto a2 = a.f2;                                                                          \
      [[maybe_unused]] const auto b0 = b.f0;                                                                          \
      [[maybe_unused]] const auto b1 = b.f1;                                                                          \
      [[maybe_unused]] const auto b2 = b.f2;                                                                          \
      State s{};                                                                                                      \
      QUARRY_SET(f0, QUARRY_FIELD_COMBINE field0)                                                                     \
      QUARRY_SET(f1, QUARRY_FIELD_COMBINE field1) QUARRY_SET(f2, QUARRY_FIELD_COMBINE field2) return s;               \
    }                                                                                                                 \
  };
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
#undef QUARRY_SET
};

template <class State>
State load_state(const void* const* fields, int64_t i) {
  State s{};
  const auto load = [&](int f, auto& value) {
    using F = std::remove_reference_t<decltype(value)>;
    if (State::dtypes[f] != FieldDType::none) value = static_cast<const F*>(fields[f])[i];
  };
  load(0, s.f0), load(1, s.f1), load(2, s.f2);
  return s;
}
template <class State>
void store_state(void* const* fields, int64_t i, const State& s) {
  const auto store = [&](int f, const auto& value) {
    using F = std::remove_cvref_t<decltype(value)>;
    if (State::dtypes[f] != FieldDType::none) static_cast<F*>(fields[f])[i] = value;
  };
  store(0, s.f0), store(1, s.f1), store(2, s.f2);
}

// The state of elements [begin, end) of a row, whose positions are `places` or their numbers.
template <class Row, class T>
typename Row::State reduce_run(const T* x, const int64_t* places, int64_t begin, int64_t end) {
  constexpr int64_t kRun = 16;
  if (end - begin > kRun) {
    const int64_t middle = begin + (end - begin) / 2;
    return Row::combine(reduce_run<Row>(x, places, begin, middle), reduce_run<Row>(x, places, middle, end));
  }
  typename Row::State s = Row::map(x[begin], places ? places[begin] : begin);
  for (int64_t i = begin + 1; i < end; ++i) s = Row::combine(s, Row::map(x[i], places ? places[i] : i));
  return s;
}
template <class Row, class T>
void row_columns(const void* x, const int64_t* positions, int64_t rows, int64_t columns, int64_t row_bytes,
                 void* const* fields) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_bytes);
    store_state(fields, r, reduce_run<Row>(row, positions ? positions + r * columns : nullptr, 0, columns));
  }
}
template <class Row, class T>
void row_rows(const void* x, const int64_t* positions, int64_t rows, int64_t columns, int64_t row_bytes,
              void* const* fields) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_bytes);
    for (int64_t i = 0; i < columns; ++i) {
      const auto one = Row::map(row[i], positions ? positions[r * columns + i] : r);
      store_state(fields, i, r == 0 ? one : Row::combine(load_state<typename Row::State>(fields, i), one));
    }
  }
}
template <class Row>
void row_combine(void* const* a, const void* const* b, int64_t n) {
  using State = typename Row::State;
  for (int64_t i = 0; i < n; ++i) store_state(a, i, Row::combine(load_state<State>(a, i), load_state<State>(b, i)));
}

template <class Row, class T>
void set_row(Loops& loops, Reduction reduction, DType dtype) {
  const int loop = row_loop(reduction), column = static_cast<int>(dtype);
  loops.reduce_columns[loop][column] = row_columns<Row, T>;
  loops.reduce_rows[loop][column] = row_rows<Row, T>;
  loops.combine[loop][column] = row_combine<Row>;
}

// Whether values of that kind are accumulated.
constexpr bool takes(const char* kinds, std::string_view accumulate, char kind) {
  return contains(kinds, kind) && (accumulate != "inexact" || kind == 'f' || kind == 'c');
}

// The loops of one row, for every dtype that it has; of none where the row names a loop of its own.
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, ufunc, loop, ...)                         \
  template <class T, bool wanted>                                                                                   \
  void register_##name(Loops& loops, DType dtype) {                                                                 \
    if constexpr (wanted && takes(#kinds, #accumulate, kind_of<T>))                                                 \
      set_row<typename Rows<T>::reduce_##name, T>(loops, Reduction::name, dtype);                                   \
  }                                                                                                                 \
  template <bool wanted = Accumulator::loop == Accumulator::row>                                                    \
  void register_##name(Loops& loops) {                                                                              \
    register_##name<bool, wanted>(loops, DType::bool_);                                                             \
    register_##name<int8_t, wanted>(loops, DType::int8), register_##name<uint8_t, wanted>(loops, DType::uint8);     \
    register_##name<int16_t, wanted>(loops, DType::int16), register_##name<uint16_t, wanted>(loops, DType::uint16); \
    register_##name<int32_t, wanted>(loops, DType::int32), register_##name<uint32_t, wanted>(loops, DType::uint32); \
    register_##name<int64_t, wanted>(loops, DType::int64), register_##name<uint64_t, wanted>(loops, DType::uint64); \
    register_##name<float, wanted>(loops, DType::float32), register_##name<double, wanted>(loops, DType::float64);  \
    register_##name<cx<float>, wanted>(loops, DType::complex64);                                                    \
    register_##name<cx<double>, wanted>(loops, DType::complex128);                                                  \
  }
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION

}  // namespace
}  // namespace quarry::local::cpu::QUARRY_LEVEL
