#include "quarry/local/cuda/small_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/small_families.h"

namespace quarry::local::cuda {
namespace {

constexpr const char* kArithmetic = R"cuda(
#ifndef QUARRY_DYNAMIC_SHARED
#define QUARRY_DYNAMIC_SHARED(name) extern __shared__ __align__(16) char name[]
#endif
namespace quarry::local::small {
struct Params { int64_t s[12]; };
template <class T> struct real_of { using type = T; };
template <class T> struct real_of<cx<T>> { using type = T; };
template <class T> using Real = typename real_of<T>::type;
QUARRY_FN float conj(float x) { return x; }
QUARRY_FN double conj(double x) { return x; }
template <class T> QUARRY_FN cx<T> conj(cx<T> x) { return {x.re, -x.im}; }
QUARRY_FN float product(float x, float y) { return x * y; }
QUARRY_FN double product(double x, double y) { return x * y; }
template <class T> QUARRY_FN cx<T> product(cx<T> x, cx<T> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
QUARRY_FN float sum(float x, float y) { return x + y; }
QUARRY_FN double sum(double x, double y) { return x + y; }
template <class T> QUARRY_FN cx<T> sum(cx<T> x, cx<T> y) { return {x.re + y.re, x.im + y.im}; }
QUARRY_FN float difference(float x, float y) { return x - y; }
QUARRY_FN double difference(double x, double y) { return x - y; }
template <class T> QUARRY_FN cx<T> difference(cx<T> x, cx<T> y) { return {x.re - y.re, x.im - y.im}; }
QUARRY_FN float scaled(float x, float factor) { return x * factor; }
QUARRY_FN double scaled(double x, double factor) { return x * factor; }
template <class T> QUARRY_FN cx<T> scaled(cx<T> x, T factor) { return {x.re * factor, x.im * factor}; }
QUARRY_FN float number(float, int x) { return static_cast<float>(x); }
QUARRY_FN double number(double, int x) { return static_cast<double>(x); }
template <class T> QUARRY_FN cx<T> number(cx<T>, int x) { return {static_cast<T>(x), static_cast<T>(0)}; }
// |x|^2, and the larger of |re x| and |im x|.
QUARRY_FN float square(float x) { return x * x; }
QUARRY_FN double square(double x) { return x * x; }
template <class T> QUARRY_FN T square(cx<T> x) { return x.re * x.re + x.im * x.im; }
QUARRY_FN float extent(float x) { return fabsf(x); }
QUARRY_FN double extent(double x) { return fabs(x); }
template <class T> QUARRY_FN T extent(cx<T> x) { return extent(x.re) > extent(x.im) ? extent(x.re) : extent(x.im); }
QUARRY_FN float root(float x) { return sqrtf(x); }
QUARRY_FN double root(double x) { return sqrt(x); }
// |x| without squares that underflow.
QUARRY_FN float length(float x) { return fabsf(x); }
QUARRY_FN double length(double x) { return fabs(x); }
QUARRY_FN float length(cx<float> x) { return hypotf(x.re, x.im); }
QUARRY_FN double length(cx<double> x) { return hypot(x.re, x.im); }
// x * 2^power
QUARRY_FN float shifted(float x, int power) { return scalbnf(x, power); }
QUARRY_FN double shifted(double x, int power) { return scalbn(x, power); }
QUARRY_FN float across(float x, int lane) { return __shfl_xor_sync(0xffffffffu, x, lane); }
QUARRY_FN double across(double x, int lane) { return __shfl_xor_sync(0xffffffffu, x, lane); }
template <class T> QUARRY_FN cx<T> across(cx<T> x, int lane) { return {across(x.re, lane), across(x.im, lane)}; }
template <class T> QUARRY_FN T warp_sum(T x) {
  for (int step = 16; step > 0; step /= 2) x = sum(x, across(x, step));
  return x;
}
QUARRY_FN float from_lane(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
QUARRY_FN double from_lane(double x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
template <class T> QUARRY_FN cx<T> from_lane(cx<T> x, int lane) {
  return {from_lane(x.re, lane), from_lane(x.im, lane)};
}
QUARRY_FN float real_part(float x) { return x; }
QUARRY_FN double real_part(double x) { return x; }
template <class T> QUARRY_FN T real_part(cx<T> x) { return x.re; }
)cuda";

// A warp makes one column: the reflections, last to first, applied to a column of the identity. cuSOLVER's orgqr takes
// one matrix per call.
constexpr const char* kFormQ = R"cuda(
template <class T> QUARRY_FN void form(const Params& p) {
  const T* const factors = reinterpret_cast<const T*>(p.s[0]);
  const T* const all_tau = reinterpret_cast<const T*>(p.s[1]);
  T* const out = reinterpret_cast<T*>(p.s[2]);
  const int64_t count = p.s[3], rows = p.s[4], columns = p.s[5], reflectors = p.s[6], tau_step = p.s[7];
  const int lane = threadIdx.x % 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / 32);
  for (int64_t task = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; task < count * columns;
       task += warps) {
    const int64_t matrix = task / columns, column = task % columns;
    const T* const a = factors + matrix * rows * columns;
    T* const q = out + task * rows;
    for (int64_t i = lane; i < rows; i += 32) q[i] = number(T(), i == column);
    // Reflection j changes nothing above row j: those after the column leave its one alone.
    for (int64_t j = column < reflectors ? column : reflectors - 1; j >= 0; --j) {
      const T tau = all_tau[matrix * tau_step + j];
      const T* const v = a + j * rows;
      T dot = number(T(), 0);
      for (int64_t i = lane; i < rows; i += 32) {
        if (i == j) dot = sum(dot, q[i]);
        if (i > j) dot = sum(dot, product(conj(v[i]), q[i]));
      }
      dot = product(tau, warp_sum(dot));
      for (int64_t i = lane; i < rows; i += 32) {
        if (i == j) q[i] = difference(q[i], dot);
        if (i > j) q[i] = difference(q[i], product(v[i], dot));
      }
    }
  }
}
)cuda";

constexpr const char* kLimits = R"cuda(
template <class R> struct limits;
template <> struct limits<float> {
  QUARRY_FN float epsilon() { return 1.1920929e-7f; }
  QUARRY_FN float least_square() { return 1e-30f; }  // epsilon times it is a normal number
  QUARRY_FN float steep() { return 1e9f; }
  static const int kMostPower = 120;
};
template <> struct limits<double> {
  QUARRY_FN double epsilon() { return 2.220446049250313e-16; }
  QUARRY_FN double least_square() { return 1e-290; }
  QUARRY_FN double steep() { return 1e18; }
  static const int kMostPower = 1000;
};
)cuda";

// One-sided Jacobi (Hestenes 1958; Demmel, Veselic 1992): rotations of pairs of columns until all are orthogonal, so
// that a V = U diag(values). A block works on one matrix, each of its warps on a pair; the pairs of a round are
// disjoint (a tournament's schedule). Columns whose products are no normal numbers, after the matrix was scaled to 1,
// count as 0; their columns of u are 0 and `incomplete` is set.
constexpr const char* kJacobi = R"cuda(
// Rotates columns x and y of a and v; false where they are orthogonal already.
template <class T> QUARRY_FN bool rotate(T* x, T* y, int64_t rows, T* vx, T* vy, int64_t columns, Real<T> tolerance) {
  using R = Real<T>;
  const int lane = threadIdx.x % 32;
  R xx = 0, yy = 0;
  T xy = number(T(), 0);
  for (int64_t i = lane; i < rows; i += 32) {
    const T left = x[i], right = y[i];
    xx += square(left);
    yy += square(right);
    xy = sum(xy, product(conj(left), right));
  }
  xx = warp_sum(xx), yy = warp_sum(yy), xy = warp_sum(xy);
  if (!(xx > limits<R>::least_square() && yy > limits<R>::least_square())) return false;
  const R size = length(xy);
  if (!(size > tolerance * (root(xx) * root(yy)))) return false;
  // The tangent of the smaller angle.
  const R zeta = (yy - xx) / (2 * size), steepness = extent(zeta);
  const R tangent = 1 / (steepness > limits<R>::steep() ? 2 * steepness : steepness + root(1 + zeta * zeta));
  const R t = zeta < 0 ? -tangent : tangent, c = 1 / root(1 + t * t), s = c * t;
  const T phase = scaled(conj(xy), 1 / size);
  const auto turn = [&](T* left, T* right, int64_t n) {
    for (int64_t i = lane; i < n; i += 32) {
      const T p = left[i], q = product(right[i], phase);
      left[i] = difference(scaled(p, c), scaled(q, s));
      right[i] = sum(scaled(p, s), scaled(q, c));
    }
  };
  turn(x, y, rows);
  if (vx != nullptr) turn(vx, vy, columns);
  return true;
}
// The power of 2 that brings the largest element to about 1.
template <class T> QUARRY_FN int power_of(const T* a, int64_t elements, Real<T>* shared) {
  using R = Real<T>;
  R largest = 0;
  for (int64_t i = threadIdx.x; i < elements; i += blockDim.x) {
    const R size = extent(a[i]);
    if (size > largest) largest = size;
  }
  for (int step = 16; step > 0; step /= 2) {
    const R other = across(largest, step);
    if (other > largest) largest = other;
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int i = 0; i < static_cast<int>(blockDim.x / 32); ++i)
    if (shared[i] > largest) largest = shared[i];
  __syncthreads();
  if (largest == 0) return 0;
  const int power = -ilogb(static_cast<double>(largest)), most = limits<R>::kMostPower;
  return power > most ? most : power < -most ? -most : power;
}
template <class T> QUARRY_FN void jacobi(const Params& p) {
  using R = Real<T>;
  constexpr int kMostColumns = 256, kMostSweeps = 60;
  __shared__ R lengths[kMostColumns];
  __shared__ int places[kMostColumns];
  const int64_t count = p.s[7], rows = p.s[8], n = p.s[9];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const bool vectors = p.s[2] != 0;
  const int players = static_cast<int>(n + n % 2), rounds = players - 1;
  const R tolerance = limits<R>::epsilon() * root(static_cast<R>(rows));
  for (int64_t matrix = blockIdx.x; matrix < count; matrix += gridDim.x) {
    T* const a = reinterpret_cast<T*>(p.s[0]) + matrix * rows * n;
    R* const values = reinterpret_cast<R*>(p.s[1]) + matrix * n;
    T* const v = vectors ? reinterpret_cast<T*>(p.s[4]) + matrix * n * n : nullptr;
    const int power = power_of(a, rows * n, lengths);
    const R factor = shifted(static_cast<R>(1), power);
    for (int64_t i = threadIdx.x; i < rows * n; i += blockDim.x) a[i] = scaled(a[i], factor);
    if (vectors)
      for (int64_t i = threadIdx.x; i < n * n; i += blockDim.x) v[i] = number(T(), i / n == i % n);
    bool done = n < 2;
    for (int sweep = 0; sweep < kMostSweeps && !done; ++sweep) {
      bool turned = false;
      __syncthreads();
      for (int round = 0; round < rounds; ++round) {
        for (int pair = warp; pair < players / 2; pair += warps) {
          const int one = (round + pair) % rounds, two = pair == 0 ? rounds : (round - pair + rounds) % rounds;
          const int x = one < two ? one : two, y = one < two ? two : one;
          if (y >= n) continue;
          const bool any = vectors ? rotate(a + x * rows, a + y * rows, rows, v + x * n, v + y * n, n, tolerance)
                                   : rotate<T>(a + x * rows, a + y * rows, rows, nullptr, nullptr, 0, tolerance);
          turned = turned || any;
        }
        __syncthreads();
      }
      done = __syncthreads_or(turned) == 0;
    }
    __syncthreads();
    for (int64_t j = warp; j < n; j += warps) {
      R length = 0;
      for (int64_t i = lane; i < rows; i += 32) length += square(a[j * rows + i]);
      length = warp_sum(length);
      if (lane == 0) lengths[j] = length > limits<R>::least_square() ? root(length) : 0;
    }
    __syncthreads();
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
      int place = 0;
      for (int64_t i = 0; i < n; ++i) place += lengths[i] > lengths[j] || (lengths[i] == lengths[j] && i < j);
      places[j] = place;
      values[place] = shifted(lengths[j], -power);
      if (lengths[j] == 0) *reinterpret_cast<int32_t*>(p.s[6]) = 1;
    }
    __syncthreads();
    if (vectors) {
      T* const u = reinterpret_cast<T*>(p.s[2]) + matrix * p.s[10];
      T* const vh = reinterpret_cast<T*>(p.s[3]) + matrix * n * n;
      for (int64_t i = threadIdx.x; i < rows * n; i += blockDim.x) {
        const int64_t j = i / rows;
        const R length = lengths[j];
        u[places[j] * rows + i % rows] = length == 0 ? number(T(), 0) : scaled(a[i], 1 / length);
      }
      for (int64_t i = threadIdx.x; i < n * n; i += blockDim.x) vh[places[i / n] + i % n * n] = conj(v[i]);
    }
    if (threadIdx.x == 0) reinterpret_cast<int32_t*>(p.s[5])[matrix] = done ? 0 : 1;
    __syncthreads();
  }
}
)cuda";

