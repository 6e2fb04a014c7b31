// What the chunks of an Assemble are copied together from.
#pragma once

#include <vector>

#include "quarry/chunked/exec/bodies/copy.h"

namespace quarry::exec {

// A box of a stage's space that is copied to a place in an output block.
struct CopyRegion {
  const plan::Input* input;
  Region box;      // of the input's space
  int64_t offset;  // bytes into the output
  Dims strides;    // of the output per axis of the box, bytes
};

// The parts of one chunk of an Assemble stage.
std::vector<CopyRegion> copy_regions(const plan::Stage& stage, int64_t chunk);
// The same, cut at the chunks of the inputs; in the order of the parts.
std::vector<CopySegment> copy_segments(const std::vector<CopyRegion>& parts, int rank, const Ownership& owners);

}  // namespace quarry::exec
