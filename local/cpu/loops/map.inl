// Rows of ufunc.def as types, and the loop over them.
#include "quarry/local/cpu/loops/level.inl"
#include "quarry/local/program/op_enum.h"

namespace quarry::local::cpu::QUARRY_LEVEL {

static_assert(kOpCount <= kOpCapacity);

namespace {

constexpr bool contains(const char* letters, char letter) {
  for (; *letters; ++letters)
    if (*letters == letter) return true;
  return false;
}

// Unused arguments repeat the last one, so that every row is a function of three.
#define QUARRY_OP(name_, aliases, arity_, kinds_, result, rule_, identity, grouping, cost, expression) \
  struct row_##name_ {                                                                                 \
    static constexpr Op op = Op::name_;                                                                \
    static constexpr int arity = arity_;                                                               \
    static constexpr const char* kinds = #kinds_;                                                      \
    static constexpr OpRule rule = OpRule::rule_;                                                      \
    template <class T, class X, class Y, class Z>                                                      \
    static inline auto apply([[maybe_unused]] X x, [[maybe_unused]] Y y, [[maybe_unused]] Z z) {       \
      return expression;                                                                               \
    }                                                                                                  \
  };
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP

// Of what takes no time to compute: it waits for its operands.
template <class Row>
constexpr bool kStreams = Row::arity == 2 && (Row::rule == OpRule::comparison || Row::op == Op::add ||
                                              Row::op == Op::subtract || Row::op == Op::multiply);
// With `constant`, y is one element.
template <class Row, class T, bool constant>
void streaming_loop(void* out, const void* const* args, int64_t n) {
  using R = decltype(Row::template apply<T>(T{}, T{}, T{}));
  const T *x = static_cast<const T*>(args[0]), *y = static_cast<const T*>(args[1]);
  if (n == 0) return;
  const T one = *y;
  R* r = static_cast<R*>(out);
  constexpr int64_t kPart = 512 / static_cast<int64_t>(sizeof(T));
  int64_t i = 0;
  for (; i + kPart <= n; i += kPart) {
    fetch_lines<8>(reinterpret_cast<const char*>(x + i) + kAhead);
    if (!constant && x != y) fetch_lines<8>(reinterpret_cast<const char*>(y + i) + kAhead);
#pragma GCC ivdep
    for (int64_t k = 0; k < kPart; ++k) {
      const T second = constant ? one : y[i + k];
      r[i + k] = Row::template apply<T>(x[i + k], second, second);
    }
  }
  for (; i < n; ++i) {
    const T second = constant ? one : y[i];
    r[i] = Row::template apply<T>(x[i], second, second);
  }
}

template <class Row, class T, class X, class Y, class Z>
void map_loop(void* out, const void* const* args, int64_t n) {
  const X* x = static_cast<const X*>(args[0]);
  if constexpr (Row::arity == 1) {
    using R = decltype(Row::template apply<T>(X{}, X{}, X{}));
    R* r = static_cast<R*>(out);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Row::template apply<T>(x[i], x[i], x[i]);
  } else if constexpr (Row::arity == 2) {
    const Y* y = static_cast<const Y*>(args[1]);
    using R = decltype(Row::template apply<T>(X{}, Y{}, Y{}));
    R* r = static_cast<R*>(out);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Row::template apply<T>(x[i], y[i], y[i]);
  } else {
    const Y* y = static_cast<const Y*>(args[1]);
    const Z* z = static_cast<const Z*>(args[2]);
    using R = decltype(Row::template apply<T>(X{}, Y{}, Z{}));
    R* r = static_cast<R*>(out);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Row::template apply<T>(x[i], y[i], z[i]);
  }
}

// x where the condition holds, else y, as a choice of bits: compilers make branches of `?:`, which data that is not
// sorted makes ten times slower.
template <class T>
void select_loop(void* out, const void* const* args, int64_t n) {
  using Bits = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  typedef Bits Word __attribute__((may_alias));
  constexpr int64_t kWords = sizeof(T) / sizeof(Word);
  static_assert(sizeof(T) % sizeof(Word) == 0);
  const auto* condition = static_cast<const uint8_t*>(args[0]);
  const auto *x = static_cast<const Word*>(args[1]), *y = static_cast<const Word*>(args[2]);
  auto* r = static_cast<Word*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const Bits mask = static_cast<Bits>(-static_cast<Bits>(condition[i] != 0));
    for (int64_t k = i * kWords; k < (i + 1) * kWords; ++k)
      r[k] = static_cast<Bits>((x[k] & mask) | (y[k] & static_cast<Bits>(~mask)));
  }
}

// The loop of one row for dtype T of that kind, where it exists.
template <class Row, class T, char kind>
void register_row(Loops& loops, DType dtype) {
  MapLoop& entry = loops.op[static_cast<int>(Row::op)][static_cast<int>(dtype)];
  if constexpr (!contains(Row::kinds, kind) || Row::rule == OpRule::cast || Row::rule == OpRule::random ||
                Row::rule == OpRule::bounded || Row::rule == OpRule::sampler) {
    static_cast<void>(entry);
  } else if constexpr (Row::rule == OpRule::select) {
    entry = select_loop<T>;
  } else if constexpr (kStreams<Row> && sizeof(T) >= 4 && std::is_arithmetic_v<T>) {
    entry = streaming_loop<Row, T, /*constant=*/false>;
    loops.by_constant[static_cast<int>(Row::op)][static_cast<int>(dtype)] = streaming_loop<Row, T, /*constant=*/true>;
  } else if constexpr (Row::rule == OpRule::scale) {
    entry = map_loop<Row, T, T, int64_t, int64_t>;
  } else {
    entry = map_loop<Row, T, T, T, T>;
  }
}

}  // namespace
}  // namespace quarry::local::cpu::QUARRY_LEVEL
