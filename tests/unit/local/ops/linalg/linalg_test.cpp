// Factorisations by LAPACK's measures: residuals and losses of orthogonality in units of size and precision. What NumPy
// says of results that are unique is in the oracle.
#include "quarry/local/ops/linalg/linalg.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <span>
#include <sstream>

#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"
#include "tests/support/shared_data.h"

namespace quarry::local {
namespace {

constexpr double kRatio = 30;  // LAPACK's own threshold
constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::complex64, DType::complex128};

enum class Kind { normal, graded, deficient };
constexpr Kind kKinds[] = {Kind::normal, Kind::graded, Kind::deficient};

class LinalgOps : public test::OnDevice {
 protected:
  NdArray random(const Dims& shape, DType dtype, Kind kind = Kind::normal) {
    std::vector<std::complex<double>> values(static_cast<size_t>(element_count(shape)));
    std::normal_distribution<double> distribution;
    for (auto& value : values) value = {distribution(random_), is_complex(dtype) ? distribution(random_) : 0};
    const int64_t n = shape[shape.size() - 1];
    for (size_t i = 0; i < values.size(); ++i) {
      const auto column = static_cast<int64_t>(i) % n;
      // Columns that shrink by 10^-4 from first to last.
      if (kind == Kind::graded)
        values[i] *= std::pow(10.0, -4.0 * static_cast<double>(column) / static_cast<double>(n));
      // All columns but a few repeat their neighbour on the left, or are 0.
      if (kind == Kind::deficient && column % 3 != 0) values[i] = column % 3 == 1 ? values[i - 1] : 0.0;
    }
    return from_vector(values, shape).astype(dtype);
  }
  std::mt19937 random_{11};
};
QUARRY_ON_EVERY_DEVICE(LinalgOps);

double precision(DType dtype) { return real_type(dtype) == DType::float32 ? 0x1p-23 : 0x1p-52; }
NdArray adjoint(const NdArray& a) { return ops::conjugate(ops::matrix_transpose(a)); }
NdArray wide(const NdArray& a) { return a.astype(is_complex(a.dtype()) ? DType::complex128 : DType::float64); }
double largest(const NdArray& a) { return a.size() == 0 ? 0 : ops::max(ops::absolute(wide(a))).item<double>(); }

// |a - b| / (|a| n eps), by the largest of a stack.
double residual(const NdArray& a, const NdArray& b, DType dtype) {
  if (a.size() == 0) return 0;
  const double n = static_cast<double>(std::max(a.shape(-1), a.shape(-2)));
  const NdArray difference = ops::norm(wide(a) - wide(b), std::nullopt, {-2, -1}),
                size = ops::norm(wide(a), std::nullopt, {-2, -1});
  const double worst = ops::max(ops::divide(difference, ops::maximum(size, 1e-300))).item<double>();
  return worst / (n * precision(dtype));
}
// |1 - q^H q| / (m eps).
double orthogonality(const NdArray& q, DType dtype) {
  if (q.size() == 0) return 0;
  const NdArray gram = ops::matmul(adjoint(wide(q)), wide(q)) - ops::eye(q.shape(-1));
  return largest(gram) / (static_cast<double>(q.shape(-2)) * precision(dtype));
}

const Dims kShapes[] = {{0, 0},    {0, 3},         {3, 0},    {1, 1},      {2, 2},     {1, 4},     {4, 1},
                        {7, 3},    {3, 7},         {33, 33},  {300, 41},   {41, 300},  {129, 129}, {5, 6, 4},
                        {3, 4, 6}, {2, 3, 40, 40}, {0, 3, 3}, {3, 70, 50}, {2, 90, 90}};

TEST_P(LinalgOps, QrInEveryMode) {
  for (const DType dtype : kDTypes) {
    for (const Dims& shape : kShapes) {
      for (const Kind kind : kKinds) {
        SCOPED_TRACE(fmt::format("{} {} {}", name(dtype), to_string(shape), static_cast<int>(kind)));
        const NdArray a = random(shape, dtype, kind);
        const int64_t m = a.shape(-2), n = a.shape(-1), k = std::min(m, n);
        for (const char* mode : {"reduced", "complete"}) {
          const auto [q, r] = std::get<ops::QRResult>(ops::qr(a, mode));
          const int64_t width = mode[0] == 'c' ? m : k;
          ASSERT_EQ(q.shape(-1), width);
          ASSERT_EQ(r.shape(-2), width);
          ASSERT_EQ(r.shape(-1), n);
          EXPECT_LT(residual(a, ops::matmul(q, r), dtype), kRatio);
          EXPECT_LT(orthogonality(q, dtype), kRatio);
          EXPECT_EQ(largest(ops::tril(r, -1)), 0);
        }
        const NdArray r = std::get<NdArray>(ops::qr(a, "r"));
        EXPECT_LT(residual(ops::matmul(adjoint(a), a), ops::matmul(adjoint(r), r), dtype), kRatio);
        const ArrayTuple raw = std::get<ArrayTuple>(ops::qr(a, "raw"));
        EXPECT_EQ(raw[0].shape(-2), n);
        EXPECT_EQ(raw[1].shape(-1), k);
      }
    }
  }
}

// Tall ones go by Gram matrices where that is safe.
TEST_P(LinalgOps, TallMatrices) {
  for (const DType dtype : kDTypes) {
    for (const Kind kind : kKinds) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), static_cast<int>(kind)));
      const NdArray a = random({5000, 31}, dtype, kind);
      for (const NdArray& layout : {a, ops::matrix_transpose(ops::matrix_transpose(a).copy())}) {
        const auto [q, r] = std::get<ops::QRResult>(ops::qr(layout));
        EXPECT_LT(residual(a, ops::matmul(q, r), dtype), kRatio);
        EXPECT_LT(orthogonality(q, dtype), kRatio);
        EXPECT_EQ(largest(ops::tril(r, -1)), 0);
        const auto [u, s, vh] = std::get<ops::SVDResult>(ops::svd(layout, /*full_matrices=*/false));
        EXPECT_LT(residual(a, ops::matmul(u * s, vh), dtype), kRatio);
        EXPECT_LT(orthogonality(u, dtype), kRatio);
        EXPECT_LT(orthogonality(adjoint(vh), dtype), kRatio);
      }
    }
  }
  EXPECT_TRUE(ops::any(ops::isnan(std::get<NdArray>(ops::qr(ops::full({5000, 31}, NAN), "r")))).item<bool>());
}

// Both ways to R agree where it is unique, signs included.
TEST_P(LinalgOps, TallMatricesHaveHouseholderSigns) {
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {31, 100}) {
      const NdArray a = random({4000, n}, dtype);
      const NdArray raw = std::get<ArrayTuple>(ops::qr(a, "raw"))[0];
      const NdArray want = ops::triu(ops::matrix_transpose(raw)[{Slice{0, n, 1}}]);
      EXPECT_LT(residual(want, std::get<NdArray>(ops::qr(a, "r")), dtype), kRatio);
    }
  }
}

