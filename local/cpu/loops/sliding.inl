// Sliding products. A block of neighbouring results is kept in registers while t runs over a stretch of v, for 2 n
// flops per result of n terms and one load of a per multiplication. Each result sums the terms of a stretch in order
// and then the stretches in order, so that the width of vectors and blocks does not change bits.
#include <type_traits>

#include "quarry/local/cpu/sliding.h"

namespace quarry::local::cpu::QUARRY_LEVEL {

SlidingLoop sliding_loop(DType dtype);

namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr int kVectors = 8;        // accumulators
constexpr int64_t kStretch = 256;  // terms that are added up one after the other

template <class R>
struct vec {
  typedef R type __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));
};

// Narrow types would be promoted to int, whose product overflows.
struct SumOfProducts {
  template <class V>
  static V add(V sum, V x, V factor) {
    if constexpr (std::is_integral_v<V> && sizeof(V) < 4)
      return static_cast<V>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(x) * static_cast<uint32_t>(factor));
    else
      return sum + x * factor;
  }
  template <class V>
  static V join(V x, V y) {
    return static_cast<V>(x + y);
  }
};
struct AnyOfBoth {
  template <class V>
  static V add(V sum, V x, V factor) {
    return static_cast<V>(sum | (x & factor));
  }
  template <class V>
  static V join(V x, V y) {
    return static_cast<V>(x | y);
  }
};

int64_t clamped(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

// The terms of a block of at most kResults results: kParts sums of each component, one for each component of v.
template <class R, int kParts, class Rule>
struct Block {
  using V = typename vec<R>::type;
  static constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(R)), kRegisters = kVectors / kParts;
  static constexpr int kComponents = kRegisters * kWidth;
  static constexpr int64_t kResults = kComponents / kParts;

  alignas(64) R sums[kParts][kComponents];

  void clear() {
    for (int part = 0; part < kParts; ++part)
      for (int k = 0; k < kComponents; ++k) sums[part][k] = R(0);
  }
  // The results [begin, end) of the block get one term; `a` is where the first result's would be.
  void add_one(const R* a, const R* v, int64_t begin, int64_t end) {
    for (int part = 0; part < kParts; ++part) {
      const R factor = v[part];
      R* const to = sums[part];
#pragma GCC ivdep
      for (int64_t k = begin * kParts; k < end * kParts; ++k) to[k] = Rule::add(to[k], a[k], factor);
    }
  }
  // All results get `terms` terms.
  void add_all(const R* a, const R* v, int64_t terms) {
    V s[kParts][kRegisters];
    for (int part = 0; part < kParts; ++part)
      for (int r = 0; r < kRegisters; ++r) s[part][r] = *reinterpret_cast<const V*>(&sums[part][r * kWidth]);
    accumulate(a, v, terms, s);
    for (int part = 0; part < kParts; ++part)
      for (int r = 0; r < kRegisters; ++r) *reinterpret_cast<V*>(&sums[part][r * kWidth]) = s[part][r];
  }
  // What clear(), add_all() and finish() of a whole block do, where numbers have one part.
  static void run_through(const R* a, const R* v, int64_t terms, R* out, bool first) {
    V s[1][kVectors];
    for (int r = 0; r < kVectors; ++r) s[0][r] = V{};
    accumulate(a, v, terms, s);
    for (int r = 0; r < kVectors; ++r) {
      V& to = *reinterpret_cast<V*>(out + r * kWidth);
      to = first ? s[0][r] : Rule::join(V(to), s[0][r]);
    }
  }
  // Writes the first `count` results, or adds them to what is there.
  void finish(R* out, int64_t count, bool first) const {
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (kParts == 1) {
        out[i] = first ? sums[0][i] : Rule::join(out[i], sums[0][i]);
      } else {
        const R re = sums[0][2 * i] - sums[1][2 * i + 1], im = sums[0][2 * i + 1] + sums[1][2 * i];
        out[2 * i] = first ? re : out[2 * i] + re;
        out[2 * i + 1] = first ? im : out[2 * i + 1] + im;
      }
    }
  }

 private:
  template <int kCount>
  static void accumulate(const R* a, const R* v, int64_t terms, V (&sums)[kParts][kCount]) {
    V s[kParts][kCount];
    for (int part = 0; part < kParts; ++part)
      for (int r = 0; r < kCount; ++r) s[part][r] = sums[part][r];
    for (int64_t t = 0; t < terms; ++t, a += kParts, v += kParts) {
      V factor[kParts];
      for (int part = 0; part < kParts; ++part) factor[part] = V{} + v[part];
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const V x = *reinterpret_cast<const V*>(a + r * kWidth);
#pragma GCC unroll 2
        for (int part = 0; part < kParts; ++part) s[part][r] = Rule::add(s[part][r], x, factor[part]);
      }
    }
    for (int part = 0; part < kParts; ++part)
      for (int r = 0; r < kCount; ++r) sums[part][r] = s[part][r];
  }
};

