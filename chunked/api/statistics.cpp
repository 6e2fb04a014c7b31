#include "quarry/chunked/api/statistics.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/types/types.h"

namespace quarry {
namespace {

using local::InvalidArgument;
using local::TypeError;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool is_inexact(DType dtype) { return local::is_float(dtype) || local::is_complex(dtype); }

std::vector<Scalar> settled(const std::vector<Array>& arrays) {
  std::vector<Scalar> values;
  for (const NdArray& value : to_host(std::span<const Array>(arrays))) values.push_back(value.item());
  return values;
}

std::pair<Array, Array> weighted_average(const Array& a, const Axes& axis, const Array& weights, bool keepdims) {
  const local::AlignedWeights aligned = local::aligned_weights(weights.shape(), a.shape(), axis);
  const Array w = weights.transpose(std::span<const int64_t>(aligned.order)).reshape(aligned.shape);
  DType dtype = local::promote_types(a.dtype(), w.dtype());
  if (!is_inexact(a.dtype())) dtype = local::promote_types(dtype, DType::float64);
  const Array total = sum(w, axis, {.dtype = dtype, .keepdims = true});
  if (any(total == 0).item<bool>()) throw InvalidArgument("Weights sum to zero, can't be normalized");
  const Array value = sum(a.astype(dtype) * w.astype(dtype), axis, {.dtype = dtype, .keepdims = true});
  const Array result = value / total, totals = broadcast_to(total, value.shape());
  if (keepdims) return {result, totals};
  return {squeeze(result, axis), squeeze(totals, axis)};
}

std::pair<Array, Array> averages(const Array& a, const Axes& axis, const std::optional<Array>& weights, bool keepdims) {
  const uint32_t mask = local::axes_mask(axis, a.ndim());
  if (weights) return weighted_average(a, axis, *weights, keepdims);
  const Dims shape = local::reduced_shape(a.shape(), mask, keepdims);
  const int64_t results = local::element_count(shape);
  if (results == 0) throw InvalidArgument("division by zero: the average has no elements");
  const Array result = mean(a, axis, {.keepdims = keepdims});
  return {result, full(shape, a.size() / results, result.dtype())};
}

// Weights of observations: of one dimension and as many as those.
Array observation_weights(const Array& weights, int64_t observations, const char* name) {
  if (weights.ndim() > 1) throw InvalidArgument(fmt::format("cannot handle multidimensional {}", name));
  if (weights.ndim() == 0) throw local::IndexError(fmt::format("{} have no axis of observations", name));
  if (weights.size() != observations) {
    throw InvalidArgument(
        fmt::format("incompatible numbers of samples and {}: {} and {}", name, observations, weights.size()));
  }
  return weights.astype(DType::float64);
}

}  // namespace

Array average(const Array& a, const Axes& axis, const std::optional<Array>& weights, bool keepdims) {
  return averages(a, axis, weights, keepdims).first;
}
std::pair<Array, Array> average(const Array& a, const Axes& axis, const std::optional<Array>& weights, Returned,
                                bool keepdims) {
  return averages(a, axis, weights, keepdims);
}

Array cov(const Array& m, const std::optional<Array>& y, bool rowvar, bool bias, std::optional<double> ddof,
          const std::optional<Array>& fweights, const std::optional<Array>& aweights, std::optional<DType> dtype) {
  if (ddof && *ddof != std::trunc(*ddof)) throw InvalidArgument(fmt::format("ddof must be integer (got {})", *ddof));
  const auto rows_of = [](const Array& a, const char* name) {
    if (a.ndim() > 2) throw InvalidArgument(fmt::format("{} has more than 2 dimensions", name));
    return a.ndim() == 2 ? a : a.reshape({1, a.size()});
  };
  const Array rows = rows_of(m, "m");
  DType type = local::promote_types(m.dtype(), DType::float64);
  if (y) type = local::promote_types(type, y->dtype());
  if (dtype) type = *dtype;
  Array x = (!rowvar && m.ndim() != 1 ? rows.T() : rows).astype(type);
  if (x.shape(0) == 0) return zeros({0, 0});
  if (y) {
    const Array more = rows_of(*y, "y");
    x = concatenate({x, (!rowvar && more.shape(0) != 1 ? more.T() : more).astype(type)}, 0);
  }
  if (!is_inexact(type)) {
    throw TypeError(
        fmt::format("Cannot cast ufunc 'subtract' output from dtype('float64') to dtype('{}') with casting "
                    "rule 'same_kind'",
                    local::name(type)));
  }
  const double freedom = ddof.value_or(bias ? 0 : 1);
  double divisor = static_cast<double>(x.shape(1)) - freedom;
  std::optional<Array> w;
  Array center;
  if (fweights || aweights) {
    const Array none = zeros({}), f = fweights ? observation_weights(*fweights, x.shape(1), "fweights") : none,
                a = aweights ? observation_weights(*aweights, x.shape(1), "aweights") : none;
    w = fweights && aweights ? f * a : fweights ? f : a;
    const std::vector<Scalar> values =
        settled({any(not_equal(f, rint(f))), any(f < 0), any(a < 0), sum(*w), sum(*w * a)});
    if (values[0].as_bool()) throw TypeError("fweights must be integer");
    for (const size_t i : {1, 2})
      if (values[i].as_bool())
        throw InvalidArgument(fmt::format("{} cannot be negative", i == 1 ? "fweights" : "aweights"));
    const double total = values[3].as_double();
    if (total == 0) throw InvalidArgument("Weights sum to zero, can't be normalized");
    divisor = total;
    if (freedom != 0) divisor -= !aweights ? freedom : freedom * values[4].as_double() / total;
    const DType wide = local::promote_types(type, DType::float64);
    center = sum(x * *w, 1, {.dtype = wide, .keepdims = true}) / total;
  } else {
    center = mean(x, 1, {.keepdims = true});
  }
  if (divisor <= 0) divisor = 0;
  const Array centered = (x - center).astype(type);
  Array right = w ? (centered * *w) : centered;
  if (local::is_complex(type)) right = conjugate(right);
  const Array c = matmul(centered, right.T());
  return squeeze((c * Scalar::strong(1 / divisor, DType::float64)).astype(c.dtype()));
}

Array corrcoef(const Array& x, const std::optional<Array>& y, bool rowvar, std::optional<DType> dtype) {
  const Array c = cov(x, y, rowvar, false, std::nullopt, std::nullopt, std::nullopt, dtype);
  if (c.ndim() == 0) return c / c;
  const Array row(expr::index(c.shape(), 0)), column(expr::index(c.shape(), 1));
  const Array diagonal = sum(where(row == column, real(c), Scalar::strong(0, local::real_type(c.dtype()))), 1);
  const Array deviation = sqrt(diagonal.astype(local::real_type(c.dtype())));
  const Array scaled = c / expand_dims(deviation, 1) / deviation;
  if (!local::is_complex(c.dtype())) return clip(scaled, -1, 1);
  const Scalar unit = Scalar::strong(std::complex<double>(0, 1), c.dtype());
  return clip(real(scaled), -1, 1) + clip(imag(scaled), -1, 1) * unit;
}

namespace {

// (a - mean)^order, in `dtype`.
Array power_of(const Array& distance, int64_t order) {
  if (order == 1) return distance;
  const Array half = power_of(distance, order / 2), even = half * half;
  return order % 2 == 0 ? even : even * distance;
}

}  // namespace

Array moment(const Array& a, int64_t order, const Axes& axis, std::optional<DType> dtype, bool keepdims, double ddof) {
  if (order < 0) throw InvalidArgument("Order must be an integer >= 0");
  const uint32_t mask = axis.mask(a.ndim());
  const Dims shape = local::reduced_shape(a.shape(), mask, keepdims);
  // By definition.
  if (order < 2) return full(shape, order == 0 ? 1 : 0, DType::float64);
  const DType type = dtype.value_or(local::accumulate_dtype("mean"_reduction, a.dtype()));
  int64_t count = 1;
  for (int d = 0; d < a.ndim(); ++d)
    if (mask >> d & 1) count *= a.shape()[d];
  const Array distance = a.astype(type) - mean(a, axis, {.dtype = type, .keepdims = true});
  const Array total = sum(power_of(distance, order), axis, {.dtype = type, .keepdims = keepdims});
  return total / Scalar::strong(static_cast<double>(count) - ddof, local::real_type(type));
}

Array detail::restored_axis(const Array& result, const Array& before, int64_t axis) {
  if (result.ndim() == before.ndim()) return result;
  if (result.ndim() + 1 != before.ndim())
    throw InvalidArgument("function is not returning an array of the correct shape");
  return expand_dims(result, axis);
}

namespace stats {
namespace {

// The array in a floating dtype, and what its slices have in common.
struct Sample {
  Array a;
  Axes axis;
  int64_t n;  // elements of a slice
  double count() const { return static_cast<double>(n); }
  Array mean(bool keepdims = false) const { return quarry::mean(a, axis, {.keepdims = keepdims}); }
  Array variance() const { return var(a, axis, {.ddof = 1}); }
};
Sample sample_of(const Array& a, Axis axis) {
  const Array typed = is_inexact(a.dtype()) ? a : a.astype(DType::float64);
  if (local::is_complex(a.dtype())) throw TypeError("statistics are of real numbers");
  if (!axis) return {typed, Axes(), a.size()};
  return {typed, Axes(*axis), a.shape(*axis)};
}

Array mean_power(const Sample& sample, const Array& distance, int64_t order) {
  return mean(power_of(distance, order), sample.axis);
}

double epsilon(DType dtype) { return local::ops::finfo(dtype).eps.as_double(); }
Scalar typed(double value, const Array& like) { return Scalar::strong(value, like.dtype()); }
Array nan_like(const Array& array) { return full(array.shape(), kNan, array.dtype()); }

// The second moment, the one of `order`, and whether the slice has no spread.
struct Moments {
  Array second, high, flat;
};
Moments moments_of(const Sample& sample, int64_t order) {
  const Array distance = sample.a - sample.mean(/*keepdims=*/true);
  const Array second = mean_power(sample, distance, 2);
  return {second, mean_power(sample, distance, order),
          second <= square(sample.mean() * typed(epsilon(sample.a.dtype()), sample.a))};
}

// The two-sided p-value of a standard normal statistic.
Array normal_pvalue(const Array& z) { return 2 * special::ndtr(-absolute(z)); }
// That of a statistic at least as large, of a chi-squared distribution.
Array chi_squared_pvalue(const Array& x, double freedom) {
  if (!(freedom > 0)) return nan_like(x);
  return special::gammaincc(typed(freedom / 2, x), x / 2);
}
// Two-sided, of Student's distribution: I_{f / (f + t^2)}(f / 2, 1 / 2).
Array student_pvalue(const Array& t, const Array& freedom) {
  return special::betainc(freedom / 2, typed(0.5, t), freedom / (freedom + square(t)));
}

TestResult student(const Array& difference, const Array& error, const Array& freedom) {
  const Array t = difference / error;
  return {t, student_pvalue(t, freedom.astype(t.dtype()))};
}

double divergence_of(std::string_view name) {
  constexpr std::pair<std::string_view, double> kNames[] = {{"pearson", 1},          {"log-likelihood", 0},
                                                            {"freeman-tukey", -0.5}, {"mod-log-likelihood", -1},
                                                            {"neyman", -2},          {"cressie-read", 2. / 3}};
  std::string all;
  for (const auto& [known, value] : kNames) {
    if (name == known) return value;
    all += fmt::format("{}'{}'", all.empty() ? "" : ", ", known);
  }
  throw InvalidArgument(fmt::format("invalid string for lambda_: '{}'. Valid strings are {}", name, all));
}

}  // namespace

Array moment(const Array& a, int64_t order, Axis axis) {
  const Sample sample = sample_of(a, axis);
  if (order < 0) throw InvalidArgument("Order must be an integer >= 0");
  Array center = sample.mean();
  if (a.size() == 0) return center;
  if (order < 2) return full(center.shape(), order == 0 ? 1 : 0, center.dtype());
  return mean_power(sample, sample.a - sample.mean(/*keepdims=*/true), order);
}

Array skew(const Array& a, Axis axis, bool bias) {
  const Sample sample = sample_of(a, axis);
  const Moments m = moments_of(sample, 3);
  Array value = m.high / power(m.second, typed(1.5, m.second));
  const double n = sample.count();
  if (!bias && n > 2) value = value * typed(std::sqrt((n - 1) * n) / (n - 2), value);
  return where(m.flat, typed(kNan, value), value);
}

Array kurtosis(const Array& a, Axis axis, bool fisher, bool bias) {
  const Sample sample = sample_of(a, axis);
  const Moments m = moments_of(sample, 4);
  Array value = m.high / square(m.second);
  const double n = sample.count();
  if (!bias && n > 3)
    value = (typed(n * n - 1, value) * value - typed(3 * (n - 1) * (n - 1), value)) *
                typed(1 / ((n - 2) * (n - 3)), value) +
            3;
  value = where(m.flat, typed(kNan, value), value);
  return fisher ? value - 3 : value;
}

// R. B. D'Agostino, A. J. Belanger, R. B. D'Agostino Jr., A suggestion for using powerful and informative tests of
// normality (1990).
TestResult skewtest(const Array& a, Axis axis) {
  const Array b = skew(a, axis);
  const double n = sample_of(a, axis).count();
  if (n < 8) return {nan_like(b), nan_like(b)};
  const double scale = std::sqrt((n + 1) * (n + 3) / (6 * (n - 2)));
  const double beta2 = 3 * (n * n + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9));
  const double w2 = -1 + std::sqrt(2 * (beta2 - 1)), delta = 1 / std::sqrt(0.5 * std::log(w2)),
               alpha = std::sqrt(2 / (w2 - 1));
  const Array scaled = b * typed(scale, b), y = where(scaled == 0, typed(1, b), scaled) / typed(alpha, b);
  const Array z = typed(delta, b) * log(y + sqrt(square(y) + 1));
  return {z, normal_pvalue(z)};
}

// F. J. Anscombe, W. J. Glynn, Distribution of the kurtosis statistic b2 for normal samples (1983).
TestResult kurtosistest(const Array& a, Axis axis) {
  const Array b = kurtosis(a, axis, /*fisher=*/false);
  const double n = sample_of(a, axis).count();
  if (n < 5) return {nan_like(b), nan_like(b)};
  const double expected = 3 * (n - 1) / (n + 1);
  const double variance = 24 * n * (n - 2) * (n - 3) / ((n + 1) * (n + 1) * (n + 3) * (n + 5));
  const double root_beta1 =
      6 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9)) * std::sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)));
  const double degrees = 6 + 8 / root_beta1 * (2 / root_beta1 + std::sqrt(1 + 4 / (root_beta1 * root_beta1)));
  const Array x = (b - typed(expected, b)) / typed(std::sqrt(variance), b);
  const Array below = typed(std::sqrt(2 / (degrees - 4)), b) * x + 1;
  const Array root = cbrt(typed(1 - 2 / degrees, b) / absolute(below));
  const Array term = sign(below) * where(below == 0, typed(kNan, b), root);
  const Array z = (typed(1 - 2 / (9 * degrees), b) - term) / typed(std::sqrt(2 / (9 * degrees)), b);
  return {z, normal_pvalue(z)};
}

