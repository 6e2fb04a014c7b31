// matmul against NumPy is in oracle_test.cpp.
#include "quarry/local/ops/linalg/hermitian.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class Linalg : public test::OnDevice {
 protected:
  NdArray normal(const Dims& shape, DType dtype) {
    std::vector<std::complex<double>> values(static_cast<size_t>(element_count(shape)));
    std::normal_distribution<double> distribution;
    for (auto& value : values) {
      value.real(distribution(random_));
      if (is_complex(dtype)) value.imag(distribution(random_));
    }
    return from_vector(values, shape).astype(dtype);
  }
  std::mt19937 random_{5};
};
QUARRY_ON_EVERY_DEVICE(Linalg);

double largest_difference(const NdArray& a, const NdArray& b) { return ops::max(ops::absolute(a - b)).item<double>(); }
NdArray conjugate_transpose(const NdArray& a) { return ops::conjugate(a.T()); }

TEST_P(Linalg, SyrkIsTheProductWithItself) {
  for (DType dtype : {DType::float32, DType::float64, DType::complex64, DType::complex128, DType::int32}) {
    for (const Dims& shape : {Dims{40, 7}, Dims{5, 33}, Dims{1, 1}, Dims{300, 130}}) {
      const NdArray a = normal(shape, dtype);
      const NdArray c = linalg::gram(a);
      const NdArray want = linalg::matmul(conjugate_transpose(a), a);
      EXPECT_EQ(c.shape(), (Dims{shape[1], shape[1]}));
      EXPECT_EQ(c.dtype(), dtype == DType::int32 ? DType::float64 : dtype);
      const bool wide = itemsize(real_type(c.dtype())) == 8;
      EXPECT_LT(largest_difference(c, want), static_cast<double>(shape[0]) * (wide ? 1e-13 : 1e-4));
      EXPECT_EQ(largest_difference(c, conjugate_transpose(c)), 0);  // both triangles, exactly
    }
  }
  const NdArray a = normal({30, 20}, DType::float64);
  for (const NdArray& view :
       std::vector<NdArray>{a.T(), a[{Slice{{}, {}, 2}}], a[{Slice{{}, {}, -1}}], a[{full_slice, Slice{{}, {}, 3}}]})
    EXPECT_LT(largest_difference(linalg::gram(view), linalg::matmul(view.T(), view)), 1e-12);
  EXPECT_EQ(ops::sum(ops::absolute(linalg::gram(NdArray({0, 3}, DType::float64)))).item<double>(), 0);
  EXPECT_EQ(linalg::gram(NdArray({3, 0}, DType::float64)).shape(), (Dims{0, 0}));
  EXPECT_THROW(linalg::gram(normal({3}, DType::float64)), InvalidArgument);
}

TEST_P(Linalg, EighReconstructsAndIsOrthonormal) {
  for (DType dtype : {DType::float32, DType::float64, DType::complex64, DType::complex128}) {
    for (int64_t n : {1, 2, 5, 60}) {
      const NdArray half = normal({n, n}, dtype);
      const NdArray a = half + conjugate_transpose(half);
      const double bound = static_cast<double>(n) * (itemsize(real_type(dtype)) == 8 ? 1e-13 : 1e-4);
      for (Triangle triangle : {Triangle::lower, Triangle::upper}) {
        const auto [values, vectors] = linalg::eigh(a, triangle);
        EXPECT_EQ(values.dtype(), real_type(dtype));
        EXPECT_LT(largest_difference(linalg::matmul(vectors * values, conjugate_transpose(vectors)), a), bound);
        const NdArray gram = linalg::gram(vectors);
        for (int64_t i = 0; i < n; ++i) EXPECT_NEAR((gram[{i, i}].item<double>()), 1, bound);
        EXPECT_NEAR(ops::sum(ops::absolute(gram)).item<double>(), static_cast<double>(n), bound * 10);
        for (int64_t i = 1; i < n; ++i) EXPECT_LE((values[{i - 1}].item<double>()), (values[{i}].item<double>()));
      }
    }
  }
}

// Those that a GPU reduces in two stages: of odd sizes, of both triangles, of any scale, with many equal values.
class LargeEigh : public Linalg {};
INSTANTIATE_TEST_SUITE_P(All, LargeEigh, testing::Values(DeviceKind::cuda),
                         [](const auto& info) { return std::string(name(info.param)); });
