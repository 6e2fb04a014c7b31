#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "quarry/local/base/half.h"

namespace quarry::local {
namespace {

// Definition of the formats: sign, exponent and mantissa bits.
double value_by_definition(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const uint32_t exponent_mask = (1u << exponent_bits) - 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const bool negative = bits >> (exponent_bits + mantissa_bits);
  const uint32_t exponent = (bits >> mantissa_bits) & exponent_mask;
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  double value;
  if (exponent == exponent_mask)
    value = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(static_cast<double>(mantissa), 1 - bias - mantissa_bits);
  else
    value = std::ldexp(static_cast<double>(mantissa + (1u << mantissa_bits)),
                       static_cast<int>(exponent) - bias - mantissa_bits);
  return negative ? -value : value;
}

template <class Half>
struct Format;
template <>
struct Format<float16> {
  static constexpr int exponent_bits = 5, mantissa_bits = 10;
};
template <>
struct Format<bfloat16> {
  static constexpr int exponent_bits = 8, mantissa_bits = 7;
};

template <class Half>
class HalfFormats : public ::testing::Test {
 protected:
  static Half of_bits(int bits) {
    Half h;
    h.bits = static_cast<uint16_t>(bits);
    return h;
  }
};
using Halves = ::testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(HalfFormats, Halves);

TYPED_TEST(HalfFormats, EveryValueWidensAsDefinedAndComesBack) {
  using F = Format<TypeParam>;
  for (int bits = 0; bits < 65536; ++bits) {
    const float wide = this->of_bits(bits);
    const double want = value_by_definition(static_cast<uint32_t>(bits), F::exponent_bits, F::mantissa_bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(wide)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide), want) << bits;
    ASSERT_EQ(std::signbit(wide), std::signbit(want)) << bits;
    ASSERT_EQ(TypeParam(wide).bits, bits);
  }
}

// Between every two neighbours: the midpoint goes to the even one, anything beside it to the nearer.
TYPED_TEST(HalfFormats, NarrowingRoundsToNearestEven) {
  using F = Format<TypeParam>;
  const int infinity = ((1 << F::exponent_bits) - 1) << F::mantissa_bits;
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = value_by_definition(static_cast<uint32_t>(bits), F::exponent_bits, F::mantissa_bits);
    // The neighbour of the largest value is the power of two that infinity stands for.
    const double high = bits + 1 == infinity
                            ? std::ldexp(1.0, 1 << (F::exponent_bits - 1))
                            : value_by_definition(static_cast<uint32_t>(bits + 1), F::exponent_bits, F::mantissa_bits);
    const auto middle = static_cast<float>((low + high) / 2);
    if (static_cast<double>(middle) != (low + high) / 2) continue;  // bfloat16's smallest: float32 has no midpoint
    const int even = bits % 2 == 0 ? bits : bits + 1;
    for (int sign : {0, 0x8000}) {
      const float s = sign ? -1.0f : 1.0f;
      ASSERT_EQ(TypeParam(s * middle).bits, even | sign) << bits;
      ASSERT_EQ(TypeParam(s * std::nextafter(middle, 0.0f)).bits, bits | sign) << bits;
      ASSERT_EQ(TypeParam(s * std::nextafter(middle, INFINITY)).bits, (bits + 1) | sign) << bits;
    }
  }
  ASSERT_EQ(TypeParam(INFINITY).bits, infinity);
}

TYPED_TEST(HalfFormats, NarrowingIsMonotonic) {
  float previous = 0;
  int last = 0;
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 9973) {
    const float value = std::bit_cast<float>(bits);
    const int narrow = TypeParam(value).bits;
    ASSERT_GE(narrow, last) << previous << " " << value;
    ASSERT_EQ(TypeParam(-value).bits, narrow | 0x8000);
    last = narrow;
    previous = value;
  }
}

TYPED_TEST(HalfFormats, EveryNanStaysOne) {
  for (uint32_t mantissa = 1; mantissa < 0x800000u; mantissa += 4099) {
    ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(0x7f800000u | mantissa)))));
    ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(0xff800000u | mantissa)))));
  }
}

}  // namespace
}  // namespace quarry::local
