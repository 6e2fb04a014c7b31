// LSQR (Paige and Saunders 1982) and LSMR (Fong and Saunders 2011): Golub and Kahan's bidiagonalisation, whose vectors
// stay on the device, with the recurrences of a few numbers on the host.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "quarry/local/sparse/solvers.h"
#include "quarry/local/sparse/vectors.h"

namespace quarry::local::sparse::linalg {
namespace {

// The stopping rules that lsqr and lsmr share (Paige, Saunders 1982): SciPy's istop, or 0 to go on.
struct StopTests {
  double residual, least_squares, condition;
};
struct StopTolerances {
  double a, b, condition;
};
struct StopNorms {
  double a, x, b;
};
int64_t stop_reason(const StopTests& tests, const StopTolerances& tolerances, const StopNorms& norms, bool last) {
  const double relative = tests.residual / (1 + norms.a * norms.x / norms.b);
  const double residual = tolerances.b + tolerances.a * norms.a * norms.x / norms.b;
  if (tests.residual <= residual) return 1;
  if (tests.least_squares <= tolerances.a) return 2;
  if (tests.condition <= tolerances.condition) return 3;
  if (1 + relative <= 1) return 4;
  if (1 + tests.least_squares <= 1) return 5;
  if (1 + tests.condition <= 1) return 6;
  return last ? 7 : 0;
}

// A rotation of (a, b) to (r, 0).
struct Rotation {
  double c, s, r;
};
Rotation rotate(double a, double b) {
  const double r = std::hypot(a, b);
  if (r == 0) return {1, 0, 0};
  return {a / r, b / r, r};
}

// a v = beta u, a^H u = alpha v, step by step.
class Bidiagonal {
 public:
  Bidiagonal(const LinearOperator& a, const NdArray& b, const std::optional<NdArray>& x0) : a_(a) {
    const Dims& shape = a.shape();
    if (b.size() != shape[0] || b.ndim() > 2 || (b.ndim() == 2 && b.shape()[1] != 1))
      throw InvalidArgument(
          fmt::format("b: shape {} does not fit a of shape {}", local::to_string(b.shape()), local::to_string(shape)));
    if (x0 && x0->size() != shape[1])
      throw InvalidArgument(fmt::format("x0: shape {} does not fit a of shape {}", local::to_string(x0->shape()),
                                        local::to_string(shape)));
    const ExecContext context = context_for(b.device());
    DType dtype = promote_types(a.dtype(), b.dtype());
    if (x0) dtype = promote_types(dtype, x0->dtype());
    if (!is_float(dtype) && !is_complex(dtype)) dtype = DType::float64;
    dtype_ = dtype;
    u = b.reshape({-1}).astype(dtype, context);
    x = NdArray({shape[1]}, dtype, context);
    if (x0) {
      x = x0->reshape({-1}).astype(dtype, context);
      u = u - own(a.matvec(x));
    } else {
      x.fill(0, context);
    }
    beta = norm2(u);
    if (beta > 0) {
      u = scaled(u, 1 / beta);
      v = own(a.rmatvec(u));
      alpha = norm2(v);
    } else {
      v = zeros_like(x);
    }
    if (alpha > 0) v = scaled(v, 1 / alpha);
  }

  void advance() {
    NdArray next = own(a_.matvec(v));
    add_scaled(next, Complex(-alpha), u);
    beta = norm2(next);
    u = beta > 0 ? scaled(next, 1 / beta) : next;
    if (beta == 0) return;
    next = own(a_.rmatvec(u));
    add_scaled(next, Complex(-beta), v);
    alpha = norm2(next);
    v = alpha > 0 ? scaled(next, 1 / alpha) : next;
  }

  NdArray u, v, x;
  double alpha = 0, beta = 0;

