// Loops over float32 and float64. Transcendental functions are SLEEF's: its finz_ variants return the same bits at
// every vector length. The oldest level has no FMA, which they need, and calls libm.
#include "local/cpu/loops/map.inl"

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
// infinite result, are computed again by libm. The tile of the result is never that of the argument.
template <class F, class Row>
void vector_loop_to_the_end(void* out, const void* const* args, int64_t n) {
  using T = typename F::element;
  vector_loop<F>(out, args, n);
  const T* x = static_cast<const T*>(args[0]);
  T* r = static_cast<T*>(out);
  int64_t lost = 0;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) lost += fn::isfinite(x[i]) && !fn::isfinite(r[i]) ? 1 : 0;
  for (int64_t i = 0; lost > 0 && i < n; ++i)
    if (fn::isfinite(x[i]) && !fn::isfinite(r[i])) r[i] = Row::template apply<T>(x[i], x[i], x[i]);
}

#define QUARRY_VECTOR_FUNCTIONS(unary, careful, binary)                                                                \
  careful(exp, exp, u10) unary(exp2, exp2, u10) careful(expm1, expm1, u10) unary(log, log, u10) unary(log2, log2, u10) \
      unary(log10, log10, u10) careful(log1p, log1p, u10) unary(sin, sin, u10) unary(cos, cos, u10)                    \
          unary(tan, tan, u10) unary(arcsin, asin, u10) unary(arccos, acos, u10) unary(arctan, atan, u10)              \
              careful(sinh, sinh, u10) careful(cosh, cosh, u10) unary(tanh, tanh, u10) careful(arcsinh, asinh, u10)    \
                  careful(arccosh, acosh, u10) unary(arctanh, atanh, u10) unary(cbrt, cbrt, u10)                       \
                      binary(power, pow, u10) binary(float_power, pow, u10) binary(arctan2, atan2, u10)                \
                          binary(hypot, hypot, u05)

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

template <Op op>
constexpr bool is_vector_function = false;
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
#include "local/ops/ufunc.def"
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
#endif
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
