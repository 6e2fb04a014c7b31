// The distributions of Generator, for the sources of the generators of arrays of one process and of chunked arrays: the
// numbers are the same. Their namespaces have these types and functions of their arrays:
//   Array, Arg, Generator, Recipe (a Formula)
//   bool is_array(const Arg&), DType dtype_of(const Arg&)
//   check_parameter, check_none as in recipe.h
//   Array apply(Op, {Arg, Arg}, DType)
//   std::pair<Scalar, Scalar> extent_of_array(const Arg&)   the smallest and largest element
//   bool is_empty(const Arg&)                               an array without elements

namespace {

bool is_number(const Arg& arg, double value) { return !is_array(arg) && arg.scalar().as_double() == value; }

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
    return !is_array(shape) && shape.scalar().as_double() >= 1 && shape.scalar().as_double() <= 1e100;
  };
  return large(a) && large(b);
}

Term noncentral(Recipe& recipe, Term df, Term nonc) {
  const Term terms = recipe.apply("random_poisson"_op, {recipe.key(), nonc * 0.5});
  return 2.0 * recipe.gamma(df * 0.5 + terms);
}

__extension__ using Wide = __int128;
constexpr double kMostCount = 9223372036854774784.0;  // the last float64 below 2^63

struct IntegerLimits {
  Wide low, high;  // inclusive
};
IntegerLimits limits_of(DType dtype) {
  return dispatch(dtype, []<class T>() -> IntegerLimits {
    if constexpr (std::is_integral_v<T>)
      return {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
    else
      return {0, 0};
  });
}

Wide wide(const Scalar& value) {
  if (value.dtype() == DType::uint64) return value.as_uint64();
  if (!is_float(value.dtype())) return value.as_int64();
  const double x = value.as_double();
  if (!(std::abs(x) < 1e19)) throw InvalidArgument(fmt::format("the bound {} of random integers is not an integer", x));
  return static_cast<Wide>(x);
}

// Smallest and largest element, as numbers; a literal is both.
IntegerLimits extent_of(const char* name, const Arg& arg) {
  if (is_complex(dtype_of(arg))) throw TypeError(fmt::format("{}: a complex number is not an integer", name));
  if (!is_array(arg)) return {wide(arg.scalar()), wide(arg.scalar())};
  if (dtype_of(arg) == DType::bool_) return {0, 1};
  const auto [low, high] = extent_of_array(arg);
  return {wide(low), wide(high)};
}

Scalar scalar_of(Wide value) {
  return value < 0 ? Scalar(static_cast<int64_t>(value)) : Scalar(static_cast<uint64_t>(value));
}

// Counts: integers, and floats that are truncated.
void check_count(const char* name, const Arg& value) {
  if (is_array(value)) check_cast(dtype_of(value), DType::int64, Casting::safe);
  check_parameter(name, value, kNonNegative);
}

Term as_count(Term x) { return map("minimum"_op, x, x.like(kMostCount)).as(DType::int64); }

// log(1 - p), once where p is a number.
Term log_of_rest(Recipe& recipe, const Arg& p) {
  if (!is_array(p)) return recipe.constant(std::log1p(-p.scalar().as_double()), DType::float64);
  return map("log1p"_op, -recipe.parameter(p));
}

}  // namespace

Array Generator::random(const Size& size, DType dtype, const Out& out) {
  const Range named("random.random");
  check_random_dtype(dtype, "random");
  Recipe recipe(*this, dtype, {}, size, out);
  return recipe.make(recipe.uniform());
}

