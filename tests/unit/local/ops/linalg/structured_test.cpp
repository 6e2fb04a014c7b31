// Systems by what is assumed of them, BLAS 3 by triangles, parts of spectra.
#include "quarry/local/ops/linalg/structured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quarry/local/local.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using linalg::Assumed;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Structured : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Structured);

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::complex64, DType::complex128};

NdArray drawn(const Dims& shape, DType dtype, int64_t seed = 3) {
  random::Generator numbers = random::default_rng(seed);
  const NdArray real = numbers.normal(0., 1., Ints(shape));
  if (!is_complex(dtype)) return real.astype(dtype);
  return (real + numbers.normal(0., 1., Ints(shape)) * Scalar(std::complex<double>(0, 1))).astype(dtype);
}
NdArray adjoint(const NdArray& a) { return conj(matrix_transpose(a)); }
double size_of(const NdArray& a) { return a.size() == 0 ? 0 : max(absolute(a)).astype(DType::float64).item<double>(); }
double epsilon(DType dtype) { return itemsize(real_type(dtype)) == 8 ? 0x1p-52 : 0x1p-23; }
// LAPACK's test ratio.
void expect_small(const NdArray& difference, double scale, int64_t n, DType dtype) {
  EXPECT_LT(size_of(difference), 30 * double(n) * epsilon(dtype) * std::max(scale, 1e-300));
}
NdArray with_noise(const NdArray& a, bool lower) {
  const NdArray noise = full(a.shape(), 77., a.dtype());
  return lower ? tril(a) + triu(noise, 1) : triu(a) + tril(noise, -1);
}

TEST_P(Structured, SolvesByWhatIsAssumed) {
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {1, 2, 7, 50}) {
      const NdArray x = drawn({n, n}, dtype);
      const NdArray positive = (matmul(x, adjoint(x)) + eye(n) * double(n)).astype(dtype);
      const std::pair<NdArray, Assumed> all[] = {
          {positive, Assumed::positive_definite},
          {((x + adjoint(x)) / 2.).astype(dtype), Assumed::hermitian},
          {((x + x.T()) / 2.).astype(dtype), Assumed::symmetric},
          // Blocks of two.
          {triu((x + adjoint(x)), 1) + tril(x + adjoint(x), -1), Assumed::hermitian},
          {x, Assumed::general}};
      for (const auto& [a, assume] : all) {
        if (n == 1 && size_of(a) == 0) continue;
        for (const bool lower : {true, false}) {
          for (const bool refine : {false, true}) {
            for (const Dims& shape : {Dims{n}, Dims{n, 3}}) {
              SCOPED_TRACE(::testing::Message() << name(dtype) << n << " " << int(assume) << lower << refine);
              const NdArray b = drawn(shape, dtype, 5);
              const NdArray given = assume == Assumed::general ? a : with_noise(a, lower);
              const NdArray got =
                  linalg::solve(given, b, {assume, lower ? Triangle::lower : Triangle::upper, /*check=*/false, refine});
              EXPECT_EQ(got.dtype(), dtype);
              EXPECT_EQ(got.shape(), shape);
              expect_small(matmul(a, got) - b, size_of(matmul(absolute(a), absolute(got))), n, dtype);
            }
          }
        }
      }
    }
  }
}

TEST_P(Structured, StacksBroadcast) {
  const NdArray x = drawn({2, 3, 5, 5}, DType::float64), b = drawn({3, 5, 2}, DType::float64, 4);
  const NdArray a = x + adjoint(x), positive = matmul(x, adjoint(x)) + eye(5);
  expect_small(matmul(a, linalg::solve(a, b, {Assumed::symmetric})) - b, 1e3, 5, DType::float64);
  expect_small(matmul(positive, linalg::solve(positive, b, {Assumed::positive_definite})) - b, 1e3, 5, DType::float64);
}

