// Hash consing in topological order: a node whose arguments have been replaced by their representatives is looked up by
// its structural hash.
#include <unordered_map>

#include "quarry/chunked/plan/passes.h"

namespace quarry::plan {

std::vector<NodePtr> eliminate_common(const std::vector<NodePtr>& roots) {
  std::unordered_multimap<uint64_t, NodePtr> known;
  return expr::rewritten(roots, [&](const NodePtr& node, std::span<const NodePtr> args) {
    NodePtr candidate = expr::with_arguments(node, args);
    // 64 bits of hash decide; kind, shape, dtype and chunks guard against the absurd, and nobody's chunks change.
    const auto [first, last] = known.equal_range(candidate->hash);
    for (auto it = first; it != last; ++it) {
      const NodePtr& other = it->second;
      if (other->payload.index() == candidate->payload.index() && other->shape == candidate->shape &&
          other->dtype == candidate->dtype && other->grid == candidate->grid &&
          other->chosen_grid == candidate->chosen_grid)
        return other;
    }
    known.emplace(candidate->hash, candidate);
    return candidate;
  });
}

}  // namespace quarry::plan
