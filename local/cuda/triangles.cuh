// Solves by a triangle of a few blocks of rows, in place: x of M x = b, for a lower triangle M and columns b. A block
// of threads has as many columns as a warp has lanes, a column each. Its warps deal the rows among them in groups of
// neighbours, and keep them in registers: the owner of the next group substitutes and tells its rows, and every warp
// subtracts their products from its rows below. M comes through shared memory, a block of columns while the one before
// is used.
//
// This is what products leave of larger triangles (triangles.h). It is LAPACK's substitution, and so is its error.
#pragma once

#include "quarry/local/cuda/arithmetic.cuh"
#include "quarry/local/cuda/kernel_memory.cuh"

namespace quarry::local::cuda {
namespace {

constexpr int kStages = 4;  // blocks of columns
constexpr int kTriangleWarps = 4;
constexpr int kTriangleThreads = kTriangleWarps * kLanes;
// Rows of a group.
template <class T>
inline constexpr int kGroupRows = sizeof(T) == 16 ? 4 : 8;
// Rows and columns of a block of M: a group of each warp.
template <class T>
inline constexpr int kBlockRows = kTriangleWarps* kGroupRows<T>;
template <class T>
inline constexpr int kTriangleRows = kStages* kBlockRows<T>;

// M(i, j) is at a[i down + j across], conjugated or not; row i of column c of b at b[i step + c next]. Any of them may
// be negative: an upper triangle is a lower one from its last row on.
template <class T>
struct TriangleTask {
  const T* a;
  int64_t down, across;
  bool conjugates, unit_diagonal;
  int rows;  // at most kTriangleRows<T>
  T* b;
  int64_t step, next, columns;
};

template <class T>
struct TriangleShared {
  static constexpr int kRows = kBlockRows<T>;
  static constexpr int kColumn = kRows + 16 / static_cast<int>(sizeof(T));  // between columns, which begin at 16 bytes
  static constexpr int kBlock = kRows * kColumn;
  // A block of columns from the diagonal on: of even stages and of odd ones, which begin with the second.
  T even[kStages * kBlock], odd[(kStages - 1) * kBlock];
  T solved[2][kGroupRows<T> * kLanes];  // of groups in turn
  T inverses[kRows];                    // of the diagonal
  int divides[kTriangleWarps];          // whether an element of a group's diagonal is too small to have an inverse
};

template <class T>
__device__ void fetch_stage(const TriangleTask<T>& task, int stage, T* to) {
  using Shared = TriangleShared<T>;
  constexpr int kRows = kBlockRows<T>, kStep = kTriangleThreads / kRows;
  const int first = stage * kRows, fast = static_cast<int>(threadIdx.x) % kRows;
  const int slow = static_cast<int>(threadIdx.x) / kRows;
  const bool is_by_columns = task.down == 1 || task.down == -1;
  for (int block = first; block < task.rows; block += kRows, to += Shared::kBlock) {
    for (int each = slow; each < kRows; each += kStep) {
      const int i = is_by_columns ? fast : each, j = is_by_columns ? each : fast;
      const int row = block + i, column = first + j;
      // Nothing is read above the diagonal, and what is not there only meets rows that are not there.
      if (row < task.rows && column <= row)
        copy_later(to + j * Shared::kColumn + i, task.a + row * task.down + column * task.across);
    }
  }
}

template <class T>
__device__ T conjugated_if(bool conjugates, T value) {
  return conjugates ? conjugated(value) : value;
}

// Of a column of M, what is read from shared memory at a time.
template <class T>
struct alignas(16) Piece {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  T values[kCount];
};
// A group's rows from row `first` on less so many elements of a column of M times x.
template <class T>
__device__ void subtract_column(T* values, const T* column, int first, T x, bool conjugates) {
  constexpr int kCount = Piece<T>::kCount;
  QUARRY_UNROLLED
  for (int at = 0; at < kGroupRows<T>; at += kCount) {
    if (at + kCount <= first) continue;
    const auto piece = *reinterpret_cast<const Piece<T>*>(column + at);
    QUARRY_UNROLLED
    for (int i = 0; i < kCount; ++i)
      if (at + i >= first)
        values[at + i] = minus_product(values[at + i], conjugated_if(conjugates, piece.values[i]), x);
  }
}

// What a warp's group of a stage needs of its diagonal: the triangle `m`, of so many rows.
template <class T>
__device__ void invert_diagonal(const TriangleTask<T>& task, const T* m, int rows, T* inverses, int& divides) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (lane == 0) divides = 0;
  __syncwarp();
  if (lane < kGroupRows<T>) {
    const T diagonal = conjugated_if(task.conjugates, m[lane * TriangleShared<T>::kColumn + lane]);
    const T inverse = task.unit_diagonal ? one<T>() : quotient(one<T>(), diagonal);
    inverses[lane] = inverse;
    if (lane < rows && !is_finite(inverse)) divides = 1;
  }
  __syncwarp();
}

// A group's rows by its triangle `m`, for all columns of a warp.
template <bool kDivides, class T>
__device__ void substitute(T* values, const T* m, const T* inverses, bool conjugates) {
  constexpr int kColumn = TriangleShared<T>::kColumn;
  QUARRY_UNROLLED
  for (int k = 0; k < kGroupRows<T>; ++k) {
    if constexpr (kDivides)
      values[k] = quotient(values[k], conjugated_if(conjugates, m[k * kColumn + k]));
    else
      values[k] = product(values[k], inverses[k]);
    subtract_column(values, m + k * kColumn, k + 1, values[k], conjugates);
  }
}

template <class T>
__global__ void __launch_bounds__(kTriangleThreads, 3) triangle_kernel(TriangleTask<T> task) {
  using Shared = TriangleShared<T>;
  constexpr int kRows = kBlockRows<T>, kGroup = kGroupRows<T>;
  QUARRY_LAUNCH_MEMORY(triangle_memory);
  auto& shared = *reinterpret_cast<Shared*>(triangle_memory);
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kLanes + lane;
  T* const b = task.b + column * task.next;
  // The warp's groups, one of every block of rows.
  const int first = warp * kGroup;
  const auto row_of = [first](int block, int i) { return block * kRows + first + i; };
  const auto is_there = [&](int row) { return row < task.rows && column < task.columns; };
  fetch_stage(task, 0, shared.even);
  T values[kStages][kGroup];
  QUARRY_UNROLLED
  for (int block = 0; block < kStages; ++block) {
    QUARRY_UNROLLED
    for (int i = 0; i < kGroup; ++i) {
      const int row = row_of(block, i);
      values[block][i] = is_there(row) ? b[row * task.step] : T{};
    }
  }

  // values[0] are those of the stage's block, for which the others move up: the loops are loops on the device too,
  // since a kernel that is run once waits for its instructions.
  QUARRY_ROLLED
  for (int stage = 0; stage * kRows < task.rows; ++stage) {
    const T* const m = stage % 2 == 0 ? shared.even : shared.odd;
    const T* const diagonal = m + first * Shared::kColumn + first;
    T* const inverses = shared.inverses + first;
    const auto solve = [&] {
      if (shared.divides[warp] != 0)
        substitute<true>(values[0], diagonal, inverses, task.conjugates);
      else
        substitute<false>(values[0], diagonal, inverses, task.conjugates);
      T* const solved = shared.solved[warp % 2];
      QUARRY_UNROLLED
      for (int i = 0; i < kGroup; ++i) solved[i * kLanes + lane] = values[0][i];
    };
    wait_for_copies();
    __syncthreads();
    invert_diagonal(task, diagonal, task.rows - row_of(stage, 0), inverses, shared.divides[warp]);
    if ((stage + 1) * kRows < task.rows) fetch_stage(task, stage + 1, stage % 2 == 0 ? shared.odd : shared.even);
    QUARRY_ROLLED
    for (int owner = 0; owner < kTriangleWarps; ++owner) {
      if (warp == owner) solve();
      __syncthreads();
      T x[kGroup];
      QUARRY_UNROLLED
      for (int k = 0; k < kGroup; ++k) x[k] = shared.solved[owner % 2][k * kLanes + lane];
      const T* const columns = m + owner * kGroup * Shared::kColumn + first;
      QUARRY_UNROLLED
      for (int block = 0; block < kStages; ++block) {
        if (block == 0 ? warp <= owner : (stage + block) * kRows >= task.rows) continue;
        QUARRY_UNROLLED
        for (int k = 0; k < kGroup; ++k)
          subtract_column(values[block], columns + block * Shared::kBlock + k * Shared::kColumn, 0, x[k],
                          task.conjugates);
      }
    }
    QUARRY_UNROLLED
    for (int i = 0; i < kGroup; ++i)
      if (is_there(row_of(stage, i))) b[row_of(stage, i) * task.step] = values[0][i];
    QUARRY_UNROLLED
    for (int block = 0; block + 1 < kStages; ++block) {
      QUARRY_UNROLLED
      for (int i = 0; i < kGroup; ++i) values[block][i] = values[block + 1][i];
    }
  }
}

}  // namespace
}  // namespace quarry::local::cuda
