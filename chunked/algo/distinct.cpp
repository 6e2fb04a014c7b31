// Distinct elements, or rows: those of every chunk, merged along a tree. Their numbers are data, so every state has
// room for as many as its chunk may have, or for `most`, and says how many it has: one plan does it all. Reads
// everything once, writes no more than it reads; a task holds a chunk and its distinct elements, or two states and what
// they become. Of equal elements the first one in the order of chunks stands for all, as for a whole array.
#include <algorithm>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/algo/sort.h"
#include "quarry/chunked/algo/states.h"
#include "quarry/chunked/op/operator.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/arrange.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::algo {
namespace {

namespace ops = local::ops;
using local::DType;
using local::NdArray;

// Of what is on the way, for every element.
int64_t bytes_on_the_way(DType dtype) {
  constexpr int64_t kPositions = 3 * sizeof(int64_t) / 2;
  return kPositions + bytes_beside_sorted(dtype);
}

NdArray rows_of(const NdArray& array, int64_t start, int64_t count) {
  return local::arrange::part(array, 0, start, count);
}

struct Distinct {
  NdArray values, first, group;  // `first` of each, and the group of each element
};

Distinct distinct_in(const NdArray& rows, const DistinctWanted& wanted) {
  const std::optional<int64_t> axis = rows.ndim() > 1 ? std::optional<int64_t>(0) : std::nullopt;
  const bool positions = wanted.index || wanted.counts;
  const auto found = ops::unique(rows, positions, wanted.counts, false, axis, wanted.equal_nan);
  if (!positions) return {std::get<NdArray>(found), {}, {}};
  const auto& all = std::get<local::ArrayTuple>(found);
  return {all[0], all[1], wanted.counts ? all[2] : NdArray()};
}

// Sums of `numbers` over groups. They are exact: no array has 2^53 elements.
NdArray sums_of(const NdArray& group, const std::optional<NdArray>& numbers, int64_t groups) {
  const NdArray sums =
      ops::bincount(group, numbers ? std::optional(numbers->astype(DType::float64)) : std::nullopt, groups);
  return sums.dtype() == DType::int64 ? sums : sums.astype(DType::int64);
}

// The elements of joined states that are there.
std::vector<NdArray> present(std::span<const NdArray> states, std::span<const int64_t> parts,
                             std::span<const int64_t> counts) {
  std::vector<NdArray> result;
  for (const NdArray& state : states.first(states.size() - 1)) {
    std::vector<NdArray> pieces;
    int64_t start = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      pieces.push_back(rows_of(state, start, std::min(counts[i], parts[i])));
      start += parts[i];
    }
    result.push_back(ops::concatenate(pieces, 0));
  }
  return result;
}

MapSpec chunks_spec(const NodePtr& arg, const DistinctWanted& wanted, int64_t most) {
  MapSpec spec;
  spec.name = "unique";
  spec.identity = op::Hash().add(wanted.index).add(wanted.counts).add(wanted.equal_nan).add(most).value;
  spec.bytes_per_element = bytes_on_the_way(arg->dtype);
  std::vector<Along> along;
  for (int d = 0; d < arg->grid.ndim(); ++d) along.push_back(Along::following(d, arg->grid.axis(d)));
  spec.along = {std::move(along)};
  const AxisChunks& cuts = arg->grid.axis(0);
  std::vector<int64_t> rooms;
  for (int64_t i = 0; i < cuts.count(); ++i) rooms.push_back(std::min(cuts.size(i), most));
  const auto add = [&](DType dtype, AxisChunks rows, bool whole_rows) {
    std::vector<AxisChunks> axes = arg->grid.axes();
    axes[0] = std::move(rows);
    if (!whole_rows) axes.resize(1);
    Grid grid(std::move(axes));
    const Dims shape = grid.shape();
    spec.outputs.push_back({shape, dtype, std::move(grid), /*chosen_grid=*/true});
  };
  add(arg->dtype, AxisChunks(rooms), true);
  if (wanted.index) add(DType::int64, AxisChunks(rooms), false);
  if (wanted.counts) add(DType::int64, AxisChunks(rooms), false);
  add(DType::int64, AxisChunks(cuts.count(), 1), false);
  return spec;
}

