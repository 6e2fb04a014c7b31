// Radix selection: the keys at up to kMostRanks positions of a sorted row, without sorting it, and the row arranged by
// them.
//
// From the most significant digit down, a pass counts the next digit of the elements that agree with a wanted key in
// all digits before (histogram_kernel), and one block finds the digit at which each wanted position lies (pick_kernel).
// Wanted keys that agree so far make a group; there is a table of counts for each. Once the elements of the groups are
// few, the pass that reads them next also writes them apart, in no particular order, and later passes read those alone.
// If the first digit is the same everywhere, the next one begins at the first bit in which any two elements differ.
// The host only queues: every step reads from State what is left to do, and does nothing when nothing is.
//
// The elements are read two to four times by common data; in the worst case (few values) once per digit.
#include <algorithm>

#include "quarry/local/cuda/multiprocessors.h"
#include "quarry/local/cuda/sorting/dispatch.cuh"

namespace quarry::local::cuda {
namespace {

using Word = unsigned long long;  // as atomics and keys of any width

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kRanks = static_cast<int>(kMostRanks);
constexpr int kDigitBits = 11, kDigits = 1 << kDigitBits;
constexpr int kItems = 8;                  // elements of a thread in one step
constexpr int kWarpTile = kWarp * kItems;  // consecutive elements that a warp takes in one step
constexpr int kHistogramThreads = 512;
constexpr int kPickThreads = kDigits / 2;  // two digits each
constexpr int kPlaceThreads = 256, kPlaceWarps = kPlaceThreads / kWarp;
constexpr int kPlaceTile = kPlaceWarps * kWarpTile;
constexpr int kScanItems = 4;
constexpr int64_t kFewer = 4;  // candidates are written apart when there are at most n / kFewer

enum class Source : int {
  row,
  row_and_write,  // and write the candidates
  candidates,
};

struct State {
  int shift;  // the bits of the wanted keys from here on are known
  Source source;
  Word stored;    // candidates written so far
  Word any, all;  // bits that are set in some, in all elements
  // Of each wanted position, ascending.
  int64_t wanted[kRanks];  // in the row
  int64_t rank[kRanks];    // among the elements of its group
  int64_t size[kRanks];    // elements of its group
  Word key[kRanks];        // what is known of the key, the other bits 0
  int group[kRanks];
  // Of each group, ascending. In the end a group is a key.
  int groups;
  Word group_key[kRanks];
  int64_t less[kRanks], equal[kRanks];  // elements of the row that are less than all of the group, that are in it
};
constexpr int64_t kStateBytes = (static_cast<int64_t>(sizeof(State)) + 255) / 256 * 256;

Word* table_of(void* state) { return reinterpret_cast<Word*>(static_cast<char*>(state) + kStateBytes); }

struct WantedPositions {
  int64_t at[kRanks];
};

__host__ __device__ constexpr int low_bit(int shift) { return shift > kDigitBits ? shift - kDigitBits : 0; }

__global__ void __launch_bounds__(kPickThreads)
    begin_kernel(int64_t count, int width, WantedPositions wanted, int ranks, State* state, Word* table) {
  for (int i = static_cast<int>(threadIdx.x); i < ranks * kDigits; i += kPickThreads) table[i] = 0;
  if (threadIdx.x != 0) return;
  state->shift = width;
  state->source = Source::row;
  state->stored = 0;
  state->any = 0;
  state->all = ~Word{0};
  for (int r = 0; r < ranks; ++r) {
    state->wanted[r] = state->rank[r] = wanted.at[r];
    state->size[r] = count;
    state->key[r] = 0;
    state->group[r] = 0;
  }
  state->groups = 1;
  state->group_key[0] = 0;
  state->less[0] = 0;
  state->equal[0] = count;
}

// The chosen keys of a warp to the end of a list. All lanes call it.
template <class Bits>
__device__ void append(const Bits (&keys)[kItems], unsigned chosen, Bits* list, Word* stored) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, mine = __popc(chosen);
  int end = mine;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int below = __shfl_up_sync(kAllLanes, end, distance);
    if (lane >= distance) end += below;
  }
  const int total = __shfl_sync(kAllLanes, end, kWarp - 1);
  if (total == 0) return;
  Word start = 0;
  if (lane == 0) start = atomicAdd(stored, static_cast<Word>(total));
  start = __shfl_sync(kAllLanes, start, 0);
  Bits* to = list + start + (end - mine);
#pragma unroll
  for (int i = 0; i < kItems; ++i)
    if ((chosen >> i & 1) != 0) *to++ = keys[i];
}

