// Elementwise intermediates are recomputed by every stage that reads them: arithmetic is cheaper than memory traffic,
// and data-sized ones would have to be spilled. Storage is given only where
//   - a small array is broadcast into a space at least kBroadcast times larger, and costs at least kCheap per element
//     (sqrt(variance + 1e-9) of 512 columns beside a million rows);
//   - several stages would recompute more than kExpensive per element and the array is at most kSmallBytes;
//   - a chain of operations becomes longer than kLongest, more than a kernel should hold.
#include <algorithm>

#include "quarry/chunked/expr/node_table.h"
#include "quarry/chunked/plan/passes.h"
#include "quarry/local/program/op.h"

namespace quarry::plan {

namespace {

constexpr int64_t kBroadcast = 8;
constexpr int64_t kCheap = 4;
constexpr int64_t kExpensive = 64;
constexpr int64_t kSmallBytes = int64_t{64} << 20;
constexpr int kLongest = 256;

struct Facts {
  int64_t cost = 0;  // of recomputing one element from stored arrays, saturating
  int depth = 0;
  // Up to two different stages that would recompute the node: by space, reduced axes and output.
  uint64_t readers[2] = {0, 0};
  int reader_count = 0;
  int64_t largest_reader = 0;  // elements of the largest space that reads it directly

  void read_by(uint64_t stage) {
    for (int i = 0; i < reader_count; ++i)
      if (readers[i] == stage) return;
    if (reader_count < 2) readers[reader_count++] = stage;
  }
};

bool fuses(const expr::Node& node) {
  return node.as<expr::Elementwise>() || node.as<expr::View>() || node.as<expr::Rechunk>() ||
         node.as<expr::Constant>() || node.as<expr::Index>();
}

}  // namespace

std::vector<NodePtr> choose_materialised(const std::vector<NodePtr>& roots) {
  const std::vector<NodePtr> order = expr::topological(roots);
  expr::NodeTable<Facts> facts(order.size());  // of all of them: references to its values hold
  std::vector<NodePtr> chosen;
  auto choose = [&](const NodePtr& node) {
    chosen.push_back(node);
    Facts& f = facts[*node];
    f.cost = 0;
    f.depth = 0;
  };

  // Who reads what, from the consumers down: a stage is told by its space, so that siblings count once.
  for (const NodePtr& root : roots) facts[*root].read_by(static_cast<uint64_t>(local::element_count(root->shape)) * 2);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const NodePtr& node = *it;
    const Facts mine = facts[*node];
    const auto* reduce = node->as<expr::Reduce>();
    for (const NodePtr& arg : expr::arguments(*node)) {
      Facts& f = facts[*arg];
      f.largest_reader = std::max(f.largest_reader, reduce ? 0 : local::element_count(node->shape));
      if (fuses(*node))
        for (int i = 0; i < mine.reader_count; ++i) f.read_by(mine.readers[i]);
      else if (reduce)
        f.read_by((uint64_t{reduce->axes} << 32 | static_cast<uint64_t>(local::element_count(arg->shape))) * 2 +
                  (reduce->chunks ? 1 : 0));
      else
        f.read_by(node->hash * 2 + 1);
    }
  }

  for (const NodePtr& node : order) {
    if (!fuses(*node)) continue;
    Facts& f = facts[*node];
    for (const NodePtr& arg : expr::arguments(*node)) {
      const Facts& below = facts[*arg];
      f.cost = std::min<int64_t>(f.cost + below.cost, 1 << 20);
      f.depth = std::max(f.depth, below.depth);
    }
    const auto* op = node->as<expr::Elementwise>();
    if (!op) continue;
    f.cost += local::info(op->op).cost;
    f.depth += 1;
    const int64_t elements = local::element_count(node->shape);
    const bool broadcast = elements > 0 && f.largest_reader / kBroadcast >= elements && f.cost >= kCheap &&
                           (!node->generated || f.cost >= kExpensive);
    const bool shared = f.reader_count > 1 && f.cost > kExpensive &&
                        elements * local::itemsize(node->dtype) <= kSmallBytes && !node->generated;
    if (broadcast || shared || f.depth > kLongest) choose(node);
  }
  return chosen;
}

}  // namespace quarry::plan
