// The nodes that algorithms make: one declaration per algorithm, whose file has its name. Shapes and dtypes of the
// arguments have been checked; the user's mistakes that only an algorithm can see throw here. Lazy.
#pragma once

#include <vector>

#include "quarry/chunked/expr/node.h"
#include "quarry/local/program/engine.h"

namespace quarry::algo {

using expr::NodePtr;

// C order; as many elements. A view where only axes of length 1 come or go.
NodePtr reshape(const NodePtr& arg, const Dims& shape);
// Equal dtypes, and shapes but for `axis`.
NodePtr concatenate(std::vector<NodePtr> args, int axis);
// Outputs: 0 eigenvalues (n), 1 eigenvectors (n, n), of a square matrix of a dtype that solvers have.
NodePtr eigh(const NodePtr& arg, local::Triangle triangle);

}  // namespace quarry::algo
