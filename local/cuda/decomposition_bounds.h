// The scratch that decompositions take.
#pragma once

#include <cusolverDn.h>

#include "quarry/local/program/decompositions.h"

namespace quarry::local::cuda {

// The most that a task takes, by its shapes alone; `solver` says what cuSOLVER wants.
int64_t scratch_bound(const Decomposition& task, cusolverDnHandle_t solver);

}  // namespace quarry::local::cuda
