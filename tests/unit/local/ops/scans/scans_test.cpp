// Cumulative functions, differences, functions made of ufuncs, and reductions without NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using Doubles = std::vector<double>;
const double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

class Scans : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Scans);

using test::doubles;
void expect_near(const NdArray& x, const Doubles& expected, double tolerance = 1e-14) {
  const Doubles got = doubles(x);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(got[i])) << i;
    else if (std::isinf(expected[i]))
      EXPECT_EQ(got[i], expected[i]) << i;
    else
      EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
  }
}

TEST_P(Scans, Cumulative) {
  const NdArray a = from_vector(Doubles{1, kNan, 3, 4, 5, 6}, {2, 3});
  expect_near(ops::cumsum(a, 0), {1, kNan, 3, 5, kNan, 9});
  expect_near(ops::nancumsum(a), {1, 1, 4, 8, 13, 19});
  expect_near(ops::nancumprod(a, 1), {1, 1, 3, 4, 20, 120});
  const NdArray u = from_vector(std::vector<uint8_t>{200, 100, 3});
  EXPECT_EQ(ops::cumsum(u).dtype(), DType::uint64);
  expect_near(ops::cumulative_sum(u, {}, {}, {}, true), {0, 200, 300, 303});
  expect_near(ops::cumulative_prod(u, {}, DType::float64, {}, true), {1, 200, 20000, 60000});
  EXPECT_THROW(ops::cumulative_sum(a), InvalidArgument);
  const NdArray out({3}, DType::float32);
  EXPECT_EQ(ops::cumsum(u, {}, {}, out).raw(), out.raw());
  expect_near(out, {200, 300, 303});
}

TEST_P(Scans, Differences) {
  const NdArray a = from_vector(Doubles{1, 2, 4, 7, 0});
  expect_near(ops::diff(a), {1, 2, 3, -7});
  expect_near(ops::diff(a, 2), {1, 1, -10});
  expect_near(ops::diff(a, 1, -1, from_vector(Doubles{0}), from_vector(Doubles{1, 2})), {1, 1, 2, 3, -7, 1, 1});
  expect_near(ops::ediff1d(a, from_vector(Doubles{9}), from_vector(Doubles{-9, -8})), {-9, -8, 1, 2, 3, -7, 9});
  EXPECT_EQ(ops::diff(ops::greater(a, 1)).dtype(), DType::bool_);
  EXPECT_THROW(ops::diff(a, -1), InvalidArgument);
  expect_near(ops::unwrap(from_vector(Doubles{0, 0.78539816, 1.57079633, 5.49778714, 6.28318531})),
              {0, 0.78539816, 1.57079633, 5.49778714 - 2 * M_PI, 6.28318531 - 2 * M_PI});
  expect_near(ops::unwrap(from_vector(std::vector<int64_t>{0, 1, 2, -1, 0}), {}, -1, Scalar(4)), {0, 1, 2, 3, 4});
}

TEST_P(Scans, IntegralsAndDerivatives) {
  EXPECT_EQ(ops::trapezoid(from_vector(Doubles{1, 2, 3})).item<double>(), 4);
  EXPECT_EQ(ops::trapezoid(from_vector(Doubles{1, 2, 3}), from_vector(Doubles{4, 6, 8})).item<double>(), 8);
  expect_near(ops::trapezoid(from_vector(Doubles{0, 1, 2, 3, 4, 5}, {2, 3}), {}, Scalar(1.0), 0), {1.5, 2.5, 3.5});
  const NdArray f = from_vector(Doubles{1, 2, 4, 7, 11, 16});
  expect_near(std::get<NdArray>(ops::gradient(f)), {1, 1.5, 2.5, 3.5, 4.5, 5});
  expect_near(std::get<NdArray>(ops::gradient(f, {Scalar(2)})), {0.5, 0.75, 1.25, 1.75, 2.25, 2.5});
  expect_near(std::get<NdArray>(ops::gradient(f, {from_vector(Doubles{0, 1, 1.5, 3.5, 4, 6})})),
              {1, 3, 3.5, 6.7, 6.9, 2.5});
  expect_near(std::get<NdArray>(ops::gradient(f, {}, {}, 2)), {0.5, 1.5, 2.5, 3.5, 4.5, 5.5});
  EXPECT_EQ(std::get<1>(ops::gradient(f.reshape({2, 3}))).size(), 2u);
  EXPECT_THROW(ops::gradient(f.reshape({1, 6})), InvalidArgument);
}

