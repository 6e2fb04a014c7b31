// Chunks of operators that make_chunk() makes, with the elementwise work before them, inside a task.
#pragma once

#include <functional>
#include <vector>

#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/ndarray/ndarray.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

class ChunkMaker {
 public:
  // `stage` must outlive it.
  ChunkMaker(const plan::Applied& stage, int rank, const Ownership& owners, const local::Device& device)
      : stage_(stage), rank_(rank), owners_(owners), device_(device) {}

  // What the task for a chunk reads: calls `read` with each input and how it arrives; make() and made() take the blocks
  // in this order.
  void for_each_input(int64_t chunk, const std::function<void(const plan::Input&, const Access&)>& read) const;
  size_t count_inputs(int64_t chunk) const;
  // That make() and made(), beside what it gives, take from the context's memory at most at once.
  int64_t scratch_bytes(int64_t chunk) const;
  // The outputs' chunks, in the context that is current.
  void make(int64_t chunk, std::span<const scheduler::BlockView> blocks, std::span<const local::NdArray> outputs,
            const local::ExecContext& context) const;
  // The same as new arrays, in C order.
  std::vector<local::NdArray> made(int64_t chunk, std::span<const scheduler::BlockView> blocks,
                                   const local::ExecContext& context) const;
  int64_t output_bytes(int64_t chunk) const;

 private:
  std::vector<op::Need> needs(int64_t chunk) const;
  std::vector<local::NdArray> pieces(int64_t chunk, std::span<const scheduler::BlockView> blocks,
                                     const local::ExecContext& context) const;
  local::NdArray computed(const plan::Fused& work, const op::Need& need, std::span<const scheduler::BlockView> blocks,
                          const local::ExecContext& context) const;
  local::Launch launch(const plan::Fused& work, const Region& box) const;

  const plan::Applied& stage_;
  const int rank_;
  const Ownership owners_;
  const local::Device device_;
};

}  // namespace quarry::exec
