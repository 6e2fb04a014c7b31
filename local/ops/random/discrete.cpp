// Integers and counts.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "quarry/local/device/range.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/random/random.h"
#include "quarry/local/ops/random/recipe.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local {

namespace {

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
  if (is_complex(arg.promotion().dtype)) throw TypeError(fmt::format("{}: a complex number is not an integer", name));
  if (arg.array() == nullptr) return {wide(arg.scalar()), wide(arg.scalar())};
  if (arg.array()->dtype() == DType::bool_) return {0, 1};
  const auto [low, high] = extremes(*arg.array());
  return {wide(low.item()), wide(high.item())};
}

Scalar scalar_of(Wide value) {
  return value < 0 ? Scalar(static_cast<int64_t>(value)) : Scalar(static_cast<uint64_t>(value));
}

// Counts: integers, and floats that are truncated.
void check_count(const char* name, const Arg& value) {
  if (value.array() != nullptr) check_cast(value.array()->dtype(), DType::int64, Casting::safe);
  check_parameter(name, value, kNonNegative);
}

Term as_count(Term x) { return map("minimum"_op, x, x.like(kMostCount)).as(DType::int64); }

// log(1 - p), once where p is a number.
Term log_of_rest(Recipe& recipe, const Arg& p) {
  if (p.array() == nullptr) return recipe.constant(std::log1p(-p.scalar().as_double()), DType::float64);
  return map("log1p"_op, -recipe.parameter(p));
}

bool is_empty(const Arg& arg) { return arg.array() != nullptr && arg.array()->size() == 0; }

}  // namespace

NdArray Generator::integers(const Arg& low_, const std::optional<Arg>& high_, const Size& size, DType dtype,
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
    const bool fixed = low.array() == nullptr && high.array() == nullptr;
    const char* message = endpoint ? "low > high" : "low >= high";
    if (fixed ? lows.low > highs.low || (!endpoint && lows.low == highs.low) : false) {
      throw InvalidArgument(
          fmt::format("{}: {} and {}", message, static_cast<double>(lows.low), static_cast<double>(highs.low)));
    }
    if (!fixed) check_none(endpoint ? "greater"_op : "greater_equal"_op, low, high, message);
  }

  const auto bound = [&](const Arg& arg, bool next) {
    // 2^63 or 2^64 wrap to the end of an empty range, which stands for all values.
    if (arg.array() == nullptr) {
      const Wide value = wide(arg.scalar()) + (next ? 1 : 0);
      return recipe.constant(scalar_of(static_cast<Wide>(static_cast<uint64_t>(value))), DType::uint64).as(work);
    }
    const Term value = recipe.parameter(arg);
    return next ? value + recipe.constant(1, work) : value;
  };
  const Term first = bound(low, false), end = bound(high, endpoint);
  return recipe.make(recipe.apply("random_integers"_op, {recipe.bits(), first, end}, work), dtype);
}

NdArray Generator::binomial(const Arg& n, const Arg& p, const Size& size) {
  const Range named("random.binomial");
  check_count("n", n);
  check_parameter("p", p, kProbability);
  Recipe recipe(*this, DType::float64, {&n, &p}, size);
  const Term trials = recipe.parameter(n, DType::int64);
  const Term count = recipe.apply("random_binomial"_op, {recipe.key(), trials.as(DType::float64), recipe.parameter(p)});
  return recipe.make(map("minimum"_op, as_count(count), trials), DType::int64);
}

NdArray Generator::poisson(const Arg& lam, const Size& size) {
  const Range named("random.poisson");
  check_parameter("lam", lam, kPoisson);
  Recipe recipe(*this, DType::float64, {&lam}, size);
  return recipe.make(as_count(recipe.apply("random_poisson"_op, {recipe.key(), recipe.parameter(lam)})), DType::int64);
}

// ceil(E / -log(1 - p)): P(X > k) = (1 - p)^k.
NdArray Generator::geometric(const Arg& p, const Size& size) {
  const Range named("random.geometric");
  check_parameter("p", p, kPositiveProbability);
  Recipe recipe(*this, DType::float64, {&p}, size);
  const Term count = map("ceil"_op, recipe.exponential() / -log_of_rest(recipe, p));
  return recipe.make(as_count(map("maximum"_op, count, count.like(1))), DType::int64);
}

