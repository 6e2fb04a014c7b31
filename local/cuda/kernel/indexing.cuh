// Gather, scatter, update and selection by masks. The host (local/cuda/indexing.cpp, local/cuda/masks.cpp) appends the
// constants and the kernels of one instance. Every kernel takes a struct of 64-bit slots.
namespace quarry::local::indexing {

template <int N>
struct Slots {
  int64_t s[N];
};

enum Mode { raise, wrap, clip, unchecked };

constexpr uint64_t kNone = ~0ull;  // in a record: no position is out of bounds

// 16 bytes at any address that their halves are aligned to.
struct Pair {
  uint2 low, high;
};

// ---- Elements at positions ----

// Slots: 0 number of points, 1 array, 2 other operand, 3 record, 4 and 5 of the winners, 6 number of the first index
// for the record, 7 free; then per axis: extent, divider, stride in the array, stride in the other operand, stride of
// the rank, stride of the key, stride of each index; then per index: address, extent, stride in the array, stride of
// the key.
template <int Axes, int Indices>
struct ElementSlots {
  static constexpr int per_axis = 6 + Indices;
  static constexpr int first_index = 8 + Axes * per_axis;
  static constexpr int count = first_index + 4 * Indices;
};

struct Element {
  int64_t array, other;  // offsets in bytes
  int64_t rank;          // of the point among those that differ in their positions
  int64_t key;           // tells elements apart
  bool good;
};

template <int Mode_>
QUARRY_FN bool adjust(int64_t& at, int64_t extent) {
  if constexpr (Mode_ == raise) {
    at += at < 0 ? extent : 0;
    return static_cast<uint64_t>(at) < static_cast<uint64_t>(extent);
  } else if constexpr (Mode_ == wrap) {
    if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(extent)) {
      at %= extent;
      at += at < 0 ? extent : 0;
    }
  } else if constexpr (Mode_ == clip) {
    at = at < 0 ? 0 : at >= extent ? extent - 1 : at;
  }
  return true;
}

// Calls visit(d, axis, coordinate) for the axes of a position in C order, the last one first; the slots of an axis,
// from `axis` on, begin with its extent and divider.
template <class Index, int Axes, int PerAxis, class Visit>
QUARRY_FN void for_each_coordinate(const int64_t* axes, int64_t position, const Visit& visit) {
  Index rest = static_cast<Index>(position);
#pragma unroll
  for (int d = Axes - 1; d >= 0; --d) {
    const int64_t* axis = axes + d * PerAxis;
    Index at = rest;
    if (d > 0) {
      const Index next = divide_by(rest, axis[1]);
      at = rest - next * static_cast<Index>(axis[0]);
      rest = next;
    }
    visit(d, axis, static_cast<int64_t>(at));
  }
}

template <class Index, int Axes, int Indices, int Mode_>
QUARRY_FN Element locate(const int64_t* s, int64_t point) {
  using Layout = ElementSlots<Axes, Indices>;
  Element e{0, 0, 0, 0, true};
  int64_t offset[Indices > 0 ? Indices : 1] = {};
  for_each_coordinate<Index, Axes, Layout::per_axis>(s + 8, point, [&](int, const int64_t* axis, int64_t at) {
    e.array += at * axis[2];
    e.other += at * axis[3];
    e.rank += at * axis[4];
    e.key += at * axis[5];
#pragma unroll
    for (int k = 0; k < Indices; ++k) offset[k] += at * axis[6 + k];
  });
#pragma unroll
  for (int k = 0; k < Indices; ++k) {
    const int64_t* index = s + Layout::first_index + 4 * k;
    int64_t at = *reinterpret_cast<const int64_t*>(index[0] + offset[k]);
    if (!adjust<Mode_>(at, index[1])) {
      atomicMin(reinterpret_cast<uint64_t*>(s[3]),
                static_cast<uint64_t>(s[6] + k) << 58 | static_cast<uint64_t>(point));
      e.good = false;
      return e;
    }
    e.array += at * index[2];
    e.key += at * index[3];
  }
  return e;
}

QUARRY_FN int64_t thread_number() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + static_cast<int64_t>(threadIdx.x);
}
QUARRY_FN bool failed(const int64_t* s) { return s[3] != 0 && *reinterpret_cast<const uint64_t*>(s[3]) != kNone; }

template <class Word, class Index, int Axes, int Indices, int Mode_>
QUARRY_FN void gather(const int64_t* s) {
  const int64_t point = thread_number();
  if (point >= s[0]) return;
  const Element e = locate<Index, Axes, Indices, Mode_>(s, point);
  if (e.good) *reinterpret_cast<Word*>(s[2] + e.other) = *reinterpret_cast<const Word*>(s[1] + e.array);
}

