// Rows with equal keys as one: what is known of every group is one row per chunk that it is in. Reads everything once;
// a task holds a chunk, that sorted, and its groups, whose number is data: they have room for as many as there are
// rows.
#include "quarry/chunked/algo/group.h"

#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/algo/sort.h"
#include "quarry/chunked/algo/states.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/methods.h"

namespace quarry::algo {
namespace {

namespace ops = local::ops;
using local::DType;
using local::NdArray;

constexpr int64_t kPositionBytes = 4 * sizeof(int64_t);  // of what is on the way, for every element

local::Op op_of(GroupState state) {
  switch (state) {
    case GroupState::sum:
      return "add"_op;
    case GroupState::least:
      return "minimum"_op;
    case GroupState::greatest:
      return "maximum"_op;
  }
  return "add"_op;
}

}  // namespace

NdArray starts_of_groups(std::span<const NdArray> keys) {
  NdArray flags;
  for (const NdArray& key : keys) {
    const NdArray here = ops::run_starts(key, /*equal_nan=*/true, local::context_for(key.device()));
    flags = flags.ndim() == 0 ? here : local::apply("logical_or"_op, {flags, here});
  }
  return flags;
}

std::vector<NdArray> grouped(std::span<const NdArray> columns, std::span<const GroupState> states) {
  const std::span<const NdArray> keys = columns.first(columns.size() - states.size());
  const NdArray flags = starts_of_groups(keys);
  std::vector<NdArray> result;
  for (const NdArray& key : keys) result.push_back(ops::compress(flags, key, 0));
  const NdArray starts = ops::flatnonzero(flags);
  for (size_t i = 0; i < states.size(); ++i) {
    const NdArray& column = columns[keys.size() + i];
    result.push_back(column.size() == 0 ? column : ops::ufunc_reduceat(op_of(states[i]), column, starts));
  }
  return result;
}

int64_t group_bytes(int64_t row_bytes, int64_t columns) {
  return row_bytes + op::element_task_bytes(row_bytes) + 2 * columns * kPositionBytes;
}

GroupedChunks grouped_chunks(const std::vector<NodePtr>& keys, const std::vector<NodePtr>& columns,
                             const std::vector<GroupState>& states, bool sorted) {
  const AxisChunks& cuts = keys[0]->grid.axis(0);
  std::vector<NodePtr> all = keys;
  all.insert(all.end(), columns.begin(), columns.end());
  MapSpec spec;
  spec.name = sorted ? "group sorted" : "group";
  op::Hash identity;
  identity.add(static_cast<int64_t>(keys.size())).add(sorted);
  for (const GroupState state : states) identity.add(static_cast<int>(state));
  spec.identity = identity.value;
  const Grid rows({cuts}), one({AxisChunks(cuts.count(), 1)});
  const auto add = [&](DType dtype, const Grid& grid) {
    spec.outputs.push_back({grid.shape(), dtype, grid, /*chosen_grid=*/true});
  };
  for (const NodePtr& node : all) {
    spec.along.push_back({Along::following(0, cuts)});
    add(node->dtype, rows);
  }
  add(DType::int64, one);
  for (int end = 0; end < 2; ++end)
    for (const NodePtr& node : all) add(node->dtype, one);
  spec.bytes_per_element = kPositionBytes;
  spec.function = [keys = keys.size(), states, sorted](std::span<const NdArray> arrays, const ChunkPlace& place) {
    std::vector<NdArray> rows(arrays.begin(), arrays.end());
    if (!sorted) {
      const NdArray order = order_of(arrays.first(keys), /*signs=*/false);
      for (NdArray& row : rows) row = ops::take(row, order, 0);
    }
    std::vector<NdArray> groups = grouped(rows, states), ends;
    const int64_t count = groups[0].shape()[0];
    for (const int64_t end : {int64_t{0}, count - 1})
      for (const NdArray& group : groups) ends.push_back(local::arrange::part(group, 0, end, 1));
    groups = as_states(std::move(groups), place.outputs[0].count[0], count);
    groups.insert(groups.end(), ends.begin(), ends.end());
    return groups;
  };
  std::vector<NodePtr> made = map(std::move(spec), all);
  GroupedChunks result;
  const auto part = [&](size_t begin, size_t count) {
    return std::vector<NodePtr>(made.begin() + static_cast<std::ptrdiff_t>(begin),
                                made.begin() + static_cast<std::ptrdiff_t>(begin + count));
  };
  const size_t n = all.size();
  result.columns = part(0, n);
  result.counts = made[n];
  result.firsts = part(n + 1, n);
  result.lasts = part(2 * n + 1, n);
  return result;
}

}  // namespace quarry::algo