// Columns that are nearly dependent: a shift makes the first Gram matrix definite. Whatever way is taken, Q is as
// orthogonal as Householder's.
TEST_P(LinalgOps, IllConditionedTallMatrices) {
  for (const DType dtype : kDTypes) {
    for (const double condition : {1e2, 1e6, 1e10, 1e15}) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), condition));
      const int64_t n = 40;
      const auto left = std::get<ops::QRResult>(ops::qr(random({4000, n}, dtype))),
                 right = std::get<ops::QRResult>(ops::qr(random({n, n}, dtype)));
      std::vector<double> graded;
      for (int64_t j = 0; j < n; ++j)
        graded.push_back(std::pow(condition, -static_cast<double>(j) / static_cast<double>(n - 1)));
      const NdArray given = from_vector(graded), values = given.astype(dtype);
      const NdArray a = ops::matmul(left.Q * values, right.Q);
      const auto [q, r] = std::get<ops::QRResult>(ops::qr(a));
      EXPECT_LT(residual(a, ops::matmul(q, r), dtype), kRatio);
      EXPECT_LT(orthogonality(q, dtype), kRatio);
      const auto [u, s, vh] = std::get<ops::SVDResult>(ops::svd(a, /*full_matrices=*/false));
      EXPECT_LT(residual(a, ops::matmul(u * s, vh), dtype), kRatio);
      EXPECT_LT(orthogonality(u, dtype), kRatio);
      EXPECT_LT(largest(wide(s) - given) / (static_cast<double>(n) * precision(dtype)), kRatio);
    }
  }
}

TEST_P(LinalgOps, SvdFullAndReduced) {
  for (const DType dtype : kDTypes) {
    for (const Dims& shape : kShapes) {
      for (const Kind kind : kKinds) {
        SCOPED_TRACE(fmt::format("{} {} {}", name(dtype), to_string(shape), static_cast<int>(kind)));
        const NdArray a = random(shape, dtype, kind);
        const int64_t m = a.shape(-2), n = a.shape(-1), k = std::min(m, n);
        for (const bool full : {false, true}) {
          const auto [u, s, vh] = std::get<ops::SVDResult>(ops::svd(a, full));
          ASSERT_EQ(u.shape(-1), full ? m : k);
          ASSERT_EQ(vh.shape(-2), full ? n : k);
          EXPECT_EQ(s.dtype(), real_type(dtype));
          const NdArray thin_u = u[{ellipsis, Slice{0, k, 1}}], thin_vh = vh[{ellipsis, Slice{0, k, 1}, full_slice}];
          EXPECT_LT(residual(a, ops::matmul(thin_u * s[{ellipsis, newaxis, full_slice}], thin_vh), dtype), kRatio);
          EXPECT_LT(orthogonality(u, dtype), kRatio);
          EXPECT_LT(orthogonality(adjoint(vh), dtype), kRatio);
          if (k > 1) {
            EXPECT_TRUE(ops::all(ops::greater_equal(s[{ellipsis, Slice{0, k - 1, 1}}], s[{ellipsis, Slice{1, k, 1}}]))
                            .item<bool>());
          }
          const NdArray values = ops::svdvals(a);
          EXPECT_LE(largest(values - s), kRatio * static_cast<double>(std::max(m, n)) * precision(dtype) * largest(s));
        }
      }
    }
  }
}

TEST_P(LinalgOps, EighOfEitherTriangle) {
  for (const DType dtype : kDTypes) {
    for (const Dims& shape : kShapes) {
      if (shape[shape.size() - 1] != shape[shape.size() - 2]) continue;
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), to_string(shape)));
      const NdArray half = random(shape, dtype);
      const NdArray a = half + adjoint(half);
      for (const char* triangle : {"L", "U"}) {
        // The other triangle is not read.
        const NdArray given =
            (triangle[0] == 'L' ? ops::tril(a) + ops::triu(half * 1000, 1) : ops::triu(a) + ops::tril(half * 1000, -1));
        const auto [values, vectors] = ops::eigh(given, triangle);
        EXPECT_EQ(values.dtype(), real_type(dtype));
        EXPECT_LT(residual(a, ops::matmul(vectors * values[{ellipsis, newaxis, full_slice}], adjoint(vectors)), dtype),
                  kRatio);
        EXPECT_LT(orthogonality(vectors, dtype), kRatio);
        const int64_t n = a.shape(-1);
        if (n > 1 && a.size() > 0) {
          EXPECT_TRUE(
              ops::all(ops::less_equal(values[{ellipsis, Slice{0, n - 1, 1}}], values[{ellipsis, Slice{1, n, 1}}]))
                  .item<bool>());
        }
        EXPECT_LE(largest(ops::eigvalsh(given, triangle) - values),
                  kRatio * static_cast<double>(n) * precision(dtype) * largest(values));
      }
    }
  }
}

// Stacks of the orders at which engines change from one routine to the next; read against the grain and broadcast.
TEST_P(LinalgOps, StacksOfEveryOrder) {
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {1, 8, 9, 16, 17, 31, 32, 33, 48, 64, 65, 100, 128, 129}) {
      SCOPED_TRACE(fmt::format("{} of {}", name(dtype), n));
      const NdArray a = random({3, n, n}, dtype), h = a + adjoint(a);
      const NdArray backwards = ops::matrix_transpose(a[{Slice{{}, {}, -1}, full_slice, Slice{{}, {}, -1}}]);
      const auto measure = [&](const NdArray& matrix, const NdArray& x, const NdArray& sides) {
        return largest(ops::matmul(matrix, x) - sides) /
               (static_cast<double>(n) * precision(dtype) * largest(matrix) * largest(x));
      };
      for (const NdArray& matrix :
           std::vector<NdArray>{a, ops::matrix_transpose(a), backwards, a[{Slice{0, 1, {}}}], a[{1}]}) {
        for (const int64_t sides : {1, 4, 40}) {
          const NdArray b = random({3, n, sides}, dtype);
          EXPECT_LT(measure(matrix, ops::solve(matrix, b), b), kRatio);
          EXPECT_LT(measure(matrix, ops::solve(matrix, b[{0}]), b[{0}]), kRatio);
        }
        const auto [sign, logarithm] = ops::slogdet(matrix);
        // By the determinants of the factors; their phases and logarithms lose what the least pivots lose.
        const NdArray r = ops::diagonal(ops::lu(matrix, false, true, true, true)[2], 0, -2, -1);
        const NdArray sum = ops::sum(ops::log(ops::absolute(wide(r))), -1);
        EXPECT_LT(largest(wide(logarithm) - sum),
                  1000 * static_cast<double>(n) * precision(dtype) * (1 + largest(sum)));
        EXPECT_LT(largest(ops::absolute(sign) - 1.0), 1000 * precision(dtype));
        const NdArray product = ops::det(matrix * Scalar(1 / std::sqrt(static_cast<double>(n))));
        EXPECT_LT(largest(product - ops::absolute(product) * sign),
                  1000 * static_cast<double>(n) * precision(dtype) * largest(product));
      }
      const NdArray vector = random({n}, dtype);
      EXPECT_LT(measure(a, ops::solve(a, vector)[{ellipsis, newaxis}], vector[{full_slice, newaxis}]), kRatio);
      const NdArray positive = ops::matmul(a, adjoint(a)) + ops::eye(n, {}, 0, dtype) * static_cast<double>(n);
      for (const NdArray& matrix :
           std::vector<NdArray>{positive, ops::matrix_transpose(positive), positive[{Slice{{}, {}, -1}}]}) {
        const NdArray lower = ops::cholesky(matrix), upper = ops::cholesky(matrix, true);
        EXPECT_LT(residual(matrix, ops::matmul(lower, adjoint(lower)), dtype), kRatio);
        EXPECT_LT(residual(matrix, ops::matmul(adjoint(upper), upper), dtype), kRatio);
        EXPECT_EQ(largest(ops::triu(lower, 1)) + largest(ops::tril(upper, -1)), 0);
      }
      EXPECT_THROW(ops::cholesky(positive * from_vector<double>({1, 1, -1}).reshape({3, 1, 1})), LinAlgError);
      EXPECT_THROW(ops::cholesky(ops::where(ops::eye(n), NAN, positive)), LinAlgError);
      if (n > 64) continue;
      for (const NdArray& matrix : std::vector<NdArray>{h, h[{Slice{{}, {}, -1}}]}) {
        const auto [values, vectors] = ops::eigh(matrix);
        EXPECT_LT(
            residual(matrix, ops::matmul(vectors * values[{ellipsis, newaxis, full_slice}], adjoint(vectors)), dtype),
            kRatio);
        EXPECT_LT(orthogonality(vectors, dtype), kRatio);
      }
      for (const NdArray& matrix :
           std::vector<NdArray>{a, backwards, a[{full_slice, full_slice, Slice{0, (n + 1) / 2, {}}}]}) {
        const auto [u, s, vh] = std::get<ops::SVDResult>(ops::svd(matrix, /*full_matrices=*/false));
        EXPECT_LT(residual(matrix, ops::matmul(u * s[{ellipsis, newaxis, full_slice}], vh), dtype), kRatio);
        EXPECT_LT(orthogonality(u, dtype), kRatio);
        EXPECT_LT(orthogonality(adjoint(vh), dtype), kRatio);
      }
    }
  }
}

