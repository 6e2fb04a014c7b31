// Generator: every distribution against its distribution function at fixed seeds, and shapes, dtypes and errors. The
// functions of reference are the tests' own.
#include "quarry/local/ops/random/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <set>

#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

constexpr int64_t kSamples = 100000;
constexpr double kLeastP = 1e-4;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

class RandomTest : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(RandomTest);

// ---- References ----

// P(a, x): the series, or the continued fraction of the complement (Lentz).
double gamma_p(double a, double x) {
  if (x <= 0) return 0;
  const double scale = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 100000 && term > sum * 1e-16; ++n) sum += term *= x / (a + n);
    return sum * scale;
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int i = 1; i < 100000; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return 1 - scale * h;
}
// I_x(a, b) by the continued fraction.
double beta_p(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - beta_p(b, a, 1 - x);
  const double scale =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x)) / a;
  double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < 10000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return scale * h;
}
double normal_p(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double poisson_mass(double k, double mean) {
  return mean == 0 ? (k == 0 ? 1 : 0) : std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
}
double log_choose(double n, double k) { return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1); }
double chi2_p(double df, double x) { return gamma_p(df / 2, x / 2); }
double f_p(double m, double n, double x) { return x <= 0 ? 0 : beta_p(m / 2, n / 2, m * x / (m * x + n)); }
double t_p(double n, double x) {
  const double tail = 0.5 * beta_p(n / 2, 0.5, n / (n + x * x));
  return x > 0 ? 1 - tail : tail;
}
// A mixture of central distributions by Poisson numbers.
double mixture(double nonc, const std::function<double(int)>& central) {
  double sum = 0;
  for (int k = 0; k < 200; ++k) {
    const double mass = poisson_mass(k, nonc / 2);
    if (k > nonc && mass < 1e-12) break;
    sum += mass * central(k);
  }
  return sum;
}
// Von Mises by Simpson's rule.
double von_mises_integral(double kappa, double end) {
  constexpr int kSteps = 400;
  const double h = (end + kPi) / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i)
    sum += (i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2) * std::exp(kappa * (std::cos(-kPi + i * h) - 1));
  return sum * h / 3;
}
double wald_p(double m, double s, double x) {
  if (x <= 0) return 0;
  const double r = std::sqrt(s / x);
  return normal_p(r * (x / m - 1)) + std::exp(2 * s / m) * normal_p(-r * (x / m + 1));
}

// The p-value of Kolmogorov and Smirnov's test, which looks at every eighth value: the distance is 7 / n smaller at
// most.
double ks_test(std::vector<double> x, const std::function<double(double)>& cdf) {
  std::sort(x.begin(), x.end());
  const auto n = static_cast<double>(x.size());
  double d = 0;
  for (size_t i = 0; i < x.size(); i += 8) {
    const double p = cdf(x[i]);
    EXPECT_GE(p, -1e-9) << "at " << x[i];
    EXPECT_LE(p, 1 + 1e-9) << "at " << x[i];
    d = std::max({d, static_cast<double>(i + 1) / n - p, p - static_cast<double>(i) / n});
  }
  const double lambda = (std::sqrt(n) + 0.12 + 0.11 / std::sqrt(n)) * d;
  if (lambda < 0.2) return 1;
  double p = 0;
  for (int j = 1; j < 100; ++j) p += (j % 2 == 1 ? 2 : -2) * std::exp(-2 * j * j * lambda * lambda);
  return p;
}
// The p-value of the chi-square test of counts; neighbours are joined until 10 are expected, what no value of [low,
// high] takes is one class more.
double chi_square_test(const std::vector<int64_t>& x, int64_t low, int64_t high,
                       const std::function<double(double)>& mass) {
  std::map<int64_t, int64_t> counts;
  for (int64_t v : x) ++counts[v];
  const auto n = static_cast<double>(x.size());
  double statistic = 0, expected = 0, total = 0, observed = 0, seen = 0;
  int classes = 0;
  const auto close = [&] {
    statistic += (observed - expected) * (observed - expected) / expected;
    ++classes;
    expected = observed = 0;
  };
  for (int64_t k = low; k <= high; ++k) {
    const double p = mass(static_cast<double>(k));
    const auto found = counts.find(k);
    expected += p * n;
    total += p;
    observed += found == counts.end() ? 0 : static_cast<double>(found->second);
    seen += found == counts.end() ? 0 : static_cast<double>(found->second);
    if (expected >= 10) close();
  }
  expected += std::max(0.0, 1 - total) * n;
  observed += n - seen;
  if (expected >= 1)
    close();
  else
    EXPECT_LE(observed, 10) << "values that are next to impossible";
  EXPECT_GT(classes, 1);
  return 1 - gamma_p((classes - 1) / 2.0, statistic / 2);
}

using test::doubles;

void check_moments(const std::vector<double>& x, double mean, double variance, const std::string& what) {
  const auto n = static_cast<double>(x.size());
  const double m = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double v = 0;
  for (double value : x) v += (value - m) * (value - m);
  v /= n - 1;
  if (!std::isnan(variance)) {
    EXPECT_NEAR(m, mean, 5 * std::sqrt(variance / n)) << what;
    EXPECT_NEAR(v / variance, 1, 0.1) << what;
  }
}

// ---- Distributions ----

using Size = Generator::Size;

struct Continuous {
  std::string name;
  std::function<NdArray(Generator&, const Size&, DType)> draw;
  std::function<double(double)> cdf;
  double mean = kNone, variance = kNone;
};

