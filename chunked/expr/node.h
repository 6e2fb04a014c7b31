// Logical nodes of the lazy graph. Building never computes; a node knows its shape, dtype and chunks. Immutable and
// shared.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "chunked/grid.h"
#include "io/dataset.h"
#include "local/program/engine.h"
#include "local/program/program.h"

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
// A persisted array.
struct Stored {
  std::shared_ptr<exec::StoredArray> array;
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
// One ufunc.def row over broadcast arguments (casts included). Weak literals are bound as constants of the loop's dtype
// when the node is made.
struct Elementwise {
  local::Op op;
  std::vector<NodePtr> args;
  std::optional<local::DType> loop;  // NumPy's dtype=
};
struct Reduce {
  local::Reduction reduction;
  NodePtr arg;
  uint32_t axes;  // bit per axis of arg
  bool keepdims;
  local::DType accumulate;
  double ddof = 0;
};
// Basic slicing, newaxis, integer axes, transpose and broadcast_to in one affine map; views of views compose.
struct View {
  struct Axis {
    int source = -1;  // axis of arg; -1: new or broadcast
    int64_t start = 0, step = 1;
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  NodePtr arg;
  std::vector<Axis> axes;                      // one per axis of the result (its shape holds the counts)
  std::vector<std::pair<int, int64_t>> fixed;  // (axis of arg, position) for axes of arg that no result axis maps
};
// C-order reshape.
struct Reshape {
  NodePtr arg;
};
struct Concatenate {
  std::vector<NodePtr> args;
  int axis;
};
// The same array under other chunks (the node's grid).
struct Rechunk {
  NodePtr arg;
};
// (..., m, k) x (..., k, n): batch axes equal after broadcasting by views. Vectors are made matrices by views around
// it.
struct MatMul {
  NodePtr a, b;
  bool syrk = false;  // set by a pass: a is the conjugate transpose of b
};
// Outputs: 0 eigenvalues (n), 1 eigenvectors (n, n). One rank computes.
struct Eigh {
  NodePtr arg;
  local::Triangle triangle;
};
// One output of a node with several.
struct Item {
  NodePtr arg;
  int output;
};

using Payload = std::variant<Source, Stored, Constant, Index, Elementwise, Reduce, View, Reshape, Concatenate, Rechunk,
                             MatMul, Eigh, Item>;

struct Node {
  Payload payload;
  Dims shape;  // Eigh: of output 0
  local::DType dtype;
  Grid grid;
  uint64_t hash;  // structural: equal on all ranks for equal graphs (sources by file, object and identity)

  template <class T>
  const T* as() const {
    return std::get_if<T>(&payload);
  }
};

// The nodes a node reads.
std::vector<NodePtr> arguments(const Node& node);

}  // namespace quarry::expr
