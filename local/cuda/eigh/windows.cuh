// The transformation by the chase's reflectors. Those of step k of kBand sweeps from kBand g on touch a window: the
// 2 kBand rows from kBand (g + k) on. They become one matrix of it, and windows are multiplied where they lie: a block
// has a strip of columns, takes group after group of sweeps, the last one first, and goes down the rows step by step.
// A window's lower half is the upper one of the next, so that it stays in shared memory; each element is read and
// written once for each group. No block waits for another.
#pragma once

#include "quarry/local/cuda/eigh/kernels.cuh"

namespace quarry::local::cuda {
namespace {

constexpr int kWindow = 2 * kBand;  // rows
constexpr int kWindowElements = kWindow * kWindow;

// ---- Products of tensor cores: 16 x 8 from 16 x 16 and 16 x 8 ----

// A warp's part of each: lane l has of the first matrix rows l / 4 and l / 4 + 8, columns 4 (l % 4) ... + 3, in pairs
// of rows; of the second one those rows of column l / 4; of the product rows l / 4 and l / 4 + 8 of columns 2 (l % 4)
// and the next. (The sums' order is free, and this one makes neighbours in memory neighbours in a lane.)
constexpr int kTileRows = 16, kTileColumns = 8, kTileSums = 16;
#ifdef __CUDACC__
__device__ inline void add_product(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
      "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
        "d"(b[2]), "d"(b[3]));
}
#endif

// Where an element of a window's matrix lies: as lanes take it, 16 bytes at a time.
__device__ inline int place_in_window(int row, int column) {
  const int tile = row / kTileRows * (kWindow / kTileSums) + column / kTileSums;
  const int r = row % kTileRows, c = column % kTileSums, lane = r % 8 * 4 + c / 4;
  return ((tile * 4 + c % 4) * kLanes + lane) * 2 + r / 8;
}

// ---- A window's matrix ----

constexpr int kWindowColumn = kWindow + 1;  // between columns of two blocks' height in shared memory

struct WindowShared {
  double v[kBand * kWindowColumn], vt[kBand * kWindowColumn];
  double products[kBand * kSquare], t[kBand * kSquare], tau[kBand];
};

// I - V t V^T for each window: blocks are steps and groups from first_group on, whose matrices are most_steps apart.
// `vectors` and tau as a chase leaves them.
__global__ void __launch_bounds__(kThreads)
    window_kernel(const double* vectors, int64_t distance, int n, const double* tau, int first_group, int most_steps,
                  double* windows) {
  QUARRY_LAUNCH_MEMORY(window_memory);
  auto& shared = *reinterpret_cast<WindowShared*>(window_memory);
  const int thread = static_cast<int>(threadIdx.x), k = static_cast<int>(blockIdx.x);
  const int sweep0 = (first_group + static_cast<int>(blockIdx.y)) * kBand, row0 = sweep0 + k * kBand;
  double* const window = windows + (static_cast<int64_t>(blockIdx.y) * most_steps + k) * kWindowElements;
  if (row0 + 1 >= n) return;  // has no reflectors

  // Neighbours in a row of `vectors` are sweeps.
  for (int at = thread; at < kWindow * kBand; at += kThreads) {
    const int j = at % kBand, i = at / kBand, s = sweep0 + j, row = row0 + i;
    const bool is_there = s < n - 2 && i > j && i <= j + kBand && row < n;
    shared.v[j * kWindowColumn + i] = is_there ? vectors[s + row * distance] : 0.0;
  }
  if (thread < kBand) {
    const int s = sweep0 + thread;
    shared.tau[thread] = s < n - 2 && k < steps_of(n, s) ? tau[int64_t{k} * n + s] : 0.0;
  }
  __syncthreads();
  for (int at = thread; at < kBand * kBand; at += kThreads) {
    const int i = at % kBand, j = at / kBand;
    double sum = 0;
    if (i < j)
      for (int row = j + 1; row <= i + kBand; ++row)
        sum += shared.v[i * kWindowColumn + row] * shared.v[j * kWindowColumn + row];
    shared.products[i + j * kSquare] = sum;
  }
  __syncthreads();
  make_triangle(shared.products, shared.tau, shared.t, kSquare);
  __syncthreads();
  for (int at = thread; at < kWindow * kBand; at += kThreads) {
    const int i = at % kWindow, j = at / kWindow;
    double sum = 0;
    for (int l = 0; l <= j; ++l) sum += shared.v[l * kWindowColumn + i] * shared.t[l + j * kSquare];
    shared.vt[j * kWindowColumn + i] = sum;
  }
  __syncthreads();
  // Each thread has some rows, a warp apart, of some neighbouring columns.
  constexpr int kRows = kWindow / kLanes, kColumns = kWindow / (kThreads / kLanes);
  const int row = thread % kLanes, column = thread / kLanes * kColumns;
  double sums[kRows][kColumns] = {};
  for (int l = 0; l < kBand; ++l) {
    double left[kRows], right[kColumns];
    QUARRY_UNROLLED
    for (int i = 0; i < kRows; ++i) left[i] = shared.vt[l * kWindowColumn + row + i * kLanes];
    QUARRY_UNROLLED
    for (int j = 0; j < kColumns; ++j) right[j] = shared.v[l * kWindowColumn + column + j];
    QUARRY_UNROLLED
    for (int i = 0; i < kRows; ++i) QUARRY_UNROLLED
    for (int j = 0; j < kColumns; ++j) sums[i][j] += left[i] * right[j];
  }
  QUARRY_UNROLLED
  for (int i = 0; i < kRows; ++i) QUARRY_UNROLLED
  for (int j = 0; j < kColumns; ++j)
    window[place_in_window(row + i * kLanes, column + j)] = (row + i * kLanes == column + j ? 1.0 : 0.0) - sums[i][j];
}

// ---- Windows by their matrices ----

constexpr int kNarrow = 64, kWide = 128;  // columns of a strip
constexpr int kReflectThreads = 256;
// Four warps have the rows of a window, two the columns of a strip.
constexpr int kRowWarps = 4, kColumnWarps = 2;
constexpr int kHalfColumn = kBand + 2;  // between columns of half a window

template <int kStrip>
struct ReflectShared {
  double halves[3][kStrip * kHalfColumn];  // of a window, and the next one's lower half
};

// z = Q z for `count` groups of sweeps from `first_group` on, and columns of z.
template <int kStrip>
__global__ void __launch_bounds__(kReflectThreads, 1)
    reflect_kernel(const double* windows, double* z, int64_t distance, int64_t columns, int n, int first_group,
                   int count, int most_steps) {
  constexpr int kTilesDown = kWindow / kRowWarps / kTileRows, kTilesAcross = kStrip / kColumnWarps / kTileColumns;
  constexpr int kSteps = kWindow / kTileSums;
  QUARRY_LAUNCH_MEMORY(reflect_memory);
  auto& shared = *reinterpret_cast<ReflectShared<kStrip>*>(reflect_memory);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes, warp = thread / kLanes;
  const int row_warp = warp % kRowWarps, column_warp = warp / kRowWarps;
  const int tile_row = lane / 4, tile_column = lane % 4;
  const int64_t column0 = static_cast<int64_t>(blockIdx.x) * kStrip;
  const auto own_columns = static_cast<int>(min(int64_t{kStrip}, columns - column0));
  double* const strip = z + column0 * distance;

  // Rows and columns that are not there count as zeros.
  const auto load_half = [&](double* half, int row0) {
    for (int at = thread; at < kBand * kStrip; at += kReflectThreads) {
      const int i = at % kBand, j = at / kBand;
      double* const to = half + j * kHalfColumn + i;
      if (row0 + i < n && j < own_columns)
        copy_later(to, strip + row0 + i + j * distance);
      else
        *to = 0;
    }
  };
  const auto load_tile = [&](double(&a)[kTilesDown][8], const double* window, int step) {
    QUARRY_UNROLLED
    for (int m = 0; m < kTilesDown; ++m) {
      const int tile = (row_warp * kTilesDown + m) * kSteps + step;
      QUARRY_UNROLLED
      for (int i = 0; i < 4; ++i) {
        const double* const from = window + ((tile * 4 + i) * kLanes + lane) * 2;
        a[m][2 * i] = from[0], a[m][2 * i + 1] = from[1];
      }
    }
  };

  for (int group = first_group + count - 1; group >= first_group; --group) {
    double *upper = shared.halves[0], *lower = shared.halves[1], *next = shared.halves[2];
    const double* window = windows + int64_t{group - first_group} * most_steps * kWindowElements;
    const int steps = most_steps - group;
    load_half(upper, group * kBand);
    load_half(lower, (group + 1) * kBand);
    double a[2][kTilesDown][8];
    load_tile(a[0], window, 0);
    wait_for_copies();
    __syncthreads();
    for (int k = 0; k < steps; ++k, window += kWindowElements) {
      const int row0 = (group + k) * kBand;
      const bool is_last = k + 1 == steps;
      if (!is_last) load_half(next, row0 + kWindow);
      double c[kTilesDown][kTilesAcross][4] = {};
      QUARRY_UNROLLED
      for (int step = 0; step < kSteps; ++step) {
        if (step + 1 < kSteps)
          load_tile(a[(step + 1) % 2], window, step + 1);
        else if (!is_last)
          load_tile(a[0], window + kWindowElements, 0);
        const double* const half = step < kSteps / 2 ? upper : lower;
        const int row = step % (kSteps / 2) * kTileSums + 4 * tile_column;
        QUARRY_UNROLLED
        for (int tile = 0; tile < kTilesAcross; ++tile) {
          const int column = (column_warp * kTilesAcross + tile) * kTileColumns + tile_row;
          const double* const from = half + column * kHalfColumn + row;
          const double b[4] = {from[0], from[1], from[2], from[3]};
          QUARRY_UNROLLED
          for (int m = 0; m < kTilesDown; ++m) add_product(c[m][tile], a[step % 2][m], b);
        }
      }
      __syncthreads();
      // The upper half is done; the lower one is the next window's upper half.
      QUARRY_UNROLLED
      for (int m = 0; m < kTilesDown; ++m) {
        QUARRY_UNROLLED
        for (int tile = 0; tile < kTilesAcross; ++tile) {
          QUARRY_UNROLLED
          for (int i = 0; i < 4; ++i) {
            const int row = (row_warp * kTilesDown + m) * kTileRows + tile_row + i / 2 * 8;
            const int column = (column_warp * kTilesAcross + tile) * kTileColumns + 2 * tile_column + i % 2;
            if (row >= kBand && !is_last)
              lower[column * kHalfColumn + row - kBand] = c[m][tile][i];
            else if (row0 + row < n && column < own_columns)
              strip[row0 + row + column * distance] = c[m][tile][i];
          }
        }
      }
      wait_for_copies();
      __syncthreads();
      double* const done = upper;
      upper = lower, lower = next, next = done;
    }
  }
}

}  // namespace
}  // namespace quarry::local::cuda
