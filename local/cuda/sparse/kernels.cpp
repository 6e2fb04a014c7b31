#include "quarry/local/cuda/sparse/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/plan.h"
#include "quarry/local/cuda/scanning.h"
#include "quarry/local/cuda/sorting/device.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/scanning.h"

namespace quarry::local::cuda {
namespace {

constexpr const char* kSearch = R"cuda(
namespace quarry::local::sparse {
struct Params { int64_t s[16]; };
// The row of element k, known to be in [low, high).
template <class I> QUARRY_FN int64_t row_of(const I* offsets, int64_t low, int64_t high, int64_t k) {
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (static_cast<int64_t>(offsets[middle]) <= k)
      low = middle;
    else
      high = middle;
  }
  return low;
}
)cuda";

// Compressed rows times a dense matrix. A group of 2^shift threads, each with kVec neighbouring columns, takes a row;
// one of more than kLong elements is summed by all threads of its block. Rows of more than kHuge are left to kernels of
// their own, which cut all elements into pieces: a block sums what a piece has of the one or two huge rows in it, and a
// second kernel adds the pieces. No atomics: the order of a sum depends on the offsets alone.
constexpr const char* kProducts = R"cuda(
constexpr int kThreads = 256;
constexpr int64_t kPiece = 32768, kHuge = 2 * kPiece;
QUARRY_FN float plus_product(float sum, float x, float y) { return math::fma(x, y, sum); }
QUARRY_FN double plus_product(double sum, double x, double y) { return math::fma(x, y, sum); }
template <class T> QUARRY_FN cx<T> plus_product(cx<T> sum, cx<T> x, cx<T> y) {
  return {math::fma(-x.im, y.im, math::fma(x.re, y.re, sum.re)), math::fma(x.im, y.re, math::fma(x.re, y.im, sum.im))};
}
QUARRY_FN float plus(float x, float y) { return x + y; }
QUARRY_FN double plus(double x, double y) { return x + y; }
template <class T> QUARRY_FN cx<T> plus(cx<T> x, cx<T> y) { return {x.re + y.re, x.im + y.im}; }
QUARRY_FN float nothing(float) { return 0; }
QUARRY_FN double nothing(double) { return 0; }
template <class T> QUARRY_FN cx<T> nothing(cx<T>) { return {static_cast<T>(0), static_cast<T>(0)}; }

template <class T, class I> struct Task {
  const T* values;
  const I* indices;
  const I* offsets;
  const T* b;
  T* c;
  T* pieces;  // two for each: of the row with its first element, and of the one with its last
  int64_t rows, nonzeros, columns, b_step, c_step;
  int shift;  // 2^shift lanes
  QUARRY_FN Task make(const Params& p) {
    return {reinterpret_cast<const T*>(p.s[0]), reinterpret_cast<const I*>(p.s[1]), reinterpret_cast<const I*>(p.s[2]),
            reinterpret_cast<const T*>(p.s[3]), reinterpret_cast<T*>(p.s[4]), reinterpret_cast<T*>(p.s[5]), p.s[6],
            p.s[7], p.s[8], p.s[9], p.s[10], static_cast<int>(p.s[11])};
  }
};
template <class T, int kVec> QUARRY_FN void load(const T* from, T (&to)[kVec]) {
  if constexpr (kVec == 1)
    to[0] = *from;
  else
    load_vector(reinterpret_cast<const char*>(from), to);
}
template <class T, int kVec> QUARRY_FN void store(T* to, const T (&from)[kVec]) {
  if constexpr (kVec == 1)
    *to = from[0];
  else
    store_vector(reinterpret_cast<char*>(to), from);
}
// sum = the terms begin, begin + step, ... < end of kVec columns from `column` on; none where there is no such column.
template <class T, class I, int kVec>
QUARRY_FN void add_terms(const Task<T, I>& t, int64_t column, int64_t begin, int64_t end, int step, T (&sum)[kVec]) {
  constexpr int kAhead = 5;  // a 5-point stencil in one go
#pragma unroll
  for (int v = 0; v < kVec; ++v) sum[v] = nothing(T());
  if (column >= t.columns) return;
  const T* const b = t.b + column;
  for (int64_t k = begin; k < end; k += kAhead * step) {
    T factors[kAhead], terms[kAhead][kVec];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int64_t place = k + a * step;
      if (place < end) {
        factors[a] = t.values[place];
        load<T, kVec>(b + static_cast<int64_t>(t.indices[place]) * t.b_step, terms[a]);
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (k + a * step < end) {
#pragma unroll
        for (int v = 0; v < kVec; ++v) sum[v] = plus_product(sum[v], factors[a], terms[a][v]);
      }
    }
  }
}
// The sum of all terms in [begin, end), by all threads of the block; those of the first group have it.
template <class T, class I, int kVec>
QUARRY_FN void add_in_block(const Task<T, I>& t, int64_t column, int64_t begin, int64_t end, T (&sum)[kVec]) {
  __shared__ T partial[kThreads][kVec];
  const int group = threadIdx.x >> t.shift, groups = kThreads >> t.shift;
  add_terms<T, I, kVec>(t, column, begin + group, end, groups, sum);
#pragma unroll
  for (int v = 0; v < kVec; ++v) partial[threadIdx.x][v] = sum[v];
  __syncthreads();
  for (int half = groups / 2; half > 0; half /= 2) {
    if (group < half) {
#pragma unroll
      for (int v = 0; v < kVec; ++v)
        partial[threadIdx.x][v] = plus(partial[threadIdx.x][v], partial[threadIdx.x + (half << t.shift)][v]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int v = 0; v < kVec; ++v) sum[v] = partial[threadIdx.x][v];
  __syncthreads();
}

// Columns by the grid's second axis. Those of a thread:
template <int kVec> QUARRY_FN int64_t first_column(int shift) {
  return ((static_cast<int64_t>(blockIdx.y) << shift) + (threadIdx.x & ((1 << shift) - 1))) * kVec;
}
template <int kVec> QUARRY_FN int64_t column_step(int shift) { return (static_cast<int64_t>(gridDim.y) << shift) * kVec; }

template <class T, class I, int kVec> QUARRY_FN void multiply(const Params& p) {
  __shared__ int64_t begins[kThreads], ends[kThreads];
  const Task<T, I> t = Task<T, I>::make(p);
  const int group = threadIdx.x >> t.shift, groups = kThreads >> t.shift, kLong = groups < 16 ? 128 : 8 * groups;
  const int64_t own_column = first_column<kVec>(t.shift);
  const int64_t tiles = (t.columns + (kVec << t.shift) - 1) / (kVec << t.shift);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < t.rows;
       first += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t row = first + group;
    int64_t begin = 0, end = 0;
    if (row < t.rows) {
      begin = static_cast<int64_t>(t.offsets[row]);
      end = static_cast<int64_t>(t.offsets[row + 1]);
    }
    const bool waits = end - begin > kLong && end - begin <= kHuge;
    const bool any = __syncthreads_or(waits) != 0;
    if (any) {
      begins[threadIdx.x] = begin;
      ends[threadIdx.x] = waits ? end : begin;
      __syncthreads();
    }
    int64_t column = own_column;
    for (int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y, column += column_step<kVec>(t.shift)) {
      T sum[kVec];
      if (row < t.rows && end - begin <= kLong) {
        add_terms<T, I, kVec>(t, column, begin, end, 1, sum);
        if (column < t.columns) store<T, kVec>(t.c + row * t.c_step + column, sum);
      }
      for (int other = 0; any && other < groups; ++other) {
        const int64_t from = begins[other << t.shift], to = ends[other << t.shift];
        if (from == to) continue;
        add_in_block<T, I, kVec>(t, column, from, to, sum);
        if (group == 0 && column < t.columns) store<T, kVec>(t.c + (first + other) * t.c_step + column, sum);
      }
    }
  }
}

template <class T, class I, int kVec> QUARRY_FN void sum_pieces(const Params& p) {
  const Task<T, I> t = Task<T, I>::make(p);
  const int group = threadIdx.x >> t.shift;
  const int64_t tiles = (t.columns + (kVec << t.shift) - 1) / (kVec << t.shift);
  const int64_t pieces = (t.nonzeros + kPiece - 1) / kPiece;
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int64_t first = piece * kPiece;
    const int64_t behind = first + kPiece < t.nonzeros ? first + kPiece : t.nonzeros;
    const int64_t rows[2] = {row_of(t.offsets, 0, t.rows, first), row_of(t.offsets, 0, t.rows, behind - 1)};
    for (int side = 0; side < (rows[0] == rows[1] ? 1 : 2); ++side) {
      const int64_t begin = static_cast<int64_t>(t.offsets[rows[side]]);
      const int64_t end = static_cast<int64_t>(t.offsets[rows[side] + 1]);
      if (end - begin <= kHuge) continue;
      int64_t column = first_column<kVec>(t.shift);
      for (int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y, column += column_step<kVec>(t.shift)) {
        T sum[kVec];
        add_in_block<T, I, kVec>(t, column, begin > first ? begin : first, end < behind ? end : behind, sum);
        if (group == 0 && column < t.columns) store<T, kVec>(t.pieces + (2 * piece + side) * t.columns + column, sum);
      }
    }
  }
}

// The block of the piece in which a huge row begins adds that row's.
template <class T, class I> QUARRY_FN void add_pieces(const Params& p) {
  const Task<T, I> t = Task<T, I>::make(p);
  const int64_t pieces = (t.nonzeros + kPiece - 1) / kPiece;
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int64_t first = piece * kPiece, behind = first + kPiece < t.nonzeros ? first + kPiece : t.nonzeros;
    const int64_t row = row_of(t.offsets, 0, t.rows, behind - 1);
    const int64_t begin = static_cast<int64_t>(t.offsets[row]), end = static_cast<int64_t>(t.offsets[row + 1]);
    if (end - begin <= kHuge || begin < first) continue;
    const int64_t last = (end - 1) / kPiece;
    for (int64_t column = threadIdx.x; column < t.columns; column += kThreads) {
      T sum = t.pieces[(2 * piece + (begin > first)) * t.columns + column];
      for (int64_t next = piece + 1; next <= last; ++next) sum = plus(sum, t.pieces[2 * next * t.columns + column]);
      t.c[row * t.c_step + column] = sum;
    }
  }
}
)cuda";