// LAPACK's getf2, a block per matrix: cuBLAS's batched routine takes square matrices, leaves singular ones unfinished
// and chooses complex pivots by another measure.
constexpr const char* kLu = R"cuda(
QUARRY_FN float weight(float x) { return fabsf(x); }
QUARRY_FN double weight(double x) { return fabs(x); }
template <class T> QUARRY_FN T weight(cx<T> x) { return weight(x.re) + weight(x.im); }
QUARRY_FN float quotient(float x, float y) { return x / y; }
QUARRY_FN double quotient(double x, double y) { return x / y; }
template <class T> QUARRY_FN cx<T> quotient(cx<T> x, cx<T> y) {
  const T size = weight(y);
  const cx<T> unit = scaled(y, 1 / size);
  return scaled(product(x, conj(unit)), 1 / (square(unit) * size));
}
template <class T> QUARRY_FN void lu(const Params& p) {
  using R = Real<T>;
  __shared__ R weights[32];
  __shared__ int64_t rows_of[32];
  const int64_t count = p.s[3], m = p.s[4], n = p.s[5], k = m < n ? m : n;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int64_t matrix = blockIdx.x; matrix < count; matrix += gridDim.x) {
    T* const a = reinterpret_cast<T*>(p.s[0]) + matrix * m * n;
    int32_t* const pivots = reinterpret_cast<int32_t*>(p.s[1]) + matrix * k;
    int32_t singular = 0;
    for (int64_t j = 0; j < k; ++j) {
      // The first of the largest. NaN counts in row j alone, where it stays.
      R best = weight(a[j + j * m]);
      int64_t row = j;
      for (int64_t i = j + 1 + threadIdx.x; i < m; i += blockDim.x) {
        const R other = weight(a[i + j * m]);
        if (other > best) best = other, row = i;
      }
      for (int step = 16; step > 0; step /= 2) {
        const R other = across(best, step);
        const int64_t other_row = __shfl_xor_sync(0xffffffffu, row, step);
        if (other > best || (other == best && other_row < row)) best = other, row = other_row;
      }
      if (lane == 0) weights[warp] = best, rows_of[warp] = row;
      __syncthreads();
      for (int i = 0; i < warps; ++i)
        if (weights[i] > best || (weights[i] == best && rows_of[i] < row)) best = weights[i], row = rows_of[i];
      if (threadIdx.x == 0) pivots[j] = static_cast<int32_t>(row + 1);
      if (row != j) {
        for (int64_t c = threadIdx.x; c < n; c += blockDim.x) {
          const T upper = a[j + c * m];
          a[j + c * m] = a[row + c * m];
          a[row + c * m] = upper;
        }
      }
      __syncthreads();
      if (best == 0) {
        if (singular == 0) singular = static_cast<int32_t>(j + 1);
        continue;  // the column below is 0
      }
      const T pivot = a[j + j * m];
      for (int64_t i = j + 1 + threadIdx.x; i < m; i += blockDim.x) a[i + j * m] = quotient(a[i + j * m], pivot);
      __syncthreads();
      for (int64_t c = j + 1 + warp; c < n; c += warps) {
        const T factor = a[j + c * m];
        for (int64_t i = j + 1 + lane; i < m; i += 32)
          a[i + c * m] = difference(a[i + c * m], product(a[i + j * m], factor));
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) reinterpret_cast<int32_t*>(p.s[2])[matrix] = singular;
    __syncthreads();
  }
}
)cuda";