// Poisson with a mean that is gamma distributed.
NdArray Generator::negative_binomial(const Arg& n, const Arg& p, const Size& size) {
  const Range named("random.negative_binomial");
  check_parameter("n", n, kPositive);
  check_parameter("p", p, kPositiveProbability);
  if (n.array() == nullptr && p.array() == nullptr) {
    const double trials = n.scalar().as_double(), odds = (1 - p.scalar().as_double()) / p.scalar().as_double();
    if (!((trials + 10 * std::sqrt(trials)) * odds <= kPoisson.high))
      throw InvalidArgument(fmt::format("n too large or p too small: n = {}, p = {}", trials, p.scalar().as_double()));
  }
  Recipe recipe(*this, DType::float64, {&n, &p}, size);
  const Term q = recipe.parameter(p), mean = recipe.gamma(recipe.parameter(n)) * ((1.0 - q) / q);
  const Term bounded = map("minimum"_op, mean, mean.like(kPoisson.high));
  return recipe.make(as_count(recipe.apply("random_poisson"_op, {recipe.key(), bounded})), DType::int64);
}

NdArray Generator::hypergeometric(const Arg& ngood, const Arg& nbad, const Arg& nsample, const Size& size) {
  const Range named("random.hypergeometric");
  check_count("ngood", ngood);
  check_count("nbad", nbad);
  check_count("nsample", nsample);
  constexpr const char* kTooMany = "both ngood and nbad must be less than 1000000000";
  check_none("greater_equal"_op, ngood, 1000000000, kTooMany);
  check_none("greater_equal"_op, nbad, 1000000000, kTooMany);
  constexpr const char* kTooFew = "ngood + nbad < nsample";
  if (ngood.array() == nullptr && nbad.array() == nullptr)
    check_none("less"_op, ngood.scalar().as_int64() + nbad.scalar().as_int64(), nsample, kTooFew);
  else
    check_none("less"_op, apply("add"_op, {ngood, nbad}, DType::float64), nsample, kTooFew);
  Recipe recipe(*this, DType::int64, {&ngood, &nbad, &nsample}, size);
  const Term good = recipe.parameter(ngood), both = good * good.like(4294967296.0) + recipe.parameter(nbad);
  return recipe.make(recipe.apply("random_hypergeometric"_op, {recipe.key(), both, recipe.parameter(nsample)}));
}

// A. W. Kemp, Efficient Generation of Logarithmically Distributed Pseudo-Random Variables (1981), LK.
NdArray Generator::logseries(const Arg& p, const Size& size) {
  const Range named("random.logseries");
  check_parameter("p", p, kLogSeries);
  Recipe recipe(*this, DType::float64, {&p}, size);
  const Term rate = log_of_rest(recipe, p), v = recipe.open_uniform();
  const Term q = -map("expm1"_op, rate * recipe.uniform());
  const Term many = map("floor"_op, 1.0 + map("log"_op, v) / map("log"_op, q));
  const Term count = where(v <= q * q, many, where(q <= v, q.like(1), q.like(2)));
  return recipe.make(as_count(count), DType::int64);
}

NdArray Generator::zipf(const Arg& a, const Size& size) {
  const Range named("random.zipf");
  check_parameter("a", a, kZipf);
  Recipe recipe(*this, DType::float64, {&a}, size);
  return recipe.make(as_count(recipe.apply("random_zipf"_op, {recipe.key(), recipe.parameter(a)})), DType::int64);
}

std::string Generator::bytes(int64_t length) {
  const Range named("random.bytes");
  if (length < 0) throw InvalidArgument(fmt::format("negative length {} of random bytes", length));
  Recipe recipe(*this, DType::float64, {}, Ints((length + 7) / 8));
  const NdArray words = recipe.make(recipe.bits(), DType::uint64).to(kCpu);
  std::string result(static_cast<size_t>(length), '\0');
  std::memcpy(result.data(), words.raw(), result.size());
  return result;
}

}  // namespace quarry::local