// Rows to columns: element k gets the key indices[k] and the number of its row, keys and positions are sorted, and the
// elements gathered. Where a column begins is found by bisection, within what a block has of the keys.
constexpr const char* kTransposes = R"cuda(
constexpr int kThreads = 256, kEach = 8, kTile = kThreads * kEach;
template <class I, class K, class P> QUARRY_FN void number(const Params& p) {
  __shared__ int64_t bounds[2];
  const I* const indices = reinterpret_cast<const I*>(p.s[0]);
  const I* const offsets = reinterpret_cast<const I*>(p.s[1]);
  K* const keys = reinterpret_cast<K*>(p.s[2]);
  P* const positions = reinterpret_cast<P*>(p.s[3]);
  I* const numbers = reinterpret_cast<I*>(p.s[4]);
  const int64_t rows = p.s[5], nonzeros = p.s[6];
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kTile; first < nonzeros;
       first += static_cast<int64_t>(gridDim.x) * kTile) {
    const int64_t behind = first + kTile < nonzeros ? first + kTile : nonzeros;
    if (threadIdx.x < 2) bounds[threadIdx.x] = row_of(offsets, 0, rows, threadIdx.x == 0 ? first : behind - 1);
    __syncthreads();
    int64_t low = bounds[0];
    const int64_t high = bounds[1] + 1;
    for (int64_t k = first + threadIdx.x; k < behind; k += kThreads) {
      low = row_of(offsets, low, high, k);
      keys[k] = static_cast<K>(indices[k]);
      positions[k] = static_cast<P>(k);
      numbers[k] = static_cast<I>(low);
    }
    __syncthreads();
  }
}
// The first place in [low, high) of a key that is not less.
template <class K> QUARRY_FN int64_t place_of(const K* keys, int64_t low, int64_t high, int64_t key) {
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (static_cast<int64_t>(keys[middle]) < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
template <class I, class K> QUARRY_FN void find(const Params& p) {
  __shared__ int64_t bounds[2];
  const K* const keys = reinterpret_cast<const K*>(p.s[0]);
  I* const offsets = reinterpret_cast<I*>(p.s[1]);
  const int64_t columns = p.s[2], nonzeros = p.s[3];  // as many offsets as columns, and one
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kTile; first <= columns;
       first += static_cast<int64_t>(gridDim.x) * kTile) {
    const int64_t last = first + kTile - 1 < columns ? first + kTile - 1 : columns;
    if (threadIdx.x < 2) bounds[threadIdx.x] = place_of(keys, 0, nonzeros, threadIdx.x == 0 ? first : last);
    __syncthreads();
    int64_t low = bounds[0];
    const int64_t high = bounds[1];
    for (int64_t column = first + threadIdx.x; column <= last; column += kThreads) {
      low = place_of(keys, low, high, column);
      offsets[column] = static_cast<I>(low);
    }
    __syncthreads();
  }
}
template <class W, class I, class P> QUARRY_FN void collect(const Params& p) {
  const W* const values = reinterpret_cast<const W*>(p.s[0]);
  const I* const numbers = reinterpret_cast<const I*>(p.s[1]);
  const P* const positions = reinterpret_cast<const P*>(p.s[2]);
  W* const out = reinterpret_cast<W*>(p.s[3]);
  I* const rows = reinterpret_cast<I*>(p.s[4]);
  const int64_t nonzeros = p.s[5];
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kTile; first < nonzeros;
       first += static_cast<int64_t>(gridDim.x) * kTile) {
    P from[kEach];
    W value[kEach];
    I row[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t k = first + e * kThreads + threadIdx.x;
      if (k < nonzeros) from[e] = positions[k];
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      if (first + e * kThreads + threadIdx.x < nonzeros) {
        value[e] = values[from[e]];
        row[e] = numbers[from[e]];
      }
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t k = first + e * kThreads + threadIdx.x;
      if (k < nonzeros) {
        out[k] = value[e];
        rows[k] = row[e];
      }
    }
  }
}
)cuda";

