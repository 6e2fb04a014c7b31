// Medians, percentiles and quantiles: exact, by NumPy's names and methods.
//
// Computed at the call: blocking, collective. A large array is not sorted and not moved. A pass over it counts, for
// each result, how many elements are at most each of some thresholds, which narrow down where the wanted elements lie,
// until the smallest or the largest one in between is the answer: about 8 passes, and never more than the bits of an
// element. A pass is one fused reduction, and the array is read, or computed again, for each: persist() it where that
// costs. Arrays of at most a chunk are brought to every rank, as are parts of many results, one after the other. With
// weights a large array is sorted (sorting.h). The result is on every rank.
#pragma once

#include <string_view>

#include "quarry/chunked/api/operand.h"

namespace quarry {

// The middle element of the sorted values, or the mean of the middle two. NaN among them is the result; nanmedian
// leaves NaN out. `out` is a TypeError. Along one axis whose lines are short beside a chunk all of these are lazy and
// compute whole lines; others are computed at the call, in passes that count (blocking, collective).
Array median(const Array& a, const Axes& axis = {}, const std::optional<Array>& out = std::nullopt,
             bool overwrite_input = false, bool keepdims = false);
Array nanmedian(const Array& a, const Axes& axis = {}, const std::optional<Array>& out = std::nullopt,
                bool overwrite_input = false, bool keepdims = false);

// NumPy's keyword arguments of quantiles. Weights have the shape of the array, or that of the axes, and are added up
// one after the other in the order of the elements: on the CPU, results are NumPy's to the bit.
struct QuantileOptions {
  local::detail::NamedOnly only_by_name = local::detail::NamedOnly();
  std::optional<Array> out = std::nullopt;
  std::string_view method = "linear";
  bool keepdims = false;
  std::optional<Array> weights = std::nullopt;
};
// percentile(x, 50), percentile(x, {5, 95}, 0), quantile(x, 0.5, 0, {.method = "nearest"}). Dtypes and errors as in
// local/ops/statistics/statistics.h.
Array percentile(const Array& a, const Operand& q, const Axes& axis = {}, const QuantileOptions& options = {});
Array quantile(const Array& a, const Operand& q, const Axes& axis = {}, const QuantileOptions& options = {});
Array nanpercentile(const Array& a, const Operand& q, const Axes& axis = {}, const QuantileOptions& options = {});
Array nanquantile(const Array& a, const Operand& q, const Axes& axis = {}, const QuantileOptions& options = {});

}  // namespace quarry
