// Eigenvalue problems of two matrices, and those near a number, as problems of one operator.
#include "quarry/chunked/api/eigen.h"

#include <fmt/format.h>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/eigen_calls.h"
#include "quarry/chunked/api/factors.h"
#include "quarry/chunked/api/products.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/sorting.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"

namespace quarry::sparse::linalg {

using local::InvalidArgument;

namespace {

EigenResult kept(const EigenResult& found) {
  const std::vector<Array> arrays = persist(std::vector<Array>{found.values, found.vectors});
  return {arrays[0], arrays[1]};
}

// The eigenvalue problem that an iteration solves for a x = lambda M x with M = L L^H, and how its results are those of
// it. With y = L^H x:
//   (L^-1 a L^-H) y = lambda y,   and with sigma   (L^H (a - sigma M)^-1 L) y = 1 / (lambda - sigma) y.
struct Problem {
  LinearOperator matrix;
  std::optional<Array> factor;  // L
  std::optional<double> sigma;

  EigenResult results(EigenResult found) const {
    if (sigma) found.values = *sigma + 1 / found.values;
    if (factor && found.vectors.size() != 0) found.vectors = by_factor(found.vectors, "C");
    return found;
  }
  Array by_factor(const Array& x, const char* trans) const {  // where there is one
    return quarry::linalg::solve_triangular(*factor, x, std::string(trans), /*lower=*/true, /*unit_diagonal=*/false,
                                            /*check_finite=*/false);
  }
};

Problem problem_of(const LinearOperator& a, const Array* dense, const EigenOptions& options) {
  Problem problem{a, {}, options.sigma};
  const Dims& shape = a.shape();
  if (shape[0] != shape[1])
    throw InvalidArgument(fmt::format("a: expected a square operator, got shape {}", local::to_string(shape)));
  if (options.M && options.M->shape() != shape)
    throw InvalidArgument(
        fmt::format("M: shape {} is not that of a, {}", local::to_string(options.M->shape()), local::to_string(shape)));
  const DType dtype = eigen::computed_in(options.M ? local::promote_types(a.dtype(), options.M->dtype()) : a.dtype());
  if (options.M) problem.factor = quarry::linalg::cholesky(options.M->astype(dtype)).persist();
  if (!options.sigma) {
    const auto apply = [a, with = problem](const Array& y) {
      return with.by_factor(a.matvec(with.by_factor(y, "C")), "N");
    };
    problem.matrix = LinearOperator(shape, apply, {}, dtype);
    return problem;
  }
  if (dense == nullptr) throw local::NotSupported("sigma: of dense matrices only, which LU decomposes");
  const Array one = options.M ? options.M->astype(dtype) : quarry::eye(shape[0], std::nullopt, 0, dtype);
  const auto [both, swaps] = quarry::linalg::lu_factor(dense->astype(dtype) - one * *options.sigma);
  const Array is_singular = any(diagonal(both) == 0);
  const Settled known = settle(std::span(&is_singular, 1), std::vector<Array>{both, swaps});
  if (known.values[0].item<bool>())
    throw local::LinAlgError(fmt::format("sigma: {} is an eigenvalue: choose a number beside it", *options.sigma));
  const std::vector<Array>& factors = known.kept;
  const auto solved = [factors](const Array& x) {
    return quarry::linalg::lu_solve({factors[0], factors[1]}, x, 0, /*check_finite=*/false);
  };
  LinearOperator::Apply apply = solved;
  if (problem.factor)
    apply = [solved, l = *problem.factor](const Array& y) { return matmul(compose::adjoint(l), solved(matmul(l, y))); };
  problem.matrix = LinearOperator(shape, apply, {}, dtype);
  return problem;
}

EigenResult some_hermitian(const LinearOperator& a, const Array* dense, int64_t k, const EigenOptions& options) {
  if (!options.M && !options.sigma) return eigen::of_hermitian(a, k, options);
  const Problem problem = problem_of(a, dense, options);
  EigenResult found = problem.results(eigen::of_hermitian(problem.matrix, k, options));
  if (options.sigma) {  // ascending again
    const Array order = argsort(found.values);
    found.values = take(found.values, order, 0);
    if (options.return_eigenvectors) found.vectors = take(found.vectors, order, 1);
  }
  return kept(found);
}
EigenResult some_general(const LinearOperator& a, const Array* dense, int64_t k, const EigenOptions& options) {
  if (!options.M && !options.sigma) return eigen::of_general(a, k, options);
  const Problem problem = problem_of(a, dense, options);
  EigenResult found = problem.results(eigen::of_general(problem.matrix, k, options));
  if (options.M && options.return_eigenvectors)
    found.vectors = found.vectors / quarry::linalg::norm(found.vectors, std::nullopt, Axes(0), true);
  return kept(found);
}

}  // namespace

EigenResult eigsh(const LinearOperator& a, int64_t k, const EigenOptions& options) {
  return some_hermitian(a, nullptr, k, options);
}
EigenResult eigsh(const Array& a, int64_t k, const EigenOptions& options) {
  return some_hermitian(LinearOperator(a), &a, k, options);
}
EigenResult eigs(const LinearOperator& a, int64_t k, const EigenOptions& options) {
  return some_general(a, nullptr, k, options);
}
EigenResult eigs(const Array& a, int64_t k, const EigenOptions& options) {
  return some_general(LinearOperator(a), &a, k, options);
}
}  // namespace quarry::sparse::linalg
