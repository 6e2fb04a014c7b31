// Singular values of small matrices in registers.
#include <algorithm>
#include <vector>

#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/small_families.h"
#include "quarry/local/cuda/small_matrices.h"

namespace quarry::local::cuda {

// What Jacobi's method in a warp's registers shares. Groups of eight lanes hold kSide / 8 pairs of columns each.
const char* const small_warps_text = R"cuda(
QUARRY_FN uint32_t any_of_warp(bool x) {
#if defined(__CUDA_ARCH__)
  return __any_sync(0xffffffffu, x);
#else
  uint32_t any = x;
  for (int step = 16; step > 0; step /= 2) any |= __shfl_xor_sync(0xffffffffu, any, step);
  return any;
#endif
}
// before + |x|^2, before + conj(x) y
QUARRY_FN float with_square(float before, float x) { return math::fma(x, x, before); }
QUARRY_FN double with_square(double before, double x) { return math::fma(x, x, before); }
template <class T> QUARRY_FN T with_square(T before, cx<T> x) {
  return math::fma(x.re, x.re, math::fma(x.im, x.im, before));
}
QUARRY_FN float with_product(float before, float x, float y) { return math::fma(x, y, before); }
QUARRY_FN double with_product(double before, double x, double y) { return math::fma(x, y, before); }
template <class T> QUARRY_FN cx<T> with_product(cx<T> before, cx<T> x, cx<T> y) {
  return {math::fma(x.re, y.re, math::fma(x.im, y.im, before.re)),
          math::fma(x.re, y.im, math::fma(-x.im, y.re, before.im))};
}
// A rotation of two columns: the tangent's sign is in s; complex ones turn the second column first.
template <class T> struct Rotation { T c, s; };
template <class T> struct Rotation<cx<T>> { T c, s; cx<T> phase; };
QUARRY_FN void turn(float& x, float& y, const Rotation<float>& by) {
  const float p = x, q = y;
  x = math::fma(by.c, p, -(by.s * q)), y = math::fma(by.s, p, by.c * q);
}
QUARRY_FN void turn(double& x, double& y, const Rotation<double>& by) {
  const double p = x, q = y;
  x = math::fma(by.c, p, -(by.s * q)), y = math::fma(by.s, p, by.c * q);
}
template <class T> QUARRY_FN void turn(cx<T>& x, cx<T>& y, const Rotation<cx<T>>& by) {
  const cx<T> p = x, q = product(y, by.phase);
  x = {math::fma(by.c, p.re, -(by.s * q.re)), math::fma(by.c, p.im, -(by.s * q.im))};
  y = {math::fma(by.s, p.re, by.c * q.re), math::fma(by.s, p.im, by.c * q.im)};
}
template <class T> QUARRY_FN Rotation<T> from_lane(const Rotation<T>& own, int lane) {
  return {from_lane(own.c, lane), from_lane(own.s, lane)};
}
template <class T> QUARRY_FN Rotation<cx<T>> from_lane(const Rotation<cx<T>>& own, int lane) {
  return {from_lane(own.c, lane), from_lane(own.s, lane), from_lane(own.phase, lane)};
}
template <class R> QUARRY_FN R tangent(R zeta) {
  const R steepness = extent(zeta);
  const R t = 1 / (steepness > limits<R>::steep() ? 2 * steepness : steepness + root(1 + zeta * zeta));
  return zeta < 0 ? -t : t;
}
QUARRY_FN Rotation<float> rotation_of(float xx, float yy, float xy, float) {
  const float t = tangent((yy - xx) / (2 * xy)), c = 1 / root(1 + t * t);
  return {c, c * t};
}
QUARRY_FN Rotation<double> rotation_of(double xx, double yy, double xy, double) {
  const double t = tangent((yy - xx) / (2 * xy)), c = 1 / root(1 + t * t);
  return {c, c * t};
}
template <class T> QUARRY_FN Rotation<cx<T>> rotation_of(T xx, T yy, cx<T> xy, T size) {
  const T t = tangent((yy - xx) / (2 * size)), c = 1 / root(1 + t * t);
  return {c, c * t, scaled(conj(xy), 1 / size)};
}
QUARRY_FN Rotation<float> no_rotation(float) { return {1, 0}; }
QUARRY_FN Rotation<double> no_rotation(double) { return {1, 0}; }
template <class T> QUARRY_FN Rotation<cx<T>> no_rotation(cx<T>) { return {1, 0, {1, 0}}; }
// Sums over the eight lanes of a group, of kCount numbers per lane: lane l gets that of number l kCount / 8.
template <class T, int kCount> QUARRY_FN T group_sum(const T (&given)[kCount]) {
  T x[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = given[i];
  int held = kCount;
#pragma unroll
  for (int step = 4; step > 0; step /= 2) {
    if (held > 1) {
      held /= 2;
      const bool upper = (threadIdx.x & static_cast<unsigned>(step)) != 0;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        if (i >= held) continue;
        const T other = across(upper ? x[i] : x[i + held], step);
        x[i] = sum(upper ? x[i + held] : x[i], other);
      }
    } else {
      x[0] = sum(x[0], across(x[0], step));
    }
  }
  return x[0];
}
// One step of a tournament: pairs (top, bottom), kHeld of them in each place `at` from 0 to `end`, of which lanes
// `before` and `behind` hold the neighbours. The first of all stays, the others go round: after one step less than
// there are numbers all are where they were, and each has met each.
template <class T, int kHeld>
QUARRY_FN void hand_on(T (&top)[kHeld], T (&bottom)[kHeld], int at, int end, int before, int behind) {
  const T next = bottom[0], last = top[kHeld - 1];
  const T below = from_lane(kHeld == 1 && at == 0 ? next : last, before), above = from_lane(next, behind);
#pragma unroll
  for (int s = kHeld - 1; s > 0; --s)
    if (s > 1 || at > 0) top[s] = top[s - 1];
  if (kHeld > 1 && at == 0) top[kHeld > 1 ? 1 : 0] = next;
  if (at > 0) top[0] = below;
#pragma unroll
  for (int s = 0; s + 1 < kHeld; ++s) bottom[s] = bottom[s + 1];
  bottom[kHeld - 1] = at == end ? last : above;
}
// The same for pairs of columns, in four groups of eight lanes.
template <class T, int kPairs, int kEach> QUARRY_FN void hand_on_columns(T (&x)[kPairs][2][kEach]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    T top[kPairs], bottom[kPairs];
#pragma unroll
    for (int s = 0; s < kPairs; ++s) top[s] = x[s][0][e], bottom[s] = x[s][1][e];
    hand_on(top, bottom, lane / 8, 3, (lane + 24) % 32, (lane + 8) % 32);
#pragma unroll
    for (int s = 0; s < kPairs; ++s) x[s][0][e] = top[s], x[s][1][e] = bottom[s];
  }
}
// The power of 2 that brings a warp's largest number to about 1.
template <class R> QUARRY_FN int warp_power(R largest) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const R other = across(largest, step);
    if (other > largest) largest = other;
  }
  if (largest == 0) return 0;
  constexpr int kMost = limits<R>::kMostPower;
  const int power = -ilogb(static_cast<double>(largest));
  return power > kMost ? kMost : power < -kMost ? -kMost : power;
}
)cuda";

