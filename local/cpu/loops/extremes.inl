// Extremes and their first positions. A NaN is beyond every number, and the first of several counts. Accumulators have
// one logical shape at every level, so that the sign of a zero depends on the elements only.
#include <limits>

#include "quarry/local/cpu/loops/fold.inl"

namespace quarry::local::cpu::QUARRY_LEVEL {
namespace {

template <class T, int bytes>
struct lanes_of {
  typedef T type __attribute__((vector_size(bytes)));
  typedef T anywhere __attribute__((vector_size(bytes), aligned(1), may_alias));  // in memory
};
#ifdef __AVX2__
constexpr int kRegister = 32;
#else
constexpr int kRegister = 16;
#endif

struct Minimum {
  template <class T>
  static inline T apply(T x, T y) {
    return fn::minimum(x, y);
  }
  // Lane by lane, whether y is beyond x.
  template <class V>
  static inline auto beyond(const V& x, const V& y) {
    return y < x;
  }
  template <class V>
  static inline auto reaches(const V& x, const V& y) {
    return x <= y;
  }
};
struct Maximum {
  template <class T>
  static inline T apply(T x, T y) {
    return fn::maximum(x, y);
  }
  template <class V>
  static inline auto beyond(const V& x, const V& y) {
    return y > x;
  }
  template <class V>
  static inline auto reaches(const V& x, const V& y) {
    return x >= y;
  }
};

template <class T>
constexpr bool kReal = std::is_arithmetic_v<T>;
template <class T>
constexpr bool kFloating = std::is_floating_point_v<T>;

template <class T, int bytes>
inline typename lanes_of<T, bytes>::type load(const void* p) {
  return *static_cast<const typename lanes_of<T, bytes>::anywhere*>(p);
}

// Of x and y, the one that is further, x where neither is or x is NaN.
template <class F, class T, class V>
inline V further(const V& x, const V& y) {
  if constexpr (kFloating<T>) return F::reaches(x, y) | (x != x) ? x : y;
  return F::beyond(x, y) ? y : x;
}

// The extreme of the lanes of registers, each half with the other.
template <class F, class T, int bytes>
inline T across(typename lanes_of<T, bytes>::type lanes) {
  if constexpr (bytes > 16) {
    return across<F, T, bytes / 2>(further<F, T>(
        load<T, bytes / 2>(&lanes), load<T, bytes / 2>(reinterpret_cast<const char*>(&lanes) + bytes / 2)));
  } else {
    T best = lanes[0];
    for (int k = 1; k < bytes / static_cast<int>(sizeof(T)); ++k) best = F::apply(best, static_cast<T>(lanes[k]));
    return best;
  }
}

// Whether a lane of a comparison of T is true.
template <class T, int bytes, class M>
inline bool any_of(const M& mask) {
  using Word = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  Word words[bytes / static_cast<int>(sizeof(Word))], any = 0;
  static_assert(sizeof words == sizeof mask);
  std::memcpy(words, &mask, sizeof words);
  for (const Word word : words) any |= word;
  return any != 0;
}

// The extreme of n elements, n > 0. Elements may be looked at twice.
template <class F, class T>
T extreme(const T* x, int64_t n) {
  constexpr int kSize = static_cast<int>(sizeof(T)), width = kRegister / kSize, registers = 256 / kRegister;
  constexpr int kGroup = registers * width;
  using V = typename lanes_of<T, kRegister>::type;
  if (n >= kGroup) {
    V best[registers];
    for (int k = 0; k < registers; ++k) best[k] = load<T, kRegister>(x + k * width);
    [[maybe_unused]] decltype(best[0] != best[0]) nan{};
    const auto add = [&](const T* at) __attribute__((always_inline)) {
      fetch_ahead(at);
#pragma GCC unroll 16
      for (int k = 0; k < registers; ++k) {
        const V v = load<T, kRegister>(at + k * width);
        best[k] = F::beyond(best[k], v) ? v : best[k];
        if constexpr (kFloating<T>) nan |= v != v;
      }
    };
    if constexpr (kFloating<T>)
      for (int k = 0; k < registers; ++k) nan |= best[k] != best[k];
    int64_t i = kGroup;
    for (; i + kGroup <= n; i += kGroup) add(x + i);
    if (i < n) add(x + n - kGroup);
    if constexpr (kFloating<T>) {
      const bool any = any_of<T, kRegister>(nan);
      for (i = 0; any && i < n; ++i)
        if (fn::isnan(x[i])) return x[i];
    }
    for (int step = registers / 2; step > 0; step /= 2)
      for (int k = 0; k < step; ++k) best[k] = further<F, T>(best[k], best[k + step]);
    return across<F, T, kRegister>(best[0]);
  }
  if (n >= 16 / kSize) {
    using Small = typename lanes_of<T, 16>::type;
    constexpr int kSmall = 16 / kSize;
    Small best = load<T, 16>(x);
    for (int64_t i = kSmall; i + kSmall <= n; i += kSmall) best = further<F, T>(best, load<T, 16>(x + i));
    if (n % kSmall != 0) best = further<F, T>(best, load<T, 16>(x + n - kSmall));
    return across<F, T, 16>(best);
  }
  T best = x[0];
  for (int64_t i = 1; i < n; ++i) best = F::apply(best, x[i]);
  return best;
}

template <class F, class T>
void extreme_columns(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes,
                     void* const* fields) {
  T* out = static_cast<T*>(fields[0]);
  for (int64_t r = 0; r < rows; ++r)
    out[r] = extreme<F>(reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_bytes), columns);
}

// Strips of columns of `bytes` in `registers` registers, from column `begin` on; returns where the next begins.
template <class F, class T, int bytes, int registers>
int64_t extreme_strips(const char* x, int64_t rows, int64_t begin, int64_t columns, int64_t row_bytes, T* out) {
  using V = typename lanes_of<T, bytes>::type;
  constexpr int64_t width = bytes / static_cast<int64_t>(sizeof(T));
  for (; begin + registers * width <= columns; begin += registers * width) {
    const char* p = x + begin * static_cast<int64_t>(sizeof(T));
    V best[registers];
    for (int k = 0; k < registers; ++k) best[k] = load<T, bytes>(p + k * bytes);
    [[maybe_unused]] auto nan = best[0] != best[0];
    if constexpr (kFloating<T>)
      for (int k = 1; k < registers; ++k) nan |= best[k] != best[k];
    for (int64_t r = 1; r < rows; ++r) {
      p += row_bytes;
      fetch_lines<registers * bytes / 64>(p + sizeof best);  // the next strip
#pragma GCC unroll 16
      for (int k = 0; k < registers; ++k) {
        const V v = load<T, bytes>(p + k * bytes);
        best[k] = F::beyond(best[k], v) ? v : best[k];
        if constexpr (kFloating<T>) nan |= v != v;
      }
    }
    if constexpr (kFloating<T>) {
      if (any_of<T, bytes>(nan)) {  // again, with an eye on each NaN
        p = x + begin * static_cast<int64_t>(sizeof(T));
        for (int k = 0; k < registers; ++k) best[k] = load<T, bytes>(p + k * bytes);
        for (int64_t r = 1; r < rows; ++r) {
          p += row_bytes;
          for (int k = 0; k < registers; ++k) best[k] = further<F, T>(best[k], load<T, bytes>(p + k * bytes));
        }
      }
    }
    std::memcpy(out + begin, best, sizeof best);
  }
  return begin;
}
template <class F, class T>
void extreme_rows(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes,
                  void* const* fields) {
  const char* from = static_cast<const char*>(x);
  T* out = static_cast<T*>(fields[0]);
  int64_t i = extreme_strips<F, T, kRegister, 256 / kRegister>(from, rows, 0, columns, row_bytes, out);
  i = extreme_strips<F, T, kRegister, 1>(from, rows, i, columns, row_bytes, out);
  i = extreme_strips<F, T, 16, 1>(from, rows, i, columns, row_bytes, out);
  for (; i < columns; ++i) {
    const char* p = from + i * static_cast<int64_t>(sizeof(T));
    T best = *reinterpret_cast<const T*>(p);
    for (int64_t r = 1; r < rows; ++r) best = F::apply(best, *reinterpret_cast<const T*>(p + r * row_bytes));
    out[i] = best;
  }
}

// ---- Positions ----

// Whether a (at position i) is kept before b (at j): a is not empty, and b is empty or worse or no earlier an equal.
template <class F, class T>
bool first_wins(T a, int64_t i, T b, int64_t j) {
  const bool a_nan = fn::isnan(a), b_nan = fn::isnan(b);
  const bool better = std::is_same_v<F, Minimum> ? fn::less(a, b) : fn::less(b, a);
  const bool tie = fn::equal(a, b) || (a_nan && b_nan);
  return i >= 0 && (j < 0 || better || (a_nan && !b_nan) || (tie && i < j));
}

template <class T>
constexpr int64_t kShortRow = 128 / static_cast<int64_t>(sizeof(T));

// The place of the first extreme: the extreme of each block, then its place in the first block that has it.
template <class F, class T>
int64_t place_of_extreme(const T* x, int64_t n) {
  if constexpr (kReal<T>) {
    constexpr int64_t kBlock = 4096 / static_cast<int64_t>(sizeof(T));
    if (n >= kShortRow<T>) {
      int64_t best_begin = 0;
      T best = T();
      for (int64_t begin = 0; begin < n; begin += kBlock) {
        const T value = extreme<F>(x + begin, n - begin < kBlock ? n - begin : kBlock);
        if (begin > 0 && !fn::isnan(value) && !F::beyond(best, value)) continue;
        best = value;
        best_begin = begin;
        if (fn::isnan(value)) break;
      }
      const int64_t end = n - best_begin < kBlock ? n : best_begin + kBlock;
      const bool nan = fn::isnan(best);
      const auto same = [&](int64_t i) { return (x[i] == best) | (nan & fn::isnan(x[i])); };
      constexpr int64_t kGroup = 256 / static_cast<int64_t>(sizeof(T));
      int64_t i = best_begin;
      for (; i + kGroup <= end; i += kGroup) {
        using Word = std::conditional_t<sizeof(T) == 8, int64_t, std::conditional_t<sizeof(T) == 4, int32_t, uint8_t>>;
        Word hits = 0;
        for (int64_t k = 0; k < kGroup; ++k) hits |= same(i + k) ? 1 : 0;
        if (hits != 0) break;
      }
      while (!same(i)) ++i;
      return i;
    }
  }
  int64_t place = 0;
  for (int64_t i = 1; i < n; ++i) place = first_wins<F>(x[place], place, x[i], i) ? place : i;
  return place;
}

// As extreme_strips(), with the number of the row that each is in.
template <class F, class T, int bytes, int registers>
int64_t place_strips(const char* x, int64_t rows, int64_t begin, int64_t columns, int64_t row_bytes, T* out,
                     int64_t* where) {
  using Index = std::conditional_t<
      sizeof(T) == 8, int64_t,
      std::conditional_t<sizeof(T) == 4, int32_t, std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>;
  using V = typename lanes_of<T, bytes>::type;
  using I = typename lanes_of<Index, bytes>::type;
  constexpr int64_t width = bytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kMostRows = std::numeric_limits<Index>::max();
  for (; begin + registers * width <= columns; begin += registers * width) {
    for (int64_t done = 0; done < rows; done += kMostRows) {
      const int64_t count = rows - done < kMostRows ? rows - done : kMostRows;
      const char* p = x + done * row_bytes + begin * static_cast<int64_t>(sizeof(T));
      V best[registers];
      I place[registers];
      for (int k = 0; k < registers; ++k) {
        best[k] = load<T, bytes>(p + k * bytes);
        place[k] = I{};
      }
      for (int64_t r = 1; r < count; ++r) {
        p += row_bytes;
        const I now = I{} + static_cast<Index>(r);
#pragma GCC unroll 8
        for (int k = 0; k < registers; ++k) {
          const V v = load<T, bytes>(p + k * bytes);
          if constexpr (kFloating<T>) {
            const auto kept = F::reaches(best[k], v) | (best[k] != best[k]);
            best[k] = kept ? best[k] : v;
            place[k] = kept ? place[k] : now;
          } else {
            const auto lost = F::beyond(best[k], v);
            best[k] = lost ? v : best[k];
            place[k] = lost ? now : place[k];
          }
        }
      }
      T values[registers * width];
      Index places[registers * width];
      std::memcpy(values, best, sizeof best);
      std::memcpy(places, place, sizeof place);
      for (int64_t k = 0; k < registers * width; ++k) {
        const bool kept = done > 0 && first_wins<F>(out[begin + k], int64_t{0}, values[k], int64_t{1});
        out[begin + k] = kept ? out[begin + k] : values[k];
        where[begin + k] = kept ? where[begin + k] : done + places[k];
      }
    }
  }
  return begin;
}
// Short rows side by side, turned into columns.
template <class F, class T>
void place_short(const char* x, int64_t rows, int64_t columns, int64_t row_bytes, T* out, int64_t* where) {
  constexpr int64_t kRows = 256 / static_cast<int64_t>(sizeof(T));
  T turned[kShortRow<T> * kRows], best[kRows];
  int64_t places[kRows];
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t count = rows - begin < kRows ? rows - begin : kRows;
    for (int64_t k = 0; k < kRows; ++k) {
      const T* row = reinterpret_cast<const T*>(x + (begin + (k < count ? k : 0)) * row_bytes);
      for (int64_t c = 0; c < columns; ++c) turned[c * kRows + k] = row[c];
    }
    place_strips<F, T, kRegister, 64 / kRegister>(reinterpret_cast<const char*>(turned), columns, 0, kRows,
                                                  kRows * static_cast<int64_t>(sizeof(T)), best, places);
    std::memcpy(out + begin, best, static_cast<size_t>(count) * sizeof(T));
    std::memcpy(where + begin, places, static_cast<size_t>(count) * sizeof(int64_t));
  }
}