// Of a Hermitian matrix one triangle alone is read: NaN in the other one is none of its business.
TEST_P(LinalgOps, EighBesideNan) {
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {2, 3, 32, 33}) {
      for (const int64_t count : {1, 4}) {
        SCOPED_TRACE(fmt::format("{} {} of {}", name(dtype), count, n));
        const NdArray half = random({count, n, n}, dtype), a = half + adjoint(half);
        const NdArray nan = ops::full({count, n, n}, NAN, dtype), many = ops::full({300, 300}, NAN, dtype);
        EXPECT_TRUE(std::isnan(largest(ops::matmul(many, many))));  // leaves NaN in the memory of libraries
        const NdArray below = ops::greater(ops::arange(n)[{full_slice, newaxis}], ops::arange(n));
        for (const char* triangle : {"L", "U"}) {
          const NdArray other = triangle[0] == 'L' ? ops::matrix_transpose(below) : below;
          const NdArray given = ops::where(other, nan, a);
          const auto [values, vectors] = ops::eigh(given, triangle);
          EXPECT_LT(
              residual(a, ops::matmul(vectors * values[{ellipsis, newaxis, full_slice}], adjoint(vectors)), dtype),
              kRatio);
          EXPECT_THROW(ops::eigh(given, triangle[0] == 'L' ? "U" : "L"), LinAlgError);
          EXPECT_THROW(ops::eigvalsh(ops::where(ops::eye(n, {}, 0, DType::bool_), nan, a), triangle), LinAlgError);
        }
      }
    }
  }
}

// Singular matrices and those with NaN, beside regular ones.
TEST_P(LinalgOps, StacksWithOddOnesOut) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {1, 9, 33, 70, 129}) {
      SCOPED_TRACE(fmt::format("{} of {}", name(dtype), n));
      const NdArray good = random({n, n}, dtype), nan = ops::where(ops::eye(n), NAN, good).astype(dtype);
      const NdArray zeros = good * ops::not_equal(ops::arange(n), n / 2);
      const NdArray both = ops::where(ops::eye(n), NAN, zeros).astype(dtype);
      const auto [sign, logarithm] = ops::slogdet(ops::stack({good, zeros, nan, both}));
      EXPECT_EQ(sign[{1}].item<std::complex<double>>(), 0.0);
      EXPECT_EQ(logarithm[{1}].item<double>(), -kInfinity);
      for (const int64_t p : {2, 3}) {
        EXPECT_TRUE(std::isnan(std::abs(sign[{p}].item<std::complex<double>>())));
        EXPECT_TRUE(std::isnan(logarithm[{p}].item<double>()));
      }
      EXPECT_NEAR(std::abs(sign[{0}].item<std::complex<double>>()), 1, 1e-3);
      const std::string which = fmt::format("Singular matrix: pivot {} is 0", n / 2 + 1);
      EXPECT_THAT(
          [&] {
            ops::solve(ops::stack({good, zeros}), good);
          },
          ::testing::ThrowsMessage<LinAlgError>(which + ", of matrix (1,)"));
      EXPECT_THAT([&] { ops::solve(zeros, good[{0}]); }, ::testing::ThrowsMessage<LinAlgError>(which));
      EXPECT_THAT([&] { ops::inv(zeros); }, ::testing::ThrowsMessage<LinAlgError>(which));
      const NdArray one = ops::eye(n).astype(dtype), turned = ops::where(ops::equal(ops::arange(n), n / 2), -1, 1);
      EXPECT_THAT(
          [&] {
            ops::cholesky(ops::stack({one, (one * turned).astype(dtype)}));
          },
          ::testing::ThrowsMessage<LinAlgError>(fmt::format(
              "Matrix is not positive definite: its leading minor of order {} is not, of matrix (1,)", n / 2 + 1)));
      const NdArray sides = random({n, 2}, dtype), x = ops::solve(ops::stack({good, nan, good}), sides);
      EXPECT_TRUE(ops::any(ops::isnan(x[{1}])).item<bool>());
      EXPECT_EQ(largest(x[{2}] - x[{0}]), 0);
      EXPECT_LT(largest(ops::matmul(good, x[{0}]) - sides) /
                    (static_cast<double>(n) * precision(dtype) * largest(good) * largest(x[{0}])),
                kRatio);
    }
  }
  EXPECT_EQ(ops::solve(ops::zeros({0, 3, 3}), ops::zeros({3, 1})).shape(), (Dims{0, 3, 1}));
  EXPECT_EQ(ops::solve(ops::zeros({2, 0, 0}), ops::zeros({2, 0, 4})).shape(), (Dims{2, 0, 4}));
  EXPECT_EQ(ops::solve(ops::zeros({2, 0, 0}), ops::zeros({2, 0, 0})).shape(), (Dims{2, 0, 0}));
  EXPECT_EQ(ops::slogdet(ops::zeros({2, 0, 0})).sign.to_string(), "[1. 1.]");
  EXPECT_EQ(ops::slogdet(ops::zeros({0, 5, 5})).logabsdet.shape(), (Dims{0}));
}

