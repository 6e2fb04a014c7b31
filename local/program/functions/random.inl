// Random numbers by element index: bits, integers, uniforms and normals.
namespace quarry::local::fn {

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011).
struct philox_block {
  uint32_t w[4];
};
QUARRY_FN philox_block philox4x32_10(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = math::umul_wide(0xD2511F53u, c0), p1 = math::umul_wide(0xCD9E8D57u, c2);
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
// m 2^-53 of the upper 53 bits m, exactly: 20 of them behind the leading bit of 1, 33 behind that of 1/2. Converting
// integers of 64 bits takes longer on every device.
QUARRY_FN double uniform64(uint64_t w) {
  const double high = QUARRY_BIT_CAST(double, (w >> 44 | 0x3ff00000u) << 32);
  const double low = QUARRY_BIT_CAST(double, (w >> 11 & 0x1ffffffffull) | 0x3fe0000000000000ull);
  return (high - 1.5) + low;
}

// log of a normal x in (0, 1], m 2^e with m in [sqrt(1/2), sqrt(2)). Explicit fused operations, so that it has the same
// bits on every device; minimax polynomials. In double log m = 2 artanh((m - 1) / (m + 1)).
QUARRY_FN double shared_log(double x) {
  const uint64_t bits = QUARRY_BIT_CAST(uint64_t, x);
  const uint64_t shifted = bits - 0x3fe6a09e667f3bcdull;  // sqrt(1/2)
  const double m = QUARRY_BIT_CAST(double, bits - (shifted & 0xfff0000000000000ull));
  const double f = m - 1.0, s = math::divide_normal(f, 2.0 + f), s2 = s * s;
  double p = 0.073980546674603052;
  p = math::fma(p, s2, 0.076570177185217235);
  p = math::fma(p, s2, 0.090917824415864127);
  p = math::fma(p, s2, 0.11111099281565975);
  p = math::fma(p, s2, 0.14285714371239485);
  p = math::fma(p, s2, 0.19999999999707149);
  p = math::fma(p, s2, 0.33333333333333672);
  const double tail = s * s2 * p;  // artanh(s) - s
  const double scale = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(shifted >> 32)) >> 20);
  return math::fma(scale, 6.93147180369123816490e-01,
                   2.0 * s + math::fma(scale, 1.90821492927058770002e-10, 2.0 * tail));
}
QUARRY_FN float shared_log(float x) {
  const uint32_t bits = QUARRY_BIT_CAST(uint32_t, x);
  const uint32_t shifted = (bits - 0x3f3504f3u) & 0xff800000u;  // sqrt(1/2)
  const float f = QUARRY_BIT_CAST(float, bits - shifted) - 1.0f;
  float p = 0.087348015f;
  p = math::fma(p, f, -0.143074983f);
  p = math::fma(p, f, 0.149179724f);
  p = math::fma(p, f, -0.165705103f);
  p = math::fma(p, f, 0.199620732f);
  p = math::fma(p, f, -0.250017554f);
  p = math::fma(p, f, 0.333339502f);
  p = math::fma(p, f, -0.499999916f);
  const float scale = static_cast<float>(static_cast<int32_t>(shifted));  // 2^23 e
  return math::fma(f * f, p, math::fma(scale, 8.26295829e-08f, f));
}

