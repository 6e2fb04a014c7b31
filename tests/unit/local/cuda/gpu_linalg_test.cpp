// Matrix products and eigenproblems on the GPU against plain loops.
#include <array>
#include <complex>
#include <cstring>
#include <utility>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/program/decompositions.h"
#include "quarry/local/program/products.h"
#include "tests/unit/local/cuda/gpu_support.h"

namespace quarry::local::cuda {
namespace {

// A matrix in host memory, row- or column-major, with unused room at the end of each line.
template <class T>
struct Matrix {
  int64_t rows, columns;
  bool row_major;
  int64_t padding;
  std::vector<T> data;

  Matrix(int64_t rows_, int64_t columns_, bool row_major_, uint64_t seed, int64_t padding_ = 0)
      : rows(rows_), columns(columns_), row_major(row_major_), padding(padding_) {
    data.resize(static_cast<size_t>(std::max<int64_t>(1, (row_major ? rows : columns) * line())));
    std::mt19937_64 random(seed);
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53 - 0.5; };
    for (T& x : data) {
      if constexpr (requires { x.imag(); })
        x = T(static_cast<typename T::value_type>(uniform()), static_cast<typename T::value_type>(uniform()));
      else
        x = T(static_cast<float>(uniform()));
    }
  }
  int64_t line() const { return (row_major ? columns : rows) + padding; }
  const T& at(int64_t i, int64_t j) const { return const_cast<Matrix&>(*this)(i, j); }
  T& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(row_major ? i * line() + j : j * line() + i)]; }
  MatrixView view(void* at) const { return {at, rows, columns, row_major ? line() : 1, row_major ? 1 : line()}; }
};

template <class T>
auto widen(T x) {
  if constexpr (requires { x.imag(); })
    return std::complex<double>(x);
  else
    return static_cast<double>(x);
}
template <class T>
auto conjugate(T x) {
  if constexpr (requires { x.imag(); })
    return std::conj(x);
  else
    return x;
}

template <class T>
class OnGpu {
 public:
  OnGpu(Matrix<T>& matrix, const ExecContext& context)
      : matrix_(matrix),
        context_(context),
        buffer_(static_cast<int64_t>(matrix.data.size() * sizeof(T)), *context.memory, context.stream) {
    context.stream->copy(buffer_.data(), matrix.data.data(), buffer_.bytes());
  }
  MatrixView view() const { return matrix_.view(buffer_.data()); }
  void fetch() {
    context_.stream->copy(matrix_.data.data(), buffer_.data(), buffer_.bytes());
    context_.stream->synchronize();
  }

 private:
  Matrix<T>& matrix_;
  const ExecContext& context_;
  Buffer buffer_;
};

template <class T>
class CudaLinalg : public CudaTest {};
using Types = ::testing::Types<float16, bfloat16, float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CudaLinalg, Types);

