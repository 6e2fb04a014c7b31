// Everything that programs on chunked arrays need.
#pragma once

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/assignment.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/calculus.h"
#include "quarry/chunked/api/choices.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/eigen.h"
#include "quarry/chunked/api/elementwise.h"
#include "quarry/chunked/api/explain.h"
#include "quarry/chunked/api/factors.h"
#include "quarry/chunked/api/fft.h"
#include "quarry/chunked/api/files.h"
#include "quarry/chunked/api/grouping.h"
#include "quarry/chunked/api/histogram.h"
#include "quarry/chunked/api/insertion.h"
#include "quarry/chunked/api/joining.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/linear_operator.h"
#include "quarry/chunked/api/ma.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/matrix_functions.h"
#include "quarry/chunked/api/nan.h"
#include "quarry/chunked/api/partitions.h"
#include "quarry/chunked/api/polynomials.h"
#include "quarry/chunked/api/products.h"
#include "quarry/chunked/api/quantile.h"
#include "quarry/chunked/api/random.h"
#include "quarry/chunked/api/randomized.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/saved_steps.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/sets.h"
#include "quarry/chunked/api/solvers.h"
#include "quarry/chunked/api/sorting.h"
#include "quarry/chunked/api/sparse.h"
#include "quarry/chunked/api/statistics.h"
#include "quarry/chunked/api/structured.h"
#include "quarry/chunked/api/types.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/api/names.h"

namespace quarry {
using namespace names;

// NumPy's constants.
inline constexpr double pi = 3.14159265358979323846, e = 2.71828182845904523536;
inline constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
}  // namespace quarry