// Adds to the groups' tables, which are zero before. Dynamic shared memory: one table of 32-bit counts per group (a
// block sees fewer than 2^32 elements).
template <class Bits>
__global__ void __launch_bounds__(kHistogramThreads)
    histogram_kernel(const Bits* in, int64_t n, keys::RuntimeKey<Bits> rule, State* state, Word* table,
                     Bits* candidates) {
  extern __shared__ unsigned counts[];
  __shared__ Bits uppers[kRanks];
  __shared__ Word block_any, block_all;
  const int shift = state->shift;
  if (shift == 0) return;
  const bool first = shift == 8 * static_cast<int>(sizeof(Bits));
  const int low = low_bit(shift), groups = state->groups;
  const unsigned mask = (1u << (shift - low)) - 1;
  const Source source = state->source;
  const bool encoded = source == Source::candidates;
  const int64_t count = encoded ? static_cast<int64_t>(state->stored) : n;
  const auto upper = [&](Bits key) { return first ? Bits{0} : static_cast<Bits>(key >> shift); };

  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  for (int i = thread; i < groups * kDigits; i += kHistogramThreads) counts[i] = 0;
  if (thread < groups) uppers[thread] = upper(static_cast<Bits>(state->group_key[thread]));
  if (thread == 0) {
    block_any = 0;
    block_all = ~Word{0};
  }
  __syncthreads();

  const Bits first_upper = uppers[0];
  int slot = 0;      // the count that this thread has not added to yet, and by how much:
  unsigned run = 0;  // equal digits in a row would wait for each other
  Bits any = 0, all = static_cast<Bits>(~Bits{0});
  constexpr int kWarps = kHistogramThreads / kWarp;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps * kWarpTile;
  for (int64_t begin = (static_cast<int64_t>(blockIdx.x) * kWarps + thread / kWarp) * kWarpTile; begin < count;
       begin += step) {
    Bits keys[kItems];
    const Bits* const from = encoded ? candidates : in;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int64_t at = begin + i * kWarp + lane;
      keys[i] = at < count ? from[at] : Bits{0};
    }
    unsigned chosen = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (begin + i * kWarp + lane >= count) continue;
      if (!encoded) keys[i] = rule.key(keys[i]);
      const Bits key = keys[i];
      if (first) {
        any = static_cast<Bits>(any | key);
        all = static_cast<Bits>(all & key);
      }
      const Bits mine = upper(key);
      int g = 0;
      if (mine != first_upper) {
        g = 1;
        while (g < groups && uppers[g] != mine) ++g;
      }
      if (g == groups) continue;
      chosen |= 1u << i;
      const int counted = g * kDigits + static_cast<int>(static_cast<unsigned>(key >> low) & mask);
      if (counted == slot) {
        ++run;
        continue;
      }
      if (run != 0) atomicAdd(&counts[slot], run);
      slot = counted;
      run = 1;
    }
    __syncwarp();
    if (source == Source::row_and_write) append(keys, chosen, candidates, &state->stored);
  }
  if (run != 0) atomicAdd(&counts[slot], run);
  if (first) {
    Word some = any, every = all;
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      some |= __shfl_xor_sync(kAllLanes, some, distance);
      every &= __shfl_xor_sync(kAllLanes, every, distance);
    }
    if (lane == 0) {
      atomicOr(&block_any, some);
      atomicAnd(&block_all, every);
    }
  }
  __syncthreads();
  for (int i = thread; i < groups * kDigits; i += kHistogramThreads)
    if (counts[i] != 0) atomicAdd(&table[i], static_cast<Word>(counts[i]));
  if (first && thread == 0) {
    atomicOr(&state->any, block_any);
    atomicAnd(&state->all, block_all);
  }
}

// The sum of the values of the threads before, in a block of `Warps` warps, and of all of them. All threads call it.
template <int Warps>
__device__ int64_t exclusive_sum(int64_t value, int64_t (&warp_sums)[Warps], int64_t& total) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  int64_t end = value;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int64_t below = __shfl_up_sync(kAllLanes, end, distance);
    if (lane >= distance) end += below;
  }
  if (lane == kWarp - 1) warp_sums[warp] = end;
  __syncthreads();
  int64_t before = 0;
  total = 0;
  for (int w = 0; w < Warps; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }
  __syncthreads();
  return before + end - value;
}

