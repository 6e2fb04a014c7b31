// Krylov methods. Vectors stay on the device and are updated in place; numbers that only scale vectors stay there too.
#include "quarry/local/sparse/solvers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/sparse/vectors.h"

namespace quarry::local::sparse::linalg {
namespace {

DType working_dtype(std::initializer_list<DType> dtypes) {
  DType dtype = DType::float32;
  bool wide = false;
  for (const DType one : dtypes) {
    wide = wide || !(one == DType::float32 || one == DType::complex64);
    if (is_complex(one) || is_float(one)) dtype = promote_types(dtype, one);
  }
  return wide ? promote_types(dtype, DType::float64) : dtype;
}

// What every method starts from.
struct System {
  const LinearOperator& a;
  const SolveOptions& options;
  NdArray b, x;
  Dims shape;  // of the solution
  int64_t n, maxiter;
  double tolerance, b_norm;

  System(const LinearOperator& op, const NdArray& right, const SolveOptions& given, int64_t iterations_per_unknown)
      : a(op), options(given), n(op.shape()[0]) {
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
    shape = right.shape();
    const DType dtype = working_dtype({op.dtype(), right.dtype(), given.x0 ? given.x0->dtype() : right.dtype(),
                                       given.M ? given.M->dtype() : right.dtype()});
    const ExecContext context = context_for(right.device());
    b = right.reshape({-1}).astype(dtype, context);
    x = given.x0 ? given.x0->reshape({-1}).astype(dtype, context) : zeros_like(b);
    maxiter = given.maxiter.value_or(iterations_per_unknown * n);
    b_norm = norm2(b);
    tolerance = std::max(given.atol, given.rtol * b_norm);
  }

  // Of the working dtype, and a new array.
  NdArray product(const NdArray& v) const { return own(a.matvec(v), v); }
  NdArray preconditioned(const NdArray& v) const { return options.M ? own(options.M->matvec(v), v) : v; }
  NdArray residual() const { return options.x0 ? b - product(x) : copy_of(b); }
  Solution done(int64_t info) const { return {x.reshape(shape), info}; }
  void call() const {
    if (options.callback) options.callback(x.reshape(shape));
  }
  // b = 0: so is x.
  bool trivial() {
    if (b_norm != 0) return false;
    x = zeros_like(b);
    return true;
  }

