// Strided memory to tiles and back, and the addressing of ranges of a linear order over several axes.
#pragma once

#include <cstdint>
#include <vector>

namespace quarry::local::cpu {

// Axes that are walked in C order as one range of positions, as one operand sees them: neighbours that its strides let
// merge are merged.
class AxisGroup {
 public:
  AxisGroup() = default;
  // extents and byte strides, outermost first; extents of 1 may be left out.
  void push_back(int64_t extent, int64_t stride);
  struct Run {
    int64_t offset;  // bytes from position 0
    int64_t stride;  // bytes between neighbours
    int64_t count;   // positions that this holds for
  };
  // The positions from `begin` that lie in one run, at most `count`.
  Run run(int64_t begin, int64_t count) const;
  // Bytes between neighbouring positions inside a run (0 for no axes).
  int64_t inner_stride() const { return axes_.empty() ? 0 : axes_.back().stride; }
  bool single_run() const { return axes_.size() <= 1; }

 private:
  struct Axis {
    int64_t extent, stride;
  };
  std::vector<Axis> axes_;  // outermost first
};

// Copies rows x columns elements between strided memories (strides in bytes, 0 or negative allowed in `from`).
void copy_2d(char* to, int64_t to_row, int64_t to_column, const char* from, int64_t from_row, int64_t from_column,
             int64_t rows, int64_t columns, int64_t itemsize);

}  // namespace quarry::local::cpu
