// Random numbers by element index: bits, integers, uniforms and normals.
namespace quarry::local::fn {

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

}  // namespace quarry::local::fn
