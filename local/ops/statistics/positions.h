// Where quantiles lie in a sorted row: NumPy's 13 methods.
#pragma once

#include <string_view>

#include "quarry/local/ops/arguments.h"

namespace quarry::local {

enum class QuantileMethod : uint8_t {
  inverted_cdf,
  averaged_inverted_cdf,
  closest_observation,
  interpolated_inverted_cdf,
  hazen,
  weibull,
  linear,
  median_unbiased,
  normal_unbiased,
  lower,
  higher,
  midpoint,
  nearest,
};
// Throws InvalidArgument that lists the methods.
QuantileMethod parse_quantile_method(std::string_view method);

// The elements of a row: literals, or arrays that broadcast with the quantiles; `count` and `before_last` = count - 1
// in the quantiles' dtype, `last` the same as int64.
struct RowLength {
  Arg count, before_last, last;
  static RowLength of(int64_t n) { return {n, n - 1, n - 1}; }
};

// The quantile is the element at `previous`, or lies between it and the one at `next`, at the part `gamma` of the way.
struct QuantilePositions {
  NdArray previous;  // int64, of an element of the row
  std::optional<NdArray> next, gamma;
};

// Whether quantiles of that dtype are elements of the row, never something in between.
bool picks_elements(QuantileMethod method, DType quantiles);

// Of quantiles in [0, 1] of any real dtype, in whose precision NumPy computes: on their device and of the shape that
// they and the lengths broadcast to. Does not wait.
QuantilePositions quantile_positions(QuantileMethod method, const NdArray& quantiles, const RowLength& length);

}  // namespace quarry::local
