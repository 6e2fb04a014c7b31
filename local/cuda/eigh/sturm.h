// Eigenvalues of a symmetric tridiagonal matrix T by counting: of T - x, as many leading principal minors have another
// sign than the one before as eigenvalues lie below x (Sturm). Host and device code, without CUDA.
//
// Minors, not their quotients: p_i = (d_i - x) p_(i-1) - e_(i-1)^2 p_(i-2) takes one multiplication after the other,
// a quotient takes one division after the other, which on a GPU is five times as long. Both are exact for a matrix
// that differs from T by roundings. Only the ratio of the last two minors matters, so they are scaled now and then.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "quarry/local/cuda/eigh/device_function.h"

namespace quarry::local::cuda::eigh {

// A minor that is smaller than this times the one before counts as this, negative: a change of d_i far below roundings.
inline constexpr double kLeastPivot = 0x1p-100;
// Minors shrink by that at most and grow by 5: so many steps between scalings neither underflow nor overflow.
inline constexpr int kStepsOfScale = 8;

struct Sturm {
  double now = 1, before = 0;  // minors, up to a common factor
  int32_t below = 0;           // eigenvalues below x of the rows so far
};

// One more row: its diagonal element, and the square of the element that couples it to the row before, 0 for the first.
QUARRY_EIGH_FUNCTION void count_row(Sturm& s, double diagonal, double square, double x) {
  double next = (diagonal - x) * s.now - square * s.before;
  const double least = kLeastPivot * s.now;
  if (std::fabs(next) <= std::fabs(least)) next = -least;
  s.below += (next < 0) != (s.now < 0) ? 1 : 0;
  s.before = s.now;
  s.now = next;
}
// At least every kStepsOfScale rows: the last minor comes to [1, 2).
QUARRY_EIGH_FUNCTION void rescale(Sturm& s) {
  constexpr int kMantissa = 52;
  constexpr uint64_t kExponents = 0x7ff, kInverse = 2046;
  const auto exponent = (std::bit_cast<uint64_t>(s.now) >> kMantissa) & kExponents;
  const auto factor = std::bit_cast<double>((kInverse - exponent) << kMantissa);
  s.now *= factor;
  s.before *= factor;
}

// All eigenvalues are sought in one tree of intervals, so that results are in order even where counts are not: points
// cut an interval into sections, and eigenvalue i is in the section behind as many points as have at most i below them.
inline constexpr int kPoints = 4;
struct Interval {
  double low, high;
};
// Of a matrix that is scaled so that its largest element is in [1/2, 1), or 0.
QUARRY_EIGH_FUNCTION Interval all_values(bool is_zero) { return is_zero ? Interval{0, 0} : Interval{-3, 3}; }
QUARRY_EIGH_FUNCTION double point(const Interval& a, int number) {
  return a.low + (a.high - a.low) * ((number + 1) * (1.0 / (kPoints + 1)));
}
QUARRY_EIGH_FUNCTION Interval section(const Interval& a, int passed) {
  return {passed == 0 ? a.low : point(a, passed - 1), passed == kPoints ? a.high : point(a, passed)};
}
// So many times sections are cut into sections, until one is narrower than half of the last place of numbers near 1/2.
inline constexpr int kStages = 25;

}  // namespace quarry::local::cuda::eigh
