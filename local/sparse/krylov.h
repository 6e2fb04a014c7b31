// Krylov methods for square systems, for vectors of one process and chunked ones alike: what these are is in V
// (LocalVectors in local/sparse/vectors.h, ChunkedVectors in chunked/api/vectors.h). Private.
//
// Numbers that only scale vectors stay 0-d arrays. compute() is where a method blocks: it gives the values of numbers,
// and says which vectors are used again, so that lazy ones are computed with them, once.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <string_view>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/shape.h"

namespace quarry::local::sparse::krylov {

using Complex = std::complex<double>;

inline DType working_dtype(std::initializer_list<DType> dtypes) {
  DType dtype = DType::float32;
  bool wide = false;
  for (const DType one : dtypes) {
    wide = wide || !(one == DType::float32 || one == DType::complex64);
    if (is_complex(one) || is_float(one)) dtype = promote_types(dtype, one);
  }
  return wide ? promote_types(dtype, DType::float64) : dtype;
}

inline double epsilon(DType dtype) {
  return real_type(dtype) == DType::float32 ? std::numeric_limits<float>::epsilon()
                                            : std::numeric_limits<double>::epsilon();
}

// The root of a number that is not negative but for rounding; NaN stays NaN.
inline double root(Complex squared) { return std::sqrt(squared.real() < 0 ? 0 : squared.real()); }

// What every method starts from.
template <class V>
class System {
 public:
  using Vector = typename V::Vector;
  using Operator = typename V::Operator;
  using Options = typename V::Options;
  using Solution = typename V::Solution;

  const Options& options;
  Vector b, x;
  int64_t n, maxiter;
  double b_norm, tolerance;
  double norm = 0;  // of the residual, as far as the method knows

  System(const Operator& op, const Vector& right, const Options& given, int64_t iterations_per_unknown)
      : options(given), n(op.shape()[0]), a_(op), shape_(right.shape()) {
    if (op.shape()[0] != op.shape()[1])
      throw InvalidArgument("a: expected a square operator, got shape " + local::to_string(op.shape()));
    const bool column = right.ndim() == 2 && right.shape()[1] == 1;
    if (right.size() != n || (right.ndim() != 1 && !column))
      throw InvalidArgument(fmt::format("b: shape {} does not fit a of shape {}", local::to_string(right.shape()),
                                        local::to_string(op.shape())));
    if (given.M && !(given.M->shape() == op.shape()))
      throw InvalidArgument(
          fmt::format("M: shape {} is not a's, {}", local::to_string(given.M->shape()), local::to_string(op.shape())));
    if (given.x0 && given.x0->size() != n)
      throw InvalidArgument(fmt::format("x0: shape {} does not fit a of shape {}", local::to_string(given.x0->shape()),
                                        local::to_string(op.shape())));
    if (!(given.rtol >= 0) || !(given.atol >= 0))
      throw InvalidArgument(fmt::format("rtol and atol must not be negative: {}, {}", given.rtol, given.atol));
    const DType dtype = working_dtype({op.dtype(), right.dtype(), given.x0 ? given.x0->dtype() : right.dtype(),
                                       given.M ? given.M->dtype() : right.dtype()});
    b = V::left_vector(op, right, dtype);
    x = given.x0 ? V::converted(*given.x0, b) : V::zeros_like(b);
    maxiter = given.maxiter.value_or(iterations_per_unknown * n);
    Vector squared = V::inner(b, b);
    b_norm = root(V::compute({&squared}, {&b, &x})[0]);
    tolerance = std::max(given.atol, given.rtol * b_norm);
  }

  // Of the working dtype, and a new array.
  Vector product(const Vector& v) const { return V::own(a_.matvec(v), v); }
  Vector preconditioned(const Vector& v) const { return options.M ? V::own(options.M->matvec(v), v) : v; }
  Vector residual() const { return options.x0 ? b - product(x) : V::copy_of(b); }
  bool is_solved() const { return norm <= tolerance; }
  Solution done(int64_t info) {
    V::compute({}, {&x});
    return {x.reshape(shape_), info, norm};
  }
  // After the last iteration that is allowed.
  Solution end() { return done(is_solved() ? 0 : maxiter); }
  void call() {
    if (!options.callback) return;
    V::compute({}, {&x});
    options.callback(x.reshape(shape_));
  }
  // b = 0: so is x.
  bool is_trivial() {
    if (b_norm != 0) return false;
    x = V::zeros_like(b);
    return true;
  }

