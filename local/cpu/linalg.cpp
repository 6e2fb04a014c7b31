#include "local/cpu/linalg.h"

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

#include "local/base/error.h"
#include "local/cpu/arena.h"
#include "local/memory/memory_resource.h"

namespace quarry::local::cpu {
namespace {

constexpr int64_t kTile = 512;                // edge of an output tile
constexpr int64_t kDepth = int64_t{1} << 30;  // of one BLAS call, whose sizes are int

template <class T>
constexpr bool is_complex_v = !std::is_arithmetic_v<T>;

void one_thread_per_call() {
  static const bool done = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

int slots_for(int64_t units, int threads) {
  return static_cast<int>(std::clamp<int64_t>(units, 1, threads > 0 ? threads : arena_threads()));
}

template <class T>
T* at(const MatrixView& m, int64_t row, int64_t column) {
  return static_cast<T*>(m.data) + row * m.row_stride + column * m.column_stride;
}
MatrixView transposed(const MatrixView& m) { return {m.data, m.columns, m.rows, m.column_stride, m.row_stride}; }
// Whether neighbours of a row lie together (a single row or column can be seen both ways).
bool by_rows(const MatrixView& m) { return m.column_stride == 1 || (m.columns == 1 && m.row_stride != 1); }
int64_t leading(const MatrixView& m) {
  const int64_t stride = by_rows(m) ? m.row_stride : m.column_stride, extent = by_rows(m) ? m.columns : m.rows;
  return std::max({stride, extent, int64_t{1}});
}
void check(const MatrixView& m) {
  QUARRY_CHECK(m.rows <= 1 || m.columns <= 1 || m.row_stride == 1 || m.column_stride == 1);
}

// ---- One BLAS call ----

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
void blas_syrk(CBLAS_TRANSPOSE t, int n, int k, float alpha, const float* a, int lda, float beta, float* c, int ldc) {
  cblas_ssyrk(CblasRowMajor, CblasLower, t, n, k, alpha, a, lda, beta, c, ldc);
}
void blas_syrk(CBLAS_TRANSPOSE t, int n, int k, double alpha, const double* a, int lda, double beta, double* c,
               int ldc) {
  cblas_dsyrk(CblasRowMajor, CblasLower, t, n, k, alpha, a, lda, beta, c, ldc);
}

// The plain definition, for integers and for strides beyond BLAS's int.
template <class T>
void plain_gemm(bool conjugate_a, bool conjugate_b, T alpha, const MatrixView& a, const MatrixView& b, T beta,
                const MatrixView& c) {
  const auto read = [](const T* p, bool conjugate) {
    if constexpr (is_complex_v<T>) {
      return conjugate ? std::conj(*p) : *p;
    } else {
      static_cast<void>(conjugate);
      return *p;
    }
  };
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      T& out = *at<T>(c, i, j);
      out = beta == T(0) ? T(0) : static_cast<T>(beta * out);
    }
    for (int64_t k = 0; k < a.columns; ++k) {
      const T factor = static_cast<T>(alpha * read(at<T>(a, i, k), conjugate_a));
      for (int64_t j = 0; j < c.columns; ++j) {
        T& out = *at<T>(c, i, j);
        out = static_cast<T>(out + factor * read(at<T>(b, k, j), conjugate_b));
      }
    }
  }
}

MatrixView block(const MatrixView& m, int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t itemsize) {
  return {static_cast<char*>(m.data) + (row * m.row_stride + column * m.column_stride) * itemsize, rows, columns,
          m.row_stride, m.column_stride};
}

// c = alpha a b + beta c for a tile of c, by rows, that BLAS's ints can hold; a or b is conjugated if asked.
template <class T>
void tile_gemm(bool conjugate_a, bool conjugate_b, T alpha, const MatrixView& a, const MatrixView& b, T beta,
               const MatrixView& c) {
  const bool fits = leading(a) <= INT_MAX && leading(b) <= INT_MAX && leading(c) <= INT_MAX;
  if (!fits || a.columns == 0) return plain_gemm<T>(conjugate_a, conjugate_b, alpha, a, b, beta, c);
  const auto operation = [](const MatrixView& m, bool conjugate) {
    return by_rows(m) ? (conjugate ? CblasConjNoTrans : CblasNoTrans) : (conjugate ? CblasConjTrans : CblasTrans);
  };
  const CBLAS_TRANSPOSE ta = operation(a, conjugate_a), tb = operation(b, conjugate_b);
  for (int64_t k = 0; k < a.columns; k += kDepth) {
    const int depth = static_cast<int>(std::min(kDepth, a.columns - k));
    blas_gemm<T>(ta, tb, static_cast<int>(c.rows), static_cast<int>(c.columns), depth, alpha, at<T>(a, 0, k),
                 static_cast<int>(leading(a)), at<T>(b, k, 0), static_cast<int>(leading(b)), k == 0 ? beta : T(1),
                 static_cast<T*>(c.data), static_cast<int>(leading(c)));
  }
}

template <class T>
void tiled_gemm(double alpha, const MatrixView& a, const MatrixView& b, double beta, const MatrixView& c, int threads) {
  if (!by_rows(c)) return tiled_gemm<T>(alpha, transposed(b), transposed(a), beta, transposed(c), threads);
  const int64_t tiles_m = (c.rows + kTile - 1) / kTile, tiles_n = (c.columns + kTile - 1) / kTile;
  for_each_unit(tiles_m * tiles_n, slots_for(tiles_m * tiles_n, threads), [&](int64_t unit, int) {
    const int64_t i = unit / tiles_n * kTile, j = unit % tiles_n * kTile;
    const int64_t m = std::min(kTile, c.rows - i), n = std::min(kTile, c.columns - j);
    const MatrixView ai = block(a, i, m, 0, a.columns, sizeof(T)), bj = block(b, 0, b.rows, j, n, sizeof(T));
    const MatrixView cij = block(c, i, m, j, n, sizeof(T));
    if constexpr (std::is_integral_v<T>)
      plain_gemm<T>(false, false, static_cast<T>(alpha), ai, bj, static_cast<T>(beta), cij);
    else
      tile_gemm<T>(false, false, static_cast<T>(alpha), ai, bj, static_cast<T>(beta), cij);
  });
}

// Lower tiles of c = alpha a^H a + beta c, then the upper ones as their mirror images.
template <class T>
void tiled_syrk(double alpha, const MatrixView& a, double beta, const MatrixView& c, int threads) {
  // Where c lies by columns, its transpose lies by rows and is a^T conj(a).
  const bool swapped = !by_rows(c);
  const MatrixView out = swapped ? transposed(c) : c;
  const int64_t tiles = (c.rows + kTile - 1) / kTile;
  const int64_t units = tiles * (tiles + 1) / 2;
  for_each_unit(units, slots_for(units, threads), [&](int64_t unit, int) {
    int64_t row = 0;
    while ((row + 1) * (row + 2) / 2 <= unit) ++row;
    const int64_t column = unit - row * (row + 1) / 2;
    const int64_t i = row * kTile, j = column * kTile;
    const int64_t m = std::min(kTile, c.rows - i), n = std::min(kTile, c.rows - j);
    const MatrixView ai = block(a, 0, a.rows, i, m, sizeof(T)), aj = block(a, 0, a.rows, j, n, sizeof(T));
    const MatrixView tile = block(out, i, m, j, n, sizeof(T));
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
      tile_gemm<T>(complex && !swapped, complex && swapped, static_cast<T>(alpha), transposed(ai), aj,
                   static_cast<T>(beta), tile);
    }
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t s = 0; s < (i == j ? r : n); ++s) {
        const T value = *at<T>(tile, r, s);
        if constexpr (is_complex_v<T>)
          *at<T>(out, j + s, i + r) = std::conj(value);
        else
          *at<T>(out, j + s, i + r) = value;
      }
      if constexpr (is_complex_v<T>)
        if (i == j) *at<T>(tile, r, r) = T(at<T>(tile, r, r)->real(), 0);
    }
  });
}

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

