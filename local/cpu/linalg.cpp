#include "quarry/local/cpu/linalg.h"

// LAPACKE's C headers would bring C99's complex macros.
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <cblas.h>
#include <fmt/format.h>
#include <lapacke.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/blas_threads.h"
#include "quarry/local/cpu/matrix.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local::cpu {
namespace {

constexpr int64_t kDepth = int64_t{1} << 30;  // of one BLAS call, whose sizes are int

void blas_syrk(CBLAS_TRANSPOSE t, int n, int k, float alpha, const float* a, int lda, float beta, float* c, int ldc) {
  cblas_ssyrk(CblasRowMajor, CblasLower, t, n, k, alpha, a, lda, beta, c, ldc);
}
void blas_syrk(CBLAS_TRANSPOSE t, int n, int k, double alpha, const double* a, int lda, double beta, double* c,
               int ldc) {
  cblas_dsyrk(CblasRowMajor, CblasLower, t, n, k, alpha, a, lda, beta, c, ldc);
}

// Lower tiles of c = alpha a^H a + beta c, then the upper ones as their mirror images.
template <class T>
void tiled_syrk(double alpha, const MatrixView& a, double beta, const MatrixView& c, int threads) {
  // Where c lies by columns, its transpose lies by rows and is a^T conj(a).
  const bool swapped = !by_rows(c);
  const MatrixView out = swapped ? transposed(c) : c;
  const int64_t tiles = (c.rows + kMatrixTile - 1) / kMatrixTile;
  const int64_t units = tiles * (tiles + 1) / 2;
  for_each_blas_unit(units, slots_for(units, threads), [&](int64_t unit, int) {
    int64_t row = 0;
    while ((row + 1) * (row + 2) / 2 <= unit) ++row;
    const int64_t column = unit - row * (row + 1) / 2;
    const int64_t i = row * kMatrixTile, j = column * kMatrixTile;
    const int64_t m = std::min(kMatrixTile, c.rows - i), n = std::min(kMatrixTile, c.rows - j);
    const MatrixView ai = block<T>(a, 0, a.rows, i, m), aj = block<T>(a, 0, a.rows, j, n);
    const MatrixView tile = block<T>(out, i, m, j, n);
    bool done = false;
    if constexpr (std::is_floating_point_v<T>) {
      if (i == j && leading(a) <= INT_MAX && leading(out) <= INT_MAX && a.rows > 0) {
        for (int64_t k = 0; k < a.rows; k += kDepth)
          blas_syrk(by_rows(a) ? CblasTrans : CblasNoTrans, static_cast<int>(m),
                    static_cast<int>(std::min(kDepth, a.rows - k)), static_cast<T>(alpha), at<T>(ai, k, 0),
                    static_cast<int>(leading(a)), k == 0 ? static_cast<T>(beta) : T(1), static_cast<T*>(tile.data),
                    static_cast<int>(leading(out)));
        done = true;
      }
    }
    if (!done) {
      constexpr bool complex = is_complex_v<T>;
      tile_product<T>(complex && !swapped, complex && swapped, static_cast<T>(alpha), transposed(ai), aj,
                      static_cast<T>(beta), tile);
    }
    // In squares whose lines stay in the L1 cache on both sides.
    constexpr int64_t kSquare = 16;
    for (int64_t row = 0; row < m; row += kSquare) {
      const int64_t rows = std::min(row + kSquare, m);
      for (int64_t column = 0; column < (i == j ? rows : n); column += kSquare) {
        const int64_t columns = std::min(column + kSquare, n);
        for (int64_t r = row; r < rows; ++r) {
          for (int64_t s = column; s < (i == j ? std::min(r, columns) : columns); ++s) {
            const T value = *at<T>(tile, r, s);
            if constexpr (is_complex_v<T>)
              *at<T>(out, j + s, i + r) = std::conj(value);
            else
              *at<T>(out, j + s, i + r) = value;
          }
        }
      }
      if constexpr (is_complex_v<T>)
        for (int64_t r = row; i == j && r < rows; ++r) *at<T>(tile, r, r) = T(at<T>(tile, r, r)->real(), 0);
    }
  });
}

// ---- Hermitian eigenproblem ----

struct EighSizes {
  int64_t work, real_work, int_work;  // elements
};
template <class T>
EighSizes eigh_sizes(int64_t n) {
  if (n <= 1) return {1, 1, 1};
  if constexpr (is_complex_v<T>)
    return {2 * n + n * n, 1 + 5 * n + 2 * n * n, 3 + 5 * n};
  else
    return {1 + 6 * n + 2 * n * n, 0, 3 + 5 * n};
}

template <class T>
int64_t eigh_bytes(int64_t n) {
  using R = Real<T>;
  const EighSizes sizes = eigh_sizes<T>(n);
  return align_up(n * n * static_cast<int64_t>(sizeof(T)), kAllocationAlignment) +
         align_up(sizes.work * static_cast<int64_t>(sizeof(T)), kAllocationAlignment) +
         align_up(sizes.real_work * static_cast<int64_t>(sizeof(R)), kAllocationAlignment) +
         align_up(sizes.int_work * static_cast<int64_t>(sizeof(lapack_int)), kAllocationAlignment);
}

template <class T>
void eigh_typed(Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors, char* scratch) {
  using R = Real<T>;
  const int64_t n = a.rows;
  const EighSizes sizes = eigh_sizes<T>(n);
  if (sizes.work > INT_MAX || sizes.real_work > INT_MAX)
    throw NotSupported(fmt::format("eigh: a {0} x {0} matrix is beyond LAPACK's 32-bit workspace on the CPU", n));
  T* matrix = reinterpret_cast<T*>(scratch);
  T* work = reinterpret_cast<T*>(scratch += align_up(n * n * static_cast<int64_t>(sizeof(T)), kAllocationAlignment));
  R* real_work =
      reinterpret_cast<R*>(scratch += align_up(sizes.work * static_cast<int64_t>(sizeof(T)), kAllocationAlignment));
  lapack_int* int_work = reinterpret_cast<lapack_int*>(
      scratch += align_up(sizes.real_work * static_cast<int64_t>(sizeof(R)), kAllocationAlignment));

  // The lower triangle, by columns, or by rows, which is the upper one of a real matrix.
  constexpr char kTriangle = reads_upper<T> ? 'U' : 'L';
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = j; i < n; ++i) {
      T value = triangle == Triangle::lower ? *at<T>(a, i, j) : *at<T>(a, j, i);
      bool finite;
      if constexpr (is_complex_v<T>) {
        if (triangle == Triangle::upper) value = std::conj(value);
        finite = std::isfinite(value.real()) && std::isfinite(value.imag());
      } else {
        finite = std::isfinite(value);
      }
      if (!finite)
        throw InvalidArgument(fmt::format("eigh: the matrix holds NaN or infinity at ({}, {})",
                                          triangle == Triangle::lower ? i : j, triangle == Triangle::lower ? j : i));
      matrix[reads_upper<T> ? i * n + j : j * n + i] = value;
    }
  }
  const lapack_int size = static_cast<lapack_int>(n), lwork = static_cast<lapack_int>(sizes.work),
                   lrwork = static_cast<lapack_int>(sizes.real_work), liwork = static_cast<lapack_int>(sizes.int_work);
  lapack_int status;
  if constexpr (std::is_same_v<T, float>)
    status = LAPACKE_ssyevd_work(LAPACK_COL_MAJOR, 'V', kTriangle, size, matrix, size, static_cast<float*>(values),
                                 work, lwork, int_work, liwork);
  else if constexpr (std::is_same_v<T, double>)
    status = LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', kTriangle, size, matrix, size, static_cast<double*>(values),
                                 work, lwork, int_work, liwork);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    status = LAPACKE_cheevd_work(LAPACK_COL_MAJOR, 'V', kTriangle, size, matrix, size, static_cast<float*>(values),
                                 work, lwork, real_work, lrwork, int_work, liwork);
  else
    status = LAPACKE_zheevd_work(LAPACK_COL_MAJOR, 'V', kTriangle, size, matrix, size, static_cast<double*>(values),
                                 work, lwork, real_work, lrwork, int_work, liwork);
  static_cast<void>(real_work), static_cast<void>(lrwork);
  QUARRY_CHECK(status >= 0);
  if (status > 0) throw InvalidArgument("Eigenvalues did not converge");
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) *at<T>(vectors, i, j) = matrix[j * n + i];
}

}  // namespace