 private:
  const Operator& a_;
  Dims shape_;
};

// Hestenes and Stiefel (1952). Blocks once an iteration.
template <class V>
typename V::Solution cg(const typename V::Operator& a, const typename V::Vector& b,
                        const typename V::Options& options) {
  using Vector = typename V::Vector;
  System<V> s(a, b, options, 10);
  if (s.is_trivial()) return s.done(0);
  Vector r = s.residual(), p, rho_before;
  for (int64_t k = 0;; ++k) {
    Vector z = s.preconditioned(r), rho = V::inner(r, z);
    if (options.M) {
      Vector squared = V::inner(r, r);
      s.norm = root(V::compute({&squared, &rho}, {&s.x, &r, &p, &z})[0]);
    } else {
      // Without a preconditioner the norm is known from rho.
      s.norm = std::sqrt(std::abs(V::compute({&rho}, {&s.x, &r, &p, &z})[0]));
    }
    if (k > 0) s.call();
    if (s.is_solved() || k >= s.maxiter) return s.end();
    if (!std::isfinite(s.norm)) return s.done(-1);
    if (k == 0)
      p = V::copy_of(z);
    else
      V::scale_add(p, rho / rho_before, z);
    const Vector q = s.product(p), alpha = rho / V::inner(p, q);
    V::add_scaled(s.x, alpha, p);
    V::add_scaled(r, -alpha, q);
    rho_before = rho;
  }
}

// Sonneveld (1989).
template <class V>
typename V::Solution cgs(const typename V::Operator& a, const typename V::Vector& b,
                         const typename V::Options& options) {
  using Vector = typename V::Vector;
  System<V> s(a, b, options, 10);
  if (s.is_trivial()) return s.done(0);
  Vector r = s.residual(), shadow = V::copy_of(r), p, u, q, rho_before;
  const double least = epsilon(s.b.dtype()) * epsilon(s.b.dtype());
  for (int64_t k = 0;; ++k) {
    Vector squared = V::inner(r, r), rho = V::inner(shadow, r);
    const std::vector<Complex> known = V::compute({&squared, &rho}, {&s.x, &r, &shadow, &p, &q});
    s.norm = root(known[0]);
    if (k > 0) s.call();
    if (s.is_solved() || k >= s.maxiter) return s.end();
    if (!(std::abs(known[1]) >= least)) return s.done(-10);
    u = V::copy_of(r);
    if (k == 0) {
      p = V::copy_of(r);
    } else {
      const Vector beta = rho / rho_before;
      V::add_scaled(u, beta, q);
      V::scale_add(p, beta, q);  // p = u + beta (q + beta p)
      V::scale_add(p, beta, u);
    }
    const Vector v = s.product(s.preconditioned(p));
    Vector sigma = V::inner(shadow, v), v_kept = v;
    if (!(std::abs(V::compute({&sigma}, {&v_kept, &u, &p})[0]) > 0)) return s.done(-11);
    const Vector alpha = rho / sigma;
    q = V::copy_of(u);
    V::add_scaled(q, -alpha, v_kept);
    const Vector step = s.preconditioned(u + q);
    V::add_scaled(s.x, alpha, step);
    V::add_scaled(r, -alpha, s.product(step));
    rho_before = rho;
  }
}

// van der Vorst (1992). Blocks once for each of an iteration's two products.
template <class V>
typename V::Solution bicgstab(const typename V::Operator& a, const typename V::Vector& b,
                              const typename V::Options& options) {
  using Vector = typename V::Vector;
  System<V> s(a, b, options, 10);
  if (s.is_trivial()) return s.done(0);
  Vector r = s.residual(), shadow = V::copy_of(r), p, v, rho_before, alpha, omega;
  const double least = epsilon(s.b.dtype()) * epsilon(s.b.dtype());
  for (int64_t k = 0;; ++k) {
    Vector squared = V::inner(r, r), rho = V::inner(shadow, r);
    const std::vector<Complex> known =
        k == 0 ? V::compute({&squared, &rho}, {&s.x, &r, &shadow}) : V::compute({&squared, &rho, &omega}, {&s.x, &r});
    s.norm = root(known[0]);
    if (k > 0) s.call();
    if (s.is_solved() || k >= s.maxiter) return s.end();
    if (!(std::abs(known[1]) >= least)) return s.done(-10);
    if (k == 0) {
      p = V::copy_of(r);
    } else {
      if (!(std::abs(known[2]) >= least)) return s.done(-11);
      V::add_scaled(p, -omega, v);
      V::scale_add(p, (rho / rho_before) * (alpha / omega), r);
    }
    Vector direction = s.preconditioned(p);
    v = s.product(direction);
    Vector sigma = V::inner(shadow, v);
    alpha = rho / sigma;
    V::add_scaled(r, -alpha, v);
    squared = V::inner(r, r);
    const std::vector<Complex> middle = V::compute({&sigma, &squared}, {&r, &p, &v, &direction});
    if (!(std::abs(middle[0]) > 0)) return s.done(-11);
    alpha = rho / sigma;
    V::add_scaled(s.x, alpha, direction);
    s.norm = root(middle[1]);
    if (s.is_solved()) {
      s.call();
      return s.done(0);
    }
    const Vector step = s.preconditioned(r), t = s.product(step);
    omega = V::inner(t, r) / V::inner(t, t);
    V::add_scaled(s.x, omega, step);
    V::add_scaled(r, -omega, t);
    rho_before = rho;
  }
}

// A Hessenberg matrix made triangular by Givens rotations, column by column, with its right side.
class Rotations {
 public:
  Rotations(int64_t columns, double norm) : right_(static_cast<size_t>(columns) + 1) { right_[0] = norm; }
  // The column's elements, the last one below the diagonal. Returns the norm of the remaining residual.
  double append(std::vector<Complex> column) {
    const size_t k = columns_.size();
    for (size_t i = 0; i < k; ++i) {
      const Complex above = column[i];
      column[i] = c_[i] * above + s_[i] * column[i + 1];
      column[i + 1] = -std::conj(s_[i]) * above + c_[i] * column[i + 1];
    }
    const double length = std::hypot(std::abs(column[k]), std::abs(column[k + 1]));
    const double c = length == 0 ? 1 : std::abs(column[k]) / length;
    const Complex phase = std::abs(column[k]) == 0 ? Complex(1) : column[k] / std::abs(column[k]);
    const Complex s = length == 0 ? Complex(0) : phase * std::conj(column[k + 1]) / length;
    c_.push_back(c);
    s_.push_back(s);
    column[k] = c * column[k] + s * column[k + 1];
    column.pop_back();
    columns_.push_back(column);
    right_[k + 1] = -std::conj(s) * right_[k];
    right_[k] = c * right_[k];
    return std::abs(right_[k + 1]);
  }
  // The coefficients that make the residual least.
  std::vector<Complex> solve() const {
    const size_t n = columns_.size();
    std::vector<Complex> y(right_.begin(), right_.begin() + static_cast<std::ptrdiff_t>(n));
    for (size_t j = n; j-- > 0;) {
      y[j] = columns_[j][j] == Complex(0) ? Complex(0) : y[j] / columns_[j][j];
      for (size_t i = 0; i < j; ++i) y[i] -= columns_[j][i] * y[j];
    }
    return y;
  }

