// Functions made of ufuncs, written once for arrays of one process and chunked ones: f(op, values...) applies an
// operation to values of the type V or to numbers, which are weak, and gives a V.
#pragma once

#include <numbers>
#include <optional>

#include "quarry/local/base/detail.h"
#include "quarry/local/program/op.h"

namespace quarry::local::compositions {

// Whether a bound of clip() is a literal integer at the end of the range of an integer dtype or beyond it.
inline bool bounds_nothing(DType dtype, const Scalar& bound, bool below) {
  if (!is_integer(dtype) || !bound.weak() || !is_integer(bound.dtype())) return false;
  const bool big = bound.dtype() == DType::uint64;  // above INT64_MAX
  const int64_t value = bound.as_int64();
  const int bits = static_cast<int>(itemsize(dtype) * 8);
  const bool is_signed = kind(dtype) == 'i';
  if (below) return !big && value <= (is_signed ? -(int64_t{1} << (bits - 2)) * 2 : 0);
  if (is_signed) return big || value >= (int64_t{1} << (bits - 2)) - 1 + (int64_t{1} << (bits - 2));
  return bits == 64 ? big && bound.as_uint64() == UINT64_MAX : big || value >= (int64_t{1} << bits) - 1;
}

// |x - y| <= atol + rtol |y|, with equal infinities.
template <class V, class F>
V isclose(F&& f, const V& x, const V& y, const V& rtol, const V& atol, bool equal_nan) {
  const V bound = f("add"_op, atol, f("multiply"_op, rtol, f("absolute"_op, y)));
  const V near = f("less_equal"_op, f("absolute"_op, f("subtract"_op, x, y)), bound);
  V result = f("logical_or"_op, f("logical_and"_op, near, f("isfinite"_op, y)), f("equal"_op, x, y));
  if (equal_nan) result = f("logical_or"_op, result, f("logical_and"_op, f("isnan"_op, x), f("isnan"_op, y)));
  return result;
}

// The modified Bessel function I0 of float64 values that are not negative. Below 20 the power series in x^2/4, whose
// terms are all positive; above it the asymptotic series (Abramowitz and Stegun 9.6.12 and 9.7.1).
template <class V, class F>
V bessel_i0(F&& f, const V& magnitude) {
  const V t = f("multiply"_op, f("square"_op, magnitude), 0.25);
  V series = f("add"_op, f("multiply"_op, t, 1.0 / (40.0 * 40.0)), 1.0);
  for (int k = 39; k >= 1; --k) series = f("add"_op, f("multiply"_op, f("multiply"_op, series, t), 1.0 / (k * k)), 1.0);
  const V large = f("maximum"_op, magnitude, 20.0), inverse = f("divide"_op, 1.0, large);
  V tail = f("add"_op, f("multiply"_op, inverse, 51.0 * 51.0 / (8.0 * 26.0)), 1.0);
  for (int k = 25; k >= 1; --k) {
    const double factor = (2.0 * k - 1) * (2.0 * k - 1) / (8.0 * k);
    tail = f("add"_op, f("multiply"_op, f("multiply"_op, tail, inverse), factor), 1.0);
  }
  // Half the exponent twice: the root keeps large results in range.
  const V half = f("exp"_op, f("multiply"_op, large, 0.5));
  const V root = f("sqrt"_op, f("multiply"_op, large, 2 * std::numbers::pi));
  const V asymptotic = f("multiply"_op, f("multiply"_op, f("divide"_op, half, root), tail), half);
  return f("where"_op, f("less"_op, magnitude, 20.0), series,
           f("where"_op, f("isfinite"_op, magnitude), asymptotic, magnitude));
}

// sin(pi x) / (pi x).
template <class V, class F>
V sinc(F&& f, const V& x) {
  const V y = f("multiply"_op, x, std::numbers::pi);
  const V zero = f("equal"_op, y, 0), safe = f("where"_op, zero, 1, y);
  return f("where"_op, zero, 1, f("divide"_op, f("sin"_op, safe), safe));
}

template <class V, class F>
V angle(F&& f, const V& z, bool complex, bool deg) {
  V result = complex ? V(f("arctan2"_op, f("imag"_op, z), f("real"_op, z))) : V(f("arctan2"_op, 0, z));
  if (deg) result = f("multiply"_op, result, 180 / std::numbers::pi);
  return result;
}

// What unwrap() adds to a jump between neighbours: 0 where it is less than `discont`, else what brings it into half a
// period around 0. `whole`: of integers.
template <class V, class F>
V unwrap_correction(F&& f, const V& jump, std::optional<double> discont, const Scalar& period, bool whole) {
  const Scalar high = whole ? Scalar(period.as_int64() / 2) : Scalar(period.as_double() / 2);
  const Scalar low = whole ? Scalar(-high.as_int64()) : Scalar(-high.as_double());
  V wrapped = f("add"_op, f("remainder"_op, f("subtract"_op, jump, low), period), low);
  // Half a period is one in either direction: the jump's.
  if (!whole || period.as_int64() % 2 == 0)
    wrapped = f("where"_op, f("logical_and"_op, f("equal"_op, wrapped, low), f("greater"_op, jump, 0)), high, wrapped);
  const V small = f("less"_op, f("absolute"_op, jump), discont ? *discont : period.as_double() / 2);
  return f("where"_op, small, 0, f("subtract"_op, wrapped, jump));
}

}  // namespace quarry::local::compositions
