// numpy.linalg on chunked arrays: what the rows of names.def, whose arrays are small, do not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <utility>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/local.h"
#include "tests/support/chunked_values.h"
#include "tests/support/evaluate.h"
#include "tests/support/on_devices.h"
#include "tests/support/runtime_on.h"

namespace quarry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace names;

NdArray numbers(const Dims& shape) { return local::random::default_rng(5).normal(0., 1., Ints(shape)); }
Array cut(const NdArray& array, const Dims& chunk) { return Array::from_local(array).rechunk(chunk); }

template <class Error, class F>
std::string message_of(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing of that kind was thrown";
}

void expect_close(const Array& got, const NdArray& expected, double bound = 1e-10) {
  const NdArray values = got.to_host();
  ASSERT_EQ(local::to_string(values.shape()), local::to_string(expected.shape()));
  EXPECT_EQ(local::name(values.dtype()), local::name(expected.dtype()));
  EXPECT_TRUE(testing::close(values, expected, bound, bound)) << values.repr() << "\nexpected\n" << expected.repr();
}

class Matrices : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  const Runtime runtime_{testing::runtime_on(GetParam())};
};
QUARRY_ON_DEVICE_KINDS(Matrices);

TEST_P(Matrices, StacksKeepTheirChunks) {
  const NdArray x = numbers({12, 5, 5});
  EXPECT_EQ(linalg::inv(cut(x, {5, 5, 5})).chunks().counts(), (Dims{3, 1, 1}));
  EXPECT_EQ(linalg::det(cut(x, {5, 5, 5})).chunks().counts(), (Dims{3}));
  // Matrices that are cut become whole; chunks stay within the usual bytes.
  const ChunkPolicyScope small = testing::small_chunks(3 * 5 * 5 * 8);
  const Array inverse = linalg::inv(cut(x, {12, 5, 2}));
  EXPECT_EQ(inverse.chunks().axis(1).count() * inverse.chunks().axis(2).count(), 1);
  EXPECT_LE(inverse.chunks().axis(0).largest(), 6);
  expect_close(inverse, local::linalg::inv(x));
  expect_close(linalg::qr(cut(x, {12, 1, 5})).Q, local::linalg::qr(x).Q);
}

// Tiles of a product follow chunks that were chosen, of what is computed later and of what has been computed.
TEST_P(Matrices, ProductsOfKeptArraysHaveTheSameBits) {
  const Array x = cut(numbers({40, 60}), {7, 9});
  const Array kept = x.persist();
  EXPECT_TRUE(kept.node()->chosen_grid);
  EXPECT_FALSE((Array::from_local(numbers({4, 6})) + 1).persist().node()->chosen_grid);
  EXPECT_TRUE(settle({}, std::span(&x, 1)).kept[0].node()->chosen_grid);
  const std::pair<Array, Array> pairs[] = {{cov(x), cov(kept)}, {matmul(x, x.T()), matmul(kept, kept.T())}};
  for (const auto& [later, of_kept] : pairs) {
    const NdArray expected = later.to_host(), got = of_kept.to_host();
    EXPECT_EQ(std::memcmp(got.raw(), expected.raw(), static_cast<size_t>(expected.nbytes())), 0);
  }
}

// A matrix that is multiplied by a few columns or rows is not copied, whichever way its chunks lie.
TEST_P(Matrices, NarrowProductsReadAMatrixInItsChunks) {
  const ChunkPolicyScope small = testing::small_chunks(4 << 10);
  const NdArray whole = numbers({60, 80}), few = numbers({80, 3}), left = numbers({60, 2}), vector = numbers({80});
  for (const Array& x : {Array::from_local(whole).persist(), Array::from_local(whole.T().copy()).persist().T()}) {
    const std::pair<Array, NdArray> products[] = {
        {matmul(x, Array::from_local(few)), local::matmul(whole, few)},
        {matmul(x.T(), Array::from_local(left)), local::matmul(whole.T(), left)},
        {matmul(Array::from_local(left).T(), x), local::matmul(left.T(), whole)},
        {matmul(x, Array::from_local(vector)), local::matmul(whole, vector)}};
    for (const auto& [product, expected] : products) {
      EXPECT_THAT(explain(product), ::testing::Not(HasSubstr("rechunk"))) << explain(product);
      expect_close(product, expected);
    }
  }
}

