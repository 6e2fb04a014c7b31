// A partition reads blocks from both ends, always from the one with less free room, and writes each register twice: the
// keys below the pivot at the left, the others at the right, packed by the processor's compress instruction. Pivots are
// medians of samples, near the wanted position for a selection. Up to 16 registers are sorted by networks; many of them
// as columns, for which most steps compare registers. About n log2(n / 128) / lanes register operations; a selection
// moves 1.5 n keys.
//
// This file is compiled for x86-64-v4: it uses no inline function of other headers, which the linker could take for
// processors that are older.
#include "quarry/local/cpu/sorting/vector.h"

#include <immintrin.h>

namespace quarry::local::cpu {
namespace {

#define QUARRY_INLINE __attribute__((always_inline)) static inline

using Register = __m512i;

// Keys of 32 or of 64 bits in a register; the last arguments are the numbers of the lanes, the last one first.
#define QUARRY_LANES(bits, lanes, ...)                                                                                \
  struct Lanes##bits {                                                                                                \
    using Key = uint##bits##_t;                                                                                       \
    using Mask = __mmask##lanes;                                                                                      \
    static constexpr int kLanes = lanes;                                                                              \
    static constexpr Key kLast = ~Key{0};                                                                             \
    QUARRY_INLINE Register all(Key x) { return _mm512_set1_epi##bits(static_cast<int##bits##_t>(x)); }                \
    QUARRY_INLINE Register load(const Key* p) { return _mm512_loadu_si512(p); }                                       \
    QUARRY_INLINE Register load(const Key* p, Mask mask) { return _mm512_mask_loadu_epi##bits(all(kLast), mask, p); } \
    QUARRY_INLINE void store(Key* p, Register x) { _mm512_storeu_si512(p, x); }                                       \
    QUARRY_INLINE void store(Key* p, Mask mask, Register x) { _mm512_mask_storeu_epi##bits(p, mask, x); }             \
    QUARRY_INLINE Register min(Register a, Register b) { return _mm512_min_epu##bits(a, b); }                         \
    QUARRY_INLINE Register max(Register a, Register b) { return _mm512_max_epu##bits(a, b); }                         \
    /* Of two keys in each lane the greater one in the lanes of the mask, else the lesser one. */                     \
    QUARRY_INLINE Register ordered(Mask greater, Register a, Register b) {                                            \
      return _mm512_mask_max_epu##bits(min(a, b), greater, a, b);                                                     \
    }                                                                                                                 \
    QUARRY_INLINE void order(Register& low, Register& high) {                                                         \
      const Register least = min(low, high);                                                                          \
      high = max(low, high);                                                                                          \
      low = least;                                                                                                    \
    }                                                                                                                 \
    QUARRY_INLINE Mask sign(Register x) { return _mm512_movepi##bits##_mask(x); }                                     \
    QUARRY_INLINE Register select(Mask mask, Register a, Register b) {                                                \
      return _mm512_mask_blend_epi##bits(mask, b, a);                                                                 \
    }                                                                                                                 \
    QUARRY_INLINE Mask less(Register a, Register b) { return _mm512_cmplt_epu##bits##_mask(a, b); }                   \
    QUARRY_INLINE Register compress(Mask mask, Register x) { return _mm512_maskz_compress_epi##bits(mask, x); }       \
    QUARRY_INLINE Register reverse(Register x) { return mirrored<lanes>(x); }                                         \
    /* Each group of so many lanes reversed. */                                                                       \
    template <int Group>                                                                                              \
    QUARRY_INLINE Register mirrored(Register x) {                                                                     \
      const Register positions = _mm512_set_epi##bits(__VA_ARGS__);                                                   \
      return _mm512_permutexvar_epi##bits(_mm512_xor_si512(positions, _mm512_set1_epi##bits(Group - 1)), x);          \
    }                                                                                                                 \
  };
QUARRY_LANES(32, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
QUARRY_LANES(64, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#undef QUARRY_LANES

// ---- networks ----

// Every lane i gets lane i ^ D.
template <class L, int D>
QUARRY_INLINE Register exchanged(Register x) {
  constexpr int kBytes = D * static_cast<int>(sizeof(typename L::Key));
  if constexpr (kBytes == 4) return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0xb1));
  if constexpr (kBytes == 8) return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0x4e));
  if constexpr (kBytes == 16) return _mm512_shuffle_i32x4(x, x, 0xb1);
  if constexpr (kBytes == 32) return _mm512_shuffle_i32x4(x, x, 0x4e);
}
// The lanes that keep the greater one of a pair D apart, where runs of `Run` ascend and descend in turn.
constexpr uint32_t keeps_greater(int lanes, int run, int distance) {
  uint32_t mask = 0;
  for (int i = 0; i < lanes; ++i)
    if (((i & distance) != 0) != ((i & run) != 0)) mask |= 1u << i;
  return mask;
}
template <class L, int Run, int D>
QUARRY_INLINE Register stages(Register x) {
  constexpr auto kMask = static_cast<typename L::Mask>(keeps_greater(L::kLanes, Run, D));
  const Register other = exchanged<L, D>(x);
  x = L::ordered(kMask, x, other);
  if constexpr (D > 1)
    return stages<L, Run, D / 2>(x);
  else
    return x;
}
template <class L, int Run>
QUARRY_INLINE Register sorted_register(Register x) {
  x = stages<L, Run, Run / 2>(x);
  if constexpr (Run < L::kLanes)
    return sorted_register<L, 2 * Run>(x);
  else
    return x;
}

// N registers that hold a bitonic sequence are brought in order.
template <class L, int N>
QUARRY_INLINE void clean(Register* x) {
  if constexpr (N == 1) {
    x[0] = stages<L, L::kLanes, L::kLanes / 2>(x[0]);
  } else {
    for (int i = 0; i < N / 2; ++i) L::order(x[i], x[i + N / 2]);
    clean<L, N / 2>(x);
    clean<L, N / 2>(x + N / 2);
  }
}
template <class L, int N>
QUARRY_INLINE void sort_registers(Register* x) {
  if constexpr (N == 1) {
    x[0] = sorted_register<L, 2>(x[0]);
  } else {
    sort_registers<L, N / 2>(x);
    sort_registers<L, N / 2>(x + N / 2);
    Register reversed[N / 2];
    for (int i = 0; i < N / 2; ++i) reversed[i] = L::reverse(x[N - 1 - i]);
    for (int i = 0; i < N / 2; ++i) {
      x[N / 2 + i] = reversed[i];
      L::order(x[i], x[N / 2 + i]);
    }
    clean<L, N / 2>(x);
    clean<L, N / 2>(x + N / 2);
  }
}
// As many rows of registers as a column has keys: columns are sorted by comparing registers, then merged in pairs, most
// of the steps again between registers. Ends with the keys in order of the columns.
template <class L, int First, int N, int Step>
QUARRY_INLINE void merge_odd_even(Register* x) {  // Batcher's
  if constexpr (2 * Step < N) {
    merge_odd_even<L, First, N, 2 * Step>(x);
    merge_odd_even<L, First + Step, N, 2 * Step>(x);
#pragma GCC unroll 16
    for (int i = First + Step; i + Step < First + N; i += 2 * Step) L::order(x[i], x[i + Step]);
  } else {
    L::order(x[First], x[First + Step]);
  }
}
template <class L, int First, int N>
QUARRY_INLINE void sort_columns(Register* x) {
  if constexpr (N > 1) {
    sort_columns<L, First, N / 2>(x);
    sort_columns<L, First + N / 2, N / 2>(x);
    merge_odd_even<L, First, N, 1>(x);
  }
}
template <class L, int N, int D>
QUARRY_INLINE void clean_columns(Register* x) {  // lanes D apart
  if constexpr (D > 0) {
    constexpr auto kMask = static_cast<typename L::Mask>(keeps_greater(L::kLanes, 2 * L::kLanes, D));
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) x[i] = L::ordered(kMask, x[i], exchanged<L, D>(x[i]));
    clean_columns<L, N, D / 2>(x);
  }
}
template <class L, int N, int Distance>
QUARRY_INLINE void clean_rows(Register* x) {
  if constexpr (Distance > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i)
      if (!(i & Distance)) L::order(x[i], x[i + Distance]);
    clean_rows<L, N, Distance / 2>(x);
  }
}
// Merges sorted runs of Width columns.
template <class L, int N, int Width>
QUARRY_INLINE void merge_columns(Register* x) {
  constexpr auto kMask = static_cast<typename L::Mask>(keeps_greater(L::kLanes, 2 * L::kLanes, Width));
#pragma GCC unroll 16
  for (int i = 0; i < N / 2; ++i) {  // each run against the next one reversed
    const Register first = L::template mirrored<2 * Width>(x[i]), last = L::template mirrored<2 * Width>(x[N - 1 - i]);
    x[i] = L::ordered(kMask, x[i], last);
    x[N - 1 - i] = L::ordered(kMask, x[N - 1 - i], first);
  }
  clean_columns<L, N, Width / 2>(x);
  clean_rows<L, N, N / 2>(x);
  if constexpr (2 * Width < L::kLanes) merge_columns<L, N, 2 * Width>(x);
}
// x[i] becomes column i of 16 rows of 16 lanes.
QUARRY_INLINE void transpose_words(Register* x) {
  Register y[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
  // Quarter q of x[4 * g + j] has rows 4 g ... 4 g + 3 of column 4 q + j.
#pragma GCC unroll 16
  for (int j = 0; j < 4; ++j) {
    y[j] = _mm512_shuffle_i32x4(x[j], x[4 + j], 0x88);           // columns j and 8 + j of rows 0 to 7
    y[4 + j] = _mm512_shuffle_i32x4(x[j], x[4 + j], 0xdd);       // 4 + j, 12 + j
    y[8 + j] = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0x88);  // of rows 8 to 15
    y[12 + j] = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0xdd);
  }
#pragma GCC unroll 16
  for (int j = 0; j < 8; ++j) {
    x[j] = _mm512_shuffle_i32x4(y[j], y[8 + j], 0x88);
    x[8 + j] = _mm512_shuffle_i32x4(y[j], y[8 + j], 0xdd);
  }
}
// 8 rows of 8 lanes; the columns are written to every `step`-th register of `to`.
QUARRY_INLINE void transpose_double_words(const Register* x, Register* to, int step) {
  Register y[8], z[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    y[i] = _mm512_unpacklo_epi64(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi64(x[i], x[i + 1]);
  }
  // Quarter q of y[2 * g + j] has rows 2 g and 2 g + 1 of column 2 q + j.
#pragma GCC unroll 8
  for (int j = 0; j < 2; ++j) {
    z[j] = _mm512_shuffle_i64x2(y[j], y[2 + j], 0x88);          // columns j and 4 + j of rows 0 to 3
    z[2 + j] = _mm512_shuffle_i64x2(y[j], y[2 + j], 0xdd);      // 2 + j, 6 + j
    z[4 + j] = _mm512_shuffle_i64x2(y[4 + j], y[6 + j], 0x88);  // of rows 4 to 7
    z[6 + j] = _mm512_shuffle_i64x2(y[4 + j], y[6 + j], 0xdd);
  }
#pragma GCC unroll 8
  for (int j = 0; j < 4; ++j) {
    to[j * step] = _mm512_shuffle_i64x2(z[j], z[4 + j], 0x88);
    to[(4 + j) * step] = _mm512_shuffle_i64x2(z[j], z[4 + j], 0xdd);
  }
}
template <class L, int N>
QUARRY_INLINE void sort_matrix(Register* x) {
  sort_columns<L, 0, N>(x);
  merge_columns<L, N, 1>(x);
  if constexpr (L::kLanes == 16) {
    static_assert(N == 16);
    transpose_words(x);
  } else if constexpr (N == 8) {
    transpose_double_words(x, x, 1);
  } else {
    static_assert(N == 16);
    Register to[16];
    transpose_double_words(x, to, 2);
    transpose_double_words(x + 8, to + 1, 2);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) x[i] = to[i];
  }
}

template <class L>
QUARRY_INLINE typename L::Mask first_lanes(int64_t n) {
  return static_cast<typename L::Mask>(n >= L::kLanes ? ~0u : (1u << n) - 1u);
}
template <class L, Decoding decoding>
QUARRY_INLINE Register decoded(Register x) {
  using Key = typename L::Key;
  const Register sign = L::all(Key{1} << (8 * sizeof(Key) - 1));
  if constexpr (decoding == Decoding::signed_integer) return _mm512_xor_si512(x, sign);
  if constexpr (decoding == Decoding::floating)
    return _mm512_xor_si512(x, L::select(L::sign(x), sign, L::all(L::kLast)));
  if constexpr (decoding == Decoding::low_half) return _mm512_and_si512(x, L::all(L::kLast >> (4 * sizeof(Key))));
  return x;
}
template <class L, Decoding decoding, int N>
static void sort_network(typename L::Key* keys, int64_t n) {
  Register x[N];
  for (int i = 0; i < N; ++i) {
    const int64_t left = n - i * L::kLanes;
    x[i] = L::load(keys + i * L::kLanes, left > 0 ? first_lanes<L>(left) : typename L::Mask{0});
  }
  if constexpr (N == 16 || (N == 8 && L::kLanes == 8))
    sort_matrix<L, N>(x);
  else
    sort_registers<L, N>(x);
  for (int i = 0; i < N; ++i) {
    const int64_t left = n - i * L::kLanes;
    if (left > 0) L::store(keys + i * L::kLanes, first_lanes<L>(left), decoded<L, decoding>(x[i]));
  }
}

// ---- partition ----

constexpr int kUnroll = 8;
constexpr int64_t kAhead = 2048;  // bytes: memory is asked for so long before it is read
template <class L>
constexpr int64_t kBlock = kUnroll* L::kLanes;
template <class L>
constexpr int64_t kNetwork = 16 * L::kLanes;  // what the networks sort; at least two blocks

// Sorts and decodes.
template <class L, Decoding decoding>
static void sort_small(typename L::Key* keys, int64_t n) {
  constexpr int64_t kLanes = L::kLanes;
  if (n <= kLanes) return sort_network<L, decoding, 1>(keys, n);
  if (n <= 2 * kLanes) return sort_network<L, decoding, 2>(keys, n);
  if (n <= 4 * kLanes) return sort_network<L, decoding, 4>(keys, n);
  if (n <= 8 * kLanes) return sort_network<L, decoding, 8>(keys, n);
  sort_network<L, decoding, 16>(keys, n);
}

// For each mask of 8 lanes their numbers, a byte each, then those of the others.
struct Orders {
  uint64_t of[256] = {};
  constexpr Orders() {
    for (uint32_t mask = 0; mask < 256; ++mask) {
      int at = 0;
      for (const uint32_t wanted : {1u, 0u})
        for (uint32_t lane = 0; lane < 8; ++lane)
          if (((mask >> lane) & 1u) == wanted) of[mask] |= uint64_t{lane} << (8 * at++);
    }
  }
};
constexpr Orders kOrders;

template <class L>
struct Ends {
  using Key = typename L::Key;
  Key* left;
  Key* right;

  // At least a register's room must be free at both ends.
  QUARRY_INLINE void place(Ends& to, Register x, Register pivot) {
    const auto below = L::less(x, pivot);
    const int count = __builtin_popcount(below);
    if constexpr (L::kLanes == 8) {  // both parts by one permutation
      const Register order =
          _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&kOrders.of[below])));
      const Register parted = _mm512_permutexvar_epi64(order, x);
      L::store(to.left, parted);
      to.left += count;
      L::store(to.right - L::kLanes, parted);
      to.right -= L::kLanes - count;
      return;
    }
    L::store(to.left, L::compress(below, x));
    to.left += count;
    to.right -= L::kLanes - count;
    L::store(to.right, first_lanes<L>(L::kLanes - count), L::compress(static_cast<typename L::Mask>(~below), x));
  }
  // The lanes of `valid` alone, and no write beside them.
  QUARRY_INLINE void place_exactly(Ends& to, Register x, Register pivot, typename L::Mask valid) {
    const auto below = static_cast<typename L::Mask>(L::less(x, pivot) & valid);
    const auto above = static_cast<typename L::Mask>(~below & valid);
    const int low = __builtin_popcount(below), high = __builtin_popcount(above);
    L::store(to.left, first_lanes<L>(low), L::compress(below, x));
    to.left += low;
    to.right -= high;
    L::store(to.right, first_lanes<L>(high), L::compress(above, x));
  }
};

// Brings the keys below the pivot to the front and returns their number; n is at least two blocks.
template <class L>
static int64_t partition(typename L::Key* keys, int64_t n, typename L::Key pivot_key) {
  using Key = typename L::Key;
  const Register pivot = L::all(pivot_key);
  Register first[kUnroll], last[kUnroll];
  for (int i = 0; i < kUnroll; ++i) {
    first[i] = L::load(keys + i * L::kLanes);
    last[i] = L::load(keys + n - kBlock<L> + i * L::kLanes);
  }
  Ends<L> to{keys, keys + n};
  Key* left = keys + kBlock<L>;
  Key* right = keys + n - kBlock<L>;
  // Two blocks are in registers. With the one that is read next from the side with less room, each side has a block's.
  while (right - left >= kBlock<L>) {
    const Key* from = left;
    int64_t ahead = kAhead;
    if (left - to.left <= to.right - right) {
      left += kBlock<L>;
    } else {
      right -= kBlock<L>;
      from = right;
      ahead = -kAhead;
    }
    for (int i = 0; i < kUnroll; ++i)
      __builtin_prefetch(reinterpret_cast<const char*>(from + i * L::kLanes) + ahead, /*rw=*/1);
    Register x[kUnroll];
    for (int i = 0; i < kUnroll; ++i) x[i] = L::load(from + i * L::kLanes);
    for (int i = 0; i < kUnroll; ++i) Ends<L>::place(to, x[i], pivot);
  }
  const int64_t rest = right - left;
  Register middle[kUnroll];
  for (int i = 0; i < kUnroll; ++i) {
    const int64_t count = rest - i * L::kLanes;
    middle[i] = L::load(left + i * L::kLanes, count > 0 ? first_lanes<L>(count) : typename L::Mask{0});
  }
  const auto all = first_lanes<L>(L::kLanes);
  for (int i = 0; i < kUnroll; ++i) {
    const int64_t count = rest - i * L::kLanes;
    Ends<L>::place_exactly(to, middle[i], pivot, count > 0 ? first_lanes<L>(count) : typename L::Mask{0});
    Ends<L>::place_exactly(to, first[i], pivot, all);
    Ends<L>::place_exactly(to, last[i], pivot, all);
  }
  return to.left - keys;
}

// ---- quicksort ----

template <class L, Decoding decoding>
struct Quicksort {
  using Key = typename L::Key;
  const int64_t* kth;
  int64_t count;
  uint64_t random;