// One-sided Jacobi as in kJacobi, with the whole matrix, and v, in the registers of a warp. Groups of eight lanes hold
// kSide / 8 pairs of columns each, lane l of a group their elements l, l + 8, ...; a tournament hands columns on (the
// first one stays, the others go round), so that after a sweep all are where they were. The sums of a group's pairs are
// shared out on its lanes, so that each works out one rotation.
const char* const small_warp_jacobi_text = R"cuda(
template <class T, int kSide, bool kVectors> QUARRY_FN void warp_jacobi(const Params& p) {
  using R = Real<T>;
  constexpr int kPairs = kSide / 8, kEach = kSide / 8, kMostSweeps = 60, kMostWarps = 8;
  __shared__ R all_lengths[kMostWarps][kSide];
  R* const lengths = all_lengths[threadIdx.x / 32];
  const int64_t count = p.s[7];
  const int rows = static_cast<int>(p.s[8]), n = static_cast<int>(p.s[9]);
  const int lane = threadIdx.x % 32, group = lane / 8, l = lane % 8, first = group * kPairs;
  const int own = lane & 24;  // the group's first lane
  const R tolerance = limits<R>::epsilon() * root(static_cast<R>(rows));
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / 32);
  for (int64_t matrix = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; matrix < count;
       matrix += warps) {
    const T* const a = reinterpret_cast<const T*>(p.s[0]) + matrix * rows * n;
    T x[kPairs][2][kEach], v[kVectors ? kPairs : 1][2][kEach];
    R largest = 0;
#pragma unroll
    for (int s = 0; s < kPairs; ++s)
#pragma unroll
      for (int side = 0; side < 2; ++side)
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          const int i = l + 8 * e, j = 2 * (first + s) + side;
          x[s][side][e] = i < rows && j < n ? a[j * rows + i] : number(T(), 0);
          if (kVectors) v[kVectors ? s : 0][side][e] = number(T(), i == j);
          const R size = extent(x[s][side][e]);
          if (size > largest) largest = size;
        }
    const int power = warp_power(largest);
    const R factor = shifted(static_cast<R>(1), power);