std::vector<Continuous> continuous() {
  using G = Generator;
  const auto positive = [](auto f) { return [f](double x) { return x <= 0 ? 0.0 : f(x); }; };
  std::vector<Continuous> list{
      {"random", [](G& g, const Size& s, DType t) { return g.random(s, t); }, [](double x) { return x; }, 0.5,
       1.0 / 12},
      {"uniform", [](G& g, const Size& s, DType t) { return g.uniform(-2, 6, s, t); },
       [](double x) { return (x + 2) / 8; }, 2, 64.0 / 12},
      {"standard_normal", [](G& g, const Size& s, DType t) { return g.standard_normal(s, t); }, normal_p, 0, 1},
      {"normal", [](G& g, const Size& s, DType t) { return g.normal(3, 0.5, s, t); },
       [](double x) { return normal_p((x - 3) / 0.5); }, 3, 0.25},
      {"standard_exponential", [](G& g, const Size& s, DType t) { return g.standard_exponential(s, t); },
       [](double x) { return -std::expm1(-x); }, 1, 1},
      {"exponential", [](G& g, const Size& s, DType t) { return g.exponential(4, s, t); },
       [](double x) { return -std::expm1(-x / 4); }, 4, 16},
      {"laplace", [](G& g, const Size& s, DType t) { return g.laplace(1, 2, s, t); },
       [](double x) { return x < 1 ? 0.5 * std::exp((x - 1) / 2) : 1 - 0.5 * std::exp((1 - x) / 2); }, 1, 8},
      {"logistic", [](G& g, const Size& s, DType t) { return g.logistic(1, 2, s, t); },
       [](double x) { return 1 / (1 + std::exp((1 - x) / 2)); }, 1, 4 * kPi * kPi / 3},
      {"gumbel", [](G& g, const Size& s, DType t) { return g.gumbel(1, 2, s, t); },
       [](double x) { return std::exp(-std::exp((1 - x) / 2)); }, 1 + 2 * std::numbers::egamma, 4 * kPi * kPi / 6},
      {"lognormal", [](G& g, const Size& s, DType t) { return g.lognormal(0.5, 0.25, s, t); },
       positive([](double x) { return normal_p((std::log(x) - 0.5) / 0.25); }), std::exp(0.5 + 0.03125),
       std::expm1(0.0625) * std::exp(1 + 0.0625)},
      {"rayleigh", [](G& g, const Size& s, DType t) { return g.rayleigh(3, s, t); },
       [](double x) { return -std::expm1(-x * x / 18); }, 3 * std::sqrt(kPi / 2), (4 - kPi) / 2 * 9},
      {"weibull", [](G& g, const Size& s, DType t) { return g.weibull(1.5, s, t); },
       [](double x) { return -std::expm1(-std::pow(x, 1.5)); }, std::tgamma(1 + 1 / 1.5),
       std::tgamma(1 + 2 / 1.5) - std::pow(std::tgamma(1 + 1 / 1.5), 2)},
      {"pareto", [](G& g, const Size& s, DType t) { return g.pareto(6, s, t); },
       [](double x) { return 1 - std::pow(1 + x, -6); }, 0.2, 6.0 / (25 * 4)},
      {"power", [](G& g, const Size& s, DType t) { return g.power(3, s, t); }, [](double x) { return x * x * x; }, 0.75,
       3.0 / (16 * 5)},
      {"standard_cauchy", [](G& g, const Size& s, DType t) { return g.standard_cauchy(s, t); },
       [](double x) { return 0.5 + std::atan(x) / kPi; }},
      {"triangular", [](G& g, const Size& s, DType t) { return g.triangular(-1, 0, 3, s, t); },
       [](double x) { return x < 0 ? (x + 1) * (x + 1) / 4 : 1 - (3 - x) * (3 - x) / 12; }, 2.0 / 3, 13.0 / 18},
      {"wald", [](G& g, const Size& s, DType t) { return g.wald(2, 3, s, t); },
       [](double x) { return wald_p(2, 3, x); }, 2, 8.0 / 3},
      {"f", [](G& g, const Size& s, DType t) { return g.f(5, 12, s, t); }, [](double x) { return f_p(5, 12, x); }, 1.2,
       2.0 * 144 * 15 / (5 * 100 * 8)},
      {"standard_t", [](G& g, const Size& s, DType t) { return g.standard_t(7, s, t); },
       [](double x) { return t_p(7, x); }, 0, 1.4},
      {"noncentral_chisquare", [](G& g, const Size& s, DType t) { return g.noncentral_chisquare(3, 5, s, t); },
       [](double x) { return mixture(5, [x](int k) { return chi2_p(3 + 2 * k, x); }); }, 8, 26},
      {"noncentral_chisquare of few", [](G& g, const Size& s, DType t) { return g.noncentral_chisquare(0.5, 0, s, t); },
       [](double x) { return chi2_p(0.5, x); }, 0.5, 1},
      {"noncentral_f", [](G& g, const Size& s, DType t) { return g.noncentral_f(4, 20, 3, s, t); },
       [](double x) { return mixture(3, [x](int k) { return beta_p(2 + k, 10, 4 * x / (4 * x + 20)); }); },
       20.0 * 7 / (4 * 18)},
  };
  for (double shape : {0.05, 0.7, 1.0, 2.5, 150.0}) {
    list.push_back({"standard_gamma " + std::to_string(shape),
                    [shape](G& g, const Size& s, DType t) { return g.standard_gamma(shape, s, t); },
                    [shape](double x) { return gamma_p(shape, x); }, shape, shape});
  }
  list.push_back({"gamma", [](G& g, const Size& s, DType t) { return g.gamma(3, 0.5, s, t); },
                  [](double x) { return gamma_p(3, 2 * x); }, 1.5, 0.75});
  list.push_back({"chisquare", [](G& g, const Size& s, DType t) { return g.chisquare(5, s, t); },
                  [](double x) { return chi2_p(5, x); }, 5, 10});
  for (const auto& [a, b] : {std::pair{2.0, 3.0}, {0.5, 0.5}, {0.8, 5.0}, {200.0, 100.0}}) {
    list.push_back({"beta", [a = a, b = b](G& g, const Size& s, DType t) { return g.beta(a, b, s, t); },
                    [a = a, b = b](double x) { return beta_p(a, b, x); }, a / (a + b),
                    a * b / ((a + b) * (a + b) * (a + b + 1))});
  }
  for (double kappa : {0.0, 1e-6, 0.5, 4.0, 200.0}) {
    list.push_back(
        {"vonmises " + std::to_string(kappa),
         [kappa](G& g, const Size& s, DType t) { return g.vonmises(0, kappa, s, t); },
         [kappa, whole = von_mises_integral(kappa, kPi)](double x) { return von_mises_integral(kappa, x) / whole; }});
  }
  list.push_back({"vonmises 2e6", [](G& g, const Size& s, DType t) { return g.vonmises(1, 2e6, s, t); },
                  [](double x) { return normal_p((x - 1) * std::sqrt(2e6)); }, 1, 5e-7});
  return list;
}

