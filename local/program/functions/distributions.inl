// Distributions by rejection.
//
// Every element has a key of its own, 64 random bits, and takes as many blocks as it needs: Philox4x32-10 with that key
// and a counter of draws. Parameters that are NaN or out of range give NaN, so that every loop ends.
//
// random_NAME_sampler holds what depends on the parameters alone, for those who draw many samples of them:
// random_NAME(key, y, z) is sample() after make().
namespace quarry::local::fn {

// Blocks of one element.
struct element_draws {
  uint64_t key;
  uint32_t next;
};
QUARRY_FN element_draws draws_of(uint64_t key) { return {key, 0}; }
QUARRY_FN philox_block next_block(element_draws& draws) {
  return philox4x32_10(draws.next++, 0, 0, 0, static_cast<uint32_t>(draws.key), static_cast<uint32_t>(draws.key >> 32));
}
// (0, 1), of 32 bits: (w + 1/2) 2^-32.
QUARRY_FN double open_uniform(uint32_t w) {
  return QUARRY_BIT_CAST(double, (static_cast<uint64_t>(w) << 20) | 0x3ff0000000000000ull) - 0.99999999988358467817;
}
// (0, 1], of 53 bits.
QUARRY_FN double positive_uniform(uint64_t w) { return 1.0 - uniform64(w); }

inline constexpr double kHalfLogTwoPi = 0.91893853320467274178;

// log(n!) - log(sqrt(2 pi n) (n / e)^n) for integers n >= 1: Stirling's series.
QUARRY_FN double stirling_error(double n) {
  if (n < 10) {
    double product = 1;
    for (double k = 2; k <= n; k += 1) product *= k;
    return math::log(product) - (n + 0.5) * math::log(n) + n - kHalfLogTwoPi;
  }
  const double r = 1 / n, r2 = r * r;
  return r * (1.0 / 12 - r2 * (1.0 / 360 - r2 * (1.0 / 1260 - r2 * (1.0 / 1680))));
}
QUARRY_FN double log_factorial(double n) {
  if (n < 2) return 0;
  return (n + 0.5) * math::log(n) - n + kHalfLogTwoPi + stirling_error(n);
}
// x log(x / m) + m - x without cancellation near x = m: with v = (x - m) / (x + m) it is
// (x - m) v + 2 x (v^3 / 3 + v^5 / 5 + ...) (C. Loader, Fast and Accurate Computation of Binomial Probabilities, 2000).
QUARRY_FN double deviance(double x, double m) {
  const double v = (x - m) / (x + m);
  if (v > 0.1 || v < -0.1) return x * math::log(x / m) + m - x;
  const double v2 = v * v;
  double sum = 1.0 / 21;
  for (int k = 19; k >= 3; k -= 2) sum = sum * v2 + 1.0 / k;
  return (x - m) * v + 2 * x * v * v2 * sum;
}
QUARRY_FN double poisson_log_mass(double k, double mean) {
  if (k == 0) return -mean;
  return -stirling_error(k) - deviance(k, mean) - kHalfLogTwoPi - 0.5 * math::log(k);
}
QUARRY_FN double binomial_log_mass(double k, double n, double p) {
  const double q = 1 - p;
  if (k == 0) return n * math::log1p(-p);
  if (k == n) return n * math::log(p);
  return stirling_error(n) - stirling_error(k) - stirling_error(n - k) - deviance(k, n * p) - deviance(n - k, n * q) -
         kHalfLogTwoPi + 0.5 * (math::log(n / k) - math::log(n - k));
}

// A normal by 52 bits of radius and 32 of angle.
QUARRY_FN double angle_of(uint32_t w) {
  return static_cast<double>(static_cast<int32_t>(w << 2)) * 3.65729516644887104e-10;  // pi / 2^33
}
QUARRY_FN double normal_of(uint64_t radius, uint32_t angle) {
  return normals_at(normal_radius(radius), shared_sincos(angle_of(angle)), static_cast<uint64_t>(angle) << 32).first;
}

// Gamma (G. Marsaglia, W. W. Tsang, A Simple Method for Generating Gamma Variables, 2000). One block per attempt: a
// normal of 52 and 32 bits, 32 for the test. A shape below 1: that of shape + 1 times u^(1 / shape).
struct random_gamma_sampler {
  double shape, d, c;
};
QUARRY_FN void make(random_gamma_sampler& s, double shape) {
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
  s = {shape, d, 1 / math::sqrt(9 * d)};
}
// Whether a normal x, an open uniform u and their t = 1 + c x give a sample d t^3.
QUARRY_FN bool accepts(const random_gamma_sampler& s, double x, double t, double u) {
  if (t <= 0) return false;
  const double v = t * t * t, x2 = x * x;
  return u < 1 - 0.0331 * x2 * x2 || shared_log(u) < 0.5 * x2 + s.d * (1 - v + shared_log(v));
}
QUARRY_FN double sample_of_large_shape(const random_gamma_sampler& s, element_draws& draws) {
  for (;;) {
    const philox_block block = next_block(draws);
    const double x = normal_of(word64(block, 0), block.w[2]), t = 1 + s.c * x;
    if (accepts(s, x, t, open_uniform(block.w[3]))) return s.d * (t * t * t);
  }
}
QUARRY_FN double sample(const random_gamma_sampler& s, uint64_t key) {
  if (!(s.shape > 0)) return s.shape == 0 ? 0.0 : quiet_nan<double>();
  if (isinf(s.shape)) return s.shape;
  element_draws draws = draws_of(key);
  if (s.shape >= 1) return sample_of_large_shape(s, draws);
  const double u = positive_uniform(word64(next_block(draws), 0));
  return sample_of_large_shape(s, draws) * math::pow(u, 1 / s.shape);
}
QUARRY_FN double random_gamma(uint64_t key, double shape) {
  random_gamma_sampler s;
  make(s, shape);
  return sample(s, key);
}
// The logarithm of the same, which does not underflow for small shapes.
struct random_log_gamma_sampler {
  random_gamma_sampler gamma;
};
QUARRY_FN void make(random_log_gamma_sampler& s, double shape) { make(s.gamma, shape); }
QUARRY_FN double sample(const random_log_gamma_sampler& s, uint64_t key) {
  const double shape = s.gamma.shape;
  if (!(shape > 0)) return shape == 0 ? -infinity<double>() : quiet_nan<double>();
  if (isinf(shape)) return shape;
  element_draws draws = draws_of(key);
  if (shape >= 1) return shared_log(sample_of_large_shape(s.gamma, draws));
  const double u = positive_uniform(word64(next_block(draws), 0));
  return shared_log(sample_of_large_shape(s.gamma, draws)) + shared_log(u) / shape;
}
QUARRY_FN double random_log_gamma(uint64_t key, double shape) {
  random_log_gamma_sampler s;
  make(s, shape);
  return sample(s, key);
}

// ---- Counts ----
//
// Samplers of counts know the mass of a count; who draws many samples keeps masses in a table: hat_mass(table, s, k)
// and invert(table, s, u). This one computes every mass.
struct no_table {};
template <class S>
QUARRY_FN double hat_mass(const no_table&, const S& s, double k) {
  return hat_mass(s, k);
}
// The count whose cumulated mass exceeds u, from 0 on. Behind the last count rounding is all that is left of u.
template <class S>
QUARRY_FN double invert(const no_table&, const S& s, double u) {
  double mass = first_mass(s), k = 0;
  while (u >= mass && !is_last(s, k, mass)) {
    u -= mass;
    k += 1;
    mass *= mass_factor(s, k);
  }
  return k;
}

// Transformed rejection with squeeze: counts floor((2 a / us + b) u + centre), us the distance of u from its ends, at
// most `most`; `scale` relates the hat to hat_mass(). `corners`: leave out where us < 0.013 and v > us.
struct transformed_rejection {
  double a, b, centre, squeeze, scale, most;
  bool corners;
};
QUARRY_FN double count_at(const transformed_rejection& t, double u, double us) {
  return math::floor((math::divide_normal(2 * t.a, us) + t.b) * u + t.centre);
}
// One attempt by two words of random bits.
template <class S, class Table>
QUARRY_FN bool attempt(const transformed_rejection& t, uint64_t first, uint64_t second, const S& s, Table& table,
                       double& k) {
  const double u = open_unit(first) - 0.5, v = open_unit(second), us = 0.5 - (u < 0 ? -u : u);
  k = count_at(t, u, us);
  if (k < 0 || k > t.most) return false;
  if (us >= 0.07 && v <= t.squeeze) return true;
  if (t.corners && us < 0.013 && v > us) return false;
  const double us2 = us * us;
  return v * t.scale * us2 <= hat_mass(table, s, k) * (t.a + t.b * us2);
}
template <class S, class Table>
QUARRY_FN double sample_count(const S& s, uint64_t key, Table& table) {
  element_draws draws = draws_of(key);
  if (s.inverts) return invert(table, s, uniform64(word64(next_block(draws), 0)));
  for (;;) {
    const philox_block block = next_block(draws);
    double k = 0;
    if (attempt(s.hat, word64(block, 0), word64(block, 1), s, table, k)) return k;
  }
}

// Small means by inversion, else by rejection (W. Hoermann, The transformed rejection method for generating Poisson
// random variables, 1993).
struct random_poisson_sampler {
  double mean;
  transformed_rejection hat;
  bool valid, inverts;
};
QUARRY_FN void make(random_poisson_sampler& s, double mean) {
  const double b = 0.931 + 2.53 * math::sqrt(mean), a = -0.059 + 0.02483 * b;
  s = {mean,
       {a, b, mean + 0.43, 0.9277 - 3.6224 / (b - 2), 1.1239 + 1.1328 / (b - 3.4), infinity<double>(), true},
       mean >= 0 && !isinf(mean),
       mean < 10};
}
QUARRY_FN double first_mass(const random_poisson_sampler& s) { return math::exp(-s.mean); }
QUARRY_FN double mass_factor(const random_poisson_sampler& s, double k) { return s.mean / k; }
QUARRY_FN bool is_last(const random_poisson_sampler& s, double k, double mass) { return k > s.mean && mass < 1e-17; }
QUARRY_FN double hat_mass(const random_poisson_sampler& s, double k) { return math::exp(poisson_log_mass(k, s.mean)); }
QUARRY_FN double hat_centre(const random_poisson_sampler& s) { return s.mean; }
template <class Table>
QUARRY_FN double sample(const random_poisson_sampler& s, uint64_t key, Table& table) {
  return s.valid ? sample_count(s, key, table) : quiet_nan<double>();
}
QUARRY_FN double random_poisson(uint64_t key, double mean) {
  random_poisson_sampler s;
  make(s, mean);
  no_table table;
  return sample(s, key, table);
}

// n trials of probability p: inversion where few succeed, else the binomial relative of the above (W. Hoermann, The
// generation of binomial random variates, 1993). The likelier outcome is counted as what is left of n. Masses of the
// hat are relative to the mode's, `mode`.
struct random_binomial_sampler {
  double n, p, s, odds, mode;
  transformed_rejection hat;
  bool valid, none, inverts;
};
QUARRY_FN void make(random_binomial_sampler& s, double n, double p) {
  const double least = p > 0.5 ? 1 - p : p;
  s = {};
  s.n = n;
  s.p = p;
  s.s = least;
  s.odds = least / (1 - least);
  s.valid = n >= 0 && !isinf(n) && p >= 0 && p <= 1;
  s.none = n == 0 || least == 0;
  s.inverts = n * least < 10;
  if (!s.valid || s.inverts) return;
  const double deviation = math::sqrt(n * least * (1 - least));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * least;
  s.hat = {a, b, n * least + 0.5, 0.92 - 4.2 / b, (2.83 + 5.1 / b) * deviation, n, false};
  s.mode = binomial_log_mass(math::floor((n + 1) * least), n, least);
}
QUARRY_FN double first_mass(const random_binomial_sampler& s) { return math::exp(s.n * math::log1p(-s.s)); }
QUARRY_FN double mass_factor(const random_binomial_sampler& s, double k) { return (s.n - k + 1) / k * s.odds; }
QUARRY_FN bool is_last(const random_binomial_sampler& s, double k, double mass) {
  return k >= s.n || (k > s.n * s.s && mass < 1e-17);
}
QUARRY_FN double hat_mass(const random_binomial_sampler& s, double k) {
  return math::exp(binomial_log_mass(k, s.n, s.s) - s.mode);
}
QUARRY_FN double hat_centre(const random_binomial_sampler& s) { return s.n * s.s; }
template <class Table>
QUARRY_FN double sample(const random_binomial_sampler& s, uint64_t key, Table& table) {
  if (!s.valid) return quiet_nan<double>();
  const double k = s.none ? 0.0 : sample_count(s, key, table);
  return s.p > 0.5 ? s.n - k : k;
}
QUARRY_FN double random_binomial(uint64_t key, double n, double p) {
  random_binomial_sampler s;
  make(s, n, p);
  no_table table;
  return sample(s, key, table);
}

// Good items among `drawn` without replacement; good_bad holds the counts of good and bad items in its upper and lower
// 32 bits. Few draws one by one, else the ratio of uniforms with shifted hat HRUA* (E. Stadlober, The ratio of uniforms
// approach for generating discrete random variates, 1990). Masses of the hat are relative to the mode's, exp(-top).
struct random_hypergeometric_sampler {
  uint64_t good, bad, drawn, rest, fewer;
  double m, low, high, mean, width, top, end;
  bool valid, inverts;
};
QUARRY_FN double log_ways(const random_hypergeometric_sampler& s, double x) {
  return log_factorial(x) + log_factorial(s.low - x) + log_factorial(s.m - x) + log_factorial(s.high - s.m + x);
}
template <Integer T>
QUARRY_FN void make(random_hypergeometric_sampler& s, T good_bad, T drawn) {
  const uint64_t counts = static_cast<uint64_t>(good_bad);
  s = {};
  s.good = counts >> 32;
  s.bad = counts & 0xffffffffu;
  s.drawn = static_cast<uint64_t>(drawn);
  const uint64_t total = s.good + s.bad;
  s.valid = s.drawn <= total;
  s.rest = total - s.drawn;
  s.fewer = s.drawn < s.rest ? s.drawn : s.rest;
  if (!s.valid || s.fewer < 10) return;
  const double n = static_cast<double>(total), m = static_cast<double>(s.fewer);
  s.m = m;
  s.low = static_cast<double>(s.good < s.bad ? s.good : s.bad);
  s.high = n - s.low;
  s.mean = m * (s.low / n);
  const double variance = (n - m) * m * (s.low / n) * (s.high / n) / (n - 1);
  s.width = 1.7155277699214135 * math::sqrt(variance + 0.5) + 0.8989161620588988;
  const double most = m < s.low ? m : s.low, reach = math::floor(s.mean + 0.5 + 16 * math::sqrt(variance + 0.5));
  s.end = most + 1 < reach ? most + 1 : reach;
  s.top = log_ways(s, math::floor((m + 1) * (s.low + 1) / (n + 2)));
}
QUARRY_FN double hat_mass(const random_hypergeometric_sampler& s, double x) {
  return math::exp(s.top - log_ways(s, x));
}
QUARRY_FN double hat_centre(const random_hypergeometric_sampler& s) { return s.mean; }
template <class Table>
QUARRY_FN bool attempt(const random_hypergeometric_sampler& s, uint64_t first, uint64_t second, Table& table,
                       double& x) {
  const double u = open_unit(first), v = open_unit(second) - 0.5;
  x = s.mean + 0.5 + math::divide_normal(s.width * v, u);
  if (x < 0 || x >= s.end) return false;
  x = math::floor(x);
  return u * u <= hat_mass(table, s, x);
}
template <class Table>
QUARRY_FN uint64_t sample(const random_hypergeometric_sampler& s, uint64_t key, Table& table) {
  if (!s.valid) return 0;
  element_draws draws = draws_of(key);
  uint64_t k = 0;  // good items among `fewer`
  if (s.fewer < 10) {
    uint64_t left_good = s.good, left = s.good + s.bad;
    for (uint64_t i = 0; i < s.fewer; ++i) {
      const bool hit = math::umulhi(word64(next_block(draws), 0), left) < left_good;
      left_good -= hit ? 1 : 0;
      k += hit ? 1 : 0;
      --left;
    }
  } else {
    double x = 0;
    for (bool done = false; !done;) {
      const philox_block block = next_block(draws);
      done = attempt(s, word64(block, 0), word64(block, 1), table, x);
    }
    k = static_cast<uint64_t>(x);
    if (s.good > s.bad) k = s.fewer - k;
  }
  return s.drawn > s.rest ? s.good - k : k;
}
template <Integer T>
QUARRY_FN T random_hypergeometric(uint64_t key, T good_bad, T drawn) {
  random_hypergeometric_sampler s;
  make(s, good_bad, drawn);
  no_table table;
  return static_cast<T>(sample(s, key, table));
}

// ---- Zipf's law and the circle ----

// P(k) ~ k^-a, k >= 1, a > 1, below 2^63 (L. Devroye, Non-Uniform Random Variate Generation, 1986, X.6).
struct random_zipf_sampler {
  double a, e, b1, span;
};
QUARRY_FN void make(random_zipf_sampler& s, double a) {
  const double e = a - 1;
  s = {a, e, math::expm1(e * 0.69314718055994530942), math::expm1(-e * 43.66827237527655449)};  // (2^63)^-e - 1
}
QUARRY_FN double sample(const random_zipf_sampler& s, uint64_t key) {
  if (!(s.a > 1)) return quiet_nan<double>();
  if (s.a >= 1025) return 1;  // 2^-a underflows
  element_draws draws = draws_of(key);
  constexpr double kMost = 9223372036854774784.0;
  for (;;) {
    const philox_block block = next_block(draws);
    const double t = uniform64(word64(block, 0)), v = uniform64(word64(block, 1));
    const double x = math::floor(math::exp(-math::log1p(t * s.span) / s.e));
    if (!(x >= 1 && x <= kMost)) continue;
    const double t1 = math::expm1(s.e * math::log1p(1 / x));
    if (v * x * t1 / s.b1 <= (t1 + 1) / (s.b1 + 1)) return x;
  }
}
QUARRY_FN double random_zipf(uint64_t key, double a) {
  random_zipf_sampler s;
  make(s, a);
  return sample(s, key);
}

// Angles in [-pi, pi] around 0 (D. J. Best, N. I. Fisher, Efficient simulation of the von Mises distribution, 1979);
// uniform for no concentration, for a great one a normal.
struct random_von_mises_sampler {
  double kappa, s;
};
QUARRY_FN void make(random_von_mises_sampler& s, double kappa) {
  s = {kappa, 1 / kappa + kappa};
  if (kappa >= 1e-5 && kappa <= 1e6) {
    const double r = 1 + math::sqrt(1 + 4 * kappa * kappa), rho = (r - math::sqrt(2 * r)) / (2 * kappa);
    s.s = (1 + rho * rho) / (2 * rho);
  }
}
QUARRY_FN double sample(const random_von_mises_sampler& sampler, uint64_t key) {
  constexpr double kPi = 3.14159265358979323846;
  const double kappa = sampler.kappa, s = sampler.s;
  if (!(kappa >= 0)) return quiet_nan<double>();
  element_draws draws = draws_of(key);
  if (kappa < 1e-8) return kPi * (2 * uniform64(word64(next_block(draws), 0)) - 1);
  if (kappa > 1e6) {
    const double x = normals_of_block<double>(next_block(draws), 0).first * math::sqrt(1 / kappa);
    return x < -kPi ? -kPi : x > kPi ? kPi : x;
  }
  for (;;) {
    const philox_block block = next_block(draws);
    const double z = shared_sincos_turns(0.5 * uniform64(word64(block, 0))).cosine;
    const double w = (1 + s * z) / (s + z), y = kappa * (s - w), v = open_uniform(block.w[2]);
    if (!(y * (2 - y) - v >= 0 || math::log(y / v) + 1 - y >= 0)) continue;
    const double angle = math::acos(w < -1 ? -1.0 : w > 1 ? 1.0 : w);
    return (block.w[3] & 1u) ? -angle : angle;
  }
}
QUARRY_FN double random_von_mises(uint64_t key, double kappa) {
  random_von_mises_sampler s;
  make(s, kappa);
  return sample(s, key);
}

}  // namespace quarry::local::fn
