#include "local/linalg/lapack.h"

#include <fmt/format.h>

#include <algorithm>

#include "local/cpu/lapack.h"

namespace quarry::local::linalg {
namespace {

// NumPy's dtype of a result: bool and integers are float64.
DType result_dtype(DType dtype) {
  if (dtype == DType::float16 || dtype == DType::bfloat16)
    throw TypeError(fmt::format("array type {} is unsupported in linalg", name(dtype)));
  return is_float(dtype) || is_complex(dtype) ? dtype : DType::float64;
}

// The elements column by column, in host memory; T is double or std::complex<double>.
template <class T>
std::vector<T> columns_of(const NdArray& a) {
  return to_vector<T>(a.T().astype(dtype_of_v<T>));
}
// From columns of `rows` elements, the first `used` of each.
template <class T>
NdArray from_columns(const std::vector<T>& values, int64_t columns, int64_t rows, int64_t used, DType dtype,
                     Device device) {
  const DeviceScope host(kCpu);
  const NdArray all = from_vector(values, {columns, rows});
  return all[{full_slice, Slice{0, used, 1}}].T().astype(dtype).to(device);
}

template <class F>
auto with_type(DType dtype, F&& f) {
  return is_complex(dtype) ? f.template operator()<std::complex<double>>() : f.template operator()<double>();
}

}  // namespace

NdArray eigvals(const NdArray& a) {
  const DType dtype = result_dtype(a.dtype());
  const int64_t n = a.shape(0);
  const auto values = with_type(dtype, [&]<class T>() {
    std::vector<T> matrix = columns_of<T>(a);
    return cpu::eigenvalues(matrix.data(), n);
  });
  const bool real =
      !is_complex(dtype) && std::all_of(values.begin(), values.end(), [](auto z) { return z.imag() == 0; });
  const DType complex = real_type(dtype) == DType::float32 ? DType::complex64 : DType::complex128;
  const Device device = a.device();
  const DeviceScope host(kCpu);
  return from_vector(values).astype(real ? dtype : complex).to(device);
}

LeastSquares least_squares(const NdArray& a, const NdArray& b, double rcond) {
  const DType dtype = promote_types(result_dtype(a.dtype()), result_dtype(b.dtype()));
  const int64_t m = a.shape(0), n = a.shape(1), k = b.ndim() == 1 ? 1 : b.shape(1), longest = std::max(m, n);
  return with_type(dtype, [&]<class T>() {
    std::vector<T> matrix = columns_of<T>(a), sides(static_cast<size_t>(longest * k)),
                   given = columns_of<T>(b.ndim() == 1 ? b.reshape({m, 1}) : b);
    for (int64_t j = 0; j < k; ++j) std::copy_n(given.begin() + j * m, m, sides.begin() + j * longest);
    std::vector<double> values(static_cast<size_t>(std::min(m, n)));
    LeastSquares result;
    result.rank = cpu::least_squares(matrix.data(), m, n, sides.data(), k, rcond, values.data());
    const NdArray solution = from_columns(sides, k, longest, n, dtype, a.device());
    result.solution = b.ndim() == 1 ? solution.reshape({n}) : solution;
    std::vector<double> residuals;
    if (result.rank == n && m > n) {
      for (int64_t j = 0; j < k; ++j) {
        double sum = 0;
        for (int64_t i = n; i < m; ++i) sum += std::norm(sides[static_cast<size_t>(j * longest + i)]);
        residuals.push_back(sum);
      }
    }
    const DeviceScope host(kCpu);
    result.residuals = from_vector(residuals).astype(real_type(dtype)).to(a.device());
    result.singular_values = from_vector(values).astype(real_type(dtype)).to(a.device());
    return result;
  });
}

NdArray inverse(const NdArray& a) {
  const DType dtype = result_dtype(a.dtype());
  const int64_t n = a.shape(0);
  return with_type(dtype, [&]<class T>() {
    std::vector<T> matrix = columns_of<T>(a), identity(matrix.size());
    for (int64_t i = 0; i < n; ++i) identity[static_cast<size_t>(i * n + i)] = T(1);
    cpu::solve(matrix.data(), n, identity.data(), n);
    return from_columns(identity, n, n, n, dtype, a.device());
  });
}

}  // namespace quarry::local::linalg