TEST_P(RandomTest, DistributionsOfReals) {
  uint64_t seed = 100;
  for (const Continuous& one : continuous()) {
    for (DType dtype : {DType::float64, DType::float32}) {
      if (dtype == DType::float32 && (one.name == "vonmises 2e6" || one.name == "standard_gamma 0.050000")) continue;
      Generator generator(++seed);
      const NdArray drawn = one.draw(generator, kSamples, dtype);
      EXPECT_EQ(drawn.dtype(), dtype);
      ASSERT_EQ(drawn.shape(), (Dims{kSamples}));
      const std::vector<double> x = doubles(drawn);
      EXPECT_GT(ks_test(x, one.cdf), kLeastP) << one.name << ' ' << name(dtype);
      check_moments(x, one.mean, one.variance, one.name);
    }
  }
}

struct Discrete {
  std::string name;
  std::function<NdArray(Generator&, const Size&)> draw;
  int64_t low, high;  // where the mass is worth looking at
  std::function<double(double)> mass;
};

std::vector<Discrete> discrete() {
  using G = Generator;
  std::vector<Discrete> list{
      {"integers", [](G& g, const Size& s) { return g.integers(-3, Arg(10), s); }, -3, 9,
       [](double) { return 1.0 / 13; }},
      {"integers with the end", [](G& g, const Size& s) { return g.integers(5, std::nullopt, s, DType::int64, true); },
       0, 5, [](double) { return 1.0 / 6; }},
      {"geometric", [](G& g, const Size& s) { return g.geometric(0.07, s); }, 1, 300,
       [](double k) { return 0.07 * std::pow(0.93, k - 1); }},
      {"geometric of a half", [](G& g, const Size& s) { return g.geometric(0.5, s); }, 1, 60,
       [](double k) { return std::pow(0.5, k); }},
      {"negative_binomial", [](G& g, const Size& s) { return g.negative_binomial(3.5, 0.3, s); }, 0, 200,
       [](double k) {
         return std::exp(std::lgamma(k + 3.5) - std::lgamma(3.5) - std::lgamma(k + 1) + 3.5 * std::log(0.3) +
                         k * std::log(0.7));
       }},
  };
  for (double mean : {0.3, 9.9, 10.0, 47.0, 12345.0}) {
    const double width = 8 * std::sqrt(mean) + 20;
    list.push_back({"poisson " + std::to_string(mean), [mean](G& g, const Size& s) { return g.poisson(mean, s); },
                    static_cast<int64_t>(std::max(0.0, mean - width)), static_cast<int64_t>(mean + width),
                    [mean](double k) { return poisson_mass(k, mean); }});
  }
  for (const auto& [n, p] :
       {std::pair{10.0, 0.3}, {20.0, 0.01}, {100.0, 0.5}, {1000.0, 0.97}, {50000.0, 0.2}, {12.0, 0.9}}) {
    list.push_back(
        {"binomial " + std::to_string(n) + ' ' + std::to_string(p),
         [n = n, p = p](G& g, const Size& s) { return g.binomial(n, p, s); }, 0, static_cast<int64_t>(n),
         [n = n, p = p](double k) { return std::exp(log_choose(n, k) + k * std::log(p) + (n - k) * std::log1p(-p)); }});
  }
  for (const auto& [good, bad, sample] :
       {std::tuple{15, 10, 6}, {100, 200, 50}, {200, 100, 50}, {300, 100, 350}, {40, 30, 66}, {100000, 300000, 1000}}) {
    list.push_back({"hypergeometric " + std::to_string(good) + ' ' + std::to_string(sample),
                    [good = good, bad = bad, sample = sample](G& g, const Size& s) {
                      return g.hypergeometric(good, bad, sample, s);
                    },
                    std::max(0, sample - bad), std::min(good, sample),
                    [good = good, bad = bad, sample = sample](double k) {
                      return std::exp(log_choose(good, k) + log_choose(bad, sample - k) -
                                      log_choose(good + bad, sample));
                    }});
  }
  for (double p : {0.2, 0.95}) {
    list.push_back({"logseries " + std::to_string(p), [p](G& g, const Size& s) { return g.logseries(p, s); }, 1, 300,
                    [p](double k) { return -std::pow(p, k) / (k * std::log1p(-p)); }});
  }
  for (double a : {1.3, 2.0, 5.0}) {
    double zeta = 0;
    for (int k = 1; k < 100000; ++k) zeta += std::pow(k, -a);
    zeta += std::pow(100000, 1 - a) / (a - 1) + 0.5 * std::pow(100000, -a);
    list.push_back({"zipf " + std::to_string(a), [a](G& g, const Size& s) { return g.zipf(a, s); }, 1, 400,
                    [a, zeta](double k) { return std::pow(k, -a) / zeta; }});
  }
  return list;
}

