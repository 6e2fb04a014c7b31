// Logical nodes of the lazy graph. Building never computes; a node knows its shape, dtype and chunks. Immutable and
// shared.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/chunked/grid/grid.h"
#include "quarry/chunked/op/operator.h"
#include "quarry/io/dataset.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/precision.h"
#include "quarry/local/program/program.h"

namespace quarry::exec {
class StoredArray;  // chunked/exec: chunks kept in the tiers of their owners (persist)
}

namespace quarry::expr {

struct Node;
using NodePtr = std::shared_ptr<const Node>;

// A data set in a file.
struct Source {
  std::shared_ptr<io::Dataset> dataset;
};
// A persisted array, or small local data that every rank has. `identity` tells such arrays apart and is the same on
// every rank.
struct Stored {
  std::shared_ptr<exec::StoredArray> array;
  uint64_t identity = 0;
  std::string_view how = {};  // it was computed, where a method was chosen: for listings; of static storage
};
// Every element is the value (full, zeros, ones; 0-d constants). Needs no storage: fuses.
struct Constant {
  local::Scalar value;
};
// The int64 position along an axis; arange, linspace, eye and the random streams are elementwise operations over it.
// Needs no storage: fuses.
struct Index {
  int axis;
};
// One ufunc.def row over broadcast arguments (casts included: Op::cast with the dtype in `loop`). Weak literals are
// bound as 0-d constants of the loop's dtype when the node is made.
struct Elementwise {
  local::Op op;
  std::vector<NodePtr> args;
  std::optional<local::DType> loop;  // NumPy's dtype=
};
struct Reduce {
  local::Reduction reduction;
  NodePtr arg;
  uint32_t axes;  // bit per axis of arg; the result has the others (keepdims is a View around it)
  local::DType accumulate;
  double ddof = 0;
  // Set: a fold per chunk. The result has an element for each of these chunks of arg along the reduced axes, which
  // stay.
  std::optional<Grid> chunks = {};
};
// Basic slicing, newaxis, integer axes, transpose and broadcast_to in one affine map; views of views compose, but for
// diagonals.
struct View {
  struct Axis {
    int source = -1;  // axis of arg; -1: new or broadcast
    int64_t start = 0, step = 1;
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  NodePtr arg;
  std::vector<Axis> axes;                         // one per axis of the result (its shape holds the counts)
  std::vector<std::pair<int, int64_t>> fixed;     // (axis of arg, position) for axes of arg that no result axis maps
  std::vector<std::pair<int, Axis>> beside = {};  // diagonals: (axis of the result, an axis of arg that follows it too)
};
// The same array under other chunks (the node's grid).
struct Rechunk {
  NodePtr arg;
};
// (..., m, k) x (..., k, n): batch axes equal after broadcasting by views. Vectors are made matrices by views around
// it.
struct MatMul {
  std::vector<NodePtr> args;  // a and b; b alone where syrk
  bool syrk = false;          // set by a pass: a is the conjugate transpose of b
  local::Precision precision = local::Precision::exact;

  const NodePtr& a() const { return args.front(); }
  const NodePtr& b() const { return args.back(); }
};
// An algorithm of chunked/algo. The node itself is output 0; Item picks the others.
struct Apply {
  op::OperatorPtr op;
  std::vector<NodePtr> args;
  std::vector<op::ArraySpec> outputs;
};
// One output of an Apply with several, but for output 0.
struct Item {
  NodePtr arg;
  int output;
};

using Payload = std::variant<Source, Stored, Constant, Index, Elementwise, Reduce, View, Rechunk, MatMul, Apply, Item>;

struct Node {
  Node() = default;
  ~Node();
  Node(const Node&) = default;
  Node& operator=(const Node&) = default;

  Payload payload;
  Dims shape;
  local::DType dtype;
  Grid grid;
  uint64_t hash = 0;  // structural: equal on all ranks for equal graphs (sources by file, object and identity)
  // Made of constants and indices only: needs no storage, and its grid yields to that of others.
  bool generated = false;
  // The chunks are the user's choice (rechunk, --chunks): the planner does not halve them.
  bool chosen_grid = false;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&payload);
  }
};

// What an operator sees of a node.
op::ArraySpec spec_of(const Node& node);
std::vector<op::ArraySpec> specs_of(std::span<const NodePtr> nodes);

// The nodes a node reads: of its payload, whatever the kind.
std::span<const NodePtr> arguments(const Node& node);
// The same node reading other nodes of the same shapes and dtypes; grids follow. The node itself where they are its
// own.
NodePtr with_arguments(const NodePtr& node, std::span<const NodePtr> arguments);
// All nodes below `roots`, arguments first, each once. Iterative: graphs may be deep.
std::vector<NodePtr> topological(std::span<const NodePtr> roots);
// What the roots become where every node below them, arguments first, becomes `change` of it and of what its arguments
// became.
using Change = std::function<NodePtr(const NodePtr& node, std::span<const NodePtr> arguments)>;
std::vector<NodePtr> rewritten(std::span<const NodePtr> roots, const Change& change);
// "add(view[::2](/x), 1.0)": for tests, labels and plan listings. Shortened beyond `limit` characters.
std::string to_string(const NodePtr& node, size_t limit = 120);

}  // namespace quarry::expr
