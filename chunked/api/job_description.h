// What must be the same for one run to go on with what another has kept: whatever the bits of its results depend on.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/io/saved_job.h"

namespace quarry::detail {

// The version, the kind of device, and every file that the nodes read, with its size and when it was changed.
io::JobDescription description_of_run(std::span<const expr::NodePtr> nodes);
// Of results inside the plan, which have chunks too.
std::pair<std::string, std::string> description_of_plan(const plan::Plan& plan);
// How far saved states are apart, by the tool's option or the environment.
double seconds_between_states();

}  // namespace quarry::detail
