#include "quarry/apps/binding/iterative_rows.h"

#include <fmt/format.h>

#include "quarry/chunked/api/eigen.h"
#include "quarry/chunked/api/randomized.h"
#include "quarry/chunked/api/solvers.h"
#include "quarry/local/base/error.h"

namespace quarry::apps::expression::chunked_rows::linalg {

namespace iterative = quarry::sparse::linalg;

namespace {

iterative::LinearOperator operator_of(const Matrix& matrix) {
  return std::visit([](const auto& a) { return iterative::LinearOperator(a); }, matrix);
}

// Preconditioners by name.
struct Named {
  std::string_view name;
  iterative::LinearOperator (*of_dense)(const Array&);
  iterative::LinearOperator (*of_sparse)(const quarry::sparse::SparseArray&);
};
constexpr Named kPreconditioners[] = {
    {"jacobi", iterative::jacobi, iterative::jacobi},
    {"block_jacobi", iterative::block_jacobi, iterative::block_jacobi},
    {"ilu", iterative::ilu, iterative::ilu},
};

std::optional<iterative::LinearOperator> operator_of(const Preconditioner& M, const Matrix& A) {
  if (!M) return std::nullopt;
  if (const auto* matrix = std::get_if<Array>(&*M)) return iterative::LinearOperator(*matrix);
  if (const auto* matrix = std::get_if<quarry::sparse::SparseArray>(&*M)) return iterative::LinearOperator(*matrix);
  const auto& name = std::get<std::string>(*M);
  std::string names;
  for (const Named& each : kPreconditioners) {
    if (each.name == name) {
      const auto* dense = std::get_if<Array>(&A);
      return dense != nullptr ? each.of_dense(*dense) : each.of_sparse(std::get<quarry::sparse::SparseArray>(A));
    }
    names += fmt::format("'{}', ", each.name);
  }
  throw local::InvalidArgument(fmt::format("M: '{}' is none of {}and no matrix", name, names));
}

iterative::SolveOptions options_of(const Matrix& A, const std::optional<Array>& x0, double rtol, double atol,
                                   std::optional<int64_t> maxiter, const Preconditioner& M) {
  return {.x0 = x0, .rtol = rtol, .atol = atol, .maxiter = maxiter, .M = operator_of(M, A)};
}
std::pair<Array, int64_t> pair_of(const iterative::Solution& solution) { return {solution.x, solution.info}; }

}  // namespace

std::pair<Array, int64_t> cg(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol, double atol,
                             std::optional<int64_t> maxiter, const Preconditioner& M) {
  return pair_of(iterative::cg(operator_of(A), b, options_of(A, x0, rtol, atol, maxiter, M)));
}
std::pair<Array, int64_t> cgs(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol, double atol,
                              std::optional<int64_t> maxiter, const Preconditioner& M) {
  return pair_of(iterative::cgs(operator_of(A), b, options_of(A, x0, rtol, atol, maxiter, M)));
}
std::pair<Array, int64_t> bicgstab(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol,
                                   double atol, std::optional<int64_t> maxiter, const Preconditioner& M) {
  return pair_of(iterative::bicgstab(operator_of(A), b, options_of(A, x0, rtol, atol, maxiter, M)));
}
std::pair<Array, int64_t> gmres(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol,
                                double atol, std::optional<int64_t> restart, std::optional<int64_t> maxiter,
                                const Preconditioner& M) {
  constexpr int64_t kRestart = 20;
  return pair_of(
      iterative::gmres(operator_of(A), b, options_of(A, x0, rtol, atol, maxiter, M), restart.value_or(kRestart)));
}
std::pair<Array, int64_t> minres(const Matrix& A, const Array& b, const std::optional<Array>& x0, double rtol,
                                 double shift, std::optional<int64_t> maxiter, const Preconditioner& M) {
  return pair_of(iterative::minres(operator_of(A), b, options_of(A, x0, rtol, /*atol=*/0, maxiter, M), shift));
}

LsqrTuple lsqr(const Matrix& A, const Array& b, double damp, double atol, double btol, double conlim,
               std::optional<int64_t> iter_lim, bool calc_var, const std::optional<Array>& x0) {
  const iterative::LsqrResult r = iterative::lsqr(operator_of(A), b, damp, atol, btol, conlim, iter_lim, calc_var, x0);
  return {r.x, r.istop, r.itn, r.r1norm, r.r2norm, r.anorm, r.acond, r.arnorm, r.xnorm, r.var};
}
LsmrTuple lsmr(const Matrix& A, const Array& b, double damp, double atol, double btol, double conlim,
               std::optional<int64_t> maxiter, const std::optional<Array>& x0) {
  const iterative::LsmrResult r = iterative::lsmr(operator_of(A), b, damp, atol, btol, conlim, maxiter, x0);
  return {r.x, r.istop, r.itn, r.normr, r.normar, r.norma, r.conda, r.normx};
}

namespace {

EigenOutcome outcome_of(const iterative::EigenResult& found, bool with_vectors) {
  if (!with_vectors) return found.values;
  return std::pair(found.values, found.vectors);
}

}  // namespace

EigenOutcome eigsh(const Matrix& A, int64_t k, const std::optional<Array>& M, std::optional<double> sigma,
                   std::string_view which, const std::optional<Array>& v0, std::optional<int64_t> ncv,
                   std::optional<int64_t> maxiter, double tol, bool return_eigenvectors) {
  const iterative::EigenOptions options{which, M, sigma, v0, ncv, maxiter, tol, return_eigenvectors};
  const auto find = [&](const auto& a) { return iterative::eigsh(a, k, options); };
  return outcome_of(std::visit(find, A), return_eigenvectors);
}
EigenOutcome eigs(const Matrix& A, int64_t k, const std::optional<Array>& M, std::optional<double> sigma,
                  std::string_view which, const std::optional<Array>& v0, std::optional<int64_t> ncv,
                  std::optional<int64_t> maxiter, double tol, bool return_eigenvectors) {
  const iterative::EigenOptions options{which, M, sigma, v0, ncv, maxiter, tol, return_eigenvectors};
  const auto find = [&](const auto& a) { return iterative::eigs(a, k, options); };
  return outcome_of(std::visit(find, A), return_eigenvectors);
}
SvdsOutcome svds(const Matrix& A, int64_t k, std::optional<int64_t> ncv, double tol, std::string_view which,
                 const std::optional<Array>& v0, std::optional<int64_t> maxiter, bool return_singular_vectors) {
  const iterative::SvdsResult found =
      iterative::svds(operator_of(A), k, {ncv, tol, which, v0, maxiter, return_singular_vectors});
  if (!return_singular_vectors) return found.values;
  return std::tuple(found.u, found.values, found.vh);
}
std::pair<Array, Array> lobpcg(const Matrix& A, const Array& X, const std::optional<Matrix>& B, const Preconditioner& M,
                               const std::optional<Array>& Y, std::optional<double> tol, int64_t maxiter,
                               bool largest) {
  iterative::LobpcgOptions options{.M = operator_of(M, A), .Y = Y, .tol = tol, .maxiter = maxiter, .largest = largest};
  if (B) options.B = operator_of(*B);
  const iterative::LobpcgResult found = iterative::lobpcg(operator_of(A), X, options);
  return {found.values, found.vectors};
}

std::tuple<Array, Array, Array> svd_compressed(const Array& a, int64_t k, std::string_view iterator,
                                               int64_t n_power_iter, int64_t n_oversamples, std::optional<int64_t> seed,
                                               bool compute, bool coerce_signs) {
  const auto found = quarry::linalg::svd_compressed(a, k,
                                                    {.iterator = iterator,
                                                     .n_power_iter = n_power_iter,
                                                     .n_oversamples = n_oversamples,
                                                     .seed = seed,
                                                     .compute = compute,
                                                     .coerce_signs = coerce_signs});
  return {found.u, found.s, found.v};
}

}  // namespace quarry::apps::expression::chunked_rows::linalg
