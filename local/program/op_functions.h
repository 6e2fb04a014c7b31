// The values of ufunc.def's expressions: device-neutral C++ that the CPU loops compile and the GPU engine embeds in its
// NVRTC sources, word for word. It includes nothing where the includer has provided, before it:
//   - int8_t ... uint64_t, and quarry::local::float16 and bfloat16 with a member `bits` and conversions to and from
//     float;
//   - QUARRY_FN, the function specifiers, `static` among them; QUARRY_BIT_CAST(To, value);
//   - quarry::local::math with overloads for float and double of
//     fma sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
//     atanh hypot pow fmod floor ceil trunc rint copysign, and umulhi(uint64_t, uint64_t).
// Nothing here may depend on contraction of a * b + c: compile with it off.
#pragma once

#ifndef QUARRY_FN  // alone on the host
#include "local/cpu/device_math.h"
#endif

namespace quarry::local {

// Layout of std::complex<T>.
template <class T>
struct cx {
  T re, im;
};

namespace fn {

template <class T>
struct traits {  // floats and complex have none
  static constexpr bool integer = false;
};
#define QUARRY_INTEGER(T, U, is_signed_, bits_)                                          \
  template <>                                                                            \
  struct traits<T> {                                                                     \
    static constexpr bool integer = true;                                                \
    static constexpr bool is_signed = is_signed_;                                        \
    static constexpr int bits = bits_;                                                   \
    using unsigned_type = U;                                                             \
    static constexpr T lowest = static_cast<T>(is_signed_ ? U(1) << (bits_ - 1) : U(0)); \
  };
QUARRY_INTEGER(int8_t, uint8_t, true, 8)
QUARRY_INTEGER(int16_t, uint16_t, true, 16)
QUARRY_INTEGER(int32_t, uint32_t, true, 32)
QUARRY_INTEGER(int64_t, uint64_t, true, 64)
QUARRY_INTEGER(uint8_t, uint8_t, false, 8)
QUARRY_INTEGER(uint16_t, uint16_t, false, 16)
QUARRY_INTEGER(uint32_t, uint32_t, false, 32)
QUARRY_INTEGER(uint64_t, uint64_t, false, 64)
#undef QUARRY_INTEGER
template <class T>
concept Integer = traits<T>::integer;
template <class T>
concept Signed = Integer<T> && traits<T>::is_signed;
template <class A, class B>
inline constexpr bool same_type = false;
template <class A>
inline constexpr bool same_type<A, A> = true;
template <class T>
concept Real = same_type<T, float> || same_type<T, double>;
template <class T>
concept Bool = same_type<T, bool>;
template <class T>
concept Half = same_type<T, float16> || same_type<T, bfloat16>;
template <class T>
using unsigned_of = typename traits<T>::unsigned_type;

template <Real T>
struct real_format;
template <>
struct real_format<float> {
  using bits = uint32_t;
  using sint = int32_t;
  static constexpr int mantissa = 23, exponent_bias = 127;
  static constexpr uint32_t infinity = 0x7f800000u;
};
template <>
struct real_format<double> {
  using bits = uint64_t;
  using sint = int64_t;
  static constexpr int mantissa = 52, exponent_bias = 1023;
  static constexpr uint64_t infinity = 0x7ff0000000000000ull;
};
template <Real T>
QUARRY_FN T infinity() {
  return QUARRY_BIT_CAST(T, real_format<T>::infinity);
}
template <Real T>
QUARRY_FN T quiet_nan() {
  return QUARRY_BIT_CAST(T, real_format<T>::infinity | (real_format<T>::infinity >> 1));
}
template <Real T>
QUARRY_FN typename real_format<T>::bits magnitude_bits(T x) {
  return QUARRY_BIT_CAST(typename real_format<T>::bits, x) & ~(typename real_format<T>::bits(1) << (sizeof(T) * 8 - 1));
}

// ---- Classification ----

template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN bool isnan(T) { return false; }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN bool isinf(T) { return false; }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN bool isfinite(T) { return true; }
template <Real T>
QUARRY_FN bool isnan(T x) {
  return x != x;
}
template <Real T>
QUARRY_FN bool isinf(T x) {
  return magnitude_bits(x) == real_format<T>::infinity;
}
template <Real T>
QUARRY_FN bool isfinite(T x) {
  return magnitude_bits(x) < real_format<T>::infinity;
}
template <Real T>
QUARRY_FN bool signbit(T x) {
  return QUARRY_BIT_CAST(typename real_format<T>::sint, x) < 0;
}
template <class T>
QUARRY_FN bool isnan(cx<T> x) {
  return x.re != x.re || x.im != x.im;
}
template <class T>
QUARRY_FN bool isinf(cx<T> x) {
  return isinf(x.re) || isinf(x.im);
}
template <class T>
QUARRY_FN bool isfinite(cx<T> x) {
  return isfinite(x.re) && isfinite(x.im);
}

// ---- Casts ----

template <class T>
QUARRY_FN T identity(T x) {
  return x;
}

// Rounds to odd, so that rounding again to a narrower format is as rounding once.
QUARRY_FN float round_to_odd(double x) {
  const float f = static_cast<float>(x);
  const double back = static_cast<double>(f);
  if (back == x || x != x) return f;
  uint32_t bits = QUARRY_BIT_CAST(uint32_t, f);
  const bool away = (x < 0 ? -back : back) > (x < 0 ? -x : x);
  bits -= away ? 1u : 0u;
  return QUARRY_BIT_CAST(float, bits | 1u);
}

// Out of range: the lowest value of a signed conversion of 32 bits (targets of up to 32) or 64, of which narrower
// targets keep the low bits; uint32 and uint64 convert their upper half apart. As NumPy on x86-64.
template <Real S>
QUARRY_FN int32_t to_int32(S x) {
  return x > S(-2147483649.0) && x >= S(-2147483648.0) && x < S(2147483648.0) ? static_cast<int32_t>(x)
         : sizeof(S) == 8 && x > S(-2147483649.0) && x < S(2147483648.0)      ? static_cast<int32_t>(x)
                                                                              : static_cast<int32_t>(0x80000000u);
}
template <Real S>
QUARRY_FN int64_t to_int64(S x) {
  return x >= S(-9223372036854775808.0) && x < S(9223372036854775808.0) ? static_cast<int64_t>(x)
                                                                        : static_cast<int64_t>(0x8000000000000000ull);
}

// astype(S -> T). Half formats convert as their float value; T and S are storage types otherwise.
template <class T>
struct convert {
  template <Bool S>
  QUARRY_FN T from(S x) {
    return static_cast<T>(x ? 1 : 0);
  }
  template <Integer S>
  QUARRY_FN T from(S x) {
    return static_cast<T>(x);
  }
  template <Real S>
  QUARRY_FN T from(S x) {
    if constexpr (Integer<T>) {
      if constexpr (same_type<T, uint64_t>) {
        constexpr S half = S(9223372036854775808.0);
        return x >= half ? static_cast<uint64_t>(to_int64(x - half)) ^ 0x8000000000000000ull
                         : static_cast<uint64_t>(to_int64(x));
      } else if constexpr (same_type<T, uint32_t>) {
        constexpr S half = S(2147483648.0);
        return x >= half ? static_cast<uint32_t>(to_int32(x - half)) ^ 0x80000000u : static_cast<uint32_t>(to_int32(x));
      } else if constexpr (same_type<T, int64_t>) {
        return to_int64(x);
      } else {
        return static_cast<T>(to_int32(x));
      }
    } else {
      return static_cast<T>(x);
    }
  }
  template <Half S>
  QUARRY_FN T from(S x) {
    return from(static_cast<float>(x));
  }
  template <class S>
  QUARRY_FN T from(cx<S> x) {
    return from(x.re);
  }
};
template <>
struct convert<bool> {
  template <class S>
  QUARRY_FN bool from(S x) {
    if constexpr (Half<S>)
      return static_cast<float>(x) != 0.0f;
    else
      return x != S(0);
  }
  template <class S>
  QUARRY_FN bool from(cx<S> x) {
    return x.re != 0 || x.im != 0;
  }
};
template <Half T>
struct convert<T> {
  template <class S>
  QUARRY_FN T from(S x) {
    if constexpr (same_type<S, T>)
      return x;
    else if constexpr (same_type<S, double> && same_type<T, float16>)
      return T(round_to_odd(x));
    else if constexpr (Bool<S>)
      return T(x ? 1.0f : 0.0f);
    else
      return T(static_cast<float>(x));
  }
  template <class S>
  QUARRY_FN T from(cx<S> x) {
    return from(x.re);
  }
};
template <class R>
struct convert<cx<R>> {
  template <class S>
  QUARRY_FN cx<R> from(S x) {
    return {convert<R>::from(x), R(0)};
  }
  template <class S>
  QUARRY_FN cx<R> from(cx<S> x) {
    return {static_cast<R>(x.re), static_cast<R>(x.im)};
  }
};

// Byte order.
QUARRY_FN uint16_t byte_swap(uint16_t x) { return static_cast<uint16_t>((x << 8) | (x >> 8)); }
QUARRY_FN uint32_t byte_swap(uint32_t x) { return (x << 24) | ((x & 0xff00u) << 8) | ((x >> 8) & 0xff00u) | (x >> 24); }
QUARRY_FN uint64_t byte_swap(uint64_t x) {
  return (uint64_t(byte_swap(static_cast<uint32_t>(x))) << 32) | byte_swap(static_cast<uint32_t>(x >> 32));
}

// ---- Truth and comparison ----

template <class T>
QUARRY_FN bool truth(T x) {
  return convert<bool>::from(x);
}
template <class T>
QUARRY_FN bool logical_and(T x, T y) {
  return static_cast<bool>(truth(x) & truth(y));
}
template <class T>
QUARRY_FN bool logical_or(T x, T y) {
  return static_cast<bool>(truth(x) | truth(y));
}
template <class T>
QUARRY_FN bool logical_xor(T x, T y) {
  return truth(x) != truth(y);
}
template <class T>
QUARRY_FN bool logical_not(T x) {
  return !truth(x);
}

template <class T>
QUARRY_FN bool equal(T x, T y) {
  return x == y;
}
template <class T>
QUARRY_FN bool not_equal(T x, T y) {
  return x != y;
}
template <class T>
QUARRY_FN bool less(T x, T y) {
  return x < y;
}
template <class T>
QUARRY_FN bool less_equal(T x, T y) {
  return x <= y;
}
// Mixed signs compare by value.
QUARRY_FN bool equal(int64_t x, uint64_t y) { return x >= 0 && static_cast<uint64_t>(x) == y; }
QUARRY_FN bool equal(uint64_t x, int64_t y) { return equal(y, x); }
QUARRY_FN bool not_equal(int64_t x, uint64_t y) { return !equal(x, y); }
QUARRY_FN bool not_equal(uint64_t x, int64_t y) { return !equal(y, x); }
QUARRY_FN bool less(int64_t x, uint64_t y) { return x < 0 || static_cast<uint64_t>(x) < y; }
QUARRY_FN bool less(uint64_t x, int64_t y) { return y >= 0 && x < static_cast<uint64_t>(y); }
QUARRY_FN bool less_equal(int64_t x, uint64_t y) { return !less(y, x); }
QUARRY_FN bool less_equal(uint64_t x, int64_t y) { return !less(y, x); }
// Complex numbers in lexicographic order; a NaN in either imaginary part makes unequal real parts incomparable.
template <class T>
QUARRY_FN bool equal(cx<T> x, cx<T> y) {
  return x.re == y.re && x.im == y.im;
}
template <class T>
QUARRY_FN bool not_equal(cx<T> x, cx<T> y) {
  return x.re != y.re || x.im != y.im;
}
template <class T>
QUARRY_FN bool less(cx<T> x, cx<T> y) {
  return (x.re < y.re && !isnan(x.im) && !isnan(y.im)) || (x.re == y.re && x.im < y.im);
}
template <class T>
QUARRY_FN bool less_equal(cx<T> x, cx<T> y) {
  return (x.re < y.re && !isnan(x.im) && !isnan(y.im)) || (x.re == y.re && x.im <= y.im);
}

// Propagate NaN, the first one.
template <class T>
QUARRY_FN T maximum(T x, T y) {
  return less_equal(y, x) || isnan(x) ? x : y;
}
template <class T>
QUARRY_FN T minimum(T x, T y) {
  return less_equal(x, y) || isnan(x) ? x : y;
}
template <class T>
QUARRY_FN T fmax(T x, T y) {
  return less_equal(y, x) || isnan(y) ? x : y;
}
template <class T>
QUARRY_FN T fmin(T x, T y) {
  return less_equal(x, y) || isnan(y) ? x : y;
}
template <class T>
QUARRY_FN T clip(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}
template <class T>
QUARRY_FN T where(bool condition, T x, T y) {
  return condition ? x : y;
}

// ---- Integers: overflow wraps ----

template <Bool T>
QUARRY_FN bool add(T x, T y) {
  return static_cast<bool>(x | y);
}
template <Bool T>
QUARRY_FN bool multiply(T x, T y) {
  return static_cast<bool>(x & y);
}
template <Bool T>
QUARRY_FN bool absolute(T x) {
  return x;
}
// 64-bit unsigned arithmetic never overflows by promotion to int.
template <Integer T>
using wide_of = unsigned_of<T>;
template <Integer T>
QUARRY_FN T add(T x, T y) {
  return static_cast<T>(static_cast<unsigned_of<T>>(x) + static_cast<unsigned_of<T>>(y));
}
template <Integer T>
QUARRY_FN T subtract(T x, T y) {
  return static_cast<T>(static_cast<unsigned_of<T>>(x) - static_cast<unsigned_of<T>>(y));
}
template <Integer T>
QUARRY_FN T multiply(T x, T y) {
  // 1u keeps the product of two uint16_t out of signed int.
  return static_cast<T>(1u * static_cast<unsigned_of<T>>(x) * static_cast<unsigned_of<T>>(y));
}
template <Integer T>
QUARRY_FN T negative(T x) {
  return static_cast<T>(unsigned_of<T>(0) - static_cast<unsigned_of<T>>(x));
}
template <Integer T>
QUARRY_FN T absolute(T x) {
  if constexpr (Signed<T>)
    return x < 0 ? negative(x) : x;
  else
    return x;
}
template <Integer T>
QUARRY_FN T square(T x) {
  return multiply(x, x);
}
template <Integer T>
QUARRY_FN T sign(T x) {
  if constexpr (Signed<T>)
    return static_cast<T>((x > 0) - (x < 0));
  else
    return static_cast<T>(x > 0);
}
template <Integer T>
QUARRY_FN T reciprocal(T x) {
  return convert<T>::from(1.0 / static_cast<double>(x));
}
// Division by zero gives 0; the lowest value over -1 wraps to itself.
template <Integer T>
QUARRY_FN T floor_divide(T x, T y) {
  if (y == 0) return 0;
  if constexpr (Signed<T>) {
    if (y == -1) return negative(x);
    const T quotient = static_cast<T>(x / y);
    return static_cast<T>((x % y != 0) & ((x < 0) != (y < 0)) ? quotient - 1 : quotient);
  } else {
    return static_cast<T>(x / y);
  }
}
template <Integer T>
QUARRY_FN T fmod(T x, T y) {
  if (y == 0) return 0;
  if constexpr (Signed<T>)
    if (y == -1) return 0;
  return static_cast<T>(x % y);
}
template <Integer T>
QUARRY_FN T remainder(T x, T y) {
  const T r = fmod(x, y);
  if constexpr (Signed<T>)
    return static_cast<T>(r != 0 && ((r < 0) != (y < 0)) ? r + y : r);
  else
    return r;
}
// A negative exponent, which NumPy refuses, gives the truncated value: 1 and -1 keep their powers, 0 and the rest give
// 0.
template <Integer T>
QUARRY_FN T power(T x, T y) {
  if constexpr (Signed<T>)
    if (y < 0) return x == 1 ? T(1) : x == -1 ? static_cast<T>((y & 1) ? -1 : 1) : T(0);
  unsigned_of<T> base = static_cast<unsigned_of<T>>(x), result = 1, n = static_cast<unsigned_of<T>>(y);
  while (n != 0) {
    if (n & 1u) result = static_cast<unsigned_of<T>>(1u * result * base);
    base = static_cast<unsigned_of<T>>(1u * base * base);
    n = static_cast<unsigned_of<T>>(n >> 1);
  }
  return static_cast<T>(result);
}
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T bitwise_and(T x, T y) { return static_cast<T>(x & y); }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T bitwise_or(T x, T y) { return static_cast<T>(x | y); }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T bitwise_xor(T x, T y) { return static_cast<T>(x ^ y); }
template <Integer T>
QUARRY_FN T invert(T x) {
  return static_cast<T>(~x);
}
template <Bool T>
QUARRY_FN bool invert(T x) {
  return !x;
}
// Shifts by the width or more, or by a negative count, leave no bits (all sign bits to the right).
template <Integer T>
QUARRY_FN T left_shift(T x, T y) {
  const unsigned_of<T> n = static_cast<unsigned_of<T>>(y);
  return n < traits<T>::bits ? static_cast<T>(1ull * static_cast<unsigned_of<T>>(x) << n) : T(0);
}
template <Integer T>
QUARRY_FN T right_shift(T x, T y) {
  const unsigned_of<T> n = static_cast<unsigned_of<T>>(y);
  if constexpr (Signed<T>)
    return static_cast<T>(n < traits<T>::bits ? x >> n : x < 0 ? -1 : 0);
  else
    return n < traits<T>::bits ? static_cast<T>(x >> n) : T(0);
}
template <Integer T>
QUARRY_FN uint8_t bitwise_count(T x) {
  uint64_t v = static_cast<uint64_t>(static_cast<unsigned_of<T>>(absolute(x)));
  v = v - ((v >> 1) & 0x5555555555555555ull);
  v = (v & 0x3333333333333333ull) + ((v >> 2) & 0x3333333333333333ull);
  v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0full;
  return static_cast<uint8_t>((v * 0x0101010101010101ull) >> 56);
}
template <Integer T>
QUARRY_FN T gcd(T x, T y) {
  unsigned_of<T> a = static_cast<unsigned_of<T>>(absolute(x)), b = static_cast<unsigned_of<T>>(absolute(y));
  while (b != 0) {
    const unsigned_of<T> rest = static_cast<unsigned_of<T>>(a % b);
    a = b;
    b = rest;
  }
  return static_cast<T>(a);
}
template <Integer T>
QUARRY_FN T lcm(T x, T y) {
  const unsigned_of<T> divisor = static_cast<unsigned_of<T>>(gcd(x, y));
  if (divisor == 0) return 0;
  const unsigned_of<T> a = static_cast<unsigned_of<T>>(absolute(x)), b = static_cast<unsigned_of<T>>(absolute(y));
  return static_cast<T>(1u * static_cast<unsigned_of<T>>(a / divisor) * b);
}
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T floor(T x) { return x; }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T ceil(T x) { return x; }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T trunc(T x) { return x; }
template <class T>
QUARRY_FN T real(T x) {
  return x;
}
template <class T>
QUARRY_FN T imag(T) {
  return T(0);
}
template <class T>
QUARRY_FN T conjugate(T x) {
  return x;
}

// ---- Reals ----

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
template <Real T>
QUARRY_FN T fmod(T x, T y) {
  return math::fmod(x, y);
}
template <Real T>
QUARRY_FN T remainder(T x, T y) {
  const T r = math::fmod(x, y);
  if (y == 0) return r;
  if (r == 0) return copysign(T(0), y);
  return (y < 0) != (r < 0) ? r + y : r;
}
template <Real T>
QUARRY_FN T floor_divide(T x, T y) {
  if (y == 0) return x / y;
  const T r = math::fmod(x, y);
  T quotient = (x - r) / y;
  if (r != 0 && (y < 0) != (r < 0)) quotient -= T(1);
  if (quotient == 0) return copysign(T(0), x / y);
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
template <Real T>
QUARRY_FN T power(T x, T y) {
  return math::pow(x, y);
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
template <Real T>
QUARRY_FN T logaddexp(T x, T y) {
  if (x == y) return x + T(0.69314718055994530942);
  const T d = x - y;
  if (d > 0) return x + math::log1p(math::exp(-d));
  return d <= 0 ? y + math::log1p(math::exp(d)) : d;
}
template <Real T>
QUARRY_FN T logaddexp2(T x, T y) {
  constexpr T log2_e = T(1.44269504088896340736);
  if (x == y) return x + T(1);
  const T d = x - y;
  if (d > 0) return x + log2_e * math::log1p(math::exp2(-d));
  return d <= 0 ? y + log2_e * math::log1p(math::exp2(d)) : d;
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

// ---- Complex ----

template <class T>
QUARRY_FN T real(cx<T> x) {
  return x.re;
}
template <class T>
QUARRY_FN T imag(cx<T> x) {
  return x.im;
}
template <class T>
QUARRY_FN cx<T> conjugate(cx<T> x) {
  return {x.re, -x.im};
}
template <class T>
QUARRY_FN cx<T> add(cx<T> x, cx<T> y) {
  return {x.re + y.re, x.im + y.im};
}
template <class T>
QUARRY_FN cx<T> subtract(cx<T> x, cx<T> y) {
  return {x.re - y.re, x.im - y.im};
}
template <class T>
QUARRY_FN cx<T> multiply(cx<T> x, cx<T> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
// R. L. Smith, Algorithm 116 (1962).
template <class T>
QUARRY_FN cx<T> divide(cx<T> x, cx<T> y) {
  const T re = absolute(y.re), im = absolute(y.im);
  if (re >= im) {
    if (re == 0 && im == 0) return {x.re / re, x.im / re};
    const T ratio = y.im / y.re, scale = T(1) / (y.re + y.im * ratio);
    return {(x.re + x.im * ratio) * scale, (x.im - x.re * ratio) * scale};
  }
  const T ratio = y.re / y.im, scale = T(1) / (y.im + y.re * ratio);
  return {(x.re * ratio + x.im) * scale, (x.im * ratio - x.re) * scale};
}
template <class T>
QUARRY_FN cx<T> negative(cx<T> x) {
  return {-x.re, -x.im};
}
template <class T>
QUARRY_FN T absolute(cx<T> x) {
  return math::hypot(x.re, x.im);
}
template <class T>
QUARRY_FN cx<T> square(cx<T> x) {
  return {x.re * x.re - x.im * x.im, x.re * x.im + x.im * x.re};
}
template <class T>
QUARRY_FN cx<T> reciprocal(cx<T> x) {
  if (absolute(x.im) <= absolute(x.re)) {
    const T ratio = x.im / x.re, scale = x.re + x.im * ratio;
    return {T(1) / scale, -ratio / scale};
  }
  const T ratio = x.re / x.im, scale = x.re * ratio + x.im;
  return {ratio / scale, T(-1) / scale};
}
template <class T>
QUARRY_FN cx<T> sign(cx<T> x) {
  const T r = absolute(x);
  if (r == 0) return {T(0), T(0)};
  if (isinf(x)) {
    if (isinf(x.re) && isinf(x.im)) return {quiet_nan<T>(), quiet_nan<T>()};
    return isinf(x.re) ? cx<T>{copysign(T(1), x.re), T(0)} : cx<T>{T(0), copysign(T(1), x.im)};
  }
  if (isnan(x)) return {quiet_nan<T>(), quiet_nan<T>()};
  return {x.re / r, x.im / r};
}
template <class T>
QUARRY_FN cx<T> rint(cx<T> x) {
  return {math::rint(x.re), math::rint(x.im)};
}

template <class T>
QUARRY_FN cx<T> exp(cx<T> z) {
  if (z.im == 0) return {math::exp(z.re), z.im};
  if (!isfinite(z.im)) {
    if (isinf(z.re)) return z.re < 0 ? cx<T>{T(0), T(0)} : cx<T>{z.re, quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  const T c = math::cos(z.im), s = math::sin(z.im);
  if (isnan(z.re)) return {z.re, z.re};
  // exp overflows before its product with a small sine or cosine does.
  constexpr T large = sizeof(T) == 8 ? T(700) : T(85);
  if (z.re > large && isfinite(z.re)) {
    const T head = math::exp(large), rest = math::exp(z.re - large);
    return {head * c * rest, head * s * rest};
  }
  const T r = math::exp(z.re);
  return {r * c, r * s};
}
// log |z|: exact where |z| is near 1, no overflow where |z|^2 would.
template <class T>
QUARRY_FN T log_modulus(T re, T im) {
  T a = absolute(re), b = absolute(im);
  if (a < b) {
    const T t = a;
    a = b;
    b = t;
  }
  if (isinf(a) || isinf(b)) return infinity<T>();
  if (a > T(0.5) && a < T(1.5)) return T(0.5) * math::log1p((a - T(1)) * (a + T(1)) + b * b);
  constexpr T huge = sizeof(T) == 8 ? T(8e307) : T(1e38);
  if (a > huge) return math::log(math::hypot(a * T(0.5), b * T(0.5))) + T(0.69314718055994530942);
  return math::log(math::hypot(a, b));
}
template <class T>
QUARRY_FN cx<T> log(cx<T> z) {
  return {log_modulus(z.re, z.im), math::atan2(z.im, z.re)};
}
template <class T>
QUARRY_FN cx<T> log2(cx<T> z) {
  const cx<T> l = log(z);
  return {l.re * T(1.44269504088896340736), l.im * T(1.44269504088896340736)};
}
template <class T>
QUARRY_FN cx<T> log10(cx<T> z) {
  const cx<T> l = log(z);
  return {l.re * T(0.43429448190325182765), l.im * T(0.43429448190325182765)};
}
template <class T>
QUARRY_FN cx<T> log1p(cx<T> z) {
  const T a = absolute(z.re), b = absolute(z.im);
  if (a < T(0.5) && b < T(0.5)) {
    return {T(0.5) * math::log1p(z.re * (T(2) + z.re) + z.im * z.im), math::atan2(z.im, z.re + T(1))};
  }
  return log(cx<T>{z.re + T(1), z.im});
}
template <class T>
QUARRY_FN cx<T> exp2(cx<T> z) {
  return exp(cx<T>{z.re * T(0.69314718055994530942), z.im * T(0.69314718055994530942)});
}
template <class T>
QUARRY_FN cx<T> expm1(cx<T> z) {
  const T half_sine = math::sin(z.im * T(0.5));
  return {math::expm1(z.re) * math::cos(z.im) - T(2) * half_sine * half_sine, math::exp(z.re) * math::sin(z.im)};
}
template <class T>
QUARRY_FN cx<T> sqrt(cx<T> z) {
  if (z.re == 0 && z.im == 0) return {T(0), z.im};
  if (isinf(z.im)) return {infinity<T>(), z.im};
  if (isnan(z.re)) return {z.re, z.re};
  if (isinf(z.re)) {
    if (z.re > 0) return {z.re, isnan(z.im) ? z.im : copysign(T(0), z.im)};
    return {isnan(z.im) ? z.im : T(0), copysign(infinity<T>(), z.im)};
  }
  if (isnan(z.im)) return {z.im, z.im};
  // |z| + |re| must neither overflow nor lose a subnormal.
  constexpr T huge = sizeof(T) == 8 ? T(4e307) : T(8e37);
  constexpr T tiny = sizeof(T) == 8 ? T(4e-292) : T(4e-31);
  const T a = absolute(z.re), b = absolute(z.im);
  T x = z.re, y = z.im, scale = T(1);
  if (a >= huge || b >= huge) {
    x *= T(0.25);
    y *= T(0.25);
    scale = T(2);
  } else if (a <= tiny && b <= tiny) {
    constexpr T up = sizeof(T) == 8 ? T(18014398509481984.0) : T(16777216.0);  // 2^54, 2^24
    constexpr T down = sizeof(T) == 8 ? T(7.450580596923828125e-09) : T(2.44140625e-04);
    x *= up;
    y *= up;
    scale = down;
  }
  const T t = math::sqrt((absolute(x) + math::hypot(x, y)) * T(0.5));
  const T other = absolute(y) / (T(2) * t);
  const T re = x >= 0 ? t : other, im = x >= 0 ? other : t;
  return {re * scale, copysign(im * scale, z.im)};
}

template <class T>
QUARRY_FN cx<T> sinh(cx<T> z) {
  if (z.im == 0) return {math::sinh(z.re), z.im};
  if (z.re == 0) return {isfinite(z.im) ? copysign(T(0), z.re * math::cos(z.im)) : z.re, math::sin(z.im)};
  if (!isfinite(z.im)) {
    if (isinf(z.re)) return {z.re, quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  const T c = math::cos(z.im), s = math::sin(z.im);
  constexpr T large = sizeof(T) == 8 ? T(700) : T(85);
  if (absolute(z.re) > large && isfinite(z.re)) {
    const T head = T(0.5) * math::exp(large), rest = math::exp(absolute(z.re) - large);
    return {copysign(head, z.re) * c * rest, head * s * rest};
  }
  return {math::sinh(z.re) * c, math::cosh(z.re) * s};
}
template <class T>
QUARRY_FN cx<T> cosh(cx<T> z) {
  if (z.im == 0) return {math::cosh(z.re), isnan(z.re) ? z.im : copysign(T(0), z.re) * z.im};
  if (z.re == 0) return {math::cos(z.im), isfinite(z.im) ? z.re * math::sin(z.im) : z.re};
  if (!isfinite(z.im)) {
    if (isinf(z.re)) return {infinity<T>(), quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  const T c = math::cos(z.im), s = math::sin(z.im);
  constexpr T large = sizeof(T) == 8 ? T(700) : T(85);
  if (absolute(z.re) > large && isfinite(z.re)) {
    const T head = T(0.5) * math::exp(large), rest = math::exp(absolute(z.re) - large);
    return {head * c * rest, copysign(head, z.re) * s * rest};
  }
  return {math::cosh(z.re) * c, math::sinh(z.re) * s};
}
// W. Kahan, Branch Cuts for Complex Elementary Functions (1987), for this and the inverse functions below.
template <class T>
QUARRY_FN cx<T> tanh(cx<T> z) {
  if (isinf(z.re)) {
    const T sign = isfinite(z.im) ? math::sin(T(2) * z.im) : T(1);
    return {copysign(T(1), z.re), copysign(T(0), sign)};
  }
  if (!isfinite(z.im)) return {z.re == 0 ? z.re : quiet_nan<T>(), quiet_nan<T>()};
  if (isnan(z.re)) return {z.re, z.im == 0 ? z.im : z.re};
  constexpr T saturated = sizeof(T) == 8 ? T(22) : T(11);
  if (absolute(z.re) > saturated) {
    const T e = math::exp(-absolute(z.re));
    return {copysign(T(1), z.re), T(4) * math::sin(z.im) * math::cos(z.im) * e * e};
  }
  const T t = math::tan(z.im), beta = T(1) + t * t, s = math::sinh(z.re), rho = math::sqrt(T(1) + s * s);
  if (isinf(t)) return {rho / s, T(1) / t};
  const T d = T(1) + beta * s * s;
  return {beta * rho * s / d, t / d};
}
template <class T>
QUARRY_FN cx<T> times_i(cx<T> z) {
  return {-z.im, z.re};
}
template <class T>
QUARRY_FN cx<T> times_minus_i(cx<T> z) {
  return {z.im, -z.re};
}
template <class T>
QUARRY_FN cx<T> sin(cx<T> z) {
  return times_minus_i(sinh(times_i(z)));
}
template <class T>
QUARRY_FN cx<T> cos(cx<T> z) {
  return cosh(times_i(z));
}
template <class T>
QUARRY_FN cx<T> tan(cx<T> z) {
  return times_minus_i(tanh(times_i(z)));
}
template <class T>
QUARRY_FN cx<T> arcsinh(cx<T> z);
template <class T>
QUARRY_FN cx<T> arctanh(cx<T> z);
template <class T>
QUARRY_FN cx<T> arcsin(cx<T> z) {
  return times_minus_i(arcsinh(times_i(z)));
}
template <class T>
QUARRY_FN cx<T> arctan(cx<T> z) {
  return times_minus_i(arctanh(times_i(z)));
}
// Where 1 +- z would lose z or overflow: log(2 |z|) and the direction.
template <class T>
QUARRY_FN bool is_huge(cx<T> z) {
  constexpr T bound = sizeof(T) == 8 ? T(1e150) : T(1e18);
  return absolute(z.re) > bound || absolute(z.im) > bound;
}
template <class T>
QUARRY_FN cx<T> arccos(cx<T> z) {
  constexpr T half_pi = T(1.57079632679489661923);
  if (isnan(z)) {
    if (isinf(z.re)) return {quiet_nan<T>(), infinity<T>()};
    if (isinf(z.im)) return {quiet_nan<T>(), -z.im};
    if (z.re == 0) return {half_pi, quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  if (is_huge(z)) {
    const T magnitude = log_modulus(z.re, z.im) + T(0.69314718055994530942);
    return {math::atan2(absolute(z.im), z.re), copysign(magnitude, signbit(z.im) ? T(1) : T(-1))};
  }
  const cx<T> minus = sqrt(cx<T>{T(1) - z.re, -z.im}), plus = sqrt(cx<T>{T(1) + z.re, z.im});
  return {T(2) * math::atan2(minus.re, plus.re), math::asinh(plus.re * minus.im - plus.im * minus.re)};
}
template <class T>
QUARRY_FN cx<T> arccosh(cx<T> z) {
  constexpr T half_pi = T(1.57079632679489661923);
  if (isnan(z)) {
    if (isinf(z.re) || isinf(z.im)) return {infinity<T>(), quiet_nan<T>()};
    if (z.re == 0) return {quiet_nan<T>(), half_pi};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  if (is_huge(z)) {
    return {log_modulus(z.re, z.im) + T(0.69314718055994530942), math::atan2(z.im, z.re)};
  }
  const cx<T> minus = sqrt(cx<T>{z.re - T(1), z.im}), plus = sqrt(cx<T>{z.re + T(1), z.im});
  return {math::asinh(minus.re * plus.re + minus.im * plus.im), T(2) * math::atan2(minus.im, plus.re)};
}
template <class T>
QUARRY_FN cx<T> arcsinh(cx<T> z) {
  if (isnan(z)) {
    if (isinf(z.re)) return {z.re, quiet_nan<T>()};
    if (isinf(z.im)) return {z.im < 0 ? -infinity<T>() : infinity<T>(), quiet_nan<T>()};
    if (z.im == 0) return {quiet_nan<T>(), z.im};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  if (is_huge(z)) {
    const T magnitude = log_modulus(z.re, z.im) + T(0.69314718055994530942);
    return {copysign(magnitude, z.re), math::atan2(z.im, absolute(z.re))};
  }
  // -i arcsin(i z) with w = i z = (-im, re).
  const cx<T> minus = sqrt(cx<T>{T(1) + z.im, -z.re}), plus = sqrt(cx<T>{T(1) - z.im, z.re});
  const T angle = math::atan2(-z.im, minus.re * plus.re - minus.im * plus.im);
  const T height = math::asinh(minus.re * plus.im - minus.im * plus.re);
  return {copysign(height, z.re), -angle};
}
template <class T>
QUARRY_FN cx<T> arctanh(cx<T> z) {
  constexpr T half_pi = T(1.57079632679489661923);
  if (isnan(z)) {
    if (isinf(z.re)) return {copysign(T(0), z.re), quiet_nan<T>()};
    if (isinf(z.im)) return {copysign(T(0), z.re), copysign(half_pi, z.im)};
    if (z.re == 0) return {z.re, quiet_nan<T>()};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  const T x = absolute(z.re), y = absolute(z.im);
  T re, im;
  if (is_huge(z)) {
    // Re(1 / z), scaled against overflow of |z|^2.
    const T m = x > y ? x : y, a = x / m, b = y / m;
    re = isinf(m) ? T(0) : a / (a * a + b * b) / m;
    im = half_pi;
  } else {
    const T y2 = y * y;
    if (x == 1 && y == 0) return {copysign(infinity<T>(), z.re), z.im};
    if (x == 1 && y < (sizeof(T) == 8 ? T(1e-150) : T(1e-18))) {
      re = T(0.5) * (T(0.69314718055994530942) - math::log(y));
    } else {
      re = T(0.25) * math::log1p(T(4) * x / ((T(1) - x) * (T(1) - x) + y2));
    }
    im = T(0.5) * math::atan2(T(2) * y, (T(1) - x) * (T(1) + x) - y2);
  }
  return {copysign(re, z.re), copysign(im, z.im)};
}
// Small integer exponents multiply, as NumPy; 0^w is 0 for a positive real part of w.
template <class T>
QUARRY_FN cx<T> power(cx<T> x, cx<T> y) {
  if (y.re == 0 && y.im == 0) return {T(1), T(0)};
  if (x.re == 0 && x.im == 0) {
    if (y.re > 0) return {T(0), T(0)};
    return {quiet_nan<T>(), quiet_nan<T>()};
  }
  if (y.im == 0 && y.re > T(-100) && y.re < T(100) && math::floor(y.re) == y.re) {
    int n = static_cast<int>(y.re);
    if (n == 1) return x;
    const bool invert_result = n < 0;
    if (n < 0) n = -n;
    cx<T> result{T(1), T(0)}, base = x;
    bool started = false;
    for (; n != 0; n >>= 1) {
      if (n & 1) {
        result = started ? multiply(result, base) : base;
        started = true;
      }
      if (n > 1) base = multiply(base, base);
    }
    return invert_result ? reciprocal(result) : result;
  }
  if constexpr (same_type<T, float>) {
    // The exponential magnifies the error of y log x.
    const cx<double> z = exp(multiply(cx<double>{y.re, y.im}, log(cx<double>{x.re, x.im})));
    return {static_cast<float>(z.re), static_cast<float>(z.im)};
  } else {
    return exp(multiply(y, log(x)));
  }
}

// ---- Random numbers by element index ----

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011).
struct philox_block {
  uint32_t w[4];
};
QUARRY_FN philox_block philox4x32_10(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
// Block number `block` of the stream. The key holds the low words of seed and stream, the counter's high half their
// high words.
QUARRY_FN philox_block random_block(uint64_t block, uint64_t seed, uint64_t stream) {
  return philox4x32_10(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                       static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(stream >> 32),
                       static_cast<uint32_t>(seed), static_cast<uint32_t>(stream));
}

// What one block gives: 4 values of 32 bits or 2 of 64.
template <class T>
inline constexpr int values_per_block = 16 / static_cast<int>(sizeof(T));
QUARRY_FN uint64_t word64(const philox_block& block, int i) {
  return static_cast<uint64_t>(block.w[2 * i]) | (static_cast<uint64_t>(block.w[2 * i + 1]) << 32);
}
QUARRY_FN float uniform32(uint32_t w) { return static_cast<float>(w >> 8) * 5.9604644775390625e-08f; }
QUARRY_FN double uniform64(uint64_t w) {
  return static_cast<double>(static_cast<int64_t>(w >> 11)) * 1.1102230246251565e-16;
}

// log of a normal x in (0, 1]: x = m 2^e, m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1) / (m + 1)). Explicit
// fused operations: the same bits on every device.
QUARRY_FN double shared_log(double x) {
  const uint64_t bits = QUARRY_BIT_CAST(uint64_t, x);
  const uint64_t shifted = bits - 0x3fe6a09e667f3bcdull;  // sqrt(1/2)
  const int64_t e = static_cast<int64_t>(shifted) >> 52;
  const double m = QUARRY_BIT_CAST(double, bits - (static_cast<uint64_t>(e) << 52));
  const double f = m - 1.0, s = f / (2.0 + f), s2 = s * s;
  double p = 1.0 / 21;
  p = math::fma(p, s2, 1.0 / 19);
  p = math::fma(p, s2, 1.0 / 17);
  p = math::fma(p, s2, 1.0 / 15);
  p = math::fma(p, s2, 1.0 / 13);
  p = math::fma(p, s2, 1.0 / 11);
  p = math::fma(p, s2, 1.0 / 9);
  p = math::fma(p, s2, 1.0 / 7);
  p = math::fma(p, s2, 1.0 / 5);
  p = math::fma(p, s2, 1.0 / 3);
  const double tail = s * s2 * p;  // artanh(s) - s
  const double scale = static_cast<double>(e);
  return math::fma(scale, 6.93147180369123816490e-01,
                   2.0 * s + math::fma(scale, 1.90821492927058770002e-10, 2.0 * tail));
}
QUARRY_FN float shared_log(float x) {
  const uint32_t bits = QUARRY_BIT_CAST(uint32_t, x);
  const uint32_t shifted = bits - 0x3f3504f3u;
  const int32_t e = static_cast<int32_t>(shifted) >> 23;
  const float m = QUARRY_BIT_CAST(float, bits - (static_cast<uint32_t>(e) << 23));
  const float f = m - 1.0f, s = f / (2.0f + f), s2 = s * s;
  float p = 1.0f / 9;
  p = math::fma(p, s2, 1.0f / 7);
  p = math::fma(p, s2, 1.0f / 5);
  p = math::fma(p, s2, 1.0f / 3);
  const float tail = s * s2 * p;
  const float scale = static_cast<float>(e);
  return math::fma(scale, 6.93145752e-01f, 2.0f * s + math::fma(scale, 1.42860677e-06f, 2.0f * tail));
}

template <class T>
struct sincos_pair {
  T sine, cosine;
};
// Sine and cosine of 2 pi t, t in [0, 1): t = k / 4 + y, |y| <= 1/8, and Taylor polynomials of 2 pi y.
template <class T>
QUARRY_FN sincos_pair<T> quarter_turns(T sine, T cosine, int quadrant) {
  const T a = (quadrant & 1) ? cosine : sine, b = (quadrant & 1) ? sine : cosine;
  return {(quadrant & 2) ? -a : a, ((quadrant + 1) & 2) ? -b : b};
}
QUARRY_FN sincos_pair<double> shared_sincos_turns(double t) {
  const int quadrant = static_cast<int>(math::fma(t, 4.0, 0.5));
  const double y = math::fma(static_cast<double>(quadrant), -0.25, t);
  const double a = y * 6.28318530717958647693, a2 = a * a;
  double s = 1.0 / 355687428096000.0;
  s = math::fma(s, a2, -1.0 / 1307674368000.0);
  s = math::fma(s, a2, 1.0 / 6227020800.0);
  s = math::fma(s, a2, -1.0 / 39916800.0);
  s = math::fma(s, a2, 1.0 / 362880.0);
  s = math::fma(s, a2, -1.0 / 5040.0);
  s = math::fma(s, a2, 1.0 / 120.0);
  s = math::fma(s, a2, -1.0 / 6.0);
  const double sine = math::fma(s * a2, a, a);
  double c = 1.0 / 20922789888000.0;
  c = math::fma(c, a2, -1.0 / 87178291200.0);
  c = math::fma(c, a2, 1.0 / 479001600.0);
  c = math::fma(c, a2, -1.0 / 3628800.0);
  c = math::fma(c, a2, 1.0 / 40320.0);
  c = math::fma(c, a2, -1.0 / 720.0);
  c = math::fma(c, a2, 1.0 / 24.0);
  c = math::fma(c, a2, -0.5);
  return quarter_turns(sine, math::fma(c, a2, 1.0), quadrant);
}
QUARRY_FN sincos_pair<float> shared_sincos_turns(float t) {
  const int quadrant = static_cast<int>(math::fma(t, 4.0f, 0.5f));
  const float y = math::fma(static_cast<float>(quadrant), -0.25f, t);
  const float a = y * 6.28318531f, a2 = a * a;
  float s = 1.0f / 362880.0f;
  s = math::fma(s, a2, -1.0f / 5040.0f);
  s = math::fma(s, a2, 1.0f / 120.0f);
  s = math::fma(s, a2, -1.0f / 6.0f);
  const float sine = math::fma(s * a2, a, a);
  float c = 1.0f / 40320.0f;
  c = math::fma(c, a2, -1.0f / 720.0f);
  c = math::fma(c, a2, 1.0f / 24.0f);
  c = math::fma(c, a2, -0.5f);
  return quarter_turns(sine, math::fma(c, a2, 1.0f), quadrant);
}

// Value number i of a block.
template <class T>
QUARRY_FN T bits_of_block(const philox_block& block, int i) {
  if constexpr (sizeof(T) == 4)
    return static_cast<T>(block.w[i]);
  else
    return static_cast<T>(word64(block, i));
}
template <Real T>
QUARRY_FN T uniform_of_block(const philox_block& block, int i) {
  if constexpr (sizeof(T) == 4)
    return uniform32(block.w[i]);
  else
    return uniform64(word64(block, i));
}
// Box-Muller: values 2j and 2j + 1 are sqrt(-2 log(1 - u)) times cosine and sine of 2 pi v, u and v the uniforms 2j and
// 2j + 1 of the block.
template <Real T>
QUARRY_FN sincos_pair<T> normals_of_block(const philox_block& block, int pair) {
  const T u = T(1) - uniform_of_block<T>(block, 2 * pair), v = uniform_of_block<T>(block, 2 * pair + 1);
  const T radius = math::sqrt(T(-2) * shared_log(u));
  const sincos_pair<T> turn = shared_sincos_turns(v);
  return {radius * turn.sine, radius * turn.cosine};
}

template <class T>
QUARRY_FN T random_bits(int64_t index, uint64_t seed, uint64_t stream) {
  const uint64_t i = static_cast<uint64_t>(index);
  return bits_of_block<T>(random_block(i / values_per_block<T>, seed, stream),
                          static_cast<int>(i % values_per_block<T>));
}
template <class T>
QUARRY_FN T random_uniform(int64_t index, uint64_t seed, uint64_t stream) {
  const uint64_t i = static_cast<uint64_t>(index);
  return uniform_of_block<T>(random_block(i / values_per_block<T>, seed, stream),
                             static_cast<int>(i % values_per_block<T>));
}
template <class T>
QUARRY_FN T random_normal(int64_t index, uint64_t seed, uint64_t stream) {
  const uint64_t i = static_cast<uint64_t>(index);
  const int place = static_cast<int>(i % values_per_block<T>);
  const sincos_pair<T> pair = normals_of_block<T>(random_block(i / values_per_block<T>, seed, stream), place / 2);
  return (place & 1) ? pair.sine : pair.cosine;
}
// The high word of bits * (high - low): [low, high) with a bias of at most (high - low) / 2^64. An empty range stands
// for all 2^64 values.
template <Integer T>
QUARRY_FN T random_integers(uint64_t bits, T low, T high) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t offset = range == 0 ? bits : math::umulhi(bits, range);
  return static_cast<T>(static_cast<uint64_t>(low) + offset);
}

// ---- Distributions by rejection ----
//
// Every element has a key of its own, 64 random bits, and takes as many blocks as it needs: Philox4x32-10 with that key
// and a counter of draws. Parameters that are NaN or out of range give NaN, so that every loop ends.

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

// Gamma of a shape >= 1 (G. Marsaglia, W. W. Tsang, A Simple Method for Generating Gamma Variables, 2000). One block
// per attempt: 53 bits for the radius of a normal, 32 for its angle, 32 for the test.
QUARRY_FN double gamma_of_large_shape(element_draws& draws, double shape) {
  const double d = shape - 1.0 / 3, c = 1 / math::sqrt(9 * d);
  for (;;) {
    const philox_block block = next_block(draws);
    const double radius = math::sqrt(-2 * shared_log(positive_uniform(word64(block, 0))));
    const double x = radius * shared_sincos_turns(static_cast<double>(block.w[2]) * 2.3283064365386963e-10).cosine;
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
    const double x = normals_of_block<double>(next_block(draws), 0).cosine * math::sqrt(1 / kappa);
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

}  // namespace fn
}  // namespace quarry::local
