// SciPy's special functions by their C++ names, and what the oracle (tests/oracle/special.h5), which has their values,
// cannot say.
#include "quarry/local/ops/special/special.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quarry/local/base/error.h"
#include "quarry/local/local.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Special : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Special);

NdArray row(std::initializer_list<double> values) { return from_vector(std::vector<double>(values)); }

TEST_P(Special, NamesInCpp) {
  const NdArray x = row({0.25, 0.5, 0.75});
  const auto same = [&](const NdArray& a, const NdArray& b) { EXPECT_EQ(a.to_string(), b.to_string()); };
  same(special::psi(x), special::digamma(x));
  same(ops::special::erf(x), apply("special.erf"_op, {x}));
  same(special::betainc(2, 3, x), apply("special.betainc"_op, {2, 3, x}));
  EXPECT_EQ(find_op("special.psi"), "special.digamma"_op);
  EXPECT_EQ(find_op("erf"), std::nullopt);  // NumPy has none
  const NdArray out(x.shape(), DType::float64, current_context());
  special::ndtri(x, {.out = out});
  EXPECT_EQ(test::doubles(out)[1], 0);
}

TEST_P(Special, InsideOfFusedCallables) {
  const NdArray x = row({-2, 0.5, 3});
  const auto f = fuse([](auto v) { return special::erfc(v) * 2 + special::xlogy(v, 2.0); });
  const std::vector<double> got = test::doubles(f(x)), values{-2, 0.5, 3};
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(got[i], 2 * std::erfc(values[i]) + values[i] * std::log(2.0), 1e-14);
}

TEST_P(Special, DTypes) {
  const auto of = [](DType dtype) { return special::gammaln(ones({2}, dtype)).dtype(); };
  EXPECT_EQ(of(DType::float32), DType::float32);
  EXPECT_EQ(of(DType::float16), DType::float16);
  for (const DType dtype : {DType::bool_, DType::int8, DType::int64, DType::float64})
    EXPECT_EQ(of(dtype), DType::float64);
  EXPECT_THROW(special::erf(ones({2}, DType::complex64)), TypeError);
  EXPECT_EQ(special::xlogy(ones({2}, DType::complex64), 2).dtype(), DType::complex64);
}

// Many elements, for the vector loops and their rests; and results in the place of their arguments.
TEST_P(Special, InPlaceAndOfEveryLength) {
  for (const int64_t n : {1, 7, 8, 9, 63, 257, 1000}) {
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(-20.25 + 0.51 * static_cast<double>(i % 97));
    for (const DType dtype : {DType::float64, DType::float32}) {
      const NdArray x = from_vector(values).astype(dtype);
      const double tolerance = dtype == DType::float64 ? 1e-13 : 1e-5;
      const auto check = [&](const NdArray& result, double (*expected)(double)) {
        const std::vector<double> got = test::doubles(result), at = test::doubles(x);
        for (size_t i = 0; i < got.size(); ++i) {
          const double wanted = expected(at[i]);
          EXPECT_NEAR(got[i], wanted, tolerance * std::max(1.0, std::abs(wanted))) << at[i];
        }
      };
      check(special::erf(x), [](double v) { return std::erf(v); });
      check(special::gammaln(x), [](double v) { return std::lgamma(v); });
      check(special::expit(x), [](double v) { return 1 / (1 + std::exp(-v)); });
      const NdArray own = x.copy();
      special::gammaln(own, {.out = own});
      EXPECT_EQ(own.to_string(), special::gammaln(x).to_string());
    }
  }
}

TEST_P(Special, SumsOfExponentials) {
  const NdArray a = row({1000, 1000}), b = row({1, -1});
  EXPECT_DOUBLE_EQ(special::logsumexp(a).item<double>(), 1000 + std::log(2.0));
  EXPECT_EQ(special::logsumexp(a, {}, b).item<double>(), -kInfinity);
  const auto [value, sign] = special::signed_logsumexp(row({1, 2}), {}, b);
  EXPECT_NEAR(value.item<double>(), std::log(std::exp(2.0) - std::exp(1.0)), 1e-15);
  EXPECT_EQ(sign.item<double>(), -1);
  EXPECT_TRUE(std::isnan(special::logsumexp(row({1, 2}), {}, b).item<double>()));
  // What is small beside the largest term is not lost.
  EXPECT_DOUBLE_EQ(special::logsumexp(row({0, -50})).item<double>(), std::exp(-50.0));
  // Weights that cancel at the largest element do not lose the others, however large it is.
  EXPECT_DOUBLE_EQ(special::logsumexp(row({800, 800, 790}), {}, row({1, -1, 1})).item<double>(), 790);
  EXPECT_EQ(special::softmax(a).to_string(), row({0.5, 0.5}).to_string());
  EXPECT_EQ(test::doubles(special::log_softmax(row({1000, 0})))[1], -1000);
}

TEST_P(Special, HalvesAndIntegersOverAxes) {
  const NdArray x = row({1, 2, 3});
  const double expected = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::int8, DType::uint64}) {
    const NdArray result = special::logsumexp(x.astype(dtype));
    EXPECT_EQ(result.dtype(), is_float(dtype) ? dtype : DType::float64);
    EXPECT_NEAR(result.astype(DType::float64).item<double>(), expected, is_float(dtype) ? 0.02 : 1e-15);
    EXPECT_EQ(special::softmax(x.astype(dtype)).dtype(), is_float(dtype) ? dtype : DType::float64);
  }
}

TEST_P(Special, BadInput) {
  const NdArray x = ones({2, 3}), z = ones({2}, DType::complex128);
  EXPECT_THROW(special::logsumexp(z), TypeError);
  EXPECT_THROW(special::softmax(z), TypeError);
  EXPECT_THROW(special::log_softmax(z), TypeError);
  EXPECT_THROW(special::logsumexp(x, 2), IndexError);
  EXPECT_THROW(special::softmax(x, -3), IndexError);
  EXPECT_THROW(special::logsumexp(x, {0, 0}), InvalidArgument);
  EXPECT_THROW(special::softmax(ones({0, 3}), 0), InvalidArgument);
  EXPECT_THROW(special::logsumexp(x, 0, row({1, 2})), InvalidArgument);
}

}  // namespace
}  // namespace quarry::local
