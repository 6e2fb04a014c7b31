// Programs over few elements, elementwise or reduced to one result: no tiles, no scratch from a pool.
#pragma once

#include <vector>

#include "quarry/local/cpu/code.h"
#include "quarry/local/program/engine.h"

namespace quarry::local::cpu {

// Runs the program, if it is one of those, and says whether. The results are those of the interpreter to the bit.
bool run_small(const Code& code, const Loops& loops, const std::vector<Scalar>& constants, const Launch& launch);

}  // namespace quarry::local::cpu
