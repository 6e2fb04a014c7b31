// Cuts of one axis by several grids.
#pragma once

#include "quarry/chunked/grid/grid.h"

namespace quarry {

// All cuts of two axes of equal extent; one of a single chunk adds none.
AxisChunks common_cuts(const AxisChunks& a, const AxisChunks& b);

}  // namespace quarry
