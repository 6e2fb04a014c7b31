// A strip is decomposed by one cooperative kernel. Thread i keeps row i in registers. For every column each block finds
// its largest element and publishes it with its row; every block looks at what all blocks have published, so that all
// agree on the pivot without an atomic operation and with one wait. Who has the pivot's row takes the diagonal's row,
// and the other way round: rows carry the number of where they came from, and at the end those that moved are a list,
// by which another kernel exchanges them in the other columns.
//
// A column costs about three latencies of the device's second-level cache; the elements are read and written once.
#include <algorithm>
#include <type_traits>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/arithmetic.cuh"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/multiprocessors.h"
#include "quarry/local/cuda/tall_lu.h"

namespace quarry::local::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 256;  // whose words the threads of one block look at, and one thread at the diagonal's
constexpr int kWarp = 32, kWarps = kThreads / kWarp;

// 256 bytes of registers.
template <class T>
inline constexpr int kWidth = sizeof(T) == 16 ? 16 : 32;

// What a block publishes of a column, and who has the diagonal's row of it: words of half data and half the number of
// the column, counted through all strips from 1. A word is written and read as a whole, so who finds the number has the
// data, without a fence (as NCCL's protocol for short messages).
template <class T>
inline constexpr int kRowWords = kWidth<T>* static_cast<int>(sizeof(T)) / 4;
constexpr int kHeadWords = 4;  // the halves of a candidate; the row's number in the strip; where it came from
template <class T>
struct Message {
  uint2 words[kHeadWords + kRowWords<T>];
};
template <class T>
struct Shared {
  Message<T> messages[2][kMostBlocks + 1];  // of columns in turn
};
struct Moves {
  int32_t count;
  int32_t to[64], from[64];  // rows of the strip
};

// An element that may be the pivot: its magnitude as a number that grows with it, in two halves, and its row. The
// largest is wanted; of equals the one whose row comes first, as LAPACK's search finds it.
struct Candidate {
  uint32_t high = 0, low = 0;  // 0: none
  int32_t number = INT32_MAX;
};
__device__ inline Candidate candidate(double magnitude, int32_t number) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(magnitude)) + 1;
  return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits), number};
}
__device__ inline Candidate candidate(float magnitude, int32_t number) {
  return {__float_as_uint(magnitude) + 1, 0, number};
}
__device__ inline bool is_better(const Candidate& a, const Candidate& b) {
  if (a.high != b.high) return a.high > b.high;
  if (a.low != b.low) return a.low > b.low;
  return a.number < b.number;
}
// The best of a warp, for all of it.
__device__ inline Candidate best_of_warp(Candidate one) {
  const uint32_t high = __reduce_max_sync(~0u, one.high);
  const uint32_t low = __reduce_max_sync(~0u, one.high == high ? one.low : 0);
  const bool is_largest = one.high == high && one.low == low;
  return {high, low, __reduce_min_sync(~0u, is_largest ? one.number : INT32_MAX)};
}

// Two words at a time.
__device__ inline void write_words(uint2* to, uint32_t first, uint32_t second, uint32_t turn) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %3, %2, %3};" ::"l"(to), "r"(first), "r"(second), "r"(turn)
               : "memory");
}
__device__ inline bool read_words(const uint2* from, uint32_t turn, uint32_t& first, uint32_t& second) {
  uint32_t first_turn, second_turn;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(first), "=r"(first_turn), "=r"(second), "=r"(second_turn)
               : "l"(from)
               : "memory");
  return first_turn == turn && second_turn == turn;
}

template <class T>
union Row {
  T values[kWidth<T>];
  uint32_t words[kRowWords<T>];
};

template <class T>
__device__ inline void publish(Message<T>& message, const T (&row)[kWidth<T>], const Candidate& own, int32_t origin,
                               uint32_t turn) {
  write_words(message.words, own.high, own.low, turn);
  write_words(message.words + 2, static_cast<uint32_t>(own.number), static_cast<uint32_t>(origin), turn);
  Row<T> all;
#pragma unroll
  for (int j = 0; j < kWidth<T>; ++j) all.values[j] = row[j];
#pragma unroll
  for (int j = 0; j < kRowWords<T>; j += 2)
    write_words(message.words + kHeadWords + j, all.words[j], all.words[j + 1], turn);
}