  // All that is left to do where the keys have their places.
  static void finish(Key* keys, int64_t n) {
    if constexpr (decoding != Decoding::none) {
      for (int64_t i = 0; i < n; i += L::kLanes) {
        const auto lanes = first_lanes<L>(n - i);
        L::store(keys + i, lanes, decoded<L, decoding>(L::load(keys + i, lanes)));
      }
    }
  }

  // The number of the first wanted position that is not before `position`.
  int64_t wanted_from(int64_t position) const {
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (kth[middle] < position)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  // Keys from n / size apart, each from a random place in its part, in order.
  void take_sample(const Key* keys, int64_t n, Key* sample, int64_t size) {
    const uint64_t part = static_cast<uint64_t>(n / size);
    for (int64_t i = 0; i < size; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const uint64_t within = ((random >> 33) * part) >> 31;  // parts have less than 2^33 keys
      sample[i] = keys[static_cast<uint64_t>(i) * part + (within < part ? within : 0)];
    }
  }
  __attribute__((noinline)) Key median(const Key* keys, int64_t n) {
    Key sample[64];
    const int64_t size = n < 1024 ? 16 : 64;
    take_sample(keys, n, sample, size);
    sort_small<L, Decoding::none>(sample, size);
    return sample[size / 2];
  }
  // A key a little beyond the wanted one, on the side that leaves the smaller part to search.
  __attribute__((noinline)) Key near_wanted(const Key* keys, int64_t n, int64_t first) {
    constexpr int64_t kSample = 512;
    const int64_t begin = wanted_from(first), end = wanted_from(first + n);
    const int64_t middle = begin + (end - 1 - begin) / 2;
    const double target = (static_cast<double>(kth[middle] - first) + 0.5) / static_cast<double>(n);
    Key sample[kSample];
    take_sample(keys, n, sample, kSample);
    Quicksort<L, Decoding::none>{nullptr, 0, random}.run(sample, kSample, 0, 40);
    const double spread = 1.5 * __builtin_sqrt(kSample * target * (1 - target)) + 1;
    const double at = target * kSample + (target < 0.5 ? spread : -spread);
    return sample[at < 0 ? 0 : at > kSample - 1 ? kSample - 1 : static_cast<int64_t>(at)];
  }

  void run(Key* keys, int64_t n, int64_t first, int depth) {
    constexpr int64_t kSelected = 4096;  // from here on a selection's pivot is worth a larger sample
    while (n > 0) {
      if (kth && wanted_from(first) == wanted_from(first + n)) return finish(keys, n);
      if (n <= kNetwork<L>) return sort_small<L, decoding>(keys, n);
      if (depth-- <= 0) {
        heap_sort(keys, n);
        return finish(keys, n);
      }
      const Key pivot = kth && n >= kSelected ? near_wanted(keys, n, first) : median(keys, n);
      int64_t below = partition<L>(keys, n, pivot);
      if (below == 0) {  // the pivot is the least key: all that equal it are done
        below = pivot == L::kLast ? n : partition<L>(keys, n, pivot + 1);
        finish(keys, below);
      } else {
        run(keys, below, first, depth);
      }
      keys += below;
      first += below;
      n -= below;
    }
  }

  static void heap_sort(Key* keys, int64_t n) {
    const auto sift = [keys](int64_t at, int64_t end) {
      const Key key = keys[at];
      for (int64_t child; (child = 2 * at + 1) < end; at = child) {
        if (child + 1 < end && keys[child] < keys[child + 1]) ++child;
        if (keys[child] <= key) break;
        keys[at] = keys[child];
      }
      keys[at] = key;
    };
    for (int64_t i = n / 2 - 1; i >= 0; --i) sift(i, n);
    for (int64_t end = n - 1; end > 0; --end) {
      const Key greatest = keys[0];
      keys[0] = keys[end];
      keys[end] = greatest;
      sift(0, end);
    }
  }
};

template <class L>
void sort_keys(typename L::Key* keys, int64_t n, Decoding decoding, const int64_t* kth, int64_t count, int64_t first) {
  const int depth = 2 * (64 - __builtin_clzll(static_cast<unsigned long long>(n | 1))) + 8;
  const auto run = [&]<Decoding kind>() { Quicksort<L, kind>{kth, count, 1}.run(keys, n, first, depth); };
  switch (decoding) {
    case Decoding::none:
      return run.template operator()<Decoding::none>();
    case Decoding::signed_integer:
      return run.template operator()<Decoding::signed_integer>();
    case Decoding::floating:
      return run.template operator()<Decoding::floating>();
    case Decoding::low_half:
      return run.template operator()<Decoding::low_half>();
  }
}

// As sorting_keys.h has them, without branches.
template <class Key>
QUARRY_INLINE Key encoded(Key x, Decoding kind) {
  constexpr int kBits = 8 * sizeof(Key);
  constexpr Key kSign = Key{1} << (kBits - 1);
  constexpr Key kInfinity = sizeof(Key) == 4 ? static_cast<Key>(0x7f800000u) : static_cast<Key>(0x7ff0000000000000u);
  if (kind == Decoding::signed_integer) return x ^ kSign;
  if (kind != Decoding::floating) return x;
  const Key negative = (x & ~kSign) <= kInfinity ? x >> (kBits - 1) : Key{0};
  return (x | kSign) ^ (Key{0} - negative);
}
template <class Key>
QUARRY_INLINE Key ranked(Key x, Decoding kind) {
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  constexpr Key kInfinity = sizeof(Key) == 4 ? static_cast<Key>(0x7f800000u) : static_cast<Key>(0x7ff0000000000000u);
  const Key code = encoded(x, kind);
  if (kind != Decoding::floating) return code;
  const Key number = x == kSign ? kSign : code;
  return (x & ~kSign) > kInfinity ? ~Key{0} : number;
}
// f(kind) with a kind that is constant in f.
template <class F>
QUARRY_INLINE void with_kind(Decoding kind, F&& f) {
  if (kind == Decoding::floating)
    f(Decoding::floating);
  else if (kind == Decoding::signed_integer)
    f(Decoding::signed_integer);
  else
    f(Decoding::none);
}
template <class Key>
Key encode(const Key* from, Key* to, int64_t n, Decoding kind) {
  Key difference = 0;
  with_kind(
      kind, [&](Decoding constant) __attribute__((always_inline)) {
        const Key first = n > 0 ? encoded(from[0], constant) : Key{0};
        for (int64_t i = 0; i < n; ++i) {
          const Key key = encoded(from[i], constant);
          to[i] = key;
          difference |= key ^ first;
        }
      });
  return difference;
}

}  // namespace

uint32_t vector_encode(const uint32_t* from, uint32_t* to, int64_t n, Decoding kind) {
  return encode(from, to, n, kind);
}
uint64_t vector_encode(const uint64_t* from, uint64_t* to, int64_t n, Decoding kind) {
  return encode(from, to, n, kind);
}
void vector_records(const uint32_t* from, uint64_t* records, int64_t n, Decoding kind) {
  with_kind(
      kind, [&](Decoding constant) __attribute__((always_inline)) {
        for (int64_t i = 0; i < n; ++i)
          records[i] = static_cast<uint64_t>(ranked(from[i], constant)) << 32 | static_cast<uint64_t>(i);
      });
}
uint64_t vector_ranks(const uint64_t* from, uint64_t* ranks, int64_t n, Decoding kind) {
  uint64_t difference = 0;
  with_kind(
      kind, [&](Decoding constant) __attribute__((always_inline)) {
        const uint64_t first = n > 0 ? ranked(from[0], constant) : 0;
        for (int64_t i = 0; i < n; ++i) {
          const uint64_t rank = ranked(from[i], constant);
          ranks[i] = rank;
          difference |= rank ^ first;
        }
      });
  return difference;
}
void vector_pack(uint64_t* ranks, int64_t n, int shift, int index_bits) {
  for (int64_t i = 0; i < n; ++i) ranks[i] = ranks[i] >> shift << index_bits | static_cast<uint64_t>(i);
}

void vector_sort(uint32_t* keys, int64_t n, Decoding decoding, const int64_t* kth, int64_t count, int64_t first) {
  sort_keys<Lanes32>(keys, n, decoding, kth, count, first);
}
void vector_sort(uint64_t* keys, int64_t n, Decoding decoding, const int64_t* kth, int64_t count, int64_t first) {
  sort_keys<Lanes64>(keys, n, decoding, kth, count, first);
}

}  // namespace quarry::local::cpu
