// Histograms of several coordinates: the bin along each axis by a search in its edges, then one count of flat bins.
#include <fmt/format.h>

#include "quarry/local/device/range.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/statistics/bins.h"
#include "quarry/local/ops/statistics/support.h"

namespace quarry::local {
namespace {

// The coordinates of a sample, one array each, of one dtype.
std::vector<NdArray> coordinates_of(const ops::Sample& sample) {
  const auto check = [](bool fits, int ndim) {
    if (!fits)
      throw InvalidArgument(fmt::format("a sample is (N, D) or a sequence of arrays (got {} dimensions)", ndim));
  };
  std::vector<NdArray> result;
  if (const auto* array = std::get_if<NdArray>(&sample)) {
    check(array->ndim() <= 2, array->ndim());
    if (array->ndim() < 2) return {array->reshape({-1})};
    for (int64_t d = 0; d < array->shape()[1]; ++d) result.push_back((*array)[{full_slice, d}]);
  } else {
    const auto& items = std::get<ArrayTuple>(sample);
    if (!items.empty() && items[0].ndim() == 0) return {ops::stack(items, 0)};
    for (const NdArray& item : items) {
      check(item.ndim() == 1, item.ndim() + 1);
      result.push_back(item);
    }
  }
  check(!result.empty(), 0);
  DType dtype = result[0].dtype();
  for (const NdArray& one : result) {
    if (one.size() != result[0].size()) {
      throw InvalidArgument(fmt::format("coordinates have different lengths: {} and {}", result[0].size(), one.size()));
    }
    dtype = promote_types(dtype, one.dtype());
  }
  if (is_complex(dtype)) throw TypeError("sample must be real numbers");
  if (dtype == DType::bool_) dtype = DType::uint8;
  for (NdArray& one : result) one = cast_to(one, dtype);
  return result;
}

// One entry per coordinate.
std::vector<NdArray> bins_of(const ops::AxisBins& bins, size_t axes) {
  std::vector<NdArray> result;
  if (const auto* list = std::get_if<ArrayTuple>(&bins)) {
    result.assign(list->begin(), list->end());
  } else if (const auto* count = std::get_if<int64_t>(&bins)) {
    result.assign(axes, filled({}, *count, DType::int64, default_context(kCpu)));
  } else {
    const auto& array = std::get<NdArray>(bins);
    if (array.ndim() == 0) {
      result.assign(axes, array);
    } else {
      for (int64_t i = 0; i < array.shape()[0]; ++i) result.push_back(array[{i}]);
    }
  }
  if (result.size() != axes)
    throw InvalidArgument("The dimension of bins must be equal to the dimension of the sample x.");
  return result;
}

NdArray edges_of(const NdArray& x, const NdArray& bins, const ops::BinRange& range, size_t axis) {
  if (bins.ndim() > 1) throw InvalidArgument(fmt::format("`bins[{}]` must be a scalar or 1d array", axis));
  if (bins.ndim() == 1) {
    if (is_complex(bins.dtype())) throw TypeError(fmt::format("`bins[{}]` must be real numbers", axis));
    check_ascending(bins, fmt::format("`bins[{}]` must be monotonically increasing, when an array", axis));
    return bins;
  }
  const Scalar count = bins.item();
  if (count.as_double() < 1) throw InvalidArgument(fmt::format("`bins[{}]` must be positive, when an integer", axis));
  const auto [first, last] = outer_edges(x, range);
  if (!is_integer(bins.dtype())) throw TypeError(fmt::format("`bins[{}]` must be an integer, when a scalar", axis));
  return equal_bins(x, first, last, count.as_int64());
}

// `flat` so far and the bin along one more axis; -1 where a coordinate is outside.
NdArray flat_bins(const std::optional<NdArray>& flat, const NdArray& x, const NdArray& edges, int64_t bins) {
  const NdArray beyond = ops::searchsorted(edges, x, "right");
  Fused fused;
  const Fused::Value last = fused.input(at_last(edges, edges.size() - 1));
  // The last bin holds its upper edge.
  const Fused::Value on_edge = fused.cast(fused("equal"_op, fused.input(x), last), DType::int64);
  const Fused::Value bin = fused("subtract"_op, fused("subtract"_op, fused.input(beyond), 1), on_edge);
  Fused::Value outside = fused("logical_or"_op, fused("less"_op, bin, 0), fused("greater_equal"_op, bin, bins));
  Fused::Value whole = bin;
  if (flat) {
    const Fused::Value before = fused.input(*flat);
    outside = fused("logical_or"_op, outside, fused("less"_op, before, 0));
    whole = fused("add"_op, fused("multiply"_op, before, bins), bin);
  }
  return fused.run(fused("where"_op, outside, -1, whole));
}

// float64 counts of flat bins.
NdArray counted(const NdArray& flat, int64_t bins, const std::optional<NdArray>& weights) {
  const ExecContext context = context_for(flat.device());
  if (weights) {
    if (!can_cast(weights->dtype(), DType::float64, Casting::safe)) {
      throw TypeError(
          fmt::format("Cannot cast array data from dtype('{}') to dtype('float64') according to the rule "
                      "'safe'",
                      local::name(weights->dtype())));
    }
    if (weights->ndim() != 1 || weights->size() != flat.size()) {
      throw InvalidArgument(fmt::format("The weights and list don't have the same length ({} and {}).",
                                        to_string(weights->shape()), flat.size()));
    }
  }
  if (bins == 0 || flat.size() == 0) return filled({bins}, 0, DType::float64, context);
  NdArray w;
  if (weights) {
    const NdArray* both[] = {&flat, &*weights};
    common_device(both);
    w = packed(cast_to(*weights, DType::float64), context);
    w.begin_read(context.stream);
  }
  NdArray out({bins}, weights ? DType::float64 : DType::int64, context);
  flat.begin_read(context.stream);
  engine(context.device)
      .sorting()
      .bincount(flat.data<const int64_t>(), flat.size(), weights ? w.data<const double>() : nullptr, bins, out.raw(),
                context);
  return cast_to(out, DType::float64);
}

}  // namespace

namespace ops {

std::pair<NdArray, std::vector<NdArray>> histogramdd(const Sample& sample, const AxisBins& bins,
                                                     const std::optional<std::vector<BinRange>>& range,
                                                     std::optional<bool> density,
                                                     const std::optional<NdArray>& weights) {
  const Range named("histogramdd");
  const std::vector<NdArray> coordinates = coordinates_of(sample);
  const std::vector<NdArray> given = bins_of(bins, coordinates.size());
  if (range && range->size() != coordinates.size())
    throw InvalidArgument("range argument must have one entry per dimension");
  std::vector<NdArray> edges;
  Dims shape;
  std::optional<NdArray> flat;
  for (size_t i = 0; i < coordinates.size(); ++i) {
    edges.push_back(edges_of(coordinates[i], given[i], range ? (*range)[i] : std::nullopt, i));
    if (edges[i].size() == 0) throw IndexError("index -1 is out of bounds for axis 0 with size 0");
    shape.push_back(edges[i].size() - 1);
  }
  const int64_t all = element_count(shape);
  for (size_t i = 0; i < coordinates.size(); ++i) flat = flat_bins(flat, coordinates[i], edges[i], edges[i].size() - 1);
  NdArray counts = counted(*flat, all, weights).reshape(shape);
  if (density.value_or(false)) {
    Fused fused;
    Fused::Value scaled = fused.input(counts);
    for (size_t i = 0; i < edges.size(); ++i) {
      Dims extents = Dims::filled(shape.size(), 1);
      extents[static_cast<int>(i)] = -1;
      scaled = fused("divide"_op, scaled, fused.input(diff(edges[i]).reshape(extents)));
    }
    counts = fused.run(fused("divide"_op, scaled, fused.input(sum(counts))));
  }
  return {counts, edges};
}

std::tuple<NdArray, NdArray, NdArray> histogram2d(const NdArray& x, const NdArray& y, const AxisBins& bins,
                                                  const std::optional<std::vector<BinRange>>& range,
                                                  std::optional<bool> density, const std::optional<NdArray>& weights) {
  const Range named("histogram2d");
  if (x.ndim() == 0 || y.ndim() == 0) throw TypeError("len() of unsized object");
  if (x.shape()[0] != y.shape()[0]) {
    throw InvalidArgument(fmt::format("x and y must have the same length (got {} and {})", x.shape()[0], y.shape()[0]));
  }
  // One or two entries are the axes'; more are the edges of both.
  AxisBins of_axes = bins;
  const auto* list = std::get_if<ArrayTuple>(&bins);
  const auto* array = std::get_if<NdArray>(&bins);
  if (list != nullptr && list->size() != 1 && list->size() != 2) {
    const NdArray edges = list->empty() ? NdArray({0}, DType::float64) : stack(*list, 0);
    of_axes = ArrayTuple{edges, edges};
  } else if (array != nullptr && array->ndim() > 0 && array->shape()[0] != 1 && array->shape()[0] != 2) {
    of_axes = ArrayTuple{*array, *array};
  }
  const auto [counts, edges] = histogramdd(ArrayTuple{x, y}, of_axes, range, density, weights);
  return {counts, edges[0], edges[1]};
}

}  // namespace ops
}  // namespace quarry::local
