// Matrices that factorisations by tiles find hard: NaN, growth of elements, bad conditions.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/evaluate.h"
#include "tests/support/runtime_on.h"
#include "tests/support/tile_rows.h"

namespace quarry {
namespace {

using testing::cut;
using testing::DType;
using testing::NdArray;

class HardMatrices : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  const Runtime runtime_{testing::runtime_on(GetParam())};
  const ChunkPolicyScope small_{testing::small_tiles(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(All, HardMatrices, ::testing::ValuesIn(test::device_kinds()),
                         [](const auto& info) { return std::string(local::name(info.param)); });

bool has_nan(const Array& a) { return any(isnan(a)).item<bool>(); }

TEST_P(HardMatrices, NaNGoesThroughWhatDoesNotCheck) {
  constexpr int64_t n = 30;
  for (const DType dtype : {DType::float64, DType::complex64}) {
    NdArray a = testing::random_matrix({n, n}, dtype), tall = testing::random_matrix({130, 7}, dtype);
    a(11, 12) = local::nan;
    tall(77, 3) = local::nan;
    EXPECT_THROW(linalg::lu(cut(a)).U.to_host(), local::InvalidArgument);
    EXPECT_TRUE(has_nan(linalg::lu(cut(a), /*permute_l=*/false, /*p_indices=*/true, /*check_finite=*/false)[2]));
    EXPECT_TRUE(has_nan(linalg::qr(cut(a), linalg::r_only)));
    EXPECT_TRUE(has_nan(linalg::qr(cut(tall), linalg::r_only)));
    EXPECT_THROW(linalg::svdvals(cut(tall)).to_host(), local::Error);
    EXPECT_THROW(linalg::lstsq(cut(tall), quarry::ones({130})), local::Error);
    if (GetParam() == local::DeviceKind::cuda) continue;  // cuSOLVER's LU and reflections may lose it
    EXPECT_TRUE(has_nan(linalg::qr(cut(a), linalg::complete).Q));
    EXPECT_TRUE(has_nan(linalg::qr(cut(tall)).Q));
    EXPECT_TRUE(has_nan(linalg::inv(cut(a))));
    EXPECT_TRUE(has_nan(linalg::det(cut(a))));
  }
}

// Elements grow to 2^(n - 1), all of them exact.
TEST_P(HardMatrices, ElementsGrowAsWilkinsonSays) {
  constexpr int64_t n = 40;
  NdArray a = local::eye(n) - local::tril(local::ones({n, n}), -1);
  a(local::full_slice, n - 1) = 1.;
  const auto [p, l, u] = linalg::lu(cut(a));
  EXPECT_TRUE(local::array_equal(p.to_host(), local::eye(n)));
  EXPECT_TRUE(local::array_equal(l.to_host(), local::eye(n) - local::tril(local::ones({n, n}), -1)));
  EXPECT_TRUE(
      local::array_equal(u.to_host()(local::full_slice, n - 1).copy(), local::power(2., local::arange(double(n)))));
  EXPECT_NEAR(linalg::slogdet(cut(a)).logabsdet.item<double>(), (n - 1) * std::log(2.), 1e-12);
}

TEST_P(HardMatrices, BadConditionsLeaveSmallResiduals) {
  constexpr int64_t n = 11;  // the largest Hilbert matrix whose Cholesky factor rounding lets be
  const NdArray i = local::arange(n), hilbert = 1. / (local::expand_dims(i, 1) + i + 1.), b = local::ones({n});
  const NdArray factor = linalg::cholesky(cut(hilbert)).to_host();
  testing::expect_small(local::matmul(factor, factor.T()) - hilbert, hilbert, "A - L L^T");
  const NdArray x = linalg::solve(cut(hilbert), cut(b)).to_host();
  testing::expect_small(local::matmul(hilbert, x) - b, local::matmul(local::absolute(hilbert), local::absolute(x)),
                        "A x - b");
  // Columns from 1 to 1e-30: what solves them is as good as that of equal ones.
  constexpr int64_t m = 40;
  const NdArray scale = local::power(10., local::arange(double(m)) * -0.75);
  const NdArray graded = testing::random_matrix({m, m}, DType::float64) * scale, sides = local::ones({m});
  const NdArray y = linalg::solve(cut(graded), cut(sides)).to_host();
  testing::expect_small(local::matmul(graded, y) - sides, local::matmul(local::absolute(graded), local::absolute(y)),
                        "A x - b");
}

TEST_P(HardMatrices, PowersAreThoseOfOneProcess) {
  constexpr int64_t n = 33;
  for (const DType dtype : {DType::float64, DType::complex64}) {
    const NdArray a = (testing::random_matrix({n, n}, dtype) / std::sqrt(double(n)) + local::eye(n) * 2.).astype(dtype);
    const double bound = dtype == DType::float64 ? 1e-9 : 1e-3;
    for (const int64_t power : {-3, -1, 0, 1, 5}) {
      SCOPED_TRACE(power);
      const NdArray expected = local::linalg::matrix_power(a, power);
      EXPECT_TRUE(testing::close(linalg::matrix_power(cut(a), power).to_host(), expected, bound, bound));
    }
  }
}

// Single precision knows nothing of such a matrix: double precision solves it, as if nothing else had been asked for.
TEST_P(HardMatrices, RefinementGivesUpWhereItDoesNotConverge) {
  constexpr int64_t n = 40;
  const NdArray b = local::ones({n}), random = testing::random_matrix({n, n}, DType::float64);
  const auto basis = [](int64_t seed) {
    return local::linalg::qr(testing::random_matrix({n, n}, DType::float64, seed)).Q;
  };
  // Singular values from 1 to 1e-13, in all directions.
  const NdArray falling = local::power(10., local::arange(double(n)) / -3.), q = basis(4);
  const NdArray ill = local::matmul(basis(5) * falling, q), ill_definite = local::matmul(q.T() * falling, q);
  const auto expect_plain = [&](const NdArray& matrix, linalg::Assumed assume) {
    const linalg::SystemOptions plain{assume, local::Triangle::lower};
    linalg::SystemOptions refined = plain;
    refined.refine = true;
    const NdArray expected = linalg::solve(cut(matrix), cut(b), plain).to_host();
    EXPECT_TRUE(local::array_equal(linalg::solve(cut(matrix), cut(b), refined).to_host(), expected));
    testing::expect_small(local::matmul(matrix, expected) - b,
                          local::matmul(local::absolute(matrix), local::absolute(expected)), "A x - b");
  };
  expect_plain(ill, linalg::Assumed::general);
  expect_plain(random * 1e200, linalg::Assumed::general);  // infinite in single precision
  expect_plain((ill_definite + ill_definite.T()) * 0.5, linalg::Assumed::positive_definite);
}

// NIST's NoInt1 and NoInt2: a line through the origin.
TEST_P(HardMatrices, LinesThroughTheOrigin) {
  const NdArray x1 = local::arange(60., 71.), x2 = local::arange(4., 7.);
  const Array slope1 = std::get<0>(linalg::lstsq(cut(local::expand_dims(x1, 1)), cut(x1 + 70.)));
  const Array slope2 =
      std::get<0>(linalg::lstsq(cut(local::expand_dims(x2, 1)), cut(local::from_vector<double>({3, 4, 4}))));
  EXPECT_NEAR(slope1(0).item<double>(), 2.07438016528926, 1e-14);
  EXPECT_NEAR(slope2(0).item<double>(), 0.727272727272727, 1e-14);
}

}  // namespace
}  // namespace quarry
