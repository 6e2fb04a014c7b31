// The k greatest or smallest elements of every line along an axis that is cut into chunks: the k of each chunk are
// candidates, and those of neighbours are merged along a tree. Everything is read once; a task holds a chunk, or the
// candidates of at least two. Elements are ordered by value and position, as a stable sort has them, so that the result
// does not depend on the chunks.
#include <algorithm>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/grid/listing.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/arrange.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::algo {
namespace {

namespace ops = local::ops;
using local::DType;
using local::NdArray;

constexpr int64_t kPositionBytes = 3 * sizeof(int64_t);  // of what is on the way, for every element
constexpr int64_t kMostTogether = int64_t{1} << 20;      // candidates that meet in a task

// In ascending order, as they stand in a sorted line: so of equal elements the later ones stand last in joined
// candidates too.
std::pair<NdArray, NdArray> sorted_ends(const NdArray& lines, int64_t k, int axis, bool greatest) {
  const auto [values, positions] = ops::top_k(lines, std::min(k, lines.shape()[axis]), axis, greatest);
  if (!greatest) return {values, positions};
  return {local::arrange::backwards(values, axis), local::arrange::backwards(positions, axis)};
}

}  // namespace

int64_t ends_bytes(DType dtype) { return op::element_task_bytes(local::itemsize(dtype)) + kPositionBytes; }

std::vector<NodePtr> ends_of_lines(const NodePtr& arg, int axis, int64_t k, bool greatest, bool positions) {
  const AxisChunks& cuts = arg->grid.axis(axis);
  const uint64_t identity = op::Hash().add(axis).add(k).add(greatest).add(positions).value;
  std::vector<Along> along;
  for (int d = 0; d < arg->grid.ndim(); ++d) along.push_back(Along::following(d, arg->grid.axis(d)));
  std::vector<int64_t> extents;
  check_listable(cuts.count());
  for (int64_t i = 0; i < cuts.count(); ++i) extents.push_back(std::min(k, cuts.size(i)));
  std::vector<AxisChunks> axes = arg->grid.axes();
  axes[static_cast<size_t>(axis)] = AxisChunks(extents);
  const Grid grid(std::move(axes));

  MapSpec candidates;
  candidates.name = "top_k";
  candidates.identity = identity;
  candidates.along = {std::move(along)};
  candidates.outputs = {{grid.shape(), arg->dtype, grid, /*chosen_grid=*/true}};
  if (positions) candidates.outputs.push_back({grid.shape(), DType::int64, grid, /*chosen_grid=*/true});
  candidates.bytes_per_element = kPositionBytes;
  candidates.function = [=](std::span<const NdArray> arrays, const ChunkPlace& place) {
    auto [values, at] = sorted_ends(arrays[0], k, axis, greatest);
    if (!positions) return std::vector<NdArray>{values};
    return std::vector<NdArray>{values, local::apply("add"_op, {at, place.arguments[0].start[axis]})};
  };

  Merge merge;
  merge.name = "top_k merge";
  merge.identity = identity;
  merge.axis = axis;
  const int64_t lines = local::element_count(grid.largest()) / std::max<int64_t>(grid.axis(axis).largest(), 1);
  merge.most = kMostTogether / std::max<int64_t>(lines, 1);
  merge.bytes_per_element = kPositionBytes;
  merge.extent = [k](size_t, int64_t together) { return std::min(k, together); };
  merge.fold = [=](std::span<const NdArray> states, std::span<const int64_t>) {
    auto [values, at] = sorted_ends(states[0], k, axis, greatest);
    if (!positions) return std::vector<NdArray>{values};
    return std::vector<NdArray>{values, ops::take_along_axis(states[1], at, axis)};
  };
  return merged(merge, map(std::move(candidates), {arg}));
}

}  // namespace quarry::algo
