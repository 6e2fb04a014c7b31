// Factors that are kept, functions of matrices and matrices of a given structure, beside those of one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/chunked_values.h"
#include "tests/support/evaluate.h"
#include "tests/support/on_devices.h"
#include "tests/support/runtime_on.h"

namespace quarry {
namespace {

constexpr int64_t kSmall = 5, kLarge = 210;  // the latter by tiles, of which no edge divides it

NdArray numbers(const Dims& shape, DType dtype = DType::float64) {
  const NdArray re = local::random::default_rng(5).normal(0., 1., local::Ints(shape));
  if (!local::is_complex(dtype)) return re.astype(dtype);
  const NdArray im = local::random::default_rng(6).normal(0., 1., local::Ints(shape));
  return (re.astype(DType::complex128) + im.astype(DType::complex128) * Scalar(std::complex<double>(0, 1)))
      .astype(dtype);
}
NdArray positive(int64_t n, DType dtype = DType::float64) {
  const NdArray x = numbers({n, n}, dtype);
  return local::matmul(x, local::conjugate(x.T())) + local::eye(n).astype(dtype) * Scalar(n);
}
Array cut(const NdArray& array, int64_t chunk) {
  Dims chunks = array.shape();
  for (int d = 0; d < chunks.size(); ++d) chunks[d] = std::clamp<int64_t>(chunks[d], 1, chunk);
  return Array::from_local(array).rechunk(chunks);
}
void expect_close(const Array& got, const NdArray& expected, double bound = 1e-9) {
  const NdArray values = got.to_host();
  ASSERT_EQ(local::to_string(values.shape()), local::to_string(expected.shape()));
  EXPECT_EQ(local::name(values.dtype()), local::name(expected.dtype()));
  EXPECT_TRUE(testing::close(values, expected, bound, bound)) << values.repr() << "\nexpected\n" << expected.repr();
}
void expect_small(const Array& error, double bound = 1e-9) { EXPECT_LT(max(absolute(error)).item<double>(), bound); }
double bound_of(DType dtype) { return local::itemsize(local::real_type(dtype)) == 4 ? 2e-3 : 1e-9; }

class Factors : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  const Runtime runtime_{testing::runtime_on(GetParam())};
  const ChunkPolicyScope small_{testing::small_chunks(64 * 64 * 8)};
};
QUARRY_ON_DEVICE_KINDS(Factors);

TEST_P(Factors, OfLuSolveManySystems) {
  for (const DType dtype : {DType::float64, DType::float32, DType::complex64, DType::complex128}) {
    for (const int64_t n : {int64_t{1}, kSmall, kLarge}) {
      SCOPED_TRACE(local::name(dtype) + (" " + std::to_string(n)));
      const NdArray a = numbers({n, n}, dtype), b = numbers({n, 3}, dtype), v = numbers({n}, dtype);
      const auto [both, swaps] = linalg::lu_factor(cut(a, 64));
      const auto [expected, expected_swaps] = local::linalg::lu_factor(a);
      expect_close(both, expected, 100 * bound_of(dtype));
      EXPECT_EQ(swaps.to_host().repr(), expected_swaps.to(local::kCpu).repr());
      for (const int64_t trans : {0, 1, 2}) {
        const Array op = trans == 0 ? cut(a, 64) : trans == 1 ? cut(a, 64).T() : conj(cut(a, 64).T());
        const Array x = linalg::lu_solve({both, swaps}, cut(b, 2), trans);
        EXPECT_EQ(x.shape(), b.shape());
        expect_small(matmul(op, x) - cut(b, 2), 100 * bound_of(dtype));
        expect_small(matmul(op, linalg::lu_solve({both, swaps}, cut(v, 64), trans)) - cut(v, 64),
                     100 * bound_of(dtype));
      }
    }
  }
}

TEST_P(Factors, ComputeNothingUntilTheyAreAskedFor) {
  const Array a = cut(positive(kLarge), 64), b = cut(numbers({kLarge, 3}), 64);
  const int64_t before = Runtime::current().total_statistics().tasks;
  const auto factors = linalg::lu_factor(a);
  const std::vector<Array> all{linalg::lu_solve(factors, b), linalg::lu_solve(factors, b, 1),
                               linalg::cho_solve(linalg::cho_factor(a), b)};
  EXPECT_EQ(Runtime::current().total_statistics().tasks, before);
  persist(all);
  EXPECT_GT(Runtime::current().total_statistics().tasks, before);
}

TEST_P(Factors, OfLuMayHaveOtherShapes) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{kLarge, 90}, {90, kLarge}, {7, 3}, {3, 7}, {1, 4}}) {
    SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n));
    const NdArray a = numbers({m, n});
    const auto [both, swaps] = linalg::lu_factor(cut(a, 64));
    const auto [expected, expected_swaps] = local::linalg::lu_factor(a);
    expect_close(both, expected, 1e-8);
    EXPECT_EQ(swaps.to_host().repr(), expected_swaps.to(local::kCpu).repr());
  }
  const NdArray stack = numbers({4, kSmall, kSmall}), sides = numbers({4, kSmall, 2});
  const auto factors = linalg::lu_factor(cut(stack, 3));
  EXPECT_EQ(factors.second.shape(), (Dims{4, kSmall}));
  expect_small(matmul(cut(stack, 3), linalg::lu_solve(factors, cut(sides, 3))) - cut(sides, 3));
  EXPECT_EQ(linalg::lu_factor(quarry::zeros({0, 0})).second.shape(), (Dims{0}));
}

