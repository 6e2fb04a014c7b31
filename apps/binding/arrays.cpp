#include "quarry/apps/binding/arrays.h"

#include <algorithm>
#include <limits>

#include "quarry/apps/binding/large_ints.h"
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/language/library.h"
#include "quarry/chunked/api/assignment.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/ops/indexing/index_support.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::Op;
using local::TypeError;

bool is_operand(const Value& value) {
  if (value.is<Array>() || value.number()) return true;
  const SequenceValue* sequence = value.sequence();
  return sequence != nullptr && std::all_of(sequence->items.begin(), sequence->items.end(), is_operand);
}

namespace {

bool holds_array(const Value& value) {
  if (value.is<Array>()) return true;
  const SequenceValue* sequence = value.sequence();
  return sequence != nullptr && std::any_of(sequence->items.begin(), sequence->items.end(), holds_array);
}

// The numbers of a nested sequence in C order, and its shape.
void flatten_numbers(const Value& value, int depth, std::optional<DType> dtype, Dims& shape,
                     std::vector<Scalar>& numbers) {
  constexpr int64_t kUnknown = -1;
  if (const std::optional<Number> number = value.number()) {
    if (depth != shape.size()) throw InvalidArgument("the nested sequences have an inhomogeneous shape");
    numbers.push_back(to_scalar(*number, dtype));
    return;
  }
  const SequenceValue* sequence = value.sequence();
  if (sequence == nullptr) throw TypeError("an array cannot hold a " + type_name(value));
  const auto extent = static_cast<int64_t>(sequence->items.size());
  if (depth == shape.size()) {
    // Only the first path down a sequence finds a new axis.
    if (!numbers.empty()) throw InvalidArgument("the nested sequences have an inhomogeneous shape");
    shape.push_back(kUnknown);
  }
  if (shape[depth] == kUnknown) shape[depth] = extent;
  if (shape[depth] != extent) throw InvalidArgument("the nested sequences have an inhomogeneous shape");
  for (const Value& item : sequence->items) flatten_numbers(item, depth + 1, dtype, shape, numbers);
}

// Weak literals alone: bool, int64, float64, complex128; ints above int64 are uint64.
DType dtype_of_numbers(const std::vector<Scalar>& numbers) {
  if (numbers.empty()) return DType::float64;
  std::vector<local::PromotionOperand> operands;
  for (const Scalar& number : numbers) operands.push_back({number.dtype(), false});
  return local::result_type(operands);
}

Operand to_operand(const Value& value) {
  if (const std::optional<Number> number = value.number()) return to_scalar(*number);
  return to_array(value);
}

}  // namespace

Array to_array(const Value& value, std::optional<DType> dtype) {
  if (const Array* array = value.as<Array>()) return dtype ? array->astype(*dtype) : *array;
  if (const std::optional<Number> number = value.number()) {
    const Scalar scalar = to_scalar(*number, dtype);
    if (dtype) local::check_literal(scalar, *dtype);
    return full({}, scalar, dtype);
  }
  const SequenceValue* sequence = value.sequence();
  if (sequence == nullptr) throw TypeError("a " + type_name(value) + " is no array");
  if (holds_array(value)) {
    std::vector<Array> items;
    for (const Value& item : sequence->items) items.push_back(to_array(item, dtype));
    return stack(items);
  }
  Dims shape;
  std::vector<Scalar> numbers;
  flatten_numbers(value, 0, dtype, shape, numbers);
  const DType type = dtype.value_or(dtype_of_numbers(numbers));
  std::vector<std::byte> bytes(numbers.size() * static_cast<size_t>(local::itemsize(type)));
  for (size_t i = 0; i < numbers.size(); ++i) {
    local::check_literal(numbers[i], type);
    numbers[i].store(type, bytes.data() + i * static_cast<size_t>(local::itemsize(type)));
  }
  return Array::from_local(local::from_bytes(bytes.data(), type, shape));
}

Value apply(Op op, std::span<const Value> args, std::optional<DType> dtype, local::Casting casting) {
  if (std::optional<Value> masked = MaskedLibrary<ma::Chunked>::ufunc(op, args)) return *std::move(masked);
  if (holds_large_int(args)) {
    const std::vector<Value> fitting =
        op == "cast"_op ? with_large_ints_as_floats(std::vector<Value>{args[0], DTypeValue{dtype.value()}})
                        : with_large_operands(op, args, dtype);
    if (!holds_large_int(fitting)) return apply(op, std::span(fitting).first(args.size()), dtype, casting);
  }
  std::vector<Operand> operands;
  for (const Value& arg : args) {
    if (!is_operand(arg)) {
      throw TypeError(std::string(local::info(op).name) + "() takes numbers and arrays, not " + type_name(arg));
    }
    operands.push_back(to_operand(arg));
  }
  if (op == "cast"_op) return to_array(args[0], dtype.value());
  return quarry::apply(op, operands, dtype, casting);
}

