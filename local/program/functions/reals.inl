// float and double.
namespace quarry::local::fn {

template <Real T>
QUARRY_FN T add(T x, T y) {
  return x + y;
}
template <Real T>
QUARRY_FN T subtract(T x, T y) {
  return x - y;
}
template <Real T>
QUARRY_FN T multiply(T x, T y) {
  return x * y;
}
template <Real T>
QUARRY_FN T divide(T x, T y) {
  return x / y;
}
template <Real T>
QUARRY_FN T negative(T x) {
  return -x;
}
template <Real T>
QUARRY_FN T absolute(T x) {
  return QUARRY_BIT_CAST(T, magnitude_bits(x));
}
template <Real T>
QUARRY_FN T square(T x) {
  return x * x;
}
template <Real T>
QUARRY_FN T sign(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x;
}
template <Real T>
QUARRY_FN T reciprocal(T x) {
  return T(1) / x;
}
template <Real T>
QUARRY_FN T copysign(T x, T y) {
  constexpr typename real_format<T>::bits sign = typename real_format<T>::bits(1) << (sizeof(T) * 8 - 1);
  return QUARRY_BIT_CAST(T, magnitude_bits(x) | (QUARRY_BIT_CAST(typename real_format<T>::bits, y) & sign));
}
// A rounded quotient q is above the exact one by less than the step to the next integer, so that of its integral part
// one at most is too much; the remainder by either is exact or rounded once. So a division does what takes a loop over
// bits where quotients are large. Here they are not, and integral quotients are exact in all that is made of them.
template <Real T>
QUARRY_FN bool is_moderate(T q, T y) {
  return absolute(q) < (sizeof(T) == 8 ? T(1125899906842624.0) : T(2097152.0)) && !isinf(y);  // 2^50, 2^21
}
template <Real T>
QUARRY_FN T fmod(T x, T y) {
  const T q = x / y;
  if (!is_moderate(q, y)) return math::fmod(x, y);
  const T n = math::trunc(q);
  T r = math::fma(-n, y, x);
  if (r != 0 && (r < 0) != (x < 0)) r = math::fma(copysign(T(1), q) - n, y, x);
  return r == 0 ? copysign(T(0), x) : r;
}
// The floor of x / y where the rounded quotient is moderate.
template <Real T>
QUARRY_FN T moderate_floor(T q, T x, T y) {
  const T n = math::floor(q), r = math::fma(-n, y, x);
  return r != 0 && (r < 0) != (y < 0) ? n - T(1) : n;
}
template <Real T>
QUARRY_FN T remainder(T x, T y) {
  const T q = x / y;
  if (is_moderate(q, y)) {
    const T r = math::fma(-moderate_floor(q, x, y), y, x);
    return r == 0 ? copysign(T(0), y) : r;
  }
  const T r = math::fmod(x, y);
  if (y == 0) return r;
  if (r == 0) return copysign(T(0), y);
  return (y < 0) != (r < 0) ? r + y : r;
}
template <Real T>
QUARRY_FN T floor_divide(T x, T y) {
  const T q = x / y;
  if (y == 0) return q;
  if (is_moderate(q, y)) {
    const T n = moderate_floor(q, x, y);
    return n == 0 ? copysign(T(0), q) : n;
  }
  const T r = math::fmod(x, y);
  T quotient = (x - r) / y;
  if (r != 0 && (y < 0) != (r < 0)) quotient -= T(1);
  if (quotient == 0) return copysign(T(0), q);
  const T rounded = math::floor(quotient);
  return quotient - rounded > T(0.5) ? rounded + T(1) : rounded;
}
// Every unary function below is the device's; ufunc.def's names differ from C's where NumPy's do.
#define QUARRY_UNARY(name, c_name) \
  template <Real T>                \
  QUARRY_FN T name(T x) {          \
    return math::c_name(x);        \
  }
QUARRY_UNARY(sqrt, sqrt)
QUARRY_UNARY(cbrt, cbrt)
QUARRY_UNARY(exp, exp)
QUARRY_UNARY(exp2, exp2)
QUARRY_UNARY(expm1, expm1)
QUARRY_UNARY(log, log)
QUARRY_UNARY(log2, log2)
QUARRY_UNARY(log10, log10)
QUARRY_UNARY(log1p, log1p)
QUARRY_UNARY(sin, sin)
QUARRY_UNARY(cos, cos)
QUARRY_UNARY(tan, tan)
QUARRY_UNARY(arcsin, asin)
QUARRY_UNARY(arccos, acos)
QUARRY_UNARY(arctan, atan)
QUARRY_UNARY(sinh, sinh)
QUARRY_UNARY(cosh, cosh)
QUARRY_UNARY(tanh, tanh)
QUARRY_UNARY(arcsinh, asinh)
QUARRY_UNARY(arccosh, acosh)
QUARRY_UNARY(arctanh, atanh)
QUARRY_UNARY(floor, floor)
QUARRY_UNARY(ceil, ceil)
QUARRY_UNARY(trunc, trunc)
QUARRY_UNARY(rint, rint)
#undef QUARRY_UNARY
// The exponents that need no logarithm. Results are rounded once: x^3 takes the error of x^2 along, unless it is lost
// near the limits of the format. The root is that of pow(): of -0 it is 0, of -inf inf.
template <Real T>
QUARRY_FN bool is_simple_exponent(T y) {
  return (y == T(2)) | (y == T(3)) | (y == T(-1)) | (y == T(0.5));
}
template <Real T>
QUARRY_FN T simple_power(T x, T y) {
  if (y == T(2)) return x * x;
  if (y == T(-1)) return T(1) / x;
  if (y == T(0.5)) return x == -infinity<T>() ? infinity<T>() : math::sqrt(x) + T(0);
  constexpr T least = sizeof(T) == 8 ? T(2.2250738585072014e-308) : T(1.17549435e-38);
  const T square = x * x, cube = square * x, size = absolute(cube);
  return size >= least && size < infinity<T>() ? math::fma(square, x, math::fma(x, x, -square) * x) : cube;
}
template <Real T>
QUARRY_FN T power(T x, T y) {
  return is_simple_exponent(y) ? simple_power(x, y) : math::pow(x, y);
}
template <Real T>
QUARRY_FN T arctan2(T x, T y) {
  return math::atan2(x, y);
}
template <Real T>
QUARRY_FN T hypot(T x, T y) {
  return math::hypot(x, y);
}
template <Real T>
QUARRY_FN T degrees(T x) {
  return x * T(180.0 / 3.14159265358979323846);
}
template <Real T>
QUARRY_FN T radians(T x) {
  return x * T(3.14159265358979323846 / 180.0);
}
// The greater argument plus at most 1. Near zero that cancels, and the rounding errors of the second term are large
// beside the sum: float then takes it from double.
template <Real T, class Sum>
QUARRY_FN T sum_of_powers(T x, T y, const Sum& sum) {
  const T result = sum(x, y);
  if constexpr (sizeof(T) == 4)
    if (absolute(result) < T(0.25)) return static_cast<T>(sum(static_cast<double>(x), static_cast<double>(y)));
  return result;
}
template <Real T>
QUARRY_FN T logaddexp(T x, T y) {
  return sum_of_powers(x, y, [](auto a, auto b) {
    using U = decltype(a);
    if (a == b) return a + U(0.69314718055994530942);
    const U d = a - b;
    if (d > 0) return a + math::log1p(math::exp(-d));
    return d <= 0 ? b + math::log1p(math::exp(d)) : d;
  });
}
template <Real T>
QUARRY_FN T logaddexp2(T x, T y) {
  return sum_of_powers(x, y, [](auto a, auto b) {
    using U = decltype(a);
    constexpr U log2_e = U(1.44269504088896340736);
    if (a == b) return a + U(1);
    const U d = a - b;
    if (d > 0) return a + log2_e * math::log1p(math::exp2(-d));
    return d <= 0 ? b + log2_e * math::log1p(math::exp2(d)) : d;
  });
}
template <Real T>
QUARRY_FN T heaviside(T x, T at_zero) {
  return isnan(x) ? x : x == 0 ? at_zero : x < 0 ? T(0) : T(1);
}
template <Real T>
QUARRY_FN T modf_fraction(T x) {
  return copysign(isinf(x) ? T(0) : x - math::trunc(x), x);
}

// Next representable value, on the bits of any binary float format.
template <class Bits>
QUARRY_FN Bits next_bits(Bits x, Bits y, Bits infinity) {
  constexpr Bits sign = static_cast<Bits>(Bits(1) << (sizeof(Bits) * 8 - 1));
  const Bits mx = static_cast<Bits>(x & static_cast<Bits>(~sign)), my = static_cast<Bits>(y & static_cast<Bits>(~sign));
  if (mx > infinity) return x;
  if (my > infinity) return y;
  if (mx == 0 && my == 0) return y;
  if (x == y) return y;
  if (mx == 0) return static_cast<Bits>((y & sign) | 1u);
  const bool away = ((x ^ y) & sign) == 0 && my > mx;
  return static_cast<Bits>(away ? x + 1u : x - 1u);
}
template <Real T>
QUARRY_FN T nextafter(T x, T y) {
  using Bits = typename real_format<T>::bits;
  return QUARRY_BIT_CAST(T,
                         next_bits<Bits>(QUARRY_BIT_CAST(Bits, x), QUARRY_BIT_CAST(Bits, y), real_format<T>::infinity));
}
template <Half T>
QUARRY_FN T nextafter(T x, T y) {
  if (same_type<T, float16> && static_cast<float>(x) == static_cast<float>(y)) return x;  // NumPy's choice of zero
  T result;
  result.bits = next_bits<uint16_t>(x.bits, y.bits, same_type<T, float16> ? 0x7c00 : 0x7f80);
  return result;
}
// Distance to the next value of larger magnitude, with the sign of x; of -0 that of 0.
template <Real T>
QUARRY_FN T spacing(T x) {
  if (!isfinite(x)) return quiet_nan<T>();
  if (x == 0) x = 0;
  using Bits = typename real_format<T>::bits;
  return QUARRY_BIT_CAST(T, static_cast<Bits>(QUARRY_BIT_CAST(Bits, x) + 1u)) - x;
}
template <Half T>
QUARRY_FN T spacing(T x) {
  if (!isfinite(static_cast<float>(x))) return T(quiet_nan<float>());
  T next;
  // NumPy's float16 measures upwards, whatever the sign.
  const bool down = same_type<T, float16> && (x.bits & 0x8000u) && (x.bits & 0x7fffu);
  next.bits = static_cast<uint16_t>(down ? x.bits - 1u : same_type<T, float16> && x.bits == 0x8000u ? 1u : x.bits + 1u);
  return T(static_cast<float>(next) - static_cast<float>(x));
}

// x * 2^n, rounded once.
template <Real T>
QUARRY_FN T ldexp(T x, int64_t n) {
  using Bits = typename real_format<T>::bits;
  constexpr int mantissa = real_format<T>::mantissa, bias = real_format<T>::exponent_bias;
  const int64_t limit = 2 * bias + mantissa + 4;
  n = n < -2 * limit ? -2 * limit : n > 2 * limit ? 2 * limit : n;
  const Bits magnitude = magnitude_bits(x);
  if (magnitude == 0 || magnitude >= real_format<T>::infinity) return x;
  int64_t exponent = static_cast<int64_t>(magnitude >> mantissa);
  Bits significand = magnitude & ((Bits(1) << mantissa) - 1u);
  if (exponent == 0) {  // subnormal: normalise
    exponent = 1;
    while (!(significand >> mantissa)) {
      significand <<= 1;
      --exponent;
    }
    significand &= (Bits(1) << mantissa) - 1u;
  }
  exponent += n;
  if (exponent >= 2 * bias + 1) return copysign(infinity<T>(), x);
  if (exponent > 0) return copysign(QUARRY_BIT_CAST(T, (static_cast<Bits>(exponent) << mantissa) | significand), x);
  if (exponent < -mantissa) return copysign(T(0), x);
  // Subnormal result: a normal number times a power of two rounds once.
  const T normal = QUARRY_BIT_CAST(T, (static_cast<Bits>(exponent + mantissa + 2) << mantissa) | significand);
  const T scale = QUARRY_BIT_CAST(T, static_cast<Bits>(bias - mantissa - 2) << mantissa);
  return copysign(normal * scale, x);
}
// x = mantissa * 2^exponent with |mantissa| in [0.5, 1); zero, inf and NaN are their own mantissa with exponent 0.
template <Real T>
QUARRY_FN int32_t frexp_exponent(T x) {
  constexpr int mantissa = real_format<T>::mantissa, bias = real_format<T>::exponent_bias;
  auto magnitude = magnitude_bits(x);
  if (magnitude == 0 || magnitude >= real_format<T>::infinity) return 0;
  int32_t shift = 0;
  if (!(magnitude >> mantissa)) {
    magnitude = magnitude_bits(x * T(uint64_t(1) << (mantissa + 1)));
    shift = mantissa + 1;
  }
  return static_cast<int32_t>(magnitude >> mantissa) - (bias - 1) - shift;
}
template <Real T>
QUARRY_FN T frexp_mantissa(T x) {
  constexpr int mantissa = real_format<T>::mantissa, bias = real_format<T>::exponent_bias;
  using Bits = typename real_format<T>::bits;
  Bits magnitude = magnitude_bits(x);
  if (magnitude == 0 || magnitude >= real_format<T>::infinity) return x;
  if (!(magnitude >> mantissa)) magnitude = magnitude_bits(x * T(uint64_t(1) << (mantissa + 1)));
  magnitude = (magnitude & ((Bits(1) << mantissa) - 1u)) | (Bits(bias - 1) << mantissa);
  return copysign(QUARRY_BIT_CAST(T, magnitude), x);
}

}  // namespace quarry::local::fn