Array Generator::uniform(const Arg& low, const Arg& high, const Size& size, DType dtype) {
  const Range named("random.uniform");
  check_random_dtype(dtype, "uniform");
  check_parameter("low", low, kAnyReal);
  check_parameter("high", high, kAnyReal);
  if (!is_array(low) && !is_array(high)) {
    const double range = high.scalar().as_double() - low.scalar().as_double();
    if (!std::isfinite(range)) throw InvalidArgument("high - low range exceeds valid bounds");
    if (range < 0) throw InvalidArgument("high - low < 0");
    Recipe recipe(*this, dtype, {}, size);
    return recipe.make(scaled(recipe, recipe.uniform(), low, Scalar(range)));
  }
  const Array range = apply("subtract"_op, {high, low}, DType::float64);
  check_none("less"_op, range, 0, "high - low < 0");
  check_none("equal"_op, range, std::numeric_limits<double>::infinity(), "high - low range exceeds valid bounds");
  Recipe recipe(*this, dtype, {&low, &high}, size);
  const Term from = recipe.parameter(low);
  return recipe.make(recipe.uniform() * (recipe.parameter(high) - from) + from);
}

Array Generator::standard_normal(const Size& size, DType dtype, const Out& out) {
  const Range named("random.standard_normal");
  check_random_dtype(dtype, "standard_normal");
  Recipe recipe(*this, dtype, {}, size, out);
  return recipe.make(recipe.normal());
}

Array Generator::normal(const Arg& loc, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.normal");
  check_random_dtype(dtype, "normal");
  check_parameter("loc", loc, kAnyReal);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&loc, &scale}, size);
  return recipe.make(scaled(recipe, recipe.normal(), loc, scale));
}

Array Generator::standard_exponential(const Size& size, DType dtype, std::string_view method, const Out& out) {
  const Range named("random.standard_exponential");
  check_random_dtype(dtype, "standard_exponential");
  if (method != "zig" && method != "inv")
    throw InvalidArgument(fmt::format("method must be 'zig' or 'inv', not '{}'", method));
  Recipe recipe(*this, dtype, {}, size, out);
  return recipe.make(recipe.exponential());
}

Array Generator::exponential(const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.exponential");
  check_random_dtype(dtype, "exponential");
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&scale}, size);
  return recipe.make(recipe.exponential() * recipe.parameter(scale));
}

Array Generator::standard_gamma(const Arg& shape, const Size& size, DType dtype, const Out& out) {
  const Range named("random.standard_gamma");
  check_random_dtype(dtype, "standard_gamma");
  check_parameter("shape", shape, kNonNegative);
  Recipe recipe(*this, dtype, {&shape}, size, out);
  return recipe.make(recipe.gamma(recipe.parameter(shape, DType::float64)));
}

Array Generator::gamma(const Arg& shape, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.gamma");
  check_random_dtype(dtype, "gamma");
  check_parameter("shape", shape, kNonNegative);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, DType::float64, {&shape, &scale}, size);
  return recipe.make(recipe.gamma(recipe.parameter(shape)) * recipe.parameter(scale), dtype);
}

Array Generator::beta(const Arg& a, const Arg& b, const Size& size, DType dtype) {
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

Array Generator::chisquare(const Arg& df, const Size& size, DType dtype) {
  const Range named("random.chisquare");
  check_random_dtype(dtype, "chisquare");
  check_parameter("df", df, kPositive);
  Recipe recipe(*this, DType::float64, {&df}, size);
  return recipe.make(2.0 * recipe.gamma(recipe.parameter(df) * 0.5), dtype);
}

Array Generator::f(const Arg& dfnum, const Arg& dfden, const Size& size, DType dtype) {
  const Range named("random.f");
  check_random_dtype(dtype, "f");
  check_parameter("dfnum", dfnum, kPositive);
  check_parameter("dfden", dfden, kPositive);
  Recipe recipe(*this, DType::float64, {&dfnum, &dfden}, size);
  const Term m = recipe.parameter(dfnum), n = recipe.parameter(dfden);
  const Term above = recipe.gamma(m * 0.5), below = recipe.gamma(n * 0.5);
  return recipe.make((above / m) / (below / n), dtype);
}

Array Generator::gumbel(const Arg& loc, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.gumbel");
  check_random_dtype(dtype, "gumbel");
  check_parameter("loc", loc, kAnyReal);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&loc, &scale}, size);
  return recipe.make(scaled(recipe, -log(-map("log1p"_op, -recipe.open_uniform())), loc, scale));
}

