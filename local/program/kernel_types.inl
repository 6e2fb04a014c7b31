// What a user's kernel sees, on every device: float16, bfloat16, complex<T>, raw arrays and index objects; on the CPU
// also CUDA's functions that C++ lacks. Embedded as text before the user's code, never included. It stands after
// quarry::local::float16 and bfloat16; with QUARRY_KERNEL_COMPLEX defined, after local/program/op_functions.h.

#ifdef __CUDACC_RTC__
#define QUARRY_KERNEL_FN inline __device__
#else
#define QUARRY_KERNEL_FN inline
#define __device__
#define __host__
#define __forceinline__ inline
#include <math.h>
#include <stdlib.h>

#include <atomic>
#endif

// ---- 16-bit floats: storage that reads as float and is written from any number ----

namespace quarry_kernel {

template <class Storage>
struct half {
  unsigned short bits;
  half() = default;
  QUARRY_KERNEL_FN half(float value) : bits(Storage(value).bits) {}
  QUARRY_KERNEL_FN half(double value) : half(static_cast<float>(value)) {}
  QUARRY_KERNEL_FN half(bool value) : half(value ? 1.0f : 0.0f) {}
  QUARRY_KERNEL_FN half(int value) : half(static_cast<float>(value)) {}
  QUARRY_KERNEL_FN half(unsigned value) : half(static_cast<float>(value)) {}
  QUARRY_KERNEL_FN half(long value) : half(static_cast<float>(value)) {}
  QUARRY_KERNEL_FN half(unsigned long value) : half(static_cast<float>(value)) {}
  QUARRY_KERNEL_FN half(long long value) : half(static_cast<float>(value)) {}
  QUARRY_KERNEL_FN half(unsigned long long value) : half(static_cast<float>(value)) {}
  QUARRY_KERNEL_FN operator float() const {
    Storage storage;
    storage.bits = bits;
    return static_cast<float>(storage);
  }
  QUARRY_KERNEL_FN half& operator+=(float value) { return *this = half(static_cast<float>(*this) + value); }
  QUARRY_KERNEL_FN half& operator-=(float value) { return *this = half(static_cast<float>(*this) - value); }
  QUARRY_KERNEL_FN half& operator*=(float value) { return *this = half(static_cast<float>(*this) * value); }
  QUARRY_KERNEL_FN half& operator/=(float value) { return *this = half(static_cast<float>(*this) / value); }
};

}  // namespace quarry_kernel

typedef quarry_kernel::half<quarry::local::float16> float16;
typedef quarry_kernel::half<quarry::local::bfloat16> bfloat16;

// ---- Complex numbers ----

#ifdef QUARRY_KERNEL_COMPLEX
template <class R>
struct complex {
  typedef R value_type;
  typedef quarry::local::cx<R> parts;
  R re, im;
  complex() = default;
  QUARRY_KERNEL_FN complex(R real, R imag = R(0)) : re(real), im(imag) {}
  QUARRY_KERNEL_FN complex(parts z) : re(z.re), im(z.im) {}
  template <class S>
  QUARRY_KERNEL_FN complex(const complex<S>& z) : re(static_cast<R>(z.re)), im(static_cast<R>(z.im)) {}
  QUARRY_KERNEL_FN R real() const { return re; }
  QUARRY_KERNEL_FN R imag() const { return im; }
  QUARRY_KERNEL_FN void real(R value) { re = value; }
  QUARRY_KERNEL_FN void imag(R value) { im = value; }
  QUARRY_KERNEL_FN operator parts() const { return {re, im}; }

  // Among themselves and with real numbers, which take the complex type's parts.
#define QUARRY_KERNEL_ARITHMETIC(symbol, name)                                                        \
  friend QUARRY_KERNEL_FN complex operator symbol(const complex& x, const complex& y) {               \
    return complex(quarry::local::fn::name(static_cast<parts>(x), static_cast<parts>(y)));            \
  }                                                                                                   \
  QUARRY_KERNEL_FN complex& operator symbol##=(const complex& y) { return *this = *this symbol y; }
  QUARRY_KERNEL_ARITHMETIC(+, add)
  QUARRY_KERNEL_ARITHMETIC(-, subtract)
  QUARRY_KERNEL_ARITHMETIC(*, multiply)
  QUARRY_KERNEL_ARITHMETIC(/, divide)
#undef QUARRY_KERNEL_ARITHMETIC
  friend QUARRY_KERNEL_FN bool operator==(const complex& x, const complex& y) { return x.re == y.re && x.im == y.im; }
  friend QUARRY_KERNEL_FN bool operator!=(const complex& x, const complex& y) { return !(x == y); }
  QUARRY_KERNEL_FN complex operator-() const { return complex(-re, -im); }
  QUARRY_KERNEL_FN complex operator+() const { return *this; }
};
#define QUARRY_KERNEL_COMPLEX_FUNCTION(name, of)                                     \
  template <class R>                                                                 \
  QUARRY_KERNEL_FN complex<R> name(const complex<R>& z) {                            \
    return complex<R>(quarry::local::fn::of(static_cast<quarry::local::cx<R>>(z)));  \
  }