int64_t syrk_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& c) {
  if (!is_half(dtype)) return 0;
  return 4 * (a.rows * a.columns + c.rows * c.columns);
}

void syrk(DType dtype, double alpha, const MatrixView& a, double beta, const MatrixView& c, int threads,
          void* scratch) {
  const OneThreadPerCall scope;
  check_lines(a), check_lines(c);
  QUARRY_CHECK(c.rows == a.columns && c.columns == a.columns);
  if (c.rows == 0) return;
  const auto half = [&]<class H>() {
    float* space = static_cast<float*>(scratch);
    const MatrixView wa = widen<H>(a, space), wc = widen<H>(c, space + a.rows * a.columns);
    tiled_syrk<float>(alpha, wa, beta, wc, threads);
    narrow<H>(wc, c);
  };
  if (dtype == DType::float16) return half.operator()<float16>();
  if (dtype == DType::bfloat16) return half.operator()<bfloat16>();
  if (is_integer(dtype)) return gemm({dtype, alpha, transposed(a), a, beta, c}, threads, scratch);
  with_blas_type("matrix product", dtype, [&]<class T>() { tiled_syrk<T>(alpha, a, beta, c, threads); });
}

int64_t eigh_scratch_bytes(DType dtype, int64_t n) {
  return with_blas_type("eigh", dtype, [&]<class T>() { return eigh_bytes<T>(n); });
}

void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors, void* scratch) {
  const OneThreadPerCall scope;
  QUARRY_CHECK(a.rows == a.columns && vectors.rows == a.rows && vectors.columns == a.rows);
  if (a.rows == 0) return;
  with_blas_type("eigh", dtype,
                 [&]<class T>() { eigh_typed<T>(triangle, a, values, vectors, static_cast<char*>(scratch)); });
}

}  // namespace quarry::local::cpu
