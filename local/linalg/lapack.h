// Small dense problems by LAPACK on the CPU, for arrays on any device: the matrix is copied to the host, solved there
// in double precision, and the result is put on the matrix's device. All block, and throw TypeError for the 16-bit
// floats.
#pragma once

#include "local/ndarray/ndarray.h"

namespace quarry::local::linalg {

// Eigenvalues of a square matrix, in LAPACK's order: real where all are, else complex.
NdArray eigvals(const NdArray& a);

struct LeastSquares {
  NdArray solution;   // (n,) or (n, k), as b is
  NdArray residuals;  // squared norms, (k,); no elements unless a has full rank and more rows than columns
  int64_t rank = 0;
  NdArray singular_values;  // descending
};
// min |a x - b| for a of (m, n) and b of (m,) or (m, k).
LeastSquares least_squares(const NdArray& a, const NdArray& b, double rcond);

NdArray inverse(const NdArray& a);

}  // namespace quarry::local::linalg
