#include "quarry/chunked/api/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/algo/sort.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/lookups.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/api/quantile.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/sets.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/statistics/bins.h"
#include "quarry/local/ops/ufunc/ufunc.h"

namespace quarry {

using namespace compose;

namespace {

// Bins that are counted by as many reductions, and tables that are compared element by element: they fuse with what is
// around them, but every element is compared with all.
constexpr int64_t kMostSiblings = 8, kMostSteps = 32;

// What a function gives for each chunk, `count` numbers of a dtype, added up over all chunks. Arrays are cut as the
// first one along its first `axes` axes; other axes and arrays come whole.
struct ChunkSums {
  const char* name;
  uint64_t identity = 0;
  int axes = 1;
  int64_t count = 0;
  DType dtype = DType::int64;
  std::function<NdArray(std::span<const NdArray>, int64_t first, int64_t count)> function;
  int64_t at_once = count;  // of the numbers, which `first` and `count` name; everything is read for each such part
};
constexpr int64_t kCountingBytes = 3 * sizeof(int64_t);  // bins and weights beside narrow elements

Array summed(const ChunkSums& sums, std::span<const Array> cut, std::span<const Array> whole) {
  algo::MapSpec spec;
  spec.name = sums.name;
  spec.identity = sums.identity;
  spec.bytes_per_element = kCountingBytes;
  std::vector<Array> arrays(cut.begin(), cut.end());
  int64_t bytes = 0;
  for (const Array& array : cut) bytes += op::element_task_bytes(local::itemsize(array.dtype())) + kCountingBytes;
  arrays[0] = in_fitting_chunks(cut[0], bytes);
  const Grid cuts = arrays[0].chunks();
  arrays.insert(arrays.end(), whole.begin(), whole.end());
  std::vector<AxisChunks> axes;
  for (int d = 0; d < sums.axes; ++d) axes.emplace_back(cuts.axis(d).count(), 1);
  axes.emplace_back(sums.count, sums.at_once);
  for (size_t i = 0; i < arrays.size(); ++i) {
    std::vector<algo::Along> along;
    for (int d = 0; d < arrays[i].ndim(); ++d) {
      const bool follows = i < cut.size() && d < sums.axes;
      along.push_back(follows ? algo::Along::following(d, cuts.axis(d)) : algo::Along::whole());
    }
    spec.along.push_back(std::move(along));
  }
  Grid grid(std::move(axes));
  const Dims shape = grid.shape();
  spec.outputs = {{shape, sums.dtype, std::move(grid), /*chosen_grid=*/true}};
  spec.function = [function = sums.function](std::span<const NdArray> given, const ChunkPlace& place) {
    const Region& part = place.outputs[0];
    return std::vector<NdArray>{function(given, part.start.back(), part.count.back()).reshape(part.count)};
  };
  std::vector<int64_t> over;
  for (int d = 0; d < sums.axes; ++d) over.push_back(d);
  return sum(Array(algo::map(std::move(spec), nodes_of(arrays))[0]), Axes(over), {.dtype = sums.dtype});
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

// Large data for the rules for bins: each answer is a pass or more.
class ChunkedData final : public local::BinData {
 public:
  ChunkedData(Array x, NdArray least, NdArray greatest)
      : x_(std::move(x)), least_(std::move(least)), greatest_(std::move(greatest)) {}
  DType dtype() const override { return x_.dtype(); }
  int64_t size() const override { return x_.size(); }
  std::pair<Scalar, Scalar> extremes() const override { return {least_.item(), greatest_.item()}; }
  NdArray deviation() const override { return std(x_).to_host(); }
  NdArray skewness(const Scalar& deviation) const override {
    return mean(power((x_ - mean(x_).to_host().item()) / deviation, 3)).to_host();
  }
  NdArray quartiles() const override { return percentile(x_, {75., 25.}).to_host(); }
  NdArray counts(int64_t /*bins*/) const override {
    throw local::NotSupported("histogram(): the rule 'stone', which counts again and again, for more than a chunk");
  }

 private:
  const Array x_;
  const NdArray least_, greatest_;
};

std::pair<NdArray, NdArray> ends_of(const Array& values) {
  const Array wanted[] = {min(values), max(values)};
  std::vector<NdArray> found = to_host(wanted);
  return {found[0], found[1]};
}

// The number of bins by a rule for more than a chunk.
int64_t bins_by_rule(const std::string& rule, const Array& values, const NdArray& ends,
                     const local::ops::BinRange& range) {
  const auto [first, last] = local::outer_edges(ends, range);
  const Array flat = ravel(values);
  const Array inside = range ? flat[logical_and(flat >= first, flat <= last)] : flat;
  if (inside.size() == 0) return 1;
  const auto [least, greatest] = ends_of(inside);
  return local::estimated_count(rule, ChunkedData(inside, least, greatest), {first, last});
}

// Edges depend on the dtype and, without a range, on the smallest and the largest element, which stand for all.
local::BinEdges edges_of(const Array& values, const local::ops::Bins& bins, const HistogramOptions& options) {
  const auto* rule = std::get_if<std::string>(&bins);
  const auto* given = std::get_if<NdArray>(&bins);
  const bool weighted = options.weights.has_value();
  NdArray ends(Dims{0}, values.dtype(), local::default_context(local::kCpu));
  if (values.size() == 0) return local::bin_edges(ends, bins, options.range, weighted);
  if (rule != nullptr && !weighted && values.nbytes() <= target_chunk_bytes(chunk_policy().device))
    return local::bin_edges(values.to_host().reshape({-1}), bins, options.range, weighted);
  if (!options.range && (given == nullptr || given->ndim() == 0)) {
    const auto [least, greatest] = ends_of(values);
    ends = local::ops::stack({least, greatest}, 0);
  }
  if (rule == nullptr || weighted || !local::is_estimator(*rule))
    return local::bin_edges(ends, bins, options.range, weighted);
  return local::bin_edges(ends, bins_by_rule(*rule, values, ends, options.range), options.range, weighted);
}

// Of all bins; int64, or of the weights' dtype.
Array counts_of(const Array& a, const local::BinEdges& bins, const std::optional<Array>& weights) {
  const int64_t count = std::max<int64_t>(bins.edges.size() - 1, 0);
  if (count == 0 || a.size() == 0) return constant({count}, 0, weights ? weights->dtype() : DType::int64);
  if (!weights && count < kMostSiblings) {
    // Reductions of one read; an edge is a number.
    const DType compared = local::edges_dtype(a.dtype(), bins.edges.dtype(), bins.uniform);
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
  const DType wide = !weights ? DType::int64 : local::is_complex(weights->dtype()) ? DType::complex128 : DType::float64;
  std::vector<Array> arrays{a};
  if (weights) arrays.push_back((weights->ndim() == 0 ? expand_dims(*weights, 0) : *weights).astype(wide));
  const Array edges = Array::from_local(bins.edges);
  const Array counts = summed({"histogram", static_cast<uint64_t>(bins.uniform), a.ndim(), count, wide,
                               [uniform = bins.uniform](std::span<const NdArray> given, int64_t, int64_t) {
                                 std::optional<NdArray> w;
                                 if (given.size() > 2) w = given[1];
                                 return local::counts_in_bins(given[0].reshape({-1}), {given.back(), uniform}, w);
                               }},
                              arrays, std::span(&edges, 1));
  return weights ? counts.astype(weights->dtype()) : counts;
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

// A table that every rank and task may hold.
bool is_small(const Array& table) { return table.nbytes() <= most_on_every_rank(); }

// A table of so many chunks, or of so large ones, that both are better sorted together.
bool is_large(const Array& table) {
  constexpr int64_t kChunks = 4, kPart = 16;
  const int64_t largest = largest_chunk_bytes(table.chunks(), local::itemsize(table.dtype()));
  return !is_small(table) && (table.chunks().count() > kChunks || largest > Runtime::current().plan_bytes() / kPart);
}

// A function of each element of an array and a table, which takes both in the dtype that they promote to. A large table
// is looked up in chunk by chunk, and `fold` puts together what its chunks give, along axis 0.
template <class F, class Fold>
Array looked_up(const char* name, uint64_t identity, DType result, const Array& of, const Array& in, F function,
                Fold fold) {
  const DType common = promoted({of, in});
  const int64_t item = std::max(local::itemsize(common), local::itemsize(DType::int64));
  const int64_t beside = algo::bytes_beside_sorted(common);  // for each element of the table
  // Half of a task is for x, and half for the table.
  const Array x = in_fitting_chunks(of, 2 * op::element_task_bytes(item));
  const Array table = is_small(in) ? in : in_fitting_chunks(in, 2 * op::element_task_bytes(item) + beside);
  const Array arrays[] = {x, table};
  const int64_t of_table = is_small(table) ? table.size() : table.chunks().axis(0).largest();
  const int64_t elements = local::element_count(x.chunks().largest()) + of_table;
  BlockOptions options{.name = name, .dtypes = {result}, .identity = identity};
  options.scratch_bytes = op::estimated_peak_bytes(elements * item) + of_table * beside;
  if (is_small(table)) return apply_gufunc(block_function(function), "(),(n)->()", arrays, {}, options)[0];
  std::string axes;
  for (int d = 0; d < x.ndim(); ++d) axes += static_cast<char>('a' + d);
  const auto part = [function](const NdArray& elements_of_x, const NdArray& part_of_table) {
    return local::ops::expand_dims(function(elements_of_x, part_of_table), 0);
  };
  const Indexed given[] = {{x, axes}, {table, "T"}};
  const BlockwiseOptions one_each{{}, {{'T', [](int64_t) { return int64_t{1}; }}}};
  return fold(blockwise(block_function(part), "T" + axes, given, one_each, options));
}

Array places_by_search(const Array& table, const Array& v, bool right) {
  return looked_up(
      "searchsorted", right, DType::int64, v, table,
      [right](const NdArray& x, const NdArray& sorted) {
        return local::ops::searchsorted(sorted, x, right ? "right" : "left");
      },
      [](const Array& places) { return sum(places, 0); });
}

// How many elements of the sorted table precede each of those given.
Array places(const NdArray& table, const Array& given, bool right) {
  // In the dtype that both promote to, as NumPy.
  const DType common = local::promote_types(table.dtype(), given.dtype());
  bool is_searched = table.size() == 0 || table.size() > kMostSteps || local::is_complex(common);
  for (int64_t k = 0; k < table.size() && !is_searched; ++k)
    is_searched = local::is_float(table.dtype()) && std::isnan(table[{k}].item().as_double());
  if (is_searched) return places_by_search(Array::from_local(table), given, right);
  const Array v = given.astype(common);
  std::optional<Array> place;
  for (int64_t k = 0; k < table.size(); ++k) {
    const Scalar edge = Scalar::strong(table[{k}].item(), common);
    Array precedes = right ? less_equal(edge, v) : less(edge, v);
    if (local::is_float(common)) precedes = logical_or(precedes, isnan(v));  // behind all numbers
    const Array one = precedes.astype(DType::int64);
    place = place ? *place + one : one;
  }
  return *place;
}

// Throws as the local functions do.
void check_weights_of(int64_t points, const Array& weights) {
  if (!local::can_cast(weights.dtype(), DType::float64, local::Casting::safe))
    throw local::TypeError(
        fmt::format("Cannot cast array data from dtype('{}') to dtype('float64') according to the rule 'safe'",
                    local::name(weights.dtype())));
  if (weights.ndim() == 0) throw InvalidArgument("object of too small depth for desired array");
  if (weights.ndim() > 1) throw InvalidArgument("object too deep for desired array");
  if (weights.size() != points)
    throw InvalidArgument(
        fmt::format("The weights and list don't have the same length ({} and {}).", weights.size(), points));
}

// Points as one array whose axis 0 counts them, or an array per coordinate.
struct Points {
  explicit Points(const Sample& sample) {
    if (const auto* one = std::get_if<Array>(&sample))
      arrays = {*one};
    else
      arrays = std::get<std::vector<Array>>(sample), is_table = false;
    // Numbers are points of one coordinate.
    if (!arrays.empty() && arrays[0].ndim() == 0) arrays = {stack(arrays, 0)}, is_table = true;
  }
  // In the form that local functions take.
  local::ops::Sample sample_of(std::span<const NdArray> given) const {
    if (is_table) return given[0];
    return local::ArrayTuple(given.begin(), given.end());
  }

  std::vector<Array> arrays;
  bool is_table = true;
};

// The smallest and the largest of each coordinate stand for all points where edges depend on them, else none do.
std::vector<NdArray> ends_of(const Points& points, bool wanted) {
  std::vector<Array> ends;
  for (const Array& array : points.arrays) {
    if (!wanted || array.size() == 0 || array.ndim() == 0 || array.ndim() > 2) break;
    ends.push_back(min(array, 0));
    ends.push_back(max(array, 0));
  }
  const bool found = !ends.empty() && ends.size() == 2 * points.arrays.size();
  const std::vector<NdArray> values = found ? to_host(ends) : std::vector<NdArray>();
  std::vector<NdArray> result;
  for (size_t i = 0; i < points.arrays.size(); ++i) {
    const Array& array = points.arrays[i];
    if (found)
      result.push_back(local::ops::stack({values[2 * i], values[2 * i + 1]}, 0));
    else
      result.emplace_back(array.ndim() == 0 ? Dims() : with_extent(array.shape(), 0, 0), array.dtype(),
                          local::default_context(local::kCpu));
  }
  return result;
}

local::ops::AxisBins local_bins(const AxisBins& bins) {
  if (const auto* count = std::get_if<int64_t>(&bins)) return *count;
  if (const auto* array = std::get_if<Array>(&bins)) return array->to_host();
  local::ArrayTuple each;
  for (const Array& array : std::get<std::vector<Array>>(bins)) each.push_back(array.to_host());
  return each;
}

// Whether bins of some coordinate are a number without a range for them.
bool depend_on_ends(const local::ops::AxisBins& bins, const std::optional<std::vector<BinRange>>& range) {
  if (range && std::ranges::all_of(*range, [](const BinRange& each) { return each.has_value(); })) return false;
  const auto* list = std::get_if<local::ArrayTuple>(&bins);
  const auto* array = std::get_if<NdArray>(&bins);
  if (list != nullptr) return std::ranges::any_of(*list, [](const NdArray& each) { return each.ndim() == 0; });
  return array == nullptr || array->ndim() < 2;
}

// Of points whose edges are known.
Array counts_of_points(const Points& points, const std::vector<NdArray>& edges, bool density,
                       const std::optional<Array>& weights) {
  Dims shape;
  for (const NdArray& each : edges) shape.push_back(each.size() - 1);
  std::vector<Array> arrays = points.arrays;
  const size_t columns = arrays.size();
  const int64_t n = arrays[0].shape()[0];
  for (const Array& array : arrays)
    if (array.shape()[0] != n)
      throw InvalidArgument(fmt::format("coordinates have different lengths: {} and {}", n, array.shape()[0]));
  if (weights) {
    check_weights_of(n, *weights);
    arrays.push_back(weights->astype(DType::float64));
  }
  const int64_t count = local::element_count(shape);
  Array counts = constant(shape, 0, DType::float64);
  if (count > 0 && n > 0) {
    std::vector<Array> tables;
    for (const NdArray& each : edges) tables.push_back(Array::from_local(each));
    const bool weighted = weights.has_value();
    const auto function = [points, columns, weighted](std::span<const NdArray> given, int64_t, int64_t) {
      std::optional<NdArray> w;
      if (weighted) w = given[columns];
      const auto rest = given.subspan(columns + (weighted ? 1 : 0));
      return local::ops::histogramdd(points.sample_of(given.first(columns)),
                                     local::ArrayTuple(rest.begin(), rest.end()), {}, {}, w)
          .first;
    };
    const uint64_t identity = op::Hash().add(points.is_table).add(weighted).value;
    counts = reshape(summed({"histogramdd", identity, 1, count, DType::float64, function}, arrays, tables), shape);
  }
  if (!density) return counts;
  const Array all = sum(counts);
  for (size_t i = 0; i < edges.size(); ++i) {
    Dims extents = Dims::filled(shape.size(), 1);
    extents[static_cast<int>(i)] = shape[static_cast<int>(i)];
    counts = counts / Array::from_local(local::ops::diff(edges[i]).reshape(extents));
  }
  return counts / all;
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

Array bincount(const Array& x, const std::optional<Array>& weights, int64_t minlength) {
  // Dtypes, shapes and options are the local function's to check; of no elements it gives what there is.
  const auto small = [](const Array& array) {
    const Dims shape = array.ndim() == 1 ? Dims{0} : Dims::filled(array.ndim(), 1);
    NdArray result(shape, array.dtype(), local::default_context(local::kCpu));
    result.fill(0);
    return result;
  };
  local::ops::bincount(small(x), std::nullopt, std::min<int64_t>(minlength, 0));
  if (x.size() == 0) return constant({minlength}, 0, DType::int64);
  if (x.dtype() == DType::float64) local::ops::bincount(NdArray{0.});  // throws
  const Array places = x.astype(DType::int64);
  const auto [least, greatest] = ends_of(places);
  if (least.item<int64_t>() < 0) throw InvalidArgument("'list' argument must have no negative elements");
  const int64_t last = greatest.item<int64_t>();
  if (last == std::numeric_limits<int64_t>::max())
    throw InvalidArgument(fmt::format("no array has as many elements as counts up to {}", last));
  const int64_t bins = std::max(last + 1, minlength);
  std::vector<Array> arrays{places};
  if (weights) {
    check_weights_of(x.size(), *weights);
    arrays.push_back(weights->astype(DType::float64));
  }
  const auto function = [bins](std::span<const NdArray> given, int64_t first, int64_t count) {
    const std::optional<NdArray> w = given.size() > 1 ? std::optional(given[1]) : std::nullopt;
    if (count == bins) return local::ops::bincount(given[0], w, bins);
    // What is elsewhere is counted behind these bins.
    const NdArray from = local::ops::subtract(given[0], first);
    const NdArray outside = local::ops::logical_or(local::ops::less(from, 0), local::ops::greater_equal(from, count));
    const NdArray counts = local::ops::bincount(local::ops::where(outside, count, from), w, count + 1);
    return arrange::part(counts, 0, 0, count);
  };
  const DType dtype = weights ? DType::float64 : DType::int64;
  const int64_t at_once = target_chunk_bytes(chunk_policy().device) / static_cast<int64_t>(sizeof(int64_t));
  return summed({"bincount", static_cast<uint64_t>(bins), 1, bins, dtype, function, std::min(bins, at_once)}, arrays,
                {});
}

std::pair<Array, std::vector<Array>> histogramdd(const Sample& sample, const AxisBins& bins,
                                                 const std::optional<std::vector<BinRange>>& range,
                                                 std::optional<bool> density, const std::optional<Array>& weights) {
  const Points points(sample);
  const local::ops::AxisBins given = local_bins(bins);
  const std::vector<NdArray> ends = ends_of(points, depend_on_ends(given, range));
  const std::vector<NdArray> edges = local::ops::histogramdd(points.sample_of(ends), given, range).second;
  std::vector<Array> all;
  for (const NdArray& each : edges) all.push_back(Array::from_local(each));
  return {counts_of_points(points, edges, density.value_or(false), weights), all};
}

std::tuple<Array, Array, Array> histogram2d(const Array& x, const Array& y, const AxisBins& bins,
                                            const std::optional<std::vector<BinRange>>& range,
                                            std::optional<bool> density, const std::optional<Array>& weights) {
  if (x.ndim() == 0 || y.ndim() == 0) throw local::TypeError("len() of unsized object");
  const Points points(std::vector<Array>{x, y});
  const local::ops::AxisBins given = local_bins(bins);
  const std::vector<NdArray> ends = ends_of(points, depend_on_ends(given, range));
  const auto [counts, of_x, of_y] = local::ops::histogram2d(ends[0], ends[1], given, range);
  return {counts_of_points(points, {of_x, of_y}, density.value_or(false), weights), Array::from_local(of_x),
          Array::from_local(of_y)};
}

Array searchsorted(const Array& a, const Operand& v, std::string_view side, const std::optional<Array>& sorter) {
  if (a.ndim() == 1 && !is_small(a)) {
    const NdArray nothing(Dims{0}, a.dtype(), local::default_context(local::kCpu));
    local::ops::searchsorted(nothing, nothing, side);  // checks the side
    if (sorter && sorter->shape() != a.shape()) throw InvalidArgument("sorter.size must equal a.size");
    const Array sorted = sorter ? take(a, *sorter, 0) : a, values = as_array(v);
    return is_large(sorted) ? ordering::places_by_order(sorted, values, side == "right")
                            : places_by_search(sorted, values, side == "right");
  }
  NdArray table = a.to_host();
  const std::optional<NdArray> order = sorter ? std::optional(sorter->to_host()) : std::nullopt;
  // Checks table, side and sorter; and of a number that is all there is to do.
  if (!v.is_array()) return Array::from_local(local::ops::searchsorted(table, v.scalar(), side, order));
  const NdArray nothing(Dims{0}, v.array().dtype(), local::default_context(local::kCpu));
  local::ops::searchsorted(table, nothing, side, order);
  if (order) table = local::ops::take(table, *order);
  return places(table, v.array(), side == "right");
}

Array digitize(const Array& x, const Array& bins, bool right) {
  if (local::is_complex(x.dtype())) throw local::TypeError("x may not be complex");
  const NdArray table = bins.to_host();
  const NdArray nothing(Dims{0}, x.dtype(), local::default_context(local::kCpu));
  local::ops::digitize(nothing, table, right);  // checks the table
  const int64_t n = table.size();
  // What is below all numbers is behind edges that descend.
  const NdArray lowest({1}, DType::float64, local::default_context(local::kCpu));
  lowest.fill(-std::numeric_limits<double>::infinity());
  const bool descends = n > 1 && local::ops::digitize(lowest, table, true).item<int64_t>() == n;
  if (!descends) return places(table, x, !right);
  const NdArray ascending = table[{local::Slice{std::nullopt, std::nullopt, -1}}].copy();
  return n - places(ascending, x, !right);
}

Array isin(const Array& element, const Array& test_elements, bool /*assume_unique*/, bool invert,
           std::optional<std::string_view> kind) {
  const auto nothing = [](const Array& array) {
    return NdArray(Dims{0}, array.dtype(), local::default_context(local::kCpu));
  };
  local::ops::isin(nothing(element), nothing(test_elements), false, invert, kind);  // checks `kind`
  if (test_elements.size() == 0) return constant(element.shape(), invert, DType::bool_);
  if (is_large(test_elements)) {
    const Array found = ordering::presence_by_order(ravel(test_elements), element);
    return invert ? logical_not(found) : found;
  }
  if (test_elements.size() > kMostSteps || !is_small(test_elements)) {
    const Array found = looked_up(
        "isin", 0, DType::bool_, element, ravel(test_elements),
        [](const NdArray& x, const NdArray& set) { return local::ops::isin(x, set); },
        [](const Array& each) { return any(each, 0); });
    return invert ? logical_not(found) : found;
  }
  const NdArray table = test_elements.to_host().reshape({-1});
  Array found;
  for (int64_t k = 0; k < table.size(); ++k) {
    const Array one = element == Scalar::strong(table[{k}].item(), table.dtype());
    found = k == 0 ? one : logical_or(found, one);
  }
  return invert ? logical_not(found) : found;
}

}  // namespace quarry
