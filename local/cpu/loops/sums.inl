// sum, prod and moments. Accumulators have one logical shape at every level: kLanes lanes of at most kBlock elements
// each way, merged as a binary tree, so that the bits depend on the number of elements only.
#include "quarry/local/cpu/loops/level.inl"

namespace quarry::local::cpu::QUARRY_LEVEL {
namespace {

template <class R>
constexpr int kLanes = 256 / static_cast<int>(sizeof(R));  // four 512-bit vectors
template <class R>
constexpr int64_t kBlock = 16 * kLanes<R>;  // elements that lanes add up one after the other
constexpr int64_t kRowBlock = 16;           // the same, down a column

template <class R>
struct vec {
  typedef R type __attribute__((vector_size(64), aligned(1), may_alias));
};

// What is added up: the elements, or their squared distances from a value per part (real; or real and imaginary).
template <class R>
struct Elements {
  template <class V>
  V operator()(V x, int) const {
    return x;
  }
};
template <class R, int parts>
struct SquaredDistances {
  typename vec<R>::type center;  // repeats the parts
  typename vec<R>::type operator()(typename vec<R>::type x, int) const {
    const typename vec<R>::type d = x - center;
    return d * d;
  }
  R operator()(R x, int part) const {
    const R d = x - center[part];
    return d * d;
  }
};

// The sums over each part (1 real, 2 complex: interleaved) of n numbers of type R.
template <class R, int parts, class Term>
void add_up(const R* x, int64_t n, Term term, R* out) {
  using V = typename vec<R>::type;
  constexpr int width = 64 / sizeof(R);
  if (n < kLanes<R>) {
    // Short: in order, up to eight at a time.
    R sums[8];
    if (n >= 8) {
      for (int k = 0; k < 8; ++k) sums[k] = term(x[k], k % parts);
      int64_t i = 8;
      for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; ++k) sums[k] += term(x[i + k], k % parts);
      for (int k = 0; i < n; ++i, ++k) sums[k] += term(x[i], k % parts);
      for (int stride = 4; stride >= parts; stride /= 2)
        for (int k = 0; k < stride; ++k) sums[k] += sums[k + stride];
    } else {
      for (int k = 0; k < parts; ++k) sums[k] = R(-0.0);
      for (int64_t i = 0; i < n; ++i) sums[i % parts] += term(x[i], static_cast<int>(i % parts));
    }
    for (int k = 0; k < parts; ++k) out[k] = sums[k];
    return;
  }
  if (n > kBlock<R>) {
    // Halves at a multiple of the block.
    const int64_t blocks = (n + kBlock<R> - 1) / kBlock<R>, half = (blocks + 1) / 2 * kBlock<R>;
    R second[2];
    add_up<R, parts>(x, half, term, out);
    add_up<R, parts>(x + half, n - half, term, second);
    for (int k = 0; k < parts; ++k) out[k] += second[k];
    return;
  }
  V a0 = term(*reinterpret_cast<const V*>(x), 0), a1 = term(*reinterpret_cast<const V*>(x + width), 0);
  V a2 = term(*reinterpret_cast<const V*>(x + 2 * width), 0), a3 = term(*reinterpret_cast<const V*>(x + 3 * width), 0);
  int64_t i = kLanes<R>;
  for (; i + kLanes<R> <= n; i += kLanes<R>) {
    fetch_ahead(x + i);
    a0 += term(*reinterpret_cast<const V*>(x + i), 0);
    a1 += term(*reinterpret_cast<const V*>(x + i + width), 0);
    a2 += term(*reinterpret_cast<const V*>(x + i + 2 * width), 0);
    a3 += term(*reinterpret_cast<const V*>(x + i + 3 * width), 0);
  }
  if (i + 2 * width <= n) {
    a0 += term(*reinterpret_cast<const V*>(x + i), 0);
    a1 += term(*reinterpret_cast<const V*>(x + i + width), 0);
    i += 2 * width;
  }
  if (i + width <= n) {
    a2 += term(*reinterpret_cast<const V*>(x + i), 0);
    i += width;
  }
  const V total = (a0 + a1) + (a2 + a3);
  R lanes[width];
  std::memcpy(lanes, &total, sizeof lanes);
  for (int k = 0; i < n; ++i, ++k) lanes[k] += term(x[i], k % parts);
  for (int stride = width / 2; stride >= parts; stride /= 2)
    for (int k = 0; k < stride; ++k) lanes[k] += lanes[k + stride];
  for (int k = 0; k < parts; ++k) out[k] = lanes[k];
}

// The sum down each of n columns: kRowBlock rows one after the other, blocks as a binary tree.
template <class R, class Term>
void add_down(const char* x, int64_t rows, int64_t n, int64_t row_bytes, Term term, R* out) {
  using V = typename vec<R>::type;
  constexpr int width = 64 / sizeof(R);
  if (rows > kRowBlock) {
    const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock, half = (blocks + 1) / 2 * kRowBlock;
    constexpr int64_t kStrip = 1024 / sizeof(R) * 4;
    R second[kStrip];
    for (int64_t begin = 0; begin < n; begin += kStrip) {
      const int64_t count = n - begin < kStrip ? n - begin : kStrip;
      const char* strip = x + begin * static_cast<int64_t>(sizeof(R));
      const auto shifted = term.shifted(begin);
      add_down<R>(strip, half, count, row_bytes, shifted, out + begin);
      add_down<R>(strip + half * row_bytes, rows - half, count, row_bytes, shifted, second);
      for (int64_t k = 0; k < count; ++k) out[begin + k] += second[k];
    }
    return;
  }
  int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    const char* p = x + i * static_cast<int64_t>(sizeof(R));
    V a[4];
    for (int k = 0; k < 4; ++k) a[k] = term.vector(*(reinterpret_cast<const V*>(p) + k), i + k * width);
    for (int64_t r = 1; r < rows; ++r) {
      p += row_bytes;
      fetch_lines<4>(p + sizeof a);  // the next strip
      for (int k = 0; k < 4; ++k) a[k] += term.vector(*(reinterpret_cast<const V*>(p) + k), i + k * width);
    }
    std::memcpy(out + i, a, sizeof a);
  }
  for (; i + width <= n; i += width) {
    const char* p = x + i * static_cast<int64_t>(sizeof(R));
    V a = term.vector(*reinterpret_cast<const V*>(p), i);
    for (int64_t r = 1; r < rows; ++r) {
      p += row_bytes;
      a += term.vector(*reinterpret_cast<const V*>(p), i);
    }
    std::memcpy(out + i, &a, sizeof a);
  }
  if (i < n) {
    const int64_t rest = n - i;
    R a[width];
    for (int64_t k = 0; k < rest; ++k) a[k] = R(-0.0);
    for (int64_t r = 0; r < rows; ++r) {
      const R* p = reinterpret_cast<const R*>(x + r * row_bytes) + i;
      for (int64_t k = 0; k < rest; ++k) a[k] += term.scalar(p[k], i + k);
    }
    std::memcpy(out + i, a, static_cast<size_t>(rest) * sizeof(R));
  }
}