// Swaps follow one another; their numbers come from shared memory.
constexpr const char* kRowOrder = R"cuda(
extern "C" __global__ void __launch_bounds__(256) row_order(const __grid_constant__ Params p) {
  __shared__ int32_t part[256];
  const int64_t count = p.s[2], swaps = p.s[3], rows = p.s[4];
  for (int64_t matrix = blockIdx.x; matrix < count; matrix += gridDim.x) {
    const int32_t* const pivots = reinterpret_cast<const int32_t*>(p.s[0]) + matrix * swaps;
    int64_t* const order = reinterpret_cast<int64_t*>(p.s[1]) + matrix * rows;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) order[i] = i;
    for (int64_t first = 0; first < swaps; first += 256) {
      if (first + threadIdx.x < swaps) part[threadIdx.x] = pivots[first + threadIdx.x];
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int64_t i = 0; i < 256 && first + i < swaps; ++i) {
          const int64_t other = part[i] - 1, row = order[first + i];
          if (other < 0 || other >= rows) continue;  // NaN can leave anything
          order[first + i] = order[other];
          order[other] = row;
        }
      }
      __syncthreads();
    }
  }
}
)cuda";

// One panel of 32 columns of the elimination that ReflectionSigns describes, and the update to the right of it. Every
// block of `panel` eliminates the square on the diagonal for itself, in shared memory, and then solves for some of the
// rows below and of the columns to the right.
constexpr const char* kSigns = R"cuda(
QUARRY_FN float inverse(float x) { return 1 / x; }
QUARRY_FN double inverse(double x) { return 1 / x; }
// At least of length 1, of order 1: nothing overflows.
template <class T> QUARRY_FN cx<T> inverse(cx<T> x) { return scaled(conj(x), 1 / square(x)); }
template <class T> QUARRY_FN void panel(const Params& p) {
  constexpr int kWidth = 32;
  __shared__ T lu[kWidth][kWidth + 1];  // row, column
  __shared__ T inverses[kWidth];
  T* const a = reinterpret_cast<T*>(p.s[0]);
  Real<T>* const signs = reinterpret_cast<Real<T>*>(p.s[1]);
  const int64_t n = p.s[2], first = p.s[3];
  const int width = n - first < kWidth ? static_cast<int>(n - first) : kWidth;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int j = warp; j < width; j += warps)
    if (lane < width) lu[lane][j] = a[first + lane + (first + j) * n];
  __syncthreads();
  for (int k = 0; k < width; ++k) {
    const int sign = real_part(lu[k][k]) < 0 ? 1 : -1;
    const T pivot = difference(lu[k][k], number(T(), sign)), factor = inverse(pivot);
    __syncthreads();
    if (threadIdx.x == 0) {
      lu[k][k] = pivot;
      inverses[k] = factor;
      if (blockIdx.x == 0) signs[first + k] = static_cast<Real<T>>(sign);
    }
    if (warp == 0 && lane > k && lane < width) lu[lane][k] = product(lu[lane][k], factor);
    __syncthreads();
    for (int i = k + 1 + warp; i < width; i += warps)
      if (lane > k && lane < width) lu[i][lane] = difference(lu[i][lane], product(lu[i][k], lu[k][lane]));
    __syncthreads();
  }
  const int64_t end = first + width, rest = n - end;
  for (int64_t task = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; task < 2 * rest;
       task += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    if (task < rest) {
      // A row of L: x U = a.
      T* const row = a + end + task + first * n;
      for (int k = 0; k < width; ++k) {
        T x = row[k * n];
        for (int l = 0; l < k; ++l) x = difference(x, product(row[l * n], lu[l][k]));
        row[k * n] = product(x, inverses[k]);
      }
    } else {
      // A column of U: L x = a.
      T* const column = a + first + (end + task - rest) * n;
      for (int k = 1; k < width; ++k) {
        T x = column[k];
        for (int l = 0; l < k; ++l) x = difference(x, product(lu[k][l], column[l]));
        column[k] = x;
      }
    }
  }
}
// a -= L U by tiles of 32 x 32.
template <class T> QUARRY_FN void update(const Params& p) {
  __shared__ T left[32][33], right[32][33];
  T* const a = reinterpret_cast<T*>(p.s[0]);
  const int64_t n = p.s[2], first = p.s[3], end = first + 32;
  const int64_t row = end + static_cast<int64_t>(blockIdx.x) * 32, column = end + static_cast<int64_t>(blockIdx.y) * 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int j = warp; j < 32; j += warps) {
    left[lane][j] = row + lane < n ? a[row + lane + (first + j) * n] : number(T(), 0);
    right[lane][j] = column + j < n ? a[first + lane + (column + j) * n] : number(T(), 0);
  }
  __syncthreads();
  if (row + lane >= n) return;
  for (int j = warp; j < 32 && column + j < n; j += warps) {
    T x = a[row + lane + (column + j) * n];
    for (int k = 0; k < 32; ++k) x = difference(x, product(left[lane][k], right[k][j]));
    a[row + lane + (column + j) * n] = x;
  }
}
)cuda";

