// Iterative methods on chunked arrays: beside those of one process, with preconditioners, spilled, and given bad input.
#include "quarry/chunked/api/solvers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quarry/chunked/api/quarry.h"
#include "tests/support/krylov_rows.h"
#include "tests/support/runtime_on.h"

namespace quarry::sparse::linalg {
namespace {

using local::NotSupported;
using ::testing::HasSubstr;
using testing::random_matrix;

class Solvers : public testing::OnEveryRuntime {};
QUARRY_ON_EVERY_DEVICE(Solvers);

template <class Error, class F>
std::string message_of(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing of that kind was thrown";
}
double norm_of(const NdArray& x) { return std::sqrt(local::sum(local::square(local::absolute(x))).item<double>()); }
double residual_of(const NdArray& a, const NdArray& x, const NdArray& b) { return norm_of(b - local::matmul(a, x)); }

TEST_P(Solvers, IterateAsThoseOfOneProcess) {
  for (const testing::KrylovRow& row : testing::krylov_rows())
    for (const DType dtype : testing::kKrylovTypes) testing::check_row(row, dtype);
}

TEST_P(Solvers, TellTheResidualThatTheyReach) {
  for (const testing::KrylovRow& row : testing::krylov_rows()) {
    const testing::KrylovSystem system = row.system(DType::float64);
    if (system.a.shape()[0] != system.a.shape()[1]) continue;
    SCOPED_TRACE(row.name);
    const NdArray a =
        std::string(row.name) == "minres" ? system.a - local::eye(53) * 0.25 : system.a;  // the row's shift
    for (const int64_t steps : {1, 3}) {
      const testing::Solved found = row.chunked(system, steps);
      EXPECT_EQ(found.counts[0], steps);
      EXPECT_NEAR(found.norms[0], residual_of(a, found.x, system.b), 1e-10 * norm_of(system.b));
    }
    const testing::Solved found = row.chunked(system, 0);
    EXPECT_EQ(found.counts[0], 0);
    EXPECT_LE(residual_of(a, found.x, system.b), 2e-10 * norm_of(system.b));
  }
}

// Second differences with a varying coefficient, never formed.
LinearOperator stencil(const Array& coefficient) {
  const auto apply = [coefficient](const Array& x) {
    const Array zero = zeros({1}, x.dtype());
    const Array left = concatenate({zero, x[{Slice{0, -1, std::nullopt}}]}, 0);
    const Array right = concatenate({x[{Slice{1, std::nullopt, std::nullopt}}], zero}, 0);
    return coefficient * x - left - right;
  };
  return LinearOperator({coefficient.size(), coefficient.size()}, apply, apply);
}

TEST_P(Solvers, TakeOperators) {
  const NdArray diagonal = local::linspace(2.5, 60., 90), b = random_matrix({90}, DType::float64);
  const NdArray a = local::diag(diagonal) - local::eye(90, 90, 1) - local::eye(90, 90, -1);
  const LinearOperator op = stencil(Array::from_local(diagonal).rechunk({25}).persist());
  const Array right = Array::from_local(b).rechunk({25});
  SolveOptions options;
  options.rtol = 1e-11;
  const Solution found = cg(op, right, options);
  EXPECT_EQ(found.info, 0);
  EXPECT_EQ(found.x.chunks(), right.chunks());
  EXPECT_LE(residual_of(a, found.x.to_host(), b), 1e-10 * norm_of(b));
  EXPECT_LE(residual_of(a, lsqr(op, right, 0, 1e-12, 1e-12).x.to_host(), b), 1e-9 * norm_of(b));
  EXPECT_LE(residual_of(a, lsmr(op, right, 0, 1e-12, 1e-12, 1e8, 300).x.to_host(), b), 1e-9 * norm_of(b));
  // (a, 2 a^T) as sums and products of operators.
  const LinearOperator twice = op + Scalar(2.) * op.T() - op;
  EXPECT_LE(residual_of(a * 2., gmres(twice, right, options).x.to_host(), b), 1e-9 * norm_of(b));
  EXPECT_LE(residual_of(local::matmul(a, a), cg(op * op.H(), right, options).x.to_host(), b), 1e-9 * norm_of(b));
  const Array block = Array::from_local(random_matrix({90, 3}, DType::float64));
  EXPECT_TRUE(testing::close(op.matmat(block).to_host(), local::matmul(a, block.to_host()), 1e-12, 1e-12));
  EXPECT_TRUE(testing::close(op.rmatmat(block).to_host(), local::matmul(a, block.to_host()), 1e-12, 1e-12));
  EXPECT_THAT(message_of<NotSupported>([&] { lsqr(LinearOperator({90, 90}, op), right); }), HasSubstr("no rmatvec"));
}

TEST_P(Solvers, TakeColumnsAndStartingPoints) {
  const testing::KrylovSystem s = testing::definite_system(DType::complex128);
  const Array column = Array::from_local(s.b.reshape({53, 1}));
  SolveOptions options;
  options.rtol = 1e-11;
  options.x0 = Array::from_local(random_matrix({53, 1}, DType::float64));
  for (auto* method : {cg, cgs, bicgstab}) {
    const Solution found = method(s.matrix(), column, options);
    EXPECT_EQ(found.x.shape(), (Dims{53, 1}));
    EXPECT_LE(residual_of(s.a, found.x.to_host().reshape({-1}), s.b), 1e-10 * norm_of(s.b));
  }
  options.x0 = Array::from_local(local::linalg::solve(s.a, s.b));  // nothing is left to do
  options.rtol = 1e-8;
  int64_t calls = 0;
  options.callback = [&](const Array&) { ++calls; };
  EXPECT_EQ(minres(s.matrix(), column, options).info, 0);
  EXPECT_EQ(gmres(s.matrix(), column, options).info, 0);
  EXPECT_EQ(cg(s.matrix(), column, options).info, 0);
  EXPECT_LE(calls, 1);  // minres looks after a step
  // b = 0.
  EXPECT_EQ(norm_of(cg(s.matrix(), zeros({53})).x.to_host()), 0);
  EXPECT_EQ(lsqr(s.matrix(), zeros({53})).istop, 0);
}

TEST_P(Solvers, PreconditionersAreInverses) {
  for (const DType dtype : testing::kKrylovTypes) {
    SCOPED_TRACE(local::name(dtype));
    // Blocks of rows far apart in size, which either preconditioner undoes; the last chunk is shorter.
    const NdArray scale = local::exp2(local::arange(53.) * 0.2).astype(dtype);
    const NdArray a = (testing::positive_definite(53, dtype) * scale * scale.reshape({53, 1})).astype(dtype);
    const Array matrix = Array::from_local(a).rechunk({20, 11});
    const LinearOperator diagonal = jacobi(matrix), blocks = block_jacobi(matrix);
    const NdArray x = random_matrix({53}, dtype, 23);
    const NdArray d = local::diagonal(a);
    const double bound = local::itemsize(local::real_type(dtype)) == 8 ? 1e-10 : 1e-3;
    const Array given = Array::from_local(x);
    EXPECT_TRUE(testing::close(diagonal.matvec(given).to_host(), x / d, bound, bound));
    const NdArray solved = blocks.matvec(given).to_host(), other = blocks.rmatvec(given).to_host();
    for (int64_t begin = 0; begin < 53; begin += 20) {
      const Slice part{begin, std::min<int64_t>(begin + 20, 53), std::nullopt};
      const NdArray expected = local::linalg::solve(a[{part, part}].copy(), x[{part}].copy());
      const double size = norm_of(expected);
      EXPECT_LE(norm_of(solved[{part}].copy() - expected), bound * size);
      EXPECT_LE(norm_of(other[{part}].copy() - expected), bound * size);  // a is Hermitian
    }
    // They save steps, and the solution is that without.
    SolveOptions options;
    options.rtol = local::itemsize(local::real_type(dtype)) == 8 ? 1e-10 : 1e-4;
    int64_t steps = 0, plain = 0;
    options.callback = [&](const Array&) { ++steps; };
    const Array b = Array::from_local(testing::random_matrix({53}, dtype, 7));
    options.maxiter = 40;
    static_cast<void>(cg(matrix, b, options));
    plain = std::exchange(steps, 0);
    for (const LinearOperator& m : {diagonal, blocks}) {
      options.M = m;
      for (auto* method : {cg, bicgstab}) {
        steps = 0;
        const Solution found = method(matrix, b, options);
        EXPECT_EQ(found.info, 0);
        EXPECT_LT(steps, plain);
      }
      EXPECT_EQ(gmres(matrix, b, options).info, 0);
    }
  }
  NdArray singular = local::eye(12);
  singular(7, 7) = 0.;
  const Array matrix = Array::from_local(singular).rechunk({4, 4});
  EXPECT_THAT(message_of<local::LinAlgError>([&] { jacobi(matrix); }), HasSubstr("diagonal has a zero"));
  EXPECT_THAT(message_of<local::LinAlgError>([&] { block_jacobi(matrix); }), HasSubstr("block_jacobi"));
  EXPECT_THAT(message_of<local::InvalidArgument>([] { jacobi(ones({3, 4})); }), HasSubstr("(3, 4)"));
  EXPECT_THAT(message_of<local::InvalidArgument>([] { block_jacobi(ones({3})); }), HasSubstr("square"));
}

TEST_P(Solvers, RefuseWhatDoesNotFit) {
  const Array a = eye(6), b = ones({6});
  using local::InvalidArgument;
  EXPECT_THAT(message_of<InvalidArgument>([&] { cg(ones({6, 5}), b); }), HasSubstr("a: expected a square operator"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { gmres(a, ones({5})); }), HasSubstr("b: shape (5,)"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { minres(a, ones({6, 2})); }), HasSubstr("b: shape (6, 2)"));
  SolveOptions options;
  options.x0 = ones({7});
  EXPECT_THAT(message_of<InvalidArgument>([&] { bicgstab(a, b, options); }), HasSubstr("x0: shape (7,)"));
  options = {};
  options.M = LinearOperator(eye(5));
  EXPECT_THAT(message_of<InvalidArgument>([&] { cg(a, b, options); }), HasSubstr("M: shape (5, 5)"));
  options = {};
  options.rtol = -1;
  EXPECT_THAT(message_of<InvalidArgument>([&] { cg(a, b, options); }), HasSubstr("rtol"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { lsqr(a, ones({5})); }), HasSubstr("b: shape (5,)"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { gmres(a, b, {}, 0); }), HasSubstr("restart"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { gmres(a, b, {}, 5, "norm"); }), HasSubstr("callback_type"));
  EXPECT_THAT(message_of<InvalidArgument>([] { LinearOperator(ones({6})); }), HasSubstr("made from a matrix"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { LinearOperator(a).matvec(ones({5})); }), HasSubstr("matvec: x has"));
  const LinearOperator wrong({6, 6}, [](const Array&) { return ones({4}); });
  EXPECT_THAT(message_of<InvalidArgument>([&] { cg(wrong, b); }), HasSubstr("matvec gave shape (4,)"));
}

TEST_P(Solvers, SayWhereTheyBreakDown) {
  const Array turn({{0., 1.}, {-1., 0.}}), b({1., 0.});
  EXPECT_EQ(bicgstab(turn, b).info, -11);  // the residual is orthogonal to its image
  EXPECT_EQ(cgs(turn, b).info, -11);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array bad({{1., 0.}, {0., nan}}), ones({1., 1.});
  EXPECT_EQ(cg(bad, ones).info, -1);
  EXPECT_EQ(gmres(bad, ones).info, -1);
  EXPECT_EQ(minres(bad, ones).info, -1);
  EXPECT_LT(bicgstab(bad, ones).info, 0);
  for (const auto& [a, right] : {std::pair(bad, ones), std::pair(Array(eye(2)), Array({nan, 1.}))}) {
    EXPECT_THAT(message_of<local::InvalidArgument>([&, &a = a, &right = right] { lsqr(a, right); }), HasSubstr("NaN"));
    EXPECT_THAT(message_of<local::InvalidArgument>([&, &a = a, &right = right] { lsmr(a, right); }), HasSubstr("NaN"));
  }
  SolveOptions options;
  options.M = LinearOperator(Array({{-1., 0.}, {0., -1.}}));
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { minres(eye(2), b, options); }), HasSubstr("positive definite"));
}