TEST_P(Scans, Comparisons) {
  const NdArray a = from_vector(Doubles{1, kNan, kInf, 1e10}),
                b = from_vector(Doubles{1 + 1e-9, kNan, kInf, 1.00001e10});
  expect_near(ops::isclose(a, b), {1, 0, 1, 1});
  expect_near(ops::isclose(a, b, 1e-7, 0.0, true), {1, 1, 1, 0});
  EXPECT_FALSE(ops::allclose(a, b));
  EXPECT_TRUE(ops::array_equal(a, a, true));
  EXPECT_FALSE(ops::array_equal(a, a));
  EXPECT_TRUE(ops::array_equiv(from_vector(Doubles{1, 2}), from_vector(Doubles{1, 2, 1, 2}, {2, 2})));
  EXPECT_FALSE(ops::array_equiv(from_vector(Doubles{1, 2}), from_vector(Doubles{1, 2, 3})));
}

TEST_P(Scans, Elementwise) {
  const NdArray a = from_vector(Doubles{kNan, kInf, -kInf, -2.5});
  expect_near(ops::nan_to_num(a, true, 7.0, Arg(1), Arg(-1)), {7, 1, -1, -2.5});
  expect_near(ops::isneginf(a), {0, 0, 1, 0});
  expect_near(ops::isposinf(a), {0, 1, 0, 0});
  expect_near(ops::fix(a), {kNan, kInf, -kInf, -2});
  expect_near(
      ops::i0(from_vector(Doubles{0, 1, -3.75, 19.9, 20, 50, kInf})),
      {1, 1.2660658777520082, 9.118945860844561, 39513376.520066798, 43558282.559553534, 2.9325537838493363e20, kInf},
      2e-15);
  expect_near(ops::sinc(from_vector(Doubles{0, 0.5, 1.5})), {1, 2 / M_PI, -2 / (3 * M_PI)});
  expect_near(ops::round_to(from_vector(Doubles{0.5, 1.5, 2.675, -1.25}), 1), {0.5, 1.5, 2.7, -1.2});
  expect_near(ops::round_to(from_vector(std::vector<int32_t>{15, 25, 1234}), -1), {20, 20, 1230});
  const NdArray u = from_vector(std::vector<uint8_t>{0, 5, 255});
  EXPECT_EQ(ops::clip_between(u, Arg(-1), Arg(300)).dtype(), DType::uint8);
  expect_near(ops::clip_between(u, Arg(3), {}), {3, 5, 255});
  expect_near(ops::clip_between(u, {}, Arg(2.5)), {0, 2.5, 2.5});
  const NdArray z = from_vector(std::vector<std::complex<double>>{{0, 1}, {-1, 0}});
  expect_near(ops::angle(z, true), {90, 180});
  expect_near(ops::iscomplex(z), {1, 0});
  EXPECT_EQ(ops::real_if_close(z.real().astype(DType::complex128)).dtype(), DType::float64);
  EXPECT_THROW(ops::isposinf(z), TypeError);
  EXPECT_THROW(ops::i0(z), TypeError);
}

TEST_P(Scans, WithoutNan) {
  const NdArray a = from_vector(Doubles{1, kNan, 3, kNan, kNan, 6}, {2, 3});
  expect_near(ops::nansum(a, 0), {1, 0, 9});
  expect_near(ops::nanprod(a), {18});
  expect_near(ops::nanmax(a, 0), {1, kNan, 6});
  expect_near(ops::nanmin(a, 1), {1, 6});
  expect_near(ops::nanmean(a, 0), {1, kNan, 4.5});
  expect_near(ops::nanvar(a, 0), {0, kNan, 2.25});
  expect_near(ops::nanstd(a, 0, {}, {}, 1), {kNan, kNan, std::sqrt(4.5)});
  expect_near(ops::nanargmax(a, 1), {2, 2});
  EXPECT_THROW(ops::nanargmin(a, 0), InvalidArgument);
  EXPECT_THROW(ops::nanmax(NdArray({0}, DType::float64)), InvalidArgument);
  expect_near(ops::ptp(from_vector(Doubles{1, 9, 3})), {8});
}

}  // namespace
}  // namespace quarry::local