// What kernels that choose pivots share.
constexpr const char* kPivoting = R"cuda(
QUARRY_FN float weight(float x) { return x != x ? fn::infinity<float>() : fabsf(x); }
QUARRY_FN double weight(double x) { return x != x ? fn::infinity<double>() : fabs(x); }
template <class T> QUARRY_FN T weight(cx<T> x) { return weight(fabs(x.re) + fabs(x.im)); }
QUARRY_FN float inverse(float x) { return 1 / x; }
QUARRY_FN double inverse(double x) { return 1 / x; }
template <class T> QUARRY_FN cx<T> inverse(cx<T> x) {
  const T factor = 1 / extent(x);
  const cx<T> y = scaled(x, factor);
  return scaled(conj(y), factor / square(y));
}
// x - y z
QUARRY_FN float without(float x, float y, float z) { return math::fma(-y, z, x); }
QUARRY_FN double without(double x, double y, double z) { return math::fma(-y, z, x); }
template <class T> QUARRY_FN cx<T> without(cx<T> x, cx<T> y, cx<T> z) {
  return {math::fma(y.im, z.im, math::fma(-y.re, z.re, x.re)), math::fma(-y.im, z.re, math::fma(-y.re, z.im, x.im))};
}
// Larger sizes have larger keys, by `high` and then `low`; all have more than 0, 0.
QUARRY_FN void make_key(float size, uint32_t& high, uint32_t& low) {
  high = bit_copy<uint32_t>(size) + 1;
  low = 0;
}
QUARRY_FN void make_key(double size, uint32_t& high, uint32_t& low) {
  const uint64_t bits = bit_copy<uint64_t>(size);
  high = static_cast<uint32_t>(bits >> 32) + 1;
  low = static_cast<uint32_t>(bits);
}
QUARRY_FN uint32_t most_of_warp(uint32_t x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, x);
#else
  for (int step = 16; step > 0; step /= 2) {
    const uint32_t other = __shfl_xor_sync(0xffffffffu, x, step);
    if (other > x) x = other;
  }
  return x;
