#include "quarry/chunked/algo/tile_program.h"

#include <algorithm>

#include "quarry/chunked/exec/lowering/tiles.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/tiles/serial.h"

namespace quarry::algo {

// For estimates: a task of an output's tile reads that tile of argument 0, where there is one.
void TileProgram::needs(const op::Call& call, int64_t chunk, std::vector<op::Need>& needs) const {
  const Grid& grid = call.outputs[0].grid;
  if (call.arguments[0].grid == grid) needs.push_back({0, grid.chunk(chunk)});
}

double TileProgram::program_flops(const op::Call& call) const {
  return tiles::flops_of([&](tiles::Program& program) { emit(program, call); }, call);
}

int64_t TileProgram::scratch_bytes(const op::Call& call, int64_t /*chunk*/) const {
  int64_t largest = 0;
  for (const auto* specs : {&call.arguments, &call.outputs})
    for (const op::ArraySpec& spec : *specs)
      largest = std::max(largest, largest_chunk_bytes(spec.grid, local::itemsize(spec.dtype)));
  return tiles_at_once() * largest;
}

std::vector<op::NdArray> TileProgram::local(std::span<const op::NdArray> arguments) const {
  op::Call call;
  for (const op::NdArray& argument : arguments)
    call.arguments.push_back(op::in_one_chunk(argument.shape(), argument.dtype()));
  call.outputs = infer(call.arguments, /*room=*/0);
  for (size_t i = 0; i < arguments.size(); ++i)
    if (const auto wanted = wants(static_cast<int>(i), call, /*room=*/0)) call.arguments[i].grid = *wanted;
  return tiles::run_serially([&](tiles::Program& program) { emit(program, call); }, call, arguments);
}

void TileProgram::lower(exec::Builder& builder, const plan::Applied& stage) const {
  exec::lower_tiles(builder, stage, [&](tiles::Program& program) { emit(program, stage.call); });
}

}  // namespace quarry::algo
