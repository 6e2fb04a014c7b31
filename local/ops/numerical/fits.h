// What polyfit() asks of its arguments, for arrays of one process and chunked ones.
#pragma once

#include <cstdint>
#include <optional>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"

namespace quarry::local::fits {

// Throws InvalidArgument and TypeError with NumPy's texts for shapes of x, y and weights that do not fit.
void check(int64_t deg, const Dims& x, const Dims& y, const std::optional<Dims>& w);
// The dtype in double precision. Throws TypeError for the 16-bit floats, as NumPy's linalg.
DType in_double(DType dtype);

}  // namespace quarry::local::fits
