#include "quarry/chunked/api/histogram.h"

#include <fmt/format.h>

#include <vector>

#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/sorting/sets.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/statistics/bins.h"

namespace quarry {
namespace {

using local::InvalidArgument;

// Beyond, comparing with all of them is no way to do it.
constexpr int64_t kMostCompared = 4096;
// Bins that are counted by as many reductions, and tables that are compared element by element: much faster than an
// axis of the table's elements, but the plan grows with them.
constexpr int64_t kMostSiblings = 128, kMostSteps = 32;

void check_table(const char* function, int64_t size) {
  if (size > kMostCompared)
    throw local::NotSupported(
        fmt::format("{}() of chunked arrays with a table of {} elements; at most {}", function, size, kMostCompared));
}

// The array as histograms take it: of numbers that can be subtracted, and with an axis.
Array subtractable(const Array& a) {
  if (local::is_complex(a.dtype())) throw local::TypeError("a must be an array of real numbers");
  const Array values = a.dtype() == DType::bool_ ? a.astype(DType::uint8) : a;
  return values.ndim() == 0 ? expand_dims(values, 0) : values;
}

void check_weights(const Array& a, const std::optional<Array>& weights) {
  if (weights && !(weights->shape() == a.shape())) {
    throw InvalidArgument(fmt::format("weights should have the same shape as a (got {} and {})",
                                      local::to_string(weights->shape()), local::to_string(a.shape())));
  }
}

// Edges depend on the dtype and, without a range, on the smallest and the largest element, which stand for all.
local::BinEdges edges_of(const Array& values, const local::ops::Bins& bins, const HistogramOptions& options) {
  const auto ends = [&]() -> NdArray {
    const NdArray nothing(Dims{0}, values.dtype(), local::default_context(local::kCpu));
    if (values.size() == 0) return nothing;
    if (std::holds_alternative<std::string>(bins) && !options.weights) {
      if (values.nbytes() > target_chunk_bytes(chunk_policy().device))
        throw local::NotSupported("histogram(): rules for bins of an array of more than a chunk");
      return values.to_host().reshape({-1});
    }
    const auto* given = std::get_if<NdArray>(&bins);
    if (options.range || (given != nullptr && given->ndim() > 0)) return nothing;
    const Array wanted[] = {min(values), max(values)};
    std::vector<NdArray> found;
    for (const NdArray& value : to_host(wanted)) found.push_back(value.reshape({1}));
    return local::ops::concatenate({found[0], found[1]}, 0);
  }();
  return local::bin_edges(ends, bins, options.range, options.weights.has_value());
}

Axes all_axes(int ndim) {
  std::vector<int64_t> axes;
  for (int d = 0; d < ndim; ++d) axes.push_back(d);
  return axes;
}

// Of all bins; int64, or of the weights' dtype.
Array counts_of(const Array& a, const local::BinEdges& bins, const std::optional<Array>& weights) {
  const int64_t count = std::max<int64_t>(bins.edges.size() - 1, 0);
  if (count == 0 || a.size() == 0) return Array(expr::constant(0, weights ? weights->dtype() : DType::int64, {count}));
  check_table("histogram", count + 1);
  const DType compared = local::edges_dtype(a.dtype(), bins.edges.dtype(), bins.uniform);
  const Array edges = Array::from_local(bins.edges.astype(compared));
  const Array x = expand_dims(a.astype(compared), -1);
  const Axes over = all_axes(a.ndim());
  if (!weights && count < kMostSiblings) {
    // Reductions of one read; an edge is a number.
    const Array values = a.astype(compared);
    const NdArray all = bins.edges.astype(compared);
    std::vector<Array> reach, beyond;  // how many elements are in or behind each bin, and behind it
    for (int64_t k = 0; k <= count; ++k) {
      const Scalar edge = Scalar::strong(all[{k}].item(), compared);
      const Array at_least = expand_dims(count_nonzero(k < count ? values >= edge : values > edge), 0);
      if (k < count) reach.push_back(at_least);
      if (k > 0) beyond.push_back(at_least);
    }
    return concatenate(reach, 0) - concatenate(beyond, 0);
  }
  const Array is_last = Array(expr::index({count}, 0)) == count - 1;
  const Array low = edges(local::Slice{0, count, std::nullopt}), high = edges(local::Slice{1, count + 1, std::nullopt});
  if (!weights) {
    // As many as are not below the lower edge, without those not below the upper one, or above the last one.
    const Array beyond = where(is_last, x > high, x >= high);
    return count_nonzero(x >= low, over) - count_nonzero(beyond, over);
  }
  const Array inside = logical_and(x >= low, where(is_last, x <= high, x < high));
  const DType wide = local::is_complex(weights->dtype()) ? DType::complex128 : DType::float64;
  const Array w = weights->ndim() == 0 ? expand_dims(*weights, 0) : *weights;
  const Array used = where(inside, expand_dims(w.astype(wide), -1), Scalar::strong(0, wide));
  return sum(used, over).astype(weights->dtype());
}

std::pair<Array, Array> histogram_of(const Array& a, const local::ops::Bins& bins, const HistogramOptions& options) {
  check_weights(a, options.weights);
  const Array values = subtractable(a);
  const local::BinEdges edges = edges_of(values, bins, options);
  const Array all = Array::from_local(edges.edges);
  Array counts = counts_of(values, edges, options.weights);
  if (options.density.value_or(false)) {
    const Array widths =
        (all(local::Slice{1, std::nullopt, std::nullopt}) - all(local::Slice{std::nullopt, -1, std::nullopt}))
            .astype(DType::float64);
    counts = counts / widths / sum(counts);
  }
  return {counts, all};
}

Array edges_alone(const Array& a, const local::ops::Bins& bins, const HistogramOptions& options) {
  check_weights(a, options.weights);
  return Array::from_local(edges_of(subtractable(a), bins, options).edges);
}

// How many elements of the sorted table precede each element of v.
Array places(const char* function, const NdArray& table, const Array& v, bool right) {
  check_table(function, table.size());
  // NaN is behind all numbers.
  const auto precedes = [&](const Operand& sorted, const Array& x) {
    const Array less_than = right ? less_equal(sorted, x) : less(sorted, x);
    if (!local::is_float(v.dtype())) return less_than;
    const Array last = isnan(x);
    return logical_or(less_than, right ? last : logical_and(last, logical_not(isnan(sorted))));
  };
  if (table.size() == 0 || table.size() > kMostSteps)
    return count_nonzero(precedes(Array::from_local(table), expand_dims(v, -1)), -1);
  Array place;
  for (int64_t k = 0; k < table.size(); ++k) {
    const Array one = precedes(Scalar::strong(table[{k}].item(), table.dtype()), v).astype(DType::int64);
    place = k == 0 ? one : place + one;
  }
  return place;
}

}  // namespace

std::pair<Array, Array> histogram(const Array& a, int64_t bins, const HistogramOptions& options) {
  return histogram_of(a, bins, options);
}
std::pair<Array, Array> histogram(const Array& a, const char* bins, const HistogramOptions& options) {
  return histogram_of(a, std::string(bins), options);
}
std::pair<Array, Array> histogram(const Array& a, const Array& bins, const HistogramOptions& options) {
  return histogram_of(a, bins.to_host(), options);
}
Array histogram_bin_edges(const Array& a, int64_t bins, const HistogramOptions& options) {
  return edges_alone(a, bins, options);
}
Array histogram_bin_edges(const Array& a, const char* bins, const HistogramOptions& options) {
  return edges_alone(a, std::string(bins), options);
}
Array histogram_bin_edges(const Array& a, const Array& bins, const HistogramOptions& options) {
  return edges_alone(a, bins.to_host(), options);
}

Array searchsorted(const Array& a, const Operand& v, std::string_view side, const std::optional<Array>& sorter) {
  if (local::is_complex(a.dtype()) || (v.is_array() && local::is_complex(v.array().dtype())))
    throw local::NotSupported("searchsorted() of chunked complex numbers");
  NdArray table = a.to_host();
  const std::optional<NdArray> order = sorter ? std::optional(sorter->to_host()) : std::nullopt;
  // Checks table, side and sorter; and of a number that is all there is to do.
  if (!v.is_array()) return Array::from_local(local::ops::searchsorted(table, v.scalar(), side, order));
  const NdArray nothing(Dims{0}, v.array().dtype(), local::default_context(local::kCpu));
  local::ops::searchsorted(table, nothing, side, order);
  if (order) table = local::ops::take(table, *order);
  return places("searchsorted", table, v.array(), side == "right");
}

Array digitize(const Array& x, const Array& bins, bool right) {
  if (local::is_complex(x.dtype())) throw local::TypeError("x may not be complex");
  const NdArray table = bins.to_host();
  const NdArray nothing(Dims{0}, x.dtype(), local::default_context(local::kCpu));
  local::ops::digitize(nothing, table, right);  // checks the table
  const int64_t n = table.size();
  const bool descends = n > 1 && table[{int64_t{0}}].item<double>() > table[{n - 1}].item<double>();
  if (!descends) return places("digitize", table, x, !right);
  const NdArray ascending = table[{local::Slice{std::nullopt, std::nullopt, -1}}].copy();
  return n - places("digitize", ascending, x, !right);
}

Array isin(const Array& element, const Array& test_elements, bool /*assume_unique*/, bool invert,
           std::optional<std::string_view> kind) {
  const NdArray table = test_elements.to_host().reshape({-1});
  const NdArray nothing(Dims{0}, element.dtype(), local::default_context(local::kCpu));
  local::ops::isin(nothing, table, false, invert, kind);  // checks `kind`
  check_table("isin", table.size());
  Array found;
  if (table.size() == 0 || table.size() > kMostSteps) {
    found = any(expand_dims(element, -1) == Array::from_local(table), -1);
  } else {
    for (int64_t k = 0; k < table.size(); ++k) {
      const Array one = element == Scalar::strong(table[{k}].item(), table.dtype());
      found = k == 0 ? one : logical_or(found, one);
    }
  }
  return invert ? logical_not(found) : found;
}

}  // namespace quarry
