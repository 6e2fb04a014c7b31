// Loops over float32 and float64. Transcendental functions other than exp are SLEEF's: its finz_ variants return the
// same bits at every vector length. The oldest level has no FMA, which they need, and calls libm.
#include "quarry/local/cpu/loops/map.inl"

#if defined(__AVX2__) && defined(__FMA__)
#define QUARRY_VECTOR_MATH 1
#include <immintrin.h>
#include <sleef.h>
#endif

namespace quarry::local::cpu::QUARRY_LEVEL {
namespace {

#ifdef QUARRY_VECTOR_MATH

#ifdef __AVX512F__
using VecF = __m512;
using VecD = __m512d;
#define QUARRY_SLEEF_F(name, ulp) Sleef_finz_##name##f16_##ulp##avx512f
#define QUARRY_SLEEF_D(name, ulp) Sleef_finz_##name##d8_##ulp##avx512f
#else
using VecF = __m256;
using VecD = __m256d;
#define QUARRY_SLEEF_F(name, ulp) Sleef_finz_##name##f8_##ulp##avx2
#define QUARRY_SLEEF_D(name, ulp) Sleef_finz_##name##d4_##ulp##avx2
#endif

// F has a vector type, its element type and a function of one or two vectors.
template <class F>
void vector_loop(void* out, const void* const* args, int64_t n) {
  using T = typename F::element;
  constexpr int64_t width = sizeof(typename F::vector) / sizeof(T);
  const T* x = static_cast<const T*>(args[0]);
  const T* y = static_cast<const T*>(args[F::arity - 1]);
  T* r = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + width <= n; i += width) F::apply(r + i, x + i, y + i);
  if (i < n) {
    // The rest goes through the same function, padded.
    T a[width], b[width];
    for (int64_t k = 0; k < width; ++k) {
      a[k] = i + k < n ? x[i + k] : T(1);
      b[k] = i + k < n ? y[i + k] : T(1);
    }
    F::apply(a, a, b);
    std::memcpy(r + i, a, static_cast<size_t>(n - i) * sizeof(T));
  }
}

// The functions that SLEEF gives up on before they overflow (or that overflow inside): such elements, finite with an
// infinite result, are computed again by libm.
template <class F, class Row>
void vector_loop_to_the_end(void* out, const void* const* args, int64_t n) {
  using T = typename F::element;
  constexpr int64_t kPart = 256;
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = n - begin < kPart ? n - begin : kPart;
    T x[kPart];  // the result may take the argument's place
    std::memcpy(x, static_cast<const T*>(args[0]) + begin, static_cast<size_t>(count) * sizeof(T));
    const void* const part[] = {x};
    T* r = static_cast<T*>(out) + begin;
    vector_loop<F>(r, part, count);
    int64_t lost = 0;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) lost += fn::isfinite(x[i]) && !fn::isfinite(r[i]) ? 1 : 0;
    for (int64_t i = 0; lost > 0 && i < count; ++i)
      if (fn::isfinite(x[i]) && !fn::isfinite(r[i])) r[i] = Row::template apply<T>(x[i], x[i], x[i]);
  }
}

// Simple exponents as fn::power() has them; mostly all are one.
template <class F>
void power_loop(void* out, const void* const* args, int64_t n) {
  using T = typename F::element;
  constexpr int64_t kPart = 256;
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = n - begin < kPart ? n - begin : kPart;
    const T* x = static_cast<const T*>(args[0]) + begin;
    const T* y = static_cast<const T*>(args[1]) + begin;
    T* r = static_cast<T*>(out) + begin;
    const T first = y[0];
    int64_t simple = 0, same = 0;
    for (int64_t i = 0; i < count; ++i) {
      simple += fn::is_simple_exponent(y[i]) ? 1 : 0;
      same += y[i] == first ? 1 : 0;
    }
    if (simple == count && same == count) {
      if (first == T(2)) {
        for (int64_t i = 0; i < count; ++i) r[i] = x[i] * x[i];
      } else {
        for (int64_t i = 0; i < count; ++i) r[i] = fn::simple_power(x[i], first);
      }
      continue;
    }
    T bases[kPart], exponents[kPart];  // the result may take an argument's place
    if (simple > 0) {
      std::memcpy(bases, x, static_cast<size_t>(count) * sizeof(T));
      std::memcpy(exponents, y, static_cast<size_t>(count) * sizeof(T));
    }
    const void* const part[] = {x, y};
    vector_loop<F>(r, part, count);
    for (int64_t i = 0; simple > 0 && i < count; ++i)
      if (fn::is_simple_exponent(exponents[i])) r[i] = fn::simple_power(bases[i], exponents[i]);
  }
}