TYPED_TEST(CudaLinalg, GemmInEveryLayout) {
  using T = TypeParam;
  const ExecContext gpu = gpu_context();
  const double beta_values[] = {0.0, -0.5};
  for (int layout = 0; layout < 8; ++layout)
    for (const double beta : beta_values)
      for (const auto [m, n, k] :
           {std::array<int64_t, 3>{70, 50, 90}, {1, 33, 17}, {33, 1, 1}, {1, 1, 7}, {5, 4, 0}, {0, 3, 2}}) {
        Matrix<T> a(m, k, (layout & 1) != 0, 1, layout % 3), b(k, n, (layout & 2) != 0, 2),
            c(m, n, (layout & 4) != 0, 3, 2);
        Matrix<T> before = c;
        OnGpu<T> da(a, gpu), db(b, gpu), dc(c, gpu);
        const int64_t scratch =
            engine(kGpu).products().gemm_scratch_bytes({dtype_of_v<T>, 1.5, da.view(), db.view(), beta, dc.view()});
        EXPECT_GT(scratch, 0);
        engine(kGpu).products().gemm({dtype_of_v<T>, 1.5, da.view(), db.view(), beta, dc.view()}, gpu);
        dc.fetch();
        double worst = 0;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            auto sum = widen(T());
            for (int64_t l = 0; l < k; ++l) sum += widen(a(i, l)) * widen(b(l, j));
            const auto expected = 1.5 * sum + beta * widen(before(i, j));
            worst = std::max(worst, std::abs(widen(c(i, j)) - expected));
          }
        constexpr bool is_twice = sizeof(T) == 8 ? std::is_same_v<T, double> : sizeof(T) == 16;
        EXPECT_LT(worst, is_twice         ? 1e-13
                         : sizeof(T) == 2 ? 0.03
                                          : 1e-5)
            << "layout " << layout << " beta " << beta << " " << m << "x" << n << "x" << k;
        if (c.padding > 0 && m > 0) {
          const size_t beyond = static_cast<size_t>(c.row_major ? c.columns : c.rows);
          const void *after = &c.data[beyond], *untouched = &before.data[beyond];
          EXPECT_EQ(std::memcmp(after, untouched, 2 * sizeof(T)), 0);
        }
      }
}

TYPED_TEST(CudaLinalg, SyrkFillsBothTriangles) {
  using T = TypeParam;
  const ExecContext gpu = gpu_context();
  for (int layout = 0; layout < 4; ++layout)
    for (const double beta : {0.0, 2.0})
      for (const auto [n, k] : {std::array<int64_t, 2>{70, 200}, {1, 5}, {65, 1}, {40, 0}}) {
        Matrix<T> a(k, n, (layout & 1) != 0, 1), c(n, n, (layout & 2) != 0, 2, 1);
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j <= i; ++j) {
            if (i == j) {
              c(i, i) = T(1.0f);
            } else {
              c(j, i) = conjugate(c(i, j));
            }
          }
        Matrix<T> before = c;
        OnGpu<T> da(a, gpu), dc(c, gpu);
        engine(kGpu).products().syrk({dtype_of_v<T>, 0.5, da.view(), beta, dc.view()}, gpu);
        dc.fetch();
        double worst = 0;
        bool symmetric = true;
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) {
            auto sum = widen(T());
            for (int64_t l = 0; l < k; ++l) sum += conjugate(widen(a(l, i))) * widen(a(l, j));
            worst = std::max(worst, std::abs(widen(c(i, j)) - (0.5 * sum + beta * widen(before(i, j)))));
            symmetric = symmetric && widen(c(i, j)) == conjugate(widen(c(j, i)));
          }
        constexpr bool is_twice = sizeof(T) == 8 ? std::is_same_v<T, double> : sizeof(T) == 16;
        EXPECT_LT(worst, is_twice         ? 1e-12
                         : sizeof(T) == 2 ? 0.1
                                          : 1e-4)
            << "layout " << layout << " beta " << beta << " n " << n;
        EXPECT_TRUE(symmetric) << "layout " << layout << " n " << n;
      }
}