[[noreturn]] void unsupported(const char* what, DType dtype) {
  throw TypeError(fmt::format("{} is not supported for dtype {}", what, name(dtype)));
}

// Packed float32 copy of a 16-bit matrix, and back.
template <class H>
MatrixView widen(const MatrixView& m, float*& scratch) {
  const MatrixView wide{scratch, m.rows, m.columns, m.columns, 1};
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t j = 0; j < m.columns; ++j) *scratch++ = static_cast<float>(*at<H>(m, i, j));
  return wide;
}
template <class H>
void narrow(const MatrixView& wide, const MatrixView& m) {
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t j = 0; j < m.columns; ++j) *at<H>(m, i, j) = H(*at<float>(wide, i, j));
}

// ---- Hermitian eigenproblem ----

template <class T>
struct real_of {
  using type = T;
};
template <class R>
struct real_of<std::complex<R>> {
  using type = R;
};

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

int64_t aligned(int64_t bytes) {
  return (bytes + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
}

template <class T>
int64_t eigh_bytes(int64_t n) {
  using R = typename real_of<T>::type;
  const EighSizes sizes = eigh_sizes<T>(n);
  return aligned(n * n * static_cast<int64_t>(sizeof(T))) + aligned(sizes.work * static_cast<int64_t>(sizeof(T))) +
         aligned(sizes.real_work * static_cast<int64_t>(sizeof(R))) +
         aligned(sizes.int_work * static_cast<int64_t>(sizeof(lapack_int)));
}

template <class T>
void eigh_typed(Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors, char* scratch) {
  using R = typename real_of<T>::type;
  const int64_t n = a.rows;
  const EighSizes sizes = eigh_sizes<T>(n);
  if (sizes.work > INT_MAX || sizes.real_work > INT_MAX)
    throw NotSupported(fmt::format("eigh: a {0} x {0} matrix is beyond LAPACK's 32-bit workspace on the CPU", n));
  T* matrix = reinterpret_cast<T*>(scratch);
  T* work = reinterpret_cast<T*>(scratch += aligned(n * n * static_cast<int64_t>(sizeof(T))));
  R* real_work = reinterpret_cast<R*>(scratch += aligned(sizes.work * static_cast<int64_t>(sizeof(T))));
  lapack_int* int_work =
      reinterpret_cast<lapack_int*>(scratch += aligned(sizes.real_work * static_cast<int64_t>(sizeof(R))));

  // The lower triangle, by columns.
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
      matrix[j * n + i] = value;
    }
  }
  const lapack_int size = static_cast<lapack_int>(n), lwork = static_cast<lapack_int>(sizes.work),
                   lrwork = static_cast<lapack_int>(sizes.real_work), liwork = static_cast<lapack_int>(sizes.int_work);
  lapack_int status;
  if constexpr (std::is_same_v<T, float>)
    status = LAPACKE_ssyevd_work(LAPACK_COL_MAJOR, 'V', 'L', size, matrix, size, static_cast<float*>(values), work,
                                 lwork, int_work, liwork);
  else if constexpr (std::is_same_v<T, double>)
    status = LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'L', size, matrix, size, static_cast<double*>(values), work,
                                 lwork, int_work, liwork);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    status = LAPACKE_cheevd_work(LAPACK_COL_MAJOR, 'V', 'L', size, matrix, size, static_cast<float*>(values), work,
                                 lwork, real_work, lrwork, int_work, liwork);
  else
    status = LAPACKE_zheevd_work(LAPACK_COL_MAJOR, 'V', 'L', size, matrix, size, static_cast<double*>(values), work,
                                 lwork, real_work, lrwork, int_work, liwork);
  static_cast<void>(real_work), static_cast<void>(lrwork);
  QUARRY_CHECK(status >= 0);
  if (status > 0) throw InvalidArgument("Eigenvalues did not converge");
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) *at<T>(vectors, i, j) = matrix[j * n + i];
}