TestResult normaltest(const Array& a, Axis axis) {
  const Array s = skewtest(a, axis).statistic, k = kurtosistest(a, axis).statistic;
  const Array statistic = square(s) + square(k);
  return {statistic, chi_squared_pvalue(statistic, 2)};
}

TestResult power_divergence(const Array& f_obs, const std::optional<Array>& f_exp, double ddof, Axis axis,
                            const std::variant<double, std::string_view>& lambda_) {
  const auto* name = std::get_if<std::string_view>(&lambda_);
  const double lambda = name ? divergence_of(*name) : std::get<double>(lambda_);
  Sample sample = sample_of(f_obs, axis);
  Array expected;
  if (f_exp) {
    const Sample other = sample_of(*f_exp, axis);
    const Dims both[] = {sample.a.shape(), other.a.shape()};
    const Dims shape = local::broadcast_shapes(both);
    expected = broadcast_to(other.a, shape);
    sample = sample_of(broadcast_to(sample.a, shape), axis);
    const double tolerance = std::sqrt(epsilon(local::promote_types(sample.a.dtype(), expected.dtype())));
    const Array observed = sum(sample.a.astype(DType::float64), sample.axis), wanted = sum(expected, sample.axis);
    if (any(absolute(observed - wanted) / minimum(observed, wanted) > tolerance).item<bool>()) {
      throw InvalidArgument(
          fmt::format("For each axis slice, the sum of the observed frequencies must agree with the sum of the "
                      "expected frequencies to a relative tolerance of {}",
                      tolerance));
    }
  } else {
    expected = sample.mean(/*keepdims=*/true);
  }
  const Array& observed = sample.a;
  Array terms;
  if (lambda == 1) {
    terms = square(observed - expected) / expected;
  } else if (lambda == 0) {
    terms = 2 * special::xlogy(observed, observed / expected);
  } else if (lambda == -1) {
    terms = 2 * special::xlogy(expected, expected / observed);
  } else {
    terms = observed * (power(observed / expected, lambda) - 1) / (0.5 * lambda * (lambda + 1));
  }
  const Array statistic = sum(terms, sample.axis);
  return {statistic, chi_squared_pvalue(statistic, sample.count() - 1 - ddof)};
}

