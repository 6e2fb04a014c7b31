// Reductions whose order does not matter to the result: integer sums, products, truth.
#include <initializer_list>

#include "quarry/local/cpu/loops/fold.inl"

namespace quarry::local::cpu::QUARRY_LEVEL {
namespace {

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
// Bytes that are 0 or 1.
struct Or {
  static inline uint8_t apply(uint8_t x, uint8_t y) { return x | y; }
};
struct And {
  static inline uint8_t apply(uint8_t x, uint8_t y) { return x & y; }
};

// Truth, by the bits of the elements: those of `mask` are all 0 in a zero, which leaves out the sign of floats.
template <class U, U mask>
struct Bits {
  static inline U of(U x) { return static_cast<U>(x & mask); }
};

// Whether an element is not 0 (`wanted`), or whether one is 0.
template <class B, bool wanted, class U>
bool some(const U* row, int64_t n) {
  constexpr int64_t kBlock = 4096 / static_cast<int64_t>(sizeof(U)), kLanes = 256 / static_cast<int64_t>(sizeof(U));
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    const auto one = [&](int64_t i) { return wanted ? B::of(row[i]) : static_cast<U>(B::of(row[i]) == 0 ? 1 : 0); };
    U lanes[kLanes] = {}, found = 0;
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      fetch_ahead(row + i);
      for (int64_t k = 0; k < kLanes; ++k) lanes[k] |= one(i + k);
    }
    for (const U lane : lanes) found |= lane;
    for (; i < end; ++i) found |= one(i);
    if (found != 0) return true;
  }
  return false;
}
template <class B, bool all, class U>
void truth_columns(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes,
                   void* const* fields) {
  uint8_t* out = static_cast<uint8_t*>(fields[0]);
  for (int64_t r = 0; r < rows; ++r)
    out[r] = some<B, !all>(reinterpret_cast<const U*>(static_cast<const char*>(x) + r * row_bytes), columns) != all;
}
template <class B, bool all, class U>
void truth_rows(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes, void* const* fields) {
  uint8_t* out = static_cast<uint8_t*>(fields[0]);
  constexpr int64_t kStrip = 256 / static_cast<int64_t>(sizeof(U));
  const auto one = [](U bits) { return all ? static_cast<U>(bits == 0 ? 1 : 0) : bits; };
  for (int64_t begin = 0; begin < columns; begin += kStrip) {
    const char* p = static_cast<const char*>(x) + begin * static_cast<int64_t>(sizeof(U));
    const int64_t width = columns - begin < kStrip ? columns - begin : kStrip;
    U found[kStrip] = {};
    for (int64_t r = 0; r < rows; ++r, p += row_bytes) {
      const U* row = reinterpret_cast<const U*>(p);
      if (width == kStrip) {
        fetch_lines<4>(row + kStrip);  // the next strip
        for (int64_t k = 0; k < kStrip; ++k) found[k] |= one(B::of(row[k]));
      } else {
        for (int64_t k = 0; k < width; ++k) found[k] |= one(B::of(row[k]));
      }
    }
    for (int64_t k = 0; k < width; ++k) out[begin + k] = (found[k] != 0) != all;
  }
}

template <class B, class U>
void count_columns(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes,
                   void* const* fields) {
  int64_t* out = static_cast<int64_t*>(fields[0]);
  constexpr int64_t kBlock = 128;  // what a counter of U holds
  for (int64_t r = 0; r < rows; ++r) {
    const U* row = reinterpret_cast<const U*>(static_cast<const char*>(x) + r * row_bytes);
    int64_t total = 0, i = 0;
    for (; i + kBlock <= columns; i += kBlock) {
      U part = 0;
      for (int64_t k = 0; k < kBlock; ++k) part = static_cast<U>(part + (B::of(row[i + k]) != 0 ? 1 : 0));
      total += static_cast<int64_t>(part);
    }
    for (; i < columns; ++i) total += B::of(row[i]) != 0 ? 1 : 0;
    out[r] = total;
  }
}
template <class B, class U>
void count_rows(const void* x, const int64_t*, int64_t rows, int64_t columns, int64_t row_bytes, void* const* fields) {
  int64_t* out = static_cast<int64_t*>(fields[0]);
  for (int64_t i = 0; i < columns; ++i) out[i] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const U* row = reinterpret_cast<const U*>(static_cast<const char*>(x) + r * row_bytes);
    for (int64_t i = 0; i < columns; ++i) out[i] += B::of(row[i]) != 0 ? 1 : 0;
  }
}

template <class U, U mask>
void set_truth(Loops& loops, std::initializer_list<DType> dtypes) {
  using B = Bits<U, mask>;
  const auto set = [&](Accumulator a, DType dtype, ReduceLoop columns, ReduceLoop rows, CombineLoop combine) {
    loops.reduce_columns[static_cast<int>(a)][static_cast<int>(dtype)] = columns;
    loops.reduce_rows[static_cast<int>(a)][static_cast<int>(dtype)] = rows;
    loops.combine[static_cast<int>(a)][static_cast<int>(dtype)] = combine;
  };
  for (DType dtype : dtypes) {
    set(Accumulator::any, dtype, truth_columns<B, false, U>, truth_rows<B, false, U>, fold_combine<uint8_t, Or>);
    set(Accumulator::all, dtype, truth_columns<B, true, U>, truth_rows<B, true, U>, fold_combine<uint8_t, And>);
    set(Accumulator::count, dtype, count_columns<B, U>, count_rows<B, U>, fold_combine<int64_t, Add>);
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
void set_float(Loops& loops, DType dtype) {
  set_fold<T, Multiply>(loops, Accumulator::prod, dtype);
  // Float sums are in sums.inl.
  set_fold<T, Add>(loops, Accumulator::sum, dtype, /*only_combine=*/true);
}

// Sums and products of signed integers are those of the unsigned ones.
template <class U>
void set_integer(Loops& loops, DType signed_dtype, DType unsigned_dtype) {
  for (DType dtype : {signed_dtype, unsigned_dtype}) {
    set_fold<U, Add>(loops, Accumulator::sum, dtype);
    set_fold<U, Multiply>(loops, Accumulator::prod, dtype);
  }
}

}  // namespace

void register_folds(Loops& loops) {
  set_integer<uint8_t>(loops, DType::int8, DType::uint8);
  set_integer<uint16_t>(loops, DType::int16, DType::uint16);
  set_integer<uint32_t>(loops, DType::int32, DType::uint32);
  set_integer<uint64_t>(loops, DType::int64, DType::uint64);
  set_float<float>(loops, DType::float32);
  set_float<double>(loops, DType::float64);
  set_float<cx<float>>(loops, DType::complex64);
  set_float<cx<double>>(loops, DType::complex128);

  set_fold<uint8_t, Or>(loops, Accumulator::sum, DType::bool_);
  set_fold<uint8_t, And>(loops, Accumulator::prod, DType::bool_);

  // Complex numbers are turned into bool before.
  set_truth<uint8_t, 0xff>(loops, {DType::bool_, DType::int8, DType::uint8});
  set_truth<uint16_t, 0xffff>(loops, {DType::int16, DType::uint16});
  set_truth<uint32_t, 0xffffffff>(loops, {DType::int32, DType::uint32});
  set_truth<uint64_t, 0xffffffffffffffff>(loops, {DType::int64, DType::uint64});
  set_truth<uint16_t, 0x7fff>(loops, {DType::float16, DType::bfloat16});
  set_truth<uint32_t, 0x7fffffff>(loops, {DType::float32});
  set_truth<uint64_t, 0x7fffffffffffffff>(loops, {DType::float64});
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
