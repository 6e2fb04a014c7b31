// SciPy's special functions. What the platform's library has is taken from it; the rest is here for every device.
//
// Results err by at most 8 units in the last place, those of the gamma family by 32. Where an exponential or a zero
// would magnify errors, numbers have two parts (wide). float is computed in double where the function is not the
// platform's own. DLMF is the Digital Library of Mathematical Functions (dlmf.nist.gov).
namespace quarry::local::fn::special {

// ---- Numbers of two parts: hi + lo, |lo| at most half a unit of hi (T. J. Dekker, Numer. Math. 18, 1971) ----

struct wide {
  double hi, lo;
};
QUARRY_FN wide quick_sum(double x, double y) {  // |x| >= |y|
  const double s = x + y;
  return {s, y - (s - x)};
}
QUARRY_FN wide exact_sum(double x, double y) {
  const double s = x + y, v = s - x;
  return {s, (x - (s - v)) + (y - v)};
}
QUARRY_FN wide exact_product(double x, double y) {
  const double p = x * y;
  return {p, math::fma(x, y, -p)};
}
QUARRY_FN wide negative(wide x) { return {-x.hi, -x.lo}; }
QUARRY_FN wide add(wide x, wide y) {
  const wide s = exact_sum(x.hi, y.hi), t = exact_sum(x.lo, y.lo);
  const wide u = quick_sum(s.hi, s.lo + t.hi);
  return quick_sum(u.hi, u.lo + t.lo);
}
QUARRY_FN wide add(wide x, double y) {
  const wide s = exact_sum(x.hi, y);
  return quick_sum(s.hi, s.lo + x.lo);
}
QUARRY_FN wide subtract(wide x, wide y) { return add(x, negative(y)); }
QUARRY_FN wide multiply(wide x, wide y) {
  const wide p = exact_product(x.hi, y.hi);
  return quick_sum(p.hi, p.lo + (x.hi * y.lo + x.lo * y.hi));
}
QUARRY_FN wide multiply(wide x, double y) {
  const wide p = exact_product(x.hi, y);
  return quick_sum(p.hi, math::fma(x.lo, y, p.lo));
}
QUARRY_FN wide divide(wide x, wide y) {
  const double q = x.hi / y.hi;
  const wide r = subtract(x, multiply(y, q));
  return quick_sum(q, (r.hi + r.lo) / y.hi);
}
QUARRY_FN double rounded(wide x) { return x.hi + x.lo; }

template <int n>
QUARRY_FN double polynomial(double x, const double (&coefficients)[n]) {  // of ascending powers
  double sum = coefficients[n - 1];
  for (int i = n - 2; i >= 0; --i) sum = math::fma(sum, x, coefficients[i]);
  return sum;
}

inline constexpr double kPi = 3.14159265358979323846, kEuler = 0.57721566490153286061;
inline constexpr double kSqrtHalf = 0.70710678118654752440, kTwoBySqrtPi = 1.12837916709551257390;
inline constexpr double kSqrtTwoPi = 2.50662827463100050242, kLogTwo = 0.69314718055994530942;

inline constexpr wide kThird = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
inline constexpr wide kTwelfth = {0x1.5555555555555p-4, 0x1.5555555555555p-58};
inline constexpr wide kHalfLogTwoPi = {0x1.d67f1c864beb5p-1, -0x1.65b5a1b7ff5dfp-55};
inline constexpr wide kLogPi = {0x1.250d048e7a1bdp+0, 0x1.7abf2ad8d5088p-57};

// Of x > 0: 2 artanh(s), s = (m - 1) / (m + 1), for m = x / 2^k within [sqrt(1/2), sqrt(2)].
QUARRY_LONG_FN wide log_wide(wide x) {
  constexpr wide fifth = {0x1.999999999999ap-3, -0x1.999999999999ap-57};
  constexpr double coefficients[] = {1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13, 1.0 / 15,
                                     1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25};
  double k = 0;
  if (x.hi < 0x1p-1000) x = {x.hi * 0x1p100, x.lo * 0x1p100}, k -= 100;
  if (x.hi > 0x1p1000) x = {x.hi * 0x1p-100, x.lo * 0x1p-100}, k += 100;
  const uint64_t bits = QUARRY_BIT_CAST(uint64_t, x.hi);
  const int64_t e = static_cast<int64_t>((bits - 0x3fe6a09e667f3bcdull) >> 52);  // modulo 2^12
  const int64_t exponent = e >= 2048 ? e - 4096 : e;
  const double scale = QUARRY_BIT_CAST(double, static_cast<uint64_t>(1023 - exponent) << 52);
  k += static_cast<double>(exponent);
  const wide m = {x.hi * scale, x.lo * scale};
  const wide s = divide(add(m, -1.0), add(m, 1.0)), z = multiply(s, s);
  const double rest = z.hi * z.hi * z.hi * polynomial(z.hi, coefficients);
  const wide series = add(add(multiply(z, add(kThird, multiply(z, fifth))), rest), 1.0);
  const wide log_m = multiply(s, {2 * series.hi, 2 * series.lo});
  // k times the first part of log 2 is exact.
  return add(add(multiply(wide{0x1.ef35793c76730p-45, 0x1.f97b57a079a19p-103}, k), log_m), k * 0x1.62e42fefa3800p-1);
}
QUARRY_FN wide log_wide(double x) { return log_wide(wide{x, 0}); }
QUARRY_FN double exp_wide(wide x) {
  const double e = math::exp(x.hi);
  return isfinite(x.hi) && isfinite(e) ? math::fma(e, x.lo, e) : e;
}
// m - log(1 + m) for m > -1, which vanishes as m^2 / 2: with s = m / (2 + m) it is m s - 2 (s^3 / 3 + s^5 / 5 + ...).
QUARRY_FN wide log_deficit(wide m) {
  constexpr double coefficients[] = {1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                                     1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  if (m.hi > 0.3 || m.hi < -0.3) return subtract(m, log_wide(add(m, 1.0)));
  const wide s = divide(m, add(m, 2.0)), z = multiply(s, s);
  const wide series = add(kThird, z.hi * polynomial(z.hi, coefficients));
  const wide part = multiply(z, {2 * series.hi, 2 * series.lo});
  return multiply(s, subtract(m, part));
}

// ---- Error functions ----

template <Real T>
QUARRY_FN T erf(T x) {
  return math::erf(x);
}
template <Real T>
QUARRY_FN T erfc(T x) {
  return math::erfc(x);
}
// exp(x^2) erfc(x) for x >= 0; DLMF 7.12.1 where erfc underflows.
QUARRY_FN double erfcx(double x) {
  if (x < 26) return exp_wide(exact_product(x, x)) * math::erfc(x);
  const double r = 1 / x, q = 0.5 * r * r;
  return 0.5 * kTwoBySqrtPi * r *
         (1 - q * (1 - 3 * q * (1 - 5 * q * (1 - 7 * q * (1 - 9 * q * (1 - 11 * q * (1 - 13 * q)))))));
}
// What rounding takes from y = -x / sqrt(2).
QUARRY_FN double ndtr_argument_error(double x, double y) {
  return math::fma(-x, kSqrtHalf, -y) + x * 4.833646656726458e-17;
}
// erfc(y) / 2 for y = -x / sqrt(2), where `e` is erfc(y). In the tail the rounding of y is put right to first order:
// there the derivative of erfc(y) is -2 y erfc(y) nearly.
QUARRY_FN double ndtr_of_erfc(double x, double y, double e) {
  const double tail = math::fma(-2 * y * ndtr_argument_error(x, y), e, e);
  return 0.5 * (y > 28 ? 0 : y > 0.5 ? tail : e);
}
QUARRY_FN double ndtr(double x) {
  const double y = -x * kSqrtHalf;
  return ndtr_of_erfc(x, y, math::erfc(y));
}
QUARRY_FN float ndtr(float x) { return static_cast<float>(ndtr(static_cast<double>(x))); }
QUARRY_FN double log_ndtr(double x) {
  if (x > -1) return math::log1p(-ndtr(-x));
  if (isinf(x)) return x;
  const double y = -x * kSqrtHalf;
  return math::log(0.5 * erfcx(y)) - 0.5 * x * x;
}
QUARRY_FN float log_ndtr(float x) { return static_cast<float>(log_ndtr(static_cast<double>(x))); }
// The x with ndtr(x) = 1/2 + q, where p / scale is the smaller of ndtr(x) and ndtr(-x) (M. J. Wichura, Algorithm AS
// 241, Applied Statistics 37, 1988).
QUARRY_LONG_FN double normal_quantile(double q, double p, double log_scale) {
  constexpr double a[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                          1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                          3.3430575583588128105e4, 2.5090809287301226727e3};
  constexpr double b[] = {1.0,
                          4.2313330701600911252e1,
                          6.8718700749205790830e2,
                          5.3941960214247511077e3,
                          2.1213794301586595867e4,
                          3.9307895800092710610e4,
                          2.8729085735721942674e4,
                          5.2264952788528545610e3};
  constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                          3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                          2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr double d[] = {1.0,
                          2.05319162663775882187e0,
                          1.67638483018380384940e0,
                          6.89767334985100004550e-1,
                          1.48103976427480074590e-1,
                          1.51986665636164571966e-2,
                          5.47593808499534494600e-4,
                          1.05075007164441684324e-9};
  constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                          2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                          2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr double f[] = {1.0,
                          5.99832206555887937690e-1,
                          1.36929880922735805310e-1,
                          1.48753612908506148525e-2,
                          7.86869131145613259100e-4,
                          1.84631831751005468180e-5,
                          1.42151175831644588870e-7,
                          2.04426310338993978564e-15};
  if (q >= -0.425 && q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(r, a) / polynomial(r, b);
  }
  if (!(p > 0)) return p == 0 ? copysign(infinity<double>(), q) : quiet_nan<double>();
  const double r = math::sqrt(log_scale - math::log(p));
  const double x =
      r <= 5 ? polynomial(r - 1.6, c) / polynomial(r - 1.6, d) : polynomial(r - 5, e) / polynomial(r - 5, f);
  return q < 0 ? -x : x;
}
QUARRY_FN double ndtri(double p) { return normal_quantile(p - 0.5, p < 0.5 ? p : 1 - p, 0); }
QUARRY_FN float ndtri(float p) { return static_cast<float>(ndtri(static_cast<double>(p))); }
QUARRY_FN double erfinv(double x) {
  if (x > -1e-8 && x < 1e-8) return x / kTwoBySqrtPi;  // subnormal numbers and the sign of zero too
  return normal_quantile(0.5 * x, 1 - absolute(x), kLogTwo) * kSqrtHalf;
}
QUARRY_FN float erfinv(float x) { return static_cast<float>(erfinv(static_cast<double>(x))); }
QUARRY_FN double erfcinv(double x) { return normal_quantile(0.5 * (1 - x), x < 1 ? x : 2 - x, kLogTwo) * kSqrtHalf; }
QUARRY_FN float erfcinv(float x) { return static_cast<float>(erfcinv(static_cast<double>(x))); }

// ---- Gamma functions ----

// log(Gamma(x)) - (x - 1/2) log(x) + x - log(2 pi) / 2 for x = 1 / r >= 16: DLMF 5.11.1; and without its first term.
QUARRY_FN double stirling_rest(double r) {
  constexpr double coefficients[] = {-1.0 / 360,      1.0 / 1260, -1.0 / 1680,      1.0 / 1188,
                                     -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400, 43867.0 / 244188};
  return r * r * r * polynomial(r * r, coefficients);
}
QUARRY_FN double stirling_tail(double x) {
  const double r = 1 / x;
  return r * (1.0 / 12) + stirling_rest(r);
}
// The logarithm of |Gamma(x)| and its sign. By recurrence to arguments above 16; far below 0 by DLMF 5.5.3.
QUARRY_LONG_FN wide log_gamma_wide(wide x, double& sign) {
  sign = 1;
  wide reflected = {0, 0};
  const bool far = x.hi < -20;
  if (far) {
    const double r = (x.hi - math::rint(x.hi)) + x.lo;
    const double sine = math::sin(kPi * r);
    sign = (math::fmod(math::rint(x.hi), 2.0) == 0) == (r > 0) ? 1 : -1;
    reflected = subtract(kLogPi, wide{math::log(sine < 0 ? -sine : sine), 0});
    x = add(negative(x), 1.0);
  }
  wide product = {1, 0};
  while (x.hi < 16) {
    product = multiply(product, x);
    x = add(x, 1.0);
  }
  if (product.hi < 0) product = negative(product), sign = -sign;
  const wide log_x = log_wide(x), r = divide({1, 0}, x);
  wide sum = subtract(multiply(add(x, -0.5), log_x), x);
  sum = add(add(sum, kHalfLogTwoPi), add(multiply(r, kTwelfth), stirling_rest(r.hi)));
  if (product.hi != 1) sum = subtract(sum, log_wide(product));
  return far ? subtract(reflected, sum) : sum;
}
QUARRY_FN wide log_gamma_wide(double x) {  // x > 0
  double sign;
  return log_gamma_wide(wide{x, 0}, sign);
}
QUARRY_FN bool is_pole(double x) { return x <= 0 && math::floor(x) == x; }
QUARRY_FN double gammaln(double x) {
  if (!(x <= 0)) return math::lgamma(x);
  if (isinf(x)) return x;  // as SciPy
  if (is_pole(x)) return infinity<double>();
  // By reflection, DLMF 5.5.3, where its terms do not cancel.
  const double sine = math::sin(kPi * (x - math::rint(x)));
  const double first = math::log(kPi / absolute(x * sine)), second = math::lgamma(-x), difference = first - second;
  if (absolute(difference) * 4 > absolute(first) + absolute(second)) return difference;
  double sign;
  return rounded(log_gamma_wide(wide{x, 0}, sign));
}
QUARRY_FN float gammaln(float x) {
  return x > 0 ? math::lgamma(x) : static_cast<float>(gammaln(static_cast<double>(x)));
}
template <Real T>
QUARRY_FN T gamma(T x) {
  return math::tgamma(x);
}
// log(Gamma(1 + x)) for |x| <= 1/2: DLMF 5.7.3.
QUARRY_LONG_FN double log_gamma_1p(double x) {
  constexpr double coefficients[] = {
      0.32246703342411321824,    -0.067352301053198095133,   0.020580808427784547879,   -0.0073855510286739852663,
      0.0028905103307415232858,  -0.0011927539117032609771,  0.00050966952474304242234, -0.00022315475845357937976,
      9.9457512781808533715e-5,  -4.49262367381331417e-5,    2.0507212775670691553e-5,  -9.439488275268395904e-6,
      4.3748667899074878042e-6,  -2.0392157538013662368e-6,  9.5514121304074198329e-7,  -4.4924691987645660433e-7,
      2.1207184805554665869e-7,  -1.0043224823968099609e-7,  4.7698101693639805658e-8,  -2.271109460894316491e-8,
      1.0838659214896954091e-8,  -5.1834750419700466551e-9,  2.4836745438024783172e-9,  -1.1921401405860912074e-9,
      5.7313672416788620133e-10, -2.7595228851242331452e-10, 1.3304764374244489481e-10, -6.4229645638381000221e-11};
  return x * (1 - kEuler) - math::log1p(x) + x * x * polynomial(x, coefficients);
}

// log(x) - psi(x) - 1 / (2 x) - 1 / (12 x^2) for x = 1 / r >= 8: DLMF 5.11.2.
QUARRY_FN double digamma_rest(double r) {
  constexpr double coefficients[] = {-1.0 / 120,     1.0 / 252, -1.0 / 240,     1.0 / 132,
                                     -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160, 43867.0 / 14364};
  const double r2 = r * r;
  return r2 * r2 * polynomial(r2, coefficients);
}
// By recurrence in two parts, which keeps the digits near zeros of the function.
QUARRY_LONG_FN double digamma_near_zero(double argument) {
  wide x = {argument, 0}, sum = {0, 0};
  while (x.hi < 16) {
    sum = subtract(sum, divide({1, 0}, x));
    x = add(x, 1.0);
  }
  const wide r = divide({1, 0}, x), half = {0.5, 0};
  sum = add(sum, log_wide(x));
  sum = subtract(sum, multiply(r, add(half, multiply(r, kTwelfth))));
  return rounded(add(sum, -digamma_rest(r.hi)));
}
QUARRY_LONG_FN double digamma(double x) {
  if (x == 0) return -1 / x;
  double sum = 0;
  if (x < 0) {
    const double part = x - math::rint(x);
    if (part == 0 || isinf(x)) return quiet_nan<double>();
    if (x > -20) return digamma_near_zero(x);
    sum = -kPi / math::tan(kPi * part);  // DLMF 5.5.4
    x = 1 - x;
  }
  if (x > 1.2 && x < 1.8) return digamma_near_zero(x);
  if (x < 8) {
    // The sum of the reciprocals as one quotient.
    double numerator = 1, denominator = x;
    for (x += 1; x < 8; x += 1) {
      numerator = math::fma(numerator, x, denominator);
      denominator *= x;
    }
    sum -= numerator / denominator;
  }
  const double r = 1 / x;
  return isinf(x) ? x : sum + (math::log(x) - (r * (0.5 + r * (1.0 / 12)) + digamma_rest(r)));
}
QUARRY_FN float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }

// log(Gamma(x + d) / Gamma(x)) for x > 0 and d >= 0, accurate relative to d.
QUARRY_LONG_FN double log_gamma_ratio(double x, double d) {
  if (d > 0.01) {
    double sign;
    return rounded(subtract(log_gamma_wide(exact_sum(x, d), sign), log_gamma_wide(x)));
  }
  // Gauss's rule of three points for the integral of psi.
  const double shift = x < 1 ? 1 : 0, middle = x + shift + 0.5 * d, off = 0.38729833462074168852 * d;
  const double integral = d * (5.0 / 18 * (digamma(middle - off) + digamma(middle + off)) + 8.0 / 18 * digamma(middle));
  return x < 1 ? integral - math::log1p(d / x) : integral;
}

// The logarithm of B(a, b) for 0 < a <= b: DLMF 5.12.1 and 5.11.1, where b or both are large without the parts that
// cancel.
QUARRY_LONG_FN wide log_beta_positive(double a, double b) {
  if (a == 1) return subtract({0, 0}, log_wide(b));
  if (b == 1) return subtract({0, 0}, log_wide(a));
  const wide c = exact_sum(a, b);
  if (b < 16) {
    double sign;
    return subtract(add(log_gamma_wide(a), log_gamma_wide(b)), log_gamma_wide(c, sign));
  }
  const wide log_bc = log_wide(divide({b, 0}, c));  // log(b / c)
  if (a < 16) {
    wide sum = add(log_gamma_wide(a), multiply(add(c, -0.5), log_bc));
    sum = subtract(sum, multiply(log_wide(b), a));
    return add(add(sum, a), stirling_tail(b) - stirling_tail(c.hi));
  }
  const wide log_ac = log_wide(divide({a, 0}, c));
  wide sum = add(multiply(log_ac, a - 0.5), multiply(log_bc, b));
  const wide log_b = log_wide(b);
  sum = add(sum, add(kHalfLogTwoPi, {-0.5 * log_b.hi, -0.5 * log_b.lo}));
  return add(sum, stirling_tail(a) + stirling_tail(b) - stirling_tail(c.hi));
}
// The logarithm of |B(a, b)| and its sign.
QUARRY_FN wide log_beta(double a, double b, double& sign) {
  sign = 1;
  if (isnan(a) || isnan(b)) return {quiet_nan<double>(), 0};
  const double most = infinity<double>();
  if (is_pole(b) && !is_pole(a)) {
    const double other = a;
    a = b, b = other;
  }
  if (is_pole(a)) {
    // As SciPy: finite for a whole b whose pole cancels that of a.
    if (math::floor(b) != b || isinf(a) || isinf(b) || 1 - a - b <= 0) return {most, 0};
    sign = math::fmod(b, 2.0) == 0 ? 1 : -1;
    if (b <= 0) return {most, 0};
    a = 1 - a - b;
    return a < b ? log_beta_positive(a, b) : log_beta_positive(b, a);
  }
  if (a > b) {
    const double other = a;
    a = b, b = other;
  }
  if (isinf(b)) {
    if (isinf(a)) return {quiet_nan<double>(), 0};
    if (a < 0) log_gamma_wide(wide{a, 0}, sign);
    return {a > 0 ? -most : most, 0};
  }
  if (a > 0) return log_beta_positive(a, b);
  const wide c = exact_sum(a, b);
  double sign_a, sign_b, sign_c;
  const wide parts = add(log_gamma_wide(wide{a, 0}, sign_a), log_gamma_wide(wide{b, 0}, sign_b));
  if (c.lo == 0 && is_pole(c.hi)) {
    sign = sign_a * sign_b;
    return {-most, 0};
  }
  const wide whole = subtract(parts, log_gamma_wide(c, sign_c));
  sign = sign_a * sign_b * sign_c;
  return whole;
}
// Whether powers and gamma functions of these are far from the limits of the format.
QUARRY_FN bool is_moderate(double a) { return a > 1e-100 && a < 60; }
QUARRY_FN double beta(double a, double b) {
  if (is_moderate(a) && is_moderate(b)) {
    // What rounding of the sum changes, to first order: psi(c) = log(c - 1/2) nearly.
    const wide c = exact_sum(a, b);
    const double lost = c.lo == 0 ? 0 : c.lo * (c.hi > 1 ? math::log(c.hi - 0.5) : -1 / c.hi);
    return math::tgamma(a) / math::tgamma(c.hi) * math::tgamma(b) * (1 - lost);
  }
  double sign;
  const wide log = log_beta(a, b, sign);
  return sign * exp_wide(log);
}
QUARRY_FN float beta(float a, float b) {
  return static_cast<float>(beta(static_cast<double>(a), static_cast<double>(b)));
}
QUARRY_FN double betaln(double a, double b) {
  double sign;
  return rounded(log_beta(a, b, sign));
}
QUARRY_FN float betaln(float a, float b) {
  return static_cast<float>(betaln(static_cast<double>(a), static_cast<double>(b)));
}

// ---- Incomplete functions ----

// A continued fraction 1 / (b0 + a1 / (b1 + a2 / (b2 + ...))) by Steed's algorithm (A. R. Barnett et al., Comput. Phys.
// Commun. 8, 1974), its sum in two parts. `at(n, a, b)` gives a pair of coefficients.
template <class Coefficients>
QUARRY_FN double fraction(const Coefficients& at) {
  double a, b;
  at(0, a, b);
  double d = 1 / b, term = d;
  wide sum = {d, 0};
  for (int n = 1; n < 200000; ++n) {
    at(n, a, b);
    const double next = 1 / math::fma(a, d, b);
    term *= -a * d * next;
    d = next;
    sum = add(sum, term);
    if (!(absolute(term) > absolute(sum.hi) * 1e-18)) break;
  }
  return rounded(sum);
}

// x^a exp(-x) / Gamma(a).
QUARRY_LONG_FN double gamma_density(double a, double x) {
  if (is_moderate(a) && x > 1e-4 && x < 700) return math::pow(x, a) * math::exp(-x) / math::tgamma(a);
  if (a < 16) return exp_wide(subtract(add(multiply(log_wide(x), a), -x), log_gamma_wide(a)));
  const wide m = divide(exact_sum(x, -a), {a, 0});
  const wide deficit = m.hi > 0.3 || m.hi < -0.3 ? subtract(m, log_wide(divide({x, 0}, {a, 0}))) : log_deficit(m);
  return math::sqrt(a) / kSqrtTwoPi * exp_wide(negative(multiply(deficit, a))) * math::exp(-stirling_tail(a));
}
// The smaller of P and Q where both a is large and x near to it: DLMF 8.12.3 and 8.12.4, the coefficients by 8.12.13.
QUARRY_LONG_FN double gamma_tail_of_large(double a, double x) {
  constexpr double c0[] = {
      -0.33333333333333333333,   0.083333333333333333333,    -0.014814814814814814815,  0.0011574074074074074074,
      0.0003527336860670194,     -0.00017875514403292181070, 3.9192631785224377817e-5,  -2.1854485106799921615e-6,
      -1.8540622107151599607e-6, 8.2967113409530860050e-7,   -1.7665952736826079304e-7, 6.7078535434014985804e-9,
      1.0261809784240308043e-8,  -4.3820360184533531865e-9,  9.1476995822367902342e-10, -2.5514193994946249767e-11};
  constexpr double c1[] = {-0.0018518518518518518519,  -0.0034722222222222222222, 0.0026455026455026455026,
                           -0.00099022633744855967078, 0.00020576131687242798354, -4.0187757201646090535e-7,
                           -1.8098550334489977837e-5,  7.6491609160811100846e-6,  -1.6120900894563446003e-6,
                           4.6471278028074343226e-9,   1.3786334469157209360e-7};
  constexpr double c2[] = {0.0041335978835978835979, -0.0026813271604938271605,  0.00077160493827160493827,
                           2.0093878600823045267e-6, -0.00010736653226365160522, 5.2923448829120125417e-5,
                           -1.2760635188618727992e-5};
  constexpr double c3[] = {0.00064943415637860082305, 0.00022947209362139917695, -0.00046918949439525571625,
                           0.00026772063206283885341, -7.5618016718839763887e-5};
  constexpr double c4[] = {-0.00086188829091671171090, 0.00078403922172006662747, -0.00029907248030319017680};
  const wide m = divide(exact_sum(x, -a), {a, 0});
  const wide d = multiply(log_deficit(m), a);
  const double root = math::sqrt(d.hi);
  const double eta = (m.hi < 0 ? -root : root) * math::sqrt(2 / a), r = 1 / a;
  const double series =
      polynomial(eta, c0) +
      r * (polynomial(eta, c1) + r * (polynomial(eta, c2) + r * (polynomial(eta, c3) + r * polynomial(eta, c4))));
  const double tail = 0.5 * erfcx(root), correction = series / (math::sqrt(a) * kSqrtTwoPi);
  return exp_wide(negative(d)) * (m.hi < 0 ? tail - correction : tail + correction);
}
// P(a, x), or Q(a, x) for `upper`.
QUARRY_LONG_FN double incomplete_gamma(double a, double x, bool upper) {
  if (!(a >= 0 && x >= 0)) return quiet_nan<double>();
  if (a == 0 || isinf(a) || x == 0 || isinf(x)) {
    if ((a == 0 && x == 0) || (isinf(a) && isinf(x))) return quiet_nan<double>();
    return (a == 0 || isinf(x)) != upper ? 1 : 0;
  }
  if (a > 1000 && absolute(x - a) < 0.3 * a) {
    const double small = gamma_tail_of_large(a, x);
    return (x >= a) == upper ? small : 1 - small;
  }
  if (a <= 0.5 && x < 1) {
    // DLMF 8.7.1: P = exp(l) (1 + s), which is near 1 for small a.
    double term = 1, s = 0;
    for (int n = 1; n < 30; ++n) {
      term *= -x / n;
      s += term * (a / (a + n));
    }
    const double log_1p = log_gamma_1p(a);
    const wide l = add(multiply(log_wide(x), a), -log_1p);
    return upper ? -math::expm1(l.hi) - math::exp(l.hi) * s : exp_wide(l) * (1 + s);
  }
  if (x < 1 || (a >= 1 && x < a + 1)) {  // DLMF 8.11.4
    wide sum = {1, 0};
    double term = 1;
    for (double n = 1; n < 200000; n += 1) {
      term *= x / (a + n);
      sum = add(sum, term);
      if (!(term > sum.hi * 1e-18)) break;
    }
    const double lower = gamma_density(a, x) / a * rounded(sum);
    return upper ? 1 - lower : lower;
  }
  const double q = gamma_density(a, x) * fraction([&](int n, double& c, double& d) {  // DLMF 8.9.2
                     c = n * (a - n);
                     d = (x - a) + (2 * n + 1);
                   });
  return upper ? q : 1 - q;
}
QUARRY_FN double gammainc(double a, double x) { return incomplete_gamma(a, x, false); }
QUARRY_FN double gammaincc(double a, double x) { return incomplete_gamma(a, x, true); }
QUARRY_FN float gammainc(float a, float x) {
  return static_cast<float>(gammainc(static_cast<double>(a), static_cast<double>(x)));
}
QUARRY_FN float gammaincc(float a, float x) {
  return static_cast<float>(gammaincc(static_cast<double>(a), static_cast<double>(x)));
}

// x^a y^b / B(a, b), x + y = 1.
QUARRY_LONG_FN double beta_density(double a, double b, wide x, wide y) {
  if (is_moderate(a) && is_moderate(b) && x.hi > 1e-4 && y.hi > 1e-4) {
    const double powers = math::pow(x.hi, a) * math::pow(y.hi, b) * (1 + (a * (x.lo / x.hi) + b * (y.lo / y.hi)));
    return powers / beta(a, b);
  }
  if (a < 16 || b < 16) {
    const wide powers = add(multiply(log_wide(x), a), multiply(log_wide(y), b));
    return exp_wide(subtract(powers, a < b ? log_beta_positive(a, b) : log_beta_positive(b, a)));
  }
  // By the distances of x and y from the mean.
  const wide c = exact_sum(a, b), over = add(multiply(x, c), -a), under = add(multiply(y, c), -b);
  const wide d = add(multiply(log_deficit(divide(over, {a, 0})), a), multiply(log_deficit(divide(under, {b, 0})), b));
  return math::sqrt(a) * math::sqrt(b / c.hi) / kSqrtTwoPi * exp_wide(negative(d)) *
         math::exp(stirling_tail(c.hi) - stirling_tail(a) - stirling_tail(b));
}
// The lower part for x below the mean or near it: A. R. DiDonato, A. H. Morris, ACM Trans. Math. Softw. 18, 1992,
// equations 9 and 10.
QUARRY_LONG_FN double beta_fraction(double a, double b, wide x, wide y) {
  const double t = x.hi, distance = rounded(subtract(multiply(y, a), multiply(x, b)));
  return beta_density(a, b, x, y) * fraction([&](int n, double& c, double& d) {
           const double m = n;
           const double f = a + (2 * m - 1);
           c = n == 0 ? 0 : (a + (m - 1)) / f * ((a + b + (m - 1)) / f) * m * ((b - m) * t) * t;
           d = m + (n == 0 ? 0 : m * (b - m) * t / f) + (a + m) / (a + (2 * m + 1)) * (distance + 1 + m * (1 + y.hi));
         });
}
QUARRY_LONG_FN double betainc(double a, double b, double x) {
  if (!(a >= 0 && b >= 0 && x >= 0 && x <= 1)) return quiet_nan<double>();
  if ((a == 0 && b == 0) || (isinf(a) && isinf(b))) return quiet_nan<double>();
  if (x == 0 || x == 1) return x;
  if (a == 0 || isinf(b)) return 1;
  if (b == 0 || isinf(a)) return 0;
  wide p = {x, 0}, q = exact_sum(1, -x);
  const double mean = a / (a + b), usual = (a + 1) / (a + b + 2);
  if (x <= (b > 0.5 && b < 1 && mean > usual ? mean : usual)) return beta_fraction(a, b, p, q);
  if (b > 0.5) return 1 - beta_fraction(b, a, q, p);
  // For small b the upper part is near 1: it is exp(l) (1 + s), DLMF 8.17.7.
  double term = 1, s = 0;
  for (double n = 1; n < 200; n += 1) {
    term *= (n - a) / n * q.hi;
    s += term * (b / (b + n));
    if (!(absolute(term) > 1e-18)) break;
  }
  const double l = b * rounded(log_wide(q)) - log_gamma_1p(b) + log_gamma_ratio(a, b);
  return -math::expm1(l) - math::exp(l) * s;
}
QUARRY_FN float betainc(float a, float b, float x) {
  return static_cast<float>(betainc(static_cast<double>(a), static_cast<double>(b), static_cast<double>(x)));
}

// ---- Logistic functions and entropies ----

template <Real T>
QUARRY_FN T expit(T x) {
  const T e = math::exp(-absolute(x));
  return (x < 0 ? e : T(1)) / (T(1) + e);
}
template <Real T>
QUARRY_FN T logit(T p) {
  return p >= T(0.25) && p <= T(0.75) ? 2 * math::atanh(2 * p - 1) : math::log(p / (1 - p));
}
template <Real T>
QUARRY_FN T xlogy(T x, T y) {
  return x == 0 && !isnan(y) ? T(0) : x * math::log(y);
}
template <Real T>
QUARRY_FN T xlog1py(T x, T y) {
  return x == 0 && !isnan(y) ? T(0) : x * math::log1p(y);
}
template <class T>
QUARRY_FN cx<T> xlogy(cx<T> x, cx<T> y) {
  return x.re == 0 && x.im == 0 && !isnan(y) ? cx<T>{0, 0} : fn::multiply(x, fn::log(y));
}
template <class T>
QUARRY_FN cx<T> xlog1py(cx<T> x, cx<T> y) {
  return x.re == 0 && x.im == 0 && !isnan(y) ? cx<T>{0, 0} : fn::multiply(x, fn::log1p(y));
}
template <Real T>
QUARRY_FN T entr(T x) {
  if (x > 0) return -x * math::log(x);
  return x < 0 ? -infinity<T>() : x == 0 ? T(0) : x;
}
template <Real T>
QUARRY_FN T rel_entr(T x, T y) {
  if (isnan(x) || isnan(y)) return quiet_nan<T>();
  if (!(x > 0 && y > 0)) return x == 0 && y >= 0 ? T(0) : infinity<T>();
  const T ratio = x / y;
  if (ratio > T(0.5) && ratio < T(2)) return x * math::log1p((x - y) / y);
  // A quotient that is not normal has lost digits.
  constexpr T least = sizeof(T) == 4 ? T(0x1p-126) : T(0x1p-1022);
  return ratio >= least && isfinite(ratio) ? x * math::log(ratio) : x * (math::log(x) - math::log(y));
}

}  // namespace quarry::local::fn::special
