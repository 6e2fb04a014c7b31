// A launch's iteration space made small: axes of extent 1 dropped, axes ordered so that the last one walks through
// memory, neighbours merged that every operand walks through as one.
#pragma once

#include <cstdint>
#include <vector>

#include "quarry/local/program/engine.h"
#include "quarry/local/program/program.h"

namespace quarry::local::cuda {

struct LayoutOperand {
  void* data = nullptr;
  DType dtype = DType::bool_;
  std::vector<int64_t> strides;  // bytes, one per axis of the layout
};

struct Layout {
  std::vector<int64_t> extents;  // outermost first
  std::vector<bool> reduced;     // per axis
  std::vector<LayoutOperand> inputs, outputs, states;
  // Per axis of the launch: its axis here, -1 where it was dropped (extent 1). Axes that Program::index() names are
  // never merged.
  std::vector<int> axis_of;
  std::vector<int64_t> index_offset;  // per axis of the launch

  int ndim() const { return static_cast<int>(extents.size()); }
  int64_t elements() const;           // product of extents
  int64_t elements(bool part) const;  // of the reduced or of the kept axes
};

// Checks the launch against the program; throws InvalidArgument where numbers of operands or strides disagree.
Layout make_layout(const Program& program, const Launch& launch);

}  // namespace quarry::local::cuda