TEST_P(LinalgOps, EigReconstructs) {
  for (const DType dtype : kDTypes) {
    for (const Dims& shape : {Dims{0, 0}, Dims{1, 1}, Dims{2, 2}, Dims{7, 7}, Dims{60, 60}, Dims{4, 9, 9}}) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), to_string(shape)));
      const NdArray a = random(shape, dtype);
      const auto [values, vectors] = ops::eig(a);
      if (a.size() == 0) {
        EXPECT_EQ(values.dtype(), dtype);
        continue;
      }
      const NdArray left = ops::matmul(a, vectors), right = vectors * values[{ellipsis, newaxis, full_slice}];
      EXPECT_LT(largest(left - right) / (largest(a) * static_cast<double>(a.shape(-1)) * precision(dtype)), kRatio);
      const NdArray lengths = ops::norm(vectors, std::nullopt, -2);
      EXPECT_LT(largest(lengths - 1.0), kRatio * static_cast<double>(a.shape(-1)) * precision(dtype));
      // The trace is the sum of the eigenvalues.
      const NdArray sums = ops::sum(values, -1) - ops::linalg_trace(a);
      EXPECT_LT(largest(sums), kRatio * static_cast<double>(a.shape(-1)) * precision(dtype) * largest(a) *
                                   static_cast<double>(a.shape(-1)));
    }
  }
}

TEST_P(LinalgOps, LuAndItsSolutions) {
  for (const DType dtype : kDTypes) {
    for (const Dims& shape : kShapes) {
      for (const Kind kind : kKinds) {
        SCOPED_TRACE(fmt::format("{} {} {}", name(dtype), to_string(shape), static_cast<int>(kind)));
        const NdArray a = random(shape, dtype, kind);
        const ArrayTuple plu = ops::lu(a);
        EXPECT_LT(residual(a, ops::matmul(plu[0], ops::matmul(plu[1], plu[2])), dtype), kRatio);
        // Pivots are the largest by |re| + |im|.
        EXPECT_LE(largest(plu[1]), (is_complex(dtype) ? std::sqrt(2.0) : 1.0) + 1e-6);
        const ArrayTuple permuted = ops::lu(a, /*permute_l=*/true);
        EXPECT_LT(residual(a, ops::matmul(permuted[0], permuted[1]), dtype), kRatio);
      }
    }
    for (const int64_t n : {1, 2, 9, 64, 300}) {
      for (const int64_t count : {1, 5}) {
        SCOPED_TRACE(fmt::format("{} {} of {}", name(dtype), count, n));
        const NdArray a = random({count, n, n}, dtype) + ops::eye(n, {}, 0, dtype) * static_cast<double>(n);
        const NdArray b = random({count, n, 3}, dtype);
        const auto measure = [&](const NdArray& matrix, const NdArray& x, const NdArray& sides) {
          return largest(ops::matmul(matrix, x) - sides) /
                 (static_cast<double>(n) * precision(dtype) * (largest(a) * largest(x)));
        };
        const auto factors = ops::lu_factor(a);
        EXPECT_LT(measure(a, ops::lu_solve(factors, b), b), kRatio);
        EXPECT_LT(measure(ops::matrix_transpose(a), ops::lu_solve(factors, b, 1), b), kRatio);
        EXPECT_LT(measure(adjoint(a), ops::lu_solve(factors, b, 2), b), kRatio);
        EXPECT_LT(measure(a, ops::solve(a, b), b), kRatio);
        EXPECT_LT(measure(a, ops::inv(a), ops::eye(n)), kRatio);
        for (const bool lower : {false, true}) {
          const NdArray t = lower ? ops::tril(a) : ops::triu(a);
          EXPECT_LT(measure(t, ops::solve_triangular(a, b, 0, lower), b), kRatio);
          EXPECT_LT(measure(adjoint(t), ops::solve_triangular(a, b, std::string("C"), lower), b), kRatio);
          const NdArray unit = (lower ? ops::tril(a, -1) : ops::triu(a, 1)) / Scalar(4.0 * static_cast<double>(n));
          EXPECT_LT(measure(unit + ops::eye(n, {}, 0, dtype),
                            ops::solve_triangular(unit, b, 0, lower, /*unit_diagonal=*/true), b),
                    kRatio);
          const NdArray positive = ops::matmul(a, adjoint(a));
          const NdArray x = ops::cho_solve(ops::cho_factor(positive, lower), b);
          EXPECT_LT(largest(ops::matmul(positive, x) - b) /
                        (static_cast<double>(n) * precision(dtype) * largest(positive) * largest(x)),
                    kRatio);
          const NdArray factor = ops::cholesky(positive, !lower);
          EXPECT_LT(
              residual(positive, lower ? ops::matmul(factor, adjoint(factor)) : ops::matmul(adjoint(factor), factor),
                       dtype),
              kRatio);
        }
      }
    }
  }
}

// Definite matrices of many strips, for which a GPU has a method of its own. What it reads is one triangle.
TEST_P(LinalgOps, CholeskyOfStrips) {
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {130, 321, 1000, 2047, 2500}) {
      if (n > 321 && GetParam() != DeviceKind::cuda) continue;
      SCOPED_TRACE(fmt::format("{} of {}", name(dtype), n));
      const NdArray a = random({n, n}, dtype), scale = ops::eye(n, {}, 0, dtype) * Scalar(static_cast<double>(n));
      const NdArray positive = ops::matmul(a, adjoint(a)) + scale;
      const NdArray nan = ops::full({n, n}, NAN, dtype), below = ops::tril(positive) + ops::triu(nan, 1);
      for (const bool upper : {false, true}) {
        const NdArray factor = ops::cholesky(upper ? adjoint(below) : below, upper);
        EXPECT_EQ(largest(upper ? ops::tril(factor, -1) : ops::triu(factor, 1)), 0);
        EXPECT_LT(residual(positive,
                           upper ? ops::matmul(adjoint(factor), factor) : ops::matmul(factor, adjoint(factor)), dtype),
                  kRatio);
        NdArray indefinite = positive.copy();
        indefinite[{n - 3, n - 3}].assign(ops::full({}, -1.0, dtype), current_context());
        EXPECT_THROW(ops::cholesky(indefinite, upper), LinAlgError);
      }
    }
  }
}