TEST_P(Matrices, OneMatrixHasTheBitsOfLocalArrays) {
  QUARRY_SKIP_ON_CUDA("the local arrays are on the CPU");
  const NdArray x = numbers({60, 40}), square = numbers({50, 50});
  const auto [u, s, vh] = linalg::svd(cut(x, {17, 11}));
  const auto expected = local::linalg::svd(x);
  const std::vector<std::pair<Array, NdArray>> pairs{{u, expected.U},
                                                     {s, expected.S},
                                                     {vh, expected.Vh},
                                                     {linalg::inv(cut(square, {50, 7})), local::linalg::inv(square)},
                                                     {linalg::pinv(cut(x, {9, 40})), local::linalg::pinv(x)}};
  for (const auto& [chunked, local] : pairs) {
    const NdArray got = chunked.to_host();
    ASSERT_EQ(got.nbytes(), local.nbytes());
    EXPECT_EQ(std::memcmp(got.raw(), local.copy().raw(), static_cast<size_t>(got.nbytes())), 0);
  }
}

TEST_P(Matrices, StacksBroadcast) {
  const NdArray a = numbers({3, 1, 4, 4}), b = numbers({5, 4, 2}), vector = numbers({4});
  expect_close(linalg::solve(cut(a, {2, 1, 3, 3}), cut(b, {2, 4, 1})), local::linalg::solve(a, b));
  expect_close(linalg::solve(cut(a, {2, 1, 3, 3}), cut(vector, {3})), local::linalg::solve(a, vector));
  const NdArray tolerances = local::NdArray{0.5, 0.01, 1e-9};
  const NdArray tall = numbers({3, 4, 2});
  expect_close(linalg::pinv(cut(tall, {2, 2, 2}), cut(tolerances, {2})), local::linalg::pinv(tall, tolerances));
  expect_close(linalg::pinv(cut(tall, {2, 2, 2}), none, false, std::optional<Array>(cut(tolerances, {1}))),
               local::linalg::pinv(tall, none, false, std::optional<NdArray>(tolerances)));
  expect_close(linalg::pinv(cut(tall, {2, 2, 2}), none, false, std::optional<Array>()),
               local::linalg::pinv(tall, none, false, std::optional<NdArray>()));
  expect_close(linalg::matrix_rank(cut(tall, {2, 2, 2}), cut(tolerances * 9., {1})),
               local::ops::matrix_rank(tall, tolerances * 9.));
  expect_close(linalg::matrix_rank(cut(tall, {2, 2, 2}), none, false, 0.9),
               local::ops::matrix_rank(tall, none, false, local::full(Dims{}, 0.9)));
}

TEST_P(Matrices, HermitianStacks) {
  const NdArray x = numbers({6, 4, 4}), symmetric = x + local::matrix_transpose(x);
  const auto [values, vectors] = linalg::eigh(cut(symmetric, {4, 3, 3}));
  const auto expected = local::linalg::eigh(symmetric);
  expect_close(values, expected.eigenvalues);
  expect_close(abs(vectors), local::abs(expected.eigenvectors));
  expect_close(linalg::eigh(cut(x, {4, 3, 3}), linalg::Triangle::upper).eigenvalues, local::linalg::eigvalsh(x, "U"));
}

// Real where the eigenvalues of all matrices are.
TEST_P(Matrices, EigenvaluesAreRealOrComplexAsAWhole) {
  const NdArray turns = NdArray{{0., -1.}, {1., 0.}}, grows = NdArray{{2., 1.}, {0., 3.}};
  const NdArray both = local::stack({grows, turns, grows}), real = local::stack({grows, grows});
  for (const int64_t chunk : {1, 3}) {
    expect_close(linalg::eigvals(cut(both, {chunk, 2, 2})), local::linalg::eigvals(both));
    expect_close(linalg::eigvals(cut(real, {chunk, 2, 2})), local::linalg::eigvals(real));
    expect_close(linalg::eig(cut(both, {chunk, 1, 2})).eigenvectors, local::linalg::eig(both).eigenvectors);
    expect_close(linalg::eig(cut(real, {chunk, 1, 2})).eigenvectors, local::linalg::eig(real).eigenvectors);
  }
  expect_close(linalg::eigvals(cut(real.astype(f16), {1, 2, 2})), local::linalg::eigvals(real.astype(f16)), 1e-3);
  expect_close(linalg::eigvals(cut(both.astype(f16), {1, 2, 2})), local::linalg::eigvals(both.astype(f16)), 1e-3);
  expect_close(linalg::eigvals(zeros({0, 2, 2})), local::linalg::eigvals(local::zeros({0, 2, 2})));
}

TEST_P(Matrices, LeastSquaresOfLowRank) {
  NdArray a = numbers({9, 3});
  a[{local::full_slice, 2}].assign(a[{local::full_slice, 0}] * 2.);
  const NdArray b = numbers({9, 2});
  const auto [x, residuals, rank, s] = linalg::lstsq(cut(a, {4, 2}), cut(b, {5, 1}));
  const auto expected = local::linalg::lstsq(a, b);
  EXPECT_EQ(rank.as_int64(), 2);
  expect_close(x, std::get<0>(expected));
  EXPECT_EQ(residuals.shape(), (Dims{0}));
  expect_close(s, std::get<3>(expected));
}

