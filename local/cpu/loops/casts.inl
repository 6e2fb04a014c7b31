// astype between all dtypes, and byte order.
#include "quarry/local/cpu/loops/level.inl"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace quarry::local::cpu::QUARRY_LEVEL {
namespace {

template <class S, class T>
void cast_loop(void* out, const void* const* args, int64_t n) {
  const S* x = static_cast<const S*>(args[0]);
  T* r = static_cast<T*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) r[i] = fn::convert<T>::from(x[i]);
}

#ifdef __F16C__
template <>
void cast_loop<float16, float>(void* out, const void* const* args, int64_t n) {
  const float16* x = static_cast<const float16*>(args[0]);
  float* r = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(r + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  for (; i < n; ++i) r[i] = static_cast<float>(x[i]);
}
template <>
void cast_loop<float, float16>(void* out, const void* const* args, int64_t n) {
  const float* x = static_cast<const float*>(args[0]);
  float16* r = static_cast<float16*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(r + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) r[i] = float16(x[i]);
}
#endif

template <class S>
void register_from(Loops& loops, DType from) {
  MapLoop* row = loops.cast[static_cast<int>(from)];
  const auto entry = [&](DType to) -> MapLoop& { return row[static_cast<int>(to)]; };
  entry(DType::bool_) = cast_loop<S, bool>;
  entry(DType::int8) = cast_loop<S, int8_t>;
  entry(DType::int16) = cast_loop<S, int16_t>;
  entry(DType::int32) = cast_loop<S, int32_t>;
  entry(DType::int64) = cast_loop<S, int64_t>;
  entry(DType::uint8) = cast_loop<S, uint8_t>;
  entry(DType::uint16) = cast_loop<S, uint16_t>;
  entry(DType::uint32) = cast_loop<S, uint32_t>;
  entry(DType::uint64) = cast_loop<S, uint64_t>;
  entry(DType::float32) = cast_loop<S, float>;
  entry(DType::float64) = cast_loop<S, double>;
  entry(DType::complex64) = cast_loop<S, cx<float>>;
  entry(DType::complex128) = cast_loop<S, cx<double>>;
}

template <class U, int parts>
void swap_loop(void* out, const void* const* args, int64_t n) {
  const U* x = static_cast<const U*>(args[0]);
  U* r = static_cast<U*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n * parts; ++i) r[i] = fn::byte_swap(x[i]);
}

}  // namespace

void register_casts(Loops& loops) {
  register_from<bool>(loops, DType::bool_);
  register_from<int8_t>(loops, DType::int8);
  register_from<int16_t>(loops, DType::int16);
  register_from<int32_t>(loops, DType::int32);
  register_from<int64_t>(loops, DType::int64);
  register_from<uint8_t>(loops, DType::uint8);
  register_from<uint16_t>(loops, DType::uint16);
  register_from<uint32_t>(loops, DType::uint32);
  register_from<uint64_t>(loops, DType::uint64);
  register_from<float>(loops, DType::float32);
  register_from<double>(loops, DType::float64);
  register_from<cx<float>>(loops, DType::complex64);
  register_from<cx<double>>(loops, DType::complex128);
  const auto entry = [&](DType from, DType to) -> MapLoop& {
    return loops.cast[static_cast<int>(from)][static_cast<int>(to)];
  };
  entry(DType::float16, DType::float32) = cast_loop<float16, float>;
  entry(DType::float32, DType::float16) = cast_loop<float, float16>;
  entry(DType::float64, DType::float16) = cast_loop<double, float16>;
  entry(DType::bfloat16, DType::float32) = cast_loop<bfloat16, float>;
  entry(DType::float32, DType::bfloat16) = cast_loop<float, bfloat16>;

  for (DType dtype : {DType::int16, DType::uint16, DType::float16, DType::bfloat16})
    loops.swap[static_cast<int>(dtype)] = swap_loop<uint16_t, 1>;
  for (DType dtype : {DType::int32, DType::uint32, DType::float32})
    loops.swap[static_cast<int>(dtype)] = swap_loop<uint32_t, 1>;
  for (DType dtype : {DType::int64, DType::uint64, DType::float64})
    loops.swap[static_cast<int>(dtype)] = swap_loop<uint64_t, 1>;
  loops.swap[static_cast<int>(DType::complex64)] = swap_loop<uint32_t, 2>;
  loops.swap[static_cast<int>(DType::complex128)] = swap_loop<uint64_t, 2>;
}

}  // namespace quarry::local::cpu::QUARRY_LEVEL