QUARRY_KERNEL_COMPLEX_FUNCTION(conj, conjugate)
QUARRY_KERNEL_COMPLEX_FUNCTION(exp, exp)
QUARRY_KERNEL_COMPLEX_FUNCTION(log, log)
QUARRY_KERNEL_COMPLEX_FUNCTION(log10, log10)
QUARRY_KERNEL_COMPLEX_FUNCTION(sqrt, sqrt)
QUARRY_KERNEL_COMPLEX_FUNCTION(sin, sin)
QUARRY_KERNEL_COMPLEX_FUNCTION(cos, cos)
QUARRY_KERNEL_COMPLEX_FUNCTION(tan, tan)
QUARRY_KERNEL_COMPLEX_FUNCTION(sinh, sinh)
QUARRY_KERNEL_COMPLEX_FUNCTION(cosh, cosh)
QUARRY_KERNEL_COMPLEX_FUNCTION(tanh, tanh)
QUARRY_KERNEL_COMPLEX_FUNCTION(asin, arcsin)
QUARRY_KERNEL_COMPLEX_FUNCTION(acos, arccos)
QUARRY_KERNEL_COMPLEX_FUNCTION(atan, arctan)
#undef QUARRY_KERNEL_COMPLEX_FUNCTION
template <class R>
QUARRY_KERNEL_FN complex<R> pow(const complex<R>& x, const complex<R>& y) {
  return complex<R>(quarry::local::fn::power(static_cast<quarry::local::cx<R>>(x), static_cast<quarry::local::cx<R>>(y)));
}
template <class R>
QUARRY_KERNEL_FN complex<R> pow(const complex<R>& x, R y) {
  return pow(x, complex<R>(y));
}
template <class R>
QUARRY_KERNEL_FN R real(const complex<R>& z) {
  return z.re;
}
template <class R>
QUARRY_KERNEL_FN R imag(const complex<R>& z) {
  return z.im;
}
template <class R>
QUARRY_KERNEL_FN R norm(const complex<R>& z) {
  return z.re * z.re + z.im * z.im;
}
template <class R>
QUARRY_KERNEL_FN R abs(const complex<R>& z) {
  return quarry::local::fn::absolute(static_cast<quarry::local::cx<R>>(z));
}
template <class R>
QUARRY_KERNEL_FN R arg(const complex<R>& z) {
  return quarry::local::math::atan2(z.im, z.re);
}
template <class R>
QUARRY_KERNEL_FN complex<R> polar(R radius, R angle = R(0)) {
  return complex<R>(radius * quarry::local::math::cos(angle), radius * quarry::local::math::sin(angle));
}
#endif

// ---- Arrays that the user's code indexes, and the space ----

namespace quarry_kernel {

// n-dimensional; contiguous ones skip the division of indices.
template <class T, int N, bool Contiguous>
struct raw_array {
  static constexpr int ndim = N;
  T* data;
  long long count;
  long long extents[N > 0 ? N : 1];
  long long steps[N > 0 ? N : 1];  // bytes
  QUARRY_KERNEL_FN long long size() const { return count; }
  QUARRY_KERNEL_FN const long long* shape() const { return extents; }
  QUARRY_KERNEL_FN const long long* strides() const { return steps; }
  // Element number `i` in C order.
  QUARRY_KERNEL_FN T& operator[](long long i) const {
    if constexpr (Contiguous) {
      return data[i];
    } else {
      long long offset = 0;
      for (int d = N - 1; d > 0; --d) {
        const long long rest = i / extents[d];
        offset += (i - rest * extents[d]) * steps[d];
        i = rest;
      }
      if (N > 0) offset += i * steps[0];
      return at(offset);
    }
  }
  // By N indices: an array, or _ind.get().
  template <class I>
  QUARRY_KERNEL_FN T& operator[](const I* index) const {
    long long offset = 0;
    for (int d = 0; d < N; ++d) offset += static_cast<long long>(index[d]) * steps[d];
    return at(offset);
  }

