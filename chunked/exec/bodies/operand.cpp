#include "quarry/chunked/exec/bodies/operand.h"

#include "quarry/local/memory/memory_resource.h"

namespace quarry::exec {

int64_t run_scratch_bytes(const local::Device& device, const local::Program& program, const local::Launch& launch) {
  return align_up(local::engine(device).run_scratch_bytes(program, launch), local::kAllocationAlignment);
}

local::Operand operand(const Access& access, const plan::AccessMap& map, void* block) {
  return {static_cast<std::byte*>(block) + access.offset, space_strides(map, access.strides)};
}

}  // namespace quarry::exec