// Of two axes, the positions along the last one, the same for every line: a block takes a line, whose elements that lie
// in one sector of memory are wanted by different threads, and so stay in its cache.
template <class Word, int Mode_>
QUARRY_FN void gather_lines(const int64_t* s) {
  constexpr int per_axis = ElementSlots<2, 1>::per_axis, kAhead = 4;
  const int64_t* const lines = s + 8;
  const int64_t* const places = lines + per_axis;
  const int64_t* const index = s + ElementSlots<2, 1>::first_index;
  const int64_t line = blockIdx.x, array = s[1] + line * lines[2], other = s[2] + line * lines[3];
  for (int64_t first = threadIdx.x; first < places[0]; first += int64_t{kAhead} * blockDim.x) {
    Word words[kAhead];
    bool good[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t place = first + int64_t{k} * blockDim.x;
      good[k] = place < places[0];
      if (!good[k]) continue;
      int64_t at = *reinterpret_cast<const int64_t*>(index[0] + place * places[6]);
      good[k] = adjust<Mode_>(at, index[1]);
      if (good[k])
        words[k] = *reinterpret_cast<const Word*>(array + at * index[2]);
      else
        atomicMin(reinterpret_cast<uint64_t*>(s[3]),
                  static_cast<uint64_t>(s[6]) << 58 | static_cast<uint64_t>(line * places[0] + place));
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (good[k]) *reinterpret_cast<Word*>(other + (first + int64_t{k} * blockDim.x) * places[3]) = words[k];
  }
}

// Reads the positions only, so that a bad one is known before anything is written.
template <class Index, int Axes>
QUARRY_FN void check(const int64_t* s) {
  const int64_t point = thread_number();
  if (point < s[0]) locate<Index, Axes, 1, raise>(s, point);
}

// The winner of an element is the last point that names it. Slot 4 is a table of ranks + 1, by key, or by slot of the
// hash table of keys in slot 5, which has slot 7 + 1 entries.
template <bool Hashed>
QUARRY_FN int64_t entry_of(const int64_t* s, int64_t key, bool insert) {
  if constexpr (!Hashed) {
    return key;
  } else {
    uint64_t* keys = reinterpret_cast<uint64_t*>(s[5]);
    uint64_t h = static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
    for (int64_t entry = static_cast<int64_t>(h) & s[7];; entry = (entry + 1) & s[7]) {
      if (insert) {
        const uint64_t old = atomicCAS(keys + entry, kNone, static_cast<uint64_t>(key));
        if (old == kNone || old == static_cast<uint64_t>(key)) return entry;
      } else if (keys[entry] == static_cast<uint64_t>(key)) {
        return entry;
      }
    }
  }
}

template <class Rank, bool Hashed, class Index, int Axes, int Indices, int Mode_>
QUARRY_FN void claim(const int64_t* s) {
  const int64_t point = thread_number();
  if (point >= s[0] || failed(s)) return;
  const Element e = locate<Index, Axes, Indices, Mode_>(s, point);
  if (!e.good) return;
  atomicMax(reinterpret_cast<Rank*>(s[4]) + entry_of<Hashed>(s, e.key, true), static_cast<Rank>(e.rank + 1));
}

template <class Word, class Rank, bool Hashed, class Index, int Axes, int Indices, int Mode_>
QUARRY_FN void scatter(const int64_t* s) {
  const int64_t point = thread_number();
  if (point >= s[0] || failed(s)) return;
  const Element e = locate<Index, Axes, Indices, Mode_>(s, point);
  if (!e.good) return;
  if (s[4] != 0 &&
      reinterpret_cast<const Rank*>(s[4])[entry_of<Hashed>(s, e.key, false)] != static_cast<Rank>(e.rank + 1))
    return;
  *reinterpret_cast<Word*>(s[1] + e.array) = *reinterpret_cast<const Word*>(s[2] + e.other);
}

// element = f(element) in one piece.
template <class T, class F>
QUARRY_FN void exchange(T* element, const F& f) {
  if constexpr (sizeof(T) == 8) {
    auto* word = reinterpret_cast<uint64_t*>(element);
    uint64_t seen = *reinterpret_cast<volatile uint64_t*>(word), expected;
    do {
      expected = seen;
      seen = atomicCAS(word, expected, bit_copy<uint64_t>(f(bit_copy<T>(expected))));
    } while (seen != expected);
  } else if constexpr (sizeof(T) == 4) {
    auto* word = reinterpret_cast<uint32_t*>(element);
    uint32_t seen = *reinterpret_cast<volatile uint32_t*>(word), expected;
    do {
      expected = seen;
      seen = atomicCAS(word, expected, bit_copy<uint32_t>(f(bit_copy<T>(expected))));
    } while (seen != expected);
  } else {
    // The part of an aligned word.
    const uint64_t address = reinterpret_cast<uint64_t>(element);
    auto* word = reinterpret_cast<uint32_t*>(address & ~3ull);
    const uint32_t shift = static_cast<uint32_t>(address & 3) * 8, mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
    uint32_t seen = *reinterpret_cast<volatile uint32_t*>(word), expected;
    do {
      expected = seen;
      const uint32_t part = (expected & mask) >> shift;
      T old;
      memcpy(&old, &part, sizeof(T));
      const T made = f(old);
      uint32_t bits = 0;
      memcpy(&bits, &made, sizeof(T));
      seen = atomicCAS(word, expected, (expected & ~mask) | bits << shift);
    } while (seen != expected);
  }
}

template <class T>
QUARRY_FN void add_to(T* element, T value) {
  if constexpr (fn::Integer<T> && sizeof(T) == 8)
    atomicAdd(reinterpret_cast<uint64_t*>(element), static_cast<uint64_t>(value));
  else if constexpr (fn::Integer<T>)
    atomicAdd(reinterpret_cast<uint32_t*>(element), static_cast<uint32_t>(value));
  else
    atomicAdd(element, value);
}
template <class T>
QUARRY_FN void add_to(cx<T>* element, cx<T> value) {
  atomicAdd(reinterpret_cast<T*>(element), value.re);
  atomicAdd(reinterpret_cast<T*>(element) + 1, value.im);
}

// Every point updates its element; Update::once(element, value) does so in one piece.
template <class Update, class Index, int Axes, int Indices, int Mode_>
QUARRY_FN void update(const int64_t* s) {
  const int64_t point = thread_number();
  if (point >= s[0] || failed(s)) return;
  const Element e = locate<Index, Axes, Indices, Mode_>(s, point);
  if (e.good) Update::once(s[1] + e.array, s[2] + e.other);
}

// Sums to few elements, by Update::add(element, value): a block gathers its points' in shared memory first. The
// element is that of one index alone, which its key counts.
constexpr int kSharedSumBytes = 32 << 10;
template <class Update, class T, class Index, int Axes, int Mode_>
QUARRY_FN void update_shared(const int64_t* s) {
  __shared__ __align__(16) char memory[kSharedSumBytes];
  T* const sums = reinterpret_cast<T*>(memory);
  const int64_t* index = s + ElementSlots<Axes, 1>::first_index;
  const int extent = static_cast<int>(index[1]), thread = threadIdx.x;
  for (int k = thread; k < extent; k += blockDim.x) sums[k] = T{};
  __syncthreads();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  if (!failed(s)) {
    for (int64_t point = thread_number(); point < s[0]; point += step) {
      const Element e = locate<Index, Axes, 1, Mode_>(s, point);
      if (e.good) Update::add(sums + e.key, s[2] + e.other);
    }
  }
  __syncthreads();
  // An element that nothing was added to keeps its zero's sign.
  for (int k = thread; k < extent; k += blockDim.x)
    if (fn::truth(sums[k])) add_to(reinterpret_cast<T*>(s[1] + k * index[2]), sums[k]);
}

// Updates in C order for every element: the points, stably sorted by their element, are runs of those of one element,
// and the thread at the first point of a run goes through it. The key of an element is its place in memory. Slots: 4
// keys, 5 points, 6 the least place, 7 how many zeros end all of them.
template <class Key, class Point, class Index, int Axes, int Indices, int Mode_>
QUARRY_FN void update_keys(const int64_t* s) {
  const int64_t point = thread_number();
  if (point >= s[0] || failed(s)) return;
  const Element e = locate<Index, Axes, Indices, Mode_>(s, point);
  reinterpret_cast<Key*>(s[4])[point] = static_cast<Key>(static_cast<uint64_t>(e.array - s[6]) >> s[7]);
  reinterpret_cast<Point*>(s[5])[point] = static_cast<Point>(point);
}
template <class Update, class Key, class Point, class Index, int Axes, int Indices>
QUARRY_FN void update_in_order(const int64_t* s) {
  using Value = typename Update::Value;
  constexpr int kAhead = 8;  // values are read before they are needed: the operations wait for each other
  int64_t at = thread_number();
  if (at >= s[0] || failed(s)) return;
  const Key* const keys = reinterpret_cast<const Key*>(s[4]);
  const Point* const points = reinterpret_cast<const Point*>(s[5]);
  const Key key = keys[at];
  if (at > 0 && keys[at - 1] == key) return;
  auto* const element = reinterpret_cast<typename Update::Element*>(
      s[1] + s[6] + static_cast<int64_t>(static_cast<uint64_t>(key) << s[7]));
  auto result = *element;
  for (int count = kAhead; count == kAhead; at += count) {
    Value values[kAhead];
    count = 0;
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (at + k >= s[0] || keys[at + k] != key) continue;
      int64_t offset = 0;
      for_each_coordinate<Index, Axes, ElementSlots<Axes, Indices>::per_axis>(
          s + 8, static_cast<int64_t>(points[at + k]),
          [&](int, const int64_t* axis, int64_t coordinate) { offset += coordinate * axis[3]; });
      values[k] = *reinterpret_cast<const Value*>(s[2] + offset);
      ++count;
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (k < count) result = Update::step(result, values[k]);
  }
  *element = result;
}

// ---- Masks ----

// Slots: 0 number of elements, 1 mask, 2 offsets, 3 first operand, 4 second operand, 5 and 6 numbers of the function,
// 7 free; then per axis: extent, divider, strides of both operands.
constexpr int kMaskAxis = 4;
constexpr int kMaskTile = 16384, kMaskRound = 4096;  // a round is 16 elements for each of 256 threads

// Bit i: mask[i], i < 16.
QUARRY_FN uint32_t mask_bits(const uint8_t* mask, int64_t first, int64_t elements) {
  if (first >= elements) return 0;
  const uint8_t* from = mask + first;
  uint32_t bits = 0;
  if (first + 16 <= elements && (reinterpret_cast<uint64_t>(from) & 15) == 0) {
    const uint4 words = *reinterpret_cast<const uint4*>(from);
    const uint32_t w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) bits |= ((w[i] & 0x01010101u) * 0x01020408u >> 24 & 15u) << 4 * i;
  } else {
    for (int i = 0; i < 16 && first + i < elements; ++i) bits |= static_cast<uint32_t>(from[i] & 1) << i;
  }
  return bits;
}

