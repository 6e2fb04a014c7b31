// Elements to keys and back, positions, gathers. All of them stream through memory once.
#include <algorithm>

#include "quarry/local/cuda/sorting/dispatch.cuh"

namespace quarry::local::cuda {
namespace {

// f.operator()<KeyClass>() where a key of that dtype fits `Key`.
template <class Key, class F>
void with_fitting_key(DType dtype, F&& f) {
  with_key(dtype, [&]<class Class>() {
    if constexpr (sizeof(typename Class::Bits) <= sizeof(Key))
      f.template operator()<Class>();
    else
      throw InternalError("a key wider than the sort's");
  });
}

// Functors of for_each_element().
template <class Class, class Key>
struct Encode {
  const typename Class::Bits* in;
  Key* keys;
  __device__ void operator()(int64_t i) const { keys[i] = Class::encode(in[i]); }
};
template <class Class, class Key>
struct EncodeInRow {
  const typename Class::Bits* in;
  Key* keys;
  int64_t length;
  int shift;
  __device__ void operator()(int64_t i) const {
    keys[i] = static_cast<Key>(static_cast<Key>(i / length) << shift | Class::encode(in[i]));
  }
};
template <class Class, class Key>
struct Decode {
  const Key* keys;
  typename Class::Bits* out;
  __device__ void operator()(int64_t i) const { out[i] = Class::decode(static_cast<typename Class::Bits>(keys[i])); }
};

template <class Class>
struct RealRank {
  const typename Class::Bits* in;
  __device__ auto operator()(int64_t i) const { return Class::rank(in[i]); }
};
struct Complex64Rank {
  const uint2* in;
  __device__ uint64_t operator()(int64_t i) const {
    const auto words = keys::ComplexKey<keys::Float32Key>::rank(in[i].x, in[i].y);
    return static_cast<uint64_t>(words.high) << 32 | words.low;
  }
};
template <class Rank, class Key, class Value>
struct RankAll {
  Rank rank;
  Key* keys;
  Value* positions;
  __device__ void operator()(int64_t i) const {
    keys[i] = static_cast<Key>(rank(i));
    positions[i] = static_cast<Value>(i);
  }
};
template <class Rank, class Key, class Value>
struct RankInRow {
  Rank rank;
  Key* keys;
  Value* positions;
  int64_t length;
  int shift;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / length;
    auto key = static_cast<Key>(rank(i));
    if (shift != 0) key = static_cast<Key>(key | static_cast<Key>(row) << shift);
    keys[i] = key;
    positions[i] = static_cast<Value>(i - row * length);
  }
};
template <class Value>
struct ComplexWord {
  const ulonglong2* in;
  const Value* order;
  int word;
  uint64_t* keys;
  __device__ void operator()(int64_t i) const {
    const ulonglong2 parts = in[order ? static_cast<int64_t>(order[i]) : i];
    const auto words = keys::ComplexKey<keys::Float64Key>::rank(parts.x, parts.y);
    keys[i] = word == 0 ? words.low : words.high;
  }
};
template <class Value>
struct Iota {
  Value* values;
  __device__ void operator()(int64_t i) const { values[i] = static_cast<Value>(i); }
};
template <class Value, class Out>
struct Divide {
  const Value* in;
  int64_t by;
  Out* out;
  __device__ void operator()(int64_t i) const { out[i] = static_cast<Out>(static_cast<int64_t>(in[i]) / by); }
};
template <class Value>
struct Remainder {
  const Value* in;
  int64_t by;
  int64_t* out;
  __device__ void operator()(int64_t i) const { out[i] = static_cast<int64_t>(in[i]) % by; }
};
template <class Value>
struct Widen {
  const Value* in;
  int64_t* out;
  __device__ void operator()(int64_t i) const { out[i] = static_cast<int64_t>(in[i]); }
};
template <class T>
struct GatherInRow {
  const T* in;
  const int64_t* order;
  T* out;
  int64_t length;
  __device__ void operator()(int64_t i) const { out[i] = in[i - i % length + order[i]]; }
};

// Positions that fit a kernel's arguments.
struct SomePositions {
  static constexpr int kMost = 64;
  int64_t at[kMost];
};
template <class T>
struct GatherPositions {
  const T* sorted;
  int64_t length;
  SomePositions positions;
  int64_t count, first, per_row;  // of the positions; where they go in a row of the result
  T* out;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / count, k = i - row * count;
    out[row * per_row + first + k] = sorted[row * length + positions.at[k]];
  }
};

template <class Key, class Value, class Rank>
void rank_all(Rank rank, Key* keys, Value* positions, Rows rows, int shift, cudaStream_t stream) {
  if (rows.rows == 1)
    for_each_element(rows.elements(), stream, RankAll<Rank, Key, Value>{rank, keys, positions});
  else
    for_each_element(rows.elements(), stream, RankInRow<Rank, Key, Value>{rank, keys, positions, rows.length, shift});
}

}  // namespace

template <class Key>
void encode_keys(DType dtype, const void* in, Key* keys, Rows rows, int row_shift, cudaStream_t stream) {
  with_fitting_key<Key>(dtype, [&]<class Class>() {
    const auto* elements = static_cast<const typename Class::Bits*>(in);
    if (row_shift == 0)
      for_each_element(rows.elements(), stream, Encode<Class, Key>{elements, keys});
    else
      for_each_element(rows.elements(), stream, EncodeInRow<Class, Key>{elements, keys, rows.length, row_shift});
  });
}

