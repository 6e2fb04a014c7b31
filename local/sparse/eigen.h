// A few eigenvalues or singular values of large matrices, by SciPy's names.
//
// `a` is a sparse matrix, a dense one or an operator, real symmetric or complex Hermitian for eigenvalues. Computed in
// float32, float64, complex64 or complex128 on the device of v0 (X), else on the current one. All block. Throw
// InvalidArgument for k out of range and shapes that do not fit, LinAlgError where maxiter does not suffice (SciPy's
// ArpackNoConvergence).
#pragma once

#include <string_view>

#include "quarry/local/sparse/linear_operator.h"

namespace quarry::local::sparse::linalg {

struct EigenOptions {
  std::string_view which = "LM";        // of largest magnitude; SM, LA, SA (algebraically), BE (half from each end)
  std::optional<double> sigma = {};     // eigenvalues of (a - sigma I)^-1 by splu(): `which` speaks of those
  std::optional<NdArray> v0 = {};       // where to begin; a fixed random vector
  std::optional<int64_t> ncv = {};      // size of the space, min(n, max(2 k + 1, 20))
  std::optional<int64_t> maxiter = {};  // restarts, 10 n
  double tol = 0;                       // relative accuracy, 0: of the dtype
  bool return_eigenvectors = true;
};
struct EigenResult {
  NdArray values;   // real, ascending
  NdArray vectors;  // (n, k), orthonormal; no elements without return_eigenvectors
};
// Lanczos's method with full orthogonalisation and thick restarts (Wu and Simon 2000).
EigenResult eigsh(const LinearOperator& a, int64_t k = 6, const EigenOptions& options = {});
// With options.sigma the matrix is factorised.
EigenResult eigsh(const SparseArray& a, int64_t k = 6, const EigenOptions& options = {});

// Of any square a: as many eigenvalues of largest (L) or smallest (S) magnitude (M), real (R) or imaginary part (I, of
// a real a its size), `which` "LM" unless said. Values and vectors are complex, the wanted most first, vectors of
// length 1; of a real a pairs are not split, so that there may be one more than k. By Krylov and Schur's method (G. W.
// Stewart, A Krylov-Schur Algorithm for Large Eigenproblems, 2002). ncv is at least k + 2 (or n). The eigenvectors of a
// defective eigenvalue are nearly parallel.
EigenResult eigs(const LinearOperator& a, int64_t k = 6, const EigenOptions& options = {});

struct SvdsOptions {
  std::optional<int64_t> ncv = {};
  double tol = 0;
  std::string_view which = "LM";  // or SM
  std::optional<NdArray> v0 = {};
  std::optional<int64_t> maxiter = {};
  bool return_singular_vectors = true;
};
struct SvdsResult {
  NdArray u, values, vh;  // (m, k), (k,) ascending, (k, n); u and vh without elements if not asked for
};
// By eigsh() of the smaller of a^H a and a a^H: singular values far below the largest have lost half of the digits.
SvdsResult svds(const LinearOperator& a, int64_t k = 6, const SvdsOptions& options = {});

struct LobpcgOptions {
  std::optional<LinearOperator> B = {};  // positive definite: a x = lambda B x
  std::optional<LinearOperator> M = {};  // approximates a's inverse
  std::optional<NdArray> Y = {};         // (n, j): constraints that the eigenvectors are orthogonal to
  std::optional<double> tol = {};        // of residuals, n sqrt(epsilon)
  int64_t maxiter = 20;
  bool largest = true;
};
struct LobpcgResult {
  NdArray values;                       // descending if `largest`, else ascending
  NdArray vectors;                      // (n, k)
  std::vector<NdArray> residual_norms;  // after each iteration, (k,)
};
// Knyazev (2001), from the (n, k) columns of X. Does not throw where maxiter does not suffice: the residuals tell.
LobpcgResult lobpcg(const LinearOperator& a, const NdArray& X, const LobpcgOptions& options = {});

}  // namespace quarry::local::sparse::linalg
