// Products of matrices and the symmetric eigenproblem. Lazy.
#pragma once

#include <utility>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/program/engine.h"

namespace quarry {

// As np.matmul: (..., m, k) by (..., k, n), batch axes broadcast, vectors are rows on the left and columns on the
// right. Throws InvalidArgument for 0-d arguments and where core dimensions differ (both sizes in the message). `z.T()
// x z` reads z once (SYRK). 2 m n k operations a product.
Array matmul(const Array& a, const Array& b);

namespace linalg {

using local::Triangle;

// Eigenvalues, ascending, and eigenvectors in columns of a symmetric or Hermitian matrix, of which `triangle` is read.
// Integers become float64. One device computes: the matrix and twice its bytes of workspace must fit. Throws
// InvalidArgument for what is not square, TypeError for 16-bit floats, NotSupported for stacks of matrices; the
// computation throws InvalidArgument for NaN, infinity, or where the solver does not converge.
std::pair<Array, Array> eigh(const Array& a, Triangle triangle = Triangle::lower);

}  // namespace linalg
}  // namespace quarry
