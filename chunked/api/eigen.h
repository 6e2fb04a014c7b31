// A few eigenvalues or singular values of matrices and operators of any size, by SciPy's names and Dask's
// svd_compressed(). local/sparse/eigen.h has the same for one process.
//
// `a` is a matrix or an operator, real symmetric or complex Hermitian for eigenvalues. Computed in float32, float64,
// complex64 or complex128. Every call is collective and blocks; vectors have the matrix's chunks of rows (columns), and
// results are persisted. Small projected problems are solved by every rank. Throw InvalidArgument for k out of range,
// shapes that do not fit, NaN and infinity; LinAlgError where maxiter does not suffice (SciPy's ArpackNoConvergence).
#pragma once

#include <string_view>
#include <vector>

#include "quarry/chunked/api/linear_operator.h"

namespace quarry::sparse::linalg {

struct EigenOptions {
  std::string_view which = "LM";  // of largest magnitude; SM, LA, SA (algebraically), BE (half from each end)
  std::optional<Array> M = {};    // a x = lambda M x; positive definite, kept as its Cholesky factor
  // The eigenvalues next to it: of (a - sigma M)^-1, by LU, whose factors are kept; `which` speaks of 1 / (lambda -
  // sigma). NotSupported where `a` is no dense matrix.
  std::optional<double> sigma = {};
  std::optional<Array> v0 = {};         // where to begin; a fixed random vector
  std::optional<int64_t> ncv = {};      // vectors that are kept, min(n, max(2 k + 1, 20))
  std::optional<int64_t> maxiter = {};  // restarts, 10 n
  double tol = 0;                       // relative accuracy, 0: of the dtype
  bool return_eigenvectors = true;
};
struct EigenResult {
  Array values;   // (k,), real, ascending
  Array vectors;  // (n, k), orthonormal (with M: v^H M v = 1); (n, 0) without return_eigenvectors
};
// Lanczos's method with full orthogonalisation and thick restarts (K. Wu and H. Simon, Thick-Restart Lanczos Method for
// Large Symmetric Eigenvalue Problems, 2000). One computation a product.
EigenResult eigsh(const LinearOperator& a, int64_t k = 6, const EigenOptions& options = {});
EigenResult eigsh(const Array& a, int64_t k = 6, const EigenOptions& options = {});

// Of any square a: as many eigenvalues of largest (L) or smallest (S) magnitude (M), real (R) or imaginary part (I, of
// a real a its size), `which` "LM" unless said. Values and vectors are complex, the wanted most first, vectors of
// length 1; of a real a pairs are not split, so that there may be one more than k. By Krylov and Schur's method (G. W.
// Stewart, A Krylov-Schur Algorithm for Large Eigenproblems, 2002). ncv is at least k + 2 (or n). The eigenvectors of a
// defective eigenvalue are nearly parallel.
EigenResult eigs(const LinearOperator& a, int64_t k = 6, const EigenOptions& options = {});
EigenResult eigs(const Array& a, int64_t k = 6, const EigenOptions& options = {});

struct SvdsOptions {
  std::optional<int64_t> ncv = {};
  double tol = 0;
  std::string_view which = "LM";  // or SM
  std::optional<Array> v0 = {};   // min(m, n) elements
  std::optional<int64_t> maxiter = {};
  bool return_singular_vectors = true;
};
struct SvdsResult {
  Array u, values, vh;  // (m, k), (k,) ascending, (k, n); u and vh without elements if not asked for
};
// By eigsh() of the smaller of a^H a and a a^H, which are not formed: singular values far below the largest have lost
// half of the digits. An operator needs rmatvec.
SvdsResult svds(const LinearOperator& a, int64_t k = 6, const SvdsOptions& options = {});

struct LobpcgOptions {
  std::optional<LinearOperator> B = {};  // positive definite: a x = lambda B x
  std::optional<LinearOperator> M = {};  // approximates a's inverse
  std::optional<Array> Y = {};           // (n, j): constraints that the eigenvectors are orthogonal to
  std::optional<double> tol = {};        // of residuals, n sqrt(epsilon)
  int64_t maxiter = 20;
  bool largest = true;
};
struct LobpcgResult {
  Array values;                         // (k,), descending if `largest`, else ascending
  Array vectors;                        // (n, k)
  std::vector<NdArray> residual_norms;  // after each iteration, (k,), on every rank
};
// A. Knyazev, Toward the Optimal Preconditioned Eigensolver (2001), from the (n, k) columns of X; some 12 k vectors are
// kept. Does not throw where maxiter does not suffice: the residuals tell.
LobpcgResult lobpcg(const LinearOperator& a, const Array& X, const LobpcgOptions& options = {});

}  // namespace quarry::sparse::linalg