struct Head {
  Candidate candidate;
  int32_t origin = 0;
};
template <class T>
__device__ inline Head wait_for_head(const Message<T>& message, uint32_t turn) {
  Head head;
  uint32_t number = 0, origin = 0;
  bool is_there = false;
  while (!is_there) {
    is_there = read_words(message.words, turn, head.candidate.high, head.candidate.low);
    is_there &= read_words(message.words + 2, turn, number, origin);
  }
  head.candidate.number = static_cast<int32_t>(number);
  head.origin = static_cast<int32_t>(origin);
  return head;
}
// By one warp.
template <class T>
__device__ inline void wait_for_row(const Message<T>& message, Row<T>& row, uint32_t turn) {
  const int j = 2 * static_cast<int>(threadIdx.x % kWarp);
  if (j >= kRowWords<T>) return;
  while (!read_words(message.words + kHeadWords + j, turn, row.words[j], row.words[j + 1])) {
  }
}
static_assert(kRowWords<double> == 2 * kWarp && kRowWords<float> < 2 * kWarp);

template <class T>
__global__ void __launch_bounds__(kThreads)
    strip_kernel(T* a, int64_t distance, int rows, int width, int64_t first, int64_t* pivots, int32_t* info,
                 Shared<T>* shared, Moves* moves) {
  constexpr int W = kWidth<T>;
  __shared__ Candidate of_warps[kWarps];
  __shared__ Row<T> pivot, diagonal;
  __shared__ int32_t pivot_number, pivot_origin;
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const int number = block * kThreads + thread, blocks = static_cast<int>(gridDim.x), count = min(rows, width);
  int32_t origin = number;
  T row[W];
#pragma unroll
  for (int j = 0; j < W; ++j) row[j] = j < width && number < rows ? a[number + j * distance] : T{};

#pragma unroll
  for (int k = 0; k < W; ++k) {
    if (k >= count) break;
    const auto turn = static_cast<uint32_t>(first + k + 1);
    Message<T>* const messages = shared->messages[turn % 2];
    // Below the diagonal NaN is not looked for; on it, it stays, as in LAPACK's search, and so in the result.
    Candidate own;
    if (number >= k && number < rows) {
      const Real<T> magnitude = magnitude_of(row[k]);
      if (!isnan(magnitude)) own = candidate(magnitude, number);
      if (isnan(magnitude) && number == k) own = candidate(Real<T>(INFINITY), number);
    }
    Candidate best = best_of_warp(own);
    if (thread % kWarp == 0) of_warps[thread / kWarp] = best;
    __syncthreads();
    best = best_of_warp(of_warps[thread % kWarps]);
    // A block that has none says so by its first thread.
    if (number == (best.number == INT32_MAX ? block * kThreads : best.number))
      publish(messages[block], row, best, origin, turn);
    if (number == k) publish(messages[kMostBlocks], row, own, origin, turn);

    // The first warp looks for the pivot, the second one reads the diagonal's row.
    if (thread < kWarp) {
      Head head;
      for (int other = thread; other < blocks; other += kWarp) {
        const Head found = wait_for_head(messages[other], turn);
        if (is_better(found.candidate, head.candidate)) head = found;
      }
      best = best_of_warp(head.candidate);
      if (head.candidate.number == best.number) {
        pivot_number = best.number;
        pivot_origin = head.origin;
      }
      wait_for_row(messages[best.number / kThreads], pivot, turn);
    } else if (thread < 2 * kWarp) {
      wait_for_row(messages[kMostBlocks], diagonal, turn);
    }
    __syncthreads();

    if (number == k) {
#pragma unroll
      for (int j = 0; j < W; ++j) row[j] = pivot.values[j];
      origin = pivot_origin;
      pivots[k] = first + pivot_number + 1;
      if (is_zero(row[k])) atomicCAS(info, 0, static_cast<int32_t>(first + k + 1));
    } else if (number == pivot_number) {
#pragma unroll
      for (int j = 0; j < W; ++j) row[j] = diagonal.values[j];
      origin = wait_for_head(messages[kMostBlocks], turn).origin;
    }
    if (number > k && number < rows) {
      if (!is_zero(pivot.values[k])) row[k] = quotient(row[k], pivot.values[k]);
#pragma unroll
      for (int j = k + 1; j < W; ++j) row[j] = minus_product(row[j], row[k], pivot.values[j]);
    }
    // What is shared is written again only behind the next column's first barrier.
  }

  if (number >= rows) return;
#pragma unroll
  for (int j = 0; j < W; ++j)
    if (j < width) a[number + j * distance] = row[j];
  if (origin != number) {
    const int at = atomicAdd(&moves->count, 1);
    moves->to[at] = number;
    moves->from[at] = origin;
  }
}

