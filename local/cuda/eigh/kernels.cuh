// Kernels of the reduction of a symmetric matrix to tridiagonal form in two stages: panels of reflectors that leave a
// band, and the chase that leaves two diagonals. Reflectors are those of LAPACK's larfg: H = I - tau v v^T, v(0) = 1.
//
// On the host, where tests run them, tests/support/host_block.h comes before this file.
#pragma once

#include <cstdint>
#include <limits>

#include "quarry/local/cuda/kernel_memory.cuh"

namespace quarry::local::cuda {
namespace {

constexpr int kBand = 64;  // diagonals of the band beside the main one

constexpr int kThreads = 512;
constexpr int kGroups = kThreads / kBand;        // of threads that share a column, or a row, of a block of the band
constexpr int kSquare = kBand + 1;               // between columns of squares in shared memory
constexpr int kRowsEach = 32;                    // rows that a thread of a panel's kernel keeps, of one column
constexpr int kPanelRows = kGroups * kRowsEach;  // of a block of the panel's kernel

__device__ double sum_of_warp(double value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

// Of kCount values each, the sum over the warp of one: lane l gets that of value l kCount / kLanes.
template <int kCount>
__device__ double sum_of_each(double (&values)[kCount]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  int distance = kLanes / 2;
  QUARRY_UNROLLED
  for (int left = kCount / 2; left > 0; left /= 2, distance /= 2) {
    const bool is_upper = (lane & distance) != 0;
    QUARRY_UNROLLED
    for (int i = 0; i < left; ++i) {
      const double given = is_upper ? values[i] : values[i + left], kept = is_upper ? values[i + left] : values[i];
      values[i] = kept + __shfl_xor_sync(~0u, given, distance);
    }
  }
  double sum = values[0];
  for (; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  return sum;
}

struct Reflector {
  double tau, beta, scale;  // v = scale x below its first element; the vector becomes beta e1
};
// Of a vector that begins with alpha and whose other elements have this sum of squares. Matrices have a norm of about
// 1: elements whose squares lose digits are zeros there.
__device__ Reflector reflector(double alpha, double squares) {
  constexpr double kLeast = std::numeric_limits<double>::min() / std::numeric_limits<double>::epsilon();
  if (squares < kLeast) return {0, alpha, 0};
  const double norm = sqrt(alpha * alpha + squares), beta = alpha > 0 ? -norm : norm;
  return {(beta - alpha) / beta, beta, 1 / (alpha - beta)};
}

// The upper triangle t of H(0) ... H(count - 1) = I - V t V^T, from V^T V (above its diagonal) and tau, by columns that
// are `distance` apart. By kThreads threads.
__device__ void make_triangle(const double* products, const double* tau, double* t, int distance) {
  constexpr int kShare = kGroups;  // neighbours in a warp, of one row, which depends on no other
  const int row = static_cast<int>(threadIdx.x) / kShare, part = static_cast<int>(threadIdx.x) % kShare;
  for (int k = 0; k < kBand; ++k) {
    double sum = 0;
    for (int j = row + part; j < k; j += kShare) sum += t[row + j * distance] * products[j + k * distance];
    for (int step = kShare / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (part == 0) t[row + k * distance] = row < k ? -tau[k] * sum : row == k ? tau[k] : 0.0;
    __syncwarp();
  }
}

// ---- A panel: Q R of up to kBand columns ----

// A number and twice the turn it is of: written and read as a whole, so who finds the turn has the number.
struct alignas(16) Word {
  uint32_t low, turn, high, same_turn;
};
#ifdef __CUDACC__
__device__ inline void write_word(Word* to, double value, uint32_t turn) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(value));
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(to), "r"(static_cast<uint32_t>(bits)),
               "r"(turn), "r"(static_cast<uint32_t>(bits >> 32))
               : "memory");
}
__device__ inline bool read_word(const Word* from, uint32_t turn, double& value) {
  uint32_t low = 0, high = 0, first = 0, second = 0;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(low), "=r"(first), "=r"(high), "=r"(second)
               : "l"(from)
               : "memory");
  value = __longlong_as_double(static_cast<long long>(static_cast<uint64_t>(high) << 32 | low));
  return first == turn && second == turn;
}
__device__ inline void wait_for_others() {}
#endif

// What blocks tell each other of a column: each its part of the sums of products with all columns, and the first block
// the row in which the reflector begins.
constexpr int kMostPanelBlocks = 132;
struct PanelWords {
  Word sums[2][kMostPanelBlocks][kBand];  // of columns in turn
  Word row[2][kBand];
};

// QR of the panel `a` of `rows` rows and kBand columns: R and the vectors below it in place, the vectors with their
// ones and zeros in both `v` and `v_again`, tau, and the products V^T V above the diagonal of `products`. Cooperative:
// a block has kPanelRows rows, a thread kRowsEach of them of one column, in registers. `turn`: of the first column, 1
// or more, and never one that `words` has seen.
__global__ void __launch_bounds__(kThreads, 1)
    panel_kernel(double* a, int64_t distance, int rows, double* v, double* v_again, int64_t v_distance, double* tau,
                 double* products, PanelWords* words, uint32_t turn) {
  __shared__ double x[kPanelRows], partial[kGroups][kBand], row_of_first[kBand];
  __shared__ Reflector shared_reflector;
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x), count = min(rows, kBand);
  const int column = thread % kBand, group = thread / kBand;
  const int first = block * kPanelRows + group * kRowsEach;  // of the thread's rows
  double* const a_own = a + first + column * distance;
  double own[kRowsEach];
  QUARRY_UNROLLED
  for (int i = 0; i < kRowsEach; ++i) own[i] = first + i < rows ? a_own[i] : 0.0;