template <class F, class T>
void place_columns(const void* x, const int64_t* positions, int64_t rows, int64_t columns, int64_t row_bytes,
                   void* const* fields) {
  T* out = static_cast<T*>(fields[0]);
  int64_t* where = static_cast<int64_t*>(fields[1]);
  if constexpr (kReal<T>) {
    constexpr int64_t kFewRows = 8;
    if (!positions && columns < kShortRow<T> && rows >= kFewRows)
      return place_short<F>(static_cast<const char*>(x), rows, columns, row_bytes, out, where);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_bytes);
    int64_t place = place_of_extreme<F>(row, columns);
    out[r] = row[place];
    where[r] = place;
    if (!positions) continue;
    const int64_t* at = positions + r * columns;
    // All that equal it, for their positions have any order.
    const T best = out[r];
    const bool nan = fn::isnan(best);
    where[r] = at[place];
    for (; place < columns; ++place)
      if ((fn::equal(row[place], best) || (nan && fn::isnan(row[place]))) && at[place] < where[r]) {
        out[r] = row[place];
        where[r] = at[place];
      }
  }
}

template <class F, class T>
void place_rows(const void* x, const int64_t* positions, int64_t rows, int64_t columns, int64_t row_bytes,
                void* const* fields) {
  const char* from = static_cast<const char*>(x);
  T* out = static_cast<T*>(fields[0]);
  int64_t* where = static_cast<int64_t*>(fields[1]);
  int64_t begin = 0;
  if constexpr (kReal<T>) {
    if (!positions) {
      begin = place_strips<F, T, kRegister, 4>(from, rows, begin, columns, row_bytes, out, where);
      begin = place_strips<F, T, kRegister, 1>(from, rows, begin, columns, row_bytes, out, where);
      begin = place_strips<F, T, 16, 1>(from, rows, begin, columns, row_bytes, out, where);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = reinterpret_cast<const T*>(from + r * row_bytes);
    const int64_t* place = positions ? positions + r * columns : nullptr;
    for (int64_t i = begin; i < columns; ++i) {
      const int64_t at = place ? place[i] : r;
      const bool kept = r > 0 && first_wins<F>(out[i], where[i], row[i], at);
      out[i] = kept ? out[i] : row[i];
      where[i] = kept ? where[i] : at;
    }
  }
}
template <class F, class T>
void place_combine(void* const* a, const void* const* b, int64_t n) {
  T* x = static_cast<T*>(a[0]);
  const T* y = static_cast<const T*>(b[0]);
  int64_t* i = static_cast<int64_t*>(a[1]);
  const int64_t* j = static_cast<const int64_t*>(b[1]);
  for (int64_t k = 0; k < n; ++k) {
    const bool keep = first_wins<F>(x[k], i[k], y[k], j[k]);
    x[k] = keep ? x[k] : y[k];
    i[k] = keep ? i[k] : j[k];
  }
}

template <class F, class T>
void set(Loops& loops, DType dtype, Accumulator value, Accumulator position) {
  const int column = static_cast<int>(dtype), v = static_cast<int>(value), p = static_cast<int>(position);
  if constexpr (kReal<T>) {
    loops.reduce_columns[v][column] = extreme_columns<F, T>;
    loops.reduce_rows[v][column] = extreme_rows<F, T>;
  } else {
    loops.reduce_columns[v][column] = fold_columns<T, F>;
    loops.reduce_rows[v][column] = fold_rows<T, F>;
  }
  loops.combine[v][column] = fold_combine<T, F>;
  loops.reduce_columns[p][column] = place_columns<F, T>;
  loops.reduce_rows[p][column] = place_rows<F, T>;
  loops.combine[p][column] = place_combine<F, T>;
}
template <class T>
void set_both(Loops& loops, DType dtype) {
  set<Minimum, T>(loops, dtype, Accumulator::min, Accumulator::argmin);
  set<Maximum, T>(loops, dtype, Accumulator::max, Accumulator::argmax);
}

}  // namespace

void register_extremes(Loops& loops) {
  set_both<uint8_t>(loops, DType::bool_);
  set_both<int8_t>(loops, DType::int8);
  set_both<int16_t>(loops, DType::int16);
  set_both<int32_t>(loops, DType::int32);
  set_both<int64_t>(loops, DType::int64);
  set_both<uint8_t>(loops, DType::uint8);
  set_both<uint16_t>(loops, DType::uint16);
  set_both<uint32_t>(loops, DType::uint32);
  set_both<uint64_t>(loops, DType::uint64);
  set_both<float>(loops, DType::float32);
  set_both<double>(loops, DType::float64);
  set_both<cx<float>>(loops, DType::complex64);
  set_both<cx<double>>(loops, DType::complex128);
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
