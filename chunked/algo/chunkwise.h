// Operators that make chunk i of their outputs from boxes of the arguments by local functions: one task per chunk,
// which holds boxes, outputs and scratch.
#pragma once

#include <vector>

#include "quarry/chunked/op/operator.h"

namespace quarry::algo {

// What derives says what is read (needs), what else the task takes (scratch_bytes), and how a chunk is made
// (make_chunk).
class Chunkwise : public op::Operator {
 public:
  bool makes_chunks() const final { return true; }
  bool is_chunked() const final { return true; }
  bool streams() const final { return true; }
  // Chunk by chunk, as make_chunk() may depend on the chunk.
  std::vector<op::NdArray> local(std::span<const op::NdArray> arguments) const final;
  void local_into(std::span<const op::NdArray> arguments, std::span<const op::NdArray> outputs) const final;
  void lower(exec::Builder& builder, const plan::Applied& stage) const final;
};

}  // namespace quarry::algo