// Panels of a factorisation, for which a GPU has a method of its own: pivots are LAPACK's.
TEST_P(LinalgOps, LuOfPanels) {
  const Dims shapes[] = {{2048, 64}, {2100, 97}, {2200, 1000}, {5000, 300}, {33000, 70}};
  const auto factors_of = [](const NdArray& a) { return ops::lu_factor(a, false, /*check_finite=*/false); };
  const auto pivots_of = [&](const NdArray& a) {
    return to_vector<int64_t>(factors_of(a).second.astype(DType::int64));
  };
  const auto pivots_on_cpu = [&](const NdArray& a) {
    const auto values = to_vector<std::complex<double>>(a.astype(DType::complex128));
    const DeviceScope scope(Device{DeviceKind::cpu});
    const NdArray here = from_vector(values, a.shape());
    return pivots_of((is_complex(a.dtype()) ? here : ops::real(here)).astype(a.dtype()));
  };
  for (const DType dtype : kDTypes) {
    if (GetParam() == DeviceKind::emulated && dtype != DType::complex64) continue;  // it calls the CPU's code
    for (const Dims& shape : shapes) {
      for (const Kind kind : {Kind::normal, Kind::deficient}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name(dtype), to_string(shape), static_cast<int>(kind)));
        const NdArray a = random(shape, dtype, kind);
        const ArrayTuple lu = ops::lu(a, /*permute_l=*/true);
        EXPECT_LT(residual(a, ops::matmul(lu[0], lu[1]), dtype), kRatio);
        if (kind != Kind::normal) continue;
        EXPECT_EQ(pivots_of(a), pivots_on_cpu(a));
      }
    }
    // Of equal elements the first is the pivot, and so is a zero among zeros.
    const NdArray ones = ops::full({2500, 70}, Scalar(1), dtype), zeros = ops::zeros({2100, 80}, dtype);
    for (const NdArray& a : {ones, zeros}) {
      std::vector<int64_t> stay(static_cast<size_t>(a.shape(1)));
      std::iota(stay.begin(), stay.end(), 0);
      EXPECT_EQ(pivots_of(a), stay);
    }
    const NdArray broken = random({2100, 80}, dtype);
    for (const int64_t row : {2099, 0}) {
      broken[{row, int64_t{3}}].fill(Scalar(NAN));
      EXPECT_TRUE(ops::any(ops::isnan(factors_of(broken).first)).item<bool>());
    }
  }
}

// Matrices of 1000 rows: well-conditioned, with columns of very different lengths, without full rank, and with singular
// values down to 10^-14.
TEST_P(LinalgOps, LargeMatrices) {
  constexpr int64_t kRows = 1000;
  const DType dtype = DType::float64;
  std::vector<NdArray> matrices;
  for (const Kind kind : kKinds) matrices.push_back(random({kRows, kRows}, dtype, kind));
  std::vector<double> values;
  for (int64_t j = 0; j < kRows; ++j)
    values.push_back(std::pow(10.0, -14.0 * static_cast<double>(j) / static_cast<double>(kRows - 1)));
  const auto left = std::get<ops::QRResult>(ops::qr(matrices[0])),
             right = std::get<ops::QRResult>(ops::qr(matrices[1]));
  matrices.push_back(ops::matmul(left.Q * from_vector(values), right.Q));
  // The emulated device calls the CPU's code: one matrix says that it does.
  const size_t wanted = GetParam() == DeviceKind::emulated ? 1 : matrices.size();
  for (const NdArray& a : std::span(matrices).first(wanted)) {
    SCOPED_TRACE(a.to_string());
    const auto [q, r] = std::get<ops::QRResult>(ops::qr(a));
    EXPECT_LT(residual(a, ops::matmul(q, r), dtype), kRatio);
    EXPECT_LT(orthogonality(q, dtype), kRatio);
    const ArrayTuple plu = ops::lu(a);
    EXPECT_LT(residual(a, ops::matmul(plu[0], ops::matmul(plu[1], plu[2])), dtype), kRatio);
    const auto [u, s, vh] = std::get<ops::SVDResult>(ops::svd(a));
    EXPECT_LT(residual(a, ops::matmul(u * s, vh), dtype), kRatio);
    EXPECT_LT(orthogonality(u, dtype), kRatio);
    EXPECT_LT(orthogonality(adjoint(vh), dtype), kRatio);
    const NdArray symmetric = a + adjoint(a);
    const auto [eigenvalues, vectors] = ops::eigh(symmetric);
    EXPECT_LT(residual(symmetric, ops::matmul(vectors * eigenvalues, adjoint(vectors)), dtype), kRatio);
    EXPECT_LT(orthogonality(vectors, dtype), kRatio);
    const NdArray positive = ops::matmul(a, adjoint(a)) + ops::eye(kRows);
    const NdArray factor = ops::cholesky(positive);
    EXPECT_LT(residual(positive, ops::matmul(factor, adjoint(factor)), dtype), kRatio);
  }
  // |a x - b| / (|a| |x| n eps), whatever the condition.
  for (const NdArray& a : {matrices[0], matrices[1], matrices[3]}) {
    const NdArray b = random({kRows, 2}, dtype), x = ops::solve(a, b);
    const auto size = [](const NdArray& m) { return ops::norm(m).item<double>(); };
    EXPECT_LT(size(ops::matmul(a, x) - b) / (size(a) * size(x) * static_cast<double>(kRows) * precision(dtype)),
              kRatio);
  }
  const NdArray inverse = ops::inv(matrices[0]);
  const double condition = ops::norm(matrices[0]).item<double>() * ops::norm(inverse).item<double>();
  EXPECT_LT(largest(ops::matmul(matrices[0], inverse) - ops::eye(kRows)), kRatio * condition * precision(dtype));
}

// From 1024 rows on a GPU finds them, also alone and in single precision, by way of a polar decomposition in double.
TEST_P(LinalgOps, SingularValuesOfEveryDtype) {
  const int64_t n = GetParam() == DeviceKind::cuda ? 1100 : 70;
  for (const DType dtype : {DType::float32, DType::float64, DType::complex64, DType::complex128}) {
    for (const Dims& shape : {Dims{n, n}, Dims{n + 200, n}, Dims{n, 3 * n}}) {
      const NdArray a = random(shape, dtype);
      SCOPED_TRACE(a.to_string());
      const auto [u, s, vh] = std::get<ops::SVDResult>(ops::svd(a, /*full_matrices=*/false));
      EXPECT_EQ(s.dtype(), real_type(dtype));
      EXPECT_EQ(u.dtype(), dtype);
      EXPECT_LT(residual(a, ops::matmul(u * s, vh), dtype), kRatio);
      EXPECT_LT(orthogonality(u, dtype), kRatio);
      EXPECT_LT(orthogonality(adjoint(vh), dtype), kRatio);
      const NdArray alone = ops::svdvals(a);
      EXPECT_EQ(alone.dtype(), s.dtype());
      EXPECT_LT(largest(alone - s), kRatio * precision(dtype) * static_cast<double>(n) * largest(s));
    }
  }
}

