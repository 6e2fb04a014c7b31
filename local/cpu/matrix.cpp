#include "quarry/local/cpu/matrix.h"

#include <cblas.h>

#include <climits>

#include "quarry/local/cpu/arena.h"

namespace quarry::local::cpu {
namespace {

constexpr int64_t kDepth = int64_t{1} << 30;  // of one BLAS call, whose sizes are int

// The four BLAS types' routines by one name each.
template <class T>
void blas_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b,
               int ldb, T beta, T* c, int ldc) {
  if constexpr (std::is_same_v<T, float>)
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else if constexpr (std::is_same_v<T, double>)
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
  else
    cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}
// y += alpha op(a) x
template <class T>
void blas_gemv(CBLAS_TRANSPOSE ta, int rows, int columns, T alpha, const T* a, int lda, const T* x, int incx, T* y,
               int incy) {
  const T one(1);
  if constexpr (std::is_same_v<T, float>)
    cblas_sgemv(CblasRowMajor, ta, rows, columns, alpha, a, lda, x, incx, one, y, incy);
  else if constexpr (std::is_same_v<T, double>)
    cblas_dgemv(CblasRowMajor, ta, rows, columns, alpha, a, lda, x, incx, one, y, incy);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    cblas_cgemv(CblasRowMajor, ta, rows, columns, &alpha, a, lda, x, incx, &one, y, incy);
  else
    cblas_zgemv(CblasRowMajor, ta, rows, columns, &alpha, a, lda, x, incx, &one, y, incy);
}
template <class T>
T blas_dot(bool conjugate, int n, const T* x, int incx, const T* y, int incy) {
  T sum{};
  if constexpr (std::is_same_v<T, float>)
    sum = cblas_sdot(n, x, incx, y, incy);
  else if constexpr (std::is_same_v<T, double>)
    sum = cblas_ddot(n, x, incx, y, incy);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    conjugate ? cblas_cdotc_sub(n, x, incx, y, incy, &sum) : cblas_cdotu_sub(n, x, incx, y, incy, &sum);
  else
    conjugate ? cblas_zdotc_sub(n, x, incx, y, incy, &sum) : cblas_zdotu_sub(n, x, incx, y, incy, &sum);
  return sum;
}

template <class T>
T conjugated(T x, bool yes) {
  if constexpr (is_complex_v<T>) return yes ? std::conj(x) : x;
  static_cast<void>(yes);
  return x;
}

// The plain definition, for strides beyond BLAS's int and for products too small for a call.
template <class T>
void plain_product(bool conjugate_a, bool conjugate_b, T alpha, const MatrixView& a, const MatrixView& b, T beta,
                   const MatrixView& c) {
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      T sum{};
      for (int64_t k = 0; k < a.columns; ++k)
        sum += conjugated(*at<T>(a, i, k), conjugate_a) * conjugated(*at<T>(b, k, j), conjugate_b);
      T& out = *at<T>(c, i, j);
      out = beta == T(0) ? alpha * sum : alpha * sum + beta * out;
    }
  }
}

// The distance of a vector's elements.
int64_t step(const MatrixView& vector) { return vector.columns == 1 ? vector.row_stride : vector.column_stride; }
bool is_increment(int64_t step) { return step >= 1 && step <= INT_MAX; }

template <class T>
void scale(T beta, const MatrixView& c) {
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      T& out = *at<T>(c, i, j);
      out = beta == T(0) ? T(0) : beta * out;  // a zero beta forgets NaNs
    }
  }
}

// c = alpha a b + beta c for one column b.
template <class T>
void times_vector(T alpha, const MatrixView& a, const MatrixView& b, T beta, const MatrixView& c) {
  scale(beta, c);
  const bool rows = by_rows(a);
  for (int64_t k = 0; k < a.columns; k += kDepth) {
    const int depth = static_cast<int>(std::min(kDepth, a.columns - k)), m = static_cast<int>(a.rows);
    blas_gemv<T>(rows ? CblasNoTrans : CblasTrans, rows ? m : depth, rows ? depth : m, alpha, at<T>(a, 0, k),
                 static_cast<int>(leading(a)), at<T>(b, k, 0), static_cast<int>(step(b)), static_cast<T*>(c.data),
                 static_cast<int>(step(c)));
  }
}

}  // namespace

