// The GPU's substitution by a triangle on the CPU: its kernel runs as it is, with fibers for threads
// (tests/support/host_block.h).
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/host_block.h"
// After it.
#include "quarry/local/cuda/triangles.cuh"
#include "tests/support/host_numbers.h"

namespace quarry::local::cuda {
namespace {

template <class T>
class Triangles : public testing::Test {
 protected:
  using Host = typename OnHost<T>::type;

  // What is above the diagonal, and a unit diagonal, are not numbers.
  struct Case {
    int rows;
    int64_t columns;
    bool by_rows, b_by_rows, conjugates, unit_diagonal, is_upper;
  };
  void expect_solution(const Case& how) {
    const int rows = how.rows;
    const int64_t columns = how.columns;
    const bool by_rows = how.by_rows, b_by_rows = how.b_by_rows, is_upper = how.is_upper;
    const bool conjugates = how.conjugates, unit_diagonal = how.unit_diagonal;
    constexpr Real<T> kNan = std::numeric_limits<Real<T>>::quiet_NaN();
    const int64_t distance = rows + 3, b_distance = (b_by_rows ? columns : rows) + 2;
    std::vector<Host> a(index(rows * distance), Host(kNan)), b(index((b_by_rows ? rows : columns) * b_distance));
    // Of the lower triangle, from the first row or from the last one on.
    const auto turned = [&](int64_t i) { return is_upper ? rows - 1 - i : i; };
    const auto m = [&](int64_t i, int64_t j) -> Host& {
      const int64_t row = turned(i), column = turned(j);
      return a[index(by_rows ? row * distance + column : column * distance + row)];
    };
    const auto x = [&](int64_t i, int64_t j) -> Host& {
      return b[index(b_by_rows ? turned(i) * b_distance + j : j * b_distance + turned(i))];
    };
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < i; ++j) m(i, j) = random_number<Host>(random_) / Real<T>(4);
      if (!unit_diagonal) m(i, i) = random_number<Host>(random_) + Host(2);
    }
    for (Host& value : b) value = random_number<Host>(random_);
    const std::vector<Host> given = b;

    const int64_t first = is_upper ? rows - 1 : 0, sign = is_upper ? -1 : 1;
    const TriangleTask<T> task{reinterpret_cast<const T*>(a.data()) + first * (distance + 1),
                               sign * (by_rows ? distance : 1),
                               sign * (by_rows ? 1 : distance),
                               conjugates,
                               unit_diagonal,
                               rows,
                               reinterpret_cast<T*>(b.data()) + first * (b_by_rows ? b_distance : 1),
                               sign * (b_by_rows ? b_distance : 1),
                               b_by_rows ? 1 : b_distance,
                               columns};
    const HostIndex blocks{static_cast<unsigned>((columns + kLanes - 1) / kLanes), 1};
    for (unsigned block = 0; block < blocks.x; ++block)
      HostBlock({block, 0}, blocks, kTriangleThreads, sizeof(TriangleShared<T>), [&] {
        triangle_kernel<T>(task);
      }).run();

    std::vector<Host> product = given;  // with the gaps between lines as they were
    double error = 0, size = 0;
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        Host sum{};
        double terms = 0;
        for (int64_t k = 0; k <= i; ++k) {
          const Host factor = k == i && unit_diagonal ? Host(1) : conjugate_if(conjugates, m(i, k));
          sum += factor * x(k, j);
          terms += std::abs(factor) * std::abs(x(k, j));
        }
        const auto at = index(&x(i, j) - b.data());
        ASSERT_TRUE(std::isfinite(std::abs(sum))) << i << ", " << j;
        error = std::max(error, static_cast<double>(std::abs(sum - given[at])) / terms);
        size = std::max(size, static_cast<double>(std::abs(b[at])));
        product[at] = b[at];
      }
    }
    EXPECT_LE(error, 3 * (rows + 4) * static_cast<double>(std::numeric_limits<Real<T>>::epsilon()));
    EXPECT_GT(size, 0);
    EXPECT_EQ(std::memcmp(product.data(), b.data(), b.size() * sizeof(Host)), 0);
  }

  std::mt19937_64 random_{7};
};

using Numbers = testing::Types<float, double, Complex<float>, Complex<double>>;
TYPED_TEST_SUITE(Triangles, Numbers);

TYPED_TEST(Triangles, OfAnySizeSolve) {
  constexpr int kBlock = kBlockRows<TypeParam>, kMost = kTriangleRows<TypeParam>;
  for (const int rows : {1, 2, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 3 * kBlock + 5, kMost - 1, kMost})
    for (const int64_t columns : {1, 31, 32, 33})
      this->expect_solution({rows, columns, false, false, false, false, false});
}

TYPED_TEST(Triangles, InAnyLayoutSolve) {
  for (int bits = 0; bits < 32; ++bits) {
    const auto has = [bits](int bit) { return (bits >> bit & 1) != 0; };
    SCOPED_TRACE(bits);
    this->expect_solution({2 * kBlockRows<TypeParam> + 3, 35, has(0), has(1), has(2), has(3), has(4)});
  }
}

// The reciprocals of the smallest numbers are not finite; quotients are.
TYPED_TEST(Triangles, WithTinyDiagonalsSolve) {
  using Host = typename OnHost<TypeParam>::type;
  constexpr auto kTiny = std::numeric_limits<Real<TypeParam>>::denorm_min();
  const Host a(4 * kTiny);
  Host b(8 * kTiny);
  const TriangleTask<TypeParam> task{reinterpret_cast<const TypeParam*>(&a), 1, 1, false, false, 1,
                                     reinterpret_cast<TypeParam*>(&b),       1, 1, 1};
  HostBlock({0, 0}, {1, 1}, kTriangleThreads, sizeof(TriangleShared<TypeParam>), [&] {
    triangle_kernel<TypeParam>(task);
  }).run();
  EXPECT_EQ(b, Host(2));
}

}  // namespace
}  // namespace quarry::local::cuda
