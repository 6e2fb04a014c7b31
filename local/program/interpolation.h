// Piecewise linear interpolation, the value at one place. Host and device code.
#pragma once

#include <cstdint>

#include "quarry/local/program/sorting_keys.h"

namespace quarry::local {

// float64 on the device of the call. Points ascend; those that do not give some numbers.
struct Interpolation {
  enum class OfNan : uint8_t { itself, zero, value };  // what a place that is NaN gives; that of the first point

  const double* places = nullptr;
  int64_t count = 0;
  const double* points = nullptr;
  int64_t length = 1;              // of the points, at least 1
  const double* values = nullptr;  // at the points, `step` elements apart
  int64_t step = 1;
  const double* before = nullptr;  // the values before the first point and behind the last one
  const double* behind = nullptr;
  const double* slopes = nullptr;  // between the points, if they are known: of slope()
  bool by_reciprocal = false;      // they are products with 1 / dx, as NumPy's of complex values
  OfNan of_nan = OfNan::itself;
  double* out = nullptr;
  int64_t out_step = 1;
};

namespace interpolation {

// Each operation rounds: a compiler must not contract a product and a sum.
#ifdef __CUDA_ARCH__
QUARRY_KEY_FUNCTION double product(double a, double b) { return __dmul_rn(a, b); }
QUARRY_KEY_FUNCTION double sum(double a, double b) { return __dadd_rn(a, b); }
#else
QUARRY_KEY_FUNCTION double product(double a, double b) { return a * b; }
QUARRY_KEY_FUNCTION double sum(double a, double b) { return a + b; }
#endif

// Behind the point `at`, up to the point `next`.
QUARRY_KEY_FUNCTION double slope(const Interpolation& t, int64_t at, int64_t next) {
  const double rise = t.values[next * t.step] - t.values[at * t.step], run = t.points[next] - t.points[at];
  return t.by_reciprocal ? product(rise, 1.0 / run) : rise / run;
}

// At the place x, which `next` points are not behind. As NumPy: a NaN is made from the other end, and between equal
// values is that value.
QUARRY_KEY_FUNCTION double value_at(const Interpolation& t, double x, int64_t next) {
  if (x != x && t.of_nan != Interpolation::OfNan::value) return t.of_nan == Interpolation::OfNan::zero ? 0.0 : x;
  if (x != x) return t.values[0];
  if (x < t.points[0]) return *t.before;
  if (x > t.points[t.length - 1]) return *t.behind;
  const int64_t at = next > 0 ? next - 1 : 0;
  const double x0 = t.points[at], f0 = t.values[at * t.step];
  if (x == x0) return f0;
  next = next < t.length ? next : t.length - 1;
  const double rise = t.slopes && next > at ? t.slopes[at] : slope(t, at, next);
  const double value = sum(product(rise, x - x0), f0);
  if (value == value) return value;
  const double f1 = t.values[next * t.step], other = sum(product(rise, x - t.points[next]), f1);
  return other != other && f0 == f1 ? f0 : other;
}

}  // namespace interpolation
}  // namespace quarry::local
