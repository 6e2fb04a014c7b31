// The few first or last elements of a sorted row, found in one read of the row.
#pragma once

#include <cstdint>

#include "quarry/local/base/dtype.h"

namespace quarry::local::cpu {

// Writes the positions of the k first (`last`: last) of n elements in the order of sorting.h, ascending. Of equal
// elements the first are the earlier ones. Not for complex dtypes.
void end_positions(DType dtype, const void* in, int64_t n, int64_t k, bool last, int64_t* out);

}  // namespace quarry::local::cpu
