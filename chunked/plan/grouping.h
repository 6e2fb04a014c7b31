// Which arrays of a plan become one stage.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "quarry/chunked/plan/stage.h"

namespace quarry::plan {

using expr::NodePtr;

// What makes one array (an eigenproblem two). `stage` is set for kind other; outputs and reductions are grouped first.
struct PlannedArray {
  enum class Kind : uint8_t { output, reduction, other };
  Kind kind = Kind::output;
  NodePtr node;  // output: the value; reduction: the Reduce node
  Grid grid;     // of the space
  uint32_t reduce_axes = 0;
  bool per_chunk = false;  // reduction: a fold per chunk
  bool operand = false;    // of a matrix product: dies with its consumer, never shares a stage
  std::shared_ptr<Stage> stage;
  std::vector<Input> inputs;  // for dependencies and sharing
  std::vector<Stage::Output> outputs;
};

bool same_array(const ArrayRef& a, const ArrayRef& b);
bool same_map(const AccessMap& a, const AccessMap& b);

// Arrays over the same space, chunks and reduced axes that read a common array and do not depend on each other are
// one group: numbers of arrays. Producers come first, otherwise in the order in which they were made.
std::vector<std::vector<int>> group_arrays(const std::vector<PlannedArray>& arrays);

}  // namespace quarry::plan
