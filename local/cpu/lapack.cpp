#include "local/cpu/lapack.h"

// LAPACKE's C headers would bring C99's complex macros.
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <fmt/format.h>
#include <lapacke.h>

#include <climits>
#include <cmath>
#include <type_traits>

#include "local/base/error.h"
#include "local/cpu/matrix.h"

namespace quarry::local::cpu {
namespace {

lapack_int size_of(int64_t n) {
  if (n > INT_MAX) throw NotSupported(fmt::format("an extent of {} is beyond LAPACK's 32-bit sizes", n));
  return static_cast<lapack_int>(n);
}

}  // namespace

template <class T>
std::vector<std::complex<double>> eigenvalues(T* a, int64_t n) {
  one_thread_per_call();
  for (int64_t i = 0; i < n * n; ++i)
    if (!std::isfinite(std::abs(a[i]))) throw InvalidArgument("Array must not contain infs or NaNs");
  std::vector<std::complex<double>> values(static_cast<size_t>(n));
  if (n == 0) return values;
  const lapack_int size = size_of(n);
  lapack_int status = 0;
  if constexpr (std::is_same_v<T, double>) {
    std::vector<double> re(values.size()), im(values.size());
    status = LAPACKE_dgeev(LAPACK_COL_MAJOR, 'N', 'N', size, a, size, re.data(), im.data(), nullptr, 1, nullptr, 1);
    for (size_t i = 0; i < values.size(); ++i) values[i] = {re[i], im[i]};
  } else {
    status = LAPACKE_zgeev(LAPACK_COL_MAJOR, 'N', 'N', size, a, size, values.data(), nullptr, 1, nullptr, 1);
  }
  QUARRY_CHECK(status >= 0);
  if (status > 0) throw InvalidArgument("Eigenvalues did not converge");
  return values;
}
template std::vector<std::complex<double>> eigenvalues(double*, int64_t);
template std::vector<std::complex<double>> eigenvalues(std::complex<double>*, int64_t);

template <class T>
int64_t least_squares(T* a, int64_t m, int64_t n, T* b, int64_t k, double rcond, double* values) {
  one_thread_per_call();
  const lapack_int rows = size_of(m), columns = size_of(n), sides = size_of(k), ldb = size_of(std::max(m, n));
  lapack_int rank = 0, status = 0;
  if constexpr (std::is_same_v<T, double>)
    status = LAPACKE_dgelsd(LAPACK_COL_MAJOR, rows, columns, sides, a, std::max(rows, 1), b, std::max(ldb, 1), values,
                            rcond, &rank);
  else
    status = LAPACKE_zgelsd(LAPACK_COL_MAJOR, rows, columns, sides, a, std::max(rows, 1), b, std::max(ldb, 1), values,
                            rcond, &rank);
  // LAPACKE refuses matrices with NaN by a negative status.
  if (status != 0) throw InvalidArgument("SVD did not converge in Linear Least Squares");
  return rank;
}
template int64_t least_squares(double*, int64_t, int64_t, double*, int64_t, double, double*);
template int64_t least_squares(std::complex<double>*, int64_t, int64_t, std::complex<double>*, int64_t, double,
                               double*);

template <class T>
void solve(T* a, int64_t n, T* b, int64_t k) {
  if (n == 0 || k == 0) return;
  one_thread_per_call();
  std::vector<lapack_int> pivots(static_cast<size_t>(n));
  const lapack_int size = size_of(n), sides = size_of(k);
  lapack_int status = 0;
  if constexpr (std::is_same_v<T, double>)
    status = LAPACKE_dgesv(LAPACK_COL_MAJOR, size, sides, a, size, pivots.data(), b, size);
  else
    status = LAPACKE_zgesv(LAPACK_COL_MAJOR, size, sides, a, size, pivots.data(), b, size);
  if (status > 0) throw InvalidArgument("Singular matrix");
}
template void solve(double*, int64_t, double*, int64_t);
template void solve(std::complex<double>*, int64_t, std::complex<double>*, int64_t);

}  // namespace quarry::local::cpu