#endif
}
)cuda";

// Elimination with partial pivoting of square matrices of at most kSide rows in registers: L U and pivots as LAPACK, or
// by Gauss and Jordan the inverse. Thread (i, g) of a matrix holds kEach elements of row i, from column g kEach on; a
// block takes as many matrices as it has threads for. Rows stay where they are until the end: what is exchanged is
// their places. In every step the threads that hold the step's column have it in x[0] and move their elements on by
// one, so that the loop over steps need not be unrolled. NaN counts as the largest number, so that what it reaches
// becomes NaN.
constexpr const char* kEliminate = R"cuda(
struct Candidate {  // the larger ones come first, then those with more places behind them
  uint32_t high, low, behind;
  int row;
};
QUARRY_FN bool is_before(const Candidate& x, const Candidate& y) {
  if (x.high != y.high) return x.high > y.high;
  return x.low != y.low ? x.low > y.low : x.behind > y.behind;
}
template <class T, int kSide, bool kInvert> QUARRY_FN void eliminate(const Params& p) {
  constexpr int kMost = kSide > 64 ? 64 : 256 / sizeof(T), kEach = kSide < kMost ? kSide : kMost;
  constexpr int kRows = kSide < 32 ? 32 : kSide, kWarps = kRows / 32, kThreads = kRows * (kSide / kEach);
  constexpr int kMatrices = 256 / kThreads;
  __shared__ T columns[kMatrices][kRows], rows[kMatrices][kSide];
  __shared__ Candidate candidates[kMatrices][kWarps];
  __shared__ int orders[kMatrices][kSide];
  const int slot = threadIdx.x / kThreads, i = threadIdx.x % kRows, g = threadIdx.x % kThreads / kRows;
  T* const column = columns[slot];
  T* const row = rows[slot] + g * kEach;
  int* const order = orders[slot];  // the pivots' rows
  const int64_t count = p.s[4];
  const int n = static_cast<int>(p.s[5]);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kMatrices; first < count;
       first += static_cast<int64_t>(gridDim.x) * kMatrices) {
    const int64_t matrix = first + slot;
    const bool valid = matrix < count;
    const T* const a = reinterpret_cast<const T*>(p.s[0]) + matrix * n * n;
    T x[kEach];
#pragma unroll
    for (int m = 0; m < kEach; ++m) {
      const int j = g * kEach + m;
      x[m] = valid && i < n && j < n ? a[i + j * n] : number(T(), 0);
    }
    bool waits = valid && i < n;  // was no pivot's row yet
    int place = i, failed = 0;
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
      const int owner = k / kEach, moves = k % kEach;
      if (g == owner) {
        column[i] = x[0];
        uint32_t high = 0, low = 0;
        if (waits) make_key(weight(x[0]), high, low);
        const uint32_t most_high = most_of_warp(high);
        const uint32_t most_low = sizeof(Real<T>) == 4 ? 0 : most_of_warp(high == most_high ? low : 0);
        const bool most = waits && high == most_high && low == most_low;
        const uint32_t behind = most ? kSide - place : 0, most_behind = most_of_warp(behind);
        // One lane's, or no row waits.
        if (most_behind == 0 ? i % 32 == 0 : behind == most_behind)
          candidates[slot][i / 32] = {most_high, most_low, most_behind, i};
      }
      __syncthreads();
      Candidate pivot = candidates[slot][0];
#pragma unroll
      for (int w = 1; w < kWarps; ++w)
        if (is_before(candidates[slot][w], pivot)) pivot = candidates[slot][w];
      const bool zero = pivot.high <= 1 && pivot.low == 0;
      if (zero && failed == 0) failed = k + 1;
      const T factor = zero ? number(T(), 0) : inverse(column[pivot.row]);
      T multiple = product(column[i], factor);
      const int pivot_place = kSide - static_cast<int>(pivot.behind);
      if (i == pivot.row) {
#pragma unroll
        for (int m = 0; m < kEach; ++m) {
          // What is L already is not changed any more.
          row[m] = !kInvert && g == owner && m + moves >= kEach ? number(T(), 0) : x[m];
          if (kInvert) x[m] = number(T(), 0);  // to become the row times the factor
        }
        if (kInvert) multiple = difference(number(T(), 0), factor);
        if (g == 0) {
          order[k] = i;
          if (!kInvert && valid) reinterpret_cast<int32_t*>(p.s[2])[matrix * n + k] = pivot_place + 1;
        }
        waits = false;
        place = k;
      } else if (place == k) {
        place = pivot_place;
      }
      __syncthreads();
      if (kInvert || waits) {
        if (g == owner) {
#pragma unroll
          for (int m = 1; m < kEach; ++m) x[m - 1] = without(x[m], multiple, row[m]);
          x[kEach - 1] = kInvert ? difference(number(T(), 0), multiple) : multiple;
        } else if (kInvert || g > owner) {
#pragma unroll
          for (int m = 0; m < kEach; ++m) x[m] = without(x[m], multiple, row[m]);
        }
      }
    }
    if (valid && threadIdx.x % kThreads == 0) reinterpret_cast<int32_t*>(p.s[3])[matrix] = failed;
    // How far the elements have moved: in every step of this group's columns, of L U until the row was the pivot's.
    const int steps = (kInvert ? n : place) - g * kEach, moved = steps < 0 ? 0 : steps < kEach ? steps : kEach;
    T* const out = reinterpret_cast<T*>(p.s[1]) + matrix * n * n;