// The same for short columns: atomic counts of the columns' elements give every element a number in its column, in any
// order; prefix sums of the counts are where columns begin; elements' positions and rows are put there, and each
// column's are sorted by a thread, nearly sorted as they are.
constexpr const char* kCounting = R"cuda(
constexpr int kThreads = 256, kEach = 8, kTile = kThreads * kEach, kRoom = 3072;
constexpr uint32_t kShort = 64;  // elements of a column at most
// counts[column + 1] and the elements' numbers; a word is set where a column has too many.
template <class I> QUARRY_FN void count(const Params& p) {
  const I* const indices = reinterpret_cast<const I*>(p.s[0]);
  uint32_t* const counts = reinterpret_cast<uint32_t*>(p.s[1]);
  uint8_t* const numbers = reinterpret_cast<uint8_t*>(p.s[2]);
  const int64_t nonzeros = p.s[4];
  bool many = false;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kTile; first < nonzeros;
       first += static_cast<int64_t>(gridDim.x) * kTile) {
    I column[kEach];
    uint32_t number[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t k = first + e * kThreads + threadIdx.x;
      if (k < nonzeros) column[e] = indices[k];
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      if (first + e * kThreads + threadIdx.x < nonzeros) number[e] = atomicAdd(counts + column[e] + 1, 1u);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t k = first + e * kThreads + threadIdx.x;
      if (k < nonzeros) {
        numbers[k] = static_cast<uint8_t>(number[e]);
        many = many || number[e] >= kShort;
      }
    }
  }
  if (many) *reinterpret_cast<uint64_t*>(p.s[3]) = 1;
}
template <class I> QUARRY_FN void place(const Params& p) {
  __shared__ int64_t bounds[2];
  const I* const indices = reinterpret_cast<const I*>(p.s[0]);
  const I* const offsets = reinterpret_cast<const I*>(p.s[1]);
  const uint8_t* const numbers = reinterpret_cast<const uint8_t*>(p.s[2]);
  const I* const begins = reinterpret_cast<const I*>(p.s[3]);
  uint64_t* const pairs = reinterpret_cast<uint64_t*>(p.s[4]);
  const int64_t rows = p.s[5], nonzeros = p.s[6];
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kTile; first < nonzeros;
       first += static_cast<int64_t>(gridDim.x) * kTile) {
    const int64_t behind = first + kTile < nonzeros ? first + kTile : nonzeros;
    if (threadIdx.x < 2) bounds[threadIdx.x] = row_of(offsets, 0, rows, threadIdx.x == 0 ? first : behind - 1);
    int64_t to[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t k = first + e * kThreads + threadIdx.x;
      if (k < behind) to[e] = static_cast<int64_t>(begins[indices[k]]) + numbers[k];
    }
    __syncthreads();
    int64_t low = bounds[0];
    const int64_t high = bounds[1] + 1;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int64_t k = first + e * kThreads + threadIdx.x;
      if (k < behind) {
        low = row_of(offsets, low, high, k);
        pairs[to[e]] = static_cast<uint64_t>(k) << 32 | static_cast<uint64_t>(low);
      }
    }
    __syncthreads();
  }
}
template <class W, class I> QUARRY_FN void finish(const Params& p) {
  constexpr int kBatch = 4;
  __shared__ uint64_t list[kRoom];
  uint64_t* const pairs = reinterpret_cast<uint64_t*>(p.s[0]);
  const W* const values = reinterpret_cast<const W*>(p.s[1]);
  const I* const begins = reinterpret_cast<const I*>(p.s[2]);
  W* const out = reinterpret_cast<W*>(p.s[3]);
  I* const rows = reinterpret_cast<I*>(p.s[4]);
  const int64_t columns = p.s[5], each = p.s[6];  // at most one for a thread
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * each; first < columns;
       first += static_cast<int64_t>(gridDim.x) * each) {
    const int64_t behind = first + each < columns ? first + each : columns;
    const int64_t begin = static_cast<int64_t>(begins[first]);
    const int64_t count = static_cast<int64_t>(begins[behind]) - begin;
    uint64_t* const here = count <= kRoom ? list : pairs + begin;
    if (count <= kRoom)
      for (int64_t j = threadIdx.x; j < count; j += kThreads) list[j] = pairs[begin + j];
    __syncthreads();
    const int64_t column = first + threadIdx.x;
    if (column < behind) {
      uint64_t* const own = here + (static_cast<int64_t>(begins[column]) - begin);
      const int length = static_cast<int>(begins[column + 1] - begins[column]);
      for (int j = 1; j < length; ++j) {
        const uint64_t pair = own[j];
        int to = j;
        for (; to > 0 && own[to - 1] > pair; --to) own[to] = own[to - 1];
        own[to] = pair;
      }
    }
    __syncthreads();
    for (int64_t start = 0; start < count; start += kBatch * kThreads) {
      W value[kBatch];
      uint32_t row[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int64_t j = start + b * kThreads + threadIdx.x;
        if (j < count) {
          const uint64_t pair = here[j];
          value[b] = values[pair >> 32];
          row[b] = static_cast<uint32_t>(pair);
        }
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int64_t j = start + b * kThreads + threadIdx.x;
        if (j < count) {
          out[begin + j] = value[b];
          rows[begin + j] = static_cast<I>(row[b]);
        }
      }
    }
    __syncthreads();
  }
}
)cuda";