template <class Index, int Axes>
QUARRY_FN void mask_offsets(const int64_t* s, int64_t position, int64_t& first, int64_t& second) {
  first = second = 0;
  for_each_coordinate<Index, Axes, kMaskAxis>(s + 8, position, [&](int, const int64_t* axis, int64_t at) {
    first += at * axis[2];
    second += at * axis[3];
  });
}

QUARRY_FN uint32_t warp_sum(uint32_t x) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
QUARRY_FN int64_t warp_prefix(int64_t x, uint32_t lane) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const int64_t before = __shfl_up_sync(0xffffffffu, x, d);
    if (lane >= d) x += before;
  }
  return x;
}

// offsets[tile + 1] = true elements of the tile.
QUARRY_FN void count_tiles(const int64_t* s) {
  __shared__ uint32_t sums[8];
  const int64_t tile = blockIdx.x;
  const auto* mask = reinterpret_cast<const uint8_t*>(s[1]);
  uint32_t count = 0;
#pragma unroll
  for (int r = 0; r < kMaskTile / kMaskRound; ++r)
    count += __popc(mask_bits(mask, tile * kMaskTile + r * kMaskRound + static_cast<int64_t>(threadIdx.x) * 16, s[0]));
  count = warp_sum(count);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = count;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t total = 0;
    for (int i = 0; i < 8; ++i) total += sums[i];
    reinterpret_cast<int64_t*>(s[2])[tile + 1] = total;
  }
}

