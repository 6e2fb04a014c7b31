// From arrays to what the planner takes.
#pragma once

#include <span>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/expr/node.h"

namespace quarry {

inline std::vector<expr::NodePtr> nodes_of(std::span<const Array> arrays) {
  std::vector<expr::NodePtr> nodes;
  for (const Array& array : arrays) nodes.push_back(array.node());
  return nodes;
}

}  // namespace quarry