TEST_P(RandomTest, DistributionsOfCounts) {
  uint64_t seed = 500;
  for (const Discrete& one : discrete()) {
    Generator generator(++seed);
    const NdArray drawn = one.draw(generator, kSamples);
    EXPECT_EQ(drawn.dtype(), DType::int64);
    const double p = chi_square_test(to_vector<int64_t>(drawn), one.low, one.high, one.mass);
    EXPECT_GT(p, kLeastP) << one.name;
  }
}

TEST_P(RandomTest, CountsOfDegenerateParameters) {
  Generator g(1);
  const auto all = [](const NdArray& x, int64_t value) {
    const std::vector<int64_t> values = to_vector<int64_t>(x);
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
  };
  EXPECT_TRUE(all(g.binomial(7, 0, 100), 0));
  EXPECT_TRUE(all(g.binomial(7, 1, 100), 7));
  EXPECT_TRUE(all(g.binomial(0, 0.5, 100), 0));
  EXPECT_TRUE(all(g.poisson(0, 100), 0));
  EXPECT_TRUE(all(g.geometric(1, 100), 1));
  EXPECT_TRUE(all(g.logseries(0, 100), 1));
  EXPECT_TRUE(all(g.negative_binomial(5, 1, 100), 0));
  EXPECT_TRUE(all(g.hypergeometric(5, 0, 3, 100), 3));
  EXPECT_TRUE(all(g.hypergeometric(0, 50, 30, 100), 0));
  EXPECT_TRUE(all(g.hypergeometric(20, 30, 50, 100), 20));
  EXPECT_TRUE(all(g.hypergeometric(0, 0, 0, 100), 0));
  EXPECT_TRUE(all(g.zipf(2000, 100), 1));
  EXPECT_TRUE(all(g.integers(4, Arg(5), 100), 4));
  EXPECT_EQ(doubles(g.standard_gamma(0, 3)), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(doubles(g.weibull(0, 3)), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(doubles(g.normal(2, 0, 3)), (std::vector<double>{2, 2, 2}));
  // Large counts stay in their range.
  for (int64_t v : to_vector<int64_t>(g.geometric(1e-300, 100))) EXPECT_GT(v, int64_t{1} << 62);
  for (int64_t v : to_vector<int64_t>(g.poisson(9e18, 100))) EXPECT_NEAR(static_cast<double>(v), 9e18, 3e10);
  for (int64_t v : to_vector<int64_t>(g.binomial(int64_t{1} << 40, 0.25, 1000)))
    EXPECT_NEAR(static_cast<double>(v), 0x1p38, 6 * std::sqrt(0x1p38 * 0.75));
  for (double v : doubles(g.beta(1e-3, 1e-3, 1000))) EXPECT_TRUE(v >= 0 && v <= 1) << v;
}

// ---- Vectors ----

TEST_P(RandomTest, Vectors) {
  Generator g(7);
  const NdArray d = g.dirichlet(from_vector(std::vector<double>{0.5, 2, 3.5}), kSamples);
  ASSERT_EQ(d.shape(), (Dims{kSamples, 3}));
  for (double s : doubles(reduce("sum"_reduction, d, 1))) ASSERT_NEAR(s, 1, 1e-14);
  const double alpha[] = {0.5, 2, 3.5};
  for (int64_t j = 0; j < 3; ++j) {
    const double a = alpha[j];
    EXPECT_GT(ks_test(doubles(d[{full_slice, j}]), [a](double x) { return beta_p(a, 6 - a, x); }), kLeastP) << j;
  }
  // Small alphas put everything in one place.
  for (double s : doubles(reduce("sum"_reduction, g.dirichlet(from_vector(std::vector<double>{1e-4, 1e-4}), 1000), 1)))
    ASSERT_NEAR(s, 1, 1e-14);
  EXPECT_EQ(doubles(g.dirichlet(from_vector(std::vector<double>{0, 0}))), (std::vector<double>{0, 0}));

  const NdArray m = g.multinomial(20, from_vector(std::vector<double>{0.2, 0.5, 0.3}), kSamples);
  ASSERT_EQ(m.shape(), (Dims{kSamples, 3}));
  for (int64_t s : to_vector<int64_t>(reduce("sum"_reduction, m, 1))) ASSERT_EQ(s, 20);
  const double p[] = {0.2, 0.5, 0.3};
  for (int64_t j = 0; j < 3; ++j) {
    const double q = p[j];
    EXPECT_GT(chi_square_test(
                  to_vector<int64_t>(m[{full_slice, j}]), 0, 20,
                  [q](double k) { return std::exp(log_choose(20, k) + k * std::log(q) + (20 - k) * std::log1p(-q)); }),
              kLeastP)
        << j;
  }
  EXPECT_EQ(g.multinomial(from_vector(std::vector<int64_t>{5, 6}),
                          from_vector(std::vector<double>{0.5, 0.5, 0.2, 0.8}, Dims{2, 2}), Ints{3, 2})
                .shape(),
            (Dims{3, 2, 2}));

  const NdArray h = g.multivariate_hypergeometric({30, 0, 20, 50}, 40, kSamples);
  ASSERT_EQ(h.shape(), (Dims{kSamples, 4}));
  for (int64_t s : to_vector<int64_t>(reduce("sum"_reduction, h, 1))) ASSERT_EQ(s, 40);
  const double colors[] = {30, 0, 20, 50};
  for (int64_t j : {0, 2, 3}) {
    const double good = colors[j];
    EXPECT_GT(
        chi_square_test(to_vector<int64_t>(h[{full_slice, j}]), 0, static_cast<int64_t>(std::min(good, 40.0)),
                        [good](double k) {
                          return std::exp(log_choose(good, k) + log_choose(100 - good, 40 - k) - log_choose(100, 40));
                        }),
        kLeastP)
        << j;
  }
  for (int64_t v : to_vector<int64_t>(h[{full_slice, 1}])) ASSERT_EQ(v, 0);

  const NdArray mean = from_vector(std::vector<double>{1, -2});
  const NdArray cov = from_vector(std::vector<double>{4, 1.5, 1.5, 1}, Dims{2, 2});
  const NdArray x = g.multivariate_normal(mean, cov, kSamples);
  ASSERT_EQ(x.shape(), (Dims{kSamples, 2}));
  const std::vector<double> a = doubles(x[{full_slice, 0}]), b = doubles(x[{full_slice, 1}]);
  EXPECT_GT(ks_test(a, [](double v) { return normal_p((v - 1) / 2); }), kLeastP);
  EXPECT_GT(ks_test(b, [](double v) { return normal_p(v + 2); }), kLeastP);
  std::vector<double> sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  EXPECT_GT(ks_test(sum, [](double v) { return normal_p((v + 1) / std::sqrt(8.0)); }), kLeastP);
  EXPECT_EQ(g.multivariate_normal(mean, cov).shape(), (Dims{2}));
  EXPECT_EQ(g.multivariate_normal(mean, cov, Ints{3, 0}).shape(), (Dims{3, 0, 2}));
}

// ---- Order and selection ----

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}
std::vector<int64_t> range(int64_t n) {
  std::vector<int64_t> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), int64_t{0});
  return values;
}

