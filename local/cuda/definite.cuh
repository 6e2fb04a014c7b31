// One strip of columns of Cholesky's decomposition, with all rows below its diagonal: V of V V^H for a matrix of which
// the lower triangle is read. A thread has a row in registers. The first threads of every block have the rows of the
// diagonal, so that each block decomposes those again and no block waits for another; the other threads have rows
// below. The columns go by groups: every thread decomposes the group's piece of the diagonal, which all have in shared
// memory, solves by it for its own row, and subtracts products from the columns behind.
//
// This is what products leave of larger matrices (definite.h).
#pragma once

#include "quarry/local/cuda/arithmetic.cuh"
#include "quarry/local/cuda/kernel_memory.cuh"

namespace quarry::local::cuda {
namespace {

constexpr int kDefiniteThreads = 128;
constexpr int kDefiniteGroups = 8;
// Columns of a group.
template <class T>
inline constexpr int kDefiniteGroup = sizeof(T) == 16 ? 4 : 8;
// Columns of a strip, and rows of its diagonal.
template <class T>
inline constexpr int kDefiniteColumns = kDefiniteGroups* kDefiniteGroup<T>;
// Rows of a block below the diagonal.
template <class T>
inline constexpr int kDefiniteRows = kDefiniteThreads - kDefiniteColumns<T>;

// Element (i, j) is at a[i down + j across].
template <class T>
struct DefiniteStrip {
  T* a;
  int64_t down, across;
  int64_t rows;     // from the strip's first one on
  int columns;      // at most kDefiniteColumns<T>
  int64_t first;    // column, of the whole matrix, for info
  int32_t* info;    // as LAPACK's potrf leaves it; 0 before the first strip
  int32_t* blocks;  // that have read the diagonal; 0 before
};

template <class T>
struct DefiniteShared {
  static constexpr int kLine = kDefiniteColumns<T> + 16 / static_cast<int>(sizeof(T));
  static constexpr int kGroup = kDefiniteGroup<T>;
  T rows[kDefiniteThreads * kLine];        // of the threads: as they were read, then as they are written
  T solved[kDefiniteColumns<T> * kGroup];  // the group's columns of the diagonal's rows
  T diagonal[kGroup * kGroup];             // the group's piece of it, before it is decomposed
  int is_last;                             // block that has read the diagonal
};

// f(thread, column, element) for all elements of a block's rows, neighbours in memory by neighbouring threads;
// `element` is null for those that are not there or not read.
template <class T, class F>
__device__ void for_rows(const DefiniteStrip<T>& task, const F& f) {
  constexpr int kColumns = kDefiniteColumns<T>, kThreads = kDefiniteThreads;
  const bool is_by_columns = task.down == 1;
  QUARRY_ROLLED
  for (int step = 0; step < kColumns; ++step) {
    const int at = static_cast<int>(threadIdx.x) + step * kThreads;
    const int thread = is_by_columns ? at % kThreads : at / kColumns;
    const int column = is_by_columns ? at / kThreads : at % kColumns;
    const bool is_diagonal = thread < kColumns;
    const int64_t row =
        is_diagonal ? thread : task.columns + static_cast<int64_t>(blockIdx.x) * kDefiniteRows<T> + thread - kColumns;
    const bool is_there = column < task.columns && (is_diagonal ? thread < task.columns : row < task.rows);
    const bool is_read = is_there && (!is_diagonal || column <= thread);
    f(thread, column, is_read ? task.a + row * task.down + column * task.across : nullptr);
  }
}

template <class T>
__global__ void __launch_bounds__(kDefiniteThreads) definite_kernel(DefiniteStrip<T> task) {
  using Shared = DefiniteShared<T>;
  constexpr int kColumns = kDefiniteColumns<T>, kGroup = kDefiniteGroup<T>;
  QUARRY_LAUNCH_MEMORY(definite_memory);
  auto& shared = *reinterpret_cast<Shared*>(definite_memory);
  const int thread = static_cast<int>(threadIdx.x);
  // Columns that are not there are those of the identity.
  for_rows(task, [&](int row, int column, const T* element) {
    T& to = shared.rows[row * Shared::kLine + column];
    if (element != nullptr)
      copy_later(&to, element);
    else
      to = row == column && column >= task.columns ? one<T>() : T{};
  });
  wait_for_copies();
  __syncthreads();
  if (thread == 0) shared.is_last = atomicAdd(task.blocks, 1) == static_cast<int>(gridDim.x) - 1 ? 1 : 0;
  T* const own = shared.rows + thread * Shared::kLine;
  T values[kColumns];
  QUARRY_UNROLLED
  for (int k = 0; k < kColumns; ++k) values[k] = own[k];

  // values[0] is of the group's first column, for which the others move up: the loop is a loop on the device too.
  int failed = kColumns;
  QUARRY_ROLLED
  for (int begin = 0; begin < task.columns; begin += kGroup) {
    if (thread >= begin && thread < begin + kGroup) {
      QUARRY_UNROLLED
      for (int k = 0; k < kGroup; ++k) shared.diagonal[(thread - begin) * kGroup + k] = values[k];
    }
    __syncthreads();
    T l[kGroup][kGroup], x[kGroup];
    QUARRY_UNROLLED
    for (int j = 0; j < kGroup; ++j) {
      x[j] = values[j];
      QUARRY_UNROLLED
      for (int k = 0; k <= j; ++k) l[j][k] = shared.diagonal[j * kGroup + k];
    }
    QUARRY_UNROLLED
    for (int k = 0; k < kGroup; ++k) {
      const Real<T> pivot = real_part(l[k][k]), inverse = inverse_root(pivot);
      if (!(pivot > 0)) failed = min(failed, begin + k);
      x[k] = scaled(x[k], inverse);
      QUARRY_UNROLLED
      for (int j = k + 1; j < kGroup; ++j) l[j][k] = scaled(l[j][k], inverse);
      QUARRY_UNROLLED
      for (int j = k + 1; j < kGroup; ++j) {
        const T factor = conjugated(l[j][k]);
        x[j] = minus_product(x[j], x[k], factor);
        QUARRY_UNROLLED
        for (int i = j; i < kGroup; ++i) l[i][j] = minus_product(l[i][j], l[i][k], factor);
      }
    }
    QUARRY_UNROLLED
    for (int k = 0; k < kGroup; ++k) {
      own[begin + k] = x[k];
      if (thread < kColumns) shared.solved[thread * kGroup + k] = x[k];
    }
    __syncthreads();
    QUARRY_UNROLLED
    for (int group = kGroup; group < kColumns; group += kGroup) {
      if (begin + group >= kColumns) continue;
      QUARRY_UNROLLED
      for (int k = group; k < group + kGroup; ++k) {
        T value = values[k];
        QUARRY_UNROLLED
        for (int j = 0; j < kGroup; ++j)
          value = minus_product(value, x[j], conjugated(shared.solved[(begin + k) * kGroup + j]));
        values[k - kGroup] = value;
      }
    }
  }

  __syncthreads();
  const bool writes_diagonal = shared.is_last != 0;
  if (writes_diagonal && thread == 0 && failed < task.columns)
    atomicCAS(task.info, 0, static_cast<int32_t>(task.first + failed + 1));
  for_rows(task, [&](int row, int column, T* element) {
    if (element == nullptr || (row < kColumns && !writes_diagonal)) return;
    const T value = shared.rows[row * Shared::kLine + column];
    *element = row == column ? of_real<T>(real_part(value)) : value;
  });
}

}  // namespace
}  // namespace quarry::local::cuda