TYPED_TEST(CudaLinalg, EighOfEitherTriangle) {
  using T = TypeParam;
  using R = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>, double, float>;
  const ExecContext gpu = gpu_context();
  if constexpr (sizeof(T) == 2) {
    EXPECT_THROW(engine(kGpu).decompositions().eigh_scratch_bytes(dtype_of_v<T>, 3), TypeError);
  } else {
    for (int layout = 0; layout < 4; ++layout)
      for (const Triangle triangle : {Triangle::lower, Triangle::upper})
        for (const int64_t n : {1, 2, 33, 130}) {
          Matrix<T> a(n, n, (layout & 1) != 0, 1), v(n, n, (layout & 2) != 0, 2);
          Matrix<T> full = a;
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) {
              const bool stored = i == j || (triangle == Triangle::lower ? i > j : i < j);
              if (!stored) {
                full(i, j) = conjugate(a(j, i));
                a(i, j) = T(std::numeric_limits<float>::quiet_NaN());  // must not be read
              }
              if (i == j) full(i, i) = a(i, i) = T(std::real(widen(a(i, i))));
            }
          OnGpu<T> da(a, gpu), dv(v, gpu);
          const Buffer values(n * static_cast<int64_t>(sizeof(R)), *gpu.memory, gpu.stream);
          EXPECT_GT(engine(kGpu).decompositions().eigh_scratch_bytes(dtype_of_v<T>, n), 0);
          engine(kGpu).decompositions().eigh(dtype_of_v<T>, triangle, da.view(), values.data(), dv.view(), gpu);
          dv.fetch();
          std::vector<R> w(static_cast<size_t>(n));
          gpu.stream->copy(w.data(), values.data(), values.bytes());
          gpu.stream->synchronize();
          double residual = 0, orthogonality = 0;
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) {
              auto sum = widen(T()), dot = widen(T());
              for (int64_t l = 0; l < n; ++l) {
                sum += widen(full(i, l)) * widen(v(l, j));
                dot += conjugate(widen(v(l, i))) * widen(v(l, j));
              }
              residual =
                  std::max(residual, std::abs(sum - static_cast<double>(w[static_cast<size_t>(j)]) * widen(v(i, j))));
              orthogonality = std::max(orthogonality, std::abs(dot - (i == j ? 1.0 : 0.0)));
            }
          const double bound = sizeof(R) == 8 ? 1e-12 : 1e-4;
          EXPECT_LT(residual, bound) << "layout " << layout << " n " << n;
          EXPECT_LT(orthogonality, bound) << "layout " << layout << " n " << n;
          EXPECT_TRUE(std::is_sorted(w.begin(), w.end()));
        }
  }
}

// From both sides, over more rows than one kernel takes, of parts of matrices; the other triangle is not read.
TYPED_TEST(CudaLinalg, TriangularSolves) {
  using T = TypeParam;
  const ExecContext gpu = gpu_context();
  if constexpr (sizeof(T) > 2) {
    constexpr bool is_twice = std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>;
    for (int form = 0; form < 16; ++form)
      for (const MatrixOp op : {MatrixOp::none, MatrixOp::transpose, MatrixOp::conjugate_transpose})
        for (const auto [n, sides] :
             {std::array<int64_t, 2>{1, 1}, {7, 40}, {129, 16}, {256, 3}, {300, 70}, {600, 33}}) {
          const bool lower = (form & 1) != 0, unit = (form & 2) != 0, from_right = (form & 4) != 0;
          const int64_t padding = (form & 8) != 0 ? 3 : 0;
          Matrix<T> t(n, n, false, 1, padding), b(from_right ? sides : n, from_right ? n : sides, false, 2, padding);
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) {
              const bool is_stored = i == j ? !unit : lower == (i > j);
              t(i, j) = is_stored ? t(i, j) * T(i == j ? 1.0F : 1 / static_cast<float>(n)) + T(i == j ? 2.0F : 0.0F)
                                  : T(std::numeric_limits<float>::quiet_NaN());
            }
          const Matrix<T> sought = b;
          OnGpu<T> dt(t, gpu), db(b, gpu);
          const auto stack = [](const MatrixView& v) {
            return MatrixStack{v.data, 1, v.rows, v.columns, v.column_stride};
          };
          const Decomposition task = TriangularSolve{
              dtype_of_v<T>, lower ? Triangle::lower : Triangle::upper, op, unit, stack(dt.view()), stack(db.view()),
              from_right};
          EXPECT_GT(engine(kGpu).decompositions().scratch_bytes(task), 0);
          engine(kGpu).decompositions().run(task, gpu);
          db.fetch();
          const auto element = [&](int64_t i, int64_t j) {
            if (op != MatrixOp::none) std::swap(i, j);
            const bool is_zero = i != j && lower != (i > j);
            const auto value = i == j && unit ? widen(T(1.0F)) : is_zero ? widen(T()) : widen(t(i, j));
            return op == MatrixOp::conjugate_transpose ? conjugate(value) : value;
          };
          double worst = 0;
          for (int64_t s = 0; s < sides; ++s)
            for (int64_t i = 0; i < n; ++i) {
              auto sum = widen(T());
              for (int64_t k = 0; k < n; ++k)
                sum += from_right ? widen(b(s, k)) * element(k, i) : element(i, k) * widen(b(k, s));
              worst = std::max(worst, std::abs(sum - widen(from_right ? sought.at(s, i) : sought.at(i, s))));
            }
          EXPECT_LT(worst, is_twice ? 1e-13 : 1e-5) << "form " << form << " op " << static_cast<int>(op) << " n " << n;
          if (padding > 0) {
            const auto beyond = static_cast<size_t>(b.rows);
            EXPECT_EQ(std::memcmp(&b.data[beyond], &sought.data[beyond], 3 * sizeof(T)), 0);
          }
        }
  }
}

