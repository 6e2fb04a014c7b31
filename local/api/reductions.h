// NumPy's reductions: sum(x, 0), max(x, {0, 2}), std(x, {.axis = 0, .ddof = 1}). See local/ops/reduction/reduce.h.
#pragma once

#include "quarry/local/ops/fuse/fuse.h"
#include "quarry/local/ops/reduction/reduce.h"

namespace quarry::local {

#define QUARRY_NAME(name, alias) using ops::alias;
#define QUARRY_REDUCTION(name, aliases, ...) QUARRY_NAME(name, name) QUARRY_EACH(QUARRY_NAME, name, aliases)
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
#undef QUARRY_NAME

}  // namespace quarry::local
