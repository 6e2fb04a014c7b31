// Arithmetic of the four dtypes of linear algebra in kernels. Complex numbers lie in memory as those of CUDA's
// libraries.
#pragma once

#include <type_traits>

#include "quarry/local/base/dtype.h"

namespace quarry::local::cuda {
namespace {

template <class R>
struct alignas(2 * sizeof(R)) Complex {
  R x, y;
};

template <class T>
inline constexpr bool is_complex_v = false;
template <class R>
inline constexpr bool is_complex_v<Complex<R>> = true;
template <class T>
inline constexpr bool is_single_v = std::is_same_v<T, float> || std::is_same_v<T, Complex<float>>;
template <class T>
using Real = std::conditional_t<is_single_v<T>, float, double>;

// f(T{}) of a dtype that is float32, float64, complex64 or complex128.
template <class F>
auto with_number(DType dtype, F&& f) {
  if (dtype == DType::float32) return f(float{});
  if (dtype == DType::float64) return f(double{});
  if (dtype == DType::complex64) return f(Complex<float>{});
  return f(Complex<double>{});
}

// |re| + |im| of a complex number, as BLAS's searches have it.
template <class T>
__device__ inline Real<T> magnitude_of(T a) {
  if constexpr (is_complex_v<T>)
    return magnitude_of(a.x) + magnitude_of(a.y);
  else
    return static_cast<T>(fabs(a));
}
template <class T>
__device__ inline bool is_zero(T a) {
  if constexpr (is_complex_v<T>)
    return a.x == 0 && a.y == 0;
  else
    return a == 0;
}
template <class T>
__device__ inline bool is_finite(T a) {
  if constexpr (is_complex_v<T>)
    return is_finite(a.x) && is_finite(a.y);
  else
    return a - a == 0;
}
template <class T>
__device__ inline T conjugated(T a) {
  if constexpr (is_complex_v<T>)
    return {a.x, -a.y};
  else
    return a;
}
template <class T>
__device__ inline Real<T> real_part(T a) {
  if constexpr (is_complex_v<T>)
    return a.x;
  else
    return a;
}
template <class T>
__device__ inline T of_real(Real<T> a) {
  if constexpr (is_complex_v<T>)
    return {a, 0};
  else
    return a;
}
template <class T>
__device__ inline T scaled(T a, Real<T> factor) {
  if constexpr (is_complex_v<T>)
    return {a.x * factor, a.y * factor};
  else
    return a * factor;
}
template <class T>
__device__ inline T product(T a, T b) {
  if constexpr (is_complex_v<T>)
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
  else
    return a * b;
}
// c - a b
template <class T>
__device__ inline T minus_product(T c, T a, T b) {
  if constexpr (is_complex_v<T>) {
    c.x -= a.x * b.x - a.y * b.y;
    c.y -= a.x * b.y + a.y * b.x;
    return c;
  } else {
    return c - a * b;
  }
}
// Both are divided by the sum of the divisor's parts, so that no square overflows or vanishes.
template <class T>
__device__ inline T quotient(T a, T b) {
  if constexpr (is_complex_v<T>) {
    const Real<T> scale = magnitude_of(b);
    const T numerator{a.x / scale, a.y / scale}, divisor{b.x / scale, b.y / scale};
    const Real<T> inverse = 1 / (divisor.x * divisor.x + divisor.y * divisor.y);
    const T result = product(numerator, conjugated(divisor));
    return {result.x * inverse, result.y * inverse};
  } else {
    return a / b;
  }
}
#ifdef __CUDACC__
__device__ inline double inverse_root(double a) { return rsqrt(a); }
__device__ inline float inverse_root(float a) { return rsqrtf(a); }
#else
template <class R>
R inverse_root(R a) {
  return 1 / sqrt(a);
}
#endif
template <class T>
__device__ inline T one() {
  if constexpr (is_complex_v<T>)
    return {1, 0};
  else
    return 1;
}

}  // namespace
}  // namespace quarry::local::cuda