constexpr size_t kSlots = 16;  // of Params
constexpr int kThreads = 256;
constexpr int64_t kPiece = 32768, kHuge = 2 * kPiece;  // as the kernels have them
constexpr int64_t kTile = 2048;

const char* type_of(DType dtype) {
  if (dtype == DType::float32) return "float";
  if (dtype == DType::float64) return "double";
  return dtype == DType::complex64 ? "cx<float>" : "cx<double>";
}
const char* index_of(DType index) { return index == DType::int32 ? "int32_t" : "int64_t"; }
int wide_lanes(DType dtype) { return std::max(1, static_cast<int>(16 / itemsize(dtype))); }

// `blocks`: at least so many on a multiprocessor, where that costs no spills; 0 leaves it to the compiler.
void add_kernel(ModuleSource& source, const std::string& name, const std::string& call, int blocks = 0) {
  source.kernels.push_back(name);
  source.text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(256{}) {}(const __grid_constant__ Params p) {{ {}(p); }}\n",
      blocks > 0 ? fmt::format(", {}", blocks) : "", name, call);
}

void launch(const Module& module, size_t kernel, int64_t blocks, int64_t tiles, std::vector<int64_t> slots,
            CudaStream& stream) {
  constexpr int64_t kMostBlocks = int64_t{1} << 30, kMostTiles = 1 << 15;  // the kernels take more in turn
  slots.resize(kSlots);
  launch_kernel(module.kernel(kernel), std::clamp<int64_t>(blocks, 1, kMostBlocks), std::min(tiles, kMostTiles),
                kThreads, slots, stream);
}

