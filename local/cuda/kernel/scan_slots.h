// What the kernels of scan.cuh, before which this is embedded, and their host side (local/cuda/scanning.cpp) agree on.
#pragma once

namespace quarry::local::scan {

enum Slot {
  s_in,
  s_out,
  s_length,
  s_in_step,
  s_out_step,
  s_lanes,  // lines that are neighbours along one axis
  s_in_lane,
  s_out_lane,
  s_lines,  // of all other axes
  s_segments,
  s_per_segment,
  s_partial,  // W, one per line and segment
  s_partial_line,
  s_partial_segment,
  s_mode,
  s_dense,  // lines lie dense and aligned in input and output
  s_tiles,  // of a line
  s_chain,  // the values that look() publishes
  s_flags,
  s_ticket,  // where it is among the flags
  s_ranges,
  s_begins,
  s_ends,
  s_axes,  // how many more axes; then extent, step of in, step of out of each, outermost first
  s_first_axis
};
constexpr int kSlots = 116;
// What becomes of a segment: its scan, its fold as a partial result, or its scan after all segments before it.
enum Mode { m_scan, m_fold, m_continue };

// A warp's tile: a lane has so many neighbours in a chunk, given the bytes of the wider one of input and output, and
// the tile so many chunks.
constexpr int neighbours_of(int widest_bytes) { return 16 / widest_bytes; }
constexpr int chunks_of(int neighbours) { return neighbours >= 8 ? 2 : neighbours == 4 ? 4 : 8; }
// Of long lines: tiles in a group, groups in a section.
constexpr int kFan = 32;

}  // namespace quarry::local::scan