// The groups of the keys as they are known now, and where the next pass reads.
__device__ void regroup(int64_t n, bool first, int ranks, State& state) {
  int groups = 0;
  int64_t candidates = 0;
  for (int r = 0; r < ranks; ++r) {
    if (groups == 0 || state.group_key[groups - 1] != state.key[r]) {
      state.group_key[groups] = state.key[r];
      state.less[groups] = state.wanted[r] - state.rank[r];
      state.equal[groups] = state.size[r];
      candidates += state.size[r];
      ++groups;
    }
    state.group[r] = groups - 1;
  }
  state.groups = groups;
  state.shift = low_bit(state.shift);
  if (first && groups == 1 && candidates == n) {  // on to the first bit that differs
    const Word difference = state.any ^ state.all;
    state.shift = 64 - __clzll(static_cast<long long>(difference));
    const Word known = state.all >> state.shift << state.shift;
    state.group_key[0] = known;
    for (int r = 0; r < ranks; ++r) state.key[r] = known;
  }
  if (state.source == Source::row_and_write)
    state.source = Source::candidates;
  else if (state.source == Source::row && candidates <= n / kFewer)
    state.source = Source::row_and_write;
}

// One block. Clears the tables.
__global__ void __launch_bounds__(kPickThreads)
    pick_kernel(int64_t n, int width, int ranks, State* state, Word* table) {
  __shared__ int64_t ends[kDigits];
  __shared__ int64_t warp_sums[kPickThreads / kWarp];
  const int shift = state->shift, groups = state->groups, thread = static_cast<int>(threadIdx.x);
  if (shift == 0) return;
  for (int g = 0; g < groups; ++g) {
    Word* const mine = table + g * kDigits + 2 * thread;
    const auto even = static_cast<int64_t>(mine[0]), odd = static_cast<int64_t>(mine[1]);
    mine[0] = mine[1] = 0;
    int64_t total = 0;
    const int64_t before = exclusive_sum(even + odd, warp_sums, total);
    ends[2 * thread] = before + even;
    ends[2 * thread + 1] = before + even + odd;
    __syncthreads();
    if (thread < ranks && state->group[thread] == g) {
      const int64_t rank = state->rank[thread];
      int digit = 0;  // the first one that ends beyond the rank
      for (int step = kDigits / 2; step > 0; step /= 2)
        if (ends[digit + step - 1] <= rank) digit += step;
      const int64_t begin = digit == 0 ? 0 : ends[digit - 1];
      state->rank[thread] = rank - begin;
      state->size[thread] = ends[digit] - begin;
      state->key[thread] |= static_cast<Word>(digit) << low_bit(shift);
    }
    __syncthreads();
  }
  if (thread == 0) regroup(n, /*first=*/shift == width, ranks, *state);
}

template <class Bits>
__global__ void decode_kernel(const State* state, keys::RuntimeKey<Bits> rule, Bits* out) {
  out[threadIdx.x] = rule.decode(static_cast<Bits>(state->key[threadIdx.x]));
}

// ---- the row arranged by the keys ----
//
// Class 2 g: less than key g and not less than the one before; class 2 g + 1: equal to it. The elements of each class
// are counted tile by tile, the counts summed up to the first place of each tile's elements, and the elements put
// there.

__host__ __device__ constexpr int classes_of(int groups) { return 2 * groups + 1; }
static_assert(classes_of(kRanks) < kWarp, "a lane for each class, and one for none");

// The elements of a warp and their classes; kWarp - 1 for none.
template <class Bits>
struct Classified {
  Bits elements[kItems];
  int classes[kItems];

  // `pivots`: the keys, in shared memory.
  __device__ Classified(const Bits* in, int64_t n, int64_t begin, const keys::RuntimeKey<Bits>& rule,
                        const Bits* pivots, int groups) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int64_t at = begin + i * kWarp + lane;
      elements[i] = at < n ? in[at] : Bits{0};
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const Bits key = rule.key(elements[i]);
      int found = 0;
      for (int g = 0; g < groups; ++g) found += (key >= pivots[g] ? 1 : 0) + (key > pivots[g] ? 1 : 0);
      classes[i] = begin + i * kWarp + lane < n ? found : kWarp - 1;
    }
  }
  // In lane c: how many of the warp's elements are of class c.
  __device__ int count(int classes_count) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    int result = 0;
    for (int c = 0; c < classes_count; ++c) {
      int sum = 0;
#pragma unroll
      for (int i = 0; i < kItems; ++i) sum += __popc(__ballot_sync(kAllLanes, classes[i] == c));
      if (lane == c) result = sum;
    }
    return result;
  }
};

