// Distributions of real numbers: transforms of uniforms and normals, and of gammas drawn by rejection.
#include "quarry/local/ops/random/random.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "quarry/local/device/range.h"
#include "quarry/local/ops/random/recipe.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local {

namespace {

bool is_number(const Arg& arg, double value) { return arg.array() == nullptr && arg.scalar().as_double() == value; }

// location + scale * x; the parameters 0 and 1 leave the draws as they are.
Term scaled(Recipe& recipe, Term x, const Arg& location, const Arg& scale) {
  if (is_number(location, 0) && is_number(scale, 1)) return x;
  return x * recipe.parameter(scale) + recipe.parameter(location);
}

Term sqrt(Term x) { return map("sqrt"_op, x); }
Term log(Term x) { return map("log"_op, x); }

// exp(a) / (exp(a) + exp(b)), where either may underflow.
Term share(Term a, Term b) { return 1.0 / (1.0 + map("exp"_op, b - a)); }

// Whether gammas of these shapes are numbers whose ratio needs no logarithms.
bool has_large_shapes(const Arg& a, const Arg& b) {
  const auto large = [](const Arg& shape) {
    return shape.array() == nullptr && shape.scalar().as_double() >= 1 && shape.scalar().as_double() <= 1e100;
  };
  return large(a) && large(b);
}

Term noncentral(Recipe& recipe, Term df, Term nonc) {
  const Term terms = recipe.apply("random_poisson"_op, {recipe.key(), nonc * 0.5});
  return 2.0 * recipe.gamma(df * 0.5 + terms);
}

}  // namespace

NdArray Generator::random(const Size& size, DType dtype, const Out& out) {
  const Range named("random.random");
  check_random_dtype(dtype, "random");
  Recipe recipe(*this, dtype, {}, size, out);
  return recipe.make(recipe.uniform());
}

NdArray Generator::uniform(const Arg& low, const Arg& high, const Size& size, DType dtype) {
  const Range named("random.uniform");
  check_random_dtype(dtype, "uniform");
  check_parameter("low", low, kAnyReal);
  check_parameter("high", high, kAnyReal);
  if (low.array() == nullptr && high.array() == nullptr) {
    const double range = high.scalar().as_double() - low.scalar().as_double();
    if (!std::isfinite(range)) throw InvalidArgument("high - low range exceeds valid bounds");
    if (range < 0) throw InvalidArgument("high - low < 0");
    Recipe recipe(*this, dtype, {}, size);
    return recipe.make(scaled(recipe, recipe.uniform(), low, Scalar(range)));
  }
  const NdArray range = apply("subtract"_op, {high, low}, DType::float64);
  check_none("less"_op, range, 0, "high - low < 0");
  check_none("equal"_op, range, std::numeric_limits<double>::infinity(), "high - low range exceeds valid bounds");
  Recipe recipe(*this, dtype, {&low, &high}, size);
  const Term from = recipe.parameter(low);
  return recipe.make(recipe.uniform() * (recipe.parameter(high) - from) + from);
}

NdArray Generator::standard_normal(const Size& size, DType dtype, const Out& out) {
  const Range named("random.standard_normal");
  check_random_dtype(dtype, "standard_normal");
  Recipe recipe(*this, dtype, {}, size, out);
  return recipe.make(recipe.normal());
}

NdArray Generator::normal(const Arg& loc, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.normal");
  check_random_dtype(dtype, "normal");
  check_parameter("loc", loc, kAnyReal);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&loc, &scale}, size);
  return recipe.make(scaled(recipe, recipe.normal(), loc, scale));
}

NdArray Generator::standard_exponential(const Size& size, DType dtype, std::string_view method, const Out& out) {
  const Range named("random.standard_exponential");
  check_random_dtype(dtype, "standard_exponential");
  if (method != "zig" && method != "inv")
    throw InvalidArgument(fmt::format("method must be 'zig' or 'inv', not '{}'", method));
  Recipe recipe(*this, dtype, {}, size, out);
  return recipe.make(recipe.exponential());
}

NdArray Generator::exponential(const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.exponential");
  check_random_dtype(dtype, "exponential");
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&scale}, size);
  return recipe.make(recipe.exponential() * recipe.parameter(scale));
}

NdArray Generator::standard_gamma(const Arg& shape, const Size& size, DType dtype, const Out& out) {
  const Range named("random.standard_gamma");
  check_random_dtype(dtype, "standard_gamma");
  check_parameter("shape", shape, kNonNegative);
  Recipe recipe(*this, dtype, {&shape}, size, out);
  return recipe.make(recipe.gamma(recipe.parameter(shape, DType::float64)));
}

NdArray Generator::gamma(const Arg& shape, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.gamma");
  check_random_dtype(dtype, "gamma");
  check_parameter("shape", shape, kNonNegative);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, DType::float64, {&shape, &scale}, size);
  return recipe.make(recipe.gamma(recipe.parameter(shape)) * recipe.parameter(scale), dtype);
}