template <class Key>
void decode_keys(DType dtype, const Key* keys, void* out, int64_t count, cudaStream_t stream) {
  with_fitting_key<Key>(dtype, [&]<class Class>() {
    for_each_element(count, stream, Decode<Class, Key>{keys, static_cast<typename Class::Bits*>(out)});
  });
}

template <class Key, class Value>
void rank_keys(DType dtype, const void* in, Key* keys, Value* positions, Rows rows, int row_shift,
               cudaStream_t stream) {
  if constexpr (sizeof(Key) == 8) {
    if (dtype == DType::complex64)
      return rank_all(Complex64Rank{static_cast<const uint2*>(in)}, keys, positions, rows, row_shift, stream);
  }
  with_fitting_key<Key>(dtype, [&]<class Class>() {
    rank_all(RealRank<Class>{static_cast<const typename Class::Bits*>(in)}, keys, positions, rows, row_shift, stream);
  });
}

template <class Value>
void complex_rank_words(const void* in, const Value* order, int word, uint64_t* keys, int64_t count,
                        cudaStream_t stream) {
  for_each_element(count, stream, ComplexWord<Value>{static_cast<const ulonglong2*>(in), order, word, keys});
}

template <class Value>
void iota(Value* values, int64_t count, cudaStream_t stream) {
  for_each_element(count, stream, Iota<Value>{values});
}

template <class Value>
void row_numbers(const Value* order, int64_t row_length, uint32_t* rows, int64_t count, cudaStream_t stream) {
  for_each_element(count, stream, Divide<Value, uint32_t>{order, row_length, rows});
}

template <class Value>
void positions_in_rows(const Value* order, int64_t row_length, int64_t* out, int64_t count, cudaStream_t stream) {
  if (row_length >= count)
    for_each_element(count, stream, Widen<Value>{order, out});
  else
    for_each_element(count, stream, Remainder<Value>{order, row_length, out});
}

void gather_rows(int64_t itemsize, const void* in, const int64_t* order, void* out, Rows rows, cudaStream_t stream) {
  const auto gather = [&](const auto* from, auto* to) {
    for_each_element(rows.elements(), stream,
                     GatherInRow<std::remove_pointer_t<decltype(to)>>{from, order, to, rows.length});
  };
  switch (itemsize) {
    case 2:
      return gather(static_cast<const uint16_t*>(in), static_cast<uint16_t*>(out));
    case 4:
      return gather(static_cast<const uint32_t*>(in), static_cast<uint32_t*>(out));
    case 8:
      return gather(static_cast<const uint2*>(in), static_cast<uint2*>(out));
    default:
      return gather(static_cast<const ulonglong2*>(in), static_cast<ulonglong2*>(out));
  }
}

void gather_positions(int64_t itemsize, const void* sorted, Rows rows, const std::vector<int64_t>& kth, void* out,
                      cudaStream_t stream) {
  const auto per_row = static_cast<int64_t>(kth.size());
  const auto gather = [&](const auto* from, auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    for (int64_t first = 0; first < per_row; first += SomePositions::kMost) {
      const int64_t count = std::min<int64_t>(per_row - first, SomePositions::kMost);
      SomePositions positions{};
      std::copy_n(kth.begin() + first, count, positions.at);
      for_each_element(rows.rows * count, stream,
                       GatherPositions<T>{from, rows.length, positions, count, first, per_row, to});
    }
  };
  switch (itemsize) {
    case 1:
      return gather(static_cast<const uint8_t*>(sorted), static_cast<uint8_t*>(out));
    case 2:
      return gather(static_cast<const uint16_t*>(sorted), static_cast<uint16_t*>(out));
    case 4:
      return gather(static_cast<const uint32_t*>(sorted), static_cast<uint32_t*>(out));
    case 8:
      return gather(static_cast<const uint2*>(sorted), static_cast<uint2*>(out));
    default:
      return gather(static_cast<const ulonglong2*>(sorted), static_cast<ulonglong2*>(out));
  }
}

#define QUARRY_KEYS(Key)                                                             \
  template void encode_keys<Key>(DType, const void*, Key*, Rows, int, cudaStream_t); \
  template void decode_keys<Key>(DType, const Key*, void*, int64_t, cudaStream_t);
QUARRY_KEYS(uint16_t)
QUARRY_KEYS(uint32_t)
QUARRY_KEYS(uint64_t)
#undef QUARRY_KEYS
template void rank_keys<uint32_t, uint32_t>(DType, const void*, uint32_t*, uint32_t*, Rows, int, cudaStream_t);
template void rank_keys<uint64_t, uint32_t>(DType, const void*, uint64_t*, uint32_t*, Rows, int, cudaStream_t);
template void rank_keys<uint32_t, uint64_t>(DType, const void*, uint32_t*, uint64_t*, Rows, int, cudaStream_t);
template void rank_keys<uint64_t, uint64_t>(DType, const void*, uint64_t*, uint64_t*, Rows, int, cudaStream_t);
#define QUARRY_POSITIONS(Value)                                                                              \
  template void complex_rank_words<Value>(const void*, const Value*, int, uint64_t*, int64_t, cudaStream_t); \
  template void iota<Value>(Value*, int64_t, cudaStream_t);                                                  \
  template void row_numbers<Value>(const Value*, int64_t, uint32_t*, int64_t, cudaStream_t);                 \
  template void positions_in_rows<Value>(const Value*, int64_t, int64_t*, int64_t, cudaStream_t);
QUARRY_POSITIONS(uint32_t)
QUARRY_POSITIONS(uint64_t)
#undef QUARRY_POSITIONS

}  // namespace quarry::local::cuda
