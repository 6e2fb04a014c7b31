// Who owns what the stages of a plan make: settled before the plan is lowered, the same on every rank.
#pragma once

#include <optional>

#include "quarry/chunked/grid/ownership.h"
#include "quarry/chunked/plan/stage.h"

namespace quarry::exec {

// Settles the owners of all stages and of what they read. Products of matrices are dealt out as tiles; operators say
// what they want; what is computed chunk by chunk stays where most of its input of the same chunks is; all else is in
// blocks. `all`: owners of all that is made chunk by chunk.
void settle_owners(plan::Plan& plan, const Ownership& ranks, const std::optional<Owners>& all = std::nullopt);

}  // namespace quarry::exec