TEST_P(Structured, MistakesAreNamed) {
  const NdArray a = drawn({4, 4}, DType::float64), b = drawn({4}, DType::float64);
  EXPECT_THAT(
      [&] {
        linalg::solve(a, b, {Assumed::symmetric, Triangle::upper, /*check=*/true});
      },
      ThrowsMessage<LinAlgError>(HasSubstr("the matrix is not symmetric: elements differ")));
  EXPECT_THAT(
      [&] {
        linalg::solve(a.astype(DType::complex64), b, {Assumed::hermitian, Triangle::upper, true});
      },
      ThrowsMessage<LinAlgError>(HasSubstr("not Hermitian")));
  linalg::solve(a + a.T(), b, {Assumed::symmetric, Triangle::upper, /*check=*/true});
  EXPECT_THROW(linalg::solve(-eye(4), b, {Assumed::positive_definite}), LinAlgError);
  for (const bool refine : {false, true})
    EXPECT_THROW(linalg::solve(zeros({4, 4}), b, {Assumed::symmetric, Triangle::lower, false, refine}), LinAlgError);
  EXPECT_THROW(linalg::solve(zeros({4, 4}), b, {.refine = true}), LinAlgError);
  EXPECT_THROW(linalg::solve(a(Slice{0, 3, {}}), b, {Assumed::symmetric}), LinAlgError);
  EXPECT_THROW(linalg::solve(a, b(Slice{0, 3, {}}), {.refine = true}), InvalidArgument);
  EXPECT_THAT([&] { ops::solve_of(a, b, "banded"); }, ThrowsMessage<InvalidArgument>(HasSubstr("not 'banded'")));
  EXPECT_THROW(linalg::symm(a, b, 2), InvalidArgument);
  EXPECT_THROW(linalg::trmm(a, b, 0, false, 3), InvalidArgument);
  EXPECT_TRUE(all(isnan(linalg::solve(full({3, 3}, nan), ones({3}), {.refine = true}))).item<bool>());
}

// What single precision cannot hold or factor is solved without it.
TEST_P(Structured, RefinementFallsBack) {
  const int64_t n = 12;
  const NdArray i = arange(double(n));
  const NdArray hilbert = 1. / (expand_dims(i, 1) + i + 1.), b = ones({n});
  const NdArray large = drawn({n, n}, DType::float64) * 1e200;
  for (const NdArray& a : {hilbert, large}) {
    const NdArray x = linalg::solve(a, b, {.refine = true});
    EXPECT_TRUE(all(equal(x, linalg::solve(a, b))).item<bool>());  // LU in double precision
  }
}

TEST_P(Structured, ProductsReadOneTriangle) {
  for (const DType dtype : kDTypes) {
    const int64_t n = 23;
    const NdArray x = drawn({n, n}, dtype), b = drawn({n, 4}, dtype, 4), c = drawn({4, n}, dtype, 5);
    const NdArray symmetric = x + x.T(), hermitian = x + adjoint(x);
    const auto same = [&](const NdArray& got, const NdArray& wanted) {
      EXPECT_EQ(got.shape(), wanted.shape());
      expect_small(got - wanted, 20, n, dtype);
    };
    for (const bool lower : {true, false}) {
      same(linalg::symm(with_noise(symmetric, lower), b, 0, lower), matmul(symmetric, b));
      same(linalg::symm(with_noise(symmetric, lower), c, 1, lower), matmul(c, symmetric));
      same(linalg::hemm(with_noise(hermitian, lower), b, 0, lower), matmul(hermitian, b));
      same(linalg::hemm(with_noise(hermitian, lower), c, 1, lower), matmul(c, hermitian));
      const NdArray t = lower ? tril(x) : triu(x), unit = t - diag(diagonal(t)) + eye(n).astype(dtype);
      same(linalg::trmm(x, b, 0, lower), matmul(t, b));
      same(linalg::trmm(x, c, 1, lower, 1), matmul(c, t.T()));
      same(linalg::trmm(x, b, 0, lower, 2, /*unit_diagonal=*/true), matmul(adjoint(unit), b));
    }
    same(linalg::syrk(b), matmul(b, b.T()));
    same(linalg::herk(b, /*trans=*/true), matmul(adjoint(b), b));
  }
}

