// The fixed tree along which reductions and products combine: over n leaves min(n, 64) contiguous segments, sequential
// inside; then pairs, level by level. It depends on n only, so bits do not depend on ranks, threads or timing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "quarry/chunked/grid/grid.h"

namespace quarry {

inline constexpr int64_t kSegments = 64;

struct Tree {
  int64_t leaves;
  int64_t segments() const { return std::min(leaves, kSegments); }
  int64_t first(int64_t segment) const { return leaves * segment / segments(); }
  int64_t segment_of(int64_t leaf) const;
  int64_t nodes(int level) const { return (segments() + (int64_t{1} << level) - 1) >> level; }
  int levels() const;
  // The node without its pass-through levels: one that merges two, or a segment.
  std::pair<int, int64_t> solid(int level, int64_t node) const;
  int64_t first_leaf(int level, int64_t node) const { return first(node << level); }
  int64_t end_leaf(int level, int64_t node) const;
};

// Chunks along the kept and the reduced axes of a stage.
struct ReduceMap {
  Grid kept;
  Tree tree{1};
  ReduceMap(const Grid& grid, uint32_t reduce_axes);
  // Leaf number `leaf` of kept chunk `j` as a chunk of the stage, and back.
  int64_t chunk(int64_t j, int64_t leaf) const;
  std::pair<int64_t, int64_t> split(int64_t chunk) const;
  int64_t elements(int64_t j) const { return kept.chunk_elements(j); }

 private:
  struct Axis {
    int64_t count;
    bool reduced;
  };
  std::vector<Axis> axes_;  // of the stage, the last one first
};

}  // namespace quarry