// Calls f<T>() for the BLAS types.
template <class F>
decltype(auto) with_blas_type(const char* what, DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f.template operator()<float>();
    case DType::float64:
      return f.template operator()<double>();
    case DType::complex64:
      return f.template operator()<std::complex<float>>();
    case DType::complex128:
      return f.template operator()<std::complex<double>>();
    case DType::bool_:
    case DType::int8:
    case DType::int16:
    case DType::int32:
    case DType::int64:
    case DType::uint8:
    case DType::uint16:
    case DType::uint32:
    case DType::uint64:
    case DType::float16:
    case DType::bfloat16:
      break;
  }
  unsupported(what, dtype);
}

}  // namespace

int64_t gemm_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& b, const MatrixView& c) {
  if (!is_half(dtype)) return 0;
  return 4 * (a.rows * a.columns + b.rows * b.columns + c.rows * c.columns);
}

void gemm(DType dtype, double alpha, const MatrixView& a, const MatrixView& b, double beta, const MatrixView& c,
          int threads, void* scratch) {
  one_thread_per_call();
  check(a), check(b), check(c);
  QUARRY_CHECK(a.rows == c.rows && a.columns == b.rows && b.columns == c.columns);
  if (c.rows == 0 || c.columns == 0) return;
  const auto half = [&]<class H>() {
    float* space = static_cast<float*>(scratch);
    const MatrixView wa = widen<H>(a, space), wb = widen<H>(b, space), wc = widen<H>(c, space);
    tiled_gemm<float>(alpha, wa, wb, beta, wc, threads);
    narrow<H>(wc, c);
  };
  if (dtype == DType::float16) return half.operator()<float16>();
  if (dtype == DType::bfloat16) return half.operator()<bfloat16>();
  if (is_integer(dtype)) {
    // Products of signed and unsigned integers wrap alike.
    switch (itemsize(dtype)) {
      case 1:
        return tiled_gemm<uint8_t>(alpha, a, b, beta, c, threads);
      case 2:
        return tiled_gemm<uint16_t>(alpha, a, b, beta, c, threads);
      case 4:
        return tiled_gemm<uint32_t>(alpha, a, b, beta, c, threads);
      default:
        return tiled_gemm<uint64_t>(alpha, a, b, beta, c, threads);
    }
  }
  with_blas_type("matrix product", dtype, [&]<class T>() { tiled_gemm<T>(alpha, a, b, beta, c, threads); });
}

