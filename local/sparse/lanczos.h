// A few eigenvalues and singular values by Lanczos's method, for the vectors that krylov.h is for. Private.
//
// The space and blocks of vectors are V's; the small projected problems are solved on the host.
#pragma once

#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/local/memory/exec_context.h"
#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/sparse/krylov.h"

namespace quarry::local::sparse::krylov {

inline DType eigen_dtype(DType dtype) {
  if (dtype == DType::float32 || is_complex(dtype)) return dtype;
  return DType::float64;
}

// Positions of the k wanted of the ascending values, ascending.
std::vector<int64_t> wanted(const std::vector<double>& values, int64_t k, std::string_view which);
// Throws InvalidArgument for another `which` than LM, SM, LA, SA, BE.
void check_which(std::string_view which);

// What methods say that restart.
std::string no_convergence(const char* function, int64_t converged, int64_t wanted, int64_t restarts, double residual);

// Small matrices on the host, in rows.
class Small {
 public:
  Small() = default;
  Small(int64_t rows, int64_t columns) : columns_(columns), values_(static_cast<size_t>(rows * columns)) {}
  Small(int64_t columns, std::vector<Complex> values) : columns_(columns), values_(std::move(values)) {}
  int64_t rows() const { return columns_ == 0 ? 0 : static_cast<int64_t>(values_.size()) / columns_; }
  int64_t columns() const { return columns_; }
  Complex& at(int64_t i, int64_t j) { return values_[static_cast<size_t>(i * columns_ + j)]; }
  Complex at(int64_t i, int64_t j) const { return values_[static_cast<size_t>(i * columns_ + j)]; }
  const std::vector<Complex>& values() const { return values_; }
  std::vector<Complex> column(int64_t j) const;
  Small picked(const std::vector<int64_t>& columns) const;
  // Of a dtype, on the host.
  NdArray array(DType dtype) const;

 private:
  int64_t columns_ = 0;
  std::vector<Complex> values_;
};
// Eigenvalues, ascending, and vectors, in columns, of a Hermitian matrix; real arithmetic where `real`.
std::pair<std::vector<double>, Small> small_eigh(const Small& a, bool real);

// Full orthogonalisation, and thick restarts (Wu and Simon 2000).
template <class V>
class Lanczos {
 public:
  using Vector = typename V::Vector;

  Lanczos(const typename V::Operator& a, int64_t space, const Vector& start)
      : a_(a), like_(start), space_(space), basis_(space + 1, start), projected_(space, space) {
    Vector squared = V::inner(start, start);
    const double length = root(V::compute({&squared}, {&like_})[0]);
    if (!(length > 0) || !std::isfinite(length)) throw InvalidArgument("v0: the vector has no direction");
    basis_.set(0, V::scaled(like_, 1 / length));
  }

  // Extends the space from `begin` vectors to all of it. Returns the length of the vector that follows.
  double extend(int64_t begin) {
    double length = 0;
    for (int64_t j = begin; j < space_; ++j) {
      const std::vector<Complex> column = basis_.append(j + 1, V::own(a_.matvec(basis_.vector(j)), like_));
      double scale = 0;
      for (int64_t i = 0; i <= j; ++i) {
        projected_.at(i, j) = column[static_cast<size_t>(i)];
        projected_.at(j, i) = std::conj(projected_.at(i, j));
        scale = std::max(scale, std::abs(projected_.at(i, j)));
      }
      projected_.at(j, j) = projected_.at(j, j).real();
      length = column.back().real();
      if (!std::isfinite(length)) throw InvalidArgument("a: the operator gave NaN or infinity");
      if (length <= epsilon(like_.dtype()) * std::max(scale, std::numeric_limits<double>::min())) {
        // The space is invariant: it goes on in a direction of its own.
        length = 0;
        if (j + 1 < like_.size())
          basis_.append(j + 1, V::random(like_, j + 1));
        else
          basis_.set(j + 1, V::zeros_like(like_));
      }
    }
    return length;
  }

  // Ritz values, ascending, and the coefficients of their vectors, in columns.
  std::pair<std::vector<double>, Small> ritz() const { return small_eigh(projected_, !is_complex(like_.dtype())); }

