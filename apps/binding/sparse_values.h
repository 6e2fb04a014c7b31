// Sparse matrices as values of the language of chunked arrays: what operators, indices and attributes make of them.
// Methods are rows of local/ops/functions/sparse.def; they are arguments of the iterative methods. All else is refused,
// with A.toarray() as the way to a dense matrix.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "quarry/apps/binding/binding.h"
#include "quarry/apps/language/ast.h"
#include "quarry/chunked/api/sparse.h"

namespace quarry::apps::expression {

inline Value sparse_value(sparse::SparseArray matrix) {
  return SparseValue{std::make_shared<const sparse::SparseArray>(std::move(matrix))};
}
template <>
struct Convert<sparse::SparseArray> {
  static bool fits(const Value& value) { return value.is<SparseValue>(); }
  static sparse::SparseArray from(const Value& value, const std::string& what, Keep&) {
    if (!fits(value)) throw local::TypeError(what + " must be a sparse matrix, not " + type_name(value));
    return *value.as<SparseValue>()->matrix;
  }
};
template <>
struct ToValue<sparse::SparseArray> {
  static Value of(const sparse::SparseArray& matrix) { return sparse_value(matrix); }
};

// Of a sparse operand. Throw NotSupported for what sparse matrices do not have.
Value sparse_unary(UnaryOp op, const Value& operand);
Value sparse_binary(BinaryOp op, const Value& left, const Value& right);
Value sparse_subscript(const Value& matrix, const Value& index);  // slices, lists, masks
// Null where they have no such method.
const Function* sparse_method(const Registry& registry, std::string_view name);
// Throws NotSupported for a name that is neither an attribute nor a method; nothing for a method.
std::optional<Value> sparse_attribute(const Registry& registry, const Value& matrix, std::string_view name);
[[noreturn]] void refuse_sparse(const std::string& what);

}  // namespace quarry::apps::expression