TEST_P(Matrices, MistakesAreTheLocalOnes) {
  const Array wide = cut(numbers({3, 4}), {2, 3}), line = cut(numbers({4}), {3});
  EXPECT_THROW(linalg::inv(wide), local::LinAlgError);
  EXPECT_THROW(linalg::inv(line), local::LinAlgError);
  EXPECT_THROW(linalg::det(wide), local::LinAlgError);
  EXPECT_THROW(linalg::slogdet(wide), local::LinAlgError);
  EXPECT_THROW(linalg::cholesky(wide), local::LinAlgError);
  EXPECT_THROW(linalg::eig(wide), local::LinAlgError);
  EXPECT_THROW(linalg::eigvals(line), local::LinAlgError);
  EXPECT_THROW(linalg::eigh(wide), local::LinAlgError);
  EXPECT_THROW(linalg::svd(line), local::LinAlgError);
  EXPECT_THROW(linalg::qr(line), local::LinAlgError);
  EXPECT_THROW(linalg::qr(wide, "economic"), local::InvalidArgument);
  EXPECT_THROW(linalg::solve(eye(3), line), local::InvalidArgument);
  EXPECT_THROW(linalg::solve(zeros({2, 3, 3}), zeros({4, 3, 1})), local::InvalidArgument);
  EXPECT_THROW(linalg::lstsq(zeros({2, 3, 3}), zeros({3})), local::LinAlgError);
  EXPECT_THAT(
      [] {
        linalg::solve(zeros({3, 3, 3}), zeros({3, 2, 5}));
      },
      ::testing::ThrowsMessage<local::InvalidArgument>(
          ::testing::HasSubstr("a of shape (3, 3, 3) and b of shape (3, 2, 5) do not make a system of equations")));
  EXPECT_THROW(linalg::lstsq(wide, line), local::LinAlgError);
  EXPECT_THROW(linalg::pinv(wide, 0.5, false, std::optional<Array>()), local::InvalidArgument);
  EXPECT_THROW(linalg::pinv(wide, none, false, "small"), local::InvalidArgument);
  EXPECT_THROW(linalg::matrix_rank(wide, 0.5, false, 0.5), local::InvalidArgument);
  EXPECT_THROW(linalg::cond(line), local::LinAlgError);
  EXPECT_THROW(linalg::cond(wide, "no"), local::InvalidArgument);
}

// What depends on values comes with the computation, and says where.
TEST_P(Matrices, ErrorsOfValuesNameFunctionAndChunk) {
  NdArray stack = local::eye(3) + local::zeros({5, 1, 1});
  stack[{3}].fill(1);
  const Array x = cut(stack, {2, 3, 3});
  EXPECT_THAT(message_of<local::LinAlgError>([&] { linalg::inv(x).to_host(); }),
              AllOf(HasSubstr("linalg.inv"), HasSubstr("(1, 0, 0)"), HasSubstr("Singular matrix")));
  EXPECT_THAT(message_of<local::LinAlgError>([&] { linalg::solve(x, x).to_host(); }), HasSubstr("Singular matrix"));
  EXPECT_THAT(message_of<local::LinAlgError>([&] { linalg::cholesky(x[3]).to_host(); }),
              AllOf(HasSubstr("linalg.cholesky"), HasSubstr("Matrix is not positive definite")));
  EXPECT_THAT(message_of<local::LinAlgError>([&] { linalg::svd(x * nan).S.to_host(); }), HasSubstr("linalg.svd"));
  EXPECT_THAT(message_of<local::LinAlgError>([&] { linalg::eigvals(x * nan); }), HasSubstr("linalg.eigvals"));
}

// A matrix of several chunks that no task may hold is refused by its size and the budget.
TEST(MatricesInLittleMemory, AreRefusedWithBothNumbers) {
  const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu, "16MiB"));
  const Array x = zeros({2000, 2000}).rechunk({100, 2000}) + eye(2000);
  const std::string message = message_of<local::NotSupported>([&] { linalg::eigvals(x); });
  EXPECT_THAT(message, AllOf(HasSubstr("linalg.eigvals works on arrays of one chunk"), HasSubstr("30.5 MiB"),
                             HasSubstr("the budget of 15.5 MiB")));
  // By tiles, and in a stack of as many bytes, it is no problem.
  EXPECT_EQ(sum(linalg::inv(x)).item<double>(), 2000);
  const Array stack = (zeros({40, 300, 300}) + eye(300)).rechunk({1, 300, 300});
  EXPECT_EQ(sum(linalg::inv(stack * 2)).item<double>(), 40 * 150);
}

