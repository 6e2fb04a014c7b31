// Matrices that are decomposed by small tiles, and what the functions of local arrays make of them: a row each, for
// tests on one rank and on several.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/api/tiled.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/local.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "tests/support/evaluate.h"

namespace quarry::testing {

using local::DType;
using local::NdArray;
using NdArrays = std::vector<NdArray>;

// While it lives, tiles have a few elements, and panels a few columns of matrices of some ten rows.
inline ChunkPolicy small_tiles(local::DeviceKind device) { return {device, {}, /*target_bytes=*/512}; }

inline NdArray random_matrix(const Dims& shape, DType dtype, int64_t seed = 3) {
  local::random::Generator numbers = local::random::default_rng(seed);
  const NdArray real = numbers.normal(0., 1., Ints(shape));
  if (!local::is_complex(dtype)) return real.astype(dtype);
  return (real + numbers.normal(0., 1., Ints(shape)) * local::Scalar(std::complex<double>(0, 1))).astype(dtype);
}
inline NdArray adjoint(const NdArray& a) { return local::conj(a.T()); }
inline NdArray identity(int64_t n, DType dtype) { return local::eye(n).astype(dtype); }
inline NdArray positive_definite(int64_t n, DType dtype) {
  const NdArray a = random_matrix({n, n}, dtype);
  return (local::matmul(a, adjoint(a)) + local::eye(n) * double(n)).astype(dtype);
}
// Uneven chunks.
inline Array cut(const NdArray& a) {
  Dims chunk = a.shape();
  for (int d = 0; d < chunk.size(); ++d) chunk[d] = std::max<int64_t>(1, (chunk[d] + 2) / 3);
  return Array::from_local(a).rechunk(chunk);
}

struct TileCase {
  std::vector<Array> chunked;
  // That the values of `chunked` are right, by residuals that are small numbers of roundings.
  std::function<void(const NdArrays& values)> check;
};
struct TileRow {
  const char* name;
  TileCase (*make)(int64_t m, int64_t n, DType dtype);
  bool exact;  // no sums beside those of tiles: the bits are those of the loop on whole arrays
};
// Blocks of rows follow the chunks of a tall matrix, which whole arrays have not.
inline bool is_exact(const TileRow& row, int64_t m, int64_t n) {
  const bool by_blocks = std::string_view(row.name) == "qr" && m >= n &&
                         linalg::tiled::is_tall(zeros(Dims{m, n}, DType::float64), DType::float64);
  return row.exact && !by_blocks;
}

// |a| / (|b| size eps), in Frobenius' norm: LAPACK's test ratio.
inline double ratio(const NdArray& a, const NdArray& b, int64_t size) {
  const auto norm = [](const NdArray& x) {
    const double sum = local::sum(local::square(local::absolute(x))).item().as_double();
    return std::sqrt(sum);
  };
  const DType real = local::real_type(a.dtype());
  const double eps = real == DType::float32 ? 0x1p-23 : 0x1p-52;
  return norm(a) / (std::max(norm(b), 1e-300) * static_cast<double>(std::max<int64_t>(size, 1)) * eps);
}
inline void expect_small(const NdArray& difference, const NdArray& scale, const char* what) {
  const int64_t size = std::max<int64_t>(scale.shape().empty() ? 1 : scale.shape()[0], 1);
  EXPECT_LT(ratio(difference, scale, size), 30) << what;
}

namespace tile_rows_detail {

inline TileCase choleskys(int64_t /*m*/, int64_t n, DType dtype) {
  const NdArray a = positive_definite(n, dtype);
  // Only one triangle is read.
  const NdArray lower = (local::tril(a) + local::triu(random_matrix({n, n}, dtype, 7), 1)).astype(dtype);
  const NdArray upper = (local::triu(a) + local::tril(random_matrix({n, n}, dtype, 8), -1)).astype(dtype);
  return {{linalg::cholesky(cut(lower)), linalg::cholesky(cut(upper), /*upper=*/true)}, [a](const NdArrays& values) {
            const NdArray &l = values[0], &u = values[1];
            expect_small(local::matmul(l, adjoint(l)) - a, a, "A - L L^H");
            expect_small(local::matmul(adjoint(u), u) - a, a, "A - U^H U");
            EXPECT_TRUE(local::all(local::triu(l, 1) == 0).item<bool>());
            EXPECT_TRUE(local::all(local::tril(u, -1) == 0).item<bool>());
          }};
}

inline TileCase solutions(int64_t m, int64_t n, DType dtype) {
  const NdArray a = random_matrix({n, n}, dtype), b = random_matrix({n, m}, dtype, 5), v = random_matrix({n}, dtype, 6);
  return {{linalg::solve(cut(a), cut(b)), linalg::solve(cut(a), cut(v)), linalg::inv(cut(a))},
          [a, b, v, n](const NdArrays& values) {
            const NdArray scale =
                local::expand_dims(local::absolute(a).sum(), 0) * local::max(local::absolute(values[2]));
            expect_small(local::matmul(a, values[0]) - b, local::matmul(local::absolute(a), local::absolute(values[0])),
                         "A X - B");
            expect_small(local::matmul(a, values[1]) - v, local::matmul(local::absolute(a), local::absolute(values[1])),
                         "A x - b");
            expect_small(local::matmul(a, values[2]) - identity(n, a.dtype()), scale * local::eye(n), "A A^-1 - I");
          }};
}

inline TileCase determinants(int64_t /*m*/, int64_t n, DType dtype) {
  // Of a determinant near 1, for any n.
  const double scale = std::sqrt(std::exp(1.) / static_cast<double>(std::max<int64_t>(n, 3)));
  const NdArray a = (random_matrix({n, n}, dtype) * scale).astype(dtype);
  const auto [sign, logarithm] = linalg::slogdet(cut(a));
  return {{sign, logarithm, linalg::det(cut(a))}, [a](const NdArrays& values) {
            const double bound = local::real_type(a.dtype()) == DType::float32 ? 1e-3 : 1e-9;
            const auto expected = local::linalg::slogdet(a);
            EXPECT_TRUE(close(values[0], expected.sign, bound, bound)) << values[0].repr() << expected.sign.repr();
            EXPECT_TRUE(close(values[1], expected.logabsdet, bound, bound));
            EXPECT_TRUE(close(values[2], local::linalg::det(a), 10 * bound, bound));
          }};
}

inline TileCase lus(int64_t m, int64_t n, DType dtype) {
  const NdArray a = random_matrix({m, n}, dtype);
  const auto [p, l, u] = linalg::lu(cut(a));
  const std::vector<Array> by_places = linalg::lu(cut(a), /*permute_l=*/false, /*p_indices=*/true);
  const auto [pl, again] = linalg::lu(cut(a), linalg::permute_l);
  return {{p, l, u, by_places[0], pl, again}, [a](const NdArrays& values) {
            const NdArray &lower = values[1], &upper = values[2];
            expect_small(local::matmul(values[0].astype(a.dtype()), local::matmul(lower, upper)) - a, a, "A - P L U");
            expect_small(local::matmul(values[4], values[5]) - a, a, "A - (P L) U");
            EXPECT_TRUE(local::all(local::triu(lower, 1) == 0).item<bool>());
            EXPECT_TRUE(local::all(local::diagonal(lower) == 1).item<bool>());
            EXPECT_TRUE(local::all(local::tril(upper, -1) == 0).item<bool>());
            // LAPACK's pivots.
            const NdArray place = local::ops::lu(a, false, false, true, /*p_indices=*/true)[0];
            EXPECT_TRUE(local::all(values[3] == place).item<bool>()) << values[3].repr() << place.repr();
          }};
}

inline TileCase qrs(int64_t m, int64_t n, DType dtype) {
  const NdArray a = random_matrix({m, n}, dtype);
  const auto [q, r] = linalg::qr(cut(a));
  const auto [whole, below] = linalg::qr(cut(a), linalg::complete);
  return {{q, r, linalg::qr(cut(a), linalg::r_only), whole, below}, [a, m](const NdArrays& values) {
            for (const size_t i : {size_t{0}, size_t{3}}) {
              const NdArray &q = values[i], &r = values[i + 1];
              expect_small(local::matmul(q, r) - a, a, "A - Q R");
              expect_small(local::matmul(adjoint(q), q) - identity(q.shape(1), q.dtype()), local::eye(m), "I - Q^H Q");
              EXPECT_TRUE(local::all(local::tril(r, -1) == 0).item<bool>());
            }
            expect_small(local::absolute(values[2]) - local::absolute(values[1]), a, "R alone");
          }};
}

inline TileCase triangles(int64_t m, int64_t n, DType dtype) {
  const NdArray b = random_matrix({n, m}, dtype, 5), v = random_matrix({n}, dtype, 6);
  const NdArray t = (random_matrix({n, n}, dtype) + local::eye(n) * double(2 * n)).astype(dtype);
  std::vector<Array> results;
  std::vector<NdArray> matrices, sides;
  for (const bool lower : {true, false}) {
    for (const bool unit : {false, true}) {
      for (const int64_t trans : {0, 1, 2}) {
        NdArray part = lower ? local::tril(t, unit ? -1 : 0) : local::triu(t, unit ? 1 : 0);
        if (unit) part = (part / double(2 * n) + local::eye(n)).astype(dtype);
        const NdArray of = trans == 0 ? part : trans == 1 ? part.T() : adjoint(part);
        // The other triangle, and a diagonal of ones, are not read.
        const NdArray noise = random_matrix({n, n}, dtype, 9);
        NdArray given = (part + (lower ? local::triu(noise, 1) : local::tril(noise, -1))).astype(dtype);
        if (unit) given = (given + local::eye(n) * 3.).astype(dtype);
        results.push_back(linalg::solve_triangular(cut(given), cut(trans == 1 ? v : b), trans, lower, unit));
        matrices.push_back(of);
        sides.push_back(trans == 1 ? v : b);
      }
    }
  }
  return {results, [matrices, sides](const NdArrays& values) {
            for (size_t i = 0; i < values.size(); ++i)
              expect_small(local::matmul(matrices[i], values[i]) - sides[i],
                           local::matmul(local::absolute(matrices[i]), local::absolute(values[i])), "T x - b");
          }};
}

// The triangle of a matrix that is read, and random numbers in the other one.
inline NdArray with_noise(const NdArray& a, bool lower, DType dtype) {
  const NdArray noise = random_matrix(a.shape(), dtype, 9);
  return (lower ? local::tril(a) + local::triu(noise, 1) : local::triu(a) + local::tril(noise, -1)).astype(dtype);
}

inline TileCase assumed_solutions(int64_t m, int64_t n, DType dtype) {
  using linalg::Assumed;
  const NdArray b = random_matrix({n, m}, dtype, 5), v = random_matrix({n}, dtype, 6), x = random_matrix({n, n}, dtype);
  std::vector<Array> results;
  std::vector<NdArray> matrices, sides;
  const auto add = [&](const NdArray& a, const NdArray& side, bool lower, Assumed assume, bool refine) {
    const local::Triangle triangle = lower ? local::Triangle::lower : local::Triangle::upper;
    const NdArray given = assume == Assumed::general ? a : with_noise(a, lower, dtype);
    results.push_back(linalg::solve(cut(given), cut(side), {assume, triangle, /*check=*/false, refine}));
    matrices.push_back(a);
    sides.push_back(side);
  };
  const NdArray positive = positive_definite(n, dtype), symmetric = ((x + x.T()) * 0.5).astype(dtype),
                hermitian = ((x + adjoint(x)) * 0.5).astype(dtype);
  // A positive diagonal does not make a matrix positive definite.
  const NdArray tempting = (hermitian * (local::eye(n) * -1. + 1.) + local::eye(n) * 0.01).astype(dtype);
  for (const bool lower : {true, false}) {
    for (const bool refine : {false, true}) add(positive, b, lower, Assumed::positive_definite, refine);
    add(positive, v, lower, Assumed::hermitian, false);
    add(hermitian, b, lower, Assumed::hermitian, false);
    add(tempting, v, lower, Assumed::hermitian, false);
    add(symmetric, v, lower, Assumed::symmetric, false);
    add(hermitian, b, lower, Assumed::hermitian, true);
  }
  const NdArray dominant = (x + local::eye(n) * double(n)).astype(dtype);
  add(dominant, b, true, Assumed::general, true);
  add(dominant, v, true, Assumed::general, true);
  return {results, [matrices, sides](const NdArrays& values) {
            for (size_t i = 0; i < values.size(); ++i) {
              SCOPED_TRACE(i);
              expect_small(local::matmul(matrices[i], values[i]) - sides[i],
                           local::matmul(local::absolute(matrices[i]), local::absolute(values[i])), "A x - b");
            }
          }};
}

inline TileCase triangle_products(int64_t m, int64_t n, DType dtype) {
  const NdArray x = random_matrix({n, n}, dtype), left = random_matrix({n, m}, dtype, 5),
                right = random_matrix({m, n}, dtype, 6), v = random_matrix({n}, dtype, 7);
  const NdArray symmetric = (x + x.T()).astype(dtype), hermitian = (x + adjoint(x)).astype(dtype);
  std::vector<Array> results;
  std::vector<NdArray> wanted, scales;
  const auto expect = [&](const Array& result, const NdArray& a, const NdArray& b) {
    results.push_back(result);
    wanted.push_back(local::matmul(a, b));
    scales.push_back(local::matmul(local::absolute(a), local::absolute(b)));
  };
  for (const bool lower : {true, false}) {
    const Array s = cut(with_noise(symmetric, lower, dtype)), h = cut(with_noise(hermitian, lower, dtype));
    expect(linalg::symm(s, cut(left), 0, lower), symmetric, left);
    expect(linalg::symm(s, cut(right), 1, lower), right, symmetric);
    expect(linalg::symm(s, cut(v), 1, lower), v, symmetric);
    expect(linalg::hemm(h, cut(left), 0, lower), hermitian, left);
    expect(linalg::hemm(h, cut(right), 1, lower), right, hermitian);
    expect(linalg::hemm(h, cut(v), 1, lower), v, hermitian);
    for (const bool unit : {false, true}) {
      NdArray t = lower ? local::tril(x) : local::triu(x);
      if (unit) t = (t - local::diag(local::diagonal(t)) + local::eye(n)).astype(dtype);
      const Array given = cut(x);
      for (const int64_t trans : {0, 1, 2}) {
        const NdArray of = trans == 0 ? t : trans == 1 ? t.T() : adjoint(t);
        expect(linalg::trmm(given, cut(left), 0, lower, trans, unit), of, left);
        expect(linalg::trmm(given, cut(right), 1, lower, trans, unit), right, of);
      }
    }
  }
  expect(linalg::syrk(cut(left)), left, left.T());
  expect(linalg::herk(cut(left), /*trans=*/true), adjoint(left), left);
  return {results, [wanted, scales](const NdArrays& values) {
            for (size_t i = 0; i < values.size(); ++i) {
              SCOPED_TRACE(i);
              EXPECT_EQ(values[i].shape(), wanted[i].shape());
              EXPECT_EQ(values[i].dtype(), wanted[i].dtype());
              expect_small(values[i] - wanted[i], scales[i], "product");
            }
          }};
}

inline TileCase singular_values(int64_t m, int64_t n, DType dtype) {
  const NdArray a = random_matrix({m, n}, dtype);
  const auto [u, s, vh] = linalg::svd(cut(a), /*full_matrices=*/false);
  return {{u, s, vh, linalg::svdvals(cut(a))}, [a](const NdArrays& values) {
            const NdArray &u = values[0], &s = values[1], &vh = values[2];
            expect_small(local::matmul(u * s, vh) - a, a, "A - U S V^H");
            expect_small(local::matmul(adjoint(u), u) - identity(u.shape(1), u.dtype()), local::eye(a.shape(0)),
                         "I - U^H U");
            expect_small(values[3] - local::linalg::svdvals(a), local::linalg::svdvals(a), "singular values");
          }};
}

}  // namespace tile_rows_detail

inline const std::vector<TileRow>& tile_rows() {
  namespace rows = tile_rows_detail;
  static const std::vector<TileRow> all = {{"cholesky", rows::choleskys, true},
                                           {"solve", rows::solutions, true},
                                           {"det", rows::determinants, false},
                                           {"lu", rows::lus, true},
                                           {"qr", rows::qrs, true},
                                           {"solve_triangular", rows::triangles, true},
                                           {"svd", rows::singular_values, false},
                                           {"solve_assumed", rows::assumed_solutions, false},
                                           {"triangle_products", rows::triangle_products, false}};
  return all;
}

// Sizes that tiles of eight do not divide, tiles as large as the matrix, wide and tall ones, rows and columns.
inline const std::vector<std::pair<int64_t, int64_t>>& tile_sizes() {
  static const std::vector<std::pair<int64_t, int64_t>> sizes = {{1, 1},   {3, 17},  {40, 24}, {24, 40}, {61, 5},
                                                                 {33, 33}, {130, 7}, {1, 70},  {70, 1}};
  return sizes;
}

}  // namespace quarry::testing
