#include "quarry/chunked/exec/bodies/copy.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/exec/bodies/operand.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

std::string CopyBody::name(int64_t index) const { return fmt::format("copy {}[{}]", label_, index); }

namespace {

local::Program copy_program(const CopySegment& segment) {
  local::Program program;
  const local::ValueId value = program.input(segment.dtype, segment.swapped);
  program.output(segment.conjugate ? program.apply("conjugate"_op, {&value, 1}) : value);
  return program;
}

local::Launch copy_launch(const CopySegment& segment, void* from, void* to) {
  local::Launch launch;
  launch.shape = segment.count;
  launch.inputs.push_back({static_cast<std::byte*>(from) + segment.access.offset, segment.source_strides});
  launch.outputs.push_back({static_cast<std::byte*>(to) + segment.offset, segment.strides});
  return launch;
}

}  // namespace

int64_t CopyBody::scratch_bytes(const std::vector<CopySegment>& segments, const local::Device& device) {
  int64_t bytes = 0;
  for (const CopySegment& segment : segments)
    bytes = std::max(bytes, run_scratch_bytes(device, copy_program(segment), copy_launch(segment, nullptr, nullptr)));
  return bytes;
}

void CopyBody::run(scheduler::TaskRun& run) {
  const std::vector<CopySegment> segments = segments_(run.index);
  QUARRY_CHECK(segments.size() == run.inputs.size());
  local::Engine& engine = local::engine(run.context.device);
  for (size_t i = 0; i < segments.size(); ++i) {
    engine.run(copy_program(segments[i]), copy_launch(segments[i], run.inputs[i].data, run.outputs[0].data),
               run.context);
  }
}

}  // namespace quarry::exec