// Whether accesses of 16 bytes suit both matrices.
bool is_wide(const SparseDenseProduct& p) {
  const int64_t size = itemsize(p.a.dtype);
  const auto fits = [size](const MatrixView& m) {
    return address(m.data) % 16 == 0 && m.row_stride * size % 16 == 0 && m.columns * size % 16 == 0;
  };
  return fits(p.b) && fits(p.c);
}

// False where some column is too long for it, and nothing is done but the offsets.
bool transpose_by_counts(const SparseTranspose& task, const ExecContext& context) {
  CudaStream& stream = cuda_stream(context.stream);
  const CompressedRows& a = task.a;
  const int64_t n = a.nonzeros, size = itemsize(a.dtype);
  const Module& module =
      module_cache().get(fmt::format("short_transposes {} {}", name(a.index), size), stream.device().index,
                         [index = a.index, size] { return short_transposes_source(index, size); });
  const int64_t count_bytes = (a.columns + 1) * static_cast<int64_t>(sizeof(uint32_t));
  const Scratch counts(count_bytes, context), numbers(n, context), many(sizeof(uint64_t), context);
  stream.fill(counts.data(), 0, count_bytes);
  stream.fill(many.data(), 0, sizeof(uint64_t));
  launch(module, 0, ceil_divide(n, kTile), /*tiles=*/1,
         {address(a.indices), address(counts.data()), address(numbers.data()), address(many.data()), n}, stream);
  const ScanLaunch sums{"add"_op,   a.index,      Dims{a.columns + 1},
                        /*axis=*/0, DType::int32, {counts.data(), Dims{4}}, {task.offsets, Dims{itemsize(a.index)}}};
  cuda_scanning().scan(sums, context);
  if (stream.read_word(many.data()) != 0) return false;
  const Scratch pairs(n * static_cast<int64_t>(sizeof(uint64_t)), context);
  launch(module, 1, ceil_divide(n, kTile), /*tiles=*/1,
         {address(a.indices), address(a.offsets), address(numbers.data()), address(task.offsets), address(pairs.data()),
          a.rows, n},
         stream);
  constexpr int64_t kMany = 2048;  // elements for a block, if columns are alike
  const int64_t each = std::clamp<int64_t>(kMany * a.columns / n, 1, kThreads);
  launch(module, 2, ceil_divide(a.columns, each), /*tiles=*/1,
         {address(pairs.data()), address(a.values), address(task.offsets), address(task.values), address(task.indices),
          a.columns, each},
         stream);
  return true;
}