// Prefix sums of offsets[1 .. slot 5] by one block of 1024 threads, 8 tiles each at a time.
QUARRY_FN void scan_tiles(const int64_t* s) {
  __shared__ int64_t sums[32];
  auto* offsets = reinterpret_cast<int64_t*>(s[2]);
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int64_t before = 0;
  if (threadIdx.x == 0) offsets[0] = 0;
  for (int64_t first = 1; first <= s[5]; first += 8192) {
    const int64_t mine = first + static_cast<int64_t>(threadIdx.x) * 8;
    int64_t values[8], total = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values[i] = mine + i <= s[5] ? offsets[mine + i] : 0;
      total += values[i];
    }
    const int64_t inclusive = warp_prefix(total, lane);
    if (lane == 31) sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) sums[lane] = warp_prefix(sums[lane], lane);
    __syncthreads();
    int64_t running = before + inclusive - total + (warp > 0 ? sums[warp - 1] : 0);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      running += values[i];
      if (mine + i <= s[5]) offsets[mine + i] = running;
    }
    before += sums[31];
    __syncthreads();
  }
}

// Calls sink(position, number) for the true elements of the block's tile; neighbouring threads get neighbouring ones.
template <class Sink>
QUARRY_FN void for_each_true(const int64_t* s, const Sink& sink) {
  __shared__ uint16_t list[kMaskRound];
  __shared__ uint32_t sums[8];
  const int64_t tile = blockIdx.x;
  const auto* offsets = reinterpret_cast<const int64_t*>(s[2]);
  const auto* mask = reinterpret_cast<const uint8_t*>(s[1]);
  int64_t number = offsets[tile];
  if (offsets[tile + 1] == number) return;
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int r = 0; r < kMaskTile / kMaskRound; ++r) {
    const int64_t first = tile * kMaskTile + r * kMaskRound;
    if (first >= s[0]) return;
    uint32_t bits = mask_bits(mask, first + static_cast<int64_t>(threadIdx.x) * 16, s[0]);
    const uint32_t own = __popc(bits);
    uint32_t inclusive = own;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const uint32_t other = __shfl_up_sync(0xffffffffu, inclusive, d);
      if (lane >= d) inclusive += other;
    }
    if (lane == 31) sums[warp] = inclusive;
    __syncthreads();
    uint32_t at = inclusive - own, total = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      at += w < warp ? sums[w] : 0;
      total += sums[w];
    }
    for (; bits != 0; bits &= bits - 1) list[at++] = static_cast<uint16_t>(threadIdx.x * 16 + __ffs(bits) - 1);
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < total; j += kBlock) sink(first + list[j], number + j);
    number += total;
    __syncthreads();
  }
}