 private:
  std::vector<std::vector<Complex>> columns_;
  std::vector<double> c_;
  std::vector<Complex> s_, right_;
};

// Saad and Schultz (1986), preconditioned from the right; Gram and Schmidt's projections all at once and twice. Blocks
// once an iteration.
template <class V>
typename V::Solution gmres(const typename V::Operator& a, const typename V::Vector& b,
                           const typename V::Options& options, int64_t restart, std::string_view callback_type) {
  using Vector = typename V::Vector;
  if (callback_type != "pr_norm" && callback_type != "x" && callback_type != "legacy")
    throw InvalidArgument(fmt::format("callback_type: '{}' is none of 'x', 'pr_norm', 'legacy'", callback_type));
  if (restart < 1) throw InvalidArgument(fmt::format("restart: {} is not positive", restart));
  System<V> s(a, b, options, 10);
  if (s.is_trivial()) return s.done(0);
  const int64_t m = std::min(restart, s.n);
  typename V::Basis basis(m + 1, s.b);
  Vector r = s.residual();
  const auto measure = [&] {
    Vector squared = V::inner(r, r);
    s.norm = root(V::compute({&squared}, {&s.x, &r})[0]);
  };
  measure();
  for (int64_t cycle = 0; cycle < s.maxiter; ++cycle) {
    if (s.is_solved()) return s.done(0);
    if (!std::isfinite(s.norm)) return s.done(-1);
    basis.set(0, V::scaled(r, 1 / s.norm));
    Rotations rotations(m, s.norm);
    int64_t used = 0;
    double estimate = s.norm;
    for (int64_t k = 0; k < m; ++k) {
      const std::vector<Complex> column = basis.append(k + 1, s.product(s.preconditioned(basis.vector(k))));
      estimate = rotations.append(column);
      used = k + 1;
      if (options.callback && callback_type != "x") options.callback(V::number(estimate / s.b_norm));
      if (!(estimate > s.tolerance) || column.back() == Complex(0)) break;
    }
    s.x = s.x + s.preconditioned(basis.combined(rotations.solve()));
    if (callback_type == "x") s.call();
    r = s.b - s.product(s.x);
    measure();
    // An exhausted space that did not get there never will.
    if (!s.is_solved() && used < m && estimate > s.tolerance) return s.done(cycle + 1);
  }
  return s.end();
}

// Paige and Saunders (1975). Blocks once an iteration.
template <class V>
typename V::Solution minres(const typename V::Operator& a, const typename V::Vector& b,
                            const typename V::Options& options, double shift) {
  using Vector = typename V::Vector;
  System<V> s(a, b, options, 5);
  if (s.is_trivial()) return s.done(0);
  const auto residual = [&](Vector r) {
    if (shift != 0) V::add_scaled(r, Complex(shift), s.x);
    return r;
  };
  Vector r1 = options.x0 ? residual(s.residual()) : s.residual();
  Vector y = s.preconditioned(r1), start = V::inner(r1, y), squared = V::inner(r1, r1);
  const std::vector<Complex> known = V::compute({&start, &squared}, {&s.x, &r1, &y});
  s.norm = root(known[1]);
  if (known[0].real() < 0) throw InvalidArgument("M: the preconditioner is not positive definite");
  if (known[0].real() == 0) return s.done(0);
  const double beta1 = std::sqrt(known[0].real());
  Vector r2 = r1, w = V::zeros_like(s.b), w2 = V::zeros_like(s.b);
  double old_beta = 0, beta = beta1, d_bar = 0, epsilon_next = 0, phi_bar = beta1, cs = -1, sn = 0;
  // phi_bar is the residual in the norm of M: it must fall as far as the residual has to.
  const double first = s.norm, enough = beta1 * s.tolerance / first;
  for (int64_t k = 1; k <= s.maxiter; ++k) {
    Vector v = V::scaled(y, 1 / beta);
    y = s.product(v);
    if (shift != 0) V::add_scaled(y, Complex(-shift), v);
    if (k >= 2) V::add_scaled(y, Complex(-beta / old_beta), r1);
    Vector alpha = V::real_part(V::inner(v, y));
    V::add_scaled(y, V::scaled(alpha, -1 / beta), r2);
    r1 = r2;
    r2 = y;
    y = s.preconditioned(r2);
    Vector length = V::inner(r2, y);
    const std::vector<Complex> values = V::compute({&alpha, &length}, {&s.x, &v, &r1, &r2, &y, &w, &w2});
    old_beta = beta;
    const double next = values[1].real();
    if (next < 0) throw InvalidArgument("M: the preconditioner is not positive definite");
    beta = std::sqrt(next);
    const double old_epsilon = epsilon_next, delta = cs * d_bar + sn * values[0].real();
    const double g_bar = sn * d_bar - cs * values[0].real();
    epsilon_next = sn * beta;
    d_bar = -cs * beta;
    const double gamma = std::max(std::hypot(g_bar, beta), std::numeric_limits<double>::epsilon());
    cs = g_bar / gamma;
    sn = beta / gamma;
    const double phi = cs * phi_bar;
    phi_bar = sn * phi_bar;
    s.norm = first * (phi_bar / beta1);
    const Vector w1 = w2;
    w2 = w;
    w = V::copy_of(v);
    V::add_scaled(w, Complex(-old_epsilon), w1);
    V::add_scaled(w, Complex(-delta), w2);
    w = V::scaled(w, 1 / gamma);
    V::add_scaled(s.x, Complex(phi), w);
    s.call();
    if (!std::isfinite(phi_bar)) return s.done(-1);
    // phi_bar follows the residual up to rounding: what it says is checked.
    if (phi_bar <= enough || beta == 0) {
      const Vector r = residual(s.b - s.product(s.x));
      squared = V::inner(r, r);
      s.norm = root(V::compute({&squared}, {&s.x, &w, &w2})[0]);
      if (s.is_solved()) return s.done(0);
      if (phi_bar <= epsilon(s.b.dtype()) * beta1 || beta == 0) return s.done(k);
    }
  }
  return s.done(s.maxiter);
}

}  // namespace quarry::local::sparse::krylov
