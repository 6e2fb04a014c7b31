// What the programs of task bodies run on, and the scratch memory that they take.
#pragma once

#include <cstdint>

#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/program.h"

namespace quarry::exec {

using local::align_up;
// Scratch that a task must declare for one run of a program.
int64_t run_scratch_bytes(const local::Device& device, const local::Program& program, const local::Launch& launch);
// A run-time operand: where an access finds its data in the block that arrived.
local::Operand operand(const Access& access, const plan::AccessMap& map, void* block);

}  // namespace quarry::exec