  for (int k = 0; k < count; ++k, ++turn) {
    Word(*const sums)[kBand] = words->sums[turn % 2];
    Word* const row = words->row[turn % 2];
    if (column == k) {
      QUARRY_UNROLLED
      for (int i = 0; i < kRowsEach; ++i) x[group * kRowsEach + i] = first + i > k ? own[i] : 0.0;
    }
    if (block == 0 && group == k / kRowsEach) {
      double value = 0;
      QUARRY_UNROLLED
      for (int i = 0; i < kRowsEach; ++i)
        if (first + i == k) value = own[i];
      write_word(&row[column], value, turn);
    }
    __syncthreads();
    double sums_of_four[4] = {};
    QUARRY_UNROLLED
    for (int i = 0; i < kRowsEach; ++i) sums_of_four[i % 4] += x[group * kRowsEach + i] * own[i];
    partial[group][column] = (sums_of_four[0] + sums_of_four[1]) + (sums_of_four[2] + sums_of_four[3]);
    __syncthreads();
    double sum = 0;
    if (group == 0) {
      for (int other = 0; other < kGroups; ++other) sum += partial[other][column];
      write_word(&sums[block][column], sum, turn);
    }
    sum = 0;
    constexpr int kInFlight = 4;
    for (int other = group; other < blocks; other += kInFlight * kGroups) {
      double values[kInFlight];
      bool are_there = false;
      while (true) {
        are_there = true;
        QUARRY_UNROLLED
        for (int i = 0; i < kInFlight; ++i) {
          values[i] = 0;
          if (other + i * kGroups < blocks) are_there &= read_word(&sums[other + i * kGroups][column], turn, values[i]);
        }
        if (are_there) break;
        wait_for_others();
      }
      QUARRY_UNROLLED
      for (int i = 0; i < kInFlight; ++i) sum += values[i];
    }
    if (group == kGroups - 1) {
      double value = 0;
      while (!read_word(&row[column], turn, value)) wait_for_others();
      row_of_first[column] = value;
    }
    __syncthreads();
    partial[group][column] = sum;
    __syncthreads();
    sum = 0;
    QUARRY_UNROLLED
    for (int other = 0; other < kGroups; ++other) sum += partial[other][column];
    if (group == 0 && column == k) shared_reflector = reflector(row_of_first[k], sum);
    __syncthreads();
    const Reflector h = shared_reflector;
    // What the reflector makes of the thread's column: column - v weight.
    const double product = row_of_first[column] + h.scale * sum, weight = h.tau * product;
    if (column > k) {
      const double scaled = h.scale * weight;
      QUARRY_UNROLLED
      for (int i = 0; i < kRowsEach; ++i) {
        own[i] -= scaled * x[group * kRowsEach + i];
        if (first + i == k) own[i] -= weight;
      }
    } else if (column == k) {
      QUARRY_UNROLLED
      for (int i = 0; i < kRowsEach; ++i) {
        if (first + i > k) own[i] *= h.scale;
        if (first + i == k) own[i] = h.beta;
      }
    }
    if (block == 0 && group == 0) {
      if (column < k) products[column + k * kBand] = product;
      if (column == k) tau[k] = h.tau;
    }
    // x and partial are written again by threads that others still read them for.
    __syncthreads();
  }