TestResult chisquare(const Array& f_obs, const std::optional<Array>& f_exp, double ddof, Axis axis) {
  return power_divergence(f_obs, f_exp, ddof, axis, 1.0);
}

TestResult f_oneway(std::span<const Array> groups, Axis axis) {
  if (groups.size() < 2) throw TypeError(fmt::format("at least two inputs are required; got {}.", groups.size()));
  std::vector<Sample> samples;
  double n = 0;
  bool enough = false, empty = false;
  for (const Array& group : groups) {
    samples.push_back(sample_of(group, axis));
    n += samples.back().count();
    enough = enough || samples.back().n > 1;
    empty = empty || samples.back().n == 0;
  }
  // All groups' means weighted by their sizes are the mean of all elements.
  Array center = samples[0].mean() * (samples[0].count() / n);
  for (size_t i = 1; i < samples.size(); ++i) center = center + samples[i].mean() * (samples[i].count() / n);
  if (empty || !enough) return {nan_like(center), nan_like(center)};
  Array between, within, constant, same;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    const Array least = min(s.a, s.axis), most = max(s.a, s.axis);
    const Array b = square(s.mean() - center) * s.count(), w = var(s.a, s.axis) * s.count(), flat = least == most;
    const Array equal_to_first = logical_and(flat, least == min(samples[0].a, samples[0].axis));
    between = i == 0 ? b : between + b;
    within = i == 0 ? w : within + w;
    constant = i == 0 ? flat : logical_and(constant, flat);
    same = i == 0 ? equal_to_first : logical_and(same, equal_to_first);
  }
  const double above = static_cast<double>(samples.size()) - 1, below = n - static_cast<double>(samples.size());
  Array f = (between / above) / (within / below);
  f = where(constant, typed(std::numeric_limits<double>::infinity(), f), f);
  f = where(same, typed(kNan, f), f);
  // I_{d2 / (d2 + d1 F)}(d2 / 2, d1 / 2).
  return {f, special::betainc(typed(below / 2, f), typed(above / 2, f), typed(below, f) / (f * above + below))};
}
TestResult f_oneway(std::initializer_list<Array> groups, Axis axis) {
  return f_oneway(std::span<const Array>(groups.begin(), groups.size()), axis);
}

