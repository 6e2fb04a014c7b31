// What the kernels of scan.cuh, before which this is embedded, and their host side (local/cuda/scanning.cpp) agree on.
#pragma once

namespace quarry::local::scan {

enum Slot {
  s_in,
  s_out,
  s_before,  // what precedes every line, of the output's dtype; 0: nothing
  s_length,
  s_in_step,
  s_out_step,
  s_lanes,  // lines that are neighbours along one axis
  s_in_lane,
  s_out_lane,
  s_before_lane,
  s_lines,  // of all other axes
  s_dense,  // lines lie dense and aligned in input and output
  s_tiles,  // of a line
  s_width,  // across: lines that a block takes, a power of two
  s_chain,  // the values that blocks publish
  s_ticket,
  s_ranges,
  s_begins,
  s_ends,
  s_axes,  // how many more axes; then extent, step of in, step of out, step of before of each, outermost first
  s_first_axis
};
constexpr int kAxisSlots = 4;
constexpr int kSlots = s_first_axis + 30 * kAxisSlots;

// A warp's tile: a lane has so many neighbours in a chunk, given the bytes of the wider one of input and output, and
// the tile so many chunks.
constexpr int neighbours_of(int widest_bytes) { return 16 / widest_bytes; }
constexpr int chunks_of(int neighbours) { return neighbours >= 8 ? 2 : neighbours == 4 ? 4 : 8; }
// Across lines: rows that a thread takes of a tile, given the bytes of the wider one of input and what is computed in.
constexpr int rows_of(int widest_bytes) { return widest_bytes > 8 ? 8 : 16; }
constexpr int kWidth = 32;  // lines of a block at most
// Of long lines: tiles in a group, groups in a section.
constexpr int kFan = 32;
// A value among those that blocks publish: so many words, of 4 bytes and a mark each.
constexpr int words_of(int bytes) { return (bytes + 3) / 4; }

}  // namespace quarry::local::scan