  if (block == 0 && group == 0) {
    for (int k = count; k < kBand; ++k) {
      products[column + k * kBand] = 0;
      if (column == k) tau[k] = 0;
    }
  }
  double *const v_own = v + first + column * v_distance, *const again_own = v_again + first + column * v_distance;
  QUARRY_UNROLLED
  for (int i = 0; i < kRowsEach; ++i) {
    const int row = first + i;
    const double below = row > column ? own[i] : row == column && column < count ? 1.0 : 0.0;
    if (row < rows) {
      a_own[i] = own[i];
      v_own[i] = below;
      again_own[i] = below;
    }
  }
}

struct TriangleShared {
  double products[kBand * kSquare], t[kBand * kSquare], tau[kBand];
};
__global__ void triangle_kernel(const double* products, const double* tau, double* t) {
  QUARRY_LAUNCH_MEMORY(triangle_memory);
  auto& shared = *reinterpret_cast<TriangleShared*>(triangle_memory);
  const int thread = static_cast<int>(threadIdx.x);
  for (int at = thread; at < kBand * kBand; at += kThreads)
    shared.products[at % kBand + at / kBand * kSquare] = products[at];
  if (thread < kBand) shared.tau[thread] = tau[thread];
  __syncthreads();
  make_triangle(shared.products, shared.tau, shared.t, kSquare);
  __syncthreads();
  for (int at = thread; at < kBand * kBand; at += kThreads) t[at] = shared.t[at % kBand + at / kBand * kSquare];
}

// ---- The band ----

// Bands lie by columns, each with its diagonal and what is below it, as far as a chase fills it.
constexpr int kBandDistance = 2 * kBand;

__global__ void band_kernel(const double* a, int64_t distance, int n, double* band) {
  const int64_t j = blockIdx.x, i = j + threadIdx.x;
  band[j * kBandDistance + threadIdx.x] = threadIdx.x <= kBand && i < n ? a[i + j * distance] : 0.0;
}

constexpr int kHalves = kBand / kLanes;  // warps that have the rows of a block

struct ChaseShared {
  double partial[kGroups][kBand];
  double z_parts[kHalves][kBand], y_parts[kHalves][kBand];
  double v[2][kBand];  // of steps in turn
  double x[kBand], w[kBand], z[kBand], y[kBand], inner[kHalves];
  double tau, beta, along;
};

// How far sweeps are: steps done, in each word that of one sweep.
#ifdef __CUDACC__
__device__ inline void wait_for_steps(const int* progress, int steps) {
  int done = 0;
  do asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(done) : "l"(progress) : "memory");
  while (done < steps);
}
__device__ inline void publish_steps(int* progress, int steps) {
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(progress), "r"(steps) : "memory");
}
#endif

// Steps of sweep s of a matrix of n rows.
__host__ __device__ inline int steps_of(int n, int s) { return (n - 2 - s) / kBand + 1; }

