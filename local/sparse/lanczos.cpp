#include "quarry/local/sparse/lanczos.h"

#include <algorithm>

namespace quarry::local::sparse::krylov {

std::vector<int64_t> wanted(const std::vector<double>& values, int64_t k, std::string_view which) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto size = [&](int64_t i) { return std::abs(values[static_cast<size_t>(i)]); };
  if (which == "LM")
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size(a) > size(b); });
  if (which == "SM")
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size(a) < size(b); });
  if (which == "LA") std::reverse(order.begin(), order.end());
  if (which == "BE") {  // from both ends in turn, the upper one first
    for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i % 2 == 0 ? n - 1 - i / 2 : i / 2;
  }
  order.resize(static_cast<size_t>(std::min(k, n)));
  std::sort(order.begin(), order.end());
  return order;
}

void check_which(std::string_view which) {
  for (const char* known : {"LM", "SM", "LA", "SA", "BE"})
    if (which == known) return;
  throw InvalidArgument(fmt::format("which: '{}' is none of 'LM', 'SM', 'LA', 'SA', 'BE'", which));
}

std::string no_convergence(const char* function, int64_t converged, int64_t wanted, int64_t restarts, double residual) {
  return fmt::format(
      "{}: no convergence within {} restarts: {} of {} values are found; the largest residual of the others is {:.3g}",
      function, restarts, converged, wanted, residual);
}

std::vector<Complex> Small::column(int64_t j) const {
  std::vector<Complex> result;
  for (int64_t i = 0; i < rows(); ++i) result.push_back(at(i, j));
  return result;
}

Small Small::picked(const std::vector<int64_t>& columns) const {
  Small result(rows(), static_cast<int64_t>(columns.size()));
  for (int64_t i = 0; i < rows(); ++i)
    for (int64_t j = 0; j < result.columns(); ++j) result.at(i, j) = at(i, columns[static_cast<size_t>(j)]);
  return result;
}

NdArray Small::array(DType dtype) const {
  const DeviceScope host(kCpu);
  const NdArray all = from_vector(values_, Dims{rows(), columns_});
  return (is_complex(dtype) ? all : all.real()).astype(dtype);
}

std::pair<std::vector<double>, Small> small_eigh(const Small& a, bool real) {
  const DeviceScope host(kCpu);
  const auto [values, vectors] = local::linalg::eigh(a.array(real ? DType::float64 : DType::complex128));
  return {to_vector<double>(values), Small(a.columns(), to_vector<Complex>(vectors.astype(DType::complex128)))};
}

}  // namespace quarry::local::sparse::krylov