// Which elements are NaN, or which rows have one.
NdArray is_missing(const NdArray& rows) {
  const NdArray missing = local::apply("isnan"_op, {rows});
  return rows.ndim() > 1 ? local::reduce("any"_reduction, missing, 1) : missing;
}

// Of distinct rows: the number of each row among them.
NdArray row_numbers(const NdArray& rows, const NdArray& values) {
  const auto all =
      std::get<local::ArrayTuple>(ops::unique(ops::concatenate({values, rows}, 0), false, true, false, /*axis=*/0));
  const int64_t known = values.shape()[0];
  const NdArray number({all[0].shape()[0]}, DType::int64);
  number.fill(0);
  ops::put(number, rows_of(all[1], 0, known), ops::arange(known), "clip");
  return ops::take(number, rows_of(all[1], known, rows.shape()[0]));
}

}  // namespace

NodePtr starts_of_equals(const NodePtr& sorted, bool equal_nan) {
  const AxisChunks& cuts = sorted->grid.axis(0);
  Along along = Along::following(0, cuts);
  along.before = 1;
  MapSpec spec;
  spec.name = "starts of equals";
  spec.identity = equal_nan;
  spec.along = {{along}};
  const Grid grid({cuts});
  spec.outputs = {{grid.shape(), DType::bool_, grid, sorted->chosen_grid}};
  spec.by_trial = true;
  spec.function = [equal_nan](std::span<const NdArray> arrays, const ChunkPlace& place) {
    const int64_t count = place.outputs[0].count[0], given = arrays[0].shape()[0];
    const NdArray starts = ops::run_starts(arrays[0], equal_nan, local::context_for(arrays[0].device()));
    return std::vector<NdArray>{rows_of(starts, given - count, count)};
  };
  return map(std::move(spec), {sorted})[0];
}

int64_t distinct_bytes(DType dtype, int64_t width, const DistinctWanted& wanted) {
  // A merger holds two full states and the one that they become.
  constexpr int64_t kStates = 3;
  const int64_t positions = (wanted.index ? 1 : 0) + (wanted.counts ? 1 : 0);
  const int64_t bytes = width * local::itemsize(dtype) + positions * static_cast<int64_t>(sizeof(int64_t));
  return kStates * (op::element_task_bytes(bytes) + (width + positions) * bytes_on_the_way(dtype));
}

std::vector<NodePtr> distinct(const NodePtr& arg, const DistinctWanted& wanted, int64_t most, int64_t together) {
  MapSpec chunks = chunks_spec(arg, wanted, most);
  chunks.function = [wanted](std::span<const NdArray> arrays, const ChunkPlace& place) {
    const Distinct found = distinct_in(arrays[0], wanted);
    const int64_t count = found.values.shape()[0];
    std::vector<NdArray> results{found.values};
    if (wanted.index) results.push_back(local::apply("add"_op, {found.first, place.arguments[0].start[0]}));
    if (wanted.counts) results.push_back(sums_of(found.group, std::nullopt, count));
    return as_states(std::move(results), place.outputs[0].count[0], count);
  };

  Merge merge;
  merge.name = "unique merge";
  merge.identity = chunks.identity;
  merge.most = together;
  merge.bytes_per_element = chunks.bytes_per_element;
  const size_t last = chunks.outputs.size() - 1;
  merge.extent = [most, last](size_t state, int64_t extent) {
    return state == last ? int64_t{1} : std::min(extent, most);
  };
  merge.fold = [wanted, most](std::span<const NdArray> states, std::span<const int64_t> parts) {
    const std::vector<int64_t> counts = local::to_vector<int64_t>(states.back());
    const std::vector<NdArray> all = present(states, parts, counts);
    const Distinct found = distinct_in(all[0], wanted);
    int64_t count = found.values.shape()[0], room = 0;
    std::vector<NdArray> results{found.values};
    if (wanted.index) results.push_back(ops::take(all[1], found.first));
    if (wanted.counts) results.push_back(sums_of(found.group, all.back(), count));
    for (size_t i = 0; i < parts.size(); ++i) {
      room += parts[i];
      if (counts[i] > parts[i]) count = std::max(count, counts[i]);  // some were left out
    }
    return as_states(std::move(results), std::min(room, most), count);
  };
  return merged(merge, map(std::move(chunks), {arg}));
}

