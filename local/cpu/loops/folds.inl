// Reductions whose order does not matter to the result: integer sums, products, extremes and their positions, truth.
#include "local/cpu/loops/map.inl"

namespace quarry::local::cpu::QUARRY_LEVEL {
namespace {

// f merges two values; eight accumulators per row, merged in order.
template <class T, class F>
void fold_columns(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes,
                  void* const* fields) {
  T* out = static_cast<T*>(fields[0]);
  constexpr int lanes = sizeof(T) >= 8 ? 32 : static_cast<int>(256 / sizeof(T));
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_bytes);
    T total = row[0];
    int64_t i = 1;
    if (columns >= 2 * lanes) {
      T a[lanes];
      for (int k = 0; k < lanes; ++k) a[k] = row[k];
      for (i = lanes; i + lanes <= columns; i += lanes)
        for (int k = 0; k < lanes; ++k) a[k] = F::apply(a[k], row[i + k]);
      total = a[0];
      for (int k = 1; k < lanes; ++k) total = F::apply(total, a[k]);
    }
    for (; i < columns; ++i) total = F::apply(total, row[i]);
    out[r] = total;
  }
}
template <class T, class F>
void fold_rows(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes, void* const* fields) {
  T* out = static_cast<T*>(fields[0]);
  std::memcpy(out, x, static_cast<size_t>(columns) * sizeof(T));
  for (int64_t r = 1; r < rows; ++r) {
    const T* row = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_bytes);
#pragma GCC ivdep
    for (int64_t i = 0; i < columns; ++i) out[i] = F::apply(out[i], row[i]);
  }
}
template <class T, class F>
void fold_combine(void* const* a, const void* const* b, int64_t n) {
  T* x = static_cast<T*>(a[0]);
  const T* y = static_cast<const T*>(b[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) x[i] = F::apply(x[i], y[i]);
}

struct Add {
  template <class T>
  static inline T apply(T x, T y) {
    return fn::add(x, y);
  }
};
struct Multiply {
  template <class T>
  static inline T apply(T x, T y) {
    return fn::multiply(x, y);
  }
};
struct Minimum {
  template <class T>
  static inline T apply(T x, T y) {
    return fn::minimum(x, y);
  }
};
struct Maximum {
  template <class T>
  static inline T apply(T x, T y) {
    return fn::maximum(x, y);
  }
};
// Bytes that are 0 or 1.
struct Or {
  static inline uint8_t apply(uint8_t x, uint8_t y) { return x | y; }
};
struct And {
  static inline uint8_t apply(uint8_t x, uint8_t y) { return x & y; }
};

void count_columns(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes,
                   void* const* fields) {
  int64_t* out = static_cast<int64_t*>(fields[0]);
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* row = static_cast<const uint8_t*>(x) + r * row_bytes;
    int64_t total = 0;
    for (int64_t i = 0; i < columns; ++i) total += row[i];
    out[r] = total;
  }
}
void count_rows(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes, void* const* fields) {
  int64_t* out = static_cast<int64_t*>(fields[0]);
  for (int64_t i = 0; i < columns; ++i) out[i] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* row = static_cast<const uint8_t*>(x) + r * row_bytes;
    for (int64_t i = 0; i < columns; ++i) out[i] += row[i];
  }
}

// Whether a (at position i) is kept before b (at j): a is not empty, and b is empty or worse or no earlier an equal.
template <bool minimum, class T>
bool first_wins(T a, int64_t i, T b, int64_t j) {
  const bool a_nan = fn::isnan(a), b_nan = fn::isnan(b);
  const bool better = minimum ? fn::less(a, b) : fn::less(b, a);
  const bool tie = fn::equal(a, b) || (a_nan && b_nan);
  return i >= 0 && (j < 0 || better || (a_nan && !b_nan) || (tie && i < j));
}
template <bool minimum, class T>
void arg_columns(const void* x, const int64_t* positions, int64_t rows, int64_t columns, int64_t row_bytes,
                 void* const* fields) {
  T* out = static_cast<T*>(fields[0]);
  int64_t* where = static_cast<int64_t*>(fields[1]);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_bytes);
    const int64_t* place = positions + r * columns;
    // The extreme first, which vectorises, then its first place.
    void* best_field[1] = {out + r};
    fold_columns<T, std::conditional_t<minimum, Minimum, Maximum>>(row, nullptr, 1, columns, 0, best_field);
    const T best = out[r];
    int64_t at = -1;
    const bool nan = fn::isnan(best);
    const auto same = [&](int64_t i) { return fn::equal(row[i], best) || (nan && fn::isnan(row[i])); };
    constexpr int64_t kGroup = 64;
    for (int64_t begin = 0; begin < columns; begin += kGroup) {
      const int64_t end = columns - begin < kGroup ? columns : begin + kGroup;
      int hits = 0;
      for (int64_t i = begin; i < end; ++i) hits += same(i) ? 1 : 0;
      for (int64_t i = begin; hits > 0 && i < end; ++i)
        if (same(i) && (at < 0 || place[i] < at)) {
          at = place[i];
          out[r] = row[i];
        }
    }
    where[r] = at;
  }
}
template <bool minimum, class T>
void arg_rows(const void* x, const int64_t* positions, int64_t rows, int64_t columns, int64_t row_bytes,
              void* const* fields) {
  T* out = static_cast<T*>(fields[0]);
  int64_t* where = static_cast<int64_t*>(fields[1]);
  std::memcpy(out, x, static_cast<size_t>(columns) * sizeof(T));
  std::memcpy(where, positions, static_cast<size_t>(columns) * sizeof(int64_t));
  for (int64_t r = 1; r < rows; ++r) {
    const T* row = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_bytes);
    const int64_t* place = positions + r * columns;
    for (int64_t i = 0; i < columns; ++i) {
      const bool keep = first_wins<minimum>(out[i], where[i], row[i], place[i]);
      out[i] = keep ? out[i] : row[i];
      where[i] = keep ? where[i] : place[i];
    }
  }
}
template <bool minimum, class T>
void arg_combine(void* const* a, const void* const* b, int64_t n) {
  T* x = static_cast<T*>(a[0]);
  const T* y = static_cast<const T*>(b[0]);
  int64_t* i = static_cast<int64_t*>(a[1]);
  const int64_t* j = static_cast<const int64_t*>(b[1]);
  for (int64_t k = 0; k < n; ++k) {
    const bool keep = first_wins<minimum>(x[k], i[k], y[k], j[k]);
    x[k] = keep ? x[k] : y[k];
    i[k] = keep ? i[k] : j[k];
  }
}