  // The space becomes that of the chosen Ritz vectors and the vector that followed.
  void restart(const std::vector<double>& values, const Small& coefficients, const std::vector<int64_t>& keep,
               double length) {
    const auto count = static_cast<int64_t>(keep.size());
    const Vector next = basis_.vector(space_);
    basis_.turn(coefficients.picked(keep));
    basis_.set(count, next);
    projected_ = Small(space_, space_);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t ritz = keep[static_cast<size_t>(i)];
      projected_.at(i, i) = values[static_cast<size_t>(ritz)];
      projected_.at(i, count) = std::conj(coefficients.at(space_ - 1, ritz)) * length;
      projected_.at(count, i) = std::conj(projected_.at(i, count));
    }
  }

  // The space becomes that of Ritz vectors that are invariant, and a random direction: number `number`.
  void restart_beside(const std::vector<double>& values, const Small& coefficients, const std::vector<int64_t>& keep,
                      int64_t number) {
    restart(values, coefficients, keep, /*length=*/0);
    basis_.append(std::ssize(keep), V::random(like_, number));
  }

  Vector vectors(const Small& coefficients) const { return basis_.columns(coefficients); }

 private:
  const typename V::Operator& a_;
  Vector like_;
  int64_t space_;
  typename V::Basis basis_;
  Small projected_;
};

// How far values are from each other in the order of `which`.
inline double distance(double a, double b, std::string_view which) {
  const bool by_size = which == "LM" || which == "SM";
  return by_size ? std::abs(std::abs(a) - std::abs(b)) : std::abs(a - b);
}

// `start`: none: V's random vector of so many elements.
//
// From one vector Lanczos's method finds one vector of a repeated eigenvalue, and others by rounding errors alone. So
// when k values have converged, the space goes on beside their vectors in a random direction until the next best value
// is known not to be among the k best ones; where it is, once more.
template <class V>
typename V::EigenResult eigsh(const typename V::Operator& a, int64_t k, const typename V::EigenOptions& options,
                              std::string_view which, const char* function = "eigsh") {
  using Vector = typename V::Vector;
  const int64_t n = a.shape()[0];
  if (a.shape()[0] != a.shape()[1])
    throw InvalidArgument("a: expected a square operator, got shape " + local::to_string(a.shape()));
  if (k < 1 || k >= n) throw InvalidArgument(fmt::format("k: {} is not between 1 and {}", k, n - 1));
  check_which(which);
  const int64_t space = options.ncv.value_or(std::min(n, std::max<int64_t>(2 * k + 1, 20)));
  if (space <= k || space > n)
    throw InvalidArgument(fmt::format("ncv: {} is not above k = {} and at most {}", space, k, n));
  if (options.v0 && options.v0->size() != n)
    throw InvalidArgument(fmt::format("v0: shape {} does not fit a of shape {}", local::to_string(options.v0->shape()),
                                      local::to_string(a.shape())));
  const DType dtype = eigen_dtype(a.dtype());
  const Vector start = options.v0 ? V::left_vector(a, *options.v0, dtype) : V::random_left(a, dtype);
  const double tol = options.tol > 0 ? options.tol : epsilon(dtype);
  const int64_t maxiter = std::max<int64_t>(options.maxiter.value_or(10 * n), 1);
  Lanczos<V> lanczos(a, space, start);
  std::vector<double> known;  // values that have converged, before the space went on beside them
  int64_t begin = 0, directions = 0, converged = 0;
  double worst = 0;
  const auto most = [&] { return known.empty() ? maxiter : 2 * maxiter; };
  for (int64_t iteration = 0; iteration < most(); ++iteration) {
    const double length = lanczos.extend(begin);
    const auto ritz = lanczos.ritz();
    const std::vector<double>& values = ritz.first;
    const auto value = [&](int64_t i) { return values[static_cast<size_t>(i)]; };
    const auto residual = [&](int64_t i) { return length * std::abs(ritz.second.at(space - 1, i)); };
    // Ritz values are not known better than to the norm's last bits.
    const double least = std::pow(epsilon(dtype), 2.0 / 3);
    const double floor = epsilon(dtype) * std::max(std::abs(values.front()), std::abs(values.back()));
    const auto bound = [&](int64_t i) { return std::max(tol * std::max(least, std::abs(value(i))), floor); };
    const std::vector<int64_t> best = wanted(values, k, which);
    converged = 0;
    worst = 0;
    for (const int64_t i : best) {
      if (residual(i) <= bound(i))
        ++converged;
      else
        worst = std::max(worst, residual(i));
    }

    bool is_complete = space == n;
    if (converged == k && !is_complete && !known.empty()) {
      // The best one beside them has converged too, or is told apart from all of them.
      std::vector<int64_t> beside = wanted(values, k + 1, which);
      std::erase_if(beside, [&](int64_t i) { return std::ranges::find(best, i) != best.end(); });
      const int64_t next = beside.front();
      is_complete = residual(next) <= bound(next) || std::ranges::all_of(best, [&](int64_t i) {
                      return 2 * residual(next) < distance(value(i), value(next), which);
                    });
      const bool is_news = !std::ranges::equal(
          known, best, [&](double before, int64_t i) { return std::abs(before - value(i)) <= 2 * bound(i); });
      if (is_complete && is_news && directions < k && iteration < maxiter) {
        is_complete = false;
        known.clear();
      }
    }
    if (is_complete || (iteration >= maxiter && converged == k)) {
      std::vector<double> found;
      for (const int64_t i : best) found.push_back(value(i));
      typename V::EigenResult result{V::values(found, start), V::empty({n, 0}, start)};
      if (options.return_eigenvectors) result.vectors = lanczos.vectors(ritz.second.picked(best));
      return result;
    }
    if (converged == k && known.empty()) {
      for (const int64_t i : best) known.push_back(value(i));
      lanczos.restart_beside(values, ritz.second, best, space + directions++);
      begin = k;
      continue;
    }
    // What has converged makes room for more: this keeps the space from standing still.
    const int64_t keep = std::min(k + converged / 2 + (space - k) / 2, space - 1);
    lanczos.restart(values, ritz.second, wanted(values, keep, which), length);
    begin = keep;
  }
  throw LinAlgError(no_convergence(function, converged, k, maxiter, worst));
}