// Absolute values of complex numbers by F, the hypotenuse of vectors. It takes the place of the loop that calls libm
// for each, so it is registered after the loops over complex numbers.
template <class F>
void complex_absolute_loop(void* out, const void* const* args, int64_t n) {
  using T = typename F::element;
  constexpr int64_t kPart = 256;
  const auto* z = static_cast<const T*>(args[0]);
  T* r = static_cast<T*>(out);
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = n - begin < kPart ? n - begin : kPart;
    T re[kPart], im[kPart];
    for (int64_t i = 0; i < count; ++i) {
      re[i] = z[2 * (begin + i)];
      im[i] = z[2 * (begin + i) + 1];
    }
    const void* const part[] = {re, im};
    vector_loop<F>(r + begin, part, count);
  }
}

#define QUARRY_VECTOR_FUNCTIONS(unary, careful, binary)                                                               \
  unary(exp2, exp2, u10) careful(expm1, expm1, u10) unary(log, log, u10) unary(log2, log2, u10)                       \
      unary(log10, log10, u10) careful(log1p, log1p, u10) unary(sin, sin, u10) unary(cos, cos, u10)                   \
          unary(tan, tan, u10) unary(arcsin, asin, u10) unary(arccos, acos, u10) unary(arctan, atan, u10)             \
              careful(sinh, sinh, u10) careful(cosh, cosh, u10) unary(tanh, tanh, u10) careful(arcsinh, asinh, u10)   \
                  careful(arccosh, acosh, u10) unary(arctanh, atanh, u10) unary(cbrt, cbrt, u10) unary(erf, erf, u10) \
                      unary(erfc, erfc, u15) binary(power, pow, u10) binary(float_power, pow, u10)                    \
                          binary(arctan2, atan2, u10) binary(hypot, hypot, u05)

