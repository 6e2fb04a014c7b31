// A reference for plans: the value of a logical node by eager operations on whole arrays, and the value of a plan by
// running its stages chunk by chunk in this process. Data sets must be MemoryDatasets.
#pragma once

#include <vector>

#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::testing {

local::NdArray evaluate(const expr::NodePtr& node);

// Throws InternalError where the plan breaks the contract of stage.h: an input cut across a chunk, products whose cuts
// do not agree.
std::vector<local::NdArray> evaluate(const plan::Plan& plan);

// Whether equal shapes and dtypes hold equal values: integers and bools exactly, others within `relative` of the larger
// and of `absolute`; NaN equals NaN.
bool close(const local::NdArray& a, const local::NdArray& b, double relative = 1e-9, double absolute = 1e-9);

}  // namespace quarry::testing
