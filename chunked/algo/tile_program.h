// Operators that are tile programs (chunked/tiles/program.h).
#pragma once

#include <vector>

#include "quarry/chunked/op/operator.h"
#include "quarry/chunked/tiles/program.h"

namespace quarry::algo {

// What derives says what arguments and outputs are (infer, wants) and runs the loop (emit).
class TileProgram : public op::Operator {
 public:
  // Every task, in the order of the loop. `call`: with the chunks that wants() and infer() name.
  virtual void emit(tiles::Program& program, const op::Call& call) const = 0;
  // Tiles that a task holds at most beside the one it makes, each of the size of the largest one.
  virtual int64_t tiles_at_once() const = 0;

  bool is_chunked() const final { return true; }
  bool is_program() const final { return true; }
  double program_flops(const op::Call& call) const final;
  void needs(const op::Call& call, int64_t chunk, std::vector<op::Need>& needs) const override;
  int64_t scratch_bytes(const op::Call& call, int64_t chunk) const override;
  int64_t local_task_bytes(const op::Call& call) const override { return 4 * op::bytes_of(call); }
  std::vector<op::NdArray> local(std::span<const op::NdArray> arguments) const final;
  void lower(exec::Builder& builder, const plan::Applied& stage) const final;
};

}  // namespace quarry::algo