template <class R>
struct ColumnElements {
  using V = typename vec<R>::type;
  V vector(V x, int64_t) const { return x; }
  R scalar(R x, int64_t) const { return x; }
  ColumnElements shifted(int64_t) const { return *this; }
};
template <class R>
struct ColumnDistances {
  using V = typename vec<R>::type;
  const R* center;
  V vector(V x, int64_t i) const {
    const V d = x - *reinterpret_cast<const V*>(center + i);
    return d * d;
  }
  R scalar(R x, int64_t i) const {
    const R d = x - center[i];
    return d * d;
  }
  ColumnDistances shifted(int64_t i) const { return {center + i}; }
};

template <class R, int parts>
void sum_columns(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes, void* const* fields) {
  R* out = static_cast<R*>(fields[0]);
  for (int64_t r = 0; r < rows; ++r)
    add_up<R, parts>(reinterpret_cast<const R*>(static_cast<const char*>(x) + r * row_bytes), columns * parts,
                     Elements<R>{}, out + r * parts);
}
template <class R, int parts>
void sum_rows(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes, void* const* fields) {
  add_down<R>(static_cast<const char*>(x), rows, columns * parts, row_bytes, ColumnElements<R>{},
              static_cast<R*>(fields[0]));
}

// Mean and sum of squared distances from it; fields 1 and 2 (the count, field 0, is the caller's).
template <class R, int parts>
void moments_columns(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes,
                     void* const* fields) {
  R* mean = static_cast<R*>(fields[1]);
  R* m2 = static_cast<R*>(fields[2]);
  constexpr int width = 64 / sizeof(R);
  for (int64_t r = 0; r < rows; ++r) {
    const R* row = reinterpret_cast<const R*>(static_cast<const char*>(x) + r * row_bytes);
    R sums[2];
    add_up<R, parts>(row, columns * parts, Elements<R>{}, sums);
    SquaredDistances<R, parts> distances;
    for (int k = 0; k < parts; ++k) mean[r * parts + k] = sums[k] / static_cast<R>(columns);
    for (int k = 0; k < width; ++k) distances.center[k] = mean[r * parts + k % parts];
    add_up<R, parts>(row, columns * parts, distances, sums);
    m2[r] = parts == 2 ? sums[0] + sums[parts - 1] : sums[0];
  }
}
template <class R, int parts>
void moments_rows(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes,
                  void* const* fields) {
  R* mean = static_cast<R*>(fields[1]);
  R* m2 = static_cast<R*>(fields[2]);
  add_down<R>(static_cast<const char*>(x), rows, columns * parts, row_bytes, ColumnElements<R>{}, mean);
  for (int64_t i = 0; i < columns * parts; ++i) mean[i] = mean[i] / static_cast<R>(rows);
  if constexpr (parts == 1) {
    add_down<R>(static_cast<const char*>(x), rows, columns, row_bytes, ColumnDistances<R>{mean}, m2);
  } else {
    constexpr int64_t kStrip = 256;
    R both[kStrip * 2];
    for (int64_t begin = 0; begin < columns; begin += kStrip) {
      const int64_t count = columns - begin < kStrip ? columns - begin : kStrip;
      add_down<R>(static_cast<const char*>(x) + begin * 2 * static_cast<int64_t>(sizeof(R)), rows, count * 2, row_bytes,
                  ColumnDistances<R>{mean + begin * 2}, both);
      for (int64_t i = 0; i < count; ++i) m2[begin + i] = both[2 * i] + both[2 * i + 1];
    }
  }
}

