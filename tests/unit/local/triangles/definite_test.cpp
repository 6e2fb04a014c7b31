// The GPU's Cholesky decomposition of a strip on the CPU: its kernel runs as it is, with fibers for threads
// (tests/support/host_block.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/host_block.h"
// After it.
#include "quarry/local/cuda/definite.cuh"
#include "tests/support/host_numbers.h"

namespace quarry::local::cuda {
namespace {

template <class T>
class Definite : public testing::Test {
 protected:
  using Host = typename OnHost<T>::type;
  static constexpr Real<T> kNan = std::numeric_limits<Real<T>>::quiet_NaN();

  // A tall matrix A of the form L D^H of a triangle D with a large diagonal, below which L has more rows. What is above
  // the diagonal is not a number, nor are imaginary parts on it.
  struct Strip {
    int64_t rows, distance;
    int columns;
    bool by_rows;
    std::vector<Host> a;
    Host& at(int64_t i, int64_t j) { return a[index(by_rows ? i * distance + j : j * distance + i)]; }
    int32_t info = 0, blocks = 0;
  };
  Strip strip(int64_t rows, int columns, bool by_rows) {
    Strip result{rows, (by_rows ? columns : rows) + 3, columns, by_rows, {}};
    result.a.assign(index((by_rows ? rows : columns) * result.distance), Host(kNan));
    std::vector<Host> l(index(rows * columns));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < std::min<int64_t>(i + 1, columns); ++j)
        l[index(i * columns + j)] =
            i == j ? Host(2 + std::abs(random_number<Host>(random_))) : random_number<Host>(random_);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < std::min<int64_t>(i + 1, columns); ++j) {
        Host sum{};
        for (int64_t k = 0; k <= j; ++k)
          sum += l[index(i * columns + k)] * conjugate_if(true, l[index(j * columns + k)]);
        if constexpr (is_complex_v<T>)
          if (i == j) sum = {sum.real(), kNan};
        result.at(i, j) = sum;
      }
    }
    return result;
  }

  static void decompose(Strip& strip, int64_t first) {
    const DefiniteStrip<T> task{reinterpret_cast<T*>(strip.a.data()),
                                strip.by_rows ? strip.distance : 1,
                                strip.by_rows ? 1 : strip.distance,
                                strip.rows,
                                strip.columns,
                                first,
                                &strip.info,
                                &strip.blocks};
    constexpr int64_t kRows = kDefiniteRows<T>;
    const auto blocks = static_cast<unsigned>(std::max<int64_t>((strip.rows - strip.columns + kRows - 1) / kRows, 1));
    run_blocks({blocks, 1}, kDefiniteThreads, sizeof(DefiniteShared<T>), [&] { definite_kernel<T>(task); });
  }

  void expect_factor(int64_t rows, int columns, bool by_rows) {
    SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns, " +
                 (by_rows ? "by rows" : "by columns"));
    Strip given = strip(rows, columns, by_rows), found = given;
    decompose(found, 0);
    EXPECT_EQ(found.info, 0);
    double error = 0;
    std::vector<Host> expected = given.a;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < std::min<int64_t>(i + 1, columns); ++j) {
        Host sum{};
        for (int64_t k = 0; k <= j; ++k) sum += found.at(i, k) * conjugate_if(true, found.at(j, k));
        const Host wanted = i == j ? Host(std::real(given.at(i, j))) : given.at(i, j);
        const double size = std::sqrt(std::abs(std::real(given.at(j, j)))) *
                            std::sqrt(i < columns ? std::abs(std::real(given.at(i, i))) : 3.0 * columns);
        ASSERT_TRUE(std::isfinite(std::abs(sum))) << i << ", " << j;
        error = std::max(error, static_cast<double>(std::abs(sum - wanted)) / size);
        expected[index(&found.at(i, j) - found.a.data())] = found.at(i, j);
      }
      if (i < columns) {
        EXPECT_EQ(std::imag(found.at(i, i)), 0);
        EXPECT_GT(std::real(found.at(i, i)), 0);
      }
    }
    EXPECT_LE(error, (columns + 8) * static_cast<double>(std::numeric_limits<Real<T>>::epsilon()));
    // Nothing else was written.
    EXPECT_EQ(std::memcmp(expected.data(), found.a.data(), found.a.size() * sizeof(Host)), 0);
  }

  std::mt19937_64 random_{11};
};

using Numbers = testing::Types<float, double, Complex<float>, Complex<double>>;
TYPED_TEST_SUITE(Definite, Numbers);

TYPED_TEST(Definite, StripsOfAnySizeAreDecomposed) {
  constexpr int kGroup = kDefiniteGroup<TypeParam>, kMost = kDefiniteColumns<TypeParam>;
  constexpr int64_t kRows = kDefiniteRows<TypeParam>;
  for (const int columns : {1, 2, kGroup - 1, kGroup, kGroup + 1, 3 * kGroup + 2, kMost - 1, kMost})
    for (const int64_t below : {int64_t{0}, int64_t{1}, kRows, 2 * kRows + 3})
      for (const bool by_rows : {false, true}) this->expect_factor(columns + below, columns, by_rows);
}

TYPED_TEST(Definite, FirstMinorThatIsNotPositiveIsNamed) {
  constexpr int kColumns = kDefiniteColumns<TypeParam>;
  using Host = typename OnHost<TypeParam>::type;
  for (const int column : {0, 1, kColumns / 2 + 1, kColumns - 1}) {
    for (const auto value : {Host(-1), Host(0), Host(TestFixture::kNan)}) {
      auto strip = this->strip(kColumns + 5, kColumns, /*by_rows=*/false);
      // Nothing of the columns before is subtracted from it.
      for (int j = 0; j < column; ++j) strip.at(column, j) = 0;
      strip.at(column, column) = value;
      this->decompose(strip, /*first=*/1000);
      EXPECT_EQ(strip.info, 1000 + column + 1);
      // What an earlier strip has found stays.
      strip.blocks = 0;
      strip.info = 7;
      this->decompose(strip, /*first=*/1000);
      EXPECT_EQ(strip.info, 7);
    }
  }
}

}  // namespace
}  // namespace quarry::local::cuda