// By eigsh() of the smaller of a^H a and a a^H.
template <class V>
typename V::SvdsResult svds(const typename V::Operator& given, int64_t k, const typename V::SvdsOptions& options) {
  using Vector = typename V::Vector;
  if (options.which != "LM" && options.which != "SM")
    throw InvalidArgument(fmt::format("which: '{}' is none of 'LM', 'SM'", options.which));
  const int64_t m = given.shape()[0], n = given.shape()[1], least = std::min(m, n);
  if (k < 1 || k > least) throw InvalidArgument(fmt::format("k: {} is not between 1 and {}", k, least));
  const DType dtype = eigen_dtype(given.dtype());
  const bool wide = m < n, real = !is_complex(dtype);
  const typename V::Operator a = wide ? given.adjoint() : given;  // (rows, least)
  if (options.v0 && options.v0->size() != least)
    throw InvalidArgument(fmt::format("v0: shape {} does not fit a of shape {}", local::to_string(options.v0->shape()),
                                      local::to_string(given.shape())));
  typename V::EigenOptions eigen;
  eigen.ncv = options.ncv;
  eigen.tol = options.tol > 0 ? options.tol * options.tol : 0;
  eigen.maxiter = options.maxiter;
  eigen.v0 = options.v0 ? V::right_vector(a, options.v0, *options.v0) : V::random_right(a, dtype);
  Vector v;
  if (k == least) {  // all: a dense problem of that size
    const Vector unit = V::unit(least, *eigen.v0);
    v = V::matrix(small_eigh(V::products(unit, a.rmatmat(a.matmat(unit))), real).second, *eigen.v0);
  } else {
    const typename V::Operator gram(
        {least, least}, [&](const Vector& x) { return a.rmatvec(a.matvec(x)); }, {}, dtype);
    v = eigsh<V>(gram, k, eigen, options.which == "LM" ? "LA" : "SA", "svds").vectors;
  }
  // a v = u s: the singular values and left vectors of the image, orthogonalised once more.
  Vector image = V::of_dtype(a.matmat(v), dtype);
  V::compute({}, {&v, &image});
  const Small turn = small_eigh(V::products(image, image), real).second;
  Vector rotated = V::turned(image, turn);
  Vector values = V::column_norms(rotated);
  V::compute({}, {&rotated, &values});
  typename V::SvdsResult result{V::empty({m, 0}, image), values, V::empty({0, n}, image)};
  if (!options.return_singular_vectors) return result;
  const Vector right = V::turned(v, turn), left = V::columns_over(rotated, values);
  result.u = wide ? right : left;
  result.vh = V::adjoint(wide ? left : right);
  V::compute({}, {&result.u, &result.vh});
  return result;
}

}  // namespace quarry::local::sparse::krylov