NdArray Generator::beta(const Arg& a, const Arg& b, const Size& size, DType dtype) {
  const Range named("random.beta");
  check_random_dtype(dtype, "beta");
  check_parameter("a", a, kPositive);
  check_parameter("b", b, kPositive);
  Recipe recipe(*this, DType::float64, {&a, &b}, size);
  if (has_large_shapes(a, b)) {
    const Term x = recipe.gamma(recipe.parameter(a)), y = recipe.gamma(recipe.parameter(b));
    return recipe.make(x / (x + y), dtype);
  }
  const Term first = recipe.log_gamma(recipe.parameter(a)), second = recipe.log_gamma(recipe.parameter(b));
  return recipe.make(share(first, second), dtype);
}

NdArray Generator::chisquare(const Arg& df, const Size& size, DType dtype) {
  const Range named("random.chisquare");
  check_random_dtype(dtype, "chisquare");
  check_parameter("df", df, kPositive);
  Recipe recipe(*this, DType::float64, {&df}, size);
  return recipe.make(2.0 * recipe.gamma(recipe.parameter(df) * 0.5), dtype);
}

NdArray Generator::f(const Arg& dfnum, const Arg& dfden, const Size& size, DType dtype) {
  const Range named("random.f");
  check_random_dtype(dtype, "f");
  check_parameter("dfnum", dfnum, kPositive);
  check_parameter("dfden", dfden, kPositive);
  Recipe recipe(*this, DType::float64, {&dfnum, &dfden}, size);
  const Term m = recipe.parameter(dfnum), n = recipe.parameter(dfden);
  const Term above = recipe.gamma(m * 0.5), below = recipe.gamma(n * 0.5);
  return recipe.make((above / m) / (below / n), dtype);
}

NdArray Generator::gumbel(const Arg& loc, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.gumbel");
  check_random_dtype(dtype, "gumbel");
  check_parameter("loc", loc, kAnyReal);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&loc, &scale}, size);
  return recipe.make(scaled(recipe, -log(-map("log1p"_op, -recipe.open_uniform())), loc, scale));
}

// An exponential of random sign; one uniform gives both.
NdArray Generator::laplace(const Arg& loc, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.laplace");
  check_random_dtype(dtype, "laplace");
  check_parameter("loc", loc, kAnyReal);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&loc, &scale}, size);
  const Term u = recipe.uniform(), below = u < 0.5;
  const Term magnitude = map("log1p"_op, -where(below, 2.0 * u, 2.0 * u - 1.0));
  return recipe.make(scaled(recipe, where(below, magnitude, -magnitude), loc, scale));
}

NdArray Generator::logistic(const Arg& loc, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.logistic");
  check_random_dtype(dtype, "logistic");
  check_parameter("loc", loc, kAnyReal);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&loc, &scale}, size);
  const Term u = recipe.open_uniform();
  return recipe.make(scaled(recipe, log(u) - map("log1p"_op, -u), loc, scale));
}

NdArray Generator::lognormal(const Arg& mean, const Arg& sigma, const Size& size, DType dtype) {
  const Range named("random.lognormal");
  check_random_dtype(dtype, "lognormal");
  check_parameter("mean", mean, kAnyReal);
  check_parameter("sigma", sigma, kNonNegative);
  Recipe recipe(*this, dtype, {&mean, &sigma}, size);
  return recipe.make(map("exp"_op, scaled(recipe, recipe.normal(), mean, sigma)));
}

// Central with df + 2 K degrees of freedom, K a Poisson number of mean nonc / 2.
NdArray Generator::noncentral_chisquare(const Arg& df, const Arg& nonc, const Size& size, DType dtype) {
  const Range named("random.noncentral_chisquare");
  check_random_dtype(dtype, "noncentral_chisquare");
  check_parameter("df", df, kPositive);
  check_parameter("nonc", nonc, kNonNegative);
  Recipe recipe(*this, DType::float64, {&df, &nonc}, size);
  const Term degrees = recipe.parameter(df);
  return recipe.make(noncentral(recipe, degrees, recipe.parameter(nonc)), dtype);
}

NdArray Generator::noncentral_f(const Arg& dfnum, const Arg& dfden, const Arg& nonc, const Size& size, DType dtype) {
  const Range named("random.noncentral_f");
  check_random_dtype(dtype, "noncentral_f");
  check_parameter("dfnum", dfnum, kPositive);
  check_parameter("dfden", dfden, kPositive);
  check_parameter("nonc", nonc, kNonNegative);
  Recipe recipe(*this, DType::float64, {&dfnum, &dfden, &nonc}, size);
  const Term m = recipe.parameter(dfnum), n = recipe.parameter(dfden);
  const Term above = noncentral(recipe, m, recipe.parameter(nonc)), below = 2.0 * recipe.gamma(n * 0.5);
  return recipe.make((above / m) / (below / n), dtype);
}

