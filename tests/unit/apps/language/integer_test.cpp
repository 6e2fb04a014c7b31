// Ints of any size. What Python answers is in the oracle's table of scalars; here are the identities that hold for all.
#include "quarry/apps/language/integer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quarry/local/base/error.h"

namespace quarry::apps::expression {
namespace {

// Limbs that make the guesses of a long division wrong.
Int odd_number(std::mt19937& random, int limbs) {
  constexpr uint32_t kLimbs[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
  Int result = 0;
  for (int i = 0; i < limbs; ++i) {
    const bool any = random() % 4 == 0;
    result =
        result.shifted_left(32) + Int(any ? static_cast<uint32_t>(random()) : kLimbs[random() % std::size(kLimbs)]);
  }
  return random() % 2 == 0 ? result : -result;
}

TEST(Integer, QuotientsAndRemaindersMakeTheDividend) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const Int a = odd_number(random, 1 + static_cast<int>(random() % 6));
    const Int b = odd_number(random, 1 + static_cast<int>(random() % 4));
    if (b.is_zero()) continue;
    const auto [quotient, rest] = Int::divide(a, b);
    ASSERT_EQ(quotient * b + rest, a) << to_string(a) << " by " << to_string(b);
    ASSERT_TRUE(rest.is_zero() || rest.is_negative() == b.is_negative());
    ASSERT_TRUE((rest.is_negative() ? -rest : rest) < (b.is_negative() ? -b : b));
  }
}

TEST(Integer, ArithmeticAgreesWith128Bits) {
  __extension__ typedef __int128 Wide;
  const auto wide = [](const Int& x) {
    const Int magnitude = x.is_negative() ? -x : x;
    const Int mask = Int(UINT64_MAX);
    const auto high = static_cast<Wide>(*magnitude.shifted_right(64).as_uint64());
    const Wide value = high << 64 | static_cast<Wide>(*(magnitude & mask).as_uint64());
    return x.is_negative() ? -value : value;
  };
  std::mt19937_64 random(2);
  constexpr int64_t kEdges[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_MIN + 1, 1 << 30};
  for (int i = 0; i < 20000; ++i) {
    const auto pick = [&] {
      return random() % 3 == 0 ? kEdges[random() % std::size(kEdges)]
                               : static_cast<int64_t>(random()) >> (random() % 64);
    };
    const int64_t a = pick(), b = pick();
    const Int x(a), y(b);
    ASSERT_EQ(wide(x + y), Wide{a} + b);
    ASSERT_EQ(wide(x - y), Wide{a} - b);
    if (a != INT64_MIN || b != INT64_MIN) {
      ASSERT_EQ(wide(x * y), Wide{a} * b);
    }
    ASSERT_EQ(wide(x & y), Wide{a & b});
    ASSERT_EQ(wide(x | y), Wide{a | b});
    ASSERT_EQ(wide(x ^ y), Wide{a ^ b});
    ASSERT_EQ(x < y, a < b);
    ASSERT_EQ(x == y, a == b);
    ASSERT_EQ(x.shifted_right(7), Int(a >> 7));
    ASSERT_EQ(*(-(-x)).as_int64(), a);
  }
}

TEST(Integer, BitwiseOperationsAreThoseOfTwosComplement) {
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    const Int a = odd_number(random, 4), b = odd_number(random, 3);
    ASSERT_EQ((a & b) + (a | b), a + b);
    ASSERT_EQ((a ^ b) + (a & b) + (a & b), a + b);
    ASSERT_EQ(a.shifted_left(77).shifted_right(77), a);
    ASSERT_EQ(Int::divide(a, Int(1).shifted_left(45)).first, a.shifted_right(45));
  }
}

TEST(Integer, TextAndBack) {
  std::mt19937 random(4);
  for (int i = 0; i < 2000; ++i) {
    const Int a = odd_number(random, 1 + static_cast<int>(random() % 20));
    const std::string text = to_string(a);
    const bool negative = text[0] == '-';
    const Int back = *Int::parse(text.substr(negative ? 1 : 0), 10);
    ASSERT_EQ(negative ? -back : back, a);
  }
  EXPECT_EQ(to_string(Int(INT64_MIN)), "-9223372036854775808");
  EXPECT_EQ(to_string(Int(10).power(18) * Int(10).power(9)), "1000000000000000000000000000");
  EXPECT_FALSE(Int::parse("", 10));
  EXPECT_FALSE(Int::parse("12a", 10));
  EXPECT_EQ(*Int::parse("zz", 36), Int(35 * 36 + 35));
  EXPECT_THROW(Int::parse(std::string(4301, '1'), 10), local::InvalidArgument);
  EXPECT_EQ(to_string(*Int::parse(std::string(4300, '9'), 10)), std::string(4300, '9'));
  EXPECT_THROW(to_string(Int(10).power(4300)), local::InvalidArgument);
  EXPECT_THROW(Int(2).power(Int::kMostBits), local::InvalidArgument);
  EXPECT_THROW(Int(3).power(Int(10).power(30)), local::InvalidArgument);
  EXPECT_THROW(Int(1).shifted_left(Int(10).power(30)), local::InvalidArgument);
}

TEST(Integer, FloatsAreTheNearest) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 5000; ++i) {
    const double value = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 900));
    const Int whole = Int::truncated(value);
    ASSERT_EQ(whole.as_double(), value);
    ASSERT_EQ(whole <=> value, std::partial_ordering::equivalent);
    ASSERT_EQ((whole + 1) <=> value, std::partial_ordering::greater);
    ASSERT_EQ(Int::true_divide(whole * 12345, Int(12345)), value);
  }
  EXPECT_EQ(Int::truncated(-2.9), Int(-2));
  EXPECT_EQ(Int::true_divide(1, Int(1).shifted_left(1074)), 5e-324);
  EXPECT_EQ(Int::true_divide(1, Int(1).shifted_left(1075)), 0);
  EXPECT_EQ(Int::true_divide(3, Int(1).shifted_left(1075)), 1e-323);  // a tie: to even
  EXPECT_TRUE(std::signbit(Int::true_divide(0, -5)));
  EXPECT_THROW(Int(10).power(400).as_double(), local::InvalidArgument);
  EXPECT_EQ(Int(3) <=> std::nan(""), std::partial_ordering::unordered);
}

}  // namespace
}  // namespace quarry::apps::expression