TEST_P(Structured, PartsOfASpectrum) {
  for (const DType dtype : kDTypes) {
    for (const int64_t n : {1, 2, 9, 60}) {
      for (const bool stack : {false, true}) {
        SCOPED_TRACE(::testing::Message() << name(dtype) << " " << n << stack);
        const NdArray x = drawn(stack ? Dims{3, n, n} : Dims{n, n}, dtype), a = (x + adjoint(x)).astype(dtype);
        const double scale = size_of(a) * double(n);
        for (const char* uplo : {"L", "U"}) {
          const NdArray given = with_noise(a, *uplo == 'L'), all = linalg::eigvalsh(a);
          const auto expect = [&](const linalg::EighResult& got, int64_t first, int64_t count) {
            ASSERT_EQ(got.eigenvalues.shape(-1), count);
            ASSERT_EQ(got.eigenvectors.shape(-1), count);
            ASSERT_EQ(got.eigenvectors.shape(-2), n);
            const NdArray& v = got.eigenvectors;
            expect_small(got.eigenvalues - all[{ellipsis, Slice{first, first + count, 1}}], scale, n, dtype);
            const NdArray w = expand_dims(got.eigenvalues, -2);
            expect_small(matmul(a, v) - v * w.astype(dtype), scale, n, dtype);
            expect_small(matmul(adjoint(v), v) - eye(count), 1, n, dtype);
          };
          for (const auto& [first, last] :
               {std::pair<int64_t, int64_t>{0, 0}, {0, n - 1}, {n / 2, n - 1}, {n / 3, n / 2}}) {
            expect(linalg::eigh(given, linalg::ByIndex{first, last}, uplo), first, last - first + 1);
            expect_small(linalg::eigvalsh(given, linalg::ByIndex{first, last}, uplo) -
                             all[{ellipsis, Slice{first, last + 1, 1}}],
                         scale, n, dtype);
          }
          if (stack) continue;
          const std::vector<double> w = to_vector<double>(all.astype(DType::float64));
          const double middle = n == 1 ? w[0] - 1 : (w[size_t(n) / 2 - 1] + w[size_t(n) / 2]) / 2;
          expect(linalg::eigh(given, linalg::ByValue{-inf, middle}, uplo), 0, n == 1 ? 0 : n / 2);
          expect(linalg::eigh(given, linalg::ByValue{middle, inf}, uplo), n == 1 ? 0 : n / 2, n == 1 ? 1 : n - n / 2);
          expect(linalg::eigh(given, linalg::ByValue{w.back() + 1, w.back() + 2}, uplo), 0, 0);
          // The generalized problem.
          const NdArray b = (matmul(x, adjoint(x)) + eye(n)).astype(dtype);
          const auto whole = linalg::eigh(a, b),
                     part = linalg::eigh(a, b, true, 1, true, linalg::ByIndex{n / 2, n - 1});
          expect_small(part.eigenvalues - whole.eigenvalues(Slice{n / 2, {}, 1}), scale, n, dtype);
          const NdArray v = part.eigenvectors;
          expect_small(matmul(adjoint(v), matmul(b, v)) - eye(n - n / 2), size_of(b), n, dtype);
        }
      }
    }
  }
}

TEST_P(Structured, PartsThatAreNone) {
  const NdArray a = eye(3);
  for (const linalg::ByIndex& index : {linalg::ByIndex{-1, 1}, {2, 1}, {0, 3}})
    EXPECT_THAT([&] { linalg::eigh(a, index); },
                ThrowsMessage<InvalidArgument>(HasSubstr("Valid range is [0, 2] and start <= end")));
  for (const linalg::ByValue& range : {linalg::ByValue{1, 1}, {2, 1}, {nan, 1}})
    EXPECT_THROW(linalg::eigvalsh(a, range), InvalidArgument);
  EXPECT_THROW(linalg::eigh(ones({2, 3, 3}), linalg::ByValue{0, 1}), InvalidArgument);
  EXPECT_THROW(linalg::eigh(ones({2, 3}), linalg::ByIndex{0, 0}), LinAlgError);
  EXPECT_THROW(linalg::eigh(full({2, 2}, nan), linalg::ByIndex{0, 0}), LinAlgError);
  EXPECT_THROW(
      ops::eigh_of(a, std::string("L"), {}, {}, false, 1, true, std::pair<int64_t, int64_t>{0, 0}, std::pair{0., 1.}),
      InvalidArgument);
}

}  // namespace
}  // namespace quarry::local
