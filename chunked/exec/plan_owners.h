// Who owns what the stages of a plan make: settled before the plan is lowered, the same on every rank.
#pragma once

#include <optional>

#include "quarry/chunked/grid/ownership.h"
#include "quarry/chunked/plan/stage.h"

namespace quarry::exec {

// Settles the owners of all stages and of what they read. Products of matrices are dealt out as tiles; operators say
// what they want; what is computed chunk by chunk stays where most of its input of the same chunks is; all else is in
// blocks.
struct OwnerOptions {
  int64_t memory_bytes = 0;        // of every rank; 0: no limit
  std::optional<Owners> all = {};  // for tests: of all that is made chunk by chunk
  int product_layers = 0;          // for tests: of products, where their ranks can be divided so; 0: as is best
};
void settle_owners(plan::Plan& plan, const Ownership& ranks, const OwnerOptions& options = {});

}  // namespace quarry::exec
