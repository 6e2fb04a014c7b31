// How fast this machine does the work that plans are made of: measured when first asked for, in small, and kept in the
// user's cache.
#pragma once

#include <span>

#include "quarry/chunked/plan/cost.h"
#include "quarry/chunked/runtime/runtime.h"

namespace quarry::exec {

// What this rank's cache knows of its machine and device; empty where there is none. Reads a file; measures nothing.
plan::Rates known_rates(const Runtime& runtime);

// Adds to `rates` what the stages need and it lacks, and keeps it for later runs. Measures for about `most_seconds` at
// most; what is left over, and what cannot be tried in small, stays at the usual rate. Blocking, not collective.
void measure_rates(plan::Rates& rates, std::span<const plan::Stage> stages, const Runtime& runtime,
                   double most_seconds);

// Additions and multiplications a second of float64 products in one thread: from the cache, or measured. Blocking.
double measured_flop_rate(const Runtime& runtime);

}  // namespace quarry::exec