#pragma unroll
    for (int m = 0; m < kEach; ++m) {
      const int j = g * kEach + (m + moved) % kEach;
      // Exchanged rows of a matrix are exchanged columns of its inverse.
      if (valid && i < n && j < n) out[place + (kInvert ? order[j] : j) * n] = x[m];
    }
  }
}
// op(A) x = b from L U and pivots: 0 none, 1 transpose, 2 conjugate transpose. A block takes a matrix, into shared memory,
// and each of its warps a side; lane l holds the rows l, l + 32.
template <class T, int kSide> QUARRY_FN void solve(const Params& p) {
  constexpr int kEach = kSide / 32, kWarps = 8;
  __shared__ T lu[kSide][kSide + 1];  // column, row
  __shared__ T inverses[kSide];       // of U's diagonal
  __shared__ int order[kSide];        // of the rows, exchanged
  const int n = static_cast<int>(p.s[4]), lane = threadIdx.x % 32;
  const int64_t sides = p.s[5];
  const bool transpose = p.s[6] != 0, conjugate = p.s[6] == 2;
  for (int64_t matrix = blockIdx.x; matrix < p.s[3]; matrix += gridDim.x) {
    const T* const a = reinterpret_cast<const T*>(p.s[0]) + matrix * n * n;
    const int32_t* const pivots = reinterpret_cast<const int32_t*>(p.s[1]) + matrix * n;
    for (int e = threadIdx.x; e < n * n; e += 256) lu[e / n][e % n] = conjugate ? conj(a[e]) : a[e];
    if (threadIdx.x == 255) {
      for (int i = 0; i < n; ++i) order[i] = i;
      for (int k = 0; k < n; ++k) {
        const int other = pivots[k] - 1;
        if (other < k || other >= n) continue;  // NaN can leave anything
        const int row = order[k];
        order[k] = order[other];
        order[other] = row;
      }
    }
    __syncthreads();
    if (threadIdx.x < n) inverses[threadIdx.x] = inverse(lu[threadIdx.x][threadIdx.x]);
    __syncthreads();
    for (int64_t side = threadIdx.x / 32; side < sides; side += kWarps) {
      T* const b = reinterpret_cast<T*>(p.s[2]) + (matrix * sides + side) * n;
      T x[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int i = lane + e * 32;
        x[e] = i < n ? b[transpose ? i : order[i]] : number(T(), 0);
      }
      // L x = b, or U^T x = b; then U x = b, or L^T x = b.
      for (int step = 0; step < 2 * n; ++step) {
        const bool forwards = step < n;
        const int k = forwards ? step : 2 * n - 1 - step;
        T known = from_lane(kEach > 1 && k >= 32 ? x[kEach - 1] : x[0], k % 32);
        if (forwards == transpose) known = product(known, inverses[k]);
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          const int i = lane + e * 32;
          if (i == k)
            x[e] = known;
          else if (i < n && (i > k) == forwards)
            x[e] = without(x[e], transpose ? lu[i][k] : lu[k][i], known);
        }
      }
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int i = lane + e * 32;
        if (i < n) b[transpose ? order[i] : i] = x[e];
      }
    }
    __syncthreads();
  }
}
// Shared memory is too small for 64 rows of 16-byte elements.
template <class T> QUARRY_FN void solve_64(const Params& p) { solve<T, (sizeof(T) > 8 ? 32 : 64)>(p); }
template <class T> QUARRY_FN void solve_32(const Params& p) { solve<T, 32>(p); }
template <class T> QUARRY_FN void invert_128(const Params& p) { eliminate<T, 128, true>(p); }
template <class T> QUARRY_FN void invert_64(const Params& p) { eliminate<T, 64, true>(p); }
template <class T> QUARRY_FN void invert_32(const Params& p) { eliminate<T, 32, true>(p); }
template <class T> QUARRY_FN void invert_16(const Params& p) { eliminate<T, 16, true>(p); }
template <class T> QUARRY_FN void factor_128(const Params& p) { eliminate<T, 128, false>(p); }
template <class T> QUARRY_FN void factor_64(const Params& p) { eliminate<T, 64, false>(p); }
template <class T> QUARRY_FN void factor_32(const Params& p) { eliminate<T, 32, false>(p); }
template <class T> QUARRY_FN void factor_16(const Params& p) { eliminate<T, 16, false>(p); }
)cuda";

