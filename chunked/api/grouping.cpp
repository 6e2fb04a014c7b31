#include "quarry/chunked/api/grouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "quarry/chunked/algo/group.h"
#include "quarry/chunked/algo/sort.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/api/ordering.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"

namespace quarry {

using namespace compose;

namespace {

using algo::GroupState;
using algo::Stretch;
using algo::Stretches;

// The dtypes of sums, and that in which they are added up.
DType sum_dtype(DType dtype) { return expr::reduce("sum"_reduction, expr::constant(0, dtype, {1}), 1)->dtype; }
DType adding_dtype(DType dtype) {
  if (local::is_complex(dtype)) return DType::complex128;
  return local::is_float(dtype) ? DType::float64 : sum_dtype(dtype);
}

// What is kept of every group, and where each operation finds it.
struct States {
  std::vector<Array> columns;
  std::vector<GroupState> kinds;
  std::optional<size_t> sum, count, least, greatest;

  void add(std::optional<size_t>& place, GroupState kind, const Array& column) {
    if (place) return;
    place = columns.size();
    columns.push_back(column);
    kinds.push_back(kind);
  }
};

States states_of(const Array& values, std::span<const GroupOp> ops) {
  States states;
  for (const GroupOp op : ops) {
    if (op == GroupOp::sum || op == GroupOp::mean)
      states.add(states.sum, GroupState::sum, values.astype(adding_dtype(values.dtype())));
    if (op == GroupOp::count || op == GroupOp::mean)
      states.add(states.count, GroupState::sum, constant(values.shape(), 1, DType::int64));
    if (op == GroupOp::min) states.add(states.least, GroupState::least, values);
    if (op == GroupOp::max) states.add(states.greatest, GroupState::greatest, values);
  }
  return states;
}

// Groups of chunks, computed: the rows that are there.
struct Parts {
  std::vector<int64_t> counts;         // of each chunk
  std::vector<NdArray> firsts, lasts;  // of the columns, a row for each chunk
  std::vector<Array> columns;          // as algo::GroupedChunks has them
};
Parts parts_of(const algo::GroupedChunks& chunks) {
  std::vector<Array> values{Array(chunks.counts)};
  for (const auto* ends : {&chunks.firsts, &chunks.lasts})
    for (const expr::NodePtr& node : *ends) values.emplace_back(node);
  const Settled settled = settle(values, std::vector<Array>(chunks.columns.begin(), chunks.columns.end()));
  const auto n = static_cast<std::ptrdiff_t>(chunks.columns.size());
  const auto ends = settled.values.begin() + 1;
  return {local::to_vector<int64_t>(settled.values[0]), {ends, ends + n}, {ends + n, ends + 2 * n}, settled.kept};
}

// Rows [skipped[i], counts[i]) of every chunk i, one after the other.
std::vector<Array> rows_of(const Parts& parts, const std::vector<int64_t>& skipped) {
  const AxisChunks& cuts = parts.columns[0].chunks().axis(0);
  const auto rows = std::make_shared<Stretches>();
  for (int64_t i = 0; i < cuts.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (parts.counts[at] > skipped[at])
      rows->push_back({Stretch{cuts.start(i) + skipped[at], parts.counts[at] - skipped[at]}});
  }
  std::vector<Array> result;
  for (const Array& column : parts.columns)
    result.emplace_back(algo::joined_stretches("group rows", column.node(), rows));
  return result;
}

// Sorted rows of which groups reach over chunks: each is put together in the chunk where it begins.
std::vector<Array> finished(const Parts& parts, const std::vector<GroupState>& states) {
  const size_t chunks = parts.counts.size(), keys = parts.columns.size() - states.size();
  // The first and the last row of every chunk, or the only one.
  struct End {
    size_t chunk;
    bool first;
  };
  std::vector<End> ends;
  std::vector<int64_t> places;  // of the ends among firsts and lasts
  for (size_t i = 0; i < chunks; ++i) {
    ends.push_back({i, true});
    places.push_back(static_cast<int64_t>(i));
    if (parts.counts[i] == 1) continue;
    ends.push_back({i, false});
    places.push_back(static_cast<int64_t>(chunks + i));
  }
  std::vector<NdArray> rows;
  for (size_t c = 0; c < parts.columns.size(); ++c)
    rows.push_back(
        local::ops::take(local::ops::concatenate({parts.firsts[c], parts.lasts[c]}, 0), local::from_vector(places), 0));
  const std::vector<bool> starts = [&] {
    const NdArray flags = algo::starts_of_groups(std::span(rows).first(keys));
    return std::vector<bool>(flags.data<bool>(), flags.data<bool>() + flags.size());
  }();
  const std::vector<NdArray> groups = algo::grouped(rows, states);

  std::vector<int64_t> skipped(chunks, 0);
  for (size_t e = 0; e < ends.size(); ++e)
    if (ends[e].first && !starts[e]) skipped[ends[e].chunk] = 1;
  std::vector<int64_t> begins{0};  // of the chunks' rows in the result
  for (size_t i = 0; i < chunks; ++i) begins.push_back(begins.back() + parts.counts[i] - skipped[i]);
  std::vector<int64_t> replaced, by;  // rows of the result, and the groups that they are
  int64_t group = -1;
  for (size_t e = 0; e < ends.size(); ++e) {
    if (starts[e]) {
      ++group;
      continue;
    }
    const bool is_second = starts[e - 1];  // where it began
    if (!is_second) continue;
    replaced.push_back(begins[ends[e - 1].chunk + 1] - 1);
    by.push_back(group);
  }
  std::vector<Array> result = rows_of(parts, skipped);
  if (replaced.empty()) return result;
  for (size_t c = keys; c < result.size(); ++c) {
    const Array totals = Array::from_local(local::ops::take(groups[c], local::from_vector(by), 0));
    result[c] = Array(algo::assigned_positions(result[c].node(), totals.node(), {0}, {replaced}));
  }
  return result;
}

// Those chunks of the rows, or smaller ones, of which a task groups one.
AxisChunks cut_to_fit(const std::vector<Array>& columns, const AxisChunks& cuts) {
  constexpr int64_t kTasks = 2;  // that are to fit
  int64_t row_bytes = 0;
  for (const Array& column : columns) row_bytes += local::itemsize(column.dtype());
  const int64_t most = std::max<int64_t>(
      Runtime::current().plan_bytes() / (kTasks * algo::group_bytes(row_bytes, std::ssize(columns))), 1);
  return cuts.largest() <= most ? cuts : AxisChunks(cuts.extent(), most);
}

// The rows in these chunks.
std::vector<Array> in_chunks(const std::vector<Array>& columns, const AxisChunks& cuts) {
  const Grid grid({cuts});
  std::vector<Array> result;
  for (const Array& column : columns) result.push_back(column.chunks() == grid ? column : column.rechunk(grid));
  return result;
}

}  // namespace

Grouped group_reduce(const std::vector<Array>& keys, const Array& values, std::span<const GroupOp> ops) {
  if (keys.empty()) throw InvalidArgument("group_reduce() takes at least one array of keys");
  for (const Array& key : keys) {
    if (key.ndim() != 1 || key.shape() != values.shape())
      throw InvalidArgument(fmt::format("group_reduce() takes 1-d keys and values of one length, not {} and {}",
                                        local::to_string(key.shape()), local::to_string(values.shape())));
  }
  const States states = states_of(values, ops);
  const auto result_of = [&](const std::vector<Array>& columns) {
    const auto state = [&](std::optional<size_t> place) { return columns[keys.size() + *place]; };
    Grouped result{{columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(keys.size())}, {}};
    for (const GroupOp op : ops) {
      switch (op) {
        case GroupOp::sum:
          result.results.push_back(state(states.sum).astype(sum_dtype(values.dtype())));
          break;
        case GroupOp::count:
          result.results.push_back(state(states.count));
          break;
        case GroupOp::min:
          result.results.push_back(state(states.least));
          break;
        case GroupOp::max:
          result.results.push_back(state(states.greatest));
          break;
        case GroupOp::mean: {
          const Array mean = true_divide(state(states.sum), state(states.count));
          const bool keeps = is_inexact(values.dtype());
          result.results.push_back(keeps ? mean.astype(values.dtype()) : mean);
          break;
        }
      }
    }
    return result;
  };
  std::vector<Array> columns = keys;
  columns.insert(columns.end(), states.columns.begin(), states.columns.end());
  if (values.size() == 0) return result_of(columns);

  // Each chunk's groups, and those in order.
  const AxisChunks cuts = cut_to_fit(columns, ordering::layout_of({keys, states.columns}).runs);
  columns = in_chunks(columns, cuts);
  const auto split = [&](const std::vector<Array>& all) {
    const std::vector<expr::NodePtr> nodes = nodes_of(all);
    const auto middle = nodes.begin() + static_cast<std::ptrdiff_t>(keys.size());
    return std::pair(std::vector(nodes.begin(), middle), std::vector(middle, nodes.end()));
  };
  const auto [of_keys, of_states] = split(columns);
  const Parts parts = parts_of(algo::grouped_chunks(of_keys, of_states, states.kinds, /*sorted=*/false));
  columns = rows_of(parts, std::vector<int64_t>(parts.counts.size(), 0));
  if (parts.counts.size() == 1) return result_of(columns);
  const auto middle = columns.begin() + static_cast<std::ptrdiff_t>(keys.size());
  const ordering::Ordered rows = ordering::ordered({{columns.begin(), middle}, {middle, columns.end()}});
  columns = rows.keys;
  columns.insert(columns.end(), rows.carried.begin(), rows.carried.end());
  columns = in_chunks(columns, cut_to_fit(columns, columns[0].chunks().axis(0)));
  const auto [sorted_keys, sorted_states] = split(columns);
  const Parts sorted = parts_of(algo::grouped_chunks(sorted_keys, sorted_states, states.kinds, /*sorted=*/true));
  return result_of(finished(sorted, states.kinds));
}

}  // namespace quarry