// An exponential of random sign; one uniform gives both.
Array Generator::laplace(const Arg& loc, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.laplace");
  check_random_dtype(dtype, "laplace");
  check_parameter("loc", loc, kAnyReal);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&loc, &scale}, size);
  const Term u = recipe.uniform(), below = u < 0.5;
  const Term magnitude = map("log1p"_op, -where(below, 2.0 * u, 2.0 * u - 1.0));
  return recipe.make(scaled(recipe, where(below, magnitude, -magnitude), loc, scale));
}

Array Generator::logistic(const Arg& loc, const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.logistic");
  check_random_dtype(dtype, "logistic");
  check_parameter("loc", loc, kAnyReal);
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&loc, &scale}, size);
  const Term u = recipe.open_uniform();
  return recipe.make(scaled(recipe, log(u) - map("log1p"_op, -u), loc, scale));
}

Array Generator::lognormal(const Arg& mean, const Arg& sigma, const Size& size, DType dtype) {
  const Range named("random.lognormal");
  check_random_dtype(dtype, "lognormal");
  check_parameter("mean", mean, kAnyReal);
  check_parameter("sigma", sigma, kNonNegative);
  Recipe recipe(*this, dtype, {&mean, &sigma}, size);
  return recipe.make(map("exp"_op, scaled(recipe, recipe.normal(), mean, sigma)));
}

// Central with df + 2 K degrees of freedom, K a Poisson number of mean nonc / 2.
Array Generator::noncentral_chisquare(const Arg& df, const Arg& nonc, const Size& size, DType dtype) {
  const Range named("random.noncentral_chisquare");
  check_random_dtype(dtype, "noncentral_chisquare");
  check_parameter("df", df, kPositive);
  check_parameter("nonc", nonc, kNonNegative);
  Recipe recipe(*this, DType::float64, {&df, &nonc}, size);
  const Term degrees = recipe.parameter(df);
  return recipe.make(noncentral(recipe, degrees, recipe.parameter(nonc)), dtype);
}