// Slot 3: int64 results, 5: step, 6: step between axes, in elements; extents and dividers are those of the mask.
template <class Index, int Axes>
QUARRY_FN void positions(const int64_t* s) {
  auto* to = reinterpret_cast<int64_t*>(s[3]);
  for_each_true(s, [&](int64_t position, int64_t number) {
    if constexpr (Axes == 0) {
      to[number * s[5]] = position;
    } else {
      for_each_coordinate<Index, Axes, kMaskAxis>(
          s + 8, position, [&](int d, const int64_t*, int64_t at) { to[number * s[5] + d * s[6]] = at; });
    }
  });
}

// First operand: source; slot 4: results without gaps.
template <class Word, class Index, int Axes>
QUARRY_FN void select(const int64_t* s) {
  for_each_true(s, [&](int64_t position, int64_t number) {
    int64_t from, unused;
    mask_offsets<Index, Axes>(s, position, from, unused);
    reinterpret_cast<Word*>(s[4])[number] = *reinterpret_cast<const Word*>(s[3] + from);
  });
}

// First operand: target; slot 4: values, 5: bytes between them, 6: period.
template <class Word, class Index, int Axes>
QUARRY_FN void expand(const int64_t* s) {
  for_each_true(s, [&](int64_t position, int64_t number) {
    int64_t to, unused;
    mask_offsets<Index, Axes>(s, position, to, unused);
    const int64_t value = number < s[6] ? number : number % s[6];
    *reinterpret_cast<Word*>(s[3] + to) = *reinterpret_cast<const Word*>(s[4] + value * s[5]);
  });
}

// First operand: source, second: target. A warp takes 512 elements, 32 neighbours at a time.
template <class Word, class Index, int Axes>
QUARRY_FN void copy_where(const int64_t* s) {
  const int64_t first = thread_number() / 32 * 512;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t bits =
      mask_bits(reinterpret_cast<const uint8_t*>(s[1]), first + static_cast<int64_t>(lane) * 16, s[0]);
#pragma unroll 4
  for (int i = 0; i < 16; ++i) {
    const uint32_t theirs = __shfl_sync(0xffffffffu, bits, i * 2 + (lane >> 4));
    if ((theirs >> (lane & 15) & 1) == 0) continue;
    int64_t from, to;
    mask_offsets<Index, Axes>(s, first + i * 32 + lane, from, to);
    *reinterpret_cast<Word*>(s[4] + to) = *reinterpret_cast<const Word*>(s[3] + from);
  }
}

}  // namespace quarry::local::indexing
