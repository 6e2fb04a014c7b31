// Hash consing in topological order: a node whose arguments have been replaced by their representatives is looked up by
// its structural hash.
#include <unordered_map>

#include "quarry/chunked/plan/passes.h"

namespace quarry::plan {

std::vector<NodePtr> eliminate_common(const std::vector<NodePtr>& roots) {
  std::unordered_map<const expr::Node*, NodePtr> replaced;
  std::unordered_multimap<uint64_t, NodePtr> known;
  for (const NodePtr& node : expr::topological(roots)) {
    std::vector<NodePtr> args = expr::arguments(*node);
    for (NodePtr& arg : args) arg = replaced.at(arg.get());
    NodePtr candidate = expr::with_arguments(node, args);
    // 64 bits of hash decide; kind, shape, dtype and chunks guard against the absurd, and nobody's chunks change.
    const auto [first, last] = known.equal_range(candidate->hash);
    bool found = false;
    for (auto it = first; it != last && !found; ++it) {
      const NodePtr& other = it->second;
      if (other->payload.index() == candidate->payload.index() && other->shape == candidate->shape &&
          other->dtype == candidate->dtype && other->grid == candidate->grid &&
          other->chosen_grid == candidate->chosen_grid) {
        candidate = other;
        found = true;
      }
    }
    if (!found) known.emplace(candidate->hash, candidate);
    replaced.emplace(node.get(), std::move(candidate));
  }
  std::vector<NodePtr> result;
  for (const NodePtr& root : roots) result.push_back(replaced.at(root.get()));
  return result;
}

}  // namespace quarry::plan
