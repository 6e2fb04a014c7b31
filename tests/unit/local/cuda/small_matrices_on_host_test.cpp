// Kernels for stacks of small matrices, run on the host: residuals, pivots, singular matrices and NaN.
#include "tests/unit/local/cuda/small_matrices_on_host.h"

namespace quarry::local::cuda {
namespace {

using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(SmallMatricesOnHost, Types);

constexpr int64_t kSizes[] = {1, 2, 3, 15, 16, 17, 32, 33, 63, 64, 65, 127, 128};

TYPED_TEST(SmallMatricesOnHost, Inverses) {
  using T = TypeParam;
  if (!this->compile({SmallMatrices::invert, SmallMatrices::invert_larger})) GTEST_SKIP() << "no compiler";
  for (const int64_t n : kSizes) {
    if (n > most_small(this->dtype())) continue;
    Stack<T> a = random_stack<T>(n), x = a;
    this->eliminate("invert", a, x);
    for (int64_t p = 0; p < kCount; ++p) {
      EXPECT_EQ(this->info_[static_cast<size_t>(p)], 0);
      const double error = norm(n, [&](int64_t i, int64_t j) {
        T sum = i == j ? T(-1) : T(0);
        for (int64_t k = 0; k < n; ++k) sum += a.at(p, i, k) * x.at(p, k, j);
        return sum;
      });
      const double scale = norm(n, [&](int64_t i, int64_t j) { return a.at(p, i, j); }) *
                           norm(n, [&](int64_t i, int64_t j) { return x.at(p, i, j); });
      EXPECT_LT(error / (scale * static_cast<double>(n) * std::numeric_limits<decltype(std::abs(T()))>::epsilon()),
                this->kRatio)
          << n << ", matrix " << p;
    }
    // A column of zeros; NaN.
    for (int64_t i = 0; i < n; ++i) a.at(0, i, n / 2) = T(0);
    a.at(2, n / 2, 0) = std::numeric_limits<decltype(std::abs(T()))>::quiet_NaN();
    this->eliminate("invert", a, x);
    EXPECT_EQ(this->info_[0], n / 2 + 1);
    EXPECT_EQ(this->info_[2], 0);
    for (int64_t i = 0; i < n; ++i) EXPECT_TRUE(std::isnan(std::abs(x.at(2, i, n - 1 - i))));
  }
}

TYPED_TEST(SmallMatricesOnHost, Factors) {
  using T = TypeParam;
  if (!this->compile({SmallMatrices::factor, SmallMatrices::factor_larger})) GTEST_SKIP() << "no compiler";
  for (const int64_t n : kSizes) {
    if (n > most_small(this->dtype())) continue;
    this->expect_factors(n, [&](Stack<T>& lu) { this->eliminate("factor", lu, lu); });
  }
}

TYPED_TEST(SmallMatricesOnHost, Solutions) {
  using T = TypeParam;
  if (!this->compile({SmallMatrices::factor, SmallMatrices::solve})) GTEST_SKIP() << "no compiler";
  const auto conj = [](const T& x) {
    if constexpr (requires { x.imag(); })
      return std::conj(x);
    else
      return x;
  };
  const int64_t most = this->dtype() == DType::complex128 ? 32 : 64;
  for (const int64_t n : {1, 2, 31, 32, 33, 64}) {
    if (n > most) continue;
    const Stack<T> a = random_stack<T>(n);
    Stack<T> lu = a;
    this->eliminate("factor", lu, lu);
    for (const int64_t sides : {1, 3, 9}) {
      for (const int64_t op : {0, 1, 2}) {
        std::mt19937_64 random(static_cast<uint64_t>(sides));
        std::vector<T> b(static_cast<size_t>(kCount * n * sides));
        for (T& x : b) x = random_number<T>(random);
        std::vector<T> x = b;
        this->run_slots(n > 32 ? "solve_64" : "solve_32", {slot_of(lu.elements.data()), slot_of(this->pivots_.data()),
                                                           slot_of(x.data()), kCount, n, sides, op});
        for (int64_t p = 0; p < kCount; ++p) {
          const auto element = [&](int64_t i, int64_t j) {
            return op == 0 ? a.at(p, i, j) : op == 1 ? a.at(p, j, i) : conj(a.at(p, j, i));
          };
          for (int64_t side = 0; side < sides; ++side) {
            const auto at = [&](int64_t i) { return static_cast<size_t>((p * sides + side) * n + i); };
            double error = 0, size = 0;
            for (int64_t i = 0; i < n; ++i) {
              T sum = -b[at(i)];
              for (int64_t j = 0; j < n; ++j) sum += element(i, j) * x[at(j)];
              error = std::max(error, static_cast<double>(std::abs(sum)));
              size = std::max(size, static_cast<double>(std::abs(x[at(i)])));
            }
            EXPECT_LT(error / (norm(n, element) * size * static_cast<double>(n) *
                               std::numeric_limits<decltype(std::abs(T()))>::epsilon()),
                      this->kRatio)
                << n << ", " << sides << " sides, operation " << op << ", matrix " << p;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quarry::local::cuda