template <class T, class F>
void set_fold(Loops& loops, Accumulator a, DType dtype, bool only_combine = false) {
  const int row = static_cast<int>(a), column = static_cast<int>(dtype);
  if (!only_combine) {
    loops.reduce_columns[row][column] = fold_columns<T, F>;
    loops.reduce_rows[row][column] = fold_rows<T, F>;
  }
  loops.combine[row][column] = fold_combine<T, F>;
}

template <class T>
void set_ordered(Loops& loops, DType dtype) {
  set_fold<T, Minimum>(loops, Accumulator::min, dtype);
  set_fold<T, Maximum>(loops, Accumulator::max, dtype);
  const int column = static_cast<int>(dtype), low = static_cast<int>(Accumulator::argmin),
            high = static_cast<int>(Accumulator::argmax);
  loops.reduce_columns[low][column] = arg_columns<true, T>;
  loops.reduce_rows[low][column] = arg_rows<true, T>;
  loops.combine[low][column] = arg_combine<true, T>;
  loops.reduce_columns[high][column] = arg_columns<false, T>;
  loops.reduce_rows[high][column] = arg_rows<false, T>;
  loops.combine[high][column] = arg_combine<false, T>;
}

template <class T>
void set_float(Loops& loops, DType dtype) {
  set_fold<T, Multiply>(loops, Accumulator::prod, dtype);
  // Float sums are in sums.inl.
  set_fold<T, Add>(loops, Accumulator::sum, dtype, /*only_combine=*/true);
  set_ordered<T>(loops, dtype);
}

// Sums and products of signed integers are those of the unsigned ones.
template <class S, class U>
void set_integer(Loops& loops, DType signed_dtype, DType unsigned_dtype) {
  for (DType dtype : {signed_dtype, unsigned_dtype}) {
    set_fold<U, Add>(loops, Accumulator::sum, dtype);
    set_fold<U, Multiply>(loops, Accumulator::prod, dtype);
  }
  set_ordered<S>(loops, signed_dtype);
  set_ordered<U>(loops, unsigned_dtype);
}

}  // namespace

void register_folds(Loops& loops) {
  set_integer<int8_t, uint8_t>(loops, DType::int8, DType::uint8);
  set_integer<int16_t, uint16_t>(loops, DType::int16, DType::uint16);
  set_integer<int32_t, uint32_t>(loops, DType::int32, DType::uint32);
  set_integer<int64_t, uint64_t>(loops, DType::int64, DType::uint64);
  set_float<float>(loops, DType::float32);
  set_float<double>(loops, DType::float64);
  set_float<cx<float>>(loops, DType::complex64);
  set_float<cx<double>>(loops, DType::complex128);

  set_ordered<uint8_t>(loops, DType::bool_);
  set_fold<uint8_t, Or>(loops, Accumulator::sum, DType::bool_);
  set_fold<uint8_t, And>(loops, Accumulator::prod, DType::bool_);
  set_fold<uint8_t, Or>(loops, Accumulator::any, DType::bool_);
  set_fold<uint8_t, And>(loops, Accumulator::all, DType::bool_);
  const int count = static_cast<int>(Accumulator::count), column = static_cast<int>(DType::bool_);
  loops.reduce_columns[count][column] = count_columns;
  loops.reduce_rows[count][column] = count_rows;
  loops.combine[count][column] = fold_combine<int64_t, Add>;
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