// A product of a matrix with its own transpose is made from one triangle, and c is known by its lower one.
TYPED_TEST(CudaLinalg, GemmWithItsOwnTranspose) {
  using T = TypeParam;
  const ExecContext gpu = gpu_context();
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    constexpr int64_t n = 1100, k = 37;
    for (const bool row_major : {false, true})
      for (const bool c_row_major : {false, true})
        for (const double beta : {0.0, 1.0}) {
          Matrix<T> a(n, k, row_major, 1), c(n, n, c_row_major, 2);
          Matrix<T> before = c;
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = i + 1; j < n; ++j) c(i, j) = std::numeric_limits<T>::quiet_NaN();
          OnGpu<T> da(a, gpu), dc(c, gpu);
          const MatrixView view = da.view();
          const MatrixView turned{view.data, view.columns, view.rows, view.column_stride, view.row_stride};
          engine(kGpu).products().gemm({dtype_of_v<T>, -1, view, turned, beta, dc.view()}, gpu);
          dc.fetch();
          const double bound = std::is_same_v<T, double> ? 1e-13 : 1e-5;
          bool is_near = true;  // NaN is not
          for (int64_t i = 0; i < n; i += 7)
            for (int64_t j = 0; j <= i; ++j) {
              double sum = beta == 0 ? 0 : beta * before(i, j);
              for (int64_t l = 0; l < k; ++l) sum -= static_cast<double>(a(i, l)) * a(j, l);
              is_near = is_near && std::abs(c(i, j) - sum) < bound && c(i, j) == c(j, i);
            }
          EXPECT_TRUE(is_near) << "row_major " << row_major << " of c " << c_row_major << " beta " << beta;
        }
  }
}

class CudaLinalgErrors : public CudaTest {};

TEST_F(CudaLinalgErrors, EighRefusesNan) {
  const ExecContext gpu = gpu_context();
  Matrix<double> a(5, 5, true, 1), v(5, 5, true, 2);
  a(3, 1) = std::numeric_limits<double>::quiet_NaN();
  OnGpu<double> da(a, gpu), dv(v, gpu);
  const Buffer values(40, *gpu.memory, gpu.stream);
  EXPECT_THROW(
      engine(kGpu).decompositions().eigh(DType::float64, Triangle::lower, da.view(), values.data(), dv.view(), gpu),
      InvalidArgument);
  EXPECT_NO_THROW(
      engine(kGpu).decompositions().eigh(DType::float64, Triangle::upper, da.view(), values.data(), dv.view(), gpu));
}

TEST_F(CudaLinalgErrors, ShapesAndStridesAreChecked) {
  const ExecContext gpu = gpu_context();
  Matrix<double> a(5, 4, true, 1), b(5, 3, true, 2), c(5, 3, true, 3);
  OnGpu<double> da(a, gpu), db(b, gpu), dc(c, gpu);
  EXPECT_THROW(engine(kGpu).products().gemm({DType::float64, 1, da.view(), db.view(), 0, dc.view()}, gpu),
               InvalidArgument);
  MatrixView skipping = da.view();
  skipping.column_stride = 2;
  EXPECT_THROW(engine(kGpu).products().syrk({DType::float64, 1, skipping, 0, dc.view()}, gpu), InvalidArgument);
}