TEST_P(LinalgOps, ExponentialsAndRoots) {
  const NdArray rotation = from_vector<double>({0, -1, 1, 0}, {2, 2});
  const NdArray turned = ops::expm(rotation);
  EXPECT_NEAR((turned[{0, 0}].item<double>()), std::cos(1.0), 1e-15);
  EXPECT_NEAR((turned[{1, 0}].item<double>()), std::sin(1.0), 1e-15);
  // Each matrix of a stack has a scale of its own.
  const NdArray angles = from_vector<double>({0, 1e-8, 1, 40, 300}).reshape({5, 1, 1});
  const NdArray many = ops::expm(rotation * angles);
  for (int64_t i = 0; i < 5; ++i) {
    const double angle = (angles[{i, 0, 0}].item<double>());
    EXPECT_NEAR((many[{i, 0, 0}].item<double>()), std::cos(angle), 1e-15 * std::max(1.0, angle) * 4);
    EXPECT_NEAR((many[{i, 1, 0}].item<double>()), std::sin(angle), 1e-15 * std::max(1.0, angle) * 4);
  }
  // Norms for every degree: exp(a) exp(-a) = 1.
  for (const DType dtype : kDTypes) {
    for (const double size : {1e-3, 0.01, 0.1, 0.4, 0.9, 2.0, 4.0, 9.0}) {
      NdArray a = random({7, 7}, dtype);
      a = (a * Scalar(size) / ops::norm(a, 1.0)).astype(dtype);
      const NdArray there = ops::expm(a), back = ops::expm(-a);
      EXPECT_LT(largest(ops::matmul(wide(there), wide(back)) - ops::eye(7)),
                kRatio * 7 * precision(dtype) * largest(there) * largest(back));
      // A series has the same value.
      NdArray term = ops::eye(7), sum = term;
      for (int k = 1; k < 60; ++k) term = ops::matmul(term, wide(a)) / Scalar(static_cast<double>(k)), sum = sum + term;
      EXPECT_LT(largest(sum - wide(there)), kRatio * 7 * precision(dtype) * std::exp(size));
    }
  }
  const NdArray nilpotent = from_vector<double>({0, 1, 2, 0, 0, 3, 0, 0, 0}, {3, 3});
  EXPECT_LT(largest(ops::expm(nilpotent) - from_vector<double>({1, 1, 3.5, 0, 1, 3, 0, 0, 1}, {3, 3})), 1e-14);
  EXPECT_TRUE(ops::all(ops::isnan(ops::expm(ops::full({2, 2}, NAN)))).item<bool>());
  for (const DType dtype : kDTypes) {
    const NdArray a = random({3, 12, 12}, dtype);
    const NdArray positive = ops::matmul(a, adjoint(a));
    const NdArray root = ops::sqrtm(positive);
    EXPECT_EQ(root.dtype(), dtype);
    EXPECT_LT(residual(positive, ops::matmul(root, root), dtype), kRatio);
    const NdArray indefinite = a + adjoint(a), complex_root = ops::sqrtm(indefinite);
    EXPECT_TRUE(is_complex(complex_root.dtype()));
    EXPECT_LT(residual(indefinite, ops::matmul(complex_root, complex_root), dtype), kRatio);
  }
  EXPECT_THROW(ops::sqrtm(nilpotent), InvalidArgument);
}

TEST_P(LinalgOps, MatricesOfStructure) {
  const auto text = [](const NdArray& a) { return a.to_string(); };
  EXPECT_EQ(text(ops::toeplitz(from_vector<int32_t>({1, 2, 3}), from_vector<int32_t>({9, 4, 5, 6}))),
            "[[1 4 5 6]\n [2 1 4 5]\n [3 2 1 4]]");
  EXPECT_EQ(text(ops::toeplitz(from_vector<int32_t>({1, 2}))), "[[1 2]\n [2 1]]");
  EXPECT_EQ(ops::toeplitz(NdArray({0}, DType::float32)).shape(), (Dims{0, 0}));
  const NdArray one = from_vector<int32_t>({1, 2}, {2, 1}), two = from_vector<int32_t>({3, 4, 5});
  EXPECT_EQ(text(ops::block_diag({one, two})), "[[1 0 0 0]\n [2 0 0 0]\n [0 3 4 5]]");
  EXPECT_EQ(ops::block_diag({one, NdArray({0, 2}, DType::float64)}).shape(), (Dims{2, 3}));
}

TEST_P(LinalgOps, HalfPrecisionsComputeInSingle) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const NdArray a = from_vector<float>({4, 1, 1, 2}, {2, 2}).astype(dtype);
    EXPECT_EQ(ops::inv(a).dtype(), dtype);
    EXPECT_EQ(ops::det(a).item().as_double(), 7);
    EXPECT_EQ(ops::eigh(a).eigenvectors.dtype(), dtype);
    EXPECT_EQ(ops::solve(a, a).to_string(), "[[1. 0.]\n [0. 1.]]");
    // What float32 gives, rounded.
    const NdArray b = (random({3, 6, 6}, DType::float32) + ops::eye(6) * 8).astype(dtype);
    const NdArray positive = ops::matmul(b, ops::matrix_transpose(b));
    const auto same = [&](const char* what, const NdArray& given, const auto& function) {
      const NdArray got = function(given), want = function(given.astype(DType::float32));
      EXPECT_EQ(got.dtype(), dtype) << what;
      EXPECT_EQ(want.dtype(), DType::float32) << what;
      EXPECT_TRUE(ops::all(ops::equal(got, want.astype(dtype))).item<bool>()) << what;
    };
    same("inv", b, [](const NdArray& x) { return ops::inv(x); });
    same("det", b, [](const NdArray& x) { return ops::det(x); });
    same("slogdet", b, [](const NdArray& x) { return ops::slogdet(x).logabsdet; });
    same("qr", b, [](const NdArray& x) { return std::get<NdArray>(ops::qr(x, "r")); });
    same("svdvals", b, [](const NdArray& x) { return ops::svdvals(x); });
    same("pinv", b, [](const NdArray& x) { return ops::pinv(x); });
    same("expm", b / Scalar(8), [](const NdArray& x) { return ops::expm(x); });
    same("cholesky", positive, [](const NdArray& x) { return ops::cholesky(x); });
    same("eigvalsh", positive, [](const NdArray& x) { return ops::eigvalsh(x); });
    same("sqrtm", positive, [](const NdArray& x) { return ops::sqrtm(x); });
    same("solve_triangular", positive, [](const NdArray& x) { return ops::solve_triangular(x, x); });
    same("cond", b, [](const NdArray& x) { return ops::cond(x, 1.0); });
  }
}