// exp(x) = 2^n e^r, n = round(x / ln 2), |r| <= ln(2) / 2, e^r by its Taylor polynomial. Straight-line code with
// explicit fused operations: it vectorises, and its bits are the same at every vector length.
inline double exp_straight(double x) {
  constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer in the low bits
  // The clamps only keep n in range; NaN passes.
  const double c = x > 720.0 ? 720.0 : x < -760.0 ? -760.0 : x;
  const double n = math::fma(c, 1.4426950408889634, magic) - magic;
  const double r = math::fma(n, -1.90821492927058770002e-10, math::fma(n, -6.93147180369123816490e-01, c));
  double p = 1.0 / 6227020800.0;
  p = math::fma(p, r, 1.0 / 479001600.0);
  p = math::fma(p, r, 1.0 / 39916800.0);
  p = math::fma(p, r, 1.0 / 3628800.0);
  p = math::fma(p, r, 1.0 / 362880.0);
  p = math::fma(p, r, 1.0 / 40320.0);
  p = math::fma(p, r, 1.0 / 5040.0);
  p = math::fma(p, r, 1.0 / 720.0);
  p = math::fma(p, r, 1.0 / 120.0);
  p = math::fma(p, r, 1.0 / 24.0);
  p = math::fma(p, r, 1.0 / 6.0);
  p = math::fma(p, r, 0.5);
  p = 1.0 + math::fma(p * r, r, r);
  // 2^n in two factors: either overflow or a subnormal result rounds once, at the end.
  const double half = math::fma(n, 0.5, magic) - magic;
  const double first = QUARRY_BIT_CAST(double, QUARRY_BIT_CAST(uint64_t, half + (magic + 1023.0)) << 52);
  const double second = QUARRY_BIT_CAST(double, QUARRY_BIT_CAST(uint64_t, (n - half) + (magic + 1023.0)) << 52);
  return p * first * second;
}
inline float exp_straight(float x) {
  constexpr float magic = 12582912.0f;  // 1.5 * 2^23
  const float c = x > 90.0f ? 90.0f : x < -105.0f ? -105.0f : x;
  const float n = math::fma(c, 1.44269504f, magic) - magic;
  const float r = math::fma(n, -1.42860677e-06f, math::fma(n, -6.93145752e-01f, c));
  float p = 1.0f / 40320.0f;
  p = math::fma(p, r, 1.0f / 5040.0f);
  p = math::fma(p, r, 1.0f / 720.0f);
  p = math::fma(p, r, 1.0f / 120.0f);
  p = math::fma(p, r, 1.0f / 24.0f);
  p = math::fma(p, r, 1.0f / 6.0f);
  p = math::fma(p, r, 0.5f);
  p = 1.0f + math::fma(p * r, r, r);
  const float half = math::fma(n, 0.5f, magic) - magic;
  const float first = QUARRY_BIT_CAST(float, QUARRY_BIT_CAST(uint32_t, half + (magic + 127.0f)) << 23);
  const float second = QUARRY_BIT_CAST(float, QUARRY_BIT_CAST(uint32_t, (n - half) + (magic + 127.0f)) << 23);
  return p * first * second;
}
template <class T>
void exp_loop(void* out, const void* const* args, int64_t n) {
  const T* x = static_cast<const T*>(args[0]);
  T* r = static_cast<T*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) r[i] = exp_straight(x[i]);
}

#ifdef __AVX512F__
// The same operations by name: here the scaling is one instruction, which rounds once as the two factors do.
template <>
void exp_loop<double>(void* out, const void* const* args, int64_t n) {
  const double* x = static_cast<const double*>(args[0]);
  double* result = static_cast<double*>(out);
  int64_t i = 0;
  const auto all = [](double value) { return _mm512_set1_pd(value); };
  for (; i + 8 <= n; i += 8) {
    // min and max return their second operand for NaN.
    const __m512d c = _mm512_max_pd(all(-760.0), _mm512_min_pd(all(720.0), _mm512_loadu_pd(x + i)));
    const __m512d magic = all(6755399441055744.0);
    const __m512d k = _mm512_sub_pd(_mm512_fmadd_pd(c, all(1.4426950408889634), magic), magic);
    const __m512d r =
        _mm512_fmadd_pd(k, all(-1.90821492927058770002e-10), _mm512_fmadd_pd(k, all(-6.93147180369123816490e-01), c));
    __m512d p = all(1.0 / 6227020800.0);
    p = _mm512_fmadd_pd(p, r, all(1.0 / 479001600.0));
    p = _mm512_fmadd_pd(p, r, all(1.0 / 39916800.0));
    p = _mm512_fmadd_pd(p, r, all(1.0 / 3628800.0));
    p = _mm512_fmadd_pd(p, r, all(1.0 / 362880.0));
    p = _mm512_fmadd_pd(p, r, all(1.0 / 40320.0));
    p = _mm512_fmadd_pd(p, r, all(1.0 / 5040.0));
    p = _mm512_fmadd_pd(p, r, all(1.0 / 720.0));
    p = _mm512_fmadd_pd(p, r, all(1.0 / 120.0));
    p = _mm512_fmadd_pd(p, r, all(1.0 / 24.0));
    p = _mm512_fmadd_pd(p, r, all(1.0 / 6.0));
    p = _mm512_fmadd_pd(p, r, all(0.5));
    p = _mm512_add_pd(all(1.0), _mm512_fmadd_pd(_mm512_mul_pd(p, r), r, r));
    _mm512_storeu_pd(result + i, _mm512_scalef_pd(p, k));
  }
  for (; i < n; ++i) result[i] = exp_straight(x[i]);
}