#pragma unroll
    for (int s = 0; s < kPairs; ++s)
#pragma unroll
      for (int side = 0; side < 2; ++side)
#pragma unroll
        for (int e = 0; e < kEach; ++e) x[s][side][e] = scaled(x[s][side][e], factor);
    bool done = n < 2;
#pragma unroll 1
    for (int sweep = 0; sweep < kMostSweeps && !done; ++sweep) {
      bool turned = false;
#pragma unroll 1
      for (int round = 0; round < kSide - 1; ++round) {
        R xx[kPairs], yy[kPairs];
        T xy[kPairs];
#pragma unroll
        for (int s = 0; s < kPairs; ++s) {
          xx[s] = 0, yy[s] = 0, xy[s] = number(T(), 0);
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            xx[s] = with_square(xx[s], x[s][0][e]);
            yy[s] = with_square(yy[s], x[s][1][e]);
            xy[s] = with_product(xy[s], x[s][0][e], x[s][1][e]);
          }
        }
        // Of one pair.
        const R left = group_sum(xx), right = group_sum(yy);
        const T both = group_sum(xy);
        const R size = length(both);
        const bool turns = left > limits<R>::least_square() && right > limits<R>::least_square() &&
                           size > tolerance * (root(left) * root(right));
        if (any_of_warp(turns)) {
          const Rotation<T> mine = turns ? rotation_of(left, right, both, size) : no_rotation(T());
#pragma unroll
          for (int s = 0; s < kPairs; ++s) {
            const Rotation<T> by = from_lane(mine, own + s * (8 / kPairs));
#pragma unroll
            for (int e = 0; e < kEach; ++e) {
              turn(x[s][0][e], x[s][1][e], by);
              if (kVectors) turn(v[kVectors ? s : 0][0][e], v[kVectors ? s : 0][1][e], by);
            }
          }
          turned = true;
        }
        hand_on_columns(x);
        if constexpr (kVectors) hand_on_columns(v);
      }
      done = !turned;
    }
    // The lengths of the columns, their order.
    R squares[2 * kPairs];
