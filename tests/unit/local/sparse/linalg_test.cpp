// Solvers and eigensolvers by their residuals, on matrices whose answers are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/sparse/sparse.h"
#include "tests/support/on_devices.h"

namespace quarry::local::sparse::linalg {
namespace {

class SparseLinalg : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(SparseLinalg);

NdArray reals(const std::vector<double>& values) { return from_vector(values); }
double size_of(const NdArray& x) { return std::sqrt(ops::sum(ops::square(ops::absolute(x))).item().as_double()); }
NdArray normal(const Ints& shape, DType dtype = DType::float64, uint64_t seed = 5) {
  Generator generator(seed);
  NdArray real = generator.standard_normal(shape, real_type(dtype));
  if (!is_complex(dtype)) return real;
  NdArray result(real.shape(), dtype);
  result.real().assign(real);
  result.imag().assign(generator.standard_normal(shape, real_type(dtype)));
  return result;
}
// Second differences along two axes.
SparseArray laplacian(int64_t side, DType dtype = DType::float64) {
  const NdArray two = reals({2}), minus = reals({-1});
  const SparseArray line = diags({two, minus, minus}, {0, -1, 1}, Dims{side, side}, Format::csr);
  return kronsum(line, line, Format::csr).astype(dtype);
}
// Neither symmetric nor far from the identity.
SparseArray unsymmetric(int64_t n, DType dtype) {
  return (random(n, n, 5.0 / static_cast<double>(n), Format::csr, dtype, Generator(7)) +
          identity(n, dtype, Format::csr) * Scalar(5))
      .astype(dtype);
}
double relative_residual(const SparseArray& a, const NdArray& x, const NdArray& b) {
  return size_of(b - sparse::matmul(a, x)) / size_of(b);
}
constexpr DType kTypes[] = {DType::float32, DType::float64, DType::complex64, DType::complex128};
double accuracy(DType dtype) { return itemsize(real_type(dtype)) == 8 ? 1e-10 : 1e-4; }

TEST_P(SparseLinalg, IterativeSolversReachTheirTolerance) {
  for (const DType dtype : kTypes) {
    const SparseArray general = unsymmetric(200, dtype), definite = laplacian(15, dtype);
    const NdArray b = normal(200, dtype), d = normal(225, dtype);
    SolveOptions options;
    options.rtol = accuracy(dtype);
    int64_t calls = 0;
    options.callback = [&](const NdArray&) { ++calls; };
    const auto check = [&](const char* name, const Solution& s, const SparseArray& a, const NdArray& right) {
      EXPECT_EQ(s.info, 0) << name << " " << local::name(dtype);
      EXPECT_EQ(s.x.dtype(), dtype) << name;
      EXPECT_LE(relative_residual(a, s.x, right), 3 * options.rtol) << name << " " << local::name(dtype);
    };
    check("cg", cg(definite, d, options), definite, d);
    check("minres", minres(definite, d, options), definite, d);
    check("cgs", cgs(general, b, options), general, b);
    check("bicgstab", bicgstab(general, b, options), general, b);
    check("gmres", gmres(general, b, options), general, b);
    EXPECT_GT(calls, 10);
    // A start near the solution ends at once; a column is answered by a column.
    options.x0 = cg(definite, d, options).x;
    calls = 0;
    options.rtol *= 10;
    const Solution again = cg(definite, d.reshape({225, 1}), options);
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(again.x.shape(), (Dims{225, 1}));
  }
}

TEST_P(SparseLinalg, PreconditionersShortenTheWay) {
  // A badly scaled diagonal, which its inverse mends.
  const int64_t n = 100;
  const NdArray scale = ops::exp(test::arange({n}).astype(DType::float64) * Scalar(0.1));
  const SparseArray d = diags({scale}, {0}, std::nullopt, Format::csr);
  const SparseArray a = matmul(matmul(d, laplacian(10)), d);
  const LinearOperator inverse({n, n}, [&](const NdArray& x) { return x / ops::square(scale); });
  const NdArray b = normal(n);
  for (const auto method : {&cg, &cgs, &bicgstab}) {
    SolveOptions options{.rtol = 1e-8, .maxiter = 100, .M = inverse};
    const Solution s = method(a, b, options);
    EXPECT_EQ(s.info, 0);
    EXPECT_LE(relative_residual(a, s.x, b), 1e-7);
  }
  SolveOptions few{.rtol = 1e-8, .maxiter = 3};
  EXPECT_EQ(cg(a, b, few).info, 3);
  EXPECT_GT(gmres(a, b, few, 2).info, 0);
  EXPECT_EQ(gmres(a, b, {.rtol = 1e-8, .M = inverse}, 50).info, 0);
  EXPECT_EQ(minres(a, b, {.rtol = 1e-8, .M = inverse}).info, 0);
}

TEST_P(SparseLinalg, SolversCheckTheirArguments) {
  const SparseArray a = laplacian(3);
  EXPECT_THROW(cg(a, normal(8)), InvalidArgument);
  EXPECT_THROW(cg(a.index(Slice{0, 5, {}}), normal(5)), InvalidArgument);
  EXPECT_THROW(cg(a, normal(9), {.x0 = normal(3)}), InvalidArgument);
  EXPECT_THROW(cg(a, normal(9), {.rtol = -1}), InvalidArgument);
  EXPECT_THROW(gmres(a, normal(9), {}, 0), InvalidArgument);
  EXPECT_THROW(gmres(a, normal(9), {}, 20, "norm"), InvalidArgument);
  EXPECT_THROW(cg(a, normal(9), {.M = LinearOperator(laplacian(2))}), InvalidArgument);
  const Solution zero = bicgstab(a, normal(9) * 0);
  EXPECT_EQ(zero.info, 0);
  EXPECT_EQ(size_of(zero.x), 0);
  const Solution nan = cg(a, normal(9) * Scalar(std::nan("")));
  EXPECT_NE(nan.info, 0);
}

TEST_P(SparseLinalg, LeastSquares) {
  for (const DType dtype : kTypes) {
    const SparseArray a = random(60, 20, 0.3, Format::csr, dtype, Generator(8));
    const NdArray b = normal(60, dtype);
    const double tol = accuracy(dtype) / 10;
    const LsqrResult first = lsqr(a, b, 0, tol, tol);
    const LsmrResult second = lsmr(a, b, 0, tol, tol, 1e8, 100);
    EXPECT_EQ(first.istop, 2);
    EXPECT_EQ(second.istop, 2);
    for (const NdArray& x : {first.x, second.x}) {
      const NdArray residual = b - sparse::matmul(a, x);
      EXPECT_LT(size_of(sparse::matmul(a.H(), residual)), 100 * tol * size_of(b)) << local::name(dtype);
      EXPECT_NEAR(first.r1norm, size_of(residual), 1e-3);
    }
    EXPECT_NEAR(second.normr, first.r1norm, 1e-3);
  }
  // Consistent and damped systems.
  const SparseArray a = laplacian(6);
  const NdArray x = normal(36), b = sparse::matmul(a, x);
  EXPECT_LT(size_of(lsqr(a, b, 0, 1e-12, 1e-12, 1e12, 500).x - x), 1e-8);
  EXPECT_LT(size_of(lsmr(a, b, 0, 1e-12, 1e-12, 1e12, 500).x - x), 1e-8);
  const double damp = 0.7;
  const SparseArray normal_matrix = matmul(a, a) + identity(36) * Scalar(damp * damp);
  const NdArray wanted = spsolve(normal_matrix, sparse::matmul(a, b));
  EXPECT_LT(size_of(lsqr(a, b, damp, 1e-12, 1e-12, 1e12, 500).x - wanted), 1e-8);
  EXPECT_LT(size_of(lsmr(a, b, damp, 1e-12, 1e-12, 1e12, 500).x - wanted), 1e-8);
  EXPECT_EQ(lsqr(a, b * 0).itn, 0);
  EXPECT_EQ(lsqr(a, b, 0, 1e-6, 1e-6, 1e8, 500, true).var.size(), 36);
  EXPECT_THROW(lsqr(a, normal(3)), InvalidArgument);
}

TEST_P(SparseLinalg, DirectSolvers) {
  for (const DType dtype : kTypes) {
    const SparseArray a = unsymmetric(120, dtype);
    const NdArray b = normal(120, dtype), many = normal({120, 7}, dtype);
    const double bound = accuracy(dtype);
    const SuperLU lu = splu(a);
    EXPECT_LT(relative_residual(a, lu.solve(b), b), bound);
    EXPECT_LT(relative_residual(a, lu.solve(many), many), bound);
    EXPECT_LT(relative_residual(a.T(), lu.solve(b, "T"), b), bound);
    EXPECT_LT(relative_residual(a.H(), lu.solve(b, "H"), b), bound);
    for (const char* order : {"NATURAL", "MMD_ATA", "MMD_AT_PLUS_A", "COLAMD"})
      EXPECT_LT(relative_residual(a, spsolve(a, b, order), b), bound);
    // Pr a Pc = L U.
    const SparseArray rows =
        coo_array(ops::square(b.real()) * 0 + 1, lu.perm_r(), ops::flatnonzero(ops::isfinite(b)), Dims{120, 120});
    const SparseArray columns =
        coo_array(ops::square(b.real()) * 0 + 1, ops::flatnonzero(ops::isfinite(b)), lu.perm_c(), Dims{120, 120});
    const NdArray difference = (matmul(matmul(rows, a), columns) - matmul(lu.L(), lu.U())).toarray();
    EXPECT_LT(size_of(difference), bound * 10);
    EXPECT_EQ(triu(lu.L(), 1).nnz(), 0);
    EXPECT_EQ(tril(lu.U(), -1).nnz(), 0);
    EXPECT_LT(relative_residual(a, factorized(a)(b), b), bound);
    // An incomplete factorisation is a good preconditioner.
    const SuperLU ilu = spilu(a, 1e-3);
    SolveOptions options;
    options.rtol = bound;
    options.maxiter = 30;
    options.M = LinearOperator(
        a.shape(), [&](const NdArray& x) { return ilu.solve(x); }, {}, dtype);
    EXPECT_EQ(bicgstab(a, b, options).info, 0);
  }
  const SparseArray singular = csr_array(from_vector<double>({1, 2, 2, 4}, {2, 2}));
  EXPECT_THROW(splu(singular), LinAlgError);
  EXPECT_THROW(spsolve(SparseArray(Format::csr, {3, 3}), normal(3)), LinAlgError);
  EXPECT_THROW(splu(singular.index(0)), InvalidArgument);
  EXPECT_THROW(splu(laplacian(3), "RANDOM"), InvalidArgument);
  EXPECT_THROW(splu(laplacian(3)).solve(normal(4)), InvalidArgument);
  EXPECT_THROW(splu(laplacian(3)).solve(normal(9), "C"), InvalidArgument);
  EXPECT_EQ(splu(SparseArray(Format::csr, {0, 0})).solve(normal(0)).size(), 0);
  const SparseArray b = random(9, 4, 0.3, Format::csc, DType::float64, Generator(2));
  const SparseArray x = spsolve(laplacian(3), b);
  EXPECT_EQ(x.format(), Format::csc);
  EXPECT_LT(size_of((matmul(laplacian(3), x) - b).toarray()), 1e-12);
  EXPECT_EQ(spsolve(laplacian(3), normal(9, DType::complex128)).dtype(), DType::complex128);
}

TEST_P(SparseLinalg, TriangularSystems) {
  for (const DType dtype : kTypes) {
    const SparseArray full = unsymmetric(90, dtype);
    const NdArray b = normal(90, dtype), many = normal({90, 5}, dtype);
    for (const bool lower : {true, false}) {
      for (const Format format : {Format::csr, Format::csc, Format::coo}) {
        const SparseArray a = (lower ? tril(full) : triu(full)).asformat(format);
        EXPECT_LT(relative_residual(a, spsolve_triangular(a, b, lower), b), accuracy(dtype));
        EXPECT_LT(relative_residual(a, spsolve_triangular(a, many, lower), many), accuracy(dtype));
        SparseArray unit = a.tocsr();
        unit.setdiag(1);
        unit = unit * Scalar(0.25);
        SparseArray ones = unit;
        ones.setdiag(1);
        EXPECT_LT(relative_residual(ones, spsolve_triangular(unit.asformat(format), b, lower, true), b),
                  accuracy(dtype));
      }
    }
  }
  const SparseArray a = laplacian(2);
  EXPECT_THROW(spsolve_triangular(a, normal(4)), InvalidArgument);
  EXPECT_THROW(spsolve_triangular(tril(a, -1), normal(4)), LinAlgError);
  EXPECT_EQ(spsolve_triangular(tril(a), normal({4, 0})).shape(), (Dims{4, 0}));
}

TEST_P(SparseLinalg, EigenvaluesOfTheLaplacian) {
  const int64_t side = 12, n = side * side;
  std::vector<double> all;
  for (int64_t i = 1; i <= side; ++i)
    for (int64_t j = 1; j <= side; ++j) {
      const auto term = [&](int64_t k) {
        return 2 - 2 * std::cos(std::numbers::pi * static_cast<double>(k) / static_cast<double>(side + 1));
      };
      all.push_back(term(i) + term(j));
    }
  std::sort(all.begin(), all.end());
  const SparseArray a = laplacian(side);
  const auto check = [&](const EigenResult& r, const std::vector<double>& want) {
    const std::vector<double> got = to_vector<double>(r.values);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-8) << i;
    const NdArray residual = sparse::matmul(a, r.vectors) - r.vectors * r.values;
    EXPECT_LT(size_of(residual), 1e-7);
    const auto k = static_cast<int64_t>(want.size());
    EXPECT_LT(size_of(local::linalg::matmul(r.vectors.T(), r.vectors) - identity(k).toarray()), 1e-10);
  };
  check(eigsh(a, 1), {all.back()});
  check(eigsh(a, 1, {.which = "SA", .ncv = 40}), {all.front()});
  check(eigsh(a, 1, {.sigma = 0.0}), {all.front()});
  // Double eigenvalues, of which a Krylov space has one vector; also where tol is not reached by values near 0.
  const auto first = [&](std::ptrdiff_t count) { return std::vector<double>(all.begin(), all.begin() + count); };
  const auto last = [&](std::ptrdiff_t count) { return std::vector<double>(all.end() - count, all.end()); };
  for (const double tol : {0.0, 1e-10}) {
    check(eigsh(a, 6, {.which = "SA", .tol = tol}), first(6));
    check(eigsh(a, 5, {.which = "SM", .ncv = 40, .tol = tol}), first(5));
    check(eigsh(a, 7, {.which = "LA", .tol = tol}), last(7));
    check(eigsh(a, 7, {.tol = tol}), last(7));
  }
  // Distinct eigenvalues.
  std::vector<double> diagonal;
  for (int64_t i = 0; i < n; ++i) diagonal.push_back(static_cast<double>(i * i) - 300);
  const SparseArray d = diags({reals(diagonal)}, {0}, std::nullopt, Format::csr);
  EXPECT_EQ(eigsh(d, 4).values.size(), 4);
  const std::vector<double> largest = to_vector<double>(eigsh(d, 3, {.which = "LA"}).values);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(largest[i], diagonal[diagonal.size() - 3 + i], 1e-6);
  const std::vector<double> nearest = to_vector<double>(eigsh(d, 3, {.sigma = 99.5}).values);
  EXPECT_NEAR(nearest[0], 61, 1e-8);   // 19^2 - 300
  EXPECT_NEAR(nearest[1], 100, 1e-8);  // 20^2 - 300
  EXPECT_NEAR(nearest[2], 141, 1e-8);
  const std::vector<double> ends = to_vector<double>(eigsh(d, 2, {.which = "BE", .ncv = 60}).values);
  EXPECT_NEAR(ends[0], -300, 1e-6);
  EXPECT_NEAR(ends[1], diagonal.back(), 1e-6);
  EXPECT_EQ(eigsh(d, 2, {.return_eigenvectors = false}).vectors.size(), 0);
  EXPECT_THROW(eigsh(d, 0), InvalidArgument);
  EXPECT_THROW(eigsh(d, n), InvalidArgument);
  EXPECT_THROW(eigsh(d, 2, {.which = "XX"}), InvalidArgument);
  EXPECT_THROW(eigsh(d, 2, {.ncv = 2}), InvalidArgument);
  EXPECT_THAT([&] { eigsh(d, 5, {.which = "SM", .maxiter = 1}); },
              ::testing::ThrowsMessage<LinAlgError>(::testing::HasSubstr(
                  "no convergence within 1 restarts: 0 of 5 values are found; the largest residual")));
}

TEST_P(SparseLinalg, EigenvaluesOfHermitianMatrices) {
  for (const DType dtype : kTypes) {
    const SparseArray half = random(80, 80, 0.1, Format::csr, dtype, Generator(6));
    const SparseArray a = half + half.H();
    const NdArray all = local::linalg::eigh(a.toarray()).first;
    const EigenResult r = eigsh(a, 4, {.which = "LA"});
    const double bound = accuracy(dtype) * 100;
    EXPECT_EQ(r.values.dtype(), real_type(dtype));
    EXPECT_EQ(r.vectors.dtype(), dtype);
    EXPECT_LT(size_of(r.values - all[{Slice{-4, {}, {}}}]), bound);
    EXPECT_LT(size_of(sparse::matmul(a, r.vectors) - r.vectors * r.values), bound);
  }
}

TEST_P(SparseLinalg, SingularValues) {
  for (const DType dtype : kTypes) {
    for (const Dims& shape : {Dims{70, 40}, Dims{40, 70}, Dims{30, 30}}) {
      const SparseArray a = random(shape[0], shape[1], 0.2, Format::csr, dtype, Generator(6));
      const NdArray dense = a.toarray();
      const NdArray gram = local::linalg::eigh(local::linalg::gram(dense)).first;
      for (const int64_t k : {int64_t{1}, int64_t{5}, std::min(shape[0], shape[1])}) {
        const SvdsResult r = svds(a, k);
        const double bound = accuracy(dtype) * 100;
        EXPECT_EQ(r.u.shape(), (Dims{shape[0], k}));
        EXPECT_EQ(r.vh.shape(), (Dims{k, shape[1]}));
        const double gram_bound = bound * 10;
        EXPECT_LT(size_of(ops::square(r.values) - gram[{Slice{-k, {}, {}}}]), gram_bound) << local::name(dtype);
        EXPECT_LT(size_of(sparse::matmul(a, ops::conjugate(r.vh).T()) - r.u * r.values), bound);
        const double whole = k == std::min(shape[0], shape[1]) ? bound * 10 : 1e3;
        EXPECT_LT(size_of(local::linalg::matmul(r.u * r.values, r.vh) - dense), whole);
      }
    }
  }
  const SparseArray d = diags({reals({3, 1, 7, 5, 2, 9})}, {0}, std::nullopt, Format::csr);
  EXPECT_NEAR((svds(d, 2, {.which = "SM"}).values[{0}].item<double>()), 1, 1e-8);
  EXPECT_EQ(svds(d, 2, {.return_singular_vectors = false}).u.size(), 0);
  EXPECT_THROW(svds(d, 7), InvalidArgument);
  EXPECT_THROW(svds(d, 2, {.which = "LA"}), InvalidArgument);
}

TEST_P(SparseLinalg, Lobpcg) {
  const SparseArray a = laplacian(10);
  const NdArray start = normal({100, 4});
  const NdArray all = local::linalg::eigh(a.toarray()).first;
  LobpcgOptions options;
  options.maxiter = 200;
  options.tol = 1e-7;
  const LobpcgResult largest = lobpcg(a, start, options);
  EXPECT_LT(size_of(largest.values - all[{Slice{-1, -5, -1}}]), 1e-6);
  EXPECT_LT(size_of(sparse::matmul(a, largest.vectors) - largest.vectors * largest.values), 1e-6);
  options.largest = false;
  const SuperLU lu = splu(a);
  options.M = LinearOperator(
      a.shape(), [&](const NdArray& x) { return lu.solve(x); }, {}, DType::float64,
      [&](const NdArray& x) { return lu.solve(x); });
  const LobpcgResult smallest = lobpcg(a, start, options);
  EXPECT_LT(size_of(smallest.values - all[{Slice{0, 4, {}}}]), 1e-6);
  EXPECT_LT(smallest.residual_norms.size(), 40u);
  // Beside the eigenvectors found already, and with another metric.
  options.Y = smallest.vectors;
  EXPECT_LT(size_of(lobpcg(a, normal({100, 2}, DType::float64, 11), options).values - all[{Slice{4, 6, {}}}]), 1e-5);
  options = {};
  options.maxiter = 300;
  options.tol = 1e-7;
  options.B = LinearOperator(identity(100, DType::float64, Format::csr) * Scalar(2));
  EXPECT_LT(size_of(lobpcg(a, start, options).values - all[{Slice{-1, -5, -1}}] * Scalar(0.5)), 1e-6);
  EXPECT_THROW(lobpcg(a, normal({99, 2})), InvalidArgument);
  EXPECT_THROW(lobpcg(a, start * 0), InvalidArgument);
}

// Near convergence the directions of a step depend on each other but for rounding, differently for every start.
TEST(SparseLinalgOnTheCpu, LobpcgFromManyStarts) {
  for (const DType dtype : {DType::float64, DType::float32}) {
    const SparseArray a = laplacian(10, dtype);
    const NdArray all = local::linalg::eigh(laplacian(10).toarray()).first;
    LobpcgOptions options;
    options.maxiter = 300;
    options.tol = dtype == DType::float64 ? 1e-7 : 1e-4;
    for (uint64_t seed = 0; seed < 30; ++seed) {
      options.largest = seed % 2 == 0;
      const LobpcgResult result = lobpcg(a, normal({100, 4}, dtype, seed), options);
      const NdArray expected = options.largest ? all[{Slice{-1, -5, -1}}] : all[{Slice{0, 4, {}}}];
      EXPECT_LT(result.residual_norms.size(), 200u) << local::name(dtype) << " " << seed;
      EXPECT_LT(size_of(result.values.astype(DType::float64) - expected), 10 * *options.tol)
          << local::name(dtype) << " " << seed;
    }
  }
}

TEST_P(SparseLinalg, Operators) {
  const SparseArray a = random(6, 4, 0.5, Format::csc, DType::complex128, Generator(3));
  const NdArray dense = a.toarray(), x = normal(4, DType::complex128), y = normal(6, DType::complex128);
  const NdArray many = normal({4, 3}, DType::complex128);
  for (const LinearOperator& op : {LinearOperator(a), LinearOperator(dense), aslinearoperator(a)}) {
    EXPECT_LT(size_of(op.matvec(x) - local::linalg::matmul(dense, x)), 1e-13);
    EXPECT_LT(size_of(op.rmatvec(y) - local::linalg::matmul(ops::conjugate(dense).T(), y)), 1e-13);
    EXPECT_LT(size_of(op.T().matvec(y) - local::linalg::matmul(dense.T(), y)), 1e-13);
    EXPECT_LT(size_of(op.H().rmatmat(many) - local::linalg::matmul(dense, many)), 1e-13);
    EXPECT_LT(size_of((op + Scalar(2) * op).matvec(x) - op.matvec(x) * Scalar(3)), 1e-13);
    EXPECT_LT(size_of((op.H() * op).matvec(x) - op.rmatvec(op.matvec(x))), 1e-13);
    EXPECT_THROW(op.matvec(y), InvalidArgument);
  }
  const LinearOperator plain({6, 4}, [&](const NdArray& v) { return local::linalg::matmul(dense, v); });
  EXPECT_LT(size_of(plain.matmat(many) - local::linalg::matmul(dense, many)), 1e-13);
  EXPECT_THROW(plain.rmatvec(y), NotSupported);
  EXPECT_THROW(plain.H(), NotSupported);
}

TEST_P(SparseLinalg, NormsAndPowers) {
  const SparseArray a = csr_array(from_vector<double>({3, 0, -4, 0, 0, 0, 1, 2, 2}, {3, 3}));
  const auto value = [&](const char* ord) { return norm(a, ord).item().as_double(); };
  EXPECT_DOUBLE_EQ(norm(a).item().as_double(), std::sqrt(34.0));
  EXPECT_EQ(value("inf"), 7);
  EXPECT_EQ(value("-inf"), 0);
  EXPECT_EQ(value("1"), 6);
  EXPECT_EQ(value("-1"), 2);
  EXPECT_NEAR(value("2"),
              std::sqrt(ops::max(local::linalg::eigh(local::linalg::gram(a.toarray())).first).item().as_double()),
              1e-9);
  EXPECT_EQ(to_vector<double>(norm(a, {}, 1)), (std::vector<double>{5, 0, 3}));
  EXPECT_EQ(to_vector<double>(norm(a, "1", 0)), (std::vector<double>{4, 2, 6}));
  EXPECT_EQ(to_vector<double>(norm(a, "inf", 0)), (std::vector<double>{3, 2, 4}));
  EXPECT_THROW(norm(a, "nuc"), InvalidArgument);
  EXPECT_THROW(norm(a, "x", 1), InvalidArgument);
  const NdArray cube = local::linalg::matmul(a.toarray(), local::linalg::matmul(a.toarray(), a.toarray()));
  EXPECT_EQ(size_of(matrix_power(a, 3).toarray() - cube), 0);
  EXPECT_EQ(size_of(matrix_power(a, 0).toarray() - identity(3).toarray()), 0);
  EXPECT_THROW(matrix_power(a, -1), InvalidArgument);
  EXPECT_THROW(matrix_power(a.index(0), 2), InvalidArgument);
}

}  // namespace
}  // namespace quarry::local::sparse::linalg
