// Loops of the reductions that have none of their own, made of their rows in reduction.def: the same on every
// instruction-set level.
#pragma once

#include "quarry/local/cpu/loops.h"

namespace quarry::local::cpu {

void register_row_loops(Loops& loops);

}  // namespace quarry::local::cpu