#pragma unroll
    for (int s = 0; s < kPairs; ++s)
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        squares[2 * s + side] = 0;
#pragma unroll
        for (int e = 0; e < kEach; ++e) squares[2 * s + side] = with_square(squares[2 * s + side], x[s][side][e]);
      }
    const int column = 2 * first + l * kPairs / 4;  // this lane's
    const R squared = group_sum(squares);
    const R size = squared > limits<R>::least_square() ? root(squared) : 0;
    lengths[column] = size;
    __syncwarp();
    int place = 0;
    for (int i = 0; i < n; ++i) place += lengths[i] > size || (lengths[i] == size && i < column);
    if (column < n && l % (4 / kPairs) == 0) {
      reinterpret_cast<R*>(p.s[1])[matrix * n + place] = shifted(size, -power);
      if (size == 0) *reinterpret_cast<int32_t*>(p.s[6]) = 1;
    }
    if (kVectors) {
      T* const u = reinterpret_cast<T*>(p.s[2]) + matrix * p.s[10];
      T* const vh = reinterpret_cast<T*>(p.s[3]) + matrix * n * n;
#pragma unroll
      for (int s = 0; s < kPairs; ++s)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int from = own + (2 * s + side) * (4 / kPairs), j = 2 * (first + s) + side;
          const R of = from_lane(size, from);
          const int to = __shfl_sync(0xffffffffu, place, from);
          const R inverse = of == 0 ? 0 : 1 / of;
#pragma unroll
          for (int e = 0; e < kEach; ++e) {
            const int i = l + 8 * e;
            if (j < n && i < rows) u[to * rows + i] = of == 0 ? number(T(), 0) : scaled(x[s][side][e], inverse);
            if (j < n && i < n) vh[to + i * n] = conj(v[kVectors ? s : 0][side][e]);
          }
        }
    }
    if (lane == 0) reinterpret_cast<int32_t*>(p.s[5])[matrix] = done ? 0 : 1;
    __syncwarp();
  }
}
template <class T, int kSide> QUARRY_FN void warp_vectors(const Params& p) { warp_jacobi<T, kSide, true>(p); }
template <class T, int kSide> QUARRY_FN void warp_values(const Params& p) { warp_jacobi<T, kSide, false>(p); }
template <class T> QUARRY_FN void vectors_8(const Params& p) { warp_vectors<T, 8>(p); }
template <class T> QUARRY_FN void vectors_16(const Params& p) { warp_vectors<T, 16>(p); }
template <class T> QUARRY_FN void vectors_32(const Params& p) { warp_vectors<T, 32>(p); }
template <class T> QUARRY_FN void values_8(const Params& p) { warp_values<T, 8>(p); }
template <class T> QUARRY_FN void values_16(const Params& p) { warp_values<T, 16>(p); }
template <class T> QUARRY_FN void values_32(const Params& p) { warp_values<T, 32>(p); }
)cuda";

// Two-sided Jacobi (Jacobi 1846): rotations of pairs of rows and columns until what is not on the diagonal is as good
// as 0, so that V^H a V = diag(values). A warp holds a matrix and V in registers, columns as above; rows too go round
// in a tournament, so that the pair of columns q always meets the pair of rows q. Lane l of a group holds the pairs of
// rows from l kSide / 16 on, and works out the rotations of those whose columns its group has.
const char* const small_warp_eigh_text = R"cuda(
QUARRY_FN float from_real(float x, float) { return x; }
QUARRY_FN double from_real(double x, double) { return x; }
template <class T> QUARRY_FN cx<T> from_real(T x, cx<T>) { return {x, 0}; }
template <class T> QUARRY_FN Rotation<T> of_rows(const Rotation<T>& of_columns) { return of_columns; }
template <class T> QUARRY_FN Rotation<cx<T>> of_rows(const Rotation<cx<T>>& of_columns) {
  return {of_columns.c, of_columns.s, conj(of_columns.phase)};
}
// What a rotation takes from the first number on the diagonal and gives to the second one.
QUARRY_FN float moved(const Rotation<float>& by, float xy) { return by.s / by.c * xy; }
QUARRY_FN double moved(const Rotation<double>& by, double xy) { return by.s / by.c * xy; }
template <class T> QUARRY_FN T moved(const Rotation<cx<T>>& by, cx<T> xy) { return by.s / by.c * length(xy); }

template <class T, int kSide, bool kVectors> QUARRY_FN void warp_eigh(const Params& p) {
  using R = Real<T>;
  constexpr int kPairs = kSide / 8, kRowPairs = kSide / 16, kEach = kSide / 8, kMostSweeps = 60, kMostWarps = 8;
  __shared__ R all_values[kMostWarps][kSide];
  R* const found = all_values[threadIdx.x / 32];
  const int64_t count = p.s[3];
  const int n = static_cast<int>(p.s[4]);
  const bool lower = p.s[5] != 0;
  const int lane = threadIdx.x % 32, group = lane / 8, l = lane % 8, own = lane & 24;
  // Of this lane's pairs of rows, the columns that its group has: those of slots from `corner` kRowPairs on.
  const int corner = l - 2 * group;
  const bool has_corner = corner == 0 || corner == 1;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / 32);
  for (int64_t matrix = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; matrix < count;
       matrix += warps) {
    T* const a = reinterpret_cast<T*>(p.s[0]) + matrix * n * n;
    // [slot][column of the pair][row: pair, row of the pair]
    T x[kPairs][2][2 * kRowPairs], v[kVectors ? kPairs : 1][2][kEach];
    R largest = 0;
#pragma unroll
    for (int s = 0; s < kPairs; ++s)
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const int j = 2 * (group * kPairs + s) + side;
#pragma unroll
        for (int e = 0; e < 2 * kRowPairs; ++e) {
          const int i = 2 * l * kRowPairs + e;
          T element = number(T(), 0);
          if (i < n && j < n) element = (i >= j) == lower || i == j ? a[j * n + i] : conj(a[i * n + j]);
          if (i == j) element = from_real(real_part(element), T());
          x[s][side][e] = element;
          const R size = extent(element);
          if (size > largest) largest = size;
        }
        if (kVectors) {
#pragma unroll
          for (int e = 0; e < kEach; ++e) v[kVectors ? s : 0][side][e] = number(T(), l + 8 * e == j);
        }
      }
    const int power = warp_power(largest);
    const R factor = shifted(static_cast<R>(1), power);
    R squares = 0;
