// LSQR (Paige and Saunders 1982) and LSMR (Fong and Saunders 2011), for the vectors that krylov.h is for: Golub and
// Kahan's bidiagonalisation, with the recurrences of a few numbers on the host. Private.
#pragma once

#include <optional>

#include "quarry/local/sparse/krylov.h"

namespace quarry::local::sparse::krylov {

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
inline int64_t stop_reason(const StopTests& tests, const StopTolerances& tolerances, const StopNorms& norms,
                           bool last) {
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
inline Rotation rotate(double a, double b) {
  const double r = std::hypot(a, b);
  if (r == 0) return {1, 0, 0};
  return {a / r, b / r, r};
}

// a v = beta u, a^H u = alpha v, step by step.
template <class V>
class Bidiagonal {
 public:
  using Vector = typename V::Vector;
  using Operator = typename V::Operator;

  Vector u, v, x;
  double alpha = 0, beta = 0, b_norm = 0;

  Bidiagonal(const Operator& a, const Vector& b, const std::optional<Vector>& x0) : a_(a) {
    const Dims& shape = a.shape();
    if (b.size() != shape[0] || b.ndim() > 2 || (b.ndim() == 2 && b.shape()[1] != 1))
      throw InvalidArgument(
          fmt::format("b: shape {} does not fit a of shape {}", local::to_string(b.shape()), local::to_string(shape)));
    if (x0 && x0->size() != shape[1])
      throw InvalidArgument(fmt::format("x0: shape {} does not fit a of shape {}", local::to_string(x0->shape()),
                                        local::to_string(shape)));
    DType dtype = promote_types(a.dtype(), b.dtype());
    if (x0) dtype = promote_types(dtype, x0->dtype());
    if (!is_float(dtype) && !is_complex(dtype)) dtype = DType::float64;
    u = V::left_vector(a, b, dtype);
    Vector of_b = V::inner(u, u);
    x = V::right_vector(a, x0, u);
    if (x0) u = u - V::own(a.matvec(x), u);
    Vector of_u = V::inner(u, u);
    const std::vector<Complex> norms = V::compute({&of_b, &of_u}, {&u, &x});
    b_norm = root(norms[0]);
    beta = root(norms[1]);
    check(beta);
    v = V::zeros_like(x);
    if (beta == 0) return;
    u = V::scaled(u, 1 / beta);
    v = V::own(a.rmatvec(u), x);
    Vector of_v = V::inner(v, v);
    alpha = root(V::compute({&of_v}, {&u, &v})[0]);
    check(alpha);
    if (alpha > 0) v = V::scaled(v, 1 / alpha);
  }

  // The next u, v, beta and alpha; returns the value of a number, and computes vectors that are used again. Blocks
  // once.
  Complex advance(Vector number, std::initializer_list<Vector*> live) {
    Vector next_u = V::own(a_.matvec(v), u);
    V::add_scaled(next_u, Complex(-alpha), u);
    Vector of_u = V::inner(next_u, next_u);
    const Vector length = V::square_root(of_u);
    // Where the length is 0, what it divides is not used.
    next_u = next_u / length;
    Vector next_v = V::own(a_.rmatvec(next_u), v);
    V::add_scaled(next_v, -length, v);
    Vector of_v = V::inner(next_v, next_v);
    next_v = next_v / V::square_root(of_v);
    std::vector<Vector*> vectors{&next_u, &next_v, &v};
    vectors.insert(vectors.end(), live.begin(), live.end());
    const std::vector<Complex> values = V::compute({&of_u, &of_v, &number}, vectors);
    beta = root(values[0]);
    check(beta);
    if (beta == 0) {
      u = V::zeros_like(u);
      return values[2];
    }
    u = next_u;
    alpha = root(values[1]);
    check(alpha);
    v = alpha > 0 ? next_v : V::zeros_like(v);
    return values[2];
  }

 private:
  static void check(double norm) {
    if (!std::isfinite(norm)) throw InvalidArgument("a, b or x0: NaN or infinity, or numbers that overflow");
  }
  const Operator& a_;
};

template <class V>
typename V::LsqrResult lsqr(const typename V::Operator& a, const typename V::Vector& b, double damp, double atol,
                            double btol, double conlim, std::optional<int64_t> iter_lim, bool calc_var,
                            const std::optional<typename V::Vector>& x0) {
  using Vector = typename V::Vector;
  Bidiagonal<V> g(a, b, x0);
  typename V::LsqrResult result;
  result.var = V::real_zeros_like(g.x);
  const int64_t limit = iter_lim.value_or(2 * a.shape()[1]);
  const double eps = std::numeric_limits<double>::epsilon(), damp2 = damp * damp, ctol = conlim > 0 ? 1 / conlim : 0;
  const double b_norm = g.b_norm;
  Vector w = V::copy_of(g.v);
  double rho_bar = g.alpha, phi_bar = g.beta, rest2 = 0, dd_norm = 0, xx_norm = 0, z = 0, cs2 = -1, sn2 = 0;
  result.r1norm = result.r2norm = g.beta;
  result.arnorm = g.alpha * g.beta;
  const auto finish = [&] {
    V::compute({}, {&g.x, &result.var});
    result.x = g.x;
    return result;
  };
  if (result.arnorm == 0) return finish();
  while (result.itn < limit) {
    ++result.itn;
    const double old_alpha = g.alpha;
    const double w_norm =
        root(calc_var ? g.advance(V::inner(w, w), {&w, &g.x, &result.var}) : g.advance(V::inner(w, w), {&w, &g.x}));
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
    dd_norm += w_norm / rho * (w_norm / rho);
    if (calc_var) result.var = result.var + V::squares(V::scaled(w, 1 / rho));
    V::add_scaled(g.x, Complex(phi / rho), w);
    V::scale_add(w, Complex(-theta / rho), g.v);
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

// Blocks twice a step, since its rule looks at ||x||.
template <class V>
typename V::LsmrResult lsmr(const typename V::Operator& a, const typename V::Vector& b, double damp, double atol,
                            double btol, double conlim, std::optional<int64_t> maxiter,
                            const std::optional<typename V::Vector>& x0) {
  using Vector = typename V::Vector;
  Bidiagonal<V> g(a, b, x0);
  typename V::LsmrResult result;
  const int64_t limit = maxiter.value_or(std::min(a.shape()[0], a.shape()[1]));
  const double b_norm = g.b_norm, ctol = conlim > 0 ? 1 / conlim : 0;
  double zeta_bar = g.alpha * g.beta, alpha_bar = g.alpha, rho = 1, rho_bar = 1, c_bar = 1, s_bar = 0;
  Vector h = V::copy_of(g.v), h_bar = V::zeros_like(g.x);
  // For the estimates of ||r||, ||a|| and cond(a).
  double beta_dd = g.beta, beta_d = 0, rho_d_old = 1, tau_tilde_old = 0, theta_tilde = 0, zeta = 0, d = 0;
  double norm_a2 = g.alpha * g.alpha, max_rho_bar = 0, min_rho_bar = std::numeric_limits<double>::max();
  result.normr = g.beta;
  result.normar = g.alpha * g.beta;
  result.norma = g.alpha;
  result.conda = 1;
  const auto finish = [&] {
    V::compute({}, {&g.x});
    result.x = g.x;
    return result;
  };
  if (result.normar == 0) return finish();
  if (b_norm == 0) {
    g.x = V::zeros_like(g.x);
    return finish();
  }
  while (result.itn < limit) {
    ++result.itn;
    g.advance(V::number(0, g.x), {&h, &h_bar, &g.x});
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
    V::scale_add(h_bar, Complex(-theta_bar * rho / (rho_old * rho_bar_old)), h);
    V::add_scaled(g.x, Complex(zeta / (rho * rho_bar)), h_bar);
    V::scale_add(h, Complex(-theta_new / rho), g.v);
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
    Vector of_x = V::inner(g.x, g.x);
    result.normx = root(V::compute({&of_x}, {&h, &h_bar, &g.x})[0]);
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

}  // namespace quarry::local::sparse::krylov