TEST_P(RandomTest, Permutations) {
  Generator g(3);
  for (int64_t n : {0, 1, 2, 1000, 100000}) {
    const std::vector<int64_t> order = to_vector<int64_t>(g.permutation(n));
    EXPECT_EQ(sorted(order), range(n));
    if (n >= 1000) {
      EXPECT_NE(order, range(n));
    }
  }
  EXPECT_EQ(g.permutation(-1).shape(), (Dims{0}));
  // All orders of three are as likely.
  std::map<std::vector<int64_t>, int> counts;
  for (int i = 0; i < 600; ++i) ++counts[to_vector<int64_t>(g.permutation(3))];
  EXPECT_EQ(counts.size(), 6u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 100, 45);

  const NdArray x = from_vector(range(600), Dims{20, 30});
  const NdArray rows = g.permutation(x), columns = g.permutation(x, 1);
  std::set<int64_t> firsts;
  for (int64_t i = 0; i < 20; ++i) {
    const std::vector<int64_t> row = to_vector<int64_t>(rows[{i}]);
    firsts.insert(row[0]);
    for (int64_t j = 0; j < 30; ++j) ASSERT_EQ(row[static_cast<size_t>(j)], row[0] + j);
  }
  EXPECT_EQ(firsts.size(), 20u);
  EXPECT_EQ(sorted(to_vector<int64_t>(columns[{int64_t{0}}])), range(30));
  const std::vector<int64_t> first = to_vector<int64_t>(columns[{int64_t{0}}]),
                             last = to_vector<int64_t>(columns[{int64_t{19}}]);
  for (size_t j = 0; j < 30; ++j) EXPECT_EQ(last[j], first[j] + 570);

  const NdArray each = g.permuted(x, 1);
  int moved_alike = 0;
  for (int64_t i = 0; i < 20; ++i) {
    std::vector<int64_t> row = to_vector<int64_t>(each[{i}]);
    for (int64_t& v : row) v -= 30 * i;
    moved_alike += row == first ? 1 : 0;
    EXPECT_EQ(sorted(row), range(30));
  }
  EXPECT_LT(moved_alike, 2);
  EXPECT_EQ(sorted(to_vector<int64_t>(g.permuted(x))), range(600));
  EXPECT_EQ(g.permuted(x).shape(), (Dims{20, 30}));
  EXPECT_EQ(sorted(to_vector<int64_t>(g.permuted(x, 0, x).reshape(Dims{600}))), range(600));

  // In place, through a view with negative strides.
  const NdArray y = from_vector(range(100));
  g.shuffle(y[{Slice{std::nullopt, std::nullopt, -2}}]);
  const std::vector<int64_t> shuffled = to_vector<int64_t>(y);
  for (size_t i = 0; i < 100; i += 2) EXPECT_EQ(shuffled[i], static_cast<int64_t>(i));
  EXPECT_EQ(sorted(shuffled), range(100));
  EXPECT_NE(shuffled, range(100));
  const NdArray z = from_vector(range(6), Dims{2, 3});
  g.shuffle(z, -1);
  EXPECT_EQ(to_vector<int64_t>(z[{int64_t{1}}] - z[{int64_t{0}}]), (std::vector<int64_t>{3, 3, 3}));
  g.shuffle(from_vector(std::vector<int64_t>{}));
}