#pragma unroll
    for (int s = 0; s < kPairs; ++s)
#pragma unroll
      for (int side = 0; side < 2; ++side)
#pragma unroll
        for (int e = 0; e < 2 * kRowPairs; ++e) {
          x[s][side][e] = scaled(x[s][side][e], factor);
          squares = with_square(squares, x[s][side][e]);
        }
    // All that is not on the diagonal together: epsilon times the matrix.
    const R tolerance = limits<R>::epsilon() * root(warp_sum(squares)) / static_cast<R>(n);
    bool done = n < 2;
#pragma unroll 1
    for (int sweep = 0; sweep < kMostSweeps && !done; ++sweep) {
      bool turned = false;
#pragma unroll 1
      for (int round = 0; round < kSide - 1; ++round) {
        Rotation<T> mine[kRowPairs];
        R first[kRowPairs], second[kRowPairs];
        bool turns[kRowPairs], any = false;
#pragma unroll
        for (int t = 0; t < kRowPairs; ++t) {
          const int high = kRowPairs + t;
          const R left = real_part(corner == 1 ? x[high][0][2 * t] : x[t][0][2 * t]);
          const R right = real_part(corner == 1 ? x[high][1][2 * t + 1] : x[t][1][2 * t + 1]);
          const T both = corner == 1 ? x[high][1][2 * t] : x[t][1][2 * t];
          const R size = length(both);
          turns[t] = has_corner && size > tolerance;
          mine[t] = turns[t] ? rotation_of(left, right, both, size) : no_rotation(T());
          const R change = turns[t] ? moved(mine[t], both) : 0;
          first[t] = left - change, second[t] = right + change;
          any = any || turns[t];
        }
        if (any_of_warp(any)) {
#pragma unroll
          for (int s = 0; s < kPairs; ++s) {
            const Rotation<T> by = from_lane(mine[s % kRowPairs], own + 2 * group + s / kRowPairs);
#pragma unroll
            for (int e = 0; e < 2 * kRowPairs; ++e) turn(x[s][0][e], x[s][1][e], by);
            if (kVectors) {
#pragma unroll
              for (int e = 0; e < kEach; ++e) turn(v[kVectors ? s : 0][0][e], v[kVectors ? s : 0][1][e], by);
            }
          }
#pragma unroll
          for (int t = 0; t < kRowPairs; ++t) {
            const Rotation<T> by = of_rows(from_lane(mine[t], l / 2 * 8 + l));
#pragma unroll
            for (int s = 0; s < kPairs; ++s)
#pragma unroll
              for (int side = 0; side < 2; ++side) turn(x[s][side][2 * t], x[s][side][2 * t + 1], by);
          }
          // What is known to be 0 is 0.
#pragma unroll
          for (int s = 0; s < kPairs; ++s) {
            const int t = s % kRowPairs;
            if (corner == s / kRowPairs && turns[t]) {
              x[s][0][2 * t] = from_real(first[t], T()), x[s][1][2 * t + 1] = from_real(second[t], T());
              x[s][1][2 * t] = x[s][0][2 * t + 1] = number(T(), 0);
            }
          }
          turned = true;
        }
        hand_on_columns(x);
        if constexpr (kVectors) hand_on_columns(v);
#pragma unroll
        for (int s = 0; s < kPairs; ++s)
#pragma unroll
          for (int side = 0; side < 2; ++side) {
            T top[kRowPairs], bottom[kRowPairs];
#pragma unroll
            for (int t = 0; t < kRowPairs; ++t) top[t] = x[s][side][2 * t], bottom[t] = x[s][side][2 * t + 1];
            hand_on(top, bottom, l, 7, own + (l + 7) % 8, own + (l + 1) % 8);
#pragma unroll
            for (int t = 0; t < kRowPairs; ++t) x[s][side][2 * t] = top[t], x[s][side][2 * t + 1] = bottom[t];
          }
      }
      done = !turned;
    }
