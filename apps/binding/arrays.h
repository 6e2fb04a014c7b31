// The evaluator's operations that involve arrays, over the chunked API.
#pragma once

#include <optional>
#include <span>

#include "quarry/apps/language/function.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/program/op.h"

namespace quarry::apps::expression {

// Whether NumPy takes the value as an array operand: a number, an array, or a sequence of such.
bool is_operand(const Value& value);
// As np.asarray: arrays as they are, numbers 0-d, sequences of numbers or arrays stacked. Throws TypeError.
Array to_array(const Value& value, std::optional<DType> dtype = std::nullopt);
// Applies an elementwise operation; Python numbers stay weak. Throws TypeError, InvalidArgument.
Value apply(local::Op op, std::span<const Value> args, std::optional<DType> dtype = std::nullopt,
            local::Casting casting = local::Casting::same_kind);
Value array_unary(UnaryOp op, const Value& operand);
Value array_binary(BinaryOp op, const Value& left, const Value& right);
Value array_compare(CompareOp op, const Value& left, const Value& right);
// The terms of an index. Throws IndexError.
std::vector<IndexTerm> array_index_terms(const Value& index);
// A new array with array[index] = value, or with the result of an operation there.
Value array_assign(const Array& array, const Value& index, std::optional<BinaryOp> update, const Value& value);
// x[index] with all of NumPy's terms.
Value array_subscript(const Array& array, const Value& index);
// x.shape, x.T ...; nothing where there is no such attribute.
std::optional<Value> array_attribute(const Array& array, std::string_view name);
std::vector<std::string> array_attribute_names();

}  // namespace quarry::apps::expression
