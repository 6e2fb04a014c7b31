// Graphs as sparse matrices: an element (i, j) is an edge from i to j.
#pragma once

#include <string_view>

#include "quarry/local/sparse/sparse_array.h"

namespace quarry::local::sparse::csgraph {

struct Components {
  int64_t count = 0;
  NdArray labels;  // int32, one per vertex, numbered in the order of their least vertices
};
// Weakly connected components, or with `connection` "strong" of a directed graph the strongly connected ones. Weak ones
// are found on the device, in a number of rounds that grows as the logarithm of the longest path; strong ones on the
// host (Tarjan 1972). Blocks. Throws InvalidArgument for a matrix that is not square and for another `connection`.
Components connected_components(const SparseArray& graph, bool directed = true, std::string_view connection = "weak");

}  // namespace quarry::local::sparse::csgraph
