// Reductions that leave elements out, which are NaN or masked: what nansum() and ma.sum() share. One text for arrays of
// one process and chunked ones, over a Fusing (local/ops/fuse/fusing.h) and its values; `missing` is a value of bools.
#pragma once

#include <complex>
#include <limits>
#include <vector>

#include "quarry/local/program/op.h"
#include "quarry/local/program/program.h"

namespace quarry::local::missing {

// The sum (prod) of the elements that are there.
template <class F, class V>
auto total(F& f, Reduction reduction, const V& x, const V& missing, DType accumulate) {
  const Scalar neutral = Scalar::strong(reduction == "prod"_reduction ? 1 : 0, accumulate);
  return typename F::Reduced{reduction, f("where"_op, missing, V(neutral), f.cast(x, accumulate)), accumulate};
}

// How many there are: int64.
template <class F, class V>
auto count(F& f, const V& missing) {
  return typename F::Reduced{"count_nonzero"_reduction, f("logical_not"_op, missing), DType::bool_};
}

// Both in one, by what is there: that is quicker than by what is missing, of which count() is the opposite.
template <class F, class V>
std::vector<typename F::Reduced> sum_and_count(F& f, const V& x, const V& missing, DType accumulate) {
  const V present = f("logical_not"_op, missing);
  const V value = f("where"_op, present, f.cast(x, accumulate), V(Scalar::strong(0, accumulate)));
  return {{"sum"_reduction, value, accumulate}, {"count_nonzero"_reduction, present, DType::bool_}};
}

// Whether there is none.
template <class F, class V>
auto none(F&, const V& missing) {
  return typename F::Reduced{"all"_reduction, missing, DType::bool_};
}

// What no element of min or argmin (max, argmax) is beyond.
inline Scalar worst_of(Reduction reduction, DType dtype) {
  const bool low = reduction == "max"_reduction || reduction == "argmax"_reduction;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double worst = low ? -kInfinity : kInfinity;
  if (is_complex(dtype)) return Scalar::strong(std::complex<double>(worst, worst), dtype);
  if (is_float(dtype)) return Scalar::strong(worst, dtype);
  return start_value(low ? "max"_reduction : "min"_reduction, /*field=*/0, dtype);
}

// min, max, argmin or argmax of the elements that are there; of none the value is `worst`, the position 0.
template <class F, class V>
auto extreme(F& f, Reduction reduction, const V& x, const V& missing, const Scalar& worst) {
  return typename F::Reduced{reduction, f("where"_op, missing, V(worst), x), f.dtype(x)};
}

// The sum of squared distances from `center`, in `wide`.
template <class F, class V>
auto squares(F& f, const V& x, const V& missing, const V& center, DType wide) {
  const DType real = real_type(wide);
  const V distance = f("subtract"_op, f.cast(x, wide), f.cast(center, wide));
  V squared = f("square"_op, f("real"_op, distance));
  if (is_complex(wide)) squared = f("add"_op, squared, f("square"_op, f("imag"_op, distance)));
  return total(f, "sum"_reduction, squared, missing, real);
}

}  // namespace quarry::local::missing
