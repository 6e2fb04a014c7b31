// What functions of chunks see: the chunk's place, and what stands beyond the edges of an array.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "quarry/chunked/grid/grid.h"

namespace quarry::local {
class NdArray;
}

namespace quarry {

// What stands beyond the edges of an array of n elements, at position p < 0 or p >= n.
enum class Edge : uint8_t {
  clip,      // nothing: the box ends at the edge
  reflect,   // the element at -1 - p or 2 n - 1 - p: the edge is repeated, as NumPy's "symmetric"
  periodic,  // the element at p mod n
  nearest,   // the first or the last element
  constant,  // `fill`
};

// Where a chunk is.
struct ChunkPlace {
  int64_t chunk = 0;              // in C order
  Dims coordinates, counts;       // of output 0, in chunks
  std::vector<Region> outputs;    // its box in each output
  std::vector<Region> arguments;  // what it reads of each argument, halos included: positions beyond edges count on
};

namespace detail {

// Of read-only arrays, in the context that is current; gives arrays of the outputs' dtypes and the chunk's shapes.
using ChunkFunction =
    std::function<std::vector<local::NdArray>(std::span<const local::NdArray>, const ChunkPlace& place)>;

}  // namespace detail

}  // namespace quarry
