// Incomplete factors of sparse matrices, for preconditioners: those of one process, on any device. Not SciPy's, which
// has SuperLU's alone (spilu()): without fill and without exchanges of rows, so that factors of a Hermitian matrix are
// those of one too.
#pragma once

#include "quarry/local/sparse/sparse_array.h"

namespace quarry::local::sparse {

// L and U in one matrix in compressed rows, in the places of a: U on and above the diagonal, L below it, whose diagonal
// is of ones. L U has a's elements in a's places. `first_row` is the number of the first row in messages. Blocks.
// Throws InvalidArgument where a is not square, LinAlgError that names the row whose pivot is zero or missing,
// NotSupported for 64-bit indices on a GPU.
SparseArray incomplete_lu(const SparseArray& a, int64_t first_row = 0);
// The x of L U x = b, with `adjoint` of (L U)^H x = b; b is (n) or (n, k).
NdArray incomplete_solve(const SparseArray& factors, const NdArray& b, bool adjoint = false);

}  // namespace quarry::local::sparse
