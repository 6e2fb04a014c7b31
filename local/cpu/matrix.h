// What the CPU's matrix products and decompositions share: views of a matrix and the BLAS calls on one tile.
// BLAS calls use one OpenBLAS thread each; parallel work is over output tiles that depend on the shapes only, so that
// the thread count does not change bits.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "quarry/local/base/error.h"
#include "quarry/local/program/engine.h"

namespace quarry::local::cpu {

inline constexpr int64_t kMatrixTile = 512;  // edge of an output tile

template <class T>
inline constexpr bool is_complex_v = !std::is_arithmetic_v<T>;
// The type of the parts of a complex number, else T.
template <class T>
struct real_of {
  using type = T;
};
template <class R>
struct real_of<std::complex<R>> {
  using type = R;
};
template <class T>
using Real = typename real_of<T>::type;

// Whether LAPACK reads the upper triangle of a symmetric matrix in place of the lower one: on CPUs with AVX-512,
// OpenBLAS 0.3.21 (Debian 12) multiplies one of floats, of which it has the lower triangle (ssymv), also by zeros times
// what an earlier call left in its memory, which may be NaN.
template <class T>
inline constexpr bool reads_upper = std::is_same_v<T, float>;

// Threads to use for `units`; `threads` is ExecContext::threads.
int slots_for(int64_t units, int threads);

template <class T>
T* at(const MatrixView& m, int64_t row, int64_t column) {
  return static_cast<T*>(m.data) + row * m.row_stride + column * m.column_stride;
}
inline MatrixView transposed(const MatrixView& m) { return {m.data, m.columns, m.rows, m.column_stride, m.row_stride}; }
// Whether neighbours of a row lie together (a single row or column can be seen both ways).
inline bool by_rows(const MatrixView& m) { return m.column_stride == 1 || (m.columns == 1 && m.row_stride != 1); }
inline int64_t leading(const MatrixView& m) {
  const int64_t stride = by_rows(m) ? m.row_stride : m.column_stride, extent = by_rows(m) ? m.columns : m.rows;
  return std::max({stride, extent, int64_t{1}});
}
// The layout that BLAS takes: one of the strides is 1, where there is more than one line.
inline void check_lines(const MatrixView& m) {
  QUARRY_CHECK(m.rows <= 1 || m.columns <= 1 || m.row_stride == 1 || m.column_stride == 1);
}
template <class T>
MatrixView block(const MatrixView& m, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return {at<T>(m, row, column), rows, columns, m.row_stride, m.column_stride};
}

// Calls f<T>() with the C++ type of a BLAS dtype: float32, float64, complex64, complex128. Throws TypeError for others.
template <class F>
decltype(auto) with_blas_type(const char* what, DType dtype, F&& f) {
  if (dtype == DType::float32) return f.template operator()<float>();
  if (dtype == DType::float64) return f.template operator()<double>();
  if (dtype == DType::complex64) return f.template operator()<std::complex<float>>();
  if (dtype == DType::complex128) return f.template operator()<std::complex<double>>();
  throw TypeError(fmt::format("{} is not supported for dtype {}", what, name(dtype)));
}

// Packed float32 copies of 16-bit matrices, and back.
template <class H>
MatrixView widen(const MatrixView& m, float* to) {
  const MatrixView wide{to, m.rows, m.columns, m.columns, 1};
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t j = 0; j < m.columns; ++j) *to++ = static_cast<float>(*at<H>(m, i, j));
  return wide;
}
template <class H>
void narrow(const MatrixView& wide, const MatrixView& m) {
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t j = 0; j < m.columns; ++j) *at<H>(m, i, j) = H(*at<float>(wide, i, j));
}

// c = alpha a b + beta c of at most kMatrixTile x kMatrixTile elements; a or b is conjugated if asked. T is a BLAS
// type.
template <class T>
void tile_product(bool conjugate_a, bool conjugate_b, T alpha, const MatrixView& a, const MatrixView& b, T beta,
                  const MatrixView& c);
extern template void tile_product(bool, bool, float, const MatrixView&, const MatrixView&, float, const MatrixView&);
extern template void tile_product(bool, bool, double, const MatrixView&, const MatrixView&, double, const MatrixView&);
extern template void tile_product(bool, bool, std::complex<float>, const MatrixView&, const MatrixView&,
                                  std::complex<float>, const MatrixView&);
extern template void tile_product(bool, bool, std::complex<double>, const MatrixView&, const MatrixView&,
                                  std::complex<double>, const MatrixView&);

}  // namespace quarry::local::cpu
