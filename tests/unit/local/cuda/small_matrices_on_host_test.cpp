// Kernels for stacks of small matrices, run on the host: residuals, pivots, singular matrices and NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/small_matrices.h"
#include "tests/unit/local/cuda/kernels_on_host.h"

namespace quarry::local::cuda {
namespace {

// Square matrices, column by column.
template <class T>
struct Stack {
  int64_t count, n;
  std::vector<T> elements;

  T& at(int64_t p, int64_t i, int64_t j) { return elements[static_cast<size_t>((p * n + j) * n + i)]; }
  T at(int64_t p, int64_t i, int64_t j) const { return elements[static_cast<size_t>((p * n + j) * n + i)]; }
};

template <class T>
T random_number(std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  if constexpr (requires(T x) { x.imag(); })
    return T(static_cast<typename T::value_type>(normal(random)), static_cast<typename T::value_type>(normal(random)));
  else
    return static_cast<T>(normal(random));
}

constexpr int64_t kCount = 19;
template <class T>
Stack<T> random_stack(int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(n));
  Stack<T> a{kCount, n, std::vector<T>(static_cast<size_t>(kCount * n * n))};
  for (T& x : a.elements) x = random_number<T>(random);
  // Pivots that are not where they are looked for first: the identity backwards.
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < n; ++i) a.at(1, i, j) = i + j == n - 1 ? T(1) : T(0);
  return a;
}

// |x| of a matrix: the largest sum of a column.
template <class F>
double norm(int64_t n, const F& element) {
  double most = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(std::abs(element(i, j)));
    most = std::isnan(sum) ? sum : std::max(most, sum);
  }
  return most;
}

template <class T>
class SmallMatricesOnHost : public ::testing::Test {
 protected:
  using Real = decltype(std::abs(T()));
  static constexpr double kRatio = 30;  // LAPACK's bound of its test ratios

  static DType dtype() {
    const bool is_double = sizeof(Real) == 8;
    if constexpr (std::is_same_v<T, Real>)
      return is_double ? DType::float64 : DType::float32;
    else
      return is_double ? DType::complex128 : DType::complex64;
  }
  // False where there is no compiler.
  // Families whose texts differ in their lists of kernels alone.
  bool compile(const std::vector<SmallMatrices>& families) {
    ModuleSource source = small_matrices_source(families[0], dtype());
    for (size_t i = 1; i < families.size(); ++i) {
      const bool larger = families[i] == SmallMatrices::invert_larger || families[i] == SmallMatrices::factor_larger;
      if (larger && dtype() == DType::complex128) continue;
      const ModuleSource other = small_matrices_source(families[i], dtype());
      const size_t from = other.text.find("extern \"C\"");
      source.text.insert(source.text.rfind('}'), other.text.substr(from, other.text.rfind('}') - from));
      source.kernels.insert(source.kernels.end(), other.kernels.begin(), other.kernels.end());
    }
    kernels_.add(source, "small");
    try {
      kernels_.compile();
    } catch (const NotSupported&) {
      return false;
    }
    return true;
  }
  // In place where `out` is `a`. Two blocks take all matrices, up to eight each at a time.
  void eliminate(const char* name, Stack<T>& a, Stack<T>& out) {
    pivots_.assign(static_cast<size_t>(a.count * a.n), -1);
    info_.assign(static_cast<size_t>(a.count), -1);
    const auto address = [](const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); };
    std::vector<int64_t> slots = {address(a.elements.data()),
                                  address(out.elements.data()),
                                  address(pivots_.data()),
                                  address(info_.data()),
                                  a.count,
                                  a.n};
    slots.resize(12);
    const int side = a.n > 64 ? 128 : a.n > 32 ? 64 : a.n > 16 ? 32 : 16;
    ASSERT_EQ(kernels_.call("run_" + std::string(name) + '_' + std::to_string(side), 2, 1, slots), "");
  }

  KernelsOnHost kernels_;
  std::vector<int32_t> pivots_, info_;
};

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
    const Stack<T> a = random_stack<T>(n);
    Stack<T> lu = a, exchanged = a;
    this->eliminate("factor", lu, lu);
    for (int64_t p = 0; p < kCount; ++p) {
      EXPECT_EQ(this->info_[static_cast<size_t>(p)], 0);
      for (int64_t k = 0; k < n; ++k) {
        const int64_t other = this->pivots_[static_cast<size_t>(p * n + k)] - 1;
        ASSERT_TRUE(other >= k && other < n);
        for (int64_t j = 0; j < n; ++j) std::swap(exchanged.at(p, k, j), exchanged.at(p, other, j));
        for (int64_t i = k + 1; i < n; ++i) EXPECT_LE(std::abs(lu.at(p, i, k)), 1.5);  // by |re| + |im|
      }
      const double error = norm(n, [&](int64_t i, int64_t j) {
        T sum = -exchanged.at(p, i, j);
        for (int64_t k = 0; k <= std::min(i, j); ++k) sum += (k == i ? T(1) : lu.at(p, i, k)) * lu.at(p, k, j);
        return sum;
      });
      const double scale = norm(n, [&](int64_t i, int64_t j) { return a.at(p, i, j); });
      EXPECT_LT(error / (scale * static_cast<double>(n) * std::numeric_limits<decltype(std::abs(T()))>::epsilon()),
                this->kRatio)
          << n << ", matrix " << p;
    }
    lu = a;
    for (int64_t i = 0; i < n; ++i) lu.at(0, i, n / 2) = T(0);
    this->eliminate("factor", lu, lu);
    EXPECT_EQ(this->info_[0], n / 2 + 1);
    for (const T& x : lu.elements) EXPECT_FALSE(std::isnan(std::abs(x)));
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
        const auto address = [](const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); };
        std::vector<int64_t> slots = {
            address(lu.elements.data()), address(this->pivots_.data()), address(x.data()), kCount, n, sides, op};
        slots.resize(12);
        ASSERT_EQ(this->kernels_.call(n > 32 ? "run_solve_64" : "run_solve_32", 2, 1, slots), "");
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