struct Family {
  std::vector<const char*> texts;
  std::vector<const char*> templates;  // of the element's type; none: the text has its kernel
  // Threads of a block at most, and blocks of a multiprocessor at least: without them the compiler saves registers.
  const char* bounds = "512";
};
Family family_of(SmallMatrices kernels, DType dtype) {
  // As many blocks as shared memory holds.
  const int64_t item = itemsize(dtype);
  const auto panels = [&](const char* kernel, const char* bounds) {
    return Family{{kPivoting, small_loading_text, small_panels_text}, {kernel}, bounds};
  };
  const auto cholesky = [&](const char* kernel, const char* bounds) {
    return Family{{kPivoting, small_loading_text, small_cholesky_text}, {kernel}, bounds};
  };
  const auto warp_jacobi = [](const char* with_vectors, const char* without, const char* bounds) {
    return Family{{kLimits, small_warps_text, small_warp_jacobi_text}, {with_vectors, without}, bounds};
  };
  const char* const bounds_32 = item == 16 ? "32, 12" : "32, 20";
  const char* const bounds_64 = item == 16 ? "64, 3" : item == 8 ? "64, 6" : "64, 12";
  const char* const bounds_128 = item == 16 ? "128, 1" : item == 8 ? "128, 3" : "128, 5";
  switch (kernels) {
    case SmallMatrices::form_q:
      return {{kFormQ}, {"form"}};
    case SmallMatrices::jacobi:
      return {{kLimits, kJacobi}, {"jacobi"}};
    case SmallMatrices::lu:
      return {{kLu}, {"lu"}};
    case SmallMatrices::row_order:
      return {{kRowOrder}, {}};
    case SmallMatrices::signs:
      return {{kSigns}, {"panel", "update"}};
    case SmallMatrices::invert:
      return {{kPivoting, kEliminate}, {"invert_64", "invert_32", "invert_16"}, "256, 2"};
    case SmallMatrices::invert_larger:
      return {{kPivoting, kEliminate}, {"invert_128"}, "256"};
    case SmallMatrices::factor_larger:
      return {{kPivoting, kEliminate}, {"factor_128"}, "256"};
    case SmallMatrices::solve:
      return {{kPivoting, kEliminate}, {"solve_64", "solve_32"}, "256"};
    case SmallMatrices::factor:
      return {{kPivoting, kEliminate}, {"factor_64", "factor_32", "factor_16"}, "256, 2"};
    case SmallMatrices::factors_32:
      return panels("factors_32", bounds_32);
    case SmallMatrices::factors_64:
      return panels("factors_64", bounds_64);
    case SmallMatrices::factors_128:
      return panels("factors_128", bounds_128);
    case SmallMatrices::solution_32:
      return panels("solution_32", bounds_32);
    case SmallMatrices::solution_64:
      return panels("solution_64", bounds_64);
    case SmallMatrices::solution_128:
      return panels("solution_128", bounds_128);
    case SmallMatrices::logarithm_32:
      return panels("logarithm_32", bounds_32);
    case SmallMatrices::logarithm_64:
      return panels("logarithm_64", bounds_64);
    case SmallMatrices::logarithm_128:
      return panels("logarithm_128", bounds_128);
    case SmallMatrices::cholesky_32:
      return cholesky("cholesky_32", bounds_32);
    case SmallMatrices::cholesky_64:
      return cholesky("cholesky_64", bounds_64);
    case SmallMatrices::cholesky_128:
      return cholesky("cholesky_128", bounds_128);
    case SmallMatrices::warp_jacobi_8:
      return warp_jacobi("vectors_8", "values_8", "64, 8");
    case SmallMatrices::warp_jacobi_16:
      return warp_jacobi("vectors_16", "values_16", "64, 8");
    case SmallMatrices::warp_jacobi_32:
      return warp_jacobi("vectors_32", "values_32", item == 4 ? "64, 8" : "64, 4");
    case SmallMatrices::warp_eigh_16:
      return {{kLimits, small_warps_text, small_warp_eigh_text}, {"eigh_vectors_16", "eigh_values_16"}, "64, 8"};
    case SmallMatrices::warp_eigh_32:
      return {{kLimits, small_warps_text, small_warp_eigh_text},
              {"eigh_vectors_32", "eigh_values_32"},
              item == 4 ? "64, 8" : "64, 4"};
  }
  __builtin_unreachable();
}
const char* type_of(DType dtype) {
  if (dtype == DType::float32) return "float";
  if (dtype == DType::float64) return "double";
  return dtype == DType::complex64 ? "cx<float>" : "cx<double>";
}
}  // namespace

const Module& module_of(SmallMatrices kernels, DType dtype, const CudaStream& stream) {
  return module_cache().get(fmt::format("small_matrices {} {}", static_cast<int>(kernels), name(dtype)),
                            stream.device().index, [=] { return small_matrices_source(kernels, dtype); });
}

