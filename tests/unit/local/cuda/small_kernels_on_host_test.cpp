// Elimination in shared memory and Jacobi's method in registers, run on the host.
#include "tests/unit/local/cuda/small_matrices_on_host.h"

namespace quarry::local::cuda {
namespace {

template <class T>
class SmallKernelsOnHost : public SmallMatricesOnHost<T> {
 protected:
  using Real = decltype(std::abs(T()));
  static constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();
  static constexpr double kEpsilon = std::numeric_limits<Real>::epsilon();

  static std::string sized(const char* name, int64_t n) {
    return std::string(name) + (n > 64 ? "_128" : n > 32 ? "_64" : "_32");
  }
};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(SmallKernelsOnHost, Types);

// On both sides of what panels, warps and kernels hold.
constexpr int64_t kSizes[] = {1, 2, 7, 8, 9, 31, 32, 33, 64, 65, 100, 128};

bool fits(DType dtype, int64_t n) { return dtype != DType::complex128 || n <= 65; }

TYPED_TEST(SmallKernelsOnHost, FactorsByPanels) {
  using T = TypeParam;
  if (!this->compile({SmallMatrices::factors_32, SmallMatrices::factors_64, SmallMatrices::factors_128}))
    GTEST_SKIP() << "no compiler";
  const auto factor = [&](Stack<T>& lu) {
    this->pivots_.assign(static_cast<size_t>(lu.count * lu.n), -1);
    this->info_.assign(static_cast<size_t>(lu.count), -1);
    this->run_slots(this->sized("factors", lu.n),
                    {slot_of(lu.elements.data()), slot_of(lu.elements.data()), slot_of(this->pivots_.data()),
                     slot_of(this->info_.data()), lu.count, lu.n, 0, 0, lu.n | 1});
  };
  for (const int64_t n : kSizes)
    if (fits(this->dtype(), n)) this->expect_factors(n, factor);
  // Of equal elements the first is the pivot, as in LAPACK, by the order that exchanges have made.
  Stack<T> a{1, 4, std::vector<T>{1, 1, 1, 1, 1, -1, 1, -1, 1, 1, -1, -1, 1, -1, -1, 1}};
  factor(a);
  EXPECT_EQ(this->pivots_, (std::vector<int32_t>{1, 2, 3, 4}));
  Stack<T> b{1, 3, std::vector<T>{1, 2, 2, 0, 3, 3, 1, 5, 5}};
  factor(b);
  EXPECT_EQ(this->pivots_[0], 2);
  // Singular from its second step on.
  Stack<T> c{1, 3, std::vector<T>(9, T(1))};
  factor(c);
  EXPECT_EQ(this->info_[0], 2);
}

TYPED_TEST(SmallKernelsOnHost, SolutionsByPanels) {
  using T = TypeParam;
  if (!this->compile({SmallMatrices::solution_32, SmallMatrices::solution_64, SmallMatrices::solution_128}))
    GTEST_SKIP() << "no compiler";
  for (const int64_t n : kSizes) {
    if (!fits(this->dtype(), n)) continue;
    for (const int64_t sides : {1, 4, 11}) {
      for (const bool by_rows : {false, true}) {
        Stack<T> a = random_stack<T>(n);
        const int64_t singular = 3, unknown = 5;
        for (int64_t i = 0; i < n; ++i) a.at(singular, i, n / 2) = T(0);
        a.at(unknown, n / 2, n - 1) = this->kNan;
        const Stack<T> before = a;
        std::mt19937_64 random(static_cast<uint64_t>(sides));
        std::vector<T> b(static_cast<size_t>(kCount * n * sides));
        for (T& x : b) x = random_number<T>(random);
        std::vector<T> x = b;
        this->info_.assign(kCount, -1);
        this->run_slots(this->sized("solution", n), {slot_of(a.elements.data()), slot_of(x.data()), 0,
                                                     slot_of(this->info_.data()), kCount, n, sides, by_rows, n | 1});
        EXPECT_EQ(std::memcmp(a.elements.data(), before.elements.data(), a.elements.size() * sizeof(T)), 0);
        for (int64_t p = 0; p < kCount; ++p) {
          // A column of zeros as rows is a row of zeros, whose place in the order of pivots is the last.
          const int32_t info = this->info_[static_cast<size_t>(p)];
          EXPECT_EQ(info, p != singular ? 0 : by_rows ? n : n / 2 + 1) << n << ", matrix " << p;
          if (p == singular) continue;
          const auto element = [&](int64_t i, int64_t j) { return by_rows ? a.at(p, j, i) : a.at(p, i, j); };
          for (int64_t side = 0; side < sides; ++side) {
            const auto at = [&](int64_t i) { return static_cast<size_t>((p * sides + side) * n + i); };
            double error = 0, size = 0;
            bool any_nan = false;
            for (int64_t i = 0; i < n; ++i) {
              T sum = -b[at(i)];
              for (int64_t j = 0; j < n; ++j) sum += element(i, j) * x[at(j)];
              error = std::max(error, static_cast<double>(std::abs(sum)));
              size = std::max(size, static_cast<double>(std::abs(x[at(i)])));
              any_nan = any_nan || std::isnan(std::abs(x[at(i)]));
            }
            EXPECT_EQ(any_nan, p == unknown) << n << ", matrix " << p;
            if (p == unknown) continue;
            EXPECT_LT(error / (norm(n, element) * size * static_cast<double>(n) * this->kEpsilon), this->kRatio)
                << n << ", " << sides << " sides, matrix " << p;
          }
        }
      }
    }
  }
}

// Ill-conditioned: elimination and back substitution leave a residual of the solution's size, which Gauss and Jordan's
// method does not.
TYPED_TEST(SmallKernelsOnHost, ResidualsOfHilbertMatrices) {
  using T = TypeParam;
  if (!this->compile({SmallMatrices::solution_32})) GTEST_SKIP() << "no compiler";
  const int64_t n = 12;
  Stack<T> a{1, n, std::vector<T>(static_cast<size_t>(n * n))};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      a.at(0, i, j) = T(1) / static_cast<T>(static_cast<typename TestFixture::Real>(i + j + 1));
  std::vector<T> x(static_cast<size_t>(n), T(1));
  this->info_.assign(1, -1);
  this->run_slots("solution_32",
                  {slot_of(a.elements.data()), slot_of(x.data()), 0, slot_of(this->info_.data()), 1, n, 1, 0, n | 1});
  double error = 0, size = 0;
  for (int64_t i = 0; i < n; ++i) {
    std::complex<double> sum = -1;
    for (int64_t j = 0; j < n; ++j)
      sum += std::complex<double>(a.at(0, i, j)) * std::complex<double>(x[static_cast<size_t>(j)]);
    error = std::max(error, std::abs(sum));
    size = std::max(size, static_cast<double>(std::abs(x[static_cast<size_t>(i)])));
  }
  EXPECT_LT(error / (3 * size * static_cast<double>(n) * this->kEpsilon), this->kRatio);
}

TYPED_TEST(SmallKernelsOnHost, LogDeterminants) {
  using T = TypeParam;
  using Real = typename TestFixture::Real;
  if (!this->compile({SmallMatrices::logarithm_32, SmallMatrices::logarithm_64, SmallMatrices::logarithm_128}))
    GTEST_SKIP() << "no compiler";
  for (const int64_t n : kSizes) {
    if (!fits(this->dtype(), n)) continue;
    Stack<T> a = random_stack<T>(n);
    const int64_t singular = 3, unknown = 5, both = 7;
    for (const int64_t p : {singular, both})
      for (int64_t i = 0; i < n; ++i) a.at(p, i, 0) = T(0);
    a.at(unknown, n - 1, n / 2) = a.at(both, n - 1, n - 1) = this->kNan;
    std::vector<T> sign(kCount, T(7));
    std::vector<Real> logarithm(kCount, 7);
    this->run_slots(this->sized("logarithm", n), {slot_of(a.elements.data()), slot_of(sign.data()),
                                                  slot_of(logarithm.data()), 0, kCount, n, 0, 0, n | 1});
    for (int64_t p = 0; p < kCount; ++p) {
      const auto at = static_cast<size_t>(p);
      const std::complex<double> found(sign[at]);
      if (p == unknown || p == both) {
        EXPECT_TRUE(std::isnan(std::abs(found)) && std::isnan(logarithm[at])) << n << ", matrix " << p;
        continue;
      }
      if (p == singular) {
        EXPECT_TRUE(found == 0.0 && logarithm[at] == -std::numeric_limits<Real>::infinity()) << n;
        continue;
      }
      std::vector<std::complex<double>> w(static_cast<size_t>(n * n));
      const auto of = [&](int64_t i, int64_t j) -> std::complex<double>& { return w[static_cast<size_t>(j * n + i)]; };
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) of(i, j) = a.at(p, i, j);
      std::complex<double> turn = 1;
      double sum = 0, growth = 0;
      for (int64_t k = 0; k < n; ++k) {
        int64_t row = k;
        for (int64_t i = k; i < n; ++i)
          if (std::abs(of(i, k)) > std::abs(of(row, k))) row = i;
        if (row != k) turn = -turn;
        for (int64_t j = 0; j < n; ++j) std::swap(of(k, j), of(row, j));
        sum += std::log(std::abs(of(k, k)));
        growth += 1 / std::abs(of(k, k));
        turn *= of(k, k) / std::abs(of(k, k));
        for (int64_t i = k + 1; i < n; ++i)
          for (int64_t j = n - 1; j >= k; --j) of(i, j) -= of(i, k) / of(k, k) * of(k, j);
      }
      const double bound = 30 * this->kEpsilon * static_cast<double>(n) * (1 + growth);
      EXPECT_LT(std::abs(found - turn), bound) << n << ", matrix " << p;
      EXPECT_LT(std::abs(static_cast<double>(logarithm[at]) - sum), bound + bound * std::abs(sum)) << n;
    }
  }
}

TYPED_TEST(SmallKernelsOnHost, CholeskyByPanels) {
  using T = TypeParam;
  if (!this->compile({SmallMatrices::cholesky_32, SmallMatrices::cholesky_64, SmallMatrices::cholesky_128}))
    GTEST_SKIP() << "no compiler";
  using Wide = std::complex<double>;
  for (const int64_t n : kSizes) {
    if (!fits(this->dtype(), n)) continue;
    const Stack<T> x = random_stack<T>(n);
    Stack<T> a = x;
    for (int64_t p = 0; p < kCount; ++p)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          Wide sum = i == j ? static_cast<double>(n) : 0.0;
          for (int64_t k = 0; k < n; ++k) sum += Wide(x.at(p, i, k)) * std::conj(Wide(x.at(p, j, k)));
          if constexpr (requires(T y) { y.imag(); })
            a.at(p, i, j) = T(sum);
          else
            a.at(p, i, j) = static_cast<T>(sum.real());
        }
    const int64_t negative = 3, unknown = 5;
    a.at(negative, n / 2, n / 2) = T(-1);
    for (const bool upper : {false, true})
      for (const bool by_rows : {false, true}) {
        // What is not to be read is NaN; (row, column) stands at (column, row) where rows are lines.
        Stack<T> given = a;
        const auto element = [by_rows](Stack<T>& of, int64_t p, int64_t row, int64_t column) -> T& {
          return by_rows ? of.at(p, column, row) : of.at(p, row, column);
        };
        for (int64_t p = 0; p < kCount; ++p)
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j)
              element(given, p, i, j) = i == j || (j > i) == upper ? a.at(p, i, j) : T(this->kNan);
        element(given, unknown, upper ? 0 : n - 1, upper ? n - 1 : 0) = this->kNan;
        Stack<T> out = x;
        this->info_.assign(kCount, -1);
        this->run_slots(this->sized("cholesky", n), {slot_of(given.elements.data()), slot_of(out.elements.data()), 0,
                                                     slot_of(this->info_.data()), kCount, n, upper, by_rows, n | 1});
        for (int64_t p = 0; p < kCount; ++p) {
          const int32_t info = this->info_[static_cast<size_t>(p)];
          EXPECT_EQ(info, p == negative ? n / 2 + 1 : p == unknown ? n : 0) << n << ", matrix " << p;
          if (info != 0) continue;
          const auto factor = [&](int64_t row, int64_t column) { return Wide(out.at(p, column, row)); };
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) {
              if (i != j && (j > i) != upper) {
                EXPECT_EQ(factor(i, j), 0.0);
              }
            }
          const double error = norm(n, [&](int64_t i, int64_t j) {
            Wide sum = -Wide(a.at(p, i, j));
            for (int64_t k = 0; k < n; ++k)
              sum += upper ? std::conj(factor(k, i)) * factor(k, j) : factor(i, k) * std::conj(factor(j, k));
            return sum;
          });
          const double size = norm(n, [&](int64_t i, int64_t j) { return a.at(p, i, j); });
          EXPECT_LT(error / (size * static_cast<double>(n) * this->kEpsilon), this->kRatio) << n << ", matrix " << p;
        }
      }
  }
}