int64_t syrk_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& c) {
  if (!is_half(dtype)) return 0;
  return 4 * (a.rows * a.columns + c.rows * c.columns);
}

void syrk(DType dtype, double alpha, const MatrixView& a, double beta, const MatrixView& c, int threads,
          void* scratch) {
  one_thread_per_call();
  check(a), check(c);
  QUARRY_CHECK(c.rows == a.columns && c.columns == a.columns);
  if (c.rows == 0) return;
  const auto half = [&]<class H>() {
    float* space = static_cast<float*>(scratch);
    const MatrixView wa = widen<H>(a, space), wc = widen<H>(c, space);
    tiled_syrk<float>(alpha, wa, beta, wc, threads);
    narrow<H>(wc, c);
  };
  if (dtype == DType::float16) return half.operator()<float16>();
  if (dtype == DType::bfloat16) return half.operator()<bfloat16>();
  if (is_integer(dtype)) return gemm(dtype, alpha, transposed(a), a, beta, c, threads, scratch);
  with_blas_type("matrix product", dtype, [&]<class T>() { tiled_syrk<T>(alpha, a, beta, c, threads); });
}

int64_t eigh_scratch_bytes(DType dtype, int64_t n) {
  return with_blas_type("eigh", dtype, [&]<class T>() { return eigh_bytes<T>(n); });
}

void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors, void* scratch) {
  one_thread_per_call();
  QUARRY_CHECK(a.rows == a.columns && vectors.rows == a.rows && vectors.columns == a.rows);
  if (a.rows == 0) return;
  with_blas_type("eigh", dtype,
                 [&]<class T>() { eigh_typed<T>(triangle, a, values, vectors, static_cast<char*>(scratch)); });
}

}  // namespace quarry::local::cpu