// A matrix twice the budget, and vectors that are read in chunks.
TEST(SolversOutOfCore, MatricesAreSpilled) {
  for (const local::DeviceKind device : {local::DeviceKind::cpu, local::DeviceKind::emulated}) {
    SCOPED_TRACE(local::name(device));
    RuntimeOptions options = testing::runtime_on(device, device == local::DeviceKind::cpu ? "2MiB" : "8MiB");
    if (device != local::DeviceKind::cpu) options.host_memory = "16MiB";
    const Runtime runtime(options);
    const int64_t n = device == local::DeviceKind::cpu ? 720 : 1800;
    const Array i = arange(n).astype(DType::float64).rechunk({90});
    const Array difference = (expand_dims(i, 1) - expand_dims(i, 0)).rechunk({90, 90});
    const Array a = (exp(absolute(difference) * -0.5) + where(difference == 0., 1., 0.)).persist();
    const Array b = sin(i).persist();
    SolveOptions solve;
    solve.rtol = 1e-9;
    const auto residual = [&](const Array& x) {
      return std::sqrt(sum(square(b - matvec(a, x))).item<double>() / sum(square(b)).item<double>());
    };
    for (auto* method : {cg, bicgstab}) {
      const Solution found = method(a, b, solve);
      EXPECT_EQ(found.info, 0);
      EXPECT_LE(residual(found.x), 2e-9);
    }
    EXPECT_LE(residual(gmres(a, b, solve, 8).x), 2e-9);
    EXPECT_LE(residual(lsqr(a, b, 0, 1e-10, 1e-10).x), 1e-8);
    EXPECT_GT(runtime.statistics().spilled_bytes, int64_t{1} << 20);
  }
}

}  // namespace
}  // namespace quarry::sparse::linalg
