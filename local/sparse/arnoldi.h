// A few eigenvalues of a general operator by Krylov and Schur's method (G. W. Stewart, A Krylov-Schur Algorithm for
// Large Eigenproblems, 2002), for the vectors that krylov.h is for. Private.
//
// a V = V H + v b^H with orthonormal V and v: a step adds a column. A restart keeps the invariant subspace of H that is
// wanted, by its ordered Schur form. Of a real operator that subspace is closed under conjugation and has a real basis:
// V stays real, and no pair is split.
#pragma once

#include "quarry/local/sparse/lanczos.h"

namespace quarry::local::sparse::krylov {

// H = vectors form vectors^H, complex and upper triangular, by LAPACK.
struct SchurForm {
  Small form, vectors;
};
SchurForm small_schur(const Small& h, bool real);
// The eigenvalues in groups, those that are wanted most first: pairs of a real matrix together, made exactly conjugate.
struct EigenGroups {
  std::vector<int64_t> order;   // of the diagonal
  std::vector<Complex> values;  // in that order
  std::vector<int64_t> ends;    // of groups
  // The end of the group that holds the last of `count`; where that would be beyond `most`, its begin.
  int64_t whole(int64_t count, int64_t most) const;
};
EigenGroups grouped(const Small& form, bool real, std::string_view which);
// Brings those positions of the diagonal to its begin, by rotations.
void reorder(SchurForm& schur, const std::vector<int64_t>& order);
// An orthonormal basis of the span of the first `count` Schur vectors; real, where they are closed under conjugation.
Small leading_basis(const SchurForm& schur, int64_t count, bool real);
// Eigenvectors, of length 1, of the first `count` values.
Small eigenvectors_of(const SchurForm& schur, int64_t count);
Small product(const Small& a, const Small& b, bool adjoint_a = false);
// Throws InvalidArgument for another `which` than LM, SM, LR, SR, LI, SI.
void check_which_general(std::string_view which);

template <class V>
typename V::EigenResult eigs(const typename V::Operator& a, int64_t k, const typename V::EigenOptions& options,
                             std::string_view which) {
  using Vector = typename V::Vector;
  const int64_t n = a.shape()[0];
  if (a.shape()[0] != a.shape()[1])
    throw InvalidArgument("a: expected a square operator, got shape " + local::to_string(a.shape()));
  if (k < 1 || k >= n) throw InvalidArgument(fmt::format("k: {} is not between 1 and {}", k, n - 1));
  check_which_general(which);
  const int64_t space = options.ncv.value_or(std::min(n, std::max<int64_t>(2 * k + 1, 20)));
  if (space < std::min(k + 2, n) || space > n)
    throw InvalidArgument(fmt::format("ncv: {} is not at least {} and at most {}", space, std::min(k + 2, n), n));
  if (options.v0 && options.v0->size() != n)
    throw InvalidArgument(fmt::format("v0: shape {} does not fit a of shape {}", local::to_string(options.v0->shape()),
                                      local::to_string(a.shape())));
  const DType dtype = eigen_dtype(a.dtype());
  const bool real = !is_complex(dtype);
  const Vector start = options.v0 ? V::left_vector(a, *options.v0, dtype) : V::random_left(a, dtype);
  const double tol = options.tol > 0 ? options.tol : epsilon(dtype);
  const int64_t maxiter = options.maxiter.value_or(10 * n);
  Vector like = start, squared = V::inner(start, start);
  const double first = root(V::compute({&squared}, {&like})[0]);
  if (!(first > 0) || !std::isfinite(first)) throw InvalidArgument("v0: the vector has no direction");
  typename V::Basis basis(space + 1, start);
  basis.set(0, V::scaled(like, 1 / first));
  Small h(space, space);
  int64_t begin = 0, converged = 0;
  double worst = 0;
  for (int64_t iteration = 0; iteration < std::max<int64_t>(1, maxiter); ++iteration) {
    double length = 0;
    for (int64_t j = begin; j < space; ++j) {
      const std::vector<Complex> column = basis.append(j + 1, V::own(a.matvec(basis.vector(j)), like));
      double scale = 0;
      for (int64_t i = 0; i <= j; ++i) {
        h.at(i, j) = column[static_cast<size_t>(i)];
        scale = std::max(scale, std::abs(h.at(i, j)));
      }
      length = column.back().real();
      if (!std::isfinite(length)) throw InvalidArgument("a: the operator gave NaN or infinity");
      if (length <= epsilon(dtype) * std::max(scale, std::numeric_limits<double>::min())) {
        // The space is invariant: it goes on in a direction of its own.
        length = 0;
        if (j + 1 < n)
          basis.append(j + 1, V::random(like, j + 1));
        else
          basis.set(j + 1, V::zeros_like(like));
      }
      if (j + 1 < space) h.at(j + 1, j) = length;
    }
    SchurForm schur = small_schur(h, real);
    const EigenGroups groups = grouped(schur.form, real, which);
    reorder(schur, groups.order);
    const double least = std::pow(epsilon(dtype), 2.0 / 3);
    double norm = 0;
    for (const Complex& value : groups.values) norm = std::max(norm, std::abs(value));
    const auto residual = [&](int64_t i) { return length * std::abs(schur.vectors.at(space - 1, i)); };
    // Values are not known better than to the norm's last bits.
    const auto is_converged = [&](int64_t i) {
      const double value = std::abs(groups.values[static_cast<size_t>(i)]);
      return residual(i) <= std::max(tol * std::max(least, value), epsilon(dtype) * norm);
    };
    // One more where the last one is half a pair.
    const int64_t found = groups.whole(k, space);
    converged = 0;
    while (converged < found && is_converged(converged)) ++converged;
    worst = 0;
    for (int64_t i = converged; i < found; ++i) worst = std::max(worst, residual(i));
    if (converged == found || space == n) {
      const std::vector<Complex> values(groups.values.begin(), groups.values.begin() + found);
      typename V::EigenResult result{V::complex_values(values, start), V::empty({n, 0}, start)};
      if (options.return_eigenvectors) {
        const Small all = eigenvectors_of(schur, found);
        Small parts[] = {all, all};  // real and imaginary
        if (real) {
          for (int64_t i = 0; i < all.rows(); ++i)
            for (int64_t j = 0; j < found; ++j) {
              parts[0].at(i, j) = all.at(i, j).real();
              parts[1].at(i, j) = all.at(i, j).imag();
            }
          result.vectors = V::complex_columns(basis.columns(parts[0]), basis.columns(parts[1]));
        } else {
          result.vectors = basis.columns(all);
        }
        V::compute({}, {&result.vectors});
      }
      return result;
    }
    // What has converged makes room for more.
    const int64_t keep = groups.whole(std::min(found + converged / 2 + (space - found) / 2, space - 1), space - 1);
    const Small turn = leading_basis(schur, keep, real);
    const Small kept = product(turn, product(h, turn), /*adjoint_a=*/true);
    const Vector next = basis.vector(space);
    basis.turn(turn);
    basis.set(keep, next);
    h = Small(space, space);
    for (int64_t j = 0; j < keep; ++j) {
      for (int64_t i = 0; i < keep; ++i) h.at(i, j) = kept.at(i, j);
      h.at(keep, j) = length * turn.at(space - 1, j);
    }
    begin = keep;
  }
  throw LinAlgError(no_convergence("eigs", converged, k, maxiter, worst));
}

}  // namespace quarry::local::sparse::krylov