template <class Bits>
__device__ int load_pivots(const State* state, Bits (&pivots)[kRanks]) {
  const int groups = state->groups;
  if (static_cast<int>(threadIdx.x) < groups) pivots[threadIdx.x] = static_cast<Bits>(state->group_key[threadIdx.x]);
  __syncthreads();
  return groups;
}
__device__ inline int64_t warp_begin() {
  return static_cast<int64_t>(blockIdx.x) * kPlaceTile + static_cast<int64_t>(threadIdx.x / kWarp) * kWarpTile;
}

// counts[c][tile]. A block is a tile.
template <class Bits>
__global__ void __launch_bounds__(kPlaceThreads)
    count_kernel(const Bits* in, int64_t n, keys::RuntimeKey<Bits> rule, const State* state, int64_t* counts) {
  __shared__ Bits pivots[kRanks];
  __shared__ int sums[kPlaceWarps][kWarp];
  const int groups = load_pivots(state, pivots), classes = classes_of(groups);
  const int thread = static_cast<int>(threadIdx.x);
  const Classified<Bits> items(in, n, warp_begin(), rule, pivots, groups);
  sums[thread / kWarp][thread % kWarp] = items.count(classes);
  __syncthreads();
  if (thread >= classes) return;
  int64_t sum = 0;
  for (int w = 0; w < kPlaceWarps; ++w) sum += sums[w][thread];
  counts[static_cast<int64_t>(thread) * gridDim.x + blockIdx.x] = sum;
}

// A block per class: counts[c][tile] becomes the place of the first element of class c of the tile.
__global__ void __launch_bounds__(kPickThreads) places_kernel(const State* state, int64_t* counts, int64_t tiles) {
  __shared__ int64_t warp_sums[kPickThreads / kWarp];
  const auto c = static_cast<int>(blockIdx.x);
  if (c >= classes_of(state->groups)) return;
  int64_t start = 0;
  if (c % 2 == 1)
    start = state->less[c / 2];
  else if (c > 0)
    start = state->less[c / 2 - 1] + state->equal[c / 2 - 1];
  int64_t* const row = counts + c * tiles;
  for (int64_t begin = 0; begin < tiles; begin += kPickThreads * kScanItems) {
    const int64_t first = begin + static_cast<int64_t>(threadIdx.x) * kScanItems;
    int64_t values[kScanItems], sum = 0;
#pragma unroll
    for (int i = 0; i < kScanItems; ++i) {
      values[i] = first + i < tiles ? row[first + i] : 0;
      sum += values[i];
    }
    int64_t total = 0;
    int64_t place = start + exclusive_sum(sum, warp_sums, total);
#pragma unroll
    for (int i = 0; i < kScanItems; ++i) {
      if (first + i < tiles) row[first + i] = place;
      place += values[i];
    }
    start += total;
  }
}

// Out: Bits for the elements, int64_t for their positions.
template <class Bits, class Out>
__global__ void __launch_bounds__(kPlaceThreads) place_kernel(const Bits* in, int64_t n, keys::RuntimeKey<Bits> rule,
                                                              const State* state, const int64_t* places, Out* out) {
  __shared__ Bits pivots[kRanks];
  __shared__ int sums[kPlaceWarps][kWarp];
  const int groups = load_pivots(state, pivots), classes = classes_of(groups);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t begin = warp_begin();
  const Classified<Bits> items(in, n, begin, rule, pivots, groups);
  sums[warp][lane] = items.count(classes);
  __syncthreads();
  int64_t next = 0;  // in lane c: the place of the warp's next element of class c
  if (lane < classes) {
    next = places[static_cast<int64_t>(lane) * gridDim.x + blockIdx.x];
    for (int w = 0; w < warp; ++w) next += sums[w][lane];
  }
  const unsigned before = (1u << lane) - 1;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int mine = items.classes[i];
    int rank = 0, added = 0;
    for (int c = 0; c < classes; ++c) {
      const unsigned members = __ballot_sync(kAllLanes, mine == c);
      if (mine == c) rank = __popc(members & before);
      if (lane == c) added = __popc(members);
    }
    const int64_t place = __shfl_sync(kAllLanes, next, mine) + rank;
    next += added;
    if (mine == kWarp - 1) continue;
    if constexpr (std::is_same_v<Out, Bits>)
      out[place] = items.elements[i];
    else
      out[place] = begin + i * kWarp + lane;
  }
}

// f.operator()<Bits>() with the unsigned integer of a dtype's size.
template <class F>
void with_width(DType dtype, F&& f) {
  switch (itemsize(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      throw InternalError("selection among complex numbers");
  }
}

int64_t tiles_of(int64_t count) { return (count + kPlaceTile - 1) / kPlaceTile; }

}  // namespace

