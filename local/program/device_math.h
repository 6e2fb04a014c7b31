// The CPU's side of local/program/op_functions.h: what that header asks its includer to provide. Everything has
// internal linkage, for translation units of several instruction-set levels include it.
#pragma once

#include <bit>
#include <cstdint>

#include "quarry/local/base/half.h"

#define QUARRY_FN static inline __attribute__((unused))
#define QUARRY_LONG_FN QUARRY_FN
#define QUARRY_BIT_CAST(To, value) std::bit_cast<To>(value)

namespace quarry::local::math {

#define QUARRY_UNARY(name)                                         \
  QUARRY_FN float name(float x) { return __builtin_##name##f(x); } \
  QUARRY_FN double name(double x) { return __builtin_##name(x); }
#define QUARRY_BINARY(name)                                                    \
  QUARRY_FN float name(float x, float y) { return __builtin_##name##f(x, y); } \
  QUARRY_FN double name(double x, double y) { return __builtin_##name(x, y); }
QUARRY_UNARY(sqrt)
QUARRY_UNARY(cbrt)
QUARRY_UNARY(exp)
QUARRY_UNARY(exp2)
QUARRY_UNARY(expm1)
QUARRY_UNARY(log)
QUARRY_UNARY(log2)
QUARRY_UNARY(log10)
QUARRY_UNARY(log1p)
QUARRY_UNARY(sin)
QUARRY_UNARY(cos)
QUARRY_UNARY(tan)
QUARRY_UNARY(asin)
QUARRY_UNARY(acos)
QUARRY_UNARY(atan)
QUARRY_UNARY(sinh)
QUARRY_UNARY(cosh)
QUARRY_UNARY(tanh)
QUARRY_UNARY(asinh)
QUARRY_UNARY(acosh)
QUARRY_UNARY(atanh)
QUARRY_UNARY(floor)
QUARRY_UNARY(ceil)
QUARRY_UNARY(trunc)
QUARRY_UNARY(rint)
QUARRY_UNARY(erf)
QUARRY_UNARY(erfc)
QUARRY_UNARY(tgamma)
QUARRY_BINARY(atan2)
QUARRY_BINARY(hypot)
QUARRY_BINARY(pow)
QUARRY_BINARY(fmod)
QUARRY_BINARY(copysign)
#undef QUARRY_UNARY
#undef QUARRY_BINARY
// These leave the sign alone, a variable of the C library that all threads share. They are declared here, since the
// inline functions of <math.h> would be compiled for several instruction sets.
extern "C" float lgammaf_r(float x, int* sign) noexcept;
extern "C" double lgamma_r(double x, int* sign) noexcept;
QUARRY_FN float lgamma(float x) {
  int sign;
  return lgammaf_r(x, &sign);
}
QUARRY_FN double lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
QUARRY_FN float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
QUARRY_FN double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
QUARRY_FN float sqrt_normal(float x) { return __builtin_sqrtf(x); }
QUARRY_FN double sqrt_normal(double x) { return __builtin_sqrt(x); }
QUARRY_FN double divide_normal(double x, double y) { return x / y; }
QUARRY_FN uint64_t umul_wide(uint32_t x, uint32_t y) { return static_cast<uint64_t>(x) * y; }
QUARRY_FN uint64_t umulhi(uint64_t x, uint64_t y) {
  __extension__ using wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<wide>(x) * y) >> 64);
}

}  // namespace quarry::local::math

#include "quarry/local/program/op_functions.h"