#pragma unroll
    for (int s = 0; s < kPairs; ++s) {
      const int t = s % kRowPairs, q = group * kPairs + s;
      if (corner == s / kRowPairs) {
        found[2 * q] = real_part(x[s][0][2 * t]);
        found[2 * q + 1] = real_part(x[s][1][2 * t + 1]);
      }
    }
    __syncwarp();
    const int column = 2 * group * kPairs + l * kPairs / 4;  // this lane's
    const R value = found[column];
    int place = 0;
    for (int i = 0; i < n; ++i) place += found[i] < value || (found[i] == value && i < column);
    if (column < n && l % (4 / kPairs) == 0) reinterpret_cast<R*>(p.s[1])[matrix * n + place] = shifted(value, -power);
    if (kVectors) {
#pragma unroll
      for (int s = 0; s < kPairs; ++s)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int j = 2 * (group * kPairs + s) + side;
          const int to = __shfl_sync(0xffffffffu, place, own + (2 * s + side) * (4 / kPairs));
#pragma unroll
          for (int e = 0; e < kEach; ++e)
            if (j < n && l + 8 * e < n) a[to * n + l + 8 * e] = v[kVectors ? s : 0][side][e];
        }
    }
    if (lane == 0) reinterpret_cast<int32_t*>(p.s[2])[matrix] = done ? 0 : 1;
    __syncwarp();
  }
}
template <class T> QUARRY_FN void eigh_vectors_16(const Params& p) { warp_eigh<T, 16, true>(p); }
template <class T> QUARRY_FN void eigh_vectors_32(const Params& p) { warp_eigh<T, 32, true>(p); }
template <class T> QUARRY_FN void eigh_values_16(const Params& p) { warp_eigh<T, 16, false>(p); }
template <class T> QUARRY_FN void eigh_values_32(const Params& p) { warp_eigh<T, 32, false>(p); }
)cuda";

void warp_jacobi_svd(const Svd& task, int32_t* incomplete, CudaStream& stream) {
  const bool vectors = task.u.data != nullptr;
  std::vector<int64_t> slots = {
      address(task.a.data), address(task.values), address(task.u.data), address(task.vh.data), 0,
      address(task.info),   address(incomplete),  task.a.count,         task.a.rows,           task.a.columns,
      task.u.elements()};
  slots.resize(kSmallSlots);
  constexpr int kThreads = 64;
  constexpr int64_t kMostBlocks = 1 << 20, kMatrices = kThreads / 32;
  const SmallMatrices kernels = task.a.rows > 16  ? SmallMatrices::warp_jacobi_32
                                : task.a.rows > 8 ? SmallMatrices::warp_jacobi_16
                                                  : SmallMatrices::warp_jacobi_8;
  const int64_t blocks = std::min((task.a.count + kMatrices - 1) / kMatrices, kMostBlocks);
  launch_kernel(module_of(kernels, task.dtype, stream).kernel(vectors ? 0 : 1), blocks, 1, kThreads, slots, stream);
}

void warp_jacobi_eigh(const Eigh& task, CudaStream& stream) {
  std::vector<int64_t> slots = {address(task.a.data), address(task.values),
                                address(task.info),   task.a.count,
                                task.a.rows,          static_cast<int64_t>(task.triangle == Triangle::lower)};
  slots.resize(kSmallSlots);
  constexpr int kThreads = 64;
  constexpr int64_t kMostBlocks = 1 << 20, kMatrices = kThreads / 32;
  const SmallMatrices kernels = task.a.rows > 16 ? SmallMatrices::warp_eigh_32 : SmallMatrices::warp_eigh_16;
  const int64_t blocks = std::min((task.a.count + kMatrices - 1) / kMatrices, kMostBlocks);
  launch_kernel(module_of(kernels, task.dtype, stream).kernel(task.vectors ? 0 : 1), blocks, 1, kThreads, slots,
                stream);
}

}  // namespace quarry::local::cuda