template <class Key, class Position>
void transpose_with(const SparseTranspose& task, const ExecContext& context) {
  CudaStream& stream = cuda_stream(context.stream);
  const CompressedRows& a = task.a;
  const int64_t n = a.nonzeros;
  const RowTransposes kernels{a.index, itemsize(a.dtype), sizeof(Key) == 8, sizeof(Position) == 8};
  const Module& module = module_cache().get(
      fmt::format("row_transposes {} {} {}{}", name(a.index), kernels.itemsize, sizeof(Key), sizeof(Position)),
      stream.device().index, [=] { return row_transposes_source(kernels); });
  const Scratch first_keys(n * static_cast<int64_t>(sizeof(Key)), context),
      first_positions(n * static_cast<int64_t>(sizeof(Position)), context),
      second_positions(n * static_cast<int64_t>(sizeof(Position)), context), numbers(n * itemsize(a.index), context);
  // Keys are not needed any more when the row numbers are written.
  const bool lends = itemsize(a.index) == static_cast<int64_t>(sizeof(Key));
  const Scratch second_keys(lends ? 0 : n * static_cast<int64_t>(sizeof(Key)), context);
  Buffers<Key> keys{reinterpret_cast<Key*>(first_keys.data()),
                    lends ? static_cast<Key*>(task.indices) : reinterpret_cast<Key*>(second_keys.data())};
  Buffers<Position> positions{reinterpret_cast<Position*>(first_positions.data()),
                              reinterpret_cast<Position*>(second_positions.data())};
  launch(module, 0, ceil_divide(n, kTile), /*tiles=*/1,
         {address(a.indices), address(a.offsets), address(keys.current), address(positions.current),
          address(numbers.data()), a.rows, n},
         stream);
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(a.columns - 1))));
  size_t bytes = 0;
  radix_sort_pairs<Key, Position>(nullptr, bytes, keys, positions, n, bits, stream.handle());
  const Scratch temporary(static_cast<int64_t>(bytes), context);
  radix_sort_pairs<Key, Position>(temporary.data(), bytes, keys, positions, n, bits, stream.handle());
  launch(module, 1, ceil_divide(a.columns + 1, kTile), /*tiles=*/1,
         {address(keys.current), address(task.offsets), a.columns, n}, stream);
  launch(module, 2, ceil_divide(n, kTile), /*tiles=*/1,
         {address(a.values), address(numbers.data()), address(positions.current), address(task.values),
          address(task.indices), n},
         stream);
}

}  // namespace