// The rows that moved, in the columns beside the strip.
constexpr int kColumnsOfBlock = 8;
template <class T>
__global__ void move_kernel(T* a, int64_t distance, int64_t columns, int64_t begin, int64_t width, const Moves* moves) {
  int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnsOfBlock + threadIdx.y;
  if (column >= begin) column += width;
  const bool moves_row = column < columns && threadIdx.x < moves->count;
  T* const at = a + column * distance;
  T value{};
  if (moves_row) value = at[moves->from[threadIdx.x]];
  __syncthreads();
  if (moves_row) at[moves->to[threadIdx.x]] = value;
}

int64_t strips_of(DType dtype, int64_t columns) { return (columns + strip_width(dtype) - 1) / strip_width(dtype); }

template <class T>
void factor(T* a, int64_t rows, int64_t columns, int64_t distance, int64_t strip, int64_t* pivots, int32_t* info,
            void* scratch, cudaStream_t stream) {
  auto* shared = static_cast<Shared<T>*>(scratch);
  Moves* moves = reinterpret_cast<Moves*>(shared + 1) + strip;
  int64_t first = strip * kWidth<T>;
  const int64_t width = std::min<int64_t>(kWidth<T>, columns - first), below = rows - first;
  T* top = a + first;               // of all columns
  T* own = top + first * distance;  // of the strip
  int64_t* own_pivots = pivots + first;
  auto strip_rows = static_cast<int>(below), strip_columns = static_cast<int>(width);
  void* arguments[] = {&own, &distance, &strip_rows, &strip_columns, &first, &own_pivots, &info, &shared, &moves};
  const auto blocks = static_cast<unsigned>((below + kThreads - 1) / kThreads);
  check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(strip_kernel<T>), dim3(blocks), dim3(kThreads),
                                    arguments, /*sharedMem=*/0, stream),
        "the LU of a strip");
  const int64_t others = columns - width;
  if (others == 0) return;
  const dim3 threads(2 * static_cast<unsigned>(kWidth<T>), kColumnsOfBlock);
  const auto groups = static_cast<unsigned>((others + kColumnsOfBlock - 1) / kColumnsOfBlock);
  move_kernel<T><<<groups, threads, 0, stream>>>(top, distance, columns, first, width, moves);
  check(cudaGetLastError(), "exchanging rows");
}

// Blocks of the kernel that are on the device at a time.
template <class T>
int64_t most_blocks() {
  static const int64_t each = [] {
    int device = 0, cooperates = 0, blocks = 0;
    QUARRY_CUDA_CALL(cudaGetDevice(&device));
    QUARRY_CUDA_CALL(cudaDeviceGetAttribute(&cooperates, cudaDevAttrCooperativeLaunch, device));
    if (cooperates == 0) return 0;
    QUARRY_CUDA_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, strip_kernel<T>, kThreads, 0));
    return blocks;
  }();
  return std::min<int64_t>(each * multiprocessor_count(), kMostBlocks);
}

}  // namespace

int64_t strip_width(DType dtype) {
  return with_number(dtype, []<class T>(T) { return int64_t{kWidth<T>}; });
}

// With 1024 columns on an H200: 5.3 ms of 32768 rows (cuSOLVER 7.2), 3.9 of 16384 (5.0), 3.0 of 4096 (3.4), but also
// 3.0 of 1024 (2.3).
bool is_tall_lu(DType dtype, int64_t rows, int64_t columns) {
  constexpr int64_t kLeastColumns = 64, kMostColumns = 2048, kLeastRows = 2048;
  if (columns < kLeastColumns || columns > kMostColumns || rows < std::max(kLeastRows, 2 * columns)) return false;
  return with_number(dtype, [rows]<class T>(T) { return (rows + kThreads - 1) / kThreads <= most_blocks<T>(); });
}

int64_t tall_lu_scratch_bytes(DType dtype, int64_t columns) {
  const auto words = with_number(dtype, []<class T>(T) { return sizeof(Shared<T>); });
  return static_cast<int64_t>(words) + strips_of(dtype, columns) * static_cast<int64_t>(sizeof(Moves));
}

void factor_strip(DType dtype, void* a, int64_t rows, int64_t columns, int64_t distance, int64_t strip, int64_t* pivots,
                  int32_t* info, void* scratch, cudaStream_t stream) {
  with_number(dtype, [&]<class T>(T) {
    factor(static_cast<T*>(a), rows, columns, distance, strip, pivots, info, scratch, stream);
  });
}

}  // namespace quarry::local::cuda
