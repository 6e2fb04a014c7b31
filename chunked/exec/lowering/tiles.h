// Stages of operators that are tile programs.
#pragma once

#include <functional>

#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/chunked/tiles/program.h"

namespace quarry::exec {

// Adds this rank's tasks of the builder's stage: `emit` runs the loop, and is called twice, first to count its tasks.
void lower_tiles(Builder& builder, const plan::Applied& stage, const std::function<void(tiles::Program&)>& emit);

}  // namespace quarry::exec