TYPED_TEST(SmallKernelsOnHost, SingularValuesInRegisters) {
  using T = TypeParam;
  using Real = typename TestFixture::Real;
  std::vector<SmallMatrices> families{SmallMatrices::warp_jacobi_8, SmallMatrices::warp_jacobi_16};
  const bool large = this->dtype() != DType::complex128;
  if (large) families.push_back(SmallMatrices::warp_jacobi_32);
  if (!this->compile(families)) GTEST_SKIP() << "no compiler";
  constexpr int64_t kShapes[][2] = {{1, 1},   {2, 1},   {8, 8},  {7, 2},   {9, 3},   {16, 16},
                                    {15, 15}, {17, 17}, {32, 1}, {32, 20}, {31, 31}, {32, 32}};
  constexpr int64_t kMatrices = 11, kZero = 2, kOfRankOne = 4, kTiny = 6, kHuge = 8;
  for (const auto& [m, n] : kShapes) {
    if (!large && m > 16) continue;
    const auto at = [rows = m, elements = m * n](int64_t p, int64_t i, int64_t j) {
      return static_cast<size_t>(p * elements + j * rows + i);
    };
    std::mt19937_64 random(static_cast<uint64_t>(m * 100 + n));
    std::vector<T> a(static_cast<size_t>(kMatrices * m * n));
    for (T& x : a) x = random_number<T>(random);
    const Real tiny = std::sqrt(std::numeric_limits<Real>::min()) / 1000, huge = 1 / tiny;
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < m; ++i) {
        a[at(kZero, i, j)] = T(0);
        a[at(kOfRankOne, i, j)] = a[at(kOfRankOne, i, 0)] * static_cast<Real>(j + 1);
        a[at(kTiny, i, j)] *= tiny;
        a[at(kHuge, i, j)] *= huge;
      }
    const std::vector<T> before = a;
    std::vector<Real> values(static_cast<size_t>(kMatrices * n), this->kNan), alone = values;
    std::vector<T> u(a.size(), this->kNan), vh(static_cast<size_t>(kMatrices * n * n), this->kNan);
    this->info_.assign(kMatrices, -1);
    int32_t incomplete = 0;
    const std::string side = m > 16 ? "32" : m > 8 ? "16" : "8";
    this->run_slots("vectors_" + side,
                    {slot_of(a.data()), slot_of(values.data()), slot_of(u.data()), slot_of(vh.data()), 0,
                     slot_of(this->info_.data()), slot_of(&incomplete), kMatrices, m, n, m * n});
    EXPECT_EQ(this->info_, std::vector<int32_t>(kMatrices, 0)) << m << " x " << n;
    EXPECT_EQ(incomplete, 1);
    a = before;
    this->run_slots("values_" + side, {slot_of(a.data()), slot_of(alone.data()), 0, 0, 0, slot_of(this->info_.data()),
                                       slot_of(&incomplete), kMatrices, m, n, 0});
    for (int64_t p = 0; p < kMatrices; ++p) {
      const auto value = [&](int64_t j) { return static_cast<double>(values[static_cast<size_t>(p * n + j)]); };
      const auto v = [&](int64_t i, int64_t j) { return vh[static_cast<size_t>((p * n + j) * n + i)]; };
      const double bound = 10 * static_cast<double>(m) * this->kEpsilon, largest = value(0);
      EXPECT_EQ(largest == 0, p == kZero);
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_TRUE(j == 0 || value(j) <= value(j - 1)) << m << " x " << n << ", matrix " << p;
        EXPECT_LE(std::abs(value(j) - static_cast<double>(alone[static_cast<size_t>(p * n + j)])), bound * largest);
        EXPECT_LE(value(j), p == kOfRankOne && j > 0 ? bound * largest : largest);
        for (int64_t k = 0; k <= j; ++k) {
          std::complex<double> of_u = 0, of_v = 0;
          for (int64_t i = 0; i < m; ++i)
            of_u += std::conj(std::complex<double>(u[at(p, i, k)])) * std::complex<double>(u[at(p, i, j)]);
          for (int64_t i = 0; i < n; ++i)
            of_v += std::complex<double>(v(k, i)) * std::conj(std::complex<double>(v(j, i)));
          EXPECT_LE(std::abs(of_v - (j == k ? 1.0 : 0.0)), bound) << m << " x " << n << ", matrix " << p;
          EXPECT_LE(std::abs(of_u - (j == k && value(j) != 0 ? 1.0 : 0.0)), bound) << m << " x " << n << ", " << p;
        }
      }
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          std::complex<double> sum = -std::complex<double>(before[at(p, i, j)]);
          for (int64_t k = 0; k < n; ++k)
            sum += std::complex<double>(u[at(p, i, k)]) * value(k) * std::complex<double>(v(k, j));
          ASSERT_LE(std::abs(sum), bound * largest) << m << " x " << n << ", matrix " << p;
        }
    }
  }
}

