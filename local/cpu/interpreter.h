// Runs lowered programs tile by tile.
#pragma once

#include "local/cpu/code.h"
#include "local/cpu/layout.h"
#include "local/device/exec_context.h"

namespace quarry::local::cpu {

// Bytes of scratch with `slots` threads.
int64_t interpreter_scratch_bytes(const Code& code, const Layout& layout, int slots);
// `scratch` holds that many bytes, aligned to kAllocationAlignment.
void interpret(const Code& code, const Layout& layout, const Loops& loops, const std::vector<Scalar>& constants,
               const Launch& launch, char* scratch, int slots);

}  // namespace quarry::local::cpu