TestResult ttest_1samp(const Array& a, const Operand& popmean, Axis axis) {
  const Sample sample = sample_of(a, axis);
  Operand wanted = popmean;
  if (popmean.is_array() && popmean.array().ndim() > 0) {
    if (axis && popmean.array().shape(*axis) != 1) throw InvalidArgument("`popmean.shape[axis]` must equal 1.");
    wanted = squeeze(popmean.array(), sample.axis);
  }
  const double n = sample.count();
  const Array error = sqrt(sample.variance() / n);
  return student(subtract(sample.mean(), wanted), error, full({}, n - 1));
}

TestResult ttest_ind(const Array& a, const Array& b, Axis axis, bool equal_var) {
  const Sample x = sample_of(a, axis), y = sample_of(b, axis);
  const double n = x.count(), m = y.count();
  const Array difference = x.mean() - y.mean();
  if (n == 0 || m == 0) return {nan_like(difference), nan_like(difference)};
  const Array v = x.variance(), w = y.variance();
  if (equal_var) {
    // A sample of one element has no variance of its own.
    const Array all =
        (n > 1 ? v * (n - 1) : zeros(v.shape(), v.dtype())) + (m > 1 ? w * (m - 1) : zeros(w.shape(), w.dtype()));
    const Array pooled = n + m > 2 ? all / (n + m - 2) : nan_like(difference);
    return student(difference, sqrt(pooled * (1 / n + 1 / m)), full({}, n + m - 2));
  }
  // Welch's; where neither sample has spread any number of degrees of freedom will do.
  const Array p = v / n, q = w / m, freedom = square(p + q) / (square(p) / (n - 1) + square(q) / (m - 1));
  return student(difference, sqrt(p + q), where(isnan(freedom), typed(1, freedom), freedom));
}

TestResult ttest_rel(const Array& a, const Array& b, Axis axis) { return ttest_1samp(a - b, 0.0, axis); }

}  // namespace stats
}  // namespace quarry
