// How the CPU engine cuts a launch into tiles and units of parallel work. Tile shapes, and with them the order in which
// a reduction adds up, depend on the shape, the reduced axes, the order of the strides (not their values) and the
// program, never on the thread count or the instruction-set level.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "quarry/local/cpu/code.h"
#include "quarry/local/cpu/strided.h"
#include "quarry/local/program/engine.h"

namespace quarry::local::cpu {

// A tile is a range of the outer group of axes times a range of the inner one; each group is walked in C order.
struct Addressing {
  AxisGroup outer, inner;
};

// What Code::indexes are with the constants of a launch: `first` and steps in elements.
struct IndexAddressing {
  Addressing at;
  int64_t first = 0;
  bool increasing = false;  // along the reduced positions, the same for all kept ones
};

struct Layout {
  bool reducing = false;
  bool rows_reduced = false;  // the inner group is the reduced one: a state per row of the tile; else one per column
  int64_t kept = 1, reduced = 1;  // positions of both groups (reduced 1 without reductions)
  int64_t outer = 1, inner = 1;   // positions of the tile's groups
  int64_t tile_outer = 1, tile_inner = 1;

  std::vector<Addressing> inputs, outputs;
  std::vector<IndexAddressing> indexes;
  std::vector<AxisGroup> states;  // over the kept axes

  // Kept tiles: ranges of kept positions that do not cross a multiple of kept_row.
  int64_t kept_row = 1, kept_tile = 1;
  int64_t kept_tiles() const;
  void kept_range(int64_t tile, int64_t* begin, int64_t* count) const;
  int64_t reduced_tile() const { return rows_reduced ? tile_inner : tile_outer; }
  // Tiles do not cross a multiple of this many reduced positions either.
  int64_t reduced_row = 1;
  // The number of reduced positions from `begin` on that are in one tile.
  int64_t reduced_count(int64_t begin, int64_t end) const {
    return std::min({reduced_tile(), end - begin, reduced_row - begin % reduced_row});
  }

  // Units: tiles_per_unit kept tiles of one segment of the reduced positions.
  int64_t tiles_per_unit = 1;
  int64_t segments = 1, segment_length = 1;
  int64_t units() const;

  // Elementwise programs: tiles along both groups, tiles_per_unit of them a unit.
  int64_t outer_tiles() const { return (outer + tile_outer - 1) / tile_outer; }
  int64_t inner_tiles() const { return (inner + tile_inner - 1) / tile_inner; }
  // Depth of the stack of partial states of one segment.
  int stack_levels() const;
};

Layout make_layout(const Code& code, const std::vector<Scalar>& constants, const Launch& launch);

}  // namespace quarry::local::cpu
