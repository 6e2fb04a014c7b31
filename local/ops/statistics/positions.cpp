#include "quarry/local/ops/statistics/positions.h"

#include <fmt/format.h>

#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/ufunc.h"

namespace quarry::local {
namespace {

constexpr const char* kMethods[] = {"inverted_cdf",
                                    "averaged_inverted_cdf",
                                    "closest_observation",
                                    "interpolated_inverted_cdf",
                                    "hazen",
                                    "weibull",
                                    "linear",
                                    "median_unbiased",
                                    "normal_unbiased",
                                    "lower",
                                    "higher",
                                    "midpoint",
                                    "nearest"};

// n q + (alpha + q (1 - alpha - beta)) - 1, Hyndman and Fan (1996).
NdArray continuous(const NdArray& q, const Arg& n, const Scalar& alpha, const Scalar& rest) {
  return ops::subtract(ops::add(ops::multiply(n, q), ops::add(alpha, ops::multiply(q, rest))), 1);
}

NdArray as_position(const NdArray& index) { return cast_to(index, DType::int64); }

// The element before a virtual index where `stays` says so, else the one behind it.
template <class Stays>
QuantilePositions discrete(const NdArray& index, const RowLength& length, Stays&& stays) {
  const NdArray before = ops::floor(index);
  const NdArray chosen =
      as_position(ops::where(stays(ops::equal(ops::subtract(index, before), 0), before), before, ops::add(before, 1)));
  return {ops::minimum(ops::maximum(chosen, 0), length.last), std::nullopt, std::nullopt};
}

template <class Gamma>
QuantilePositions between(const NdArray& index, const RowLength& length, Gamma&& gamma) {
  const NdArray before = ops::floor(index);
  const NdArray above = ops::greater_equal(index, length.before_last), below = ops::less(index, 0);
  const auto clamped = [&](const NdArray& position) {
    return ops::where(above, length.last, ops::where(below, 0, as_position(position)));
  };
  // NumPy counts the last element as position -1 here; the part of the way is then beyond 1, between equal elements.
  const NdArray part = ops::subtract(index, ops::where(above, -1, ops::where(below, 0, before)));
  return {clamped(before), clamped(ops::add(before, 1)), cast_to(gamma(part), index.dtype())};
}

}  // namespace

QuantileMethod parse_quantile_method(std::string_view method) {
  std::string all;
  for (size_t i = 0; i < std::size(kMethods); ++i) {
    if (method == kMethods[i]) return static_cast<QuantileMethod>(i);
    all += fmt::format("{}'{}'", i == 0 ? "" : ", ", kMethods[i]);
  }
  throw InvalidArgument(fmt::format("'{}' is not a valid method. Use one of: {}", method, all));
}

bool picks_elements(QuantileMethod method, DType quantiles) {
  switch (method) {
    case QuantileMethod::inverted_cdf:
    case QuantileMethod::closest_observation:
    case QuantileMethod::lower:
    case QuantileMethod::higher:
    case QuantileMethod::nearest:
      return true;
    case QuantileMethod::linear:
      return !is_float(quantiles);  // 0 and 1
    case QuantileMethod::averaged_inverted_cdf:
    case QuantileMethod::interpolated_inverted_cdf:
    case QuantileMethod::hazen:
    case QuantileMethod::weibull:
    case QuantileMethod::median_unbiased:
    case QuantileMethod::normal_unbiased:
    case QuantileMethod::midpoint:
      return false;
  }
  return false;
}

QuantilePositions quantile_positions(QuantileMethod method, const NdArray& q, const RowLength& length) {
  const auto scaled = [&] { return ops::multiply(length.before_last, q); };
  const auto at = [&](const NdArray& index) {
    return QuantilePositions{as_position(index), std::nullopt, std::nullopt};
  };
  const auto unchanged = [](const NdArray& part) { return part; };
  switch (method) {
    case QuantileMethod::inverted_cdf:
      return discrete(ops::subtract(ops::multiply(length.count, q), 1), length,
                      [](const NdArray& exact, const NdArray&) { return exact; });
    case QuantileMethod::averaged_inverted_cdf:
      return between(ops::subtract(ops::multiply(length.count, q), 1), length,
                     [](const NdArray& part) { return ops::where(ops::equal(part, 0), 0.5, 1.0); });
    case QuantileMethod::closest_observation:
      return discrete(ops::subtract(ops::subtract(ops::multiply(length.count, q), 1), 0.5), length,
                      [](const NdArray& exact, const NdArray& before) {
                        return ops::logical_and(exact, ops::equal(ops::remainder(before, 2), 1));
                      });
    case QuantileMethod::interpolated_inverted_cdf:
      return between(continuous(q, length.count, 0, 0), length, unchanged);
    case QuantileMethod::hazen:
      return between(continuous(q, length.count, 0.5, 0.0), length, unchanged);
    case QuantileMethod::weibull:
      return between(continuous(q, length.count, 0, 1), length, unchanged);
    case QuantileMethod::linear: {
      const NdArray index = scaled();
      if (picks_elements(method, q.dtype())) return at(index);
      return between(index, length, unchanged);
    }
    case QuantileMethod::median_unbiased:
      return between(continuous(q, length.count, 1 / 3.0, 1 - 1 / 3.0 - 1 / 3.0), length, unchanged);
    case QuantileMethod::normal_unbiased:
      return between(continuous(q, length.count, 3 / 8.0, 1 - 3 / 8.0 - 3 / 8.0), length, unchanged);
    case QuantileMethod::lower:
      return at(ops::floor(scaled()));
    case QuantileMethod::higher:
      return at(ops::ceil(scaled()));
    case QuantileMethod::midpoint: {
      const NdArray index = scaled();
      const NdArray middle = ops::multiply(0.5, ops::add(ops::floor(index), ops::ceil(index)));
      return between(middle, length,
                     [&](const NdArray&) { return ops::where(ops::equal(ops::remainder(middle, 1), 0), 0.0, 0.5); });
    }
    case QuantileMethod::nearest: {
      const NdArray index = scaled();
      return at(is_integer(index.dtype()) ? index : ops::rint(index));
    }
  }
  throw InternalError("a quantile method without positions");
}

}  // namespace quarry::local
