#include "quarry/local/cpu/recurrences.h"

#include <complex>

#define QUARRY_LEVEL recurrences
#include "quarry/local/cpu/loops/map.inl"

namespace quarry::local::cpu {
namespace {

template <class T>
struct storage {
  using type = T;
};
template <class R>
struct storage<std::complex<R>> {
  using type = cx<R>;
};

// What a chain of this row is computed in; void where it has no loop from two T to one.
template <class Row, class T, char kind>
struct chain {
  static constexpr bool in_float = fn::Half<T> && Row::rule != OpRule::storage;
  using value = std::conditional_t<in_float, float, T>;
  static constexpr bool exists = [] {
    if constexpr (Row::arity != 2 || !recurrences::contains(Row::kinds, kind) || Row::rule == OpRule::random ||
                  Row::rule == OpRule::bounded || Row::rule == OpRule::sampler || Row::rule == OpRule::scale ||
                  (Row::rule == OpRule::double_only && sizeof(T) != (kind == 'c' ? 16 : 8)))
      return false;
    else
      return std::is_same_v<decltype(Row::template apply<value>(value{}, value{}, value{})), value>;
  }();
};

template <class Row, class T, char kind>
void run(const char* x, int64_t x_stride, char* out, int64_t out_stride, int64_t n, void* carry, bool started) {
  using V = typename chain<Row, T, kind>::value;
  const auto load = [](const char* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return static_cast<V>(value);
  };
  const auto store = [](char* p, V value) {
    const T stored(value);
    std::memcpy(p, &stored, sizeof stored);
  };
  if (n == 0) return;
  V acc;
  int64_t i = 0;
  if (started) {
    std::memcpy(&acc, carry, sizeof acc);
  } else {
    acc = load(x);
    if (out) store(out, acc);
    i = 1;
  }
  if (out) {
    for (; i < n; ++i) {
      const V value = load(x + i * x_stride);
      acc = Row::template apply<V>(acc, value, value);
      store(out + i * out_stride, acc);
    }
  } else {
    for (; i < n; ++i) {
      const V value = load(x + i * x_stride);
      acc = Row::template apply<V>(acc, value, value);
    }
  }
  std::memcpy(carry, &acc, sizeof acc);
}

template <class Row>
Recurrence find(DType dtype) {
  switch (dtype) {
#define QUARRY_DTYPE(name, text, element, kind_, compute)                     \
  case DType::name: {                                                         \
    using T = typename storage<element>::type;                                \
    constexpr char letter = #kind_[0] == 'u' ? 'i' : #kind_[0];               \
    if constexpr (chain<Row, T, letter>::exists) return &run<Row, T, letter>; \
    return nullptr;                                                           \
  }
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
  }
  return nullptr;
}

}  // namespace

Recurrence recurrence(Op op, DType dtype) {
  switch (op) {
#define QUARRY_OP(name, ...) \
  case Op::name:             \
    return find<recurrences::row_##name>(dtype);
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
  }
  return nullptr;
}

void store_carry(Op op, DType dtype, const void* carry, char* out) {
  const bool half = is_half(dtype);
  if (!half || info(op).rule == OpRule::storage) {
    std::memcpy(out, carry, static_cast<size_t>(itemsize(dtype)));
    return;
  }
  float value;
  std::memcpy(&value, carry, sizeof value);
  if (dtype == DType::float16) {
    const float16 stored(value);
    std::memcpy(out, &stored, sizeof stored);
  } else {
    const bfloat16 stored(value);
    std::memcpy(out, &stored, sizeof stored);
  }
}

}  // namespace quarry::local::cpu
