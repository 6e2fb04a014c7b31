// NumPy's window functions: float64, symmetric, made on the current device. Empty below one point, a single 1 for one.
#pragma once

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops {

NdArray bartlett(double M);
NdArray blackman(double M);
NdArray hamming(double M);
NdArray hanning(double M);
// With the modified Bessel function of order zero; `beta` trades the width of the main lobe for lower side lobes.
NdArray kaiser(double M, double beta);

}  // namespace quarry::local::ops
