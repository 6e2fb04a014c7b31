// Products of sparse matrices with dense arrays and with each other.
//
// The dtype is the promoted one; floats and complex numbers go to the engine (cuSPARSE on a GPU), bool (or of ands) and
// integers (wrapping) are composed of other operations. Throw InvalidArgument for shapes that do not match.
#pragma once

#include "quarry/local/sparse/sparse_array.h"

namespace quarry::local::sparse {

// (m, k) by (k, n) or by a vector of k; dense, in C order. Coordinates and diagonals are compressed first: keep a CSR
// matrix where many products follow.
NdArray matmul(const SparseArray& a, const NdArray& b);
NdArray matmul(const NdArray& a, const SparseArray& b);
// Sorted, without duplicates; values that cancel stay as zeros. CSC where both are, else CSR. Blocks.
SparseArray matmul(const SparseArray& a, const SparseArray& b);

}  // namespace quarry::local::sparse
