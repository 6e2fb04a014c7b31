// The nodes that algorithms make: one declaration per algorithm, whose file has its name. Shapes and dtypes of the
// arguments have been checked; the user's mistakes that only an algorithm can see throw here. Lazy.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
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
// Every prefix's fold along an axis by an associative operation. `skip_nan` (add and multiply): NaN counts as 0 or 1.
NodePtr accumulate(local::Op op, const NodePtr& arg, int axis, std::optional<local::DType> dtype, bool skip_nan);
// Every NaN becomes the last element before it along the axis that is none.
NodePtr push(const NodePtr& arg, int axis);

// The same array for tasks that each read one chunk of `boxes`, which cut its shape: in pieces, where they would hold
// much more of its chunks than that.
NodePtr in_pieces(const NodePtr& arg, const Grid& boxes);

// Selections (select.cpp). Of a 1-d mask, one count per chunk:
NodePtr true_counts(const NodePtr& mask);
// What a 1-d mask with the chunks of that axis selects; `counts` as true_counts() gives them.
NodePtr selected(const NodePtr& arg, const NodePtr& mask, int axis, std::span<const int64_t> counts);
// The positions (int64) where a 1-d mask is true.
NodePtr true_positions(const NodePtr& mask, std::span<const int64_t> counts);
// Elements at positions inside the axis, in that order. A task holds all that is taken of its lines, unless the
// positions ascend by chunk.
NodePtr taken(const NodePtr& arg, int axis, std::vector<int64_t> positions);
// One element per index; extents but for the axis are equal. A task holds whole lines of `arg`.
NodePtr taken_along_axis(const NodePtr& arg, const NodePtr& indices, int axis);

// A function of local arrays, for arrays of one chunk.
struct LocalCall {
  std::string name;       // in listings, traces and errors
  uint64_t identity = 0;  // of the function with its parameters; the same on every rank (next_identity() in map.h)
  std::vector<op::ArraySpec> outputs;  // shapes and dtypes
  std::function<std::vector<local::NdArray>(std::span<const local::NdArray>)> function;
  std::optional<int64_t> scratch_bytes;  // that it takes at most at once, results included; none: estimated
  bool by_trial = false;                 // or found by a trial; the function calls quarry::local alone
};
// One node per output. Planning throws NotSupported where arguments of several chunks do not fit one task.
std::vector<NodePtr> local_call(LocalCall call, std::vector<NodePtr> args);

}  // namespace quarry::algo