// The correctly rounded square root from an estimate by Newton's method with a fused last step (P. Markstein, IBM J.
// Res. Dev. 34, 1990): several times the rate of the instruction. Zero, subnormal, huge, negative and special numbers
// take the instruction.
void sqrt_loop(void* out, const void* const* args, int64_t n) {
  const double* x = static_cast<const double*>(args[0]);
  double* result = static_cast<double*>(out);
  const __m512d half = _mm512_set1_pd(0.5), least = _mm512_set1_pd(0x1p-900), most = _mm512_set1_pd(0x1p900);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m512d a = _mm512_loadu_pd(x + i);
    const __mmask8 usual = _mm512_cmp_pd_mask(a, least, _CMP_GE_OQ) & _mm512_cmp_pd_mask(a, most, _CMP_LE_OQ);
    const __m512d y = _mm512_rsqrt14_pd(a);
    __m512d g = _mm512_mul_pd(a, y), h = _mm512_mul_pd(y, half);
    __m512d e = _mm512_fnmadd_pd(g, h, half);
    g = _mm512_fmadd_pd(g, e, g);
    h = _mm512_fmadd_pd(h, e, h);
    e = _mm512_fnmadd_pd(g, h, half);
    g = _mm512_fmadd_pd(g, e, g);
    h = _mm512_fmadd_pd(h, e, h);
    g = _mm512_fmadd_pd(_mm512_fnmadd_pd(g, g, a), h, g);
    if (usual != 0xff) g = _mm512_sqrt_pd(a);
    _mm512_storeu_pd(result + i, g);
  }
  for (; i < n; ++i) result[i] = __builtin_sqrt(x[i]);
}
#endif

// 1 / (1 + exp(-x)), without a quotient of what overflows.
template <class T>
void expit_loop(void* out, const void* const* args, int64_t n) {
  const T* x = static_cast<const T*>(args[0]);
  T* r = static_cast<T*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T e = exp_straight(-fn::absolute(x[i]));
    r[i] = (x[i] < 0 ? e : T(1)) / (T(1) + e);
  }
}

#define QUARRY_ONE(name, V, T, function)                   \
  struct name {                                            \
    using vector = V;                                      \
    using element = T;                                     \
    static constexpr int arity = 1;                        \
    static inline void apply(T* r, const T* x, const T*) { \
      V v;                                                 \
      std::memcpy(&v, x, sizeof v);                        \
      v = function(v);                                     \
      std::memcpy(r, &v, sizeof v);                        \
    }                                                      \
  };
#define QUARRY_TWO(name, V, T, function)                     \
  struct name {                                              \
    using vector = V;                                        \
    using element = T;                                       \
    static constexpr int arity = 2;                          \
    static inline void apply(T* r, const T* x, const T* y) { \
      V v, w;                                                \
      std::memcpy(&v, x, sizeof v);                          \
      std::memcpy(&w, y, sizeof w);                          \
      v = function(v, w);                                    \
      std::memcpy(r, &v, sizeof v);                          \
    }                                                        \
  };