TEST_P(LargeEigh, DecomposesInTwoStages) {
  const auto expect_decomposed = [&](const NdArray& a, Triangle triangle) {
    const DType dtype = a.dtype();
    const int64_t n = a.shape(0);
    SCOPED_TRACE(fmt::format("n = {}, {}, {}", n, name(dtype), triangle == Triangle::lower ? "lower" : "upper"));
    const auto [values, vectors] = linalg::eigh(a, triangle);
    const double norm = ops::max(ops::absolute(values)).item<double>();
    const double place = static_cast<double>(n) * (dtype == DType::float64 ? 0x1p-52 : 0x1p-23);
    EXPECT_LT(largest_difference(linalg::matmul(a, vectors), vectors * values), norm * place);
    EXPECT_LT(largest_difference(linalg::gram(vectors), ops::eye(n, {}, 0, dtype)), place);
    const NdArray alone = ops::eigvalsh(a, triangle == Triangle::lower ? "L" : "U");
    EXPECT_LE(largest_difference(alone, values), norm * place);
    EXPECT_TRUE(ops::all(ops::greater_equal(ops::diff(values), 0)).item<bool>());
    EXPECT_TRUE(ops::all(ops::greater_equal(ops::diff(alone), 0)).item<bool>());
    const auto [again, vectors_again] = linalg::eigh(a, triangle);
    EXPECT_EQ(largest_difference(again, values), 0);
    EXPECT_EQ(largest_difference(vectors_again, vectors), 0);
  };
  const auto expect_some = [&](const NdArray& a) {
    const auto all = linalg::eigh(a).first;
    const int64_t n = a.shape(0), first = n / 3, last = first + 70;
    const double norm = ops::max(ops::absolute(all)).item<double>();
    const double place = static_cast<double>(n) * (a.dtype() == DType::float64 ? 0x1p-52 : 0x1p-23);
    const auto between = [&](int64_t i) {
      return (all[{i}].item<double>() + all[{i + 1}].item<double>()) / 2;  // of two neighbours
    };
    for (const Subset& subset : {Subset(ByIndex{first, last}), Subset(ByValue{between(first - 1), between(last)})}) {
      const ops::EighResult some = ops::eigh(a, subset);
      ASSERT_EQ(some.eigenvalues.shape(), (Dims{last - first + 1}));
      ASSERT_EQ(some.eigenvectors.shape(), (Dims{n, last - first + 1}));
      EXPECT_LE(largest_difference(some.eigenvalues, all[{Slice{first, last + 1, {}}}]), norm * place);
      EXPECT_LT(largest_difference(linalg::matmul(a, some.eigenvectors), some.eigenvectors * some.eigenvalues),
                norm * place);
      EXPECT_LE(largest_difference(ops::eigvalsh(a, subset), some.eigenvalues), norm * place);
    }
    EXPECT_EQ(ops::eigh(a, ByValue{10 * norm, 11 * norm}).eigenvalues.size(), 0);
  };
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const int64_t n : {3584, 4097}) {
      const NdArray half = normal({n, n}, dtype), a = half + half.T();
      for (const Triangle triangle : {Triangle::lower, Triangle::upper}) expect_decomposed(a, triangle);
      expect_some(a);
      expect_decomposed(a * (dtype == DType::float64 ? 1e250 : 1e25), Triangle::lower);
      expect_decomposed(a * (dtype == DType::float64 ? 1e-250 : 1e-25), Triangle::lower);
    }
    constexpr int64_t kSize = 3600;
    expect_decomposed(ops::eye(kSize, {}, 0, dtype), Triangle::lower);
    expect_decomposed(ops::full({kSize, kSize}, 1, dtype), Triangle::upper);
    const NdArray thin = normal({kSize, 5}, dtype);
    expect_decomposed(linalg::matmul(thin, thin.T()), Triangle::lower);
  }
  EXPECT_EQ(ops::max(ops::absolute(linalg::eigh(ops::zeros({3600, 3600}, DType::float64)).first)).item<double>(), 0);
}

TEST_P(Linalg, EighReadsOneTriangle) {
  const NdArray a = from_vector<double>({2, 100, 1, 3}, {2, 2});
  const NdArray lower = linalg::eigh(a).first, upper = linalg::eigh(a, Triangle::upper).first;
  EXPECT_NEAR((lower[{0}].item<double>()), (5 - std::sqrt(5.0)) / 2, 1e-14);
  EXPECT_NEAR((upper[{1}].item<double>()), (5 + std::sqrt(1.0 + 40000.0)) / 2, 1e-12);
  EXPECT_EQ((a[{0, 1}].item<double>()), 100);  // the operand is left as it was
}

TEST_P(Linalg, EighRefuses) {
  EXPECT_THROW(linalg::eigh(normal({2, 3}, DType::float64)), InvalidArgument);
  EXPECT_THROW(linalg::eigh(normal({4}, DType::float64)), InvalidArgument);
  EXPECT_THROW(linalg::eigh(normal({2, 2}, DType::float16)), TypeError);
  EXPECT_THROW(linalg::eigh(from_vector<double>({1, NAN, NAN, 1}, {2, 2})), InvalidArgument);
  EXPECT_THROW(linalg::eigh(from_vector<double>({INFINITY, 0, 0, 1}, {2, 2})), InvalidArgument);
  EXPECT_EQ(linalg::eigh(NdArray({0, 0}, DType::float64)).second.shape(), (Dims{0, 0}));
  EXPECT_EQ(linalg::eigh(from_vector<int32_t>({2, 0, 0, 1}, {2, 2})).first.dtype(), DType::float64);
}

}  // namespace
}  // namespace quarry::local
