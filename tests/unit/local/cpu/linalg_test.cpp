#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/program/decompositions.h"
#include "quarry/local/program/products.h"

namespace quarry::local {
namespace {

ExecContext context(int threads = 0) {
  ExecContext c;
  c.memory = &default_pool(kCpu);
  c.threads = threads;
  return c;
}

template <class T>
T number(int64_t i) {
  const double re = static_cast<double>((i * 7919) % 101) / 50 - 1;
  if constexpr (requires(T x) { x.imag(); })
    return T(static_cast<typename T::value_type>(re), static_cast<typename T::value_type>((i % 7) - 3));
  else
    return T(static_cast<float>(re));
}

// A matrix by rows or by columns, with a gap between them.
template <class T>
struct Matrix {
  Matrix(int64_t rows, int64_t columns, bool by_rows, int64_t seed)
      : data(static_cast<size_t>((rows + 3) * (columns + 3))),
        view{data.data(), rows, columns, by_rows ? columns + 3 : 1, by_rows ? 1 : rows + 3} {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) at(i, j) = number<T>(seed + i * 1009 + j * 13);
  }
  T& at(int64_t i, int64_t j) { return data[static_cast<size_t>(i * view.row_stride + j * view.column_stride)]; }
  std::vector<T> data;
  MatrixView view;
};

std::complex<double> wide(std::complex<double> x) { return x; }
std::complex<double> wide(std::complex<float> x) { return x; }
std::complex<double> wide(float x) { return x; }
std::complex<double> wide(double x) { return x; }
std::complex<double> wide(float16 x) { return static_cast<float>(x); }
std::complex<double> wide(bfloat16 x) { return static_cast<float>(x); }

template <class T>
class CpuMatrix : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>, float16, bfloat16>;
TYPED_TEST_SUITE(CpuMatrix, Types);

template <class T>
double precision() {
  if (std::is_same_v<T, float16>) return 2e-3;
  if (std::is_same_v<T, bfloat16>) return 2e-2;
  return sizeof(T) == 4 || std::is_same_v<T, std::complex<float>> ? 1e-5 : 1e-13;
}

TYPED_TEST(CpuMatrix, GemmOfEveryLayout) {
  using T = TypeParam;
  struct Size {
    int64_t m, n, k;
  };
  for (const Size& s : {Size{1, 1, 1}, Size{5, 3, 7}, Size{1, 9, 4}, Size{530, 17, 33}, Size{6, 4, 0}})
    for (int layout = 0; layout < 8; ++layout)
      for (double beta : {0.0, 0.5}) {
        Matrix<T> a(s.m, s.k, layout & 1, 1), b(s.k, s.n, layout & 2, 2), c(s.m, s.n, layout & 4, 3);
        const std::vector<T> before = c.data;
        cpu_engine().products().gemm({dtype_of_v<T>, 2.0, a.view, b.view, beta, c.view}, context());
        Matrix<T> old(s.m, s.n, layout & 4, 3);
        for (int64_t i = 0; i < s.m; ++i)
          for (int64_t j = 0; j < s.n; ++j) {
            std::complex<double> sum = beta * wide(old.at(i, j));
            for (int64_t k = 0; k < s.k; ++k) sum += 2.0 * wide(a.at(i, k)) * wide(b.at(k, j));
            ASSERT_NEAR(std::abs(wide(c.at(i, j)) - sum), 0, precision<T>() * (10 + static_cast<double>(s.k)))
                << s.m << ' ' << s.n << ' ' << s.k << " layout " << layout << " at " << i << ' ' << j;
          }
      }
}

TYPED_TEST(CpuMatrix, SyrkOfEveryLayout) {
  using T = TypeParam;
  for (int64_t n : {1, 4, 530})
    for (int64_t m : {0, 1, 37})
      for (int layout = 0; layout < 4; ++layout) {
        Matrix<T> a(m, n, layout & 1, 1), c(n, n, layout & 2, 3);
        cpu_engine().products().syrk({dtype_of_v<T>, 0.5, a.view, 0, c.view}, context());
        for (int64_t i = 0; i<n; i += n> 100 ? 23 : 1)
          for (int64_t j = 0; j<n; j += n> 100 ? 19 : 1) {
            std::complex<double> sum = 0;
            for (int64_t k = 0; k < m; ++k) sum += 0.5 * std::conj(wide(a.at(k, i))) * wide(a.at(k, j));
            ASSERT_NEAR(std::abs(wide(c.at(i, j)) - sum), 0, precision<T>() * (10 + static_cast<double>(m)))
                << n << ' ' << m << " layout " << layout << " at " << i << ' ' << j;
            ASSERT_EQ(wide(c.at(i, j)), std::conj(wide(c.at(j, i))));
          }
      }
}

TEST(CpuMatrixInteger, GemmWraps) {
  int32_t a[] = {1 << 30, 3, -2, 5}, b[] = {4, 1, 7, -1}, c[4];
  cpu_engine().products().gemm({DType::int32, 1, {a, 2, 2, 2, 1}, {b, 2, 2, 2, 1}, 0, {c, 2, 2, 2, 1}}, context());
  EXPECT_EQ(c[0], 21);
  EXPECT_EQ(c[1], (1 << 30) - 3);
  EXPECT_EQ(c[2], 27);
  EXPECT_EQ(c[3], -7);
}

TEST(CpuMatrixBits, ThreadCountDoesNotMatter) {
  Matrix<double> a(700, 300, true, 5), b(300, 900, false, 6), c(700, 900, true, 7), d(700, 900, true, 7);
  cpu_engine().products().gemm({DType::float64, 1, a.view, b.view, 0, c.view}, context(1));
  cpu_engine().products().gemm({DType::float64, 1, a.view, b.view, 0, d.view}, context(3));
  EXPECT_EQ(c.data, d.data);
  Matrix<double> e(300, 300, true, 1), f(300, 300, true, 1);
  cpu_engine().products().syrk({DType::float64, 1, a.view, 0, e.view}, context(1));
  cpu_engine().products().syrk({DType::float64, 1, a.view, 0, f.view}, context(3));
  EXPECT_EQ(e.data, f.data);
}

template <class T>
class CpuEigh : public testing::Test {};
using EighTypes = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CpuEigh, EighTypes);

