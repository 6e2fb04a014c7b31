// The GPU's reduction of symmetric matrices to tridiagonal form on the CPU: its kernels run as they are, with fibers
// for threads (tests/support/host_block.h), in the order of local/cuda/eigh/reduction.cuh; plain loops stand for
// cuBLAS.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/host_block.h"
// After it.
#include "quarry/local/cuda/eigh/reduction.cuh"

namespace quarry::local::cuda {
namespace {

size_t index(int64_t i) { return static_cast<size_t>(i); }

struct HostMachine {
  int64_t blocks_at_once() const { return 3; }
  void zero(void* data, int64_t bytes) const { std::memset(data, 0, index(bytes)); }
  template <class... P, class... A>
  void launch(const char*, void (*kernel)(P...), Extents blocks, int threads, size_t bytes, A... arguments) const {
    const HostIndex all{static_cast<unsigned>(blocks.x), static_cast<unsigned>(blocks.y)};
    for (unsigned y = 0; y < all.y; ++y)
      for (unsigned x = 0; x < all.x; ++x)
        HostBlock({x, y}, all, static_cast<unsigned>(threads), bytes, [&] { kernel(arguments...); }).run();
  }
  template <class... P, class... A>
  void launch_together(const char*, void (*kernel)(P...), Extents blocks, int threads, size_t bytes,
                       A... arguments) const {
    run_blocks({static_cast<unsigned>(blocks.x), 1}, static_cast<unsigned>(threads), bytes,
               [&] { kernel(arguments...); });
  }
  void gemm(MatrixOp of_a, MatrixOp of_b, int64_t m, int64_t n, int64_t k, double alpha, View<const double> a,
            View<const double> b, double beta, View<double> c) const {
    const auto element = [](MatrixOp op, View<const double> x, int64_t i, int64_t j) {
      return op == MatrixOp::none ? x.data[i + j * x.distance] : x.data[j + i * x.distance];
    };
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += element(of_a, a, i, l) * element(of_b, b, l, j);
        double& to = c.data[i + j * c.distance];
        to = alpha * sum + (beta == 0 ? 0 : beta * to);  // what is there need not be a number
      }
    }
  }
  void solve_unit_upper(int64_t n, View<const double> a, View<double> b) const {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = n - 1; i >= 0; --i)
        for (int64_t l = i + 1; l < n; ++l)
          b.data[i + j * b.distance] -= a.data[i + l * a.distance] * b.data[l + j * b.distance];
  }
};
using Steps = Tridiagonalization<HostMachine>;

// A piece of memory in which nothing is a number.
template <class Parts>
class Room {
 public:
  explicit Room(int64_t n) : memory_(index(bytes(n) + kAlignment), 0xff), parts_(place(n)) {}
  const Parts& operator*() const { return parts_; }

 private:
  static constexpr int64_t kAlignment = 512;
  static int64_t bytes(int64_t n) {
    Pieces pieces(nullptr);
    const Parts parts(pieces, n);
    return pieces.bytes();
  }
  Parts place(int64_t n) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    Pieces pieces(memory_.data() + (kAlignment - address % kAlignment) % kAlignment);
    return Parts(pieces, n);
  }
  std::vector<unsigned char> memory_;
  Parts parts_;
};

using Matrix = std::vector<double>;  // by columns

// Reduces a to Q T Q^T and looks at Q, which transforms the identity, and at T.
void expect_tridiagonal(const Matrix& given, int64_t n) {
  Matrix a = given, q(index(n * n)), d(index(n)), e(index(n));
  for (int64_t i = 0; i < n; ++i) q[index(i * (n + 1))] = 1;
  const Room<Steps::Kept> kept(n);
  const Room<Steps::ForReduction> for_reduction(n);
  const Room<Steps::ForVectors> for_vectors(n);
  const HostMachine machine;
  const Steps steps(machine, a.data(), n, *kept);
  steps.to_band(*for_reduction);
  steps.chase(*for_reduction, d.data(), e.data());
  steps.transform_by_chase(*for_vectors, {q.data(), n}, n);
  steps.transform_by_band(*for_vectors, {q.data(), n}, n);

  Matrix product(index(n * n)), tridiagonal(index(n * n)), square(index(n * n));
  const View<const double> of_q{q.data(), n};
  machine.gemm(MatrixOp::none, MatrixOp::none, n, n, n, 1, {given.data(), n}, of_q, 0, {product.data(), n});
  machine.gemm(MatrixOp::transpose, MatrixOp::none, n, n, n, 1, of_q, {product.data(), n}, 0, {tridiagonal.data(), n});
  machine.gemm(MatrixOp::transpose, MatrixOp::none, n, n, n, 1, of_q, of_q, 0, {square.data(), n});
  double norm = 0, residual = 0, orthogonality = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double t = i == j ? d[index(i)] : std::abs(i - j) == 1 ? e[index(std::min(i, j))] : 0;
      const double off = std::abs(tridiagonal[index(i + j * n)] - t);
      const double turned = std::abs(square[index(i + j * n)] - (i == j ? 1 : 0));
      ASSERT_TRUE(std::isfinite(off) && std::isfinite(turned)) << i << ", " << j;
      residual = std::max(residual, off);
      orthogonality = std::max(orthogonality, turned);
      sum += std::abs(given[index(i + j * n)]);
    }
    norm = std::max(norm, sum);
  }
  const double place = std::numeric_limits<double>::epsilon() * static_cast<double>(n);
  EXPECT_LE(residual, norm * place);
  EXPECT_LE(orthogonality, 3 * place);
}

template <class Element>
Matrix symmetric(int64_t n, const Element& element) {
  Matrix a(index(n * n));
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = j; i < n; ++i) a[index(i + j * n)] = a[index(j + i * n)] = element(i, j);
  return a;
}

class TwoStagesOfSizes : public testing::TestWithParam<int64_t> {};

// A matrix in which nothing is to be done, a band, a last panel of one row and of some, several groups of sweeps.
TEST_P(TwoStagesOfSizes, MakeMatricesTridiagonal) {
  const int64_t n = GetParam();
  std::mt19937_64 random(index(n));
  std::normal_distribution<double> normal;
  expect_tridiagonal(symmetric(n, [&](int64_t, int64_t) { return normal(random); }), n);
}
INSTANTIATE_TEST_SUITE_P(All, TwoStagesOfSizes, testing::Values(3, 4, 65, 66, 131),
                         [](const auto& info) { return "n" + std::to_string(info.param); });

// What is reflected is nothing but roundings, whose squares underflow one after the other.
TEST(TwoStages, MakeMatricesOfOnesTridiagonal) {
  expect_tridiagonal(symmetric(130, [](int64_t, int64_t) { return 1.0; }), 130);
}
}  // namespace
}  // namespace quarry::local::cuda
