// How an expression's node is read from a stage's space: one affine map per axis of the node.
#pragma once

#include <vector>

#include "quarry/chunked/plan/stage.h"

namespace quarry::plan {

// Node axis -> start + step * x[space]; space -1: the position is `start`.
struct NodeAxis {
  int space = -1;
  int64_t start = 0, step = 1;
  friend bool operator==(const NodeAxis&, const NodeAxis&) = default;
};
using NodeMap = std::vector<NodeAxis>;

NodeMap identity_map(int ndim);
// Of an argument that `node` broadcasts.
NodeMap argument_map(const expr::Node& node, const expr::Node& arg, const NodeMap& map);
// Of what `view` views.
NodeMap viewed_map(const expr::View& view, const NodeMap& map);
AccessMap access_map(const NodeMap& map, int space_ndim);

}  // namespace quarry::plan