TEST_P(Factors, OfCholeskySolveManySystems) {
  for (const DType dtype : {DType::float64, DType::complex64}) {
    for (const int64_t n : {int64_t{1}, kSmall, kLarge}) {
      for (const bool lower : {false, true}) {
        const NdArray a = positive(n, dtype), b = numbers({n, 3}, dtype);
        const auto factor = linalg::cho_factor(cut(a, 64), lower);
        EXPECT_EQ(factor.second, lower);
        expect_close(factor.first, local::linalg::cho_factor(a, lower).first, bound_of(dtype) * 10);
        expect_small(matmul(cut(a, 64), linalg::cho_solve(factor, cut(b, 2))) - cut(b, 2), 10 * bound_of(dtype));
      }
    }
  }
}

TEST_P(Factors, SayWhatIsWrong) {
  for (const int64_t n : {kSmall, kLarge}) {
    const NdArray a = numbers({n, n});
    const auto factors = linalg::lu_factor(cut(a, 64));
    EXPECT_THROW(linalg::lu_solve(factors, quarry::ones({n + 1})), local::Error);
    EXPECT_THROW(linalg::lu_solve(factors, quarry::ones({n}), 3), local::InvalidArgument);
    EXPECT_THROW(linalg::lu_solve({factors.first, quarry::zeros({n + 1}, DType::int32)}, quarry::ones({n})),
                 local::InvalidArgument);
    EXPECT_THROW(linalg::lu_solve({factors.first, factors.second + n}, quarry::ones({n})).to_host(),
                 local::InvalidArgument);
    EXPECT_THROW(linalg::lu_factor(cut(a, 64) * nan).first.to_host(), local::InvalidArgument);
    EXPECT_THROW(linalg::lu_solve(factors, quarry::full({n}, nan)).to_host(), local::InvalidArgument);
    EXPECT_THROW(linalg::cho_factor(cut(a - a, 64)).first.to_host(), local::LinAlgError);
    EXPECT_THROW(linalg::sqrtm(cut(a, 64)), local::InvalidArgument);
  }
  EXPECT_THROW(linalg::expm(quarry::ones({2, 3})), local::LinAlgError);
  EXPECT_THROW(linalg::expm(quarry::ones({kLarge, 2 * kLarge})), local::LinAlgError);
  EXPECT_THROW(linalg::tensorinv(quarry::ones({2, 2}), 0), local::InvalidArgument);
  EXPECT_THROW(linalg::tensorsolve(quarry::ones({2, 3}), quarry::ones({2})), local::LinAlgError);
  EXPECT_THROW(linalg::schur(quarry::ones({2, 2}), "imaginary"), local::InvalidArgument);
}

TEST_P(Factors, OfOneDeviceAreThoseOfOneProcess) {
  const NdArray a = numbers({2, 6, 6}), symmetric = a + local::matrix_transpose(a), b = numbers({6, 2});
  const auto [t, z] = linalg::schur(cut(a, 4));
  expect_small(matmul(matmul(z, t), matrix_transpose(z)) - cut(a, 4));
  EXPECT_EQ(linalg::schur(cut(a, 4), "complex").first.dtype(), DType::complex128);
  const auto [factor, d, order] = linalg::ldl(cut(symmetric, 4));
  expect_small(matmul(matmul(factor, d), matrix_transpose(factor)) - cut(symmetric, 4));
  EXPECT_EQ(order.to_host().repr(), std::get<2>(local::linalg::ldl(symmetric)).to(local::kCpu).repr());
  const NdArray band = numbers({3, 6}) + Scalar(4) * local::reshape(local::from_vector<double>({0, 1, 0}), {3, 1});
  expect_close(linalg::solve_banded({1, 1}, cut(band, 2), cut(b, 2)), local::linalg::solve_banded({1, 1}, band, b));
  const NdArray upper = local::stack({local::full({6}, 0.5), local::full({6}, 3.0)});
  expect_close(linalg::solveh_banded(cut(upper, 2), cut(b, 2)), local::linalg::solveh_banded(upper, b));
  const NdArray c = local::from_vector<double>({6, 1, 2, 0, 1, 1}), r = local::from_vector<double>({6, 2, 1, 1, 0, 3});
  expect_close(linalg::solve_toeplitz(std::pair(cut(c, 2), cut(r, 2)), cut(b, 2)),
               local::linalg::solve_toeplitz(std::pair(c, r), b));
  expect_close(linalg::solve_toeplitz(cut(c, 2), cut(b, 2)), local::linalg::solve_toeplitz(c, b));
}