 private:
  QUARRY_KERNEL_FN T& at(long long offset) const {
    return *reinterpret_cast<T*>(const_cast<char*>(reinterpret_cast<const char*>(data)) + offset);
  }
};

// _ind: the space, and where in it the element is.
template <int N>
struct indexer {
  static constexpr int ndim = N;
  long long count;
  long long extents[N > 0 ? N : 1];
  long long position[N > 0 ? N : 1];
  QUARRY_KERNEL_FN long long size() const { return count; }
  QUARRY_KERNEL_FN const long long* shape() const { return extents; }
  QUARRY_KERNEL_FN const long long* get() const { return position; }
  QUARRY_KERNEL_FN void set(long long i) {
    for (int d = N - 1; d > 0; --d) {
      const long long rest = i / extents[d];
      position[d] = i - rest * extents[d];
      i = rest;
    }
    if (N > 0) position[0] = i;
  }
};

// A value among the launch's 64-bit words.
template <class T>
QUARRY_KERNEL_FN T scalar(const long long* words) {
  T value;
#ifdef __CUDACC_RTC__
  memcpy(&value, words, sizeof(T));
#else
  __builtin_memcpy(&value, words, sizeof(T));
#endif
  return value;
}

// _in_ind and _out_ind of a reduction.
struct counted {
  long long count;
  QUARRY_KERNEL_FN long long size() const { return count; }
};

}  // namespace quarry_kernel

// ---- CUDA's functions that C++ lacks ----

#ifndef __CUDACC_RTC__
#define QUARRY_KERNEL_EXTREMES(T)                        \
  inline T max(T x, T y) { return x < y ? y : x; }       \
  inline T min(T x, T y) { return y < x ? y : x; }
QUARRY_KERNEL_EXTREMES(int)
QUARRY_KERNEL_EXTREMES(unsigned)
QUARRY_KERNEL_EXTREMES(long)
QUARRY_KERNEL_EXTREMES(unsigned long)
QUARRY_KERNEL_EXTREMES(long long)
QUARRY_KERNEL_EXTREMES(unsigned long long)
#undef QUARRY_KERNEL_EXTREMES
// NaN loses, as in CUDA.
inline float max(float x, float y) { return __builtin_fmaxf(x, y); }
inline float min(float x, float y) { return __builtin_fminf(x, y); }
inline double max(double x, double y) { return __builtin_fmax(x, y); }
inline double min(double x, double y) { return __builtin_fmin(x, y); }
inline double max(float x, double y) { return __builtin_fmax(x, y); }
inline double min(float x, double y) { return __builtin_fmin(x, y); }
inline double max(double x, float y) { return __builtin_fmax(x, y); }
inline double min(double x, float y) { return __builtin_fmin(x, y); }

#define QUARRY_KERNEL_MATH(name, expression)                     \
  inline float name##f(float x) { return static_cast<float>(expression); } \
  inline float name(float x) { return name##f(x); }              \
  inline double name(double x) { return expression; }
QUARRY_KERNEL_MATH(rsqrt, 1 / sqrt(x))
QUARRY_KERNEL_MATH(rcbrt, 1 / cbrt(x))
QUARRY_KERNEL_MATH(sinpi, sin(3.14159265358979323846 * x))
QUARRY_KERNEL_MATH(cospi, cos(3.14159265358979323846 * x))
QUARRY_KERNEL_MATH(normcdf, 0.5 * erfc(-0.70710678118654752440 * x))
#undef QUARRY_KERNEL_MATH
inline float fdividef(float x, float y) { return x / y; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

namespace quarry_kernel {
template <class T>
struct exactly {
  typedef T type;
};
// The old value; `change` makes the new one of it.
template <class T, class F>
inline T change_atomically(T* address, F change) {
  std::atomic_ref<T> target(*address);
  T old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) {
  }
  return old;
}
}  // namespace quarry_kernel
#define QUARRY_KERNEL_ATOMIC(name, expression)                                           \
  template <class T>                                                                     \
  inline T name(T* address, typename quarry_kernel::exactly<T>::type value) {            \
    return quarry_kernel::change_atomically(address, [value](T old) -> T { return static_cast<T>(expression); }); \
  }
QUARRY_KERNEL_ATOMIC(atomicAdd, old + value)
QUARRY_KERNEL_ATOMIC(atomicSub, old - value)
QUARRY_KERNEL_ATOMIC(atomicMax, old < value ? value : old)
QUARRY_KERNEL_ATOMIC(atomicMin, value < old ? value : old)
QUARRY_KERNEL_ATOMIC(atomicAnd, old& value)
QUARRY_KERNEL_ATOMIC(atomicOr, old | value)
QUARRY_KERNEL_ATOMIC(atomicXor, old ^ value)
QUARRY_KERNEL_ATOMIC(atomicExch, (static_cast<void>(old), value))
#undef QUARRY_KERNEL_ATOMIC
template <class T>
inline T atomicCAS(T* address, typename quarry_kernel::exactly<T>::type compare,
                   typename quarry_kernel::exactly<T>::type value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(compare, value);
  return compare;
}
#endif
