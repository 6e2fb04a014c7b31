// Functions of square matrices, and matrices of a given structure, by the names of scipy.linalg and numpy.linalg. Lazy
// where nothing else is said; errors as local/ops/linalg/linalg.h has them.
#pragma once

#include <optional>
#include <vector>

#include "quarry/chunked/api/linalg.h"
#include "quarry/local/base/axes.h"

namespace quarry::linalg {

// The exponential of square matrices (..., n, n), by Pade approximants with scaling and squaring (Higham, SIAM J.
// Matrix Anal. Appl. 26(4), 2005). Stacks and small matrices by the local function. Of a large one six products, a
// solve and a product for each squaring, of which there are log2(|a|_1 / 5.4): collective, blocking, since the norm is
// computed first.
Array expm(const Array& A);
// The principal square root of Hermitian matrices, complex where an eigenvalue is negative. Throws InvalidArgument for
// others. By eigh(). Collective, blocking: the dtype depends on values.
Array sqrtm(const Array& A);

// (..., M, N) with the given matrices along the diagonal, zeros elsewhere; vectors are rows, numbers 1 x 1. Leading
// axes broadcast.
Array block_diag(const std::vector<Array>& arrs);
// (m, n) with constant diagonals, by the first column c and the first row r (c's conjugate if it is left out), of which
// the first element is not read. A task holds both vectors.
Array toeplitz(const Array& c, const std::optional<Array>& r = std::nullopt);

// numpy.linalg's: the inverse of a tensor under tensordot over its first `ind` axes, and x of tensordot(a, x, x.ndim) =
// b. By inv() and solve().
Array tensorinv(const Array& a, int64_t ind = 2);
Array tensorsolve(const Array& a, const Array& b, const std::optional<local::Ints>& axes = std::nullopt);

}  // namespace quarry::linalg