template <class R, int kParts, class Rule>
void slide(const SlidingProduct& p, int64_t first, int64_t last) {
  using B = Block<R, kParts, Rule>;
  const R *const a = static_cast<const R*>(p.a), *const v = static_cast<const R*>(p.v);
  R* const out = static_cast<R*>(p.out);
  B block;
  for (int64_t t0 = 0; t0 == 0 || t0 < p.taps; t0 += kStretch) {
    const int64_t t1 = t0 + kStretch < p.taps ? t0 + kStretch : p.taps;
    for (int64_t i = first; i < last; i += B::kResults) {
      const int64_t count = last - i < B::kResults ? last - i : B::kResults;
      // For t in [begin, end) some results of the block have their element of a; in [head, tail) all have.
      const int64_t begin = clamped(p.before - (i + count - 1), t0, t1);
      const int64_t end = clamped(p.elements + p.before - i, begin, t1);
      if (begin == end && t0 > 0) continue;
      const int64_t head = clamped(p.before - i, begin, end);
      const int64_t tail = clamped(p.elements + p.before - (i + count - 1), head, end);
      const R* const inner = a + (i + head - p.before) * kParts;
      if constexpr (kParts == 1) {
        if (count == B::kResults && head == begin && tail == end) {
          B::run_through(inner, v + head, tail - head, out + i, t0 == 0);
          continue;
        }
      }
      const auto part_of_block = [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) {
          const int64_t at = i + t - p.before;  // of the first result
          const int64_t low = at < 0 ? -at : 0, high = p.elements - at < count ? p.elements - at : count;
          block.add_one(a + at * kParts, v + t * kParts, low, high);
        }
      };
      block.clear();
      part_of_block(begin, head);
      if (count == B::kResults)
        block.add_all(inner, v + head * kParts, tail - head);
      else
        part_of_block(head, tail);
      part_of_block(tail, end);
      block.finish(out + i * kParts, count, t0 == 0);
    }
  }
}

}  // namespace

SlidingLoop sliding_loop(DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return &slide<uint8_t, 1, AnyOfBoth>;
    case DType::int8:
    case DType::uint8:
      return &slide<uint8_t, 1, SumOfProducts>;
    case DType::int16:
    case DType::uint16:
      return &slide<uint16_t, 1, SumOfProducts>;
    case DType::int32:
    case DType::uint32:
      return &slide<uint32_t, 1, SumOfProducts>;
    case DType::int64:
    case DType::uint64:
      return &slide<uint64_t, 1, SumOfProducts>;
    case DType::float32:
      return &slide<float, 1, SumOfProducts>;
    case DType::float64:
      return &slide<double, 1, SumOfProducts>;
    case DType::complex64:
      return &slide<float, 2, SumOfProducts>;
    case DType::complex128:
      return &slide<double, 2, SumOfProducts>;
    case DType::float16:
    case DType::bfloat16:
      return nullptr;
  }
  return nullptr;
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