ModuleSource small_matrices_source(SmallMatrices kernels, DType dtype) {
  const Family family = family_of(kernels, dtype);
  ModuleSource source{kArithmetic, {}};
  for (const char* text : family.texts) source.text += text;
  for (const char* kernel : family.templates) {
    source.kernels.push_back(fmt::format("run_{}", kernel));
    source.text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({2}) run_{0}(const __grid_constant__ Params p) {{ {0}<{1}>(p); "
        "}}\n",
        kernel, type_of(dtype), family.bounds);
  }
  if (family.templates.empty()) source.kernels.emplace_back("row_order");
  source.text += "}\n";
  return source;
}

void form_q(const FormQ& task, const void* factors, CudaStream& stream) {
  const int64_t columns = task.a.count * task.a.columns;
  std::vector<int64_t> slots = {address(factors), address(task.tau), address(task.a.data), task.a.count,
                                task.a.rows,      task.a.columns,    task.reflectors,      task.tau_step};
  slots.resize(kSmallSlots);
  constexpr int kThreads = 256;
  constexpr int64_t kColumnsPerBlock = kThreads / 32, kMostBlocks = 1 << 20;
  const int64_t blocks = std::clamp<int64_t>((columns + kColumnsPerBlock - 1) / kColumnsPerBlock, 1, kMostBlocks);
  launch_kernel(module_of(SmallMatrices::form_q, task.dtype, stream).kernel(0), blocks, 1, kThreads, slots, stream);
}

void jacobi_svd(const Svd& task, void* work, int32_t* incomplete, CudaStream& stream) {
  const int64_t n = task.a.columns;
  std::vector<int64_t> slots = {
      address(task.a.data), address(task.values), address(task.u.data), address(task.vh.data), address(work),
      address(task.info),   address(incomplete),  task.a.count,         task.a.rows,           n,
      task.u.elements()};
  slots.resize(kSmallSlots);
  constexpr int64_t kLeastThreads = 64, kMostThreads = 512, kMostBlocks = 1 << 20;
  const int64_t threads = std::clamp((n + 1) / 2 * 32, kLeastThreads, kMostThreads);
  launch_kernel(module_of(SmallMatrices::jacobi, task.dtype, stream).kernel(0), std::min(task.a.count, kMostBlocks), 1,
                static_cast<int>(threads), slots, stream);
}

void lu_of_stack(const Lu& task, CudaStream& stream) {
  std::vector<int64_t> slots = {address(task.a.data), address(task.pivots), address(task.info),
                                task.a.count,         task.a.rows,          task.a.columns};
  slots.resize(kSmallSlots);
  constexpr int kThreads = 256;
  constexpr int64_t kMostBlocks = 1 << 20;
  launch_kernel(module_of(SmallMatrices::lu, task.dtype, stream).kernel(0), std::min(task.a.count, kMostBlocks), 1,
                kThreads, slots, stream);
}

namespace {

void eliminate(SmallMatrices kernels, DType dtype, const MatrixStack& a, const MatrixStack& out, int32_t* pivots,
               int32_t* info, CudaStream& stream) {
  const int64_t n = a.rows;
  std::vector<int64_t> slots = {address(a.data), address(out.data), address(pivots), address(info), a.count, n};
  slots.resize(kSmallSlots);
  constexpr int64_t kThreads = 256, kMostBlocks = 1 << 20, kMostBytes = 256;  // of a row in a thread
  const int64_t side = n > 64 ? 128 : n > 32 ? 64 : n > 16 ? 32 : 16;
  const int64_t threads =
      n > 64 ? kThreads : std::max<int64_t>(32, side * std::max<int64_t>(1, side * itemsize(dtype) / kMostBytes));
  const int64_t blocks = (a.count * threads + kThreads - 1) / kThreads;
  const size_t kernel = n > 32 ? 0 : n > 16 ? 1 : 2;
  launch_kernel(module_of(kernels, dtype, stream).kernel(kernel), std::min(blocks, kMostBlocks), 1,
                static_cast<int>(kThreads), slots, stream);
}

}  // namespace

void invert_small(const Inverse& task, CudaStream& stream) {
  eliminate(task.a.rows > 64 ? SmallMatrices::invert_larger : SmallMatrices::invert, task.dtype, task.a, task.out,
            nullptr, task.info, stream);
}

void factor_small(const Lu& task, CudaStream& stream) {
  eliminate(task.a.rows > 64 ? SmallMatrices::factor_larger : SmallMatrices::factor, task.dtype, task.a, task.a,
            task.pivots, task.info, stream);
}

void solve_small(const LuSolve& task, CudaStream& stream) {
  std::vector<int64_t> slots = {address(task.lu.data), address(task.pivots), address(task.b.data),         task.b.count,
                                task.lu.rows,          task.b.columns,       static_cast<int64_t>(task.op)};
  slots.resize(kSmallSlots);
  constexpr int kThreads = 256;
  constexpr int64_t kMostBlocks = 1 << 20;
  const size_t kernel = task.lu.rows > 32 ? 0 : 1;
  launch_kernel(module_of(SmallMatrices::solve, task.dtype, stream).kernel(kernel), std::min(task.b.count, kMostBlocks),
                1, kThreads, slots, stream);
}

void row_order(const RowOrder& task, CudaStream& stream) {
  std::vector<int64_t> slots = {address(task.pivots), address(task.order), task.count, task.swaps, task.rows};
  slots.resize(kSmallSlots);
  constexpr int kThreads = 256;
  constexpr int64_t kMostBlocks = 1 << 20;
  launch_kernel(module_of(SmallMatrices::row_order, DType::int64, stream).kernel(0), std::min(task.count, kMostBlocks),
                1, kThreads, slots, stream);
}

void reflection_signs(const ReflectionSigns& task, CudaStream& stream) {
  constexpr int64_t kThreads = 256, kWidth = 32;
  const Module& module = module_of(SmallMatrices::signs, task.dtype, stream);
  const int64_t n = task.a.rows;
  for (int64_t p = 0; p < task.a.count; ++p) {
    for (int64_t first = 0; first < n; first += kWidth) {
      std::vector<int64_t> slots = {address(task.a.data) + p * n * n * itemsize(task.dtype),
                                    address(task.signs) + p * n * itemsize(real_type(task.dtype)), n, first};
      slots.resize(kSmallSlots);
      const int64_t rest = std::max<int64_t>(0, n - first - kWidth), tiles = (rest + kWidth - 1) / kWidth;
      launch_kernel(module.kernel(0), std::max<int64_t>(1, (2 * rest + kThreads - 1) / kThreads), 1, kThreads, slots,
                    stream);
      if (rest > 0) launch_kernel(module.kernel(1), tiles, tiles, kThreads, slots, stream);
    }
  }
}

}  // namespace quarry::local::cuda