// Chan, Golub and LeVeque; the expressions of reduction.def.
template <class R, int parts>
void moments_combine(void* const* a, const void* const* b, int64_t n) {
  int64_t* count_a = static_cast<int64_t*>(a[0]);
  const int64_t* count_b = static_cast<const int64_t*>(b[0]);
  R* mean_a = static_cast<R*>(a[1]);
  const R* mean_b = static_cast<const R*>(b[1]);
  R* m2_a = static_cast<R*>(a[2]);
  const R* m2_b = static_cast<const R*>(b[2]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const int64_t na = count_a[i], nb = count_b[i];
    const R share = static_cast<R>(nb) / static_cast<R>(na + nb);
    R distance = 0;
    R merged[parts];
    for (int k = 0; k < parts; ++k) {
      const R delta = mean_b[i * parts + k] - mean_a[i * parts + k];
      distance = k == 0 ? delta * delta : distance + delta * delta;
      merged[k] = mean_a[i * parts + k] + delta * share;
    }
    const R m2 = (m2_a[i] + m2_b[i]) + distance * (static_cast<R>(na) * share);
    for (int k = 0; k < parts; ++k)
      mean_a[i * parts + k] = nb == 0 ? mean_a[i * parts + k] : na == 0 ? mean_b[i * parts + k] : merged[k];
    m2_a[i] = nb == 0 ? m2_a[i] : na == 0 ? m2_b[i] : m2;
    count_a[i] = na + nb;
  }
}

}  // namespace

void register_sums(Loops& loops) {
  const auto set = [&](Accumulator a, DType dtype, ReduceLoop columns, ReduceLoop rows) {
    loops.reduce_columns[static_cast<int>(a)][static_cast<int>(dtype)] = columns;
    loops.reduce_rows[static_cast<int>(a)][static_cast<int>(dtype)] = rows;
  };
  set(Accumulator::sum, DType::float32, sum_columns<float, 1>, sum_rows<float, 1>);
  set(Accumulator::sum, DType::float64, sum_columns<double, 1>, sum_rows<double, 1>);
  set(Accumulator::sum, DType::complex64, sum_columns<float, 2>, sum_rows<float, 2>);
  set(Accumulator::sum, DType::complex128, sum_columns<double, 2>, sum_rows<double, 2>);
  set(Accumulator::moments, DType::float32, moments_columns<float, 1>, moments_rows<float, 1>);
  set(Accumulator::moments, DType::float64, moments_columns<double, 1>, moments_rows<double, 1>);
  set(Accumulator::moments, DType::complex64, moments_columns<float, 2>, moments_rows<float, 2>);
  set(Accumulator::moments, DType::complex128, moments_columns<double, 2>, moments_rows<double, 2>);
  CombineLoop* combine = loops.combine[static_cast<int>(Accumulator::moments)];
  combine[static_cast<int>(DType::float32)] = moments_combine<float, 1>;
  combine[static_cast<int>(DType::float64)] = moments_combine<double, 1>;
  combine[static_cast<int>(DType::complex64)] = moments_combine<float, 2>;
  combine[static_cast<int>(DType::complex128)] = moments_combine<double, 2>;
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
