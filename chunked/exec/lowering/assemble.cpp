// Copies: rechunk, concatenate, stack, reshape. One task per chunk of the output.
#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/chunked/exec/lowering/copies.h"

namespace quarry::exec {

void lower_work(Builder& builder, const plan::Assemble& /*assemble*/) {
  const plan::Stage& stage = builder.stage();
  const Grid& grid = stage.outputs[0].grid;
  auto segments = [&stage, rank = builder.context().rank, owners = builder.context().owners](int64_t chunk) {
    return copy_segments(copy_regions(stage, chunk), rank, owners);
  };
  const int32_t number = builder.add_body<CopyBody>(stage.label, segments).first;
  const auto [first, last] = builder.owned(grid.count());
  for (int64_t chunk = first; chunk < last; ++chunk) {
    const std::vector<CopySegment> now = segments(chunk);
    std::vector<scheduler::BlockId> inputs;
    inputs.reserve(now.size());
    for (const CopySegment& segment : now) inputs.push_back(builder.prefetch(*segment.input, segment.access));
    const int64_t bytes = grid.chunk_elements(chunk) * local::itemsize(stage.outputs[0].dtype);
    const scheduler::BlockId output = builder.add_output(0, chunk, bytes);
    builder.add_compute(number, chunk, {builder.progress(chunk), kMain},
                        {CopyBody::scratch_bytes(now, builder.device()), bytes}, inputs, {output},
                        scheduler::TaskKind::copy);
  }
}

}  // namespace quarry::exec
