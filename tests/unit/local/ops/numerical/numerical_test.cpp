// Properties of einsum, sliding products and polynomials. NumPy's answers are in the oracle.
#include "quarry/local/ops/numerical/numerical.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/numerical/polynomials.h"
#include "quarry/local/ops/products/einsum.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class Numerical : public test::OnDevice {
 protected:
  static NdArray waves(const Dims& shape) {
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(1.0 + 3.0 * static_cast<double>(i));
    return from_vector(values, shape);
  }
};
QUARRY_ON_EVERY_DEVICE(Numerical);

double difference(const NdArray& a, const NdArray& b) {
  return ops::max(apply("absolute"_op, {apply("subtract"_op, {a, b})})).item<double>();
}

TEST_P(Numerical, EinsumViewsAndContractions) {
  const NdArray a = waves({6, 6}), b = waves({6, 7});
  EXPECT_TRUE(may_overlap(a, ops::einsum({std::string("ii->i"), a})));  // a view, as NumPy's
  EXPECT_LT(difference(ops::einsum({std::string("ij,jk->ki"), a, b}), ops::matmul(a, b).T()), 1e-13);
  const NdArray c = waves({7, 3});
  const NdArray want = ops::matmul(ops::matmul(a, b), c);
  for (const ops::EinsumOptimize& how :
       {ops::EinsumOptimize(false), ops::EinsumOptimize(true), ops::EinsumOptimize(std::string("optimal")),
        ops::EinsumOptimize(std::pair<std::string, double>("greedy", 1))})
    EXPECT_LT(difference(ops::einsum({std::string("ij,jk,kl->il"), a, b, c}, {}, how), want), 1e-12);
  EXPECT_THROW(ops::einsum({std::string("ij,jk->ik"), a, c}), InvalidArgument);
}

TEST_P(Numerical, EinsumListsOfLabels) {
  using Labels = ops::EinsumLabels;
  const NdArray a = waves({2, 3, 4}), b = waves({4, 5});
  const NdArray want = ops::matmul(a, b);
  EXPECT_EQ(difference(ops::einsum({a, Labels{ellipsis, 0}, b, Labels{0, 1}, Labels{ellipsis, 1}}), want), 0);
  EXPECT_EQ(difference(ops::einsum({a, Labels{ellipsis, 0}, b, Labels{0, 1}}), want), 0);
  EXPECT_THROW(ops::einsum({a, Labels{ellipsis, 0, ellipsis}, b, Labels{0, 1}}), InvalidArgument);
  EXPECT_THROW(ops::einsum({a, Labels{ellipsis, 52}}), InvalidArgument);
}

TEST_P(Numerical, ResultsHaveTheOrderAskedFor) {
  const NdArray a = waves({5, 6}), b = waves({6, 7}), want = ops::matmul(a, b);
  const auto is_fortran = [](const NdArray& x) { return x.T().is_contiguous(); };
  const auto matmul = [&](const NdArray& x, const NdArray& y, std::string_view order) {
    return ops::matmul(x, y, {}, Casting::same_kind, order);
  };
  const auto einsum = [&](const NdArray& x, const NdArray& y, std::string_view order) {
    return ops::einsum({std::string("ij,jk->ik"), x, y}, {}, false, {}, order);
  };
  const NdArray fa = a.T().copy().T(), fb = b.T().copy().T();
  for (const auto& product : {std::function<NdArray(const NdArray&, const NdArray&, std::string_view)>(matmul),
                              std::function<NdArray(const NdArray&, const NdArray&, std::string_view)>(einsum)}) {
    EXPECT_TRUE(is_fortran(product(a, b, "F")));
    EXPECT_EQ(difference(product(a, b, "F"), want), 0);
    EXPECT_TRUE(product(a, b, "C").is_contiguous());
    EXPECT_TRUE(product(a, b, "A").is_contiguous());
    EXPECT_TRUE(product(fa, b, "A").is_contiguous());
    EXPECT_TRUE(is_fortran(product(fa, fb, "A")));
    EXPECT_TRUE(product(fa, fb, "C").is_contiguous());
    EXPECT_THROW(product(a, b, "X"), InvalidArgument);
  }
  // Views stay views.
  EXPECT_TRUE(may_overlap(a, ops::einsum({std::string("ij->ji"), a}, {}, false, {}, "C")));
}

// Intermediates of the 16-bit floats do not round.
TEST_P(Numerical, EinsumOfHalvesRoundsOnce) {
  const NdArray a = waves({8, 8}).astype(DType::float16), b = waves({8, 8}).astype(DType::float16);
  const NdArray wide = ops::einsum(
      {std::string("ij,jk,kl->il"), a.astype(DType::float64), b.astype(DType::float64), a.astype(DType::float64)});
  const NdArray got = ops::einsum({std::string("ij,jk,kl->il"), a, b, a});
  EXPECT_EQ(got.dtype(), DType::float16);
  EXPECT_LE(difference(got.astype(DType::float64), wide),
            0x1p-11 * ops::max(apply("absolute"_op, {wide})).item<double>());
}

