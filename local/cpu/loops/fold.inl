// Reductions by a function of two values that may be applied in any order.
#include "quarry/local/cpu/loops/level.inl"

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
  const auto row_from = [&](int64_t r, int64_t i) {
    return reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_bytes) + i;
  };
  // Strips that stay in registers.
  constexpr int64_t kStrip = 256 / static_cast<int64_t>(sizeof(T));
  int64_t begin = 0;
  for (; begin + kStrip <= columns; begin += kStrip) {
    T a[kStrip];
    std::memcpy(a, row_from(0, begin), sizeof a);
    for (int64_t r = 1; r < rows; ++r) {
      const T* row = row_from(r, begin);
      for (int64_t k = 0; k < kStrip; ++k) a[k] = F::apply(a[k], row[k]);
    }
    std::memcpy(out + begin, a, sizeof a);
  }
  if (begin == columns) return;
  std::memcpy(out + begin, row_from(0, begin), static_cast<size_t>(columns - begin) * sizeof(T));
  for (int64_t r = 1; r < rows; ++r) {
    const T* row = row_from(r, 0);
#pragma GCC ivdep
    for (int64_t i = begin; i < columns; ++i) out[i] = F::apply(out[i], row[i]);
  }
}
template <class T, class F>
void fold_combine(void* const* a, const void* const* b, int64_t n) {
  T* x = static_cast<T*>(a[0]);
  const T* y = static_cast<const T*>(b[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) x[i] = F::apply(x[i], y[i]);
}

}  // namespace
}  // namespace quarry::local::cpu::QUARRY_LEVEL
