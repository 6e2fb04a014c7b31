// Distributions by rejection.
//
// Every element has a key of its own, 64 random bits, and takes as many blocks as it needs: Philox4x32-10 with that key
// and a counter of draws. Parameters that are NaN or out of range give NaN, so that every loop ends.
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
// (0, 1), of 32 bits.
QUARRY_FN double open_uniform(uint32_t w) { return (static_cast<double>(w) + 0.5) * 2.3283064365386963e-10; }
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

// Gamma of a shape >= 1 (G. Marsaglia, W. W. Tsang, A Simple Method for Generating Gamma Variables, 2000). One block
// per attempt: a normal of 52 and 32 bits, 32 for the test.
QUARRY_FN double gamma_of_large_shape(element_draws& draws, double shape) {
  const double d = shape - 1.0 / 3, c = 1 / math::sqrt(9 * d);
  for (;;) {
    const philox_block block = next_block(draws);
    const double x = normal_of(word64(block, 0), block.w[2]);
    const double t = 1 + c * x;
    if (t <= 0) continue;
    const double v = t * t * t, u = open_uniform(block.w[3]), x2 = x * x;
    if (u < 1 - 0.0331 * x2 * x2) return d * v;
    if (math::log(u) < 0.5 * x2 + d * (1 - v + math::log(v))) return d * v;
  }
}
// A shape below 1: that of shape + 1 times u^(1 / shape).
QUARRY_FN double random_gamma(uint64_t key, double shape) {
  if (!(shape > 0)) return shape == 0 ? 0.0 : quiet_nan<double>();
  if (isinf(shape)) return shape;
  element_draws draws = draws_of(key);
  if (shape >= 1) return gamma_of_large_shape(draws, shape);
  const double u = positive_uniform(word64(next_block(draws), 0));
  return gamma_of_large_shape(draws, shape + 1) * math::pow(u, 1 / shape);
}
// The logarithm of the same, which does not underflow for small shapes.
QUARRY_FN double random_log_gamma(uint64_t key, double shape) {
  if (!(shape > 0)) return shape == 0 ? -infinity<double>() : quiet_nan<double>();
  if (isinf(shape)) return shape;
  element_draws draws = draws_of(key);
  if (shape >= 1) return math::log(gamma_of_large_shape(draws, shape));
  const double u = positive_uniform(word64(next_block(draws), 0));
  return math::log(gamma_of_large_shape(draws, shape + 1)) + math::log(u) / shape;
}

// Small means by inversion, else transformed rejection with squeeze (W. Hoermann, The transformed rejection method for
// generating Poisson random variables, 1993).
QUARRY_FN double random_poisson(uint64_t key, double mean) {
  if (!(mean >= 0) || isinf(mean)) return quiet_nan<double>();
  element_draws draws = draws_of(key);
  if (mean < 10) {
    double u = uniform64(word64(next_block(draws), 0)), mass = math::exp(-mean), k = 0;
    while (u >= mass && !(k > mean && mass < 1e-17)) {  // then rounding is all that is left of u
      u -= mass;
      k += 1;
      mass *= mean / k;
    }
    return k;
  }
  const double b = 0.931 + 2.53 * math::sqrt(mean), a = -0.059 + 0.02483 * b;
  const double scale = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const philox_block block = next_block(draws);
    const double u = uniform64(word64(block, 0)) - 0.5, v = positive_uniform(word64(block, 1));
    const double us = 0.5 - (u < 0 ? -u : u);
    if (us <= 0) continue;
    const double k = math::floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= squeeze) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (math::log(v * scale / (a / (us * us) + b)) <= poisson_log_mass(k, mean)) return k;
  }
}

// n trials of probability p: inversion where few succeed, else the binomial relative of the above (W. Hoermann, The
// generation of binomial random variates, 1993). The likelier outcome is counted as what is left of n.
QUARRY_FN double random_binomial(uint64_t key, double n, double p) {
  if (!(n >= 0) || isinf(n) || !(p >= 0 && p <= 1)) return quiet_nan<double>();
  const double s = p > 0.5 ? 1 - p : p;
  double k = 0;
  element_draws draws = draws_of(key);
  if (n == 0 || s == 0) {
    k = 0;
  } else if (n * s < 10) {
    const double odds = s / (1 - s);
    double u = uniform64(word64(next_block(draws), 0)), mass = math::exp(n * math::log1p(-s));
    while (u >= mass && k < n && !(k > n * s && mass < 1e-17)) {
      u -= mass;
      k += 1;
      mass *= (n - k + 1) / k * odds;
    }
  } else {
    const double deviation = math::sqrt(n * s * (1 - s)), centre = n * s + 0.5;
    const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * s;
    const double squeeze = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation;
    const double mode = binomial_log_mass(math::floor((n + 1) * s), n, s);
    for (;;) {
      const philox_block block = next_block(draws);
      const double u = uniform64(word64(block, 0)) - 0.5, v = positive_uniform(word64(block, 1));
      const double us = 0.5 - (u < 0 ? -u : u);
      if (us <= 0) continue;
      k = math::floor((2 * a / us + b) * u + centre);
      if (k < 0 || k > n) continue;
      if (us >= 0.07 && v <= squeeze) break;
      if (math::log(v * alpha / (a / (us * us) + b)) <= binomial_log_mass(k, n, s) - mode) break;
    }
  }
  return p > 0.5 ? n - k : k;
}