template <class T>
struct sincos_pair {
  T sine, cosine;
};
// Of an angle of at most pi / 4.
QUARRY_FN sincos_pair<double> shared_sincos(double a) {
  const double a2 = a * a;
  double s = 1.5896826386729010e-10;
  s = math::fma(s, a2, -2.5050758627009302e-08);
  s = math::fma(s, a2, 2.7557313695060034e-06);
  s = math::fma(s, a2, -1.9841269829816468e-04);
  s = math::fma(s, a2, 8.3333333333224239e-03);
  s = math::fma(s, a2, -1.6666666666666632e-01);
  double c = -1.1359669049678407e-11;
  c = math::fma(c, a2, 2.0875723669624319e-09);
  c = math::fma(c, a2, -2.7557314355141540e-07);
  c = math::fma(c, a2, 2.4801587289491518e-05);
  c = math::fma(c, a2, -1.3888888888874138e-03);
  c = math::fma(c, a2, 4.1666666666666600e-02);
  c = math::fma(c, a2, -0.5);
  return {math::fma(s * a2, a, a), math::fma(c, a2, 1.0)};
}
QUARRY_FN sincos_pair<float> shared_sincos(float a) {
  const float a2 = a * a;
  float s = -1.95172958e-04f;
  s = math::fma(s, a2, 8.33217812e-03f);
  s = math::fma(s, a2, -1.66666549e-01f);
  float c = 2.44384489e-05f;
  c = math::fma(c, a2, -1.38873675e-03f);
  c = math::fma(c, a2, 4.16666469e-02f);
  c = math::fma(c, a2, -0.5f);
  return {math::fma(s * a2, a, a), math::fma(c, a2, 1.0f)};
}
// Of 2 pi t, t in [0, 1): t = k / 4 + y, |y| <= 1/8.
QUARRY_FN sincos_pair<double> shared_sincos_turns(double t) {
  const int quadrant = static_cast<int>(math::fma(t, 4.0, 0.5));
  const double y = math::fma(static_cast<double>(quadrant), -0.25, t);
  const sincos_pair<double> of = shared_sincos(y * 6.28318530717958647693);
  const double a = (quadrant & 1) ? of.cosine : of.sine, b = (quadrant & 1) ? of.sine : of.cosine;
  return {(quadrant & 2) ? -a : a, ((quadrant + 1) & 2) ? -b : b};
}

// (0, 1), odd multiples of 2^-24 or 2^-53 from a word's upper bits.
QUARRY_FN float open_unit(uint32_t w) { return QUARRY_BIT_CAST(float, (w >> 9) | 0x3f800000u) - 0.999999940395355225f; }
QUARRY_FN double open_unit(uint64_t w) {
  return QUARRY_BIT_CAST(double, (w >> 12) | 0x3ff0000000000000ull) - 0.999999999999999888978;
}

// Box-Muller: two words of a block give two normals. The first one is u of the radius sqrt(-2 log u); of the second one
// the upper two bits are a quarter of the circle and the lower ones, with a sign, an angle in it.
QUARRY_FN float normal_radius(uint32_t w) { return math::sqrt_normal(-2.0f * shared_log(open_unit(w))); }
QUARRY_FN double normal_radius(uint64_t w) { return math::sqrt_normal(-2.0 * shared_log(open_unit(w))); }
QUARRY_FN float normal_angle(uint32_t w) {
  return static_cast<float>(static_cast<int32_t>(w << 2)) * 3.65729522e-10f;  // pi / 2^33
}
QUARRY_FN double normal_angle(uint64_t w) {
  const double y = QUARRY_BIT_CAST(double, (w & 0xfffffffffffffull) | 0x3ff0000000000000ull) - 1.5;
  return y * 1.57079632679489661923;
}
template <class T>
struct normal_pair {
  T first, second;
};
QUARRY_FN normal_pair<float> normals_at(float radius, const sincos_pair<float>& angle, uint32_t w) {
  const float r = QUARRY_BIT_CAST(float, QUARRY_BIT_CAST(uint32_t, radius) ^ (w & 0x80000000u));
  const bool swap = (w & 0x40000000u) != 0;
  return {r * (swap ? angle.sine : angle.cosine), r * (swap ? angle.cosine : angle.sine)};
}
QUARRY_FN normal_pair<double> normals_at(double radius, const sincos_pair<double>& angle, uint64_t w) {
  const double r = QUARRY_BIT_CAST(double, QUARRY_BIT_CAST(uint64_t, radius) ^ (w & 0x8000000000000000ull));
  const bool swap = (w & 0x4000000000000000ull) != 0;
  return {r * (swap ? angle.sine : angle.cosine), r * (swap ? angle.cosine : angle.sine)};
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
// Values 2j and 2j + 1 of a block, made of its words 2j and 2j + 1.
template <Real T>
QUARRY_FN normal_pair<T> normals_of_block(const philox_block& block, int pair) {
  if constexpr (sizeof(T) == 4) {
    const uint32_t w = block.w[2 * pair + 1];
    return normals_at(normal_radius(block.w[2 * pair]), shared_sincos(normal_angle(w)), w);
  } else {
    const uint64_t w = word64(block, 1);
    return normals_at(normal_radius(word64(block, 0)), shared_sincos(normal_angle(w)), w);
  }
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
  const normal_pair<T> pair = normals_of_block<T>(random_block(i / values_per_block<T>, seed, stream), place / 2);
  return (place & 1) ? pair.second : pair.first;
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
