// Histograms, and places of elements among the elements of a table, by NumPy's names. Every element is compared with
// every edge or element of the table, in one fused read: for tables of at most 4096 elements, NotSupported for more.
// The results are lazy; tables are brought to every rank at the call: blocking, collective.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "quarry/chunked/api/operand.h"

namespace quarry {

// NumPy's keyword arguments of histograms.
struct HistogramOptions {
  local::NamedOnly only_by_name = local::NamedOnly();
  std::optional<std::pair<Scalar, Scalar>> range = std::nullopt;  // {{0, 1}}
  std::optional<bool> density = std::nullopt;
  std::optional<Array> weights = std::nullopt;
};
// auto [counts, edges] = histogram(x, 20, {.range = {{0, 1}}}); bins are a number, the name of a rule, or edges. Bins,
// dtypes and errors as in local/ops/statistics/statistics.h. Without a range the smallest and the largest element are
// computed at the call. Rules by name are for arrays of at most a chunk.
std::pair<Array, Array> histogram(const Array& a, int64_t bins = 10, const HistogramOptions& options = {});
std::pair<Array, Array> histogram(const Array& a, const char* bins, const HistogramOptions& options = {});
std::pair<Array, Array> histogram(const Array& a, const Array& bins, const HistogramOptions& options = {});
Array histogram_bin_edges(const Array& a, int64_t bins = 10, const HistogramOptions& options = {});
Array histogram_bin_edges(const Array& a, const char* bins, const HistogramOptions& options = {});
Array histogram_bin_edges(const Array& a, const Array& bins, const HistogramOptions& options = {});

// Where the elements of v belong in the sorted table: before equal elements ("left") or behind them ("right"); NaN is
// last. `sorter`: positions that sort the table. Throws InvalidArgument for tables of other dimensions and other sides.
Array searchsorted(const Array& a, const Operand& v, std::string_view side = "left",
                   const std::optional<Array>& sorter = std::nullopt);
// The number of the bin between the monotonic edges `bins`. Throws InvalidArgument where they are not.
Array digitize(const Array& x, const Array& bins, bool right = false);
// Whether each element is one of `test_elements`.
Array isin(const Array& element, const Array& test_elements, bool assume_unique = false, bool invert = false,
           std::optional<std::string_view> kind = std::nullopt);

}  // namespace quarry