// Good items among `sample` drawn without replacement; good_bad holds the counts of good and bad items in its upper and
// lower 32 bits. Few draws one by one, else the ratio of uniforms with shifted hat HRUA* (E. Stadlober, The ratio of
// uniforms approach for generating discrete random variates, 1990).
template <Integer T>
QUARRY_FN T random_hypergeometric(uint64_t key, T good_bad, T sample) {
  const uint64_t counts = static_cast<uint64_t>(good_bad), drawn = static_cast<uint64_t>(sample);
  const uint64_t good = counts >> 32, bad = counts & 0xffffffffu, total = good + bad;
  if (drawn > total) return 0;
  element_draws draws = draws_of(key);
  const uint64_t rest = total - drawn, fewer = drawn < rest ? drawn : rest;
  uint64_t k = 0;  // good items among `fewer`
  if (fewer < 10) {
    uint64_t left_good = good, left = total;
    for (uint64_t i = 0; i < fewer; ++i) {
      const bool hit = math::umulhi(word64(next_block(draws), 0), left) < left_good;
      left_good -= hit ? 1 : 0;
      k += hit ? 1 : 0;
      --left;
    }
  } else {
    const double n = static_cast<double>(total), m = static_cast<double>(fewer);
    const double low = static_cast<double>(good < bad ? good : bad), high = n - low;
    const double mean = m * (low / n), variance = (n - m) * m * (low / n) * (high / n) / (n - 1);
    const double width = 1.7155277699214135 * math::sqrt(variance + 0.5) + 0.8989161620588988;
    const double mode = math::floor((m + 1) * (low + 1) / (n + 2));
    const double top =
        log_factorial(mode) + log_factorial(low - mode) + log_factorial(m - mode) + log_factorial(high - m + mode);
    const double most = m < low ? m : low;
    const double reach = math::floor(mean + 0.5 + 16 * math::sqrt(variance + 0.5));
    const double end = most + 1 < reach ? most + 1 : reach;
    double x = 0;
    for (;;) {
      const philox_block block = next_block(draws);
      const double u = positive_uniform(word64(block, 0)), v = uniform64(word64(block, 1));
      x = mean + 0.5 + width * (v - 0.5) / u;
      if (x < 0 || x >= end) continue;
      x = math::floor(x);
      const double t =
          top - (log_factorial(x) + log_factorial(low - x) + log_factorial(m - x) + log_factorial(high - m + x));
      if (u * (4 - u) - 3 <= t) break;
      if (u * (u - t) >= 1) continue;
      if (2 * math::log(u) <= t) break;
    }
    k = static_cast<uint64_t>(x);
    if (good > bad) k = fewer - k;
  }
  return static_cast<T>(drawn > rest ? good - k : k);
}

// P(k) ~ k^-a, k >= 1, a > 1, below 2^63 (L. Devroye, Non-Uniform Random Variate Generation, 1986, X.6).
QUARRY_FN double random_zipf(uint64_t key, double a) {
  if (!(a > 1)) return quiet_nan<double>();
  if (a >= 1025) return 1;  // 2^-a underflows
  element_draws draws = draws_of(key);
  constexpr double kMost = 9223372036854774784.0;
  const double e = a - 1, b1 = math::expm1(e * 0.69314718055994530942);
  const double span = math::expm1(-e * 43.66827237527655449);  // (2^63)^-e - 1
  for (;;) {
    const philox_block block = next_block(draws);
    const double t = uniform64(word64(block, 0)), v = uniform64(word64(block, 1));
    const double x = math::floor(math::exp(-math::log1p(t * span) / e));
    if (!(x >= 1 && x <= kMost)) continue;
    const double t1 = math::expm1(e * math::log1p(1 / x));
    if (v * x * t1 / b1 <= (t1 + 1) / (b1 + 1)) return x;
  }
}

// Angles in [-pi, pi] around 0 (D. J. Best, N. I. Fisher, Efficient simulation of the von Mises distribution, 1979);
// uniform for no concentration, for a great one a normal.
QUARRY_FN double random_von_mises(uint64_t key, double kappa) {
  constexpr double kPi = 3.14159265358979323846;
  if (!(kappa >= 0)) return quiet_nan<double>();
  element_draws draws = draws_of(key);
  if (kappa < 1e-8) return kPi * (2 * uniform64(word64(next_block(draws), 0)) - 1);
  if (kappa > 1e6) {
    const double x = normals_of_block<double>(next_block(draws), 0).first * math::sqrt(1 / kappa);
    return x < -kPi ? -kPi : x > kPi ? kPi : x;
  }
  double s = 1 / kappa + kappa;
  if (kappa >= 1e-5) {
    const double r = 1 + math::sqrt(1 + 4 * kappa * kappa), rho = (r - math::sqrt(2 * r)) / (2 * kappa);
    s = (1 + rho * rho) / (2 * rho);
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

}  // namespace quarry::local::fn
