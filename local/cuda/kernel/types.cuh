// What local/program/op_functions.h asks its includer for, on a GPU under NVRTC. Embedded before it; includes nothing.
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#define QUARRY_FN static inline __device__
// Called rather than copied into every lane and pass: the compiler takes half a minute for such copies.
#define QUARRY_LONG_FN static __noinline__ __device__
#define QUARRY_BIT_CAST(To, value) (::quarry::local::bit_copy<To>(value))

namespace quarry::local {

template <class To, class From>
QUARRY_FN To bit_copy(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

struct float16 {
  uint16_t bits;
  float16() = default;
  inline __device__ explicit float16(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  inline __device__ operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};

struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  inline __device__ explicit bfloat16(float value) {
    const uint32_t x = bit_copy<uint32_t>(value);
    bits = (x & 0x7fffffffu) > 0x7f800000u ? static_cast<uint16_t>((x >> 16) | 0x40u)
                                           : static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
  }
  inline __device__ operator float() const { return bit_copy<float>(static_cast<uint32_t>(bits) << 16); }
};

namespace math {

#define QUARRY_MATH_1(name)                              \
  QUARRY_FN float name(float x) { return ::name##f(x); } \
  QUARRY_FN double name(double x) { return ::name(x); }
#define QUARRY_MATH_2(name)                                          \
  QUARRY_FN float name(float x, float y) { return ::name##f(x, y); } \
  QUARRY_FN double name(double x, double y) { return ::name(x, y); }
QUARRY_MATH_1(sqrt)
QUARRY_MATH_1(cbrt)
QUARRY_MATH_1(exp)
QUARRY_MATH_1(exp2)
QUARRY_MATH_1(expm1)
QUARRY_MATH_1(log)
QUARRY_MATH_1(log2)
QUARRY_MATH_1(log10)
QUARRY_MATH_1(log1p)
QUARRY_MATH_1(sin)
QUARRY_MATH_1(cos)
QUARRY_MATH_1(tan)
QUARRY_MATH_1(asin)
QUARRY_MATH_1(acos)
QUARRY_MATH_1(atan)
QUARRY_MATH_1(sinh)
QUARRY_MATH_1(cosh)
QUARRY_MATH_1(tanh)
QUARRY_MATH_1(asinh)
QUARRY_MATH_1(acosh)
QUARRY_MATH_1(atanh)
QUARRY_MATH_1(floor)
QUARRY_MATH_1(ceil)
QUARRY_MATH_1(trunc)
QUARRY_MATH_1(rint)
QUARRY_MATH_1(erf)
QUARRY_MATH_1(erfc)
QUARRY_MATH_1(lgamma)
QUARRY_MATH_1(tgamma)
QUARRY_MATH_2(atan2)
QUARRY_MATH_2(fmod)
QUARRY_MATH_2(copysign)
// x ** y within 0.504 ULP, as 2 ** (y log2 x) in double with polynomials of the length that a float needs: CUDA's
// pow(float) is up to 8 ULP off, and its pow(double) four times as slow as this. That one serves zeros, subnormal
// numbers, infinities, NaNs and results near the limits of the format.
QUARRY_FN float pow(float x, float y) {
  const float magnitude = ::fabsf(x);
  if (magnitude >= 0x1p-126f && magnitude <= 0x1.fffffep127f) {
    // magnitude = m 2^e with m in [sqrt(1/2), sqrt(2)), log2(m) = 2 atanh(s) / ln(2), s = (m - 1) / (m + 1)
    const uint32_t bits = __float_as_uint(magnitude);
    const int e = static_cast<int>(bits - 0x3f3504f3u) >> 23;
    const double m = __uint_as_float(bits - (static_cast<uint32_t>(e) << 23));
    const double d = m + 1;
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(d));
    r = __fma_rn(r, __fma_rn(-d, r, 1.0), r);
    const double s = (m - 1) * r, z = s * s;
    constexpr double kScale = 2.8853900817779268;  // 2 / ln(2)
    double series = kScale / 13;
    series = __fma_rn(series, z, kScale / 11);
    series = __fma_rn(series, z, kScale / 9);
    series = __fma_rn(series, z, kScale / 7);
    series = __fma_rn(series, z, kScale / 5);
    series = __fma_rn(series, z, kScale / 3);
    series = __fma_rn(series, z, kScale);
    const double exponent = y * __fma_rn(s, series, static_cast<double>(e));
    if (::fabs(exponent) < 125) {
      const double shifted = exponent + 0x1.8p52;  // the nearest whole number is in the low bits
      const int n = __double2loint(shifted);
      const double t = (exponent - (shifted - 0x1.8p52)) * 0.69314718055994531;  // exp(t), |t| <= ln(2) / 2
      double power = 1.0 / 40320;
      power = __fma_rn(power, t, 1.0 / 5040);
      power = __fma_rn(power, t, 1.0 / 720);
      power = __fma_rn(power, t, 1.0 / 120);
      power = __fma_rn(power, t, 1.0 / 24);
      power = __fma_rn(power, t, 1.0 / 6);
      power = __fma_rn(power, t, 0.5);
      power = __fma_rn(power, t, 1.0);
      power = __fma_rn(power, t, 1.0);
      const float result = static_cast<float>(power) * __uint_as_float(static_cast<uint32_t>(n + 127) << 23);
      if (x > 0) return result;
      if (::rintf(y) != y) return __int_as_float(0x7fffffff);
      // Floats from 2^24 on are even.
      return ::fabsf(y) < 0x1p24f && (static_cast<int>(y) & 1) ? -result : result;
    }
  }
  return static_cast<float>(::pow(static_cast<double>(x), static_cast<double>(y)));
}
// Whole powers of whole numbers are whole, which CUDA's 2 ULP do not promise; a cast to integers shows it.
QUARRY_FN double pow(double x, double y) {
  const double power = ::pow(x, y);
  const bool whole = y >= 0 && ::rint(y) == y && ::rint(x) == x && ::fabs(power) < 0x1p52;
  return whole ? ::rint(power) : power;
}
QUARRY_FN float hypot(float x, float y) { return ::hypotf(x, y); }
// CUDA's hypot(double) errs by an ULP even where one argument vanishes beside the other, which overflows at the largest
// number; there the larger is the rounded result.
QUARRY_FN double hypot(double x, double y) {
  const double a = ::fabs(x), b = ::fabs(y);
  const double larger = a > b ? a : b, smaller = a > b ? b : a;
  return smaller <= larger * 0x1p-54 ? larger : ::hypot(x, y);
}
#undef QUARRY_MATH_1
#undef QUARRY_MATH_2
QUARRY_FN float fma(float x, float y, float z) { return __fmaf_rn(x, y, z); }
QUARRY_FN double fma(double x, double y, double z) { return __fma_rn(x, y, z); }
QUARRY_FN uint64_t umulhi(uint64_t x, uint64_t y) { return __umul64hi(x, y); }
// The compiler multiplies zeros too where a factor was widened.
QUARRY_FN uint64_t umul_wide(uint32_t x, uint32_t y) {
  uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(x), "r"(y));
  return product;
}
// Newton's steps of the compiler's own square roots and quotients, without its tests for numbers near the limits of the
// format and its branches.
QUARRY_FN float sqrt_normal(float x) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  const float s = __fmul_rn(x, r), h = __fmul_rn(r, 0.5f);
  return __fmaf_rn(__fmaf_rn(-s, s, x), h, s);
}
QUARRY_FN double sqrt_normal(double x) {
  double r;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
  const double e = __fma_rn(x, -__dmul_rn(r, r), 1.0);
  const double y = __fma_rn(__fma_rn(e, 0.375, 0.5), __dmul_rn(r, e), r);
  const double s = __dmul_rn(x, y), h = __dmul_rn(y, 0.5);
  return __fma_rn(__fma_rn(s, -s, x), h, s);
}
QUARRY_FN double divide_normal(double x, double y) {
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(y));
  double e = __fma_rn(-y, r, 1.0);
  e = __fma_rn(e, e, e);
  r = __fma_rn(r, e, r);
  r = __fma_rn(r, __fma_rn(-y, r, 1.0), r);
  const double q = __dmul_rn(x, r);
  return __fma_rn(r, __fma_rn(-y, q, x), q);
}

}  // namespace math
}  // namespace quarry::local