TEST_P(LinalgOps, Refuses) {
  const NdArray singular = from_vector<double>({1, 2, 2, 4}, {2, 2}), good = ops::eye(2);
  EXPECT_THROW(ops::inv(singular), LinAlgError);
  EXPECT_THROW(ops::solve(singular, good), LinAlgError);
  EXPECT_THROW(ops::inv(ops::stack({good, singular, good})), LinAlgError);
  EXPECT_THROW(ops::cholesky(-good), LinAlgError);
  EXPECT_THROW(ops::cholesky(ops::stack({good, -good})), LinAlgError);
  EXPECT_THROW(ops::inv(from_vector<double>({1, 2}, {1, 2})), LinAlgError);
  EXPECT_THROW(ops::solve_triangular(ops::triu(singular * from_vector<double>({1, 1, 1, 0}, {2, 2})), good),
               LinAlgError);
  EXPECT_THROW(ops::solve_triangular(good, good, 3), InvalidArgument);
  EXPECT_THROW(ops::solve_triangular(good, good, std::string("X")), InvalidArgument);
  EXPECT_THROW(ops::lu_factor(ops::full({2, 2}, NAN)), InvalidArgument);
  EXPECT_NO_THROW(ops::lu_factor(ops::full({2, 2}, NAN), false, /*check_finite=*/false));
  EXPECT_THROW(ops::lu_solve({good, from_vector<int32_t>({0, 7})}, good), InvalidArgument);
  EXPECT_THROW(ops::lu_solve({good, from_vector<int32_t>({0})}, good), InvalidArgument);
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    EXPECT_THROW(ops::svd(ops::full({3, 3}, bad)), LinAlgError);
    EXPECT_THROW(ops::eigh(ops::full({3, 3}, bad)), LinAlgError);
    EXPECT_THROW(ops::eig(ops::full({3, 3}, bad)), LinAlgError);
    EXPECT_THROW(ops::lstsq(ops::full({3, 3}, bad), ops::ones({3})), LinAlgError);
  }
  // A matrix with NaN is not singular, and leaves its neighbours alone.
  const NdArray unknown = ops::stack({good, ops::full({2, 2}, NAN), good * 2.0});
  for (const NdArray& x : {ops::inv(unknown), ops::solve(unknown, unknown)}) {
    EXPECT_TRUE(ops::all(ops::isnan(x[{1}])).item<bool>());
    EXPECT_EQ(largest(ops::matmul(x[{0}], good) - good), 0);
    EXPECT_FALSE(ops::any(ops::isnan(x[{2}])).item<bool>());
  }
  EXPECT_EQ(ops::det(unknown).to_string(), "[ 1. nan  4.]");
  EXPECT_THROW(ops::inv(ops::stack({singular, ops::full({2, 2}, NAN)})), LinAlgError);
  // The device works on.
  EXPECT_EQ(ops::det(good).item<double>(), 1);
}

// ---- NIST's statistical reference data ----

struct Reference {
  std::vector<double> coefficients;
  std::vector<std::vector<double>> rows;  // y, x...
};
Reference read_reference(const std::string& file, int first_coefficient, int coefficients, int first, int last) {
  std::ifstream in(test::shared_data() / "nist_strd" / file);
  Reference result;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line);
    if (number >= first_coefficient && number < first_coefficient + coefficients) {
      std::string name;
      double value = 0;
      words >> name >> value;
      result.coefficients.push_back(value);
    } else if (number >= first && number <= last) {
      result.rows.emplace_back();
      for (double value; words >> value;) result.rows.back().push_back(value);
    }
  }
  return result;
}
double correct_digits(double got, double want) {
  return got == want ? 15 : std::min(15.0, -std::log10(std::abs(got - want) / std::abs(want)));
}

TEST_P(LinalgOps, LstsqOnNistSharedData) {
  if (!std::filesystem::exists(test::shared_data() / "nist_strd")) GTEST_SKIP() << "no shared data";
  struct Problem {
    const char* file;
    int first_coefficient, coefficients, first, last;
    double digits;
  };
  for (const Problem& problem : {Problem{"Longley.dat", 31, 7, 61, 76, 9}, Problem{"Norris.dat", 31, 2, 61, 96, 12},
                                 Problem{"Pontius.dat", 31, 3, 61, 100, 12}}) {
    SCOPED_TRACE(problem.file);
    const Reference data =
        read_reference(problem.file, problem.first_coefficient, problem.coefficients, problem.first, problem.last);
    ASSERT_EQ(data.coefficients.size(), static_cast<size_t>(problem.coefficients));
    ASSERT_EQ(data.rows.size(), static_cast<size_t>(problem.last - problem.first + 1));
    std::vector<double> design, observed;
    for (const auto& row : data.rows) {
      observed.push_back(row[0]);
      for (int j = 0; j < problem.coefficients; ++j)
        design.push_back(row.size() == 2 ? std::pow(row[1], j) : j == 0 ? 1.0 : row[static_cast<size_t>(j)]);
    }
    const auto rows = static_cast<int64_t>(data.rows.size());
    const auto x = std::get<0>(ops::lstsq(from_vector(design, {rows, problem.coefficients}), from_vector(observed)));
    for (int j = 0; j < problem.coefficients; ++j)
      EXPECT_GE(correct_digits(x[{j}].item<double>(), data.coefficients[static_cast<size_t>(j)]), problem.digits) << j;
  }
}

// ---- scipy.linalg ----

const Dims kSquares[] = {{0, 0}, {1, 1}, {2, 2}, {33, 33}, {130, 130}, {5, 6, 6}, {0, 3, 3}};

TEST_P(LinalgOps, GeneralizedEigenvalues) {
  for (const DType dtype : kDTypes) {
    for (const Dims& shape : kSquares) {
      const NdArray m = random(shape, dtype), r = random(shape, dtype);
      const NdArray a = ops::divide(m + adjoint(m), 2).astype(dtype);
      const NdArray b = (ops::matmul(r, adjoint(r)) + shape.back() * ops::eye(shape.back())).astype(dtype);
      for (const bool lower : {true, false}) {
        for (const int64_t type : {1, 2, 3}) {
          SCOPED_TRACE(fmt::format("{} {} {} type {}", name(dtype), to_string(shape), lower, type));
          // The other triangle is not read.
          const auto one = [&](const NdArray& x) { return lower ? ops::tril(x) : ops::triu(x); };
          const auto [w, v] = ops::eigh(one(a), one(b), lower, type);
          EXPECT_EQ(w.dtype(), real_type(dtype));
          EXPECT_EQ(v.dtype(), dtype);
          const NdArray x = wide(v), wa = wide(a), wb = wide(b);
          const NdArray scaled = ops::multiply(x, wide(w)[{ellipsis, newaxis, full_slice}]);
          const NdArray left = type == 1   ? ops::matmul(wa, x)
                               : type == 2 ? ops::matmul(wa, ops::matmul(wb, x))
                                           : ops::matmul(wb, ops::matmul(wa, x));
          EXPECT_LT(residual(left, type == 1 ? ops::matmul(wb, scaled) : scaled, dtype), 4 * kRatio);
          const NdArray metric = type == 3 ? ops::inv(wb) : wb;
          EXPECT_LT(largest(ops::matmul(adjoint(x), ops::matmul(metric, x)) - ops::eye(shape.back())),
                    kRatio * static_cast<double>(shape.back() + 1) * precision(dtype));
        }
      }
    }
  }
  const NdArray a = random({3, 3}, DType::float64), b = ops::eye(3);
  EXPECT_THROW(ops::eigh(a, ops::negative(b)), LinAlgError);
  EXPECT_THROW(ops::eigh(a, b, true, 4), InvalidArgument);
  EXPECT_THROW(ops::eigh(a, ops::eye(2)), InvalidArgument);
  EXPECT_THROW(ops::eigh(a, ops::ones({2, 3})), LinAlgError);
  EXPECT_THROW(ops::eigh(ops::full({3, 3}, std::nan("")), b), InvalidArgument);
}