#define QUARRY_UNARY(name, c_name, ulp)                          \
  QUARRY_ONE(name##_f, VecF, float, QUARRY_SLEEF_F(c_name, ulp)) \
  QUARRY_ONE(name##_d, VecD, double, QUARRY_SLEEF_D(c_name, ulp))
#define QUARRY_BINARY(name, c_name, ulp)                         \
  QUARRY_TWO(name##_f, VecF, float, QUARRY_SLEEF_F(c_name, ulp)) \
  QUARRY_TWO(name##_d, VecD, double, QUARRY_SLEEF_D(c_name, ulp))
QUARRY_VECTOR_FUNCTIONS(QUARRY_UNARY, QUARRY_UNARY, QUARRY_BINARY)
QUARRY_UNARY(gammaln, lgamma, u10)
QUARRY_UNARY(gamma, tgamma, u10)

// SLEEF's for positive numbers. Of others it loses the digits of gammaln near its zeros, and the sign of zeros of
// gamma.
template <class F, class Row>
void vector_loop_of_positive(void* out, const void* const* args, int64_t n) {
  using T = typename F::element;
  constexpr int64_t kPart = 256;
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = n - begin < kPart ? n - begin : kPart;
    T x[kPart];  // the result may take the argument's place
    std::memcpy(x, static_cast<const T*>(args[0]) + begin, static_cast<size_t>(count) * sizeof(T));
    const void* const part[] = {x};
    T* r = static_cast<T*>(out) + begin;
    vector_loop<F>(r, part, count);
    int64_t others = 0;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) others += x[i] > 0 ? 0 : 1;
    for (int64_t i = 0; others > 0 && i < count; ++i)
      if (!(x[i] > 0)) r[i] = Row::template apply<T>(x[i], x[i], x[i]);
  }
}

// Near 1/2 by the hyperbolic tangent's inverse, elsewhere by the logarithm of the odds.
template <class T, class Log, class Artanh>
void logit_loop(void* out, const void* const* args, int64_t n) {
  constexpr int64_t kPart = 256;
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = n - begin < kPart ? n - begin : kPart;
    const T* x = static_cast<const T*>(args[0]) + begin;
    T odds[kPart], near[kPart], is_near[kPart];
    for (int64_t i = 0; i < count; ++i) {
      odds[i] = x[i] / (1 - x[i]);
      near[i] = 2 * x[i] - 1;
      is_near[i] = x[i] >= T(0.25) && x[i] <= T(0.75) ? T(1) : T(0);
    }
    const void *const of_odds[] = {odds}, *const of_near[] = {near};
    vector_loop<Log>(odds, of_odds, count);
    vector_loop<Artanh>(near, of_near, count);
    T* r = static_cast<T*>(out) + begin;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) r[i] = is_near[i] != 0 ? 2 * near[i] : odds[i];
  }
}

// As fn::special::ndtr, in double.
template <class T>
void ndtr_loop(void* out, const void* const* args, int64_t n) {
  constexpr int64_t kPart = 256;
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = n - begin < kPart ? n - begin : kPart;
    double x[kPart], y[kPart], e[kPart];
    for (int64_t i = 0; i < count; ++i) {
      x[i] = static_cast<double>(static_cast<const T*>(args[0])[begin + i]);
      y[i] = -x[i] * fn::special::kSqrtHalf;
    }
    const void* const part[] = {y};
    vector_loop<erfc_d>(e, part, count);
    T* r = static_cast<T*>(out) + begin;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) r[i] = static_cast<T>(fn::special::ndtr_of_erfc(x[i], y[i], e[i]));
  }
}

template <Op op>
constexpr bool is_vector_function =
    op == Op::exp || op == Op::expit || op == Op::gammaln || op == Op::gamma || op == Op::logit || op == Op::ndtr;
#define QUARRY_IS(name, c_name, ulp) \
  template <>                        \
  constexpr bool is_vector_function<Op::name> = true;
QUARRY_VECTOR_FUNCTIONS(QUARRY_IS, QUARRY_IS, QUARRY_IS)
#undef QUARRY_IS

#else

template <Op op>
constexpr bool is_vector_function = false;

#endif

template <class Row>
void register_float_row(Loops& loops) {
  if constexpr (!is_vector_function<Row::op>) {
    register_row<Row, double, 'f'>(loops, DType::float64);
    // Functions of the half formats' own bits have no float loop to fall back to.
    if constexpr (Row::rule != OpRule::double_only) register_row<Row, float, 'f'>(loops, DType::float32);
    if constexpr (Row::rule == OpRule::storage) {
      register_row<Row, float16, 'f'>(loops, DType::float16);
      register_row<Row, bfloat16, 'f'>(loops, DType::bfloat16);
    }
  }
}

}  // namespace

