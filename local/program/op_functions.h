// The values of ufunc.def's expressions: device-neutral C++ that the CPU loops compile and the GPU engine embeds in its
// NVRTC sources, word for word. It includes nothing where the includer has provided, before it:
//   - int8_t ... uint64_t, and quarry::local::float16 and bfloat16 with a member `bits` and conversions to and from
//     float;
//   - QUARRY_FN, the function specifiers, `static` among them; QUARRY_BIT_CAST(To, value);
//   - quarry::local::math with overloads for float and double of
//     fma sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
//     atanh hypot pow fmod floor ceil trunc rint copysign erf erfc lgamma tgamma;
//     sqrt_normal(x) and divide_normal(x, y), the rounded values of sqrt and x / y where neither arguments nor result
//     are near the limits of the format; umulhi(uint64_t, uint64_t) and umul_wide(uint32_t, uint32_t) of 64 bits.
// Nothing here may depend on contraction of a * b + c: compile with it off.
#pragma once

#ifndef QUARRY_FN  // alone on the host
#include "quarry/local/program/device_math.h"
#endif

// Each part uses those before it.
// clang-format off
#include "quarry/local/program/functions/values.inl"
#include "quarry/local/program/functions/integers.inl"
#include "quarry/local/program/functions/reals.inl"
#include "quarry/local/program/functions/complex.inl"
#include "quarry/local/program/functions/random.inl"
#include "quarry/local/program/functions/distributions.inl"
#ifndef QUARRY_NO_SPECIAL_FUNCTIONS  // a kernel without them compiles faster
#include "quarry/local/program/functions/special.inl"
#endif
// clang-format on