TEST_P(RandomTest, Choice) {
  Generator g(11);
  // With replacement.
  EXPECT_GT(
      chi_square_test(to_vector<int64_t>(g.choice(int64_t{12}, kSamples)), 0, 11, [](double) { return 1.0 / 12; }),
      kLeastP);
  const std::vector<double> weights{0.1, 0, 0.6, 0.3};
  const NdArray p = from_vector(weights);
  EXPECT_GT(chi_square_test(to_vector<int64_t>(g.choice(int64_t{4}, kSamples, true, p)), 0, 3,
                            [&](double k) { return weights[static_cast<size_t>(k)]; }),
            kLeastP);
  // Without: distinct ones, every one as likely.
  for (int64_t k : {0, 1, 500, 1000})
    for (bool weighted : {false, true}) {
      std::optional<NdArray> chances;
      if (weighted) {
        std::vector<double> values(1000);
        for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i + 1) / 500500.0;
        chances = from_vector(values);
      }
      const std::vector<int64_t> picks = to_vector<int64_t>(g.choice(int64_t{1000}, k, false, chances));
      EXPECT_EQ(std::set<int64_t>(picks.begin(), picks.end()).size(), static_cast<size_t>(k));
      for (int64_t pick : picks) EXPECT_TRUE(pick >= 0 && pick < 1000);
    }
  // The first two of successive draws: P(i, j) = p_i p_j / (1 - p_i).
  std::map<std::pair<int64_t, int64_t>, int> pairs;
  constexpr int kRounds = 1000;
  for (int i = 0; i < kRounds; ++i) {
    const std::vector<int64_t> two = to_vector<int64_t>(g.choice(int64_t{4}, 2, false, p));
    ++pairs[{two[0], two[1]}];
  }
  double statistic = 0;
  for (int64_t i : {0, 2, 3})
    for (int64_t j : {0, 2, 3}) {
      if (i == j) continue;
      const double pi = weights[static_cast<size_t>(i)], pj = weights[static_cast<size_t>(j)];
      const double expected = kRounds * pi * pj / (1 - pi), observed = pairs[{i, j}];
      statistic += (observed - expected) * (observed - expected) / expected;
    }
  EXPECT_GT(1 - gamma_p(2.5, statistic / 2), kLeastP);
  EXPECT_EQ(pairs.size(), 6u);

  const NdArray x = from_vector(range(12), Dims{3, 4});
  EXPECT_EQ(g.choice(x, Ints{5, 2}).shape(), (Dims{5, 2, 4}));
  EXPECT_EQ(g.choice(x, Ints{5, 2}, true, std::nullopt, 1).shape(), (Dims{3, 5, 2}));
  EXPECT_EQ(g.choice(x).shape(), (Dims{4}));
  EXPECT_EQ(sorted(to_vector<int64_t>(g.choice(x, 4, false, std::nullopt, -1)[{int64_t{2}}])),
            (std::vector<int64_t>{8, 9, 10, 11}));
  EXPECT_EQ(g.choice(from_vector(std::vector<float>{}), 0).dtype(), DType::float32);
}

// ---- Shapes, dtypes, state ----

TEST_P(RandomTest, IntegersOfEveryDtype) {
  Generator g(5);
  for (DType dtype : {DType::bool_, DType::int8, DType::uint8, DType::int16, DType::uint16, DType::int32, DType::uint32,
                      DType::int64, DType::uint64}) {
    const NdArray x = g.integers(0, Arg(2), 1000, dtype);
    EXPECT_EQ(x.dtype(), dtype);
    const double ones = reduce("sum"_reduction, x.astype(DType::float64)).item().as_double();
    EXPECT_NEAR(ones, 500, 80);
  }
  // The whole range of a type, both ways.
  const std::vector<int64_t> all = to_vector<int64_t>(g.integers(INT64_MIN, Arg(INT64_MAX), 10000, DType::int64, true));
  EXPECT_NEAR(static_cast<double>(std::count_if(all.begin(), all.end(), [](int64_t v) { return v < 0; })), 5000, 300);
  const std::vector<uint64_t> high =
      to_vector<uint64_t>(g.integers(Arg(uint64_t{1} << 63), Arg(UINT64_MAX), 100, DType::uint64, true));
  for (uint64_t v : high) EXPECT_GE(v, uint64_t{1} << 63);
  for (int8_t v : to_vector<int8_t>(g.integers(-128, Arg(128), 100, DType::int8))) static_cast<void>(v);
  // Bounds that broadcast.
  const NdArray low = from_vector(std::vector<int32_t>{0, 10, -5}),
                ends = from_vector(std::vector<int32_t>{2, 11}, {2, 1});
  const NdArray y = g.integers(low, Arg(low + 3), Ints{4, 3});
  EXPECT_EQ(y.shape(), (Dims{4, 3}));
  const std::vector<int64_t> values = to_vector<int64_t>(y - low);
  for (int64_t v : values) EXPECT_TRUE(v >= 0 && v < 3) << v;
  EXPECT_EQ(g.integers(ends).shape(), (Dims{2, 1}));
}

TEST_P(RandomTest, ParametersBroadcast) {
  Generator g(9);
  const NdArray column = from_vector(std::vector<double>{0, 1000}, Dims{2, 1}),
                row = from_vector(std::vector<float>{1, 2, 3});
  EXPECT_EQ(g.normal(column, row).shape(), (Dims{2, 3}));
  const NdArray x = g.normal(column, row, Ints{50, 2, 3});
  EXPECT_EQ(x.shape(), (Dims{50, 2, 3}));
  EXPECT_EQ(x.dtype(), DType::float64);
  for (double v : doubles(x[{full_slice, 0}])) EXPECT_LT(std::abs(v), 30);
  for (double v : doubles(x[{full_slice, 1}])) EXPECT_LT(std::abs(v - 1000), 30);
  // The draws are those of the element index, whatever the parameters are.
  Generator a(4), b(4);
  EXPECT_EQ(doubles(a.normal(column, row, Ints{5, 2, 3})),
            doubles(b.standard_normal(Ints{5, 2, 3}) * row.astype(DType::float64) + column));
  EXPECT_EQ(g.gamma(row, 2).shape(), (Dims{3}));
  EXPECT_EQ(g.poisson(column, Ints{0, 2, 1}).shape(), (Dims{0, 2, 1}));
  EXPECT_EQ(g.normal().shape(), Dims{});
  EXPECT_EQ(g.uniform(0, 1, Ints(std::vector<int64_t>{})).shape(), Dims{});
  EXPECT_EQ(g.beta(1, from_vector(std::vector<double>{2}), Ints{2, 1}).shape(), (Dims{2, 1}));
}

