// Stages whose chunks are copied together from boxes of other arrays.
#pragma once

#include <functional>
#include <vector>

#include "quarry/chunked/exec/bodies/copy.h"
#include "quarry/chunked/exec/lowering/builder.h"

namespace quarry::exec {

// A box of a stage's space that is copied to a place in an output block.
struct CopyRegion {
  const plan::Input* input;
  Region box;      // of the input's space
  int64_t offset;  // bytes into the output
  Dims strides;    // of the output per axis of the box, bytes
};

// The parts of chunk `chunk` of an output.
using CopyRegions = std::function<std::vector<CopyRegion>(int64_t chunk)>;
// The only part of one chunk of an Assemble stage.
CopyRegion copy_region(const plan::Stage& stage, int64_t chunk);
// The same, cut at the chunks of the inputs; in the order of the parts. Of own chunks the task has what the rules say.
std::vector<CopySegment> copy_segments(const std::vector<CopyRegion>& parts, const CopyRules& rules);
// Adds a task for each own chunk of the builder's stage, which has one output.
void lower_copies(Builder& builder, CopyRegions regions);

}  // namespace quarry::exec