TEST_P(Numerical, SlidingProductsMatchTheDefinition) {
  for (const auto& [n, m] : {std::pair<int64_t, int64_t>{1000, 7}, {50, 40}, {3, 3}, {200, 1}}) {
    const NdArray a = waves({n}), v = waves({m});
    const std::vector<double> x = to_vector<double>(a), y = to_vector<double>(v),
                              full = to_vector<double>(ops::convolve(a, v));
    ASSERT_EQ(static_cast<int64_t>(full.size()), n + m - 1);
    for (int64_t i = 0; i < n + m - 1; ++i) {
      double sum = 0;
      for (int64_t t = std::max<int64_t>(0, i - n + 1); t < std::min(m, i + 1); ++t)
        sum += x[static_cast<size_t>(i - t)] * y[static_cast<size_t>(t)];
      ASSERT_NEAR(full[static_cast<size_t>(i)], sum, 1e-12);
    }
  }
}

TEST_P(Numerical, RootsAndFitsInvertTheirPolynomials) {
  const NdArray zeros = from_vector<double>({-2, 0.5, 1, 3});
  const NdArray p = ops::poly(zeros);
  EXPECT_LT(difference(ops::polyval(p, ops::roots(p)), from_vector<double>({0})), 1e-10);
  const NdArray x = from_vector<double>({-2, -1, 0, 1, 2, 3, 4});
  EXPECT_LT(difference(std::get<NdArray>(ops::polyfit(x, ops::polyval(p, x), 4)), p), 1e-10);
  const auto [quotient, remainder] = ops::polydiv(ops::polymul(p, from_vector<double>({2, 1})), p);
  EXPECT_LT(difference(quotient, from_vector<double>({2, 1})), 1e-12);
  EXPECT_LT(difference(ops::polyder(ops::polyint(p)), p), 1e-13);
  EXPECT_EQ(ops::roots(p).device().kind, GetParam());
}

// NumPy's loop over places, with its own search.
double interpolated(const std::vector<double>& xp, const std::vector<double>& fp, double left, double right, double x) {
  if (xp.size() == 1) return x < xp[0] ? left : x > xp[0] ? right : fp[0];
  if (std::isnan(x)) return x;
  if (x < xp.front()) return left;
  if (x > xp.back()) return right;
  const auto j = static_cast<size_t>(std::upper_bound(xp.begin(), xp.end(), x) - xp.begin()) - 1;
  if (j + 1 == xp.size() || xp[j] == x) return fp[j];
  const double slope = (fp[j + 1] - fp[j]) / (xp[j + 1] - xp[j]);
  double value = slope * (x - xp[j]) + fp[j];
  if (std::isnan(value)) {
    value = slope * (x - xp[j + 1]) + fp[j + 1];
    if (std::isnan(value) && fp[j] == fp[j + 1]) value = fp[j];
  }
  return value;
}

TEST_P(Numerical, InterpolationHasTheBitsOfNumPys) {
  for (const int64_t points : {1, 2, 3, 100, 5000}) {
    for (const int64_t places : {1, 7, 5000, points == 100 ? 1'200'000 : 9000}) {
      std::vector<double> xp(static_cast<size_t>(points)), fp(xp.size()), x(static_cast<size_t>(places));
      for (size_t i = 0; i < xp.size(); ++i) {
        xp[i] = static_cast<double>(i) + std::sin(static_cast<double>(i)) / 3;
        fp[i] = i % 41 == 7 ? INFINITY : i % 41 == 8 ? -INFINITY : i % 29 == 3 ? -0.0 : std::cos(1.0 + 2.0 * xp[i]);
      }
      if (points > 50) xp[20] = xp[21], fp[30] = NAN;
      const double span = static_cast<double>(points) + 2;
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = i % 5 == 0 ? xp[i % xp.size()] : std::fmod(static_cast<double>(i) * 0.37, span) - 1;
        if (i % 31 == 30) x[i] = i % 2 == 0 ? NAN : i % 3 == 0 ? INFINITY : -INFINITY;
      }
      const NdArray place = from_vector(x), at = from_vector(xp), values = from_vector(fp);
      const std::vector<double> plain = to_vector<double>(ops::interp(place, at, values));
      const std::vector<double> ended = to_vector<double>(ops::interp(place, at, values, -7.0, 9.0));
      for (size_t i = 0; i < x.size(); ++i) {
        const auto same = [](double a, double b) {
          return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
        };
        ASSERT_TRUE(same(plain[i], interpolated(xp, fp, fp.front(), fp.back(), x[i]))) << x[i] << ' ' << plain[i];
        ASSERT_TRUE(same(ended[i], interpolated(xp, fp, -7, 9, x[i]))) << x[i] << ' ' << ended[i];
      }
      // Through other strides and dtypes.
      EXPECT_EQ(ops::interp(place.reshape({places, 1}), at, values).shape(), (Dims{places, 1}));
    }
  }
  const NdArray x = from_vector<double>({0, 1, 2, 3, 4, 5}), f = from_vector<double>({5, 4, 3, 2, 1, 0});
  const NdArray backwards = f[{Slice{{}, {}, -1}}];
  EXPECT_EQ(to_vector<double>(ops::interp(backwards, backwards, f)), to_vector<double>(f));
  EXPECT_EQ(to_vector<double>(ops::interp(from_vector<int32_t>({1, 9}), x, f)), (std::vector<double>{4, 0}));
  EXPECT_EQ(ops::interp(NdArray({0, 2}, DType::float64), x, f).shape(), (Dims{0, 2}));
  EXPECT_EQ(ops::interp(from_vector<double>({2.5}, Dims{}), x, f).item<double>(), 2.5);
}

}  // namespace
}  // namespace quarry::local
