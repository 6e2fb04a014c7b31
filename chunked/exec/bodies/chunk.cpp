#include "quarry/chunked/exec/bodies/chunk.h"

#include <algorithm>

#include "quarry/chunked/exec/bodies/arguments.h"
#include "quarry/chunked/exec/bodies/operand.h"

namespace quarry::exec {

using local::NdArray;
using scheduler::BlockView;

std::vector<op::Need> ChunkMaker::needs(int64_t chunk) const {
  std::vector<op::Need> needs;
  stage_.op->needs(stage_.call, chunk, needs);
  return needs;
}

void ChunkMaker::for_each_input(int64_t chunk,
                                const std::function<void(const plan::Input&, const Access&)>& read) const {
  for (const op::Need& need : needs(chunk)) {
    if (const plan::Fused* work = stage_.prologue(need.argument)) {
      for (const plan::Input& input : work->inputs) read(input, resolve(input, need.box, rank_, owners_));
    } else {
      read(stage_.inputs[static_cast<size_t>(need.argument)], access_of(stage_, need, rank_, owners_));
    }
  }
}

size_t ChunkMaker::count_inputs(int64_t chunk) const {
  size_t count = 0;
  for (const op::Need& need : needs(chunk)) {
    const plan::Fused* work = stage_.prologue(need.argument);
    count += work != nullptr ? work->inputs.size() : 1;
  }
  return count;
}

local::Launch ChunkMaker::launch(const plan::Fused& work, const Region& box) const {
  local::Launch launch;
  launch.shape = box.count;
  launch.index_offset = box.start;
  for (int slot = 0; slot < work.program.inputs(); ++slot) {
    const plan::Fused::Slot from = work.slot(slot);
    const plan::Input& input = work.inputs[static_cast<size_t>(from.input)];
    launch.inputs.push_back({nullptr, place_of(input, from.offset, box, resolve(input, box, rank_, owners_)).strides});
  }
  const local::DType dtype = work.program.dtype(work.program.outputs()[0]);
  launch.outputs.push_back({nullptr, local::contiguous_strides(box.count, local::itemsize(dtype))});
  return launch;
}

int64_t ChunkMaker::scratch_bytes(int64_t chunk) const {
  int64_t bytes = stage_.op->scratch_bytes(stage_.call, chunk), running = 0;
  for (const op::Need& need : needs(chunk)) {
    const plan::Fused* work = stage_.prologue(need.argument);
    if (work == nullptr) continue;
    const int64_t itemsize = local::itemsize(stage_.call.arguments[static_cast<size_t>(need.argument)].dtype);
    bytes += local::rounded_allocation(local::element_count(need.box.count) * itemsize);
    if (need.box.elements() == 0) continue;
    const int64_t run = run_scratch_bytes(device_, work->program, launch(*work, need.box));
    running = std::max(running, local::rounded_allocation(run));
  }
  return bytes + running;
}

NdArray ChunkMaker::computed(const plan::Fused& work, const op::Need& need, std::span<const BlockView> blocks,
                             const local::ExecContext& context) const {
  NdArray piece(need.box.count, work.program.dtype(work.program.outputs()[0]));
  if (need.box.elements() == 0) return piece;
  local::Launch run = launch(work, need.box);
  for (int slot = 0; slot < work.program.inputs(); ++slot) {
    const plan::Fused::Slot from = work.slot(slot);
    const plan::Input& input = work.inputs[static_cast<size_t>(from.input)];
    const int64_t offset = place_of(input, from.offset, need.box, resolve(input, need.box, rank_, owners_)).offset;
    run.inputs[static_cast<size_t>(slot)].data =
        static_cast<std::byte*>(blocks[static_cast<size_t>(from.input)].data) + offset;
  }
  run.outputs[0].data = piece.raw();
  local::engine(context.device).run(work.program, run, context);
  return piece;
}

std::vector<NdArray> ChunkMaker::pieces(int64_t chunk, std::span<const BlockView> blocks,
                                        const local::ExecContext& context) const {
  std::vector<NdArray> pieces;
  for (const op::Need& need : needs(chunk)) {
    if (const plan::Fused* work = stage_.prologue(need.argument)) {
      pieces.push_back(computed(*work, need, blocks.first(work->inputs.size()), context).as_read_only());
      blocks = blocks.subspan(work->inputs.size());
    } else {
      pieces.push_back(argument_array(stage_, need, access_of(stage_, need, rank_, owners_), blocks.front(), context));
      blocks = blocks.subspan(1);
    }
  }
  QUARRY_CHECK(blocks.empty());
  return pieces;
}

void ChunkMaker::make(int64_t chunk, std::span<const BlockView> blocks, std::span<const NdArray> outputs,
                      const local::ExecContext& context) const {
  stage_.op->make_chunk(stage_.call, chunk, pieces(chunk, blocks, context), outputs);
}

std::vector<NdArray> ChunkMaker::made(int64_t chunk, std::span<const BlockView> blocks,
                                      const local::ExecContext& context) const {
  return stage_.op->made_chunk(stage_.call, chunk, pieces(chunk, blocks, context));
}

int64_t ChunkMaker::output_bytes(int64_t chunk) const {
  int64_t bytes = 0;
  for (const op::ArraySpec& output : stage_.call.outputs)
    bytes += local::rounded_allocation(output.grid.chunk_elements(chunk) * local::itemsize(output.dtype));
  return bytes;
}

}  // namespace quarry::exec