TEST_P(RandomTest, WritesIntoOut) {
  Generator a(2), b(2);
  const NdArray base(Dims{6, 10}, DType::float32);
  base.fill(Scalar(-1.0));
  const NdArray out = base[{Slice{std::nullopt, std::nullopt, 2}, Slice{std::nullopt, std::nullopt, -1}}];
  const NdArray result = a.random({}, DType::float32, out);
  EXPECT_EQ(result.raw(), out.raw());
  EXPECT_EQ(doubles(out), doubles(b.random(Ints{3, 10}, DType::float32)));
  EXPECT_EQ(doubles(base[{int64_t{1}}]), std::vector<double>(10, -1));
  const NdArray shape = from_vector(std::vector<double>{1, 2, 3});
  Generator c(2), d(2);
  const std::vector<double> expected = doubles(c.standard_gamma(shape));
  d.standard_gamma(shape, {}, DType::float64, shape);  // the parameters themselves
  EXPECT_EQ(doubles(shape), expected);
}

TEST_P(RandomTest, StateAdvances) {
  Generator a(42), b(42), c(43);
  const std::vector<double> first = doubles(a.random(100)), second = doubles(a.random(100));
  EXPECT_NE(first, second);
  EXPECT_EQ(doubles(b.random(100)), first);
  EXPECT_EQ(doubles(b.random(Ints{10, 10})), second);  // the shape does not matter, the index does
  EXPECT_NE(doubles(c.random(100)), first);
  Generator copy = a;
  EXPECT_EQ(doubles(copy.normal(0, 1, 5)), doubles(a.normal(0, 1, 5)));
  EXPECT_EQ(a.bytes(5).size(), 5u);
  EXPECT_EQ(a.bytes(0), "");
  EXPECT_NE(default_rng().seed(), default_rng().seed());
  // A shorter draw is the beginning of a longer one.
  Generator d(42), e(42);
  const std::vector<double> longer = doubles(d.gamma(0.5, 1, 1000)), shorter = doubles(e.gamma(0.5, 1, 10));
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

// The queued device and one thread give the CPU's bits.
TEST(RandomBits, SameOnEveryCpuDevice) {
  const auto draw_all = [](const ExecContext& context) {
    const DeviceScope scope(context);
    std::vector<std::vector<double>> all;
    uint64_t seed = 1;
    for (const Continuous& one : continuous())
      for (DType dtype : {DType::float64, DType::float32}) {
        Generator generator(++seed);
        all.push_back(doubles(one.draw(generator, Ints{7, 1000}, dtype)));
      }
    for (const Discrete& one : discrete()) {
      Generator generator(++seed);
      all.push_back(doubles(one.draw(generator, Ints{7, 1000})));
    }
    Generator generator(++seed);
    all.push_back(doubles(generator.permutation(5000)));
    all.push_back(doubles(generator.choice(int64_t{5000}, 100, false)));
    return all;
  };
  const auto expected = draw_all(default_context(kCpu));
  ExecContext one_thread = default_context(kCpu);
  one_thread.threads = 1;
  EXPECT_EQ(draw_all(one_thread), expected);
  if (!available(DeviceKind::emulated)) return;
  EXPECT_EQ(draw_all(default_context(Device{DeviceKind::emulated, 0})), expected);
}

// ---- Errors ----

TEST_P(RandomTest, ErrorsNameTheParameter) {
  Generator g(1);
  const uint64_t before = g.bit_generator().offset;
  const auto fails = [](const std::string& text, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "nothing thrown for: " << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what() << " for: " << text;
    }
  };
  const NdArray negative = from_vector(std::vector<double>{1, -1}), nan = from_vector(std::vector<double>{1, kNone});
  const NdArray two = from_vector(std::vector<double>{1, 2});
  fails("scale < 0", [&] { g.normal(0, -1); });
  fails("scale < 0", [&] { g.normal(0, negative); });
  fails("scale must not be NaN", [&] { g.normal(0, kNone); });
  fails("scale must not be NaN", [&] { g.normal(0, nan); });
  fails("loc must not be NaN", [&] { g.normal(nan, 1); });
  fails("high - low < 0", [&] { g.uniform(3, 1); });
  fails("high - low < 0", [&] { g.uniform(two, 1); });
  fails("range exceeds", [&] { g.uniform(0, HUGE_VAL); });
  fails("scale < 0", [&] { g.exponential(negative); });
  fails("shape < 0", [&] { g.standard_gamma(-1); });
  fails("shape < 0", [&] { g.gamma(negative, 1); });
  fails("scale < 0", [&] { g.gamma(1, -2); });
  fails("a <= 0", [&] { g.beta(0, 1); });
  fails("b <= 0", [&] { g.beta(1, negative); });
  fails("df <= 0", [&] { g.chisquare(0); });
  fails("dfnum <= 0", [&] { g.f(0, 1); });
  fails("dfden <= 0", [&] { g.f(1, 0); });
  fails("df <= 0", [&] { g.standard_t(0); });
  fails("nonc < 0", [&] { g.noncentral_chisquare(1, -1); });
  fails("dfden <= 0", [&] { g.noncentral_f(1, 0, 1); });
  fails("scale < 0", [&] { g.gumbel(0, -1); });
  fails("scale < 0", [&] { g.laplace(0, -1); });
  fails("scale < 0", [&] { g.logistic(0, -1); });
  fails("sigma < 0", [&] { g.lognormal(0, -1); });
  fails("scale < 0", [&] { g.rayleigh(-1); });
  fails("a < 0", [&] { g.weibull(-1); });
  fails("a <= 0", [&] { g.pareto(0); });
  fails("a <= 0", [&] { g.power(negative); });
  fails("kappa < 0", [&] { g.vonmises(0, -1); });
  fails("mean <= 0", [&] { g.wald(0, 1); });
  fails("scale <= 0", [&] { g.wald(1, 0); });
  fails("left > mode", [&] { g.triangular(3, 2, 1); });
  fails("mode > right", [&] { g.triangular(1, Arg(two + 5), 2); });
  fails("left == right", [&] { g.triangular(1, 1, 1); });
  fails("n < 0", [&] { g.binomial(-1, 0.5); });
  fails("p < 0, p > 1 or p is NaN", [&] { g.binomial(5, 1.5); });
  fails("p < 0, p > 1 or p is NaN", [&] { g.binomial(5, nan); });
  fails("lam < 0 or lam is NaN", [&] { g.poisson(negative); });
  fails("lam value too large", [&] { g.poisson(1e19); });
  fails("lam value too large", [&] { g.poisson(two * 1e19); });
  fails("p <= 0", [&] { g.geometric(0); });
  fails("p < 0, p >= 1", [&] { g.logseries(1); });
  fails("n <= 0", [&] { g.negative_binomial(0, 0.5); });
  fails("p <= 0", [&] { g.negative_binomial(1, 0); });
  fails("n too large or p too small", [&] { g.negative_binomial(1e18, 1e-9); });
  fails("a <= 1 or a is NaN", [&] { g.zipf(1); });
  fails("ngood + nbad < nsample", [&] { g.hypergeometric(1, 2, 5); });
  fails("ngood + nbad < nsample", [&] { g.hypergeometric(two.astype(DType::int64), 2, 5); });
  fails("less than 1000000000", [&] { g.hypergeometric(1000000000, 2, 5); });
  fails("nbad < 0", [&] { g.hypergeometric(1, -2, 1); });
  fails("low >= high", [&] { g.integers(5, Arg(5)); });
  fails("low > high", [&] { g.integers(6, Arg(5), {}, DType::int64, true); });
  fails("high is out of bounds for int8", [&] { g.integers(0, Arg(300), {}, DType::int8); });
  fails("low is out of bounds for uint8", [&] { g.integers(-1, Arg(5), {}, DType::uint8); });
  fails("low is out of bounds for uint8", [&] { g.integers(negative, Arg(5), {}, DType::uint8); });
  fails("low >= high", [&] { g.integers(two, Arg(2)); });
  fails("alpha < 0", [&] { g.dirichlet(negative); });
  fails("sum(pvals[:-1]) > 1.0", [&] { g.multinomial(5, from_vector(std::vector<double>{0.5, 0.6, 0.1})); });
  fails("pvals < 0", [&] { g.multinomial(5, negative); });
  fails("nsample > sum(colors)", [&] { g.multivariate_hypergeometric({1, 2}, 5); });
  fails("not symmetric positive-semidefinite", [&] {
    g.multivariate_normal(two, from_vector(std::vector<double>{1, 2, 2, 1}, Dims{2, 2}), {}, "raise");
  });
  fails("mean and cov must have same length", [&] {
    g.multivariate_normal(two, from_vector(std::vector<double>{1}, Dims{1, 1}));
  });
  fails("a must be a positive integer", [&] { g.choice(int64_t{0}); });
  fails("Probabilities do not sum to 1", [&] { g.choice(int64_t{2}, {}, true, two); });
  fails("Probabilities are not non-negative", [&] {
    g.choice(int64_t{2}, {}, true, from_vector(std::vector<double>{-0.5, 1.5}));
  });
  fails("Probabilities contain NaN", [&] { g.choice(int64_t{2}, {}, true, nan); });
  fails("same size", [&] { g.choice(int64_t{3}, {}, true, two); });
  fails("larger sample than population", [&] { g.choice(int64_t{2}, 3, false); });
  fails("Fewer non-zero entries in p than size", [&] {
    g.choice(int64_t{2}, 2, false, from_vector(std::vector<double>{0, 1}));
  });
  fails("negative dimensions", [&] { g.random(-1); });
  fails("Output size", [&] { g.normal(two, 1, 3); });
  fails("size must match out.shape", [&] { g.random(3, DType::float64, NdArray(Dims{4}, DType::float64)); });
  fails("expected non-negative integer", [&] { default_rng(-1); });
  EXPECT_THROW(g.random({}, DType::float64, NdArray(Dims{4}, DType::float32)), TypeError);
  EXPECT_THROW(g.random(3, DType::int32), TypeError);
  EXPECT_THROW(g.integers(3, {}, {}, DType::float64), TypeError);
  EXPECT_THROW(g.normal(Arg(std::complex<double>(0, 1))), TypeError);
  EXPECT_THROW(g.binomial(two, 0.5), TypeError);
  EXPECT_THROW(g.hypergeometric(two, 2, 5), TypeError);
  EXPECT_THROW(g.permutation(two, 1), IndexError);
  EXPECT_THROW(g.shuffle(two, 1), IndexError);
  EXPECT_THROW(g.shuffle(two.broadcast_to(Dims{3, 2})), InvalidArgument);
  EXPECT_EQ(g.bit_generator().offset, before);  // a refused call draws nothing
  EXPECT_EQ(g.random(3).shape(), (Dims{3}));
}

}  // namespace
}  // namespace quarry::local