ModuleSource row_products_source(const RowProducts& kernels) {
  ModuleSource source{std::string(kSearch) + kProducts};
  const std::string types = fmt::format("{}, {}", type_of(kernels.dtype), index_of(kernels.index));
  for (const int lanes : {1, wide_lanes(kernels.dtype)}) {
    const std::string suffix = lanes == 1 && source.kernels.empty() ? "one" : "wide";
    add_kernel(source, "multiply_" + suffix, fmt::format("multiply<{}, {}>", types, lanes),
               /*blocks=*/kernels.dtype == DType::complex128 ? 0 : 4);
    add_kernel(source, "sum_pieces_" + suffix, fmt::format("sum_pieces<{}, {}>", types, lanes));
  }
  add_kernel(source, "add_up_pieces", fmt::format("add_pieces<{}>", types));
  source.text += "}\n";
  return source;
}

ModuleSource row_transposes_source(const RowTransposes& kernels) {
  ModuleSource source{std::string(kSearch) + kTransposes};
  const char* const index = index_of(kernels.index);
  const char* const key = kernels.wide_keys ? "uint64_t" : "uint32_t";
  const char* const position = kernels.wide_positions ? "uint64_t" : "uint32_t";
  add_kernel(source, "number_elements", fmt::format("number<{}, {}, {}>", index, key, position));
  add_kernel(source, "find_columns", fmt::format("find<{}, {}>", index, key));
  add_kernel(source, "collect_elements",
             fmt::format("collect<word<{}>::type, {}, {}>", kernels.itemsize, index, position));
  source.text += "}\n";
  return source;
}

