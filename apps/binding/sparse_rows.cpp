#include "quarry/apps/binding/sparse_rows.h"

#include <fmt/format.h>

#include "quarry/chunked/api/elementwise.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/local/base/error.h"

namespace quarry::apps::expression::chunked_rows::matrices {

namespace makers = quarry::sparse;

namespace {

Matrix of_coordinates(const Coordinates& parts, const std::optional<Dims>& shape) {
  const auto& [data, places] = parts;
  const auto& [row, column] = places;
  if (shape) return makers::coo_array(data, row, column, *shape);
  const auto extent = [](const Array& positions) {
    return positions.size() == 0 ? int64_t{0} : quarry::max(positions).item<int64_t>() + 1;
  };
  return makers::coo_array(data, row, column, Dims{extent(row), extent(column)});
}

// What is no triple of compressed rows or columns.
Matrix of_any(const Source& source, const std::optional<Dims>& shape) {
  if (const auto* parts = std::get_if<Coordinates>(&source)) return of_coordinates(*parts, shape);
  const auto* matrix = std::get_if<Matrix>(&source);
  const Matrix made = matrix != nullptr ? *matrix : makers::csr_array(std::get<Array>(source));
  if (shape && *shape != made.shape())
    throw local::InvalidArgument(fmt::format("shape: {} is not that of the matrix, {}", local::to_string(*shape),
                                             local::to_string(made.shape())));
  return made;
}

Matrix as(const Matrix& made, const std::optional<DType>& dtype) {
  return dtype && *dtype != made.dtype() ? made.astype(*dtype) : made;
}

}  // namespace

Matrix coo_array(const Source& arg1, const std::optional<Dims>& shape, const std::optional<DType>& dtype) {
  if (std::holds_alternative<Compressed>(arg1))
    throw local::TypeError("coo_array(): arg1 must be a matrix or (data, (row, column)), not a tuple of 3");
  return as(of_any(arg1, shape), dtype);
}
Matrix csc_array(const Source& arg1, const std::optional<Dims>& shape, const std::optional<DType>& dtype) {
  const auto* parts = std::get_if<Compressed>(&arg1);
  return as(
      parts != nullptr ? makers::csc_array(parts->data, parts->indices, parts->indptr, shape) : of_any(arg1, shape),
      dtype);
}
Matrix csr_array(const Source& arg1, const std::optional<Dims>& shape, const std::optional<DType>& dtype) {
  const auto* parts = std::get_if<Compressed>(&arg1);
  return as(
      parts != nullptr ? makers::csr_array(parts->data, parts->indices, parts->indptr, shape) : of_any(arg1, shape),
      dtype);
}
bool issparse(const Value& x) { return x.is<SparseValue>(); }
Matrix matrix_power(const Matrix& A, int64_t power) { return makers::linalg::matrix_power(A, power); }

Matrix astype(const Matrix& self, DType dtype) { return self.astype(dtype); }
Matrix conj(const Matrix& self) { return self.conj(); }
Array diagonal(const Matrix& self, int64_t k) { return self.diagonal(k); }
std::variant<Matrix, Array> dot(const Matrix& self, const std::variant<Matrix, Array>& other) {
  if (const auto* matrix = std::get_if<Matrix>(&other)) return makers::matmul(self, *matrix);
  return makers::matmul(self, std::get<Array>(other));
}
Array mean(const Matrix& self, std::optional<int64_t> axis) {
  const Dims& shape = self.shape();
  const int64_t count = axis ? shape[local::normalize_axis(*axis, 2)] : shape[0] * shape[1];
  const DType dtype = local::is_integer(self.dtype()) || self.dtype() == DType::bool_ ? DType::float64 : self.dtype();
  return self.sum(axis).astype(dtype) / Scalar(static_cast<double>(count));
}
Matrix multiply(const Matrix& self, const std::variant<Scalar, Array, Matrix>& other) {
  if (const auto* factor = std::get_if<Scalar>(&other)) return self * *factor;
  if (const auto* dense = std::get_if<Array>(&other)) return self.multiply(*dense);
  return self.multiply(std::get<Matrix>(other));
}
Matrix persist(const Matrix& self) { return self.persist(); }
Matrix power(const Matrix& self, Scalar n) { return self.power(n); }
Array sum(const Matrix& self, std::optional<int64_t> axis) { return self.sum(axis); }
Array toarray(const Matrix& self) { return self.toarray(); }
Matrix tocsr(const Matrix& self) { return self; }
void to_hdf5(const Matrix& self, std::string_view filename, std::string_view datapath) {
  makers::to_hdf5(std::string(filename), std::string(datapath), self);
}
Array trace(const Matrix& self) { return quarry::sum(self.diagonal()); }
Matrix transpose(const Matrix& self) { return self.T(); }

}  // namespace quarry::apps::expression::chunked_rows::matrices