// Where a task would hold the matrix, but not what comes of it.
TEST(MatricesInLittleMemory, ResultsCountToo) {
  const int64_t n = 400;
  const NdArray x = numbers({n, n}), tall = numbers({3 * n, n / 2});
  const NdArray equations = numbers({2 * n, n}), b = numbers({2 * n});
  for (const char* budget : {"3MiB", "5MiB", "7MiB", "9MiB", "12MiB", "16MiB", "24MiB"}) {
    const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu, budget));
    SCOPED_TRACE(budget);
    const auto expect_small = [](const Array& error) { EXPECT_LT(max(absolute(error)).item<double>(), 1e-8); };
    const Array a = cut(x, {n / 4, n});
    const auto [p, l, u] = linalg::lu(a);
    expect_small(matmul(p, matmul(l, u)) - a);
    const Array q = linalg::qr(cut(tall, {n / 4, n / 2}), linalg::complete).Q;
    expect_small(matmul(q.T(), q) - eye(3 * n));
    expect_close(std::get<0>(linalg::lstsq(cut(equations, {n / 4, n}), cut(b, {n}))),
                 std::get<0>(local::linalg::lstsq(equations, b)), 1e-6);
  }
}

// Fewer triangles of blocks meet in a task.
TEST(MatricesInLittleMemory, TallOnesWorkFromTheLeastBudgetOn) {
  const int64_t m = 1200, n = 200;
  for (const char* budget : {"6MiB", "7MiB", "8MiB", "9MiB", "12MiB", "16MiB"}) {
    const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu, budget));
    SCOPED_TRACE(budget);
    const Array a = random::default_rng(3).normal(0., 1., {m, n}).rechunk({n, n});
    const auto [q, r] = linalg::qr(a);
    EXPECT_LT(max(absolute(matmul(q.T(), q) - eye(n))).item<double>(), 1e-12);
    EXPECT_LT(max(absolute(matmul(q, r) - a)).item<double>(), 1e-10);
  }
}

// Tasks take what their trial said, and no more: most functions take more than three times what they read and make.
TEST(MatricesInLittleMemory, TakeWhatTheirTrialSaid) {
  for (const int64_t n : {2, 40, 200}) {
    const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu, "64MiB"));
    const NdArray x = numbers({3, n, n}), b = numbers({n, 3});
    const Array a = cut(x, {2, n, n}), spd = matmul(a, matrix_transpose(a)) + eye(n);
    const NdArray one = local::matmul(x, local::matrix_transpose(x)) + local::eye(n);
    expect_close(linalg::svd(a).S, local::linalg::svdvals(x));
    expect_close(linalg::svd(a, true, false).S, local::linalg::svdvals(x));
    expect_close(linalg::cond(spd, "nuc"), local::linalg::cond(one, "nuc"), 1e-6);
    expect_close(linalg::cond(spd, "fro"), local::linalg::cond(one, "fro"), 1e-6);
    const NdArray tall = numbers({40 * n + 1, n});  // in pieces that leave gaps
    expect_close(linalg::pinv(Array::from_local(tall)), local::linalg::pinv(tall), 1e-6);
    expect_close(linalg::pinv(spd), local::linalg::pinv(one), 1e-6);
    expect_close(linalg::slogdet(a).logabsdet, local::linalg::slogdet(x).logabsdet, 1e-8);
    expect_close(linalg::qr(a, linalg::r_only), local::linalg::qr(x, local::linalg::r_only), 1e-8);
    expect_close(linalg::qr(a, linalg::raw).first, local::linalg::qr(x, local::linalg::raw).first, 1e-8);
    expect_close(linalg::cholesky(spd, true), local::linalg::cholesky(one, true), 1e-8);
    expect_close(linalg::solve(spd, cut(b, {n, 1})), local::linalg::solve(one, b), 1e-6);
    expect_close(linalg::eigh(spd).eigenvalues, local::linalg::eigvalsh(one), 1e-8);
    expect_close(std::get<0>(linalg::lstsq(spd[0], cut(b, {n, 1}))), std::get<0>(local::linalg::lstsq(one[0], b)),
                 1e-5);
    EXPECT_EQ(linalg::eig(a).eigenvectors.to_host().shape(), x.shape());
    EXPECT_EQ(linalg::eig(spd).eigenvalues.dtype(), local::linalg::eig(one).eigenvalues.dtype());
  }
}

}  // namespace
}  // namespace quarry