Array Generator::noncentral_f(const Arg& dfnum, const Arg& dfden, const Arg& nonc, const Size& size, DType dtype) {
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

Array Generator::pareto(const Arg& a, const Size& size, DType dtype) {
  const Range named("random.pareto");
  check_random_dtype(dtype, "pareto");
  check_parameter("a", a, kPositive);
  Recipe recipe(*this, dtype, {&a}, size);
  return recipe.make(map("expm1"_op, recipe.exponential() / recipe.parameter(a)));
}

Array Generator::power(const Arg& a, const Size& size, DType dtype) {
  const Range named("random.power");
  check_random_dtype(dtype, "power");
  check_parameter("a", a, kPositive);
  Recipe recipe(*this, dtype, {&a}, size);
  return recipe.make(map("power"_op, recipe.uniform(), 1.0 / recipe.parameter(a)));
}

Array Generator::rayleigh(const Arg& scale, const Size& size, DType dtype) {
  const Range named("random.rayleigh");
  check_random_dtype(dtype, "rayleigh");
  check_parameter("scale", scale, kNonNegative);
  Recipe recipe(*this, dtype, {&scale}, size);
  return recipe.make(sqrt(2.0 * recipe.exponential()) * recipe.parameter(scale));
}

Array Generator::standard_cauchy(const Size& size, DType dtype) {
  const Range named("random.standard_cauchy");
  check_random_dtype(dtype, "standard_cauchy");
  Recipe recipe(*this, dtype, {}, size);
  return recipe.make(map("tan"_op, (recipe.open_uniform() - 0.5) * std::numbers::pi));
}

Array Generator::standard_t(const Arg& df, const Size& size, DType dtype) {
  const Range named("random.standard_t");
  check_random_dtype(dtype, "standard_t");
  check_parameter("df", df, kPositive);
  Recipe recipe(*this, DType::float64, {&df}, size);
  const Term half = recipe.parameter(df) * 0.5, z = recipe.normal();
  return recipe.make(z / sqrt(recipe.gamma(half) / half), dtype);
}

Array Generator::triangular(const Arg& left, const Arg& mode, const Arg& right, const Size& size, DType dtype) {
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

Array Generator::vonmises(const Arg& mu, const Arg& kappa, const Size& size, DType dtype) {
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
Array Generator::wald(const Arg& mean, const Arg& scale, const Size& size, DType dtype) {
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

Array Generator::weibull(const Arg& a, const Size& size, DType dtype) {
  const Range named("random.weibull");
  check_random_dtype(dtype, "weibull");
  check_parameter("a", a, kNonNegative);
  Recipe recipe(*this, dtype, {&a}, size);
  const Term shape = recipe.parameter(a), x = map("power"_op, recipe.exponential(), 1.0 / shape);
  return recipe.make(where(shape <= shape.like(0), x.like(0), x));
}

// Counts.

Array Generator::integers(const Arg& low_, const std::optional<Arg>& high_, const Size& size, DType dtype,
                          bool endpoint) {
  const Range named("random.integers");
  if (!is_integer(dtype) && dtype != DType::bool_)
    throw TypeError(fmt::format("Unsupported dtype dtype('{}') for integers", name(dtype)));
  const Arg zero = 0;
  const Arg& low = high_ ? low_ : zero;
  const Arg& high = high_ ? *high_ : low_;
  const DType work = dtype == DType::uint64 ? DType::uint64 : DType::int64;
  Recipe recipe(*this, work, {&low, &high}, size);

  if (!is_empty(low) && !is_empty(high)) {
    const IntegerLimits type = limits_of(dtype), lows = extent_of("low", low), highs = extent_of("high", high);
    if (lows.low < type.low || lows.high > type.high)
      throw InvalidArgument(fmt::format("low is out of bounds for {}", name(dtype)));
    const Wide last = type.high + (endpoint ? 0 : 1);
    if (highs.high > last || highs.low < type.low)
      throw InvalidArgument(fmt::format("high is out of bounds for {}", name(dtype)));
    const bool fixed = !is_array(low) && !is_array(high);
    const char* message = endpoint ? "low > high" : "low >= high";
    if (fixed ? lows.low > highs.low || (!endpoint && lows.low == highs.low) : false) {
      throw InvalidArgument(
          fmt::format("{}: {} and {}", message, static_cast<double>(lows.low), static_cast<double>(highs.low)));
    }
    if (!fixed) check_none(endpoint ? "greater"_op : "greater_equal"_op, low, high, message);
  }

  const auto bound = [&](const Arg& arg, bool next) {
    // 2^63 or 2^64 wrap to the end of an empty range, which stands for all values.
    if (!is_array(arg)) {
      const Wide value = wide(arg.scalar()) + (next ? 1 : 0);
      return recipe.constant(scalar_of(static_cast<Wide>(static_cast<uint64_t>(value))), DType::uint64).as(work);
    }
    const Term value = recipe.parameter(arg);
    return next ? value + recipe.constant(1, work) : value;
  };
  const Term first = bound(low, false), end = bound(high, endpoint);
  return recipe.make(recipe.apply("random_integers"_op, {recipe.bits(), first, end}, work), dtype);
}

Array Generator::binomial(const Arg& n, const Arg& p, const Size& size) {
  const Range named("random.binomial");
  check_count("n", n);
  check_parameter("p", p, kProbability);
  Recipe recipe(*this, DType::float64, {&n, &p}, size);
  const Term trials = recipe.parameter(n, DType::int64);
  const Term count = recipe.apply("random_binomial"_op, {recipe.key(), trials.as(DType::float64), recipe.parameter(p)});
  return recipe.make(map("minimum"_op, as_count(count), trials), DType::int64);
}

Array Generator::poisson(const Arg& lam, const Size& size) {
  const Range named("random.poisson");
  check_parameter("lam", lam, kPoisson);
  Recipe recipe(*this, DType::float64, {&lam}, size);
  return recipe.make(as_count(recipe.apply("random_poisson"_op, {recipe.key(), recipe.parameter(lam)})), DType::int64);
}

// ceil(E / -log(1 - p)): P(X > k) = (1 - p)^k.
Array Generator::geometric(const Arg& p, const Size& size) {
  const Range named("random.geometric");
  check_parameter("p", p, kPositiveProbability);
  Recipe recipe(*this, DType::float64, {&p}, size);
  const Term count = map("ceil"_op, recipe.exponential() / -log_of_rest(recipe, p));
  return recipe.make(as_count(map("maximum"_op, count, count.like(1))), DType::int64);
}

// Poisson with a mean that is gamma distributed.
Array Generator::negative_binomial(const Arg& n, const Arg& p, const Size& size) {
  const Range named("random.negative_binomial");
  check_parameter("n", n, kPositive);
  check_parameter("p", p, kPositiveProbability);
  if (!is_array(n) && !is_array(p)) {
    const double trials = n.scalar().as_double(), odds = (1 - p.scalar().as_double()) / p.scalar().as_double();
    if (!((trials + 10 * std::sqrt(trials)) * odds <= kPoisson.high))
      throw InvalidArgument(fmt::format("n too large or p too small: n = {}, p = {}", trials, p.scalar().as_double()));
  }
  Recipe recipe(*this, DType::float64, {&n, &p}, size);
  const Term q = recipe.parameter(p), mean = recipe.gamma(recipe.parameter(n)) * ((1.0 - q) / q);
  const Term bounded = map("minimum"_op, mean, mean.like(kPoisson.high));
  return recipe.make(as_count(recipe.apply("random_poisson"_op, {recipe.key(), bounded})), DType::int64);
}

Array Generator::hypergeometric(const Arg& ngood, const Arg& nbad, const Arg& nsample, const Size& size) {
  const Range named("random.hypergeometric");
  check_count("ngood", ngood);
  check_count("nbad", nbad);
  check_count("nsample", nsample);
  constexpr const char* kTooMany = "both ngood and nbad must be less than 1000000000";
  check_none("greater_equal"_op, ngood, 1000000000, kTooMany);
  check_none("greater_equal"_op, nbad, 1000000000, kTooMany);
  constexpr const char* kTooFew = "ngood + nbad < nsample";
  if (!is_array(ngood) && !is_array(nbad))
    check_none("less"_op, ngood.scalar().as_int64() + nbad.scalar().as_int64(), nsample, kTooFew);
  else
    check_none("less"_op, apply("add"_op, {ngood, nbad}, DType::float64), nsample, kTooFew);
  Recipe recipe(*this, DType::int64, {&ngood, &nbad, &nsample}, size);
  const Term good = recipe.parameter(ngood), both = good * good.like(4294967296.0) + recipe.parameter(nbad);
  return recipe.make(recipe.apply("random_hypergeometric"_op, {recipe.key(), both, recipe.parameter(nsample)}));
}

// A. W. Kemp, Efficient Generation of Logarithmically Distributed Pseudo-Random Variables (1981), LK.
Array Generator::logseries(const Arg& p, const Size& size) {
  const Range named("random.logseries");
  check_parameter("p", p, kLogSeries);
  Recipe recipe(*this, DType::float64, {&p}, size);
  const Term rate = log_of_rest(recipe, p), v = recipe.open_uniform();
  const Term q = -map("expm1"_op, rate * recipe.uniform());
  const Term many = map("floor"_op, 1.0 + map("log"_op, v) / map("log"_op, q));
  const Term count = where(v <= q * q, many, where(q <= v, q.like(1), q.like(2)));
  return recipe.make(as_count(count), DType::int64);
}

Array Generator::zipf(const Arg& a, const Size& size) {
  const Range named("random.zipf");
  check_parameter("a", a, kZipf);
  Recipe recipe(*this, DType::float64, {&a}, size);
  return recipe.make(as_count(recipe.apply("random_zipf"_op, {recipe.key(), recipe.parameter(a)})), DType::int64);
}