TEST_P(Factors, ExponentialsAndRootsAreThoseOfOneProcess) {
  for (const DType dtype : {DType::float64, DType::float32, DType::complex128}) {
    for (const int64_t n : {int64_t{1}, kSmall, kLarge}) {
      SCOPED_TRACE(local::name(dtype) + (" " + std::to_string(n)));
      // Of a norm that needs no scaling, and of one that does.
      const NdArray a = numbers({n, n}, dtype) / Scalar::strong(std::sqrt(double(n)), dtype);
      const NdArray expected = local::linalg::expm(a), tenth = a * Scalar::strong(0.01, dtype);
      expect_close(linalg::expm(cut(a, 64)), expected, bound_of(dtype));
      expect_close(linalg::expm(cut(tenth, 64)), local::linalg::expm(tenth), bound_of(dtype));
      const NdArray spd = positive(n, dtype) / Scalar::strong(double(n), dtype);
      const Array root = linalg::sqrtm(cut(spd, 64));
      EXPECT_EQ(root.dtype(), dtype);
      expect_small(matmul(root, root) - cut(spd, 64), bound_of(dtype));
    }
  }
  const NdArray mixed = local::diag(local::from_vector<double>({4, -9, 0}));
  const Array root = linalg::sqrtm(cut(mixed, 2));
  EXPECT_EQ(root.dtype(), DType::complex128);
  expect_small(matmul(root, root) - cut(mixed, 2));
  const NdArray stack = numbers({3, kSmall, kSmall});
  expect_close(linalg::expm(cut(stack, 2)), local::linalg::expm(stack));
  EXPECT_EQ(linalg::sqrtm(quarry::zeros({0, 0})).to_host().shape(), (Dims{0, 0}));
  EXPECT_EQ(linalg::expm(quarry::zeros({0, 0})).to_host().shape(), (Dims{0, 0}));
  EXPECT_TRUE(all(isnan(linalg::expm(cut(local::full({kLarge, kLarge}, NAN), 64)))).item<bool>());
}

TEST_P(Factors, MatricesOfStructureAreThoseOfOneProcess) {
  const NdArray a = numbers({70, 3}), b = numbers({2, 90}), v = numbers({4});
  expect_close(linalg::block_diag({cut(a, 40), cut(b, 64), cut(v, 3), Array::from_local(local::full({}, 2.5))}),
               local::linalg::block_diag({a, b, v, local::full({}, 2.5)}));
  const NdArray stack = numbers({2, 1, 3, 2}), other = numbers({5, 1, 4}), none = numbers({0, 3});
  expect_close(linalg::block_diag({cut(stack, 2), cut(other, 2)}), local::linalg::block_diag({stack, other}));
  expect_close(linalg::block_diag({cut(v, 2), cut(none, 2), cut(v, 2)}), local::linalg::block_diag({v, none, v}));
  EXPECT_EQ(linalg::block_diag({}).shape(), (Dims{1, 0}));
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{300, 170}, {3, 400}, {5, 1}, {1, 1}, {0, 2}, {2, 0}}) {
    const NdArray c = numbers({m}), r = numbers({n}) + Scalar(2);
    const Array made = linalg::toeplitz(cut(c, 70), cut(r, 90));
    expect_close(made, local::linalg::toeplitz(c, r), 0);
    if (m == 300) {
      EXPECT_GT(made.chunks().count(), 4);
    }
  }
  const NdArray z = numbers({9}, DType::complex128);
  expect_close(linalg::toeplitz(cut(z, 4)), local::linalg::toeplitz(z), 0);
  const NdArray tensor = numbers({4, 6, 8, 3}), sides = numbers({4, 6});
  expect_close(linalg::tensorinv(cut(tensor, 4)), local::linalg::tensorinv(tensor), 1e-7);
  expect_close(linalg::tensorsolve(cut(tensor, 4), cut(sides, 4)), local::linalg::tensorsolve(tensor, sides), 1e-7);
  // Axis 0 goes last: the system has the axes (3, 4) and the unknowns (2, 6).
  const NdArray turned = numbers({6, 3, 4, 2}), given = numbers({3, 4});
  expect_close(linalg::tensorsolve(cut(turned, 2), cut(given, 2), local::Ints({0})),
               local::linalg::tensorsolve(turned, given, local::Ints({0})), 1e-7);
}

}  // namespace
}  // namespace quarry