// Sweep s makes column s tridiagonal, and chases the bulge that this leaves down the band in steps of kBand rows. Step
// 0 reflects rows s + 1 ... of column s; step k the rows kBand k further on, in which the step before it has filled the
// first column of the block left of them. Each step reflects the diagonal block of its rows from both sides.
// A sweep is one block's: it follows the sweep before it at two steps' distance, by which their elements are disjoint.
// The vector of step k of sweep s is left in row s of `vectors` (its columns are `distance` apart), at the columns
// that are its rows, with its one; its tau in tau[k n + s].
// Cooperative. progress: zeros, one for each sweep.
__global__ void __launch_bounds__(kThreads)
    chase_kernel(double* band, int n, double* vectors, int64_t distance, double* tau, int* progress) {
  constexpr int kEach = kBand / kGroups;  // columns of a block that a thread keeps, of one row
  __shared__ ChaseShared shared;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes;
  const int row = thread % kBand, half_of_rows = row / kLanes, group = thread / kBand, column0 = group * kEach;

  for (int s = static_cast<int>(blockIdx.x); s < n - 2; s += static_cast<int>(gridDim.x)) {
    const int steps = steps_of(n, s);
    for (int k = 0; k < steps; ++k) {
      const int first = s + 1 + k * kBand, left = k == 0 ? s : first - kBand;  // the rows; the columns left of them
      const int rows = min(kBand, n - first);
      double* const v_before = shared.v[k % 2];
      double* const v = shared.v[(k + 1) % 2];
      if (thread == 0 && s > 0) wait_for_steps(&progress[s - 1], min(k + 2, steps_of(n, s - 1)));
      __syncthreads();

      // Element (i, j) is at band[j kBandDistance + i - j].
      double b[kEach], d[kEach], sum = 0;
      QUARRY_UNROLLED
      for (int i = 0; i < kEach; ++i) {
        const int j = column0 + i;
        const bool is_there = row < rows && (k > 0 || j == 0);
        b[i] = is_there ? __ldcg(&band[int64_t{left + j} * kBandDistance + first + row - left - j]) : 0.0;
        d[i] = row < rows && j <= row ? __ldcg(&band[int64_t{first + j} * kBandDistance + row - j]) : 0.0;
      }
      QUARRY_UNROLLED
      for (int i = 0; i < kEach; ++i) sum += k > 0 ? b[i] * v_before[column0 + i] : 0.0;
      if (group == 0) shared.x[row] = b[0];
      shared.partial[group][row] = sum;
      __syncthreads();

      // The step before it reflects the left block from the right: b - w v_before^T. That gives its first column, and
      // the reflector of this step.
      if (thread < kLanes) {
        const double tau_before = k > 0 ? shared.tau : 0.0;
        double x[kBand / kLanes], w[kBand / kLanes], squares = 0, along = 0;
        QUARRY_UNROLLED
        for (int i = 0; i < kBand / kLanes; ++i) {
          const int at = lane + i * kLanes;
          w[i] = 0;
          for (int other = 0; other < kGroups; ++other) w[i] += shared.partial[other][at];
          w[i] *= tau_before;
          x[i] = shared.x[at] - w[i];  // v_before begins with 1
          if (at > 0) squares += x[i] * x[i], along += x[i] * w[i];
        }
        squares = sum_of_warp(squares), along = sum_of_warp(along);
        const Reflector h = reflector(__shfl_sync(~0u, x[0], 0), squares);
        along = __shfl_sync(~0u, w[0], 0) + h.scale * along;  // v^T w
        __syncwarp();                                         // all have read the tau of the step before
        QUARRY_UNROLLED
        for (int i = 0; i < kBand / kLanes; ++i) {
          const int at = lane + i * kLanes;
          v[at] = at == 0 ? 1.0 : h.scale * x[i];
          shared.w[at] = w[i];
        }
        if (lane == 0) shared.tau = h.tau, shared.beta = h.beta, shared.along = along;
      }
      __syncthreads();

      // z = tau (b - w v_before^T)^T v for the left block, y = tau d v for the diagonal one, of which a thread has a
      // part of its row and of the columns that mirror it.
      const double t = shared.tau, v_row = v[row];
      double for_z[kEach], for_y[kEach];
      sum = 0;
      QUARRY_UNROLLED
      for (int i = 0; i < kEach; ++i) {
        for_z[i] = b[i] * v_row;
        for_y[i] = column0 + i < row ? d[i] * v_row : 0.0;
        sum += d[i] * v[column0 + i];
      }
      const double z_part = sum_of_each(for_z), y_part = sum_of_each(for_y);
      shared.partial[group][row] = sum;
      if (lane % (kLanes / kEach) == 0) {
        const int j = column0 + lane / (kLanes / kEach);
        shared.z_parts[half_of_rows][j] = z_part, shared.y_parts[half_of_rows][j] = y_part;
      }
      __syncthreads();
      if (group == 0) {
        sum = 0;
        for (int other = 0; other < kGroups; ++other) sum += shared.partial[other][row];
        for (int half = 0; half < kHalves; ++half) sum += shared.y_parts[half][row];
        shared.y[row] = t * sum;
        const double inner = sum_of_warp(v_row * t * sum);
        if (lane == 0) shared.inner[half_of_rows] = inner;
      } else if (group == 1) {
        sum = k > 0 ? -shared.along * v_before[row] : 0.0;
        for (int half = 0; half < kHalves; ++half) sum += shared.z_parts[half][row];
        shared.z[row] = t * sum;
      }
      __syncthreads();
      double half = 0;
      for (int other = 0; other < kHalves; ++other) half += shared.inner[other];
      half *= t / 2;

      const double w_row = shared.w[row], y_row = shared.y[row] - half * v_row;
      QUARRY_UNROLLED
      for (int i = 0; i < kEach; ++i) {
        const int j = column0 + i;
        double value = b[i] - (k > 0 ? w_row * v_before[j] : 0.0) - v_row * shared.z[j];
        if (j == 0) value = row == 0 ? shared.beta : 0.0;
        if (row < rows && (k > 0 || j == 0)) band[int64_t{left + j} * kBandDistance + first + row - left - j] = value;
        if (row < rows && j <= row)
          band[int64_t{first + j} * kBandDistance + row - j] =
              d[i] - v_row * (shared.y[j] - half * v[j]) - y_row * v[j];
      }
      __syncthreads();
      if (thread == 0) publish_steps(&progress[s], k + 1);
      if (group == 0 && row < rows) vectors[s + int64_t{first + row} * distance] = v_row;
      if (thread == 0) tau[int64_t{k} * n + s] = t;
    }
  }
}

__global__ void diagonals_kernel(const double* band, int n, double* d, double* e) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) d[i] = band[i * kBandDistance];
  if (i < n - 1) e[i] = band[i * kBandDistance + 1];
}

// ---- The panels' vectors ----

// V of `columns` columns from `first` on, of reflectors that begin kBand rows below the diagonal of `a`, as a whole
// matrix of n - kBand - first rows.
__global__ void expand_kernel(const double* a, int64_t distance, int n, int64_t first, double* v) {
  const int64_t rows = n - kBand - first, i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
                j = blockIdx.y;
  if (i >= rows) return;
  v[i + j * rows] = i > j ? a[first + kBand + i + (first + j) * distance] : i == j ? 1.0 : 0.0;
}

// From V^T V: the left and the right side of (I + D U) t = D, where D has tau and U is what is above the diagonal.
__global__ void system_kernel(double* products, const double* tau, double* t, int columns) {
  const int i = static_cast<int>(threadIdx.x), j = static_cast<int>(blockIdx.x);
  products[i + j * columns] *= i < j ? tau[i] : 0.0;
  t[i + j * columns] = i == j ? tau[i] : 0.0;
}

}  // namespace
}  // namespace quarry::local::cuda
