// Sparse matrices in the expression language: makers and methods, with SciPy's arguments.
#pragma once

#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "quarry/apps/binding/sparse_values.h"

namespace quarry::apps::expression::chunked_rows::matrices {

using Matrix = quarry::sparse::SparseArray;
using Coordinates = std::pair<Array, std::pair<Array, Array>>;  // data, (row, column)
struct Compressed {
  Array data, indices, indptr;
};
using Source = std::variant<Matrix, Coordinates, Compressed, Array>;

// Collective, blocking.
Matrix coo_array(const Source& arg1, const std::optional<Dims>& shape, const std::optional<DType>& dtype);
Matrix csc_array(const Source& arg1, const std::optional<Dims>& shape, const std::optional<DType>& dtype);
Matrix csr_array(const Source& arg1, const std::optional<Dims>& shape, const std::optional<DType>& dtype);
bool issparse(const Value& x);
Matrix matrix_power(const Matrix& A, int64_t power);

Matrix astype(const Matrix& self, DType dtype);
Matrix conj(const Matrix& self);
Array diagonal(const Matrix& self, int64_t k);
std::variant<Matrix, Array> dot(const Matrix& self, const std::variant<Matrix, Array>& other);
Array mean(const Matrix& self, std::optional<int64_t> axis);
Matrix multiply(const Matrix& self, const std::variant<Scalar, Array, Matrix>& other);
Matrix persist(const Matrix& self);
Matrix power(const Matrix& self, Scalar n);
Array sum(const Matrix& self, std::optional<int64_t> axis);
Array toarray(const Matrix& self);
Matrix tocsr(const Matrix& self);
void to_hdf5(const Matrix& self, std::string_view filename, std::string_view datapath);
Array trace(const Matrix& self);
Matrix transpose(const Matrix& self);

}  // namespace quarry::apps::expression::chunked_rows::matrices

namespace quarry::apps::expression {

// A tuple of three arrays.
template <>
struct Convert<chunked_rows::matrices::Compressed> {
  static bool fits(const Value& value) {
    const SequenceValue* sequence = value.sequence();
    return sequence != nullptr && !sequence->is_list && sequence->items.size() == 3;
  }
  static chunked_rows::matrices::Compressed from(const Value& value, const std::string& what, Keep& keep) {
    const std::vector<Value>& items = value.sequence()->items;
    const auto part = [&](size_t i) { return Convert<Array>::from(items[i], what, keep); };
    return {part(0), part(1), part(2)};
  }
};
template <>
struct Convert<Value> {
  static bool fits(const Value&) { return true; }
  static Value from(const Value& value, const std::string&, Keep&) { return value; }
};

}  // namespace quarry::apps::expression