void register_floats(Loops& loops) {
#define QUARRY_OP(name, ...) register_float_row<row_##name>(loops);
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
#ifdef QUARRY_VECTOR_MATH
#define QUARRY_REGISTER(name, c_name, ulp)                                                        \
  loops.op[static_cast<int>(Op::name)][static_cast<int>(DType::float64)] = vector_loop<name##_d>; \
  if constexpr (Op::name != Op::float_power)                                                      \
    loops.op[static_cast<int>(Op::name)][static_cast<int>(DType::float32)] = vector_loop<name##_f>;
#define QUARRY_REGISTER_CAREFUL(name, c_name, ulp)                         \
  loops.op[static_cast<int>(Op::name)][static_cast<int>(DType::float64)] = \
      vector_loop_to_the_end<name##_d, row_##name>;                        \
  loops.op[static_cast<int>(Op::name)][static_cast<int>(DType::float32)] = vector_loop_to_the_end<name##_f, row_##name>;
  QUARRY_VECTOR_FUNCTIONS(QUARRY_REGISTER, QUARRY_REGISTER_CAREFUL, QUARRY_REGISTER)
  loops.op[static_cast<int>(Op::absolute)][static_cast<int>(DType::complex128)] = complex_absolute_loop<hypot_d>;
  loops.op[static_cast<int>(Op::absolute)][static_cast<int>(DType::complex64)] = complex_absolute_loop<hypot_f>;
  loops.op[static_cast<int>(Op::power)][static_cast<int>(DType::float64)] = power_loop<power_d>;
  loops.op[static_cast<int>(Op::power)][static_cast<int>(DType::float32)] = power_loop<power_f>;
  loops.op[static_cast<int>(Op::float_power)][static_cast<int>(DType::float64)] = power_loop<float_power_d>;
  loops.op[static_cast<int>(Op::exp)][static_cast<int>(DType::float64)] = exp_loop<double>;
  loops.op[static_cast<int>(Op::exp)][static_cast<int>(DType::float32)] = exp_loop<float>;
  loops.op[static_cast<int>(Op::expit)][static_cast<int>(DType::float64)] = expit_loop<double>;
  loops.op[static_cast<int>(Op::expit)][static_cast<int>(DType::float32)] = expit_loop<float>;
  loops.op[static_cast<int>(Op::logit)][static_cast<int>(DType::float64)] = logit_loop<double, log_d, arctanh_d>;
  loops.op[static_cast<int>(Op::logit)][static_cast<int>(DType::float32)] = logit_loop<float, log_f, arctanh_f>;
  loops.op[static_cast<int>(Op::ndtr)][static_cast<int>(DType::float64)] = ndtr_loop<double>;
  loops.op[static_cast<int>(Op::ndtr)][static_cast<int>(DType::float32)] = ndtr_loop<float>;
  loops.op[static_cast<int>(Op::gammaln)][static_cast<int>(DType::float64)] =
      vector_loop_of_positive<gammaln_d, row_gammaln>;
  loops.op[static_cast<int>(Op::gamma)][static_cast<int>(DType::float64)] = vector_loop_of_positive<gamma_d, row_gamma>;
  loops.op[static_cast<int>(Op::gammaln)][static_cast<int>(DType::float32)] =
      vector_loop_of_positive<gammaln_f, row_gammaln>;
  loops.op[static_cast<int>(Op::gamma)][static_cast<int>(DType::float32)] = vector_loop_of_positive<gamma_f, row_gamma>;
#endif
#ifdef __AVX512F__
  loops.op[static_cast<int>(Op::sqrt)][static_cast<int>(DType::float64)] = sqrt_loop;
#endif
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