int slots_for(int64_t units, int threads) {
  return static_cast<int>(std::clamp<int64_t>(units, 1, threads > 0 ? threads : arena_threads()));
}

template <class T>
void tile_product(bool conjugate_a, bool conjugate_b, T alpha, const MatrixView& a, const MatrixView& b, T beta,
                  const MatrixView& c) {
  constexpr int64_t kTiny = 64;  // multiplications that cost less than a call
  const auto plain = [&] { plain_product<T>(conjugate_a, conjugate_b, alpha, a, b, beta, c); };
  if (a.columns == 0 || c.rows * c.columns * a.columns <= kTiny) return plain();
  const bool row = c.rows == 1, column = c.columns == 1;
  if (row && column) {
    if (!is_increment(step(a)) || !is_increment(a.columns == 1 ? 1 : b.row_stride)) return plain();
    T sum{};
    for (int64_t k = 0; k < a.columns; k += kDepth) {
      const int depth = static_cast<int>(std::min(kDepth, a.columns - k));
      const T *x = at<T>(a, 0, k), *y = at<T>(b, k, 0);
      const int incx = static_cast<int>(a.column_stride), incy = static_cast<int>(b.row_stride);
      sum += conjugate_b ? conjugated(blas_dot<T>(!conjugate_a, depth, x, incx, y, incy), true)
                         : blas_dot<T>(conjugate_a, depth, x, incx, y, incy);
    }
    T& out = *static_cast<T*>(c.data);
    out = beta == T(0) ? alpha * sum : alpha * sum + beta * out;
    return;
  }
  const auto fits = [](const MatrixView& m) { return leading(m) <= INT_MAX; };
  if (!conjugate_a && !conjugate_b && (row || column)) {
    const MatrixView &matrix = column ? a : b, &vector = column ? b : a;
    if (!fits(matrix) || !is_increment(step(vector)) || !is_increment(step(c))) return plain();
    return column ? times_vector<T>(alpha, a, b, beta, c)
                  : times_vector<T>(alpha, transposed(b), transposed(a), beta, transposed(c));
  }
  if (!fits(a) || !fits(b) || !fits(c)) return plain();
  if (!by_rows(c)) {
    return tile_product<T>(conjugate_b, conjugate_a, alpha, transposed(b), transposed(a), beta, transposed(c));
  }
  const auto operation = [](const MatrixView& m, bool conjugate) {
    return by_rows(m) ? (conjugate ? CblasConjNoTrans : CblasNoTrans) : (conjugate ? CblasConjTrans : CblasTrans);
  };
  for (int64_t k = 0; k < a.columns; k += kDepth) {
    const int depth = static_cast<int>(std::min(kDepth, a.columns - k));
    blas_gemm<T>(operation(a, conjugate_a), operation(b, conjugate_b), static_cast<int>(c.rows),
                 static_cast<int>(c.columns), depth, alpha, at<T>(a, 0, k), static_cast<int>(leading(a)),
                 at<T>(b, k, 0), static_cast<int>(leading(b)), k == 0 ? beta : T(1), static_cast<T*>(c.data),
                 static_cast<int>(leading(c)));
  }
}

template void tile_product(bool, bool, float, const MatrixView&, const MatrixView&, float, const MatrixView&);
template void tile_product(bool, bool, double, const MatrixView&, const MatrixView&, double, const MatrixView&);
template void tile_product(bool, bool, std::complex<float>, const MatrixView&, const MatrixView&, std::complex<float>,
                           const MatrixView&);
template void tile_product(bool, bool, std::complex<double>, const MatrixView&, const MatrixView&, std::complex<double>,
                           const MatrixView&);

}  // namespace quarry::local::cpu
