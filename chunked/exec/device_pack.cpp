#include "quarry/chunked/exec/device_pack.h"

#include "quarry/local/program/engine.h"
#include "quarry/local/program/program.h"

namespace quarry::exec {
namespace {

// Hyperslabs of few or long runs go by the copy engines, which leave the multiprocessors to others.
constexpr int64_t kFewRuns = 8;
constexpr int64_t kLongRunBytes = int64_t{1} << 20;

// By a kernel. False where the engine would need scratch memory.
bool copy_by_program(const Hyperslab& hyperslab, const void* block, void* to, local::DeviceStream& stream,
                     local::DType dtype) {
  local::Program program;
  program.output(program.input(dtype));
  const local::Dims strides = local::contiguous_strides(hyperslab.shape, hyperslab.itemsize);
  const auto* from = static_cast<const std::byte*>(block);
  for (int d = 0; d < hyperslab.start.size(); ++d) from += hyperslab.start[d] * strides[d];
  local::Launch launch;
  launch.shape = hyperslab.count;
  launch.inputs.push_back({const_cast<std::byte*>(from), strides});
  launch.outputs.push_back({to, local::contiguous_strides(hyperslab.count, hyperslab.itemsize)});
  local::Engine& engine = local::engine(stream.device());
  if (engine.run_scratch_bytes(program, launch) > 0) return false;
  engine.run(program, launch, {stream.device(), &stream, /*memory=*/nullptr, /*threads=*/1});
  return true;
}

}  // namespace

std::optional<local::DType> dtype_of_bytes(int64_t itemsize) {
  for (const local::DType dtype : {local::DType::uint8, local::DType::uint16, local::DType::uint32,
                                   local::DType::uint64, local::DType::complex128}) {
    if (local::itemsize(dtype) == itemsize) return dtype;
  }
  return std::nullopt;
}

void pack_on_device(const Hyperslab& hyperslab, const void* block, void* to, local::DeviceStream& stream) {
  const HyperslabRuns runs(hyperslab);
  if (runs.bytes() == 0) return;
  const int64_t count = runs.bytes() / runs.run_bytes();
  if (count > kFewRuns && runs.run_bytes() < kLongRunBytes) {
    const auto dtype = dtype_of_bytes(hyperslab.itemsize);
    if (dtype && copy_by_program(hyperslab, block, to, stream, *dtype)) return;
  }
  runs.read(0, runs.bytes(), static_cast<std::byte*>(to), {}, [&](int64_t offset, int64_t bytes, void* part) {
    stream.copy(part, static_cast<const std::byte*>(block) + offset, bytes);
  });
}

}  // namespace quarry::exec