TEST_P(LinalgOps, SchurForms) {
  for (const DType dtype : kDTypes) {
    for (const Dims& shape : kSquares) {
      for (const char* output : {"real", "complex"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name(dtype), to_string(shape), output));
        const NdArray a = random(shape, dtype);
        const auto [t, z] = ops::schur(a, output);
        EXPECT_EQ(is_complex(t.dtype()), is_complex(dtype) || output[0] == 'c');
        EXPECT_EQ(real_type(t.dtype()), real_type(dtype));
        EXPECT_EQ(z.device(), a.device());
        EXPECT_LT(residual(a, ops::matmul(ops::matmul(wide(z), wide(t)), adjoint(wide(z))), dtype), kRatio);
        EXPECT_LT(orthogonality(z, dtype), kRatio);
        EXPECT_EQ(largest(ops::tril(t, is_complex(t.dtype()) ? -1 : -2)), 0);
      }
    }
  }
  EXPECT_THROW(ops::schur(ops::ones({2, 3})), LinAlgError);
  EXPECT_THROW(ops::schur(ops::ones({2, 2}), "upper"), InvalidArgument);
}

TEST_P(LinalgOps, LdlOfIndefiniteMatrices) {
  for (const DType dtype : kDTypes) {
    for (const Dims& shape : kSquares) {
      for (const bool hermitian : {true, false}) {
        for (const bool hollow : {false, true}) {  // a zero diagonal takes blocks of two
          const NdArray m = random(shape, dtype);
          const NdArray other = hermitian ? adjoint(m) : ops::matrix_transpose(m);
          NdArray a = (m + other).astype(dtype);
          if (hollow) a = ops::multiply(a, ops::subtract(1, ops::eye(shape.back()))).astype(dtype);
          for (const bool lower : {true, false}) {
            SCOPED_TRACE(fmt::format("{} {} {} {} {}", name(dtype), to_string(shape), hermitian, hollow, lower));
            const auto [f, d, order] = ops::ldl(lower ? ops::tril(a) : ops::triu(a), lower, hermitian);
            const NdArray end = hermitian ? adjoint(wide(f)) : ops::matrix_transpose(wide(f));
            EXPECT_LT(residual(a, ops::matmul(ops::matmul(wide(f), wide(d)), end), dtype), 4 * kRatio);
            const NdArray triangle = ops::take_along_axis(f, order[{ellipsis, newaxis}].broadcast_to(f.shape()), -2);
            EXPECT_EQ(largest(lower ? ops::triu(triangle, 1) : ops::tril(triangle, -1)), 0);
            EXPECT_EQ(largest(ops::tril(d, -2)) + largest(ops::triu(d, 2)), 0);
          }
        }
      }
    }
  }
}

TEST_P(LinalgOps, ToeplitzSystems) {
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {1, 2, 3, 50}) {
      const NdArray c = random({n}, dtype), r = random({n}, dtype);
      c[{Slice{0, 1, 1}}].assign(ops::full({1}, 4.0 * static_cast<double>(n), dtype), current_context());
      const NdArray b = random({n, 3}, dtype), x = ops::solve_toeplitz(std::pair(c, r), b);
      EXPECT_EQ(x.dtype(), dtype);
      EXPECT_LT(residual(b, ops::matmul(wide(ops::toeplitz(c, r)), wide(x)), dtype), kRatio);
      const NdArray one = b[{full_slice, int64_t{0}}], y = ops::solve_toeplitz(c, one);
      EXPECT_LT(residual(b[{full_slice, Slice{0, 1, 1}}],
                         ops::matmul(wide(ops::toeplitz(c)), wide(y))[{full_slice, newaxis}], dtype),
                kRatio);
    }
  }
}

TEST_P(LinalgOps, BandedSystems) {
  struct Band {
    int64_t n, l, u;
  };
  for (const DType dtype : kDTypes) {
    for (const Band band : {Band{1, 0, 0}, Band{5, 1, 2}, Band{9, 3, 0}, Band{64, 1, 1}, Band{200, 7, 4}}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", name(dtype), band.n, band.l, band.u));
      NdArray full = random({band.n, band.n}, dtype) + (band.l + band.u + 1) * 2 * ops::eye(band.n);
      full = ops::triu(ops::tril(full, band.u), -band.l).astype(dtype);
      const NdArray ab = ops::zeros({band.l + band.u + 1, band.n}, dtype);
      for (int64_t k = -band.l; k <= band.u; ++k)
        ab[{band.u - k, Slice{std::max<int64_t>(0, k), band.n + std::min<int64_t>(0, k), 1}}].assign(
            ops::diagonal(full, k), current_context());
      const NdArray b = random({band.n, 3}, dtype);
      const NdArray x = ops::solve_banded({band.l, band.u}, ab, b);
      EXPECT_EQ(x.dtype(), dtype);
      EXPECT_EQ(x.device(), b.device());
      EXPECT_LT(residual(b, ops::matmul(wide(full), wide(x)), dtype), kRatio);
      const NdArray one = ops::solve_banded({band.l, band.u}, ab, b[{full_slice, int64_t{0}}]);
      EXPECT_EQ(one.ndim(), 1);
      // The Hermitian one of the lower band, by either triangle.
      const NdArray low = ops::tril(full, -1), middle = 4 * (band.l + 1) * ops::eye(band.n);
      const NdArray whole = (low + adjoint(low) + middle).astype(dtype);
      const NdArray lower = ops::zeros({band.l + 1, band.n}, dtype), upper = ops::zeros({band.l + 1, band.n}, dtype);
      for (int64_t k = 0; k <= band.l; ++k) {
        lower[{k, Slice{0, band.n - k, 1}}].assign(ops::diagonal(whole, -k), current_context());
        upper[{band.l - k, Slice{k, band.n, 1}}].assign(ops::diagonal(whole, k), current_context());
      }
      EXPECT_LT(residual(b, ops::matmul(wide(whole), wide(ops::solveh_banded(lower, b, false, false, true))), dtype),
                kRatio);
      EXPECT_LT(residual(b, ops::matmul(wide(whole), wide(ops::solveh_banded(upper, b))), dtype), kRatio);
    }
  }
  const NdArray zero = ops::zeros({3, 4}), b = ops::ones({4});
  EXPECT_THROW(ops::solve_toeplitz(b, b), LinAlgError);  // of rank 1
  EXPECT_THROW(ops::solve_toeplitz(ops::zeros({4}), b), LinAlgError);
  EXPECT_THROW(ops::solve_toeplitz(b, ops::ones({3})), InvalidArgument);
  EXPECT_THROW(ops::solve_toeplitz(std::pair(b, ops::ones({3})), b), InvalidArgument);
  EXPECT_THROW(ops::solve_banded({1, 1}, zero, b), LinAlgError);
  EXPECT_THROW(ops::solveh_banded(zero, b), LinAlgError);
  EXPECT_THROW(ops::solve_banded({2, 1}, zero, b), InvalidArgument);
  EXPECT_THROW(ops::solve_banded({-1, 3}, zero, b), InvalidArgument);
  EXPECT_THROW(ops::solve_banded({1, 1}, zero, ops::ones({3})), InvalidArgument);
  EXPECT_EQ(ops::solve_banded({1, 1}, zero, ops::ones({4, 0})).shape(), (Dims{4, 0}));
}

}  // namespace
}  // namespace quarry::local