TYPED_TEST(CpuEigh, ReconstructsTheMatrix) {
  using T = TypeParam;
  for (int64_t n : {0, 1, 2, 33})
    for (Triangle triangle : {Triangle::lower, Triangle::upper})
      for (bool by_rows : {true, false}) {
        Matrix<T> a(n, n, by_rows, 1), v(n, n, !by_rows, 2);
        std::vector<decltype(std::abs(T{}))> w(static_cast<size_t>(n));
        // The other triangle must not be read.
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j)
            if (triangle == Triangle::lower ? j > i : j < i) a.at(i, j) = T(NAN);
        for (int64_t i = 0; i < n; ++i) a.at(i, i) = T(std::real(a.at(i, i)));
        cpu_engine().decompositions().eigh(dtype_of_v<T>, triangle, a.view, w.data(), v.view, context());
        for (int64_t i = 0; i < n; ++i) {
          if (i > 0) {
            ASSERT_LE(w[static_cast<size_t>(i - 1)], w[static_cast<size_t>(i)]);
          }
          for (int64_t j = 0; j < n; ++j) {
            if (triangle == Triangle::lower ? j > i : j < i) continue;
            std::complex<double> sum = 0;
            for (int64_t k = 0; k < n; ++k)
              sum += wide(v.at(i, k)) * static_cast<double>(w[static_cast<size_t>(k)]) * std::conj(wide(v.at(j, k)));
            ASSERT_NEAR(std::abs(sum - wide(a.at(i, j))), 0, 30 * precision<T>());
          }
        }
      }
}

TEST(CpuEighErrors, NotFinite) {
  double a[] = {1, 0, NAN, 2}, w[2], v[4];
  EXPECT_THROW(cpu_engine().decompositions().eigh(DType::float64, Triangle::lower, {a, 2, 2, 2, 1}, w, {v, 2, 2, 2, 1},
                                                  context()),
               InvalidArgument);
  EXPECT_NO_THROW(cpu_engine().decompositions().eigh(DType::float64, Triangle::upper, {a, 2, 2, 2, 1}, w,
                                                     {v, 2, 2, 2, 1}, context()));
  EXPECT_THROW(cpu_engine().decompositions().eigh(DType::float16, Triangle::lower, {a, 2, 2, 2, 1}, w, {v, 2, 2, 2, 1},
                                                  context()),
               TypeError);
}

}  // namespace
}  // namespace quarry::local
