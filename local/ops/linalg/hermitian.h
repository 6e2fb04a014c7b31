// Eager dense linear algebra on one device.
#pragma once

#include <utility>

#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/program/engine.h"

namespace quarry::local::linalg {

// np.matmul: (..., m, k) by (..., k, n); a vector is a row on the left, a column on the right; leading axes broadcast.
// The dtype is the promoted one; bool multiplies by `and` and sums by `or`; integers wrap. Sums along k in an order
// that depends on the shapes only. Throws InvalidArgument for 0-d operands and shapes that do not match.
NdArray matmul(const NdArray& a, const NdArray& b);

// a^H a of an (m, n) matrix, both triangles filled: half the work of matmul. float16, bfloat16, float and complex
// types; others as float64.
NdArray gram(const NdArray& a);

// Eigenvalues (ascending, n) and eigenvectors (n x n, in columns) of a symmetric (Hermitian) matrix of which one
// triangle is read; bool and integers as float64. Throws InvalidArgument unless the matrix is square, finite and the
// solver converges; TypeError for the 16-bit floats, as NumPy. Blocks.
std::pair<NdArray, NdArray> eigh(const NdArray& a, Triangle triangle = Triangle::lower);

}  // namespace quarry::local::linalg