int64_t select_state_bytes(int64_t ranks) { return kStateBytes + ranks * kDigits * static_cast<int64_t>(sizeof(Word)); }
int64_t select_candidate_bytes(DType dtype, int64_t count) { return count / kFewer * itemsize(dtype); }
int64_t select_place_bytes(int64_t ranks, int64_t count) {
  return classes_of(static_cast<int>(ranks)) * tiles_of(count) * static_cast<int64_t>(sizeof(int64_t));
}

void select_keys(DType dtype, bool ranked, const void* in, int64_t count, const std::vector<int64_t>& kth,
                 void* state_memory, void* candidates, cudaStream_t stream) {
  const auto ranks = static_cast<int>(kth.size());
  const int width = 8 * static_cast<int>(itemsize(dtype));
  auto* const state = static_cast<State*>(state_memory);
  Word* const table = table_of(state_memory);
  WantedPositions wanted{};
  std::copy(kth.begin(), kth.end(), wanted.at);
  begin_kernel<<<1, kPickThreads, 0, stream>>>(count, width, wanted, ranks, state, table);
  QUARRY_CUDA_CALL(cudaGetLastError());
  with_width(dtype, [&]<class Bits>() {
    const auto rule = keys::runtime_key<Bits>(dtype, ranked);
    const int shared = ranks * kDigits * static_cast<int>(sizeof(unsigned));
    QUARRY_CUDA_CALL(cudaFuncSetAttribute(reinterpret_cast<const void*>(histogram_kernel<Bits>),
                                          cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          kRanks * kDigits * static_cast<int>(sizeof(unsigned))));
    constexpr int64_t kBlockTile = int64_t{kHistogramThreads} * kItems;
    const auto blocks =
        static_cast<unsigned>(std::min<int64_t>((count + kBlockTile - 1) / kBlockTile, 4 * multiprocessor_count()));
    for (int left = width; left > 0; left -= kDigitBits) {
      histogram_kernel<Bits><<<blocks, kHistogramThreads, static_cast<size_t>(shared), stream>>>(
          static_cast<const Bits*>(in), count, rule, state, table, static_cast<Bits*>(candidates));
      QUARRY_CUDA_CALL(cudaGetLastError());
      pick_kernel<<<1, kPickThreads, 0, stream>>>(count, width, ranks, state, table);
      QUARRY_CUDA_CALL(cudaGetLastError());
    }
  });
}

void selected_elements(DType dtype, const void* state, int64_t ranks, void* out, cudaStream_t stream) {
  with_width(dtype, [&]<class Bits>() {
    decode_kernel<Bits><<<1, static_cast<unsigned>(ranks), 0, stream>>>(
        static_cast<const State*>(state), keys::runtime_key<Bits>(dtype, /*ranked=*/false), static_cast<Bits*>(out));
  });
  QUARRY_CUDA_CALL(cudaGetLastError());
}

void place_by_keys(DType dtype, bool ranked, bool positions, const void* in, int64_t count, const void* state_memory,
                   int64_t ranks, void* place, void* out, cudaStream_t stream) {
  const auto* const state = static_cast<const State*>(state_memory);
  auto* const counts = static_cast<int64_t*>(place);
  const int64_t tiles = tiles_of(count);
  const auto blocks = static_cast<unsigned>(tiles);
  with_width(dtype, [&]<class Bits>() {
    const auto rule = keys::runtime_key<Bits>(dtype, ranked);
    const auto* const from = static_cast<const Bits*>(in);
    count_kernel<Bits><<<blocks, kPlaceThreads, 0, stream>>>(from, count, rule, state, counts);
    QUARRY_CUDA_CALL(cudaGetLastError());
    places_kernel<<<static_cast<unsigned>(classes_of(static_cast<int>(ranks))), kPickThreads, 0, stream>>>(
        state, counts, tiles);
    QUARRY_CUDA_CALL(cudaGetLastError());
    if (positions)
      place_kernel<Bits, int64_t>
          <<<blocks, kPlaceThreads, 0, stream>>>(from, count, rule, state, counts, static_cast<int64_t*>(out));
    else
      place_kernel<Bits, Bits>
          <<<blocks, kPlaceThreads, 0, stream>>>(from, count, rule, state, counts, static_cast<Bits*>(out));
    QUARRY_CUDA_CALL(cudaGetLastError());
  });
}

}  // namespace quarry::local::cuda