 private:
  NdArray own(const NdArray& result) const {
    return result.dtype() == dtype_ ? result : result.astype(dtype_, context_for(result.device()));
  }
  const LinearOperator& a_;
  DType dtype_ = DType::float64;
};

}  // namespace

LsqrResult lsqr(const LinearOperator& a, const NdArray& b, double damp, double atol, double btol, double conlim,
                std::optional<int64_t> iter_lim, bool calc_var, const std::optional<NdArray>& x0) {
  Bidiagonal g(a, b, x0);
  LsqrResult result;
  result.var = zeros_like(g.x.real());
  const int64_t limit = iter_lim.value_or(2 * a.shape()[1]);
  const double eps = std::numeric_limits<double>::epsilon(), damp2 = damp * damp, ctol = conlim > 0 ? 1 / conlim : 0;
  const double b_norm = norm2(b.reshape({-1}));
  NdArray w = copy_of(g.v);
  double rho_bar = g.alpha, phi_bar = g.beta, rest2 = 0, dd_norm = 0, xx_norm = 0, z = 0, cs2 = -1, sn2 = 0;
  result.r1norm = result.r2norm = g.beta;
  result.arnorm = g.alpha * g.beta;
  const auto finish = [&] {
    result.x = g.x;
    return result;
  };
  if (result.arnorm == 0) return finish();
  while (result.itn < limit) {
    ++result.itn;
    const double old_alpha = g.alpha;
    g.advance();
    result.anorm = std::sqrt(result.anorm * result.anorm + old_alpha * old_alpha + g.beta * g.beta + damp2);
    // The damping is eliminated, then the subdiagonal.
    double psi = 0, rho_damped = rho_bar;
    if (damp > 0) {
      const Rotation first = rotate(rho_bar, damp);
      rho_damped = first.r;
      psi = first.s * phi_bar;
      phi_bar = first.c * phi_bar;
    }
    const Rotation turn = rotate(rho_damped, g.beta);
    const double rho = turn.r, theta = turn.s * g.alpha, phi = turn.c * phi_bar, tau = turn.s * phi;
    rho_bar = -turn.c * g.alpha;
    phi_bar = turn.s * phi_bar;
    const NdArray direction = scaled(w, 1 / rho);
    const double length = norm2(direction);
    dd_norm += length * length;
    if (calc_var) result.var = result.var + apply("square"_op, {apply("absolute"_op, {direction})});
    add_scaled(g.x, Complex(phi / rho), w);
    scale_add(w, Arg(factor_for(w, Complex(-theta / rho))), g.v);
    // Estimates of ||x||, cond(a) and of the residuals.
    const double delta = sn2 * rho, gamma_bar = -cs2 * rho, rhs = phi - delta * z, z_bar = rhs / gamma_bar;
    result.xnorm = std::sqrt(xx_norm + z_bar * z_bar);
    const double gamma = std::hypot(gamma_bar, theta);
    cs2 = gamma_bar / gamma;
    sn2 = theta / gamma;
    z = rhs / gamma;
    xx_norm += z * z;
    result.acond = result.anorm * std::sqrt(dd_norm);
    rest2 += psi * psi;
    result.r2norm = std::sqrt(phi_bar * phi_bar + rest2);
    result.arnorm = g.alpha * std::abs(tau);
    const double r1_squared = result.r2norm * result.r2norm - damp2 * xx_norm;
    result.r1norm = std::copysign(std::sqrt(std::abs(r1_squared)), r1_squared);
    const double test1 = result.r2norm / b_norm, test2 = result.arnorm / (result.anorm * result.r2norm + eps);
    const double test3 = 1 / (result.acond + eps);
    result.istop = stop_reason({test1, test2, test3}, {atol, btol, ctol}, {result.anorm, result.xnorm, b_norm},
                               result.itn >= limit);
    if (result.istop != 0) break;
  }
  return finish();
}

LsmrResult lsmr(const LinearOperator& a, const NdArray& b, double damp, double atol, double btol, double conlim,
                std::optional<int64_t> maxiter, const std::optional<NdArray>& x0) {
  Bidiagonal g(a, b, x0);
  LsmrResult result;
  const int64_t limit = maxiter.value_or(std::min(a.shape()[0], a.shape()[1]));
  const double b_norm = norm2(b.reshape({-1})), ctol = conlim > 0 ? 1 / conlim : 0;
  double zeta_bar = g.alpha * g.beta, alpha_bar = g.alpha, rho = 1, rho_bar = 1, c_bar = 1, s_bar = 0;
  NdArray h = copy_of(g.v), h_bar = zeros_like(g.x);
  // For the estimates of ||r||, ||a|| and cond(a).
  double beta_dd = g.beta, beta_d = 0, rho_d_old = 1, tau_tilde_old = 0, theta_tilde = 0, zeta = 0, d = 0;
  double norm_a2 = g.alpha * g.alpha, max_rho_bar = 0, min_rho_bar = std::numeric_limits<double>::max();
  result.normr = g.beta;
  result.normar = g.alpha * g.beta;
  result.norma = g.alpha;
  result.conda = 1;
  const auto finish = [&] {
    result.x = g.x;
    return result;
  };
  if (result.normar == 0) return finish();
  if (b_norm == 0) {
    g.x = zeros_like(g.x);
    return finish();
  }
  while (result.itn < limit) {
    ++result.itn;
    g.advance();
    const Rotation damped = rotate(alpha_bar, damp);
    const double rho_old = rho, zeta_old = zeta;
    const Rotation turn = rotate(damped.r, g.beta);
    rho = turn.r;
    const double theta_new = turn.s * g.alpha;
    alpha_bar = turn.c * g.alpha;
    const double rho_bar_old = rho_bar, theta_bar = s_bar * rho, rho_temp = c_bar * rho;
    const Rotation bar = rotate(c_bar * rho, theta_new);
    c_bar = bar.c;
    s_bar = bar.s;
    rho_bar = bar.r;
    zeta = c_bar * zeta_bar;
    zeta_bar = -s_bar * zeta_bar;
    scale_add(h_bar, Arg(factor_for(h, Complex(-theta_bar * rho / (rho_old * rho_bar_old)))), h);
    add_scaled(g.x, Complex(zeta / (rho * rho_bar)), h_bar);
    scale_add(h, Arg(factor_for(h, Complex(-theta_new / rho))), g.v);
    // ||r||.
    const double beta_acute = damped.c * beta_dd, beta_check = -damped.s * beta_dd;
    const double beta_hat = turn.c * beta_acute;
    beta_dd = -turn.s * beta_acute;
    const Rotation tilde = rotate(rho_d_old, theta_bar);
    const double theta_tilde_old = theta_tilde;
    theta_tilde = tilde.s * rho_bar;
    rho_d_old = tilde.c * rho_bar;
    beta_d = -tilde.s * beta_d + tilde.c * beta_hat;
    tau_tilde_old = (zeta_old - theta_tilde_old * tau_tilde_old) / tilde.r;
    const double tau_d = (zeta - theta_tilde * tau_tilde_old) / rho_d_old;
    d += beta_check * beta_check;
    result.normr = std::sqrt(d + (beta_d - tau_d) * (beta_d - tau_d) + beta_dd * beta_dd);
    // ||a|| and cond(a).
    norm_a2 += g.beta * g.beta;
    result.norma = std::sqrt(norm_a2);
    norm_a2 += g.alpha * g.alpha;
    max_rho_bar = std::max(max_rho_bar, rho_bar_old);
    if (result.itn > 1) min_rho_bar = std::min(min_rho_bar, rho_bar_old);
    result.conda = std::max(max_rho_bar, rho_temp) / std::min(min_rho_bar, rho_temp);
    result.normar = std::abs(zeta_bar);
    result.normx = norm2(g.x);
    const double test1 = result.normr / b_norm;
    const double test2 = result.norma * result.normr != 0 ? result.normar / (result.norma * result.normr)
                                                          : std::numeric_limits<double>::infinity();
    const double test3 = 1 / result.conda;
    result.istop = stop_reason({test1, test2, test3}, {atol, btol, ctol}, {result.norma, result.normx, b_norm},
                               result.itn >= limit);
    if (result.istop != 0) break;
  }
  return finish();
}

}  // namespace quarry::local::sparse::linalg
