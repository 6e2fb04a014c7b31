// Order statistics, averages, correlation and histograms. See local/ops/statistics/statistics.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "quarry/local/ops/statistics/statistics.h"

namespace quarry::local {

using ops::bincount;
using ops::corrcoef;
using ops::cov;
using ops::histogramdd;
using ops::median;
using ops::nanmedian;

// The weighted mean, and with `returned` the sum of the weights: auto [m, w] = average(x, 0, weights, returned).
struct Returned {};
inline constexpr Returned returned{};
inline NdArray average(const NdArray& a, const Axes& axis = {}, const std::optional<NdArray>& weights = std::nullopt,
                       bool keepdims = false) {
  return std::get<NdArray>(ops::average(a, axis, weights, false, keepdims));
}
inline std::pair<NdArray, NdArray> average(const NdArray& a, const Axes& axis, const std::optional<NdArray>& weights,
                                           Returned, bool keepdims = false) {
  return std::get<1>(ops::average(a, axis, weights, true, keepdims));
}

// NumPy's keyword arguments of quantiles.
struct QuantileOptions {
  detail::NamedOnly only_by_name = detail::NamedOnly();
  std::optional<NdArray> out = std::nullopt;
  std::string_view method = "linear";
  bool keepdims = false;
  std::optional<NdArray> weights = std::nullopt;
};
// percentile(x, 50), percentile(x, {5, 95}, 0), quantile(x, 0.5, 0, {.method = "nearest"})
#define QUARRY_QUANTILE(name)                                                                                       \
  inline NdArray name(const NdArray& a, const Arg& q, const Axes& axis = {}, const QuantileOptions& options = {}) { \
    return ops::name(a, q, axis, options.out, false, options.method, options.keepdims, options.weights);            \
  }
QUARRY_QUANTILE(percentile)
QUARRY_QUANTILE(quantile)
QUARRY_QUANTILE(nanpercentile)
QUARRY_QUANTILE(nanquantile)
#undef QUARRY_QUANTILE

// NumPy's keyword arguments of histograms.
struct HistogramOptions {
  detail::NamedOnly only_by_name = detail::NamedOnly();
  ops::BinRange range = std::nullopt;  // {{0, 1}}
  std::optional<bool> density = std::nullopt;
  std::optional<NdArray> weights = std::nullopt;
};
// auto [counts, edges] = histogram(x, 20, {.range = {{0, 1}}}); bins are a number, the name of a rule, or edges.
inline std::pair<NdArray, NdArray> histogram(const NdArray& a, int64_t bins = 10,
                                             const HistogramOptions& options = {}) {
  return ops::histogram(a, bins, options.range, options.density, options.weights);
}
inline std::pair<NdArray, NdArray> histogram(const NdArray& a, const char* bins, const HistogramOptions& options = {}) {
  return ops::histogram(a, std::string(bins), options.range, options.density, options.weights);
}
inline std::pair<NdArray, NdArray> histogram(const NdArray& a, const NdArray& bins,
                                             const HistogramOptions& options = {}) {
  return ops::histogram(a, bins, options.range, options.density, options.weights);
}
inline NdArray histogram_bin_edges(const NdArray& a, int64_t bins = 10, const HistogramOptions& options = {}) {
  return ops::histogram_bin_edges(a, bins, options.range, options.weights);
}
inline NdArray histogram_bin_edges(const NdArray& a, const char* bins, const HistogramOptions& options = {}) {
  return ops::histogram_bin_edges(a, std::string(bins), options.range, options.weights);
}
// auto [counts, xedges, yedges] = histogram2d(x, y, 20)
inline std::tuple<NdArray, NdArray, NdArray> histogram2d(const NdArray& x, const NdArray& y, int64_t bins = 10,
                                                         std::optional<bool> density = std::nullopt,
                                                         const std::optional<NdArray>& weights = std::nullopt) {
  return ops::histogram2d(x, y, bins, std::nullopt, density, weights);
}
inline std::tuple<NdArray, NdArray, NdArray> histogram2d(const NdArray& x, const NdArray& y, const NdArray& xedges,
                                                         const NdArray& yedges,
                                                         std::optional<bool> density = std::nullopt,
                                                         const std::optional<NdArray>& weights = std::nullopt) {
  return ops::histogram2d(x, y, ArrayTuple{xedges, yedges}, std::nullopt, density, weights);
}

}  // namespace quarry::local
