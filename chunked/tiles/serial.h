// A tile program task by task in the order of the loop, in current_context(): what local() of its operator is, and the
// reference of its tests.
#pragma once

#include <functional>
#include <vector>

#include "quarry/chunked/tiles/program.h"

namespace quarry::tiles {

// The outputs of the call, of whole arguments.
std::vector<NdArray> run_serially(const std::function<void(Program&)>& emit, const op::Call& call,
                                  std::span<const NdArray> arguments);

}  // namespace quarry::tiles