NodePtr places_of(const NodePtr& arg, const NodePtr& values, const NodePtr& first) {
  const AxisChunks& cuts = arg->grid.axis(0);
  const int64_t known = values->shape[0];
  const auto whole = [](const NodePtr& node) {
    return std::vector<Along>(static_cast<size_t>(node->shape.size()), Along::whole());
  };
  std::vector<NodePtr> args{arg, values};
  if (first) {
    // The positions of NaN in ascending order, behind numbers below 0 for the others, and whose they are.
    const Grid one = Grid::single({known});
    MapSpec table;
    table.name = "unique NaN";
    table.along = {whole(values), whole(first)};
    table.outputs = {{{known}, DType::int64, one}, {{known}, DType::int64, one}};
    table.bytes_per_element = bytes_on_the_way(DType::int64);
    table.function = [](std::span<const NdArray> arrays, const ChunkPlace&) {
      const NdArray position = local::apply("where"_op, {is_missing(arrays[0]), arrays[1], -1});
      const NdArray order = ops::argsort(position);
      return std::vector<NdArray>{ops::take(position, order), order};
    };
    for (NodePtr& node : map(std::move(table), {values, first})) args.push_back(std::move(node));
  }
  MapSpec spec;
  spec.name = "unique inverse";
  spec.identity = op::Hash().add(first != nullptr).value;
  for (const NodePtr& node : args) spec.along.push_back(whole(node));
  spec.along[0][0] = Along::following(0, cuts);
  spec.outputs = {{{cuts.extent()}, DType::int64, Grid({cuts}), arg->chosen_grid}};
  spec.bytes_per_element = bytes_on_the_way(arg->dtype);
  spec.function = [known](std::span<const NdArray> arrays, const ChunkPlace& place) {
    const NdArray &rows = arrays[0], &all = arrays[1];
    NdArray number = rows.ndim() > 1 ? row_numbers(rows, all)
                                     : local::apply("minimum"_op, {ops::searchsorted(all, rows), known - 1});
    if (arrays.size() > 2) {
      const int64_t start = place.arguments[0].start[0];
      const NdArray at = ops::searchsorted(arrays[2], ops::arange(start, start + rows.shape()[0]));
      const NdArray of_nan = ops::take(arrays[3], at, std::nullopt, std::nullopt, "clip");
      number = local::apply("where"_op, {is_missing(rows), of_nan, number});
    }
    return std::vector<NdArray>{number};
  };
  return map(std::move(spec), std::move(args))[0];
}

std::vector<NodePtr> counted_call(const std::string& name, const std::vector<NodePtr>& args,
                                  const std::vector<DType>& results, int64_t most,
                                  std::function<std::vector<NdArray>(std::span<const NdArray>)> function) {
  MapSpec spec;
  spec.name = name;
  for (const NodePtr& arg : args) spec.along.emplace_back(static_cast<size_t>(arg->shape.size()), Along::whole());
  for (const DType dtype : results) spec.outputs.push_back({{most}, dtype, Grid::single({most})});
  spec.outputs.push_back({{1}, DType::int64, Grid::single({1})});
  for (const NodePtr& arg : args)
    spec.bytes_per_element = std::max(spec.bytes_per_element, bytes_on_the_way(arg->dtype));
  spec.function = [function = std::move(function), most](std::span<const NdArray> arrays, const ChunkPlace&) {
    std::vector<NdArray> made = function(arrays);
    const int64_t count = made[0].shape()[0];
    return as_states(std::move(made), most, count);
  };
  return map(std::move(spec), args);
}

}  // namespace quarry::algo
