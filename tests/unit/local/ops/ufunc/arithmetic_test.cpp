// Powers with exponents that need no logarithm, and what divides without a loop over bits: the bits of what C's
// functions give by their definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "quarry/local/ops/fuse/fuse.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class Arithmetic : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Arithmetic);

template <class T>
std::vector<T> numbers(int64_t n, uint64_t seed) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           -T(0),
                           1,
                           -1,
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::max(),
                           -Limits::max(),
                           Limits::min(),
                           -Limits::min(),
                           Limits::denorm_min(),
                           -Limits::denorm_min(),
                           3,
                           T(0.1),
                           T(0.3),
                           -T(0.7)};
  std::mt19937_64 random(seed);
  while (static_cast<int64_t>(values.size()) < n) {
    const double size =
        std::ldexp(1 + std::ldexp(static_cast<double>(random() >> 12), -52), static_cast<int>(random() % 60) - 30);
    T x = static_cast<T>(random() % 2 ? size : -size);
    if (random() % 3 == 0) x = std::floor(x / 1000);  // integers, whose quotients are often exact
    if (random() % 7 == 0) x = std::ldexp(x, static_cast<int>(random() % 300) - 150);
    values.push_back(x);
  }
  return values;
}

template <class T>
bool same(T a, T b) {
  return std::isnan(a) || std::isnan(b) ? std::isnan(a) && std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

// NumPy's npy_divmod().
template <class T>
std::pair<T, T> divmod(T a, T b) {
  T mod = std::fmod(a, b);
  if (b == 0) return {a / b, mod};
  T div = (a - mod) / b;
  if (mod != 0) {
    if ((b < 0) != (mod < 0)) mod += b, div -= 1;
  } else {
    mod = std::copysign(T(0), b);
  }
  if (div == 0) return {std::copysign(T(0), a / b), mod};
  T floor = std::floor(div);
  if (div - floor > T(0.5)) floor += 1;
  return {floor, mod};
}

template <class T>
void check_divisions() {
  std::vector<T> a, b;
  const std::vector<T> special = numbers<T>(300, 1), first = numbers<T>(40000, 2), second = numbers<T>(40000, 3);
  for (const T x : special)
    for (const T y : special) a.push_back(x), b.push_back(y);
  a.insert(a.end(), first.begin(), first.end()), b.insert(b.end(), second.begin(), second.end());
  for (size_t i = 0; i < first.size(); ++i) {  // quotients that are almost integers
    const T factor = static_cast<T>(i % 5000), x = factor * second[i];
    a.push_back(i % 3 == 0 ? std::nextafter(x, T(0)) : i % 3 == 1 ? x : std::nextafter(x, T(1e30)));
    b.push_back(second[i]);
  }
  const NdArray x = from_vector(a), y = from_vector(b);
  const std::vector<T> quotient = to_vector<T>(ops::floor_divide(x, y)), modulo = to_vector<T>(ops::remainder(x, y)),
                       rest = to_vector<T>(ops::fmod(x, y));
  int64_t wrong = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto [div, mod] = divmod(a[i], b[i]);
    if (same(quotient[i], div) && same(modulo[i], mod) && same(rest[i], std::fmod(a[i], b[i]))) continue;
    if (++wrong < 6)
      ADD_FAILURE() << std::hexfloat << a[i] << " by " << b[i] << ": " << quotient[i] << ' ' << modulo[i] << ' '
                    << rest[i] << ", not " << div << ' ' << mod << ' ' << std::fmod(a[i], b[i]);
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(Arithmetic, DivisionsAreThoseOfTheLoopOverBits) {
  check_divisions<double>();
  check_divisions<float>();
}

template <class T>
void check_integer_divisions() {
  std::vector<T> a, b;
  std::mt19937_64 random(5);
  for (int i = 0; i < 3000; ++i) {
    a.push_back(static_cast<T>(random() >> (random() % 60)));
    b.push_back(static_cast<T>(random() >> (random() % 60)));
  }
  for (const T x : {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(0), T(1), static_cast<T>(-1), T(7)})
    for (const T y :
         {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(0), T(1), static_cast<T>(-1), T(3)})
      a.push_back(x), b.push_back(y);
  const std::vector<T> quotient = to_vector<T>(ops::floor_divide(from_vector(a), from_vector(b)));
  for (size_t i = 0; i < a.size(); ++i) {
    __extension__ using Wide = __int128;
    Wide expected = 0;
    if (b[i] != 0) {
      expected = static_cast<Wide>(a[i]) / b[i];
      if (static_cast<Wide>(a[i]) % b[i] != 0 && (a[i] < 0) != (b[i] < 0)) --expected;
    }
    ASSERT_EQ(quotient[i], static_cast<T>(expected)) << +a[i] << " by " << +b[i];
  }
}

TEST_P(Arithmetic, IntegersDivideToTheFloor) {
  check_integer_divisions<int8_t>();
  check_integer_divisions<int16_t>();
  check_integer_divisions<int32_t>();
  check_integer_divisions<int64_t>();
  check_integer_divisions<uint8_t>();
  check_integer_divisions<uint64_t>();
}

template <class T>
void check_powers() {
  const std::vector<T> x = numbers<T>(5000, 4);
  const NdArray a = from_vector(x);
  const auto expect = [&](const NdArray& got, double exponent, const char* how) {
    const std::vector<T> powers = to_vector<T>(got);
    ASSERT_EQ(powers.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (exponent == 3) {  // rounded once but for rare halves, and less exact near the limits
        const T exact = static_cast<T>(static_cast<long double>(x[i]) * x[i] * x[i]);
        if (std::abs(exact) < std::numeric_limits<T>::min() || !std::isfinite(exact)) continue;
        ASSERT_LE(std::abs(powers[i] - exact), std::abs(exact) * std::numeric_limits<T>::epsilon()) << how << x[i];
        continue;
      }
      const T root = x[i] == -INFINITY ? T(INFINITY) : std::sqrt(x[i]) + T(0);  // as pow()
      const T expected = exponent == 2 ? x[i] * x[i] : exponent == -1 ? 1 / x[i] : root;
      ASSERT_TRUE(same(powers[i], expected)) << how << ' ' << x[i] << " ** " << exponent << " = " << powers[i];
    }
  };
  const auto power = fuse([](auto b, auto e) { return ops::power(b, e); });
  for (const double exponent : {2.0, -1.0, 0.5, 3.0}) {
    const NdArray all = from_vector(std::vector<T>(x.size(), static_cast<T>(exponent)));
    expect(ops::power(a, exponent), exponent, "literal");
    expect(ops::power(a, all), exponent, "array");
    expect(power(a, exponent), exponent, "fused literal");
    expect(power(a, all), exponent, "fused array");
    NdArray out({a.size()}, a.dtype());
    ops::power(a, exponent, {.out = out});
    expect(out, exponent, "into an array");
    ops::power(all, 1, {.out = all});
    NdArray in_place = a.copy();
    ops::power(in_place, all, {.out = in_place});
    expect(in_place, exponent, "in place");
  }
  // Beside other exponents.
  std::vector<T> exponents(x.size());
  for (size_t i = 0; i < x.size(); ++i) exponents[i] = i % 3 == 0 ? T(2) : T(1.75);
  const std::vector<T> mixed = to_vector<T>(ops::power(a, from_vector(exponents)));
  const std::vector<T> alone = to_vector<T>(ops::power(a, 1.75));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(same(mixed[i], i % 3 == 0 ? x[i] * x[i] : alone[i])) << x[i];
}

TEST_P(Arithmetic, PowersWithoutALogarithm) {
  check_powers<double>();
  check_powers<float>();
  EXPECT_EQ(to_vector<int32_t>(ops::power(from_vector<int32_t>({-3, 65536, 0}), 2)), (std::vector<int32_t>{9, 0, 0}));
  EXPECT_EQ(to_vector<uint8_t>(ops::power(from_vector<uint8_t>({16, 3}), 2)), (std::vector<uint8_t>{0, 9}));
  EXPECT_EQ(ops::power(from_vector<bool>({true, false}), 2).dtype(), DType::int64);  // as np.power(); ** gives int8
  EXPECT_EQ(ops::power(from_vector<int32_t>({3}), 2.0).dtype(), DType::float64);
  EXPECT_EQ(ops::power(from_vector<float>({3}), Scalar::strong(2.0, DType::float64)).dtype(), DType::float64);
  EXPECT_EQ(ops::power(NdArray({0, 3}, DType::float32), 2).shape(), (Dims{0, 3}));
}

}  // namespace
}  // namespace quarry::local
