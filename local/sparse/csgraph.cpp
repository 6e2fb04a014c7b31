#include "quarry/local/sparse/csgraph.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/ops/sorting/sets.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse::csgraph {
namespace {

// The labels' ranks among the distinct ones, which are least vertices.
Components numbered(const NdArray& least) {
  const NdArray distinct = ops::unique_values(least);
  return {distinct.size(), cast(ops::searchsorted(distinct, least), DType::int32)};
}

// Every vertex points at a lower one or itself: trees are hooked to neighbours' lower roots, then flattened (Shiloach
// and Vishkin 1982).
Components weak_components(const SparseArray& graph) {
  const Triplets edges = row_triplets(graph);
  const NdArray from = cast(edges.major, DType::int64), to = cast(edges.minor, DType::int64);
  NdArray parent = counting(graph.rows(), graph.device());
  for (;;) {
    const NdArray a = gather(parent, from), b = gather(parent, to);
    if (!any(apply("not_equal"_op, {a, b}))) return numbered(parent);
    const NdArray low = apply("minimum"_op, {a, b}), high = apply("maximum"_op, {a, b});
    ops::ufunc_at("minimum"_op, parent, {IndexTerm(high)}, Arg(low));
    for (;;) {
      const NdArray above = gather(parent, parent);
      const bool flat = !any(apply("not_equal"_op, {above, parent}));
      parent = above;
      if (flat) break;
    }
  }
}

// Tarjan's algorithm with a stack of its own instead of recursion.
std::vector<int64_t> strong_labels(const std::vector<int64_t>& offsets, const std::vector<int64_t>& targets) {
  const size_t n = offsets.size() - 1;
  constexpr int64_t kUnseen = -1;
  std::vector<int64_t> order(n, kUnseen), low(n), label(n, kUnseen), next(offsets.begin(), offsets.end() - 1);
  std::vector<size_t> open, path;
  int64_t seen = 0;
  for (size_t root = 0; root < n; ++root) {
    if (order[root] != kUnseen) continue;
    path.push_back(root);
    while (!path.empty()) {
      const size_t vertex = path.back();
      if (order[vertex] == kUnseen) {
        order[vertex] = low[vertex] = seen++;
        open.push_back(vertex);
      }
      bool descended = false;
      while (!descended && next[vertex] < offsets[vertex + 1]) {
        const auto target = static_cast<size_t>(targets[static_cast<size_t>(next[vertex])]);
        if (order[target] == kUnseen) {
          path.push_back(target);
          descended = true;
        } else {
          if (label[target] == kUnseen) low[vertex] = std::min(low[vertex], low[target]);
          ++next[vertex];
        }
      }
      if (descended) continue;
      path.pop_back();
      if (low[vertex] != order[vertex]) continue;
      // The vertex is the first of its component: all that is open behind it belongs there too.
      const auto first = std::find(open.rbegin(), open.rend(), vertex).base() - 1;
      const size_t least = *std::min_element(first, open.end());
      for (auto member = first; member != open.end(); ++member) label[*member] = static_cast<int64_t>(least);
      open.erase(first, open.end());
    }
  }
  return label;
}

}  // namespace

Components connected_components(const SparseArray& graph, bool directed, std::string_view connection) {
  if (connection != "weak" && connection != "strong")
    throw InvalidArgument(fmt::format("connection: '{}' is neither 'weak' nor 'strong'", connection));
  if (graph.rows() != graph.columns())
    throw InvalidArgument("graph: expected a square matrix, got shape " + local::to_string(graph.shape()));
  SparseArray edges = canonical(graph, Format::csr);
  if (!directed || connection == "weak") return weak_components(edges);
  const auto host = [](const NdArray& x) { return to_vector<int64_t>(cast(x, DType::int64)); };
  const std::vector<int64_t> labels = strong_labels(host(edges.indptr()), host(edges.indices()));
  return numbered(from_vector(labels).to(graph.device()));
}

}  // namespace quarry::local::sparse::csgraph