NdArray Generator::pareto(const Arg& a, const Size& size, DType dtype) {
  const Range named("random.pareto");
  check_random_dtype(dtype, "pareto");
  check_parameter("a", a, kPositive);
  Recipe recipe(*this, dtype, {&a}, size);
  return recipe.make(map("expm1"_op, recipe.exponential() / recipe.parameter(a)));
}

NdArray Generator::power(const Arg& a, const Size& size, DType dtype) {
  const Range named("random.power");
  check_random_dtype(dtype, "power");
  check_parameter("a", a, kPositive);
  Recipe recipe(*this, dtype, {&a}, size);
  return recipe.make(map("power"_op, recipe.uniform(), 1.0 / recipe.parameter(a)));
}

NdArray Generator::rayleigh(const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.rayleigh");
  check_random_dtype(dtype, "rayleigh");
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&scale}, size);
  return recipe.make(sqrt(2.0 * recipe.exponential()) * recipe.parameter(scale));
}

NdArray Generator::standard_cauchy(const Size& size, DType dtype) {
  const Range named("random.standard_cauchy");
  check_random_dtype(dtype, "standard_cauchy");
  Recipe recipe(*this, dtype, {}, size);
  return recipe.make(map("tan"_op, (recipe.open_uniform() - 0.5) * std::numbers::pi));
}

NdArray Generator::standard_t(const Arg& df, const Size& size, DType dtype) {
  const Range named("random.standard_t");
  check_random_dtype(dtype, "standard_t");
  check_parameter("df", df, kPositive);
  Recipe recipe(*this, DType::float64, {&df}, size);
  const Term half = recipe.parameter(df) * 0.5, z = recipe.normal();
  return recipe.make(z / sqrt(recipe.gamma(half) / half), dtype);
}

NdArray Generator::triangular(const Arg& left, const Arg& mode, const Arg& right, const Size& size, DType dtype) {
  const Range named("random.triangular");
  check_random_dtype(dtype, "triangular");
  check_parameter("left", left, kAnyReal);
  check_parameter("mode", mode, kAnyReal);
  check_parameter("right", right, kAnyReal);
  check_none("greater"_op, left, mode, "left > mode");
  check_none("greater"_op, mode, right, "mode > right");
  check_none("equal"_op, left, right, "left == right");
  Recipe recipe(*this, dtype, {&left, &mode, &right}, size);
  const Term a = recipe.parameter(left), c = recipe.parameter(mode), b = recipe.parameter(right), u = recipe.uniform();
  const Term up = a + sqrt(u * (b - a) * (c - a)), down = b - sqrt((1.0 - u) * (b - a) * (b - c));
  return recipe.make(where(u <= (c - a) / (b - a), up, down));
}

NdArray Generator::vonmises(const Arg& mu, const Arg& kappa, const Size& size, DType dtype) {
  const Range named("random.vonmises");
  check_random_dtype(dtype, "vonmises");
  check_parameter("mu", mu, kAnyReal);
  check_parameter("kappa", kappa, kNonNegative);
  Recipe recipe(*this, DType::float64, {&mu, &kappa}, size);
  const Term angle =
      recipe.apply("random_von_mises"_op, {recipe.key(), recipe.parameter(kappa)}) + recipe.parameter(mu);
  constexpr double kTurn = 2 * std::numbers::pi;
  return recipe.make(angle - kTurn * map("rint"_op, angle / kTurn), dtype);
}

// J. R. Michael, W. R. Schucany, R. W. Haas, Generating Random Variates Using Transformations with Multiple Roots
// (1976): the smaller root is mean / (1 + a + sqrt(a (a + 2))), a = mean z^2 / (2 scale), without cancellation.
NdArray Generator::wald(const Arg& mean, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.wald");
  check_random_dtype(dtype, "wald");
  check_parameter("mean", mean, kPositive);
  check_parameter("scale", scale, kPositive);
  Recipe recipe(*this, dtype, {&mean, &scale}, size);
  const Term m = recipe.parameter(mean), z = recipe.normal(), u = recipe.uniform();
  const Term a = z * z * m / (2.0 * recipe.parameter(scale));
  const Term growth = 1.0 + a + sqrt(a * (a + 2.0)), x = m / growth;
  return recipe.make(where(u <= m / (m + x), x, m * growth));
}

NdArray Generator::weibull(const Arg& a, const Size& size, DType dtype) {
  const Range named("random.weibull");
  check_random_dtype(dtype, "weibull");
  check_parameter("a", a, kNonNegative);
  Recipe recipe(*this, dtype, {&a}, size);
  const Term shape = recipe.parameter(a), x = map("power"_op, recipe.exponential(), 1.0 / shape);
  return recipe.make(where(shape <= shape.like(0), x.like(0), x));
}

}  // namespace quarry::local