Value array_unary(UnaryOp op, const Value& operand) { return apply(ufunc(op), std::span(&operand, 1)); }

Value array_binary(BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::matmul) return matmul(to_array(left), to_array(right));
  const Value args[] = {left, right};
  return apply(ufunc(op), args);
}

Value array_compare(CompareOp op, const Value& left, const Value& right) {
  const Value args[] = {left, right};
  return apply(ufunc(op), args);
}

namespace {

// Positions or a mask: what NumPy makes of bools, lists and arrays.
Array index_array(const Value& value) {
  const SequenceValue* list = value.sequence();
  if (list != nullptr && list->items.empty()) return quarry::zeros({0}, DType::int64);
  return to_array(value);
}

IndexTerm index_term(const Value& value) {
  if (const Int* integer = value.as<Int>(); integer != nullptr && !integer->as_int64())
    throw local::IndexError("cannot fit 'int' into an index-sized integer");
  if (value.is<Int>()) return to_int64(value, "an index");
  if (const auto* slice = value.as<local::Slice>()) return *slice;
  if (value.is_none()) return local::newaxis;
  if (value.is<EllipsisValue>()) return local::ellipsis;
  if (value.is<bool>() || value.is<Array>() || value.sequence() != nullptr) return index_array(value);
  throw local::IndexError("only integers, slices, ellipsis (...), None, integer and boolean arrays are indices, not " +
                          type_name(value));
}

}  // namespace

std::vector<IndexTerm> array_index_terms(const Value& index) {
  std::vector<IndexTerm> terms;
  const SequenceValue* tuple = index.sequence();
  if (tuple != nullptr && !tuple->is_list) {
    for (const Value& item : tuple->items) terms.push_back(index_term(item));
  } else {
    terms.push_back(index_term(index));
  }
  return terms;
}

Value array_assign(const Array& array, const Value& index, std::optional<BinaryOp> update, const Value& value) {
  if (!is_operand(value)) throw TypeError("an array's elements cannot be a " + type_name(value));
  const std::vector<IndexTerm> terms = array_index_terms(index);
  if (update) return updated(array, terms, ufunc(*update), to_operand(value));
  // Numbers in a list become elements one by one.
  if (value.sequence() != nullptr) return assigned(array, terms, to_array(value, array.dtype()));
  return assigned(array, terms, to_operand(value));
}

Value array_subscript(const Array& array, const Value& index) { return quarry::index(array, array_index_terms(index)); }

namespace {

Value chunk_extents(const Array& array) {
  constexpr int64_t kMostChunks = 1 << 20;
  std::vector<Value> axes;
  for (const AxisChunks& axis : array.chunks().axes()) {
    if (axis.count() > kMostChunks) throw InvalidArgument("the array has too many chunks to list");
    std::vector<Value> extents;
    for (int64_t i = 0; i < axis.count(); ++i) extents.emplace_back(axis.size(i));
    axes.push_back(Value::tuple(std::move(extents)));
  }
  return Value::tuple(std::move(axes));
}

struct AttributeRow {
  std::string_view name;
  Value (*get)(const Array& array);
};

const AttributeRow kAttributes[] = {
    {"T", [](const Array& a) { return Value(a.T()); }},
    {"mT", [](const Array& a) { return Value(quarry::matrix_transpose(a)); }},
    {"shape", [](const Array& a) { return Value::tuple(a.shape()); }},
    {"ndim", [](const Array& a) { return Value(a.ndim()); }},
    {"size", [](const Array& a) { return Value(a.size()); }},
    {"dtype", [](const Array& a) { return Value(DTypeValue{a.dtype()}); }},
    {"itemsize", [](const Array& a) { return Value(local::itemsize(a.dtype())); }},
    {"nbytes", [](const Array& a) { return Value(a.nbytes()); }},
    {"real", [](const Array& a) { return Value(quarry::real(a)); }},
    {"imag", [](const Array& a) { return Value(quarry::imag(a)); }},
    {"chunks", chunk_extents},
};

}  // namespace

std::optional<Value> array_attribute(const Array& array, std::string_view name) {
  for (const AttributeRow& row : kAttributes) {
    if (row.name == name) return row.get(array);
  }
  return std::nullopt;
}

std::vector<std::string> array_attribute_names() {
  std::vector<std::string> names;
  for (const AttributeRow& row : kAttributes) names.emplace_back(row.name);
  return names;
}

}  // namespace quarry::apps::expression
