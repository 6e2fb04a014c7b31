#include "quarry/apps/binding/large_ints.h"

#include <algorithm>
#include <limits>

namespace quarry::apps::expression {

namespace {

bool is_large(const Value& value) {
  const Int* integer = value.as<Int>();
  return integer != nullptr && !integer->fits_64_bits();
}

bool is_inexact(DType dtype) { return local::is_float(dtype) || local::is_complex(dtype); }

bool is_floating(const Value& value) {
  if (const auto* array = value.as<local::NdArray>()) return is_inexact(array->dtype());
  if (const auto* array = value.as<Array>()) return is_inexact(array->dtype());
  if (const SequenceValue* sequence = value.sequence())
    return std::any_of(sequence->items.begin(), sequence->items.end(), is_floating);
  if (const std::optional<DTypeValue> dtype = as_dtype(value)) return is_inexact(dtype->dtype);
  return value.is<double>() || value.is<std::complex<double>>();
}

std::vector<Value> as_floats(std::span<const Value> values) {
  std::vector<Value> result(values.begin(), values.end());
  for (Value& value : result) {
    if (is_large(value)) value = value.as<Int>()->as_double();
  }
  return result;
}

}  // namespace

bool holds_large_int(std::span<const Value> values) { return std::any_of(values.begin(), values.end(), is_large); }

std::vector<Value> with_large_ints_as_floats(std::span<const Value> values) {
  if (std::any_of(values.begin(), values.end(), is_floating)) return as_floats(values);
  return {values.begin(), values.end()};
}

std::vector<Value> with_large_operands(local::Op op, std::span<const Value> operands, std::optional<DType> dtype) {
  const local::OpInfo& row = local::info(op);
  const bool float_loops =
      row.rule == local::OpRule::true_divide || std::string_view(row.kinds).find('i') == std::string_view::npos;
  if (float_loops || (dtype && is_inexact(*dtype)) || std::any_of(operands.begin(), operands.end(), is_floating))
    return as_floats(operands);
  std::vector<Value> result(operands.begin(), operands.end());
  if (row.rule != local::OpRule::comparison) return result;
  if (result[0].number() && result[1].number()) {  // the order of two numbers is that of -1, 0 or 1 with 0
    const Number a = *result[0].number(), b = *result[1].number();
    const int order = compare(CompareOp::less, a, b) ? -1 : compare(CompareOp::greater, a, b) ? 1 : 0;
    return {Value(order), Value(0)};
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (Value& value : result) {
    if (is_large(value)) value = value.as<Int>()->is_negative() ? -kInfinity : kInfinity;
  }
  return result;
}

}  // namespace quarry::apps::expression
