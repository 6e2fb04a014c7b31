// Iterative solvers and what finds a few eigenvalues in the expression language: SciPy's arguments, of dense and of
// sparse matrices. Results are SciPy's tuples. Collective, blocking.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "quarry/apps/binding/sparse_values.h"
#include "quarry/chunked/api/operand.h"

namespace quarry::apps::expression::chunked_rows::linalg {

// A dense matrix or a sparse one.
using Matrix = std::variant<Array, quarry::sparse::SparseArray>;
// A matrix near the inverse; "jacobi", "block_jacobi" or "ilu" of A.
using Preconditioner = std::optional<std::variant<std::string, Array, quarry::sparse::SparseArray>>;

std::pair<Array, int64_t> cg(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol, double atol,
                             std::optional<int64_t> maxiter, const Preconditioner& M);
std::pair<Array, int64_t> cgs(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol, double atol,
                              std::optional<int64_t> maxiter, const Preconditioner& M);
std::pair<Array, int64_t> bicgstab(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol,
                                   double atol, std::optional<int64_t> maxiter, const Preconditioner& M);
std::pair<Array, int64_t> gmres(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol,
                                double atol, std::optional<int64_t> restart, std::optional<int64_t> maxiter,
                                const Preconditioner& M);
std::pair<Array, int64_t> minres(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol,
                                 double shift, std::optional<int64_t> maxiter, const Preconditioner& M);
// x, istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var
using LsqrTuple = std::tuple<Array, int64_t, int64_t, double, double, double, double, double, double, Array>;
LsqrTuple lsqr(const Matrix& A, const Array& b, double damp, double atol, double btol, double conlim,
               std::optional<int64_t> iter_lim, bool calc_var, const std::optional<Array>& x0);
// x, istop, itn, normr, normar, norma, conda, normx
using LsmrTuple = std::tuple<Array, int64_t, int64_t, double, double, double, double, double>;
LsmrTuple lsmr(const Matrix& A, const Array& b, double damp, double atol, double btol, double conlim,
               std::optional<int64_t> maxiter, const std::optional<Array>& x0);
// Values, and vectors where they are asked for.
using EigenOutcome = std::variant<std::pair<Array, Array>, Array>;
EigenOutcome eigsh(const Matrix& A, int64_t k, const std::optional<Array>& M, std::optional<double> sigma,
                   std::string_view which, const std::optional<Array>& v0, std::optional<int64_t> ncv,
                   std::optional<int64_t> maxiter, double tol, bool return_eigenvectors);
EigenOutcome eigs(const Matrix& A, int64_t k, const std::optional<Array>& M, std::optional<double> sigma,
                  std::string_view which, const std::optional<Array>& v0, std::optional<int64_t> ncv,
                  std::optional<int64_t> maxiter, double tol, bool return_eigenvectors);
using SvdsOutcome = std::variant<std::tuple<Array, Array, Array>, Array>;
SvdsOutcome svds(const Matrix& A, int64_t k, std::optional<int64_t> ncv, double tol, std::string_view which,
                 const std::optional<Array>& v0, std::optional<int64_t> maxiter, bool return_singular_vectors);
std::pair<Array, Array> lobpcg(const Matrix& A, const Array& X, const std::optional<Matrix>& B, const Preconditioner& M,
                               const std::optional<Array>& Y, std::optional<double> tol, int64_t maxiter, bool largest);
std::tuple<Array, Array, Array> svd_compressed(const Array& a, int64_t k, std::string_view iterator,
                                               int64_t n_power_iter, int64_t n_oversamples, std::optional<int64_t> seed,
                                               bool compute, bool coerce_signs);

}  // namespace quarry::apps::expression::chunked_rows::linalg