ModuleSource short_transposes_source(DType index, int64_t itemsize) {
  ModuleSource source{std::string(kSearch) + kCounting};
  add_kernel(source, "count_elements", fmt::format("count<{}>", index_of(index)));
  add_kernel(source, "place_elements", fmt::format("place<{}>", index_of(index)));
  add_kernel(source, "finish_columns", fmt::format("finish<word<{}>::type, {}>", itemsize, index_of(index)));
  source.text += "}\n";
  return source;
}

void multiply_rows(const SparseDenseProduct& p, const ExecContext& context) {
  CudaStream& stream = cuda_stream(context.stream);
  const CompressedRows& a = p.a;
  const RowProducts kernels{a.dtype, a.index};
  const Module& module = module_cache().get(fmt::format("row_products {} {}", name(a.dtype), name(a.index)),
                                            stream.device().index, [=] { return row_products_source(kernels); });
  const bool wide = is_wide(p);
  const int64_t each = wide ? wide_lanes(a.dtype) : 1;
  const int shift =
      std::bit_width(static_cast<uint64_t>(std::clamp<int64_t>(ceil_divide(p.c.columns, each), 1, 32) - 1));
  const int64_t tiles = ceil_divide(p.c.columns, each << shift);
  const int64_t pieces = a.nonzeros > kHuge ? ceil_divide(a.nonzeros, kPiece) : 0;
  const Scratch sums(2 * pieces * p.c.columns * itemsize(a.dtype), context);
  const std::vector<int64_t> slots = {address(a.values),
                                      address(a.indices),
                                      address(a.offsets),
                                      address(p.b.data),
                                      address(p.c.data),
                                      address(sums.data()),
                                      a.rows,
                                      a.nonzeros,
                                      p.c.columns,
                                      p.b.row_stride,
                                      p.c.row_stride,
                                      shift};
  const size_t first = wide ? 2 : 0;
  launch(module, first, ceil_divide(a.rows, kThreads >> shift), tiles, slots, stream);
  if (pieces == 0) return;
  launch(module, first + 1, pieces, tiles, slots, stream);
  launch(module, 4, pieces, /*tiles=*/1, slots, stream);
}

void transpose_rows(const SparseTranspose& task, const ExecContext& context) {
  constexpr int64_t kShort = int64_t{1} << 32;
  if (std::max({task.a.rows, task.a.columns, task.a.nonzeros}) < kShort && transpose_by_counts(task, context)) return;
  const bool wide_keys = task.a.columns > kShort, wide_positions = task.a.nonzeros > kShort;
  if (wide_keys && wide_positions) return transpose_with<uint64_t, uint64_t>(task, context);
  if (wide_keys) return transpose_with<uint64_t, uint32_t>(task, context);
  if (wide_positions) return transpose_with<uint32_t, uint64_t>(task, context);
  transpose_with<uint32_t, uint32_t>(task, context);
}

}  // namespace quarry::local::cuda
