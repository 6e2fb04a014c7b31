#include "quarry/apps/binding/sparse_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/apps/language/library.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"

namespace quarry::apps::expression {

namespace {

const sparse::SparseArray* matrix_of(const Value& value) {
  const auto* sparse = value.as<SparseValue>();
  return sparse != nullptr ? sparse->matrix.get() : nullptr;
}

// A and what stands beside it, a number or a dense array.
Value with_dense(BinaryOp op, const sparse::SparseArray& a, const Value& other, bool is_left) {
  if (const std::optional<Number> exponent = other.number(); op == BinaryOp::power && is_left && exponent)
    return sparse_value(a.power(to_scalar(*exponent)));
  const bool divides = op == BinaryOp::divide && is_left;
  if (op != BinaryOp::multiply && !divides)
    refuse_sparse(fmt::format("{} of a sparse matrix and {} {}", symbol(op),
                              type_name(other).starts_with('a') || type_name(other).starts_with('i') ? "an" : "a",
                              type_name(other)));
  if (const std::optional<Number> number = other.number()) {
    const Scalar factor = to_scalar(*number);
    return sparse_value(divides ? a / factor : a * factor);
  }
  const Array dense = to_array(other);
  return sparse_value(divides ? a.divide(dense) : a.multiply(dense));
}

}  // namespace

void refuse_sparse(const std::string& what) {
  throw local::NotSupported("sparse matrices do not have " + what + "; A.toarray() is a dense matrix");
}

Value sparse_unary(UnaryOp op, const Value& operand) {
  switch (op) {
    case UnaryOp::minus:
      return sparse_value(-*matrix_of(operand));
    case UnaryOp::plus:
      return operand;
    case UnaryOp::invert:
    case UnaryOp::logical_not:
      break;
  }
  refuse_sparse(symbol(op));
}

Value sparse_binary(BinaryOp op, const Value& left, const Value& right) {
  const sparse::SparseArray *a = matrix_of(left), *b = matrix_of(right);
  if (op == BinaryOp::matmul) {
    if (a != nullptr && b != nullptr) return sparse_value(sparse::matmul(*a, *b));
    if (a != nullptr) return sparse::matmul(*a, to_array(right));
    // x A = (A^T x^T)^T.
    const Array x = to_array(left);
    if (x.ndim() < 1 || x.ndim() > 2 || x.shape()[x.ndim() - 1] != b->shape()[0])
      throw local::InvalidArgument(fmt::format("matmul: shapes {} and {} do not match", local::to_string(x.shape()),
                                               local::to_string(b->shape())));
    return sparse::matmul(b->T(), x.T()).T();
  }
  if (a == nullptr) return with_dense(op, *b, left, /*is_left=*/false);
  if (b == nullptr) return with_dense(op, *a, right, /*is_left=*/true);
  if (op == BinaryOp::add) return sparse_value(*a + *b);
  if (op == BinaryOp::subtract) return sparse_value(*a - *b);
  if (op == BinaryOp::multiply) return sparse_value(a->multiply(*b));
  refuse_sparse(fmt::format("{} of two of them", symbol(op)));
}

namespace {

// A list of positions, or a mask.
std::optional<Array> list_of(const Value& term) {
  const SequenceValue* sequence = term.sequence();
  if (!(sequence != nullptr && sequence->is_list) && !term.is<Array>() && !term.is<local::NdArray>()) return {};
  if (sequence != nullptr && sequence->items.empty()) return quarry::zeros({0}, DType::int64);
  Array list = to_array(term);
  if (list.ndim() == 0) return {};
  return list;
}

}  // namespace

// A[a:b], A[a:b, c:d], A[[i, j]], A[:, mask], A[...].
Value sparse_subscript(const Value& matrix, const Value& index) {
  const auto is_all = [](const Value& term) {
    const auto* slice = term.as<local::Slice>();
    return term.is<EllipsisValue>() ||
           (slice != nullptr && !slice->start && !slice->stop && slice->step.value_or(1) == 1);
  };
  const SequenceValue* tuple = index.sequence();
  std::vector<Value> terms = tuple != nullptr && !tuple->is_list ? tuple->items : std::vector<Value>{index};
  if (terms.size() > 2) throw local::IndexError("a matrix has two axes, the index has more");
  if (terms.empty()) return matrix;
  sparse::SparseArray result = *matrix_of(matrix);
  struct Axis {
    sparse::SparseArray (sparse::SparseArray::*at)(const Array&) const;
    sparse::SparseArray (sparse::SparseArray::*slice)(const local::Slice&) const;
    const char* refused;
  };
  static constexpr Axis kAxes[] = {
      {&sparse::SparseArray::rows_at, &sparse::SparseArray::rows,
       "indices of rows but slices, lists and masks (A[i:i+1] has one row)"},
      {&sparse::SparseArray::columns_at, &sparse::SparseArray::columns,
       "indices of columns but slices, lists and masks (A[:, j:j+1] has one column)"},
  };
  std::vector<std::optional<Array>> lists;
  for (const Value& term : terms) lists.push_back(list_of(term));
  if (lists.size() == 2 && lists[0] && lists[1])
    refuse_sparse("pairs of positions (A[rows][:, columns] has all of both)");
  for (size_t i = 0; i < terms.size(); ++i) {
    if (lists[i]) {
      result = (result.*kAxes[i].at)(*lists[i]);
    } else if (!is_all(terms[i])) {
      const auto* slice = terms[i].as<local::Slice>();
      if (slice == nullptr) refuse_sparse(kAxes[i].refused);
      result = (result.*kAxes[i].slice)(*slice);
    }
  }
  return sparse_value(std::move(result));
}

const Function* sparse_method(const Registry& registry, std::string_view name) {
  return registry.function("sparse.csr_array." + std::string(name));
}

std::optional<Value> sparse_attribute(const Registry& registry, const Value& value, std::string_view name) {
  const sparse::SparseArray& a = *matrix_of(value);
  if (name == "shape") return Value::tuple(a.shape());
  if (name == "dtype") return DTypeValue{a.dtype()};
  if (name == "ndim") return Value(int64_t{2});
  if (name == "nnz" || name == "size") return Value(a.nnz());
  if (name == "format") return Value(std::string("csr"));
  if (name == "data") return Value(a.data());
  if (name == "indices") return Value(a.indices());
  if (name == "indptr") return Value(a.indptr());
  if (name == "T") return sparse_value(a.T());
  if (name == "H") return sparse_value(a.H());
  if (name == "real") return sparse_value(a.with_data(quarry::real(a.data())));
  if (name == "imag") return sparse_value(a.with_data(quarry::imag(a.data())));
  if (sparse_method(registry, name) == nullptr) refuse_sparse("'" + std::string(name) + "'");
  return std::nullopt;
}

}  // namespace quarry::apps::expression