 private:
  NdArray own(const NdArray& result, const NdArray& v) const {
    const bool shared = may_overlap(result, v);
    if (result.dtype() == b.dtype() && !shared) return result;
    return result.astype(b.dtype(), context_for(b.device()));
  }
};

double epsilon(DType dtype) {
  return real_type(dtype) == DType::float32 ? std::numeric_limits<float>::epsilon()
                                            : std::numeric_limits<double>::epsilon();
}

}  // namespace

// Hestenes and Stiefel (1952).
Solution cg(const LinearOperator& a, const NdArray& b, const SolveOptions& options) {
  System s(a, b, options, 10);
  if (s.trivial()) return s.done(0);
  NdArray r = s.residual(), p, rho_before;
  for (int64_t k = 0; k < s.maxiter; ++k) {
    const NdArray z = s.preconditioned(r);
    const NdArray rho = inner(r, z);
    // Without a preconditioner the norm is known from rho.
    const double norm = options.M ? norm2(r) : std::sqrt(std::abs(rho.item().as_complex()));
    if (norm <= s.tolerance) return s.done(0);
    if (!std::isfinite(norm)) return s.done(-1);
    if (k == 0)
      p = copy_of(z);
    else
      scale_add(p, rho / rho_before, z);
    const NdArray q = s.product(p);
    const NdArray alpha = rho / inner(p, q);
    add_scaled(s.x, alpha, p);
    add_scaled(r, -alpha, q);
    rho_before = rho;
    s.call();
  }
  return s.done(norm2(r) <= s.tolerance ? 0 : s.maxiter);
}

// Sonneveld (1989).
Solution cgs(const LinearOperator& a, const NdArray& b, const SolveOptions& options) {
  System s(a, b, options, 10);
  if (s.trivial()) return s.done(0);
  NdArray r = s.residual(), p, u, q;
  const NdArray shadow = copy_of(r);
  NdArray rho_before;
  const double least = epsilon(s.b.dtype()) * epsilon(s.b.dtype());
  for (int64_t k = 0; k < s.maxiter; ++k) {
    if (norm2(r) <= s.tolerance) return s.done(0);
    const NdArray rho = inner(shadow, r);
    if (!(std::abs(rho.item().as_complex()) >= least)) return s.done(-10);
    if (k == 0) {
      u = copy_of(r);
      p = copy_of(r);
    } else {
      const NdArray beta = rho / rho_before;
      u = copy_of(r);
      add_scaled(u, beta, q);
      scale_add(p, beta, q);  // p = u + beta (q + beta p)
      scale_add(p, beta, u);
    }
    const NdArray direction = s.preconditioned(p), v = s.product(direction);
    const NdArray sigma = inner(shadow, v);
    if (!(std::abs(sigma.item().as_complex()) > 0)) return s.done(-11);
    const NdArray alpha = rho / sigma;
    q = copy_of(u);
    add_scaled(q, -alpha, v);
    const NdArray step = s.preconditioned(u + q);
    add_scaled(s.x, alpha, step);
    add_scaled(r, -alpha, s.product(step));
    rho_before = rho;
    s.call();
  }
  return s.done(norm2(r) <= s.tolerance ? 0 : s.maxiter);
}

// van der Vorst (1992).
Solution bicgstab(const LinearOperator& a, const NdArray& b, const SolveOptions& options) {
  System s(a, b, options, 10);
  if (s.trivial()) return s.done(0);
  NdArray r = s.residual(), p, v, rho_before, alpha, omega;
  const NdArray shadow = copy_of(r);
  const double least = epsilon(s.b.dtype()) * epsilon(s.b.dtype());
  for (int64_t k = 0; k < s.maxiter; ++k) {
    if (norm2(r) <= s.tolerance) return s.done(0);
    const NdArray rho = inner(shadow, r);
    if (!(std::abs(rho.item().as_complex()) >= least)) return s.done(-10);
    if (k == 0) {
      p = copy_of(r);
    } else {
      if (!(std::abs(omega.item().as_complex()) >= least)) return s.done(-11);
      add_scaled(p, -omega, v);
      scale_add(p, (rho / rho_before) * (alpha / omega), r);
    }
    const NdArray direction = s.preconditioned(p);
    v = s.product(direction);
    const NdArray sigma = inner(shadow, v);
    if (!(std::abs(sigma.item().as_complex()) > 0)) return s.done(-11);
    alpha = rho / sigma;
    add_scaled(r, -alpha, v);
    add_scaled(s.x, alpha, direction);
    if (norm2(r) <= s.tolerance) {
      s.call();
      return s.done(0);
    }
    const NdArray step = s.preconditioned(r), t = s.product(step);
    omega = inner(t, r) / inner(t, t);
    add_scaled(s.x, omega, step);
    add_scaled(r, -omega, t);
    rho_before = rho;
    s.call();
  }
  return s.done(norm2(r) <= s.tolerance ? 0 : s.maxiter);
}

// ---- GMRES (Saad and Schultz 1986), preconditioned from the right ----

namespace {

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

NdArray coefficients(const std::vector<Complex>& values, const NdArray& like) {
  const NdArray host = from_vector(values).to(like.device());
  return is_complex(like.dtype()) ? host.astype(like.dtype(), context_for(like.device()))
                                  : host.real().astype(like.dtype(), context_for(like.device()));
}

}  // namespace

Solution gmres(const LinearOperator& a, const NdArray& b, const SolveOptions& options, int64_t restart,
               std::string_view callback_type) {
  if (callback_type != "pr_norm" && callback_type != "x" && callback_type != "legacy")
    throw InvalidArgument(fmt::format("callback_type: '{}' is none of 'x', 'pr_norm', 'legacy'", callback_type));
  if (restart < 1) throw InvalidArgument(fmt::format("restart: {} is not positive", restart));
  System s(a, b, options, 10);
  if (s.trivial()) return s.done(0);
  const int64_t m = std::min(restart, s.n);
  const ExecContext context = context_for(s.b.device());
  const NdArray basis({m + 1, s.n}, s.b.dtype(), context);  // orthonormal, in rows
  NdArray r = s.residual();
  double norm = norm2(r);
  for (int64_t cycle = 0; cycle < s.maxiter; ++cycle) {
    if (norm <= s.tolerance) return s.done(0);
    if (!std::isfinite(norm)) return s.done(-1);
    basis[{0}].assign(scaled(r, 1 / norm), context);
    Rotations rotations(m, norm);
    int64_t used = 0;
    for (int64_t k = 0; k < m; ++k) {
      NdArray w = s.product(s.preconditioned(copy_of(basis[{k}])));
      // Gram and Schmidt's projections, all at once and twice.
      const NdArray so_far = basis[{Slice{0, k + 1, std::nullopt}}];
      NdArray h;
      for (int pass = 0; pass < 2; ++pass) {
        const NdArray part = matmul(conjugate(so_far), w);
        w = w - matmul(part, so_far);
        h = pass == 0 ? part : h + part;
      }
      const double length = norm2(w);
      std::vector<Complex> column = to_vector<Complex>(h.astype(DType::complex128, context));
      column.emplace_back(length);
      norm = rotations.append(column);
      used = k + 1;
      if (options.callback && callback_type != "x")
        options.callback(from_vector<double>({norm / s.b_norm}).reshape({}));
      if (norm <= s.tolerance || length == 0) break;
      basis[{k + 1}].assign(scaled(w, 1 / length), context);
    }
    const NdArray step = matmul(coefficients(rotations.solve(), s.b), basis[{Slice{0, used, std::nullopt}}]);
    s.x = s.x + s.preconditioned(step);
    if (callback_type == "x") s.call();
    r = s.b - s.product(s.x);
    const double before = norm;
    norm = norm2(r);
    // An exhausted space that did not get there never will.
    if (norm > s.tolerance && used < m && before > s.tolerance) return s.done(cycle + 1);
  }
  return s.done(norm <= s.tolerance ? 0 : s.maxiter);
}

// Paige and Saunders (1975).
Solution minres(const LinearOperator& a, const NdArray& b, const SolveOptions& options, double shift) {
  System s(a, b, options, 5);
  if (s.trivial()) return s.done(0);
  NdArray r1 = s.residual();
  if (options.x0 && shift != 0) add_scaled(r1, Complex(shift), s.x);
  NdArray y = s.preconditioned(r1);
  const double squared = inner_value(r1, y).real();
  if (squared < 0) throw InvalidArgument("M: the preconditioner is not positive definite");
  if (squared == 0) return s.done(0);
  const double beta1 = std::sqrt(squared);
  NdArray r2 = r1, w = zeros_like(s.b), w2 = zeros_like(s.b);
  double old_beta = 0, beta = beta1, d_bar = 0, epsilon_next = 0, phi_bar = beta1, cs = -1, sn = 0;
  // phi_bar is the residual in the norm of M: it must fall as far as the residual has to.
  const double enough = beta1 * s.tolerance / norm2(r1);
  for (int64_t k = 1; k <= s.maxiter; ++k) {
    const NdArray v = scaled(y, 1 / beta);
    y = s.product(v);
    if (shift != 0) add_scaled(y, Complex(-shift), v);
    if (k >= 2) add_scaled(y, Complex(-beta / old_beta), r1);
    const double alpha = inner_value(v, y).real();
    add_scaled(y, Complex(-alpha / beta), r2);
    r1 = r2;
    r2 = y;
    y = s.preconditioned(r2);
    old_beta = beta;
    const double next = inner_value(r2, y).real();
    if (next < 0) throw InvalidArgument("M: the preconditioner is not positive definite");
    beta = std::sqrt(next);
    const double old_epsilon = epsilon_next, delta = cs * d_bar + sn * alpha;
    const double g_bar = sn * d_bar - cs * alpha;
    epsilon_next = sn * beta;
    d_bar = -cs * beta;
    const double gamma = std::max(std::hypot(g_bar, beta), std::numeric_limits<double>::epsilon());
    cs = g_bar / gamma;
    sn = beta / gamma;
    const double phi = cs * phi_bar;
    phi_bar = sn * phi_bar;
    const NdArray w1 = w2;
    w2 = w;
    w = copy_of(v);
    add_scaled(w, Complex(-old_epsilon), w1);
    add_scaled(w, Complex(-delta), w2);
    w = scaled(w, 1 / gamma);
    add_scaled(s.x, Complex(phi), w);
    s.call();
    if (!std::isfinite(phi_bar)) return s.done(-1);
    // phi_bar follows the residual up to rounding: what it says is checked.
    if (phi_bar <= enough || beta == 0) {
      NdArray r = s.b - s.product(s.x);
      if (shift != 0) add_scaled(r, Complex(shift), s.x);
      if (norm2(r) <= s.tolerance) return s.done(0);
      if (phi_bar <= epsilon(s.b.dtype()) * beta1 || beta == 0) return s.done(k);
    }
  }
  return s.done(s.maxiter);
}

}  // namespace quarry::local::sparse::linalg