TYPED_TEST(SmallKernelsOnHost, EigenvectorsInRegisters) {
  using T = TypeParam;
  using Real = typename TestFixture::Real;
  if (!this->compile({SmallMatrices::warp_eigh_16, SmallMatrices::warp_eigh_32})) GTEST_SKIP() << "no compiler";
  const bool large = this->dtype() != DType::complex128;
  constexpr int64_t kMatrices = 11, kZero = 2, kOfRankOne = 4, kTiny = 6, kHuge = 8, kDiagonal = 9, kOnes = 10;
  for (const int64_t n : {1, 2, 3, 8, 9, 15, 16, 17, 24, 31, 32}) {
    if (!large && n > 16) continue;
    const Real tiny = std::sqrt(std::numeric_limits<Real>::min()) / 1000, huge = 1 / tiny;
    const auto conj = [](const T& x) {
      if constexpr (requires { x.imag(); })
        return std::conj(x);
      else
        return x;
    };
    for (const bool lower : {true, false}) {
      std::mt19937_64 random(static_cast<uint64_t>(n));
      Stack<T> a{kMatrices, n, std::vector<T>(static_cast<size_t>(kMatrices * n * n))};
      for (T& x : a.elements) x = random_number<T>(random);
      std::vector<T> w(static_cast<size_t>(n));
      for (T& x : w) x = random_number<T>(random);
      for (int64_t p = 0; p < kMatrices; ++p)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t i = j; i < n; ++i) {
            T x = a.at(p, i, j);
            if (p == kZero || (p == kDiagonal && i != j)) x = T(0);
            if (p == kDiagonal && i == j) x = static_cast<T>(static_cast<Real>((j * 7 + 3) % n) / 10);
            if (p == kOfRankOne) x = -w[static_cast<size_t>(i)] * conj(w[static_cast<size_t>(j)]);
            if (p == kOnes) x = T(1);
            if (p == kTiny) x *= tiny;
            if (p == kHuge) x *= huge;
            if (i == j) x = T(std::real(x));
            a.at(p, i, j) = x;
            a.at(p, j, i) = conj(x);
          }
      Stack<T> given = a;  // with one triangle, and what is to be ignored
      for (int64_t p = 0; p < kMatrices; ++p)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t i = 0; i < n; ++i)
            if (i != j && (i > j) != lower) given.at(p, i, j) = this->kNan;
      Stack<T> v = given;
      std::vector<Real> values(static_cast<size_t>(kMatrices * n), this->kNan), alone = values;
      this->info_.assign(kMatrices, -1);
      const std::string side = n > 16 ? "32" : "16";
      this->run_slots("eigh_vectors_" + side, {slot_of(v.elements.data()), slot_of(values.data()),
                                               slot_of(this->info_.data()), kMatrices, n, lower});
      EXPECT_EQ(this->info_, std::vector<int32_t>(kMatrices, 0)) << n;
      this->run_slots("eigh_values_" + side, {slot_of(given.elements.data()), slot_of(alone.data()),
                                              slot_of(this->info_.data()), kMatrices, n, lower});
      for (int64_t p = 0; p < kMatrices; ++p) {
        const auto value = [&](int64_t j) { return static_cast<double>(values[static_cast<size_t>(p * n + j)]); };
        const double largest = std::max(std::abs(value(0)), std::abs(value(n - 1)));
        const double bound = 4 * static_cast<double>(n) * this->kEpsilon;
        EXPECT_EQ(largest == 0, p == kZero || (p == kDiagonal && n == 1 && a.at(p, 0, 0) == T(0))) << n;
        for (int64_t j = 0; j < n; ++j) {
          EXPECT_TRUE(j == 0 || value(j) >= value(j - 1)) << n << ", matrix " << p;
          EXPECT_LE(std::abs(value(j) - static_cast<double>(alone[static_cast<size_t>(p * n + j)])), bound * largest);
          for (int64_t k = 0; k <= j; ++k) {
            std::complex<double> dot = 0;
            for (int64_t i = 0; i < n; ++i)
              dot += std::conj(std::complex<double>(v.at(p, i, k))) * std::complex<double>(v.at(p, i, j));
            EXPECT_LE(std::abs(dot - (j == k ? 1.0 : 0.0)), bound) << n << ", matrix " << p;
          }
          for (int64_t i = 0; i < n; ++i) {
            std::complex<double> sum = -value(j) * std::complex<double>(v.at(p, i, j));
            for (int64_t k = 0; k < n; ++k)
              sum += std::complex<double>(a.at(p, i, k)) * std::complex<double>(v.at(p, k, j));
            ASSERT_LE(std::abs(sum), bound * largest) << n << ", matrix " << p << (lower ? " lower" : " upper");
          }
        }
        // A diagonal is what it was, in order.
        if (p != kDiagonal) continue;
        std::vector<double> diagonal;
        for (int64_t j = 0; j < n; ++j) diagonal.push_back(static_cast<double>(std::real(a.at(p, j, j))));
        std::sort(diagonal.begin(), diagonal.end());
        for (int64_t j = 0; j < n; ++j) EXPECT_EQ(value(j), diagonal[static_cast<size_t>(j)]);
      }
    }
  }
}

}  // namespace
}  // namespace quarry::local::cuda
