// What the program and the environment ask of a Runtime, looked at before anything starts.
#pragma once

#include <cstdint>

#include "quarry/chunked/plan/stage.h"
#include "quarry/chunked/runtime/runtime.h"

namespace quarry {

// What follows from the options.
struct ResolvedOptions {
  bool steals_work = true;
  bool cpu_ranks = false;  // ranks without a GPU compute on the CPU beside others
  plan::PassNames passes_off;
  // Of what must be the same on all ranks, since grids and tasks follow from it.
  uint64_t hash = 0;
};

// Fills in what the program leaves to the environment. Throws InvalidArgument.
ResolvedOptions resolve_options(RuntimeOptions& options);

// QUARRY_WEIGHT of this rank in thousandths; `otherwise` where it is not set. Throws InvalidArgument.
int64_t rank_weight(double otherwise);

}  // namespace quarry
