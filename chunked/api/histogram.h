// Histograms and counts, and places of elements among the elements of a table, by NumPy's names. Every chunk is counted
// by itself and the counts are added up, in one read. Few bins, and tables of few elements, are compared with every
// element and fuse with what is around them; larger tables are searched chunk by chunk, those of more than a chunk in
// parts of them, and those of many chunks are sorted together with what is looked up. The results are lazy; edges, and
// tables of at most a chunk, are brought to every rank at the call, and large tables are sorted then: blocking,
// collective.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/chunked/api/operand.h"

namespace quarry {

// NumPy's keyword arguments of histograms.
struct HistogramOptions {
  local::detail::NamedOnly only_by_name = local::detail::NamedOnly();
  std::optional<std::pair<Scalar, Scalar>> range = std::nullopt;  // {{0, 1}}
  std::optional<bool> density = std::nullopt;
  std::optional<Array> weights = std::nullopt;
};
// auto [counts, edges] = histogram(x, 20, {.range = {{0, 1}}}); bins are a number, the name of a rule, or edges. Bins,
// dtypes and errors as in local/ops/statistics/statistics.h. Without a range the smallest and the largest element are
// computed at the call, and what a rule by name asks for. The rule "stone" is for arrays of at most a chunk.
std::pair<Array, Array> histogram(const Array& a, int64_t bins = 10, const HistogramOptions& options = {});
std::pair<Array, Array> histogram(const Array& a, const char* bins, const HistogramOptions& options = {});
std::pair<Array, Array> histogram(const Array& a, const Array& bins, const HistogramOptions& options = {});
Array histogram_bin_edges(const Array& a, int64_t bins = 10, const HistogramOptions& options = {});
Array histogram_bin_edges(const Array& a, const char* bins, const HistogramOptions& options = {});
Array histogram_bin_edges(const Array& a, const Array& bins, const HistogramOptions& options = {});

// How often each of 0, 1, ... max(x) occurs in the 1-d x, at least `minlength` of them: int64, or with weights their
// sums, float64. The largest element is computed at the call. Everything is read once for each chunk of counts. Errors
// as the local one's.
Array bincount(const Array& x, const std::optional<Array>& weights = std::nullopt, int64_t minlength = 0);

// (N, D), or an array of N for each of the D coordinates; a number of bins for all of them, or an entry per coordinate:
// a number (0-d) or edges.
using Sample = std::variant<std::vector<Array>, Array>;
using AxisBins = std::variant<int64_t, std::vector<Array>, Array>;
using BinRange = std::optional<std::pair<Scalar, Scalar>>;
// Float64 counts of points in bins of D axes, and the edges along each, in host memory on every rank. Without a range
// the smallest and the largest coordinates are computed at the call. A task holds all counts. Dtypes and errors as the
// local ones'.
std::pair<Array, std::vector<Array>> histogramdd(const Sample& sample, const AxisBins& bins = int64_t{10},
                                                 const std::optional<std::vector<BinRange>>& range = std::nullopt,
                                                 std::optional<bool> density = std::nullopt,
                                                 const std::optional<Array>& weights = std::nullopt);
// Two coordinates: counts, edges of x, edges of y. More than two entries of `bins` are the edges of both.
std::tuple<Array, Array, Array> histogram2d(const Array& x, const Array& y, const AxisBins& bins = int64_t{10},
                                            const std::optional<std::vector<BinRange>>& range = std::nullopt,
                                            std::optional<bool> density = std::nullopt,
                                            const std::optional<Array>& weights = std::nullopt);

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