class CudaPrecision : public CudaTest {};

TEST_F(CudaPrecision, GemmInEveryLayout) {
  const ExecContext gpu = gpu_context();
  Products& products = engine(kGpu).products();
  for (const auto& [precision, of_term] : {std::pair(Precision::tf32, 0x1p-9), {Precision::bf16x3, 0x1p-16}})
    for (int layout = 0; layout < 8; ++layout)
      for (const double beta : {0.0, -0.5})
        for (const auto [m, n, k] :
             {std::array<int64_t, 3>{70, 50, 90}, {257, 129, 33}, {1, 33, 17}, {2, 2, 1}, {5, 4, 0}, {0, 3, 2}}) {
          Matrix<float> a(m, k, (layout & 1) != 0, 1, layout % 3), b(k, n, (layout & 2) != 0, 2),
              c(m, n, (layout & 4) != 0, 3, 2);
          Matrix<float> before = c;
          OnGpu<float> da(a, gpu), db(b, gpu), dc(c, gpu);
          Gemm task{DType::float32, 1.5, da.view(), db.view(), beta, dc.view()};
          const int64_t exact_bytes = products.gemm_scratch_bytes(task);
          task.precision = precision;
          const bool has_pieces = precision == Precision::bf16x3 && m > 1 && n > 1;
          EXPECT_EQ(products.gemm_scratch_bytes(task) > exact_bytes, has_pieces);
          products.gemm(task, gpu);
          dc.fetch();
          const std::vector<float> first = c.data;
          double worst = 0;
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (int64_t l = 0; l < k; ++l) sum += widen(a(i, l)) * widen(b(l, j));
              worst = std::max(worst, std::abs(widen(c(i, j)) - (1.5 * sum + beta * widen(before(i, j)))));
            }
          EXPECT_LT(worst, 1.5 * 0.25 * static_cast<double>(k) * of_term + 1e-5)
              << name(precision) << " layout " << layout << " beta " << beta << " " << m << "x" << n << "x" << k;
          c = before;
          OnGpu<float> again(c, gpu);
          task.c = again.view();
          products.gemm(task, gpu);
          again.fetch();
          EXPECT_EQ(std::memcmp(first.data(), c.data.data(), first.size() * sizeof(float)), 0);
        }
}

TEST_F(CudaPrecision, SyrkIsSymmetric) {
  const ExecContext gpu = gpu_context();
  for (const auto& [precision, of_term] : {std::pair(Precision::tf32, 0x1p-9), {Precision::bf16x3, 0x1p-16}})
    for (const bool row_major : {true, false})
      for (const auto [k, n] : {std::array<int64_t, 2>{90, 70}, {3, 500}, {2000, 9}, {7, 1}, {0, 4}}) {
        Matrix<float> a(k, n, row_major, 1), c(n, n, true, 3, 2);
        Matrix<float> before = c;
        OnGpu<float> da(a, gpu), dc(c, gpu);
        engine(kGpu).products().syrk({DType::float32, 0.5, da.view(), 0, dc.view(), precision}, gpu);
        dc.fetch();
        double worst = 0;
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t l = 0; l < k; ++l) sum += widen(a(l, i)) * widen(a(l, j));
            worst = std::max(worst, std::abs(widen(c(i, j)) - 0.5 * sum));
            EXPECT_EQ(c(i, j), c(j, i));
          }
        EXPECT_LT(worst, 0.5 * 0.25 * static_cast<double>(k) * of_term + 1e-4)
            << name(precision) << " " << k << "x" << n;
      }
}

}  // namespace
}  // namespace quarry::local::cuda
