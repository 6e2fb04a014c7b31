// Matrices whose spectra are hard to divide, and what decompositions have to give.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tile_rows.h"

namespace quarry::testing {

using Named = std::vector<std::pair<std::string, NdArray>>;

inline NdArray orthogonal(int64_t n, DType dtype, int64_t seed) {
  return local::linalg::qr(random_matrix({n, n}, dtype, seed)).Q;
}
// With these eigenvalues.
inline NdArray hermitian_with(const NdArray& values, DType dtype) {
  const NdArray v = orthogonal(values.size(), dtype, 11);
  const NdArray a = local::matmul(v * values.astype(dtype), adjoint(v));
  return ((a + adjoint(a)) * 0.5).astype(dtype);
}

inline Named hermitian_matrices(int64_t n, DType dtype) {
  const NdArray x = random_matrix({n, n}, dtype), i = local::arange(double(n));
  const NdArray tall = random_matrix({n, 3}, dtype);
  Named all{{"random", (x + adjoint(x)).astype(dtype)}};
  all.emplace_back("covariance with a large eigenvalue",
                   hermitian_with(local::where(i == 0, 1e5, 1. + i / double(n)), dtype));
  all.emplace_back("two eigenvalues", hermitian_with(local::where(i < double(n / 3), 1., -2.), dtype));
  all.emplace_back("rank 3", local::matmul(tall, adjoint(tall)).astype(dtype));
  all.emplace_back("graded", hermitian_with(local::power(2., -i), dtype));
  all.emplace_back("clusters", hermitian_with(local::floor(i / 10.) + local::remainder(i, 10.) * 1e-13, dtype));
  // Wilkinson's: pairs of eigenvalues that are nearly equal.
  const NdArray beside = local::eye(n, std::nullopt, 1) + local::eye(n, std::nullopt, -1);
  all.emplace_back("Wilkinson's", (local::diag(local::absolute(i - double(n / 2))) + beside).astype(dtype));
  all.emplace_back("diagonal", local::diag(local::remainder(i * 37., double(n))).astype(dtype));
  all.emplace_back("multiple of the identity", (local::eye(n) * -3.).astype(dtype));
  all.emplace_back("zero", local::zeros({n, n}).astype(dtype));
  return all;
}

inline Named rectangular_matrices(int64_t n, DType dtype) {
  const NdArray i = local::arange(double(n));
  const auto with_values = [&](const NdArray& values) {
    return local::matmul(orthogonal(n, dtype, 12) * values.astype(dtype), orthogonal(n, dtype, 13)).astype(dtype);
  };
  Named all{{"random", random_matrix({n, n}, dtype)}};
  all.emplace_back("tall", random_matrix({n + n / 3, n}, dtype));
  all.emplace_back("wide", random_matrix({n, n + 7}, dtype));
  all.emplace_back("graded", with_values(local::power(2., -i)));
  all.emplace_back("dependent", with_values(local::where(i < double(n / 2), 1. + i, 0.)));
  all.emplace_back("diagonal, half of it zero", local::diag(local::where(i < double(n / 2), i, 0.)).astype(dtype));
  all.emplace_back("orthogonal", orthogonal(n, dtype, 14));
  all.emplace_back("zero", local::zeros({n, n}).astype(dtype));
  return all;
}

inline void expect_ascending(const NdArray& values) {
  const std::vector<double> numbers = local::to_vector<double>(values.astype(DType::float64));
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end())) << values.repr();
}

inline void expect_eigen(const NdArray& a, const NdArray& values, const NdArray& vectors) {
  const NdArray scale = local::maximum(local::absolute(a), 1e-300);
  EXPECT_EQ(values.dtype(), local::real_type(a.dtype()));
  EXPECT_EQ(vectors.dtype(), a.dtype());
  expect_ascending(values);
  expect_small(local::matmul(a, vectors) - vectors * values.astype(a.dtype()), scale, "A V - V W");
  expect_small(local::matmul(adjoint(vectors), vectors) - identity(a.shape(0), a.dtype()), local::eye(a.shape(0)),
               "I - V^H V");
  expect_small(values - local::linalg::eigvalsh(a), scale, "eigenvalues");
}

inline void expect_svd(const NdArray& a, const NdArray& u, const NdArray& s, const NdArray& vh) {
  const NdArray scale = local::maximum(local::absolute(a), 1e-300);
  const int64_t k = s.size();
  EXPECT_EQ(s.dtype(), local::real_type(a.dtype()));
  expect_ascending(-s);
  EXPECT_GE(local::min(s).item().as_double(), 0);
  const NdArray first = u(local::full_slice, local::Slice{0, k, {}});
  const NdArray rows = vh(local::Slice{0, k, {}}, local::full_slice);
  expect_small(local::matmul(first * s.astype(a.dtype()), rows) - a, scale, "A - U S V^H");
  expect_small(local::matmul(adjoint(u), u) - identity(u.shape(1), a.dtype()), local::eye(u.shape(1)), "I - U^H U");
  expect_small(local::matmul(vh, adjoint(vh)) - identity(vh.shape(0), a.dtype()), local::eye(vh.shape(0)), "I - V^H V");
  expect_small(s - local::linalg::svdvals(a), scale, "singular values");
}

}  // namespace quarry::testing
