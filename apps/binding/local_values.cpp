#include "quarry/apps/binding/local_values.h"

#include <algorithm>

#include "quarry/apps/binding/masked.h"
#include "quarry/local/ndarray/print.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

bool is_local_operand(const Value& value) {
  if (value.is<NdArray>() || value.number()) return true;
  const SequenceValue* sequence = value.sequence();
  return sequence != nullptr && std::all_of(sequence->items.begin(), sequence->items.end(), is_local_operand);
}

namespace {

constexpr const char* kRagged =
    "setting an array element with a sequence. The requested array has an inhomogeneous shape";

bool holds_array(const Value& value) {
  if (value.is<NdArray>()) return true;
  const SequenceValue* sequence = value.sequence();
  return sequence != nullptr && std::any_of(sequence->items.begin(), sequence->items.end(), holds_array);
}

// The shape of a nested sequence, by its first items; arrays inside add their own axes.
Dims shape_of(const Value& value) {
  Dims shape;
  const Value* part = &value;
  while (const SequenceValue* sequence = part->sequence()) {
    shape.push_back(static_cast<int64_t>(sequence->items.size()));
    if (sequence->items.empty()) return shape;
    part = &sequence->items[0];
  }
  if (const NdArray* array = part->as<NdArray>()) {
    for (const int64_t extent : array->shape()) shape.push_back(extent);
  }
  return shape;
}

// Collects the numbers in C order.
void flatten_numbers(const Value& value, const Dims& shape, int depth, std::optional<DType> dtype,
                     std::vector<Scalar>& numbers) {
  if (const std::optional<Number> number = value.number()) {
    if (depth != shape.size()) throw InvalidArgument(kRagged);
    numbers.push_back(to_scalar(*number, dtype));
    return;
  }
  const SequenceValue* sequence = value.sequence();
  if (sequence == nullptr) throw TypeError("an array cannot hold a " + type_name(value));
  if (depth >= shape.size() || static_cast<int64_t>(sequence->items.size()) != shape[depth]) {
    throw InvalidArgument(kRagged);
  }
  for (const Value& item : sequence->items) flatten_numbers(item, shape, depth + 1, dtype, numbers);
}

// The same where some items are arrays: each leaf is assigned to its place.
void collect_dtypes(const Value& value, std::vector<local::PromotionOperand>& operands) {
  if (const NdArray* array = value.as<NdArray>()) {
    operands.push_back({array->dtype(), false});
  } else if (const std::optional<Number> number = value.number()) {
    operands.push_back({to_scalar(*number).dtype(), false});
  } else if (const SequenceValue* sequence = value.sequence()) {
    for (const Value& item : sequence->items) collect_dtypes(item, operands);
  } else {
    throw TypeError("an array cannot hold a " + type_name(value));
  }
}

void assign_items(const Value& value, const NdArray& place) {
  if (const NdArray* array = value.as<NdArray>()) {
    if (!(array->shape() == place.shape())) throw InvalidArgument(kRagged);
    place.assign(array->dtype() == place.dtype() ? *array : array->astype(place.dtype()));
    return;
  }
  if (const std::optional<Number> number = value.number()) {
    if (place.ndim() != 0) throw InvalidArgument(kRagged);
    const Scalar scalar = to_scalar(*number, place.dtype());
    local::check_literal(scalar, place.dtype());
    place.fill(scalar);
    return;
  }
  const std::vector<Value>& items = value.sequence()->items;
  if (place.ndim() == 0 || static_cast<int64_t>(items.size()) != place.shape()[0]) throw InvalidArgument(kRagged);
  for (size_t i = 0; i < items.size(); ++i) assign_items(items[i], place[{static_cast<int64_t>(i)}]);
}

// Weak literals alone: bool, int64, float64, complex128; ints above int64 are uint64.
DType dtype_of_numbers(const std::vector<Scalar>& numbers) {
  if (numbers.empty()) return DType::float64;
  DType result = numbers[0].dtype();
  for (const Scalar& number : numbers) {
    if (number.dtype() != result) result = local::promote_types(result, number.dtype());
  }
  return result;
}

}  // namespace

NdArray to_ndarray(const Value& value, std::optional<DType> dtype) {
  if (const NdArray* array = value.as<NdArray>()) {
    return dtype && *dtype != array->dtype() ? array->astype(*dtype) : *array;
  }
  if (const std::optional<Number> number = value.number()) {
    const Scalar scalar = to_scalar(*number, dtype);
    const DType type = dtype.value_or(scalar.dtype());
    local::check_literal(scalar, type);
    NdArray result({}, type);
    result.fill(Scalar::strong(scalar, type));
    return result;
  }
  if (value.sequence() == nullptr) throw TypeError("a " + type_name(value) + " is no array");
  const Dims shape = shape_of(value);
  if (holds_array(value)) {
    std::vector<local::PromotionOperand> operands;
    collect_dtypes(value, operands);
    NdArray result(shape, dtype.value_or(local::result_type(operands)));
    assign_items(value, result);
    return result;
  }
  std::vector<Scalar> numbers;
  flatten_numbers(value, shape, 0, dtype, numbers);
  const DType type = dtype.value_or(dtype_of_numbers(numbers));
  const auto item = static_cast<size_t>(local::itemsize(type));
  std::vector<std::byte> bytes(numbers.size() * item);
  for (size_t i = 0; i < numbers.size(); ++i) {
    local::check_literal(numbers[i], type);
    numbers[i].store(type, bytes.data() + i * item);
  }
  return local::from_bytes(bytes.data(), type, shape);
}

std::string local_repr(const Value& value) {
  return repr(value, [](const Value& item) {
    if (const LocalMasked* masked = masked_in<local::ma::Local>(item)) return masked_repr(*masked);
    const NdArray& array = *item.as<NdArray>();
    if (array.ndim() > 0) return array.repr();
    if (local::print_options().legacy <= local::PrintLegacy::v1_25) return array.to_string();
    if (array.dtype() == DType::bool_) return "np." + array.to_string() + "_";
    const std::string text = array.to_string();  // of a complex number with parentheses
    return std::string("np.") + local::name(array.dtype()) + (text[0] == '(' ? text : "(" + text + ")");
  });
}

std::string local_text(const Value& value) {
  if (const NdArray* array = value.as<NdArray>()) return array->to_string();
  if (const LocalMasked* masked = masked_in<local::ma::Local>(value)) return masked_text(*masked);
  if (const auto* text = value.as<std::string>()) return *text;
  if (const auto* dtype = value.as<DTypeValue>()) return local::name(dtype->dtype);
  return local_repr(value);
}

namespace {

std::vector<Value> parts_of(const Array& array) {
  constexpr int64_t kMostParts = 1 << 20;
  if (array.ndim() == 0) throw TypeError("iteration over a 0-d array");
  if (array.shape(0) > kMostParts)
    throw InvalidArgument("an array of " + std::to_string(array.shape(0)) + " parts is too long for a sequence");
  std::vector<Value> items;
  for (int64_t i = 0; i < array.shape(0); ++i) items.emplace_back(array[{i}]);
  return items;
}

}  // namespace

std::vector<Value> items_of(const Value& value, const std::string& what) {
  if (const SequenceValue* sequence = value.sequence()) return sequence->items;
  if (const Array* chunked = value.as<Array>()) return parts_of(*chunked);
  const NdArray* array = value.as<NdArray>();
  if (array == nullptr) throw TypeError(what + " must be a sequence, not " + type_name(value));
  if (array->ndim() == 0) throw TypeError("iteration over a 0-d array");
  std::vector<Value> items;
  for (int64_t i = 0; i < array->shape()[0]; ++i) items.emplace_back((*array)[{i}]);
  return items;
}

std::optional<NdArray> number_array(const Value& value) {
  if (const NdArray* array = value.as<NdArray>()) return *array;
  const Array* array = value.as<Array>();
  if (array == nullptr || array->ndim() != 0) return std::nullopt;
  return array->to_host();
}

int64_t to_index(const Value& value, const std::string& what) {
  const std::optional<NdArray> array = number_array(value);
  if (!array) return to_int64(value, what);
  if (array->ndim() != 0 || !local::is_integer(array->dtype())) {
    throw TypeError("only integer scalar arrays can be converted to a scalar index: " + what + " is an array of " +
                    local::name(array->dtype()) + " of shape " + local::to_string(array->shape()));
  }
  return array->item().as_int64();
}

std::vector<int64_t> to_indices(const Value& value, const std::string& what) {
  if (const SequenceValue* sequence = value.sequence()) {
    std::vector<int64_t> result;
    for (const Value& item : sequence->items) result.push_back(to_index(item, what));
    return result;
  }
  const NdArray* array = value.as<NdArray>();
  if (array == nullptr || array->ndim() != 1) {
    throw TypeError(what + " must be a sequence of integers, not " + type_name(value));
  }
  if (array->size() > 0 && !local::is_integer(array->dtype()) && array->dtype() != DType::bool_) {
    throw TypeError(what + " must hold integers, not " + local::name(array->dtype()));
  }
  return local::to_vector<int64_t>(array->astype(DType::int64));
}

double to_real_number(const Value& value, const std::string& what) {
  const std::optional<NdArray> array = number_array(value);
  if (!array) return to_double(value, what);
  if (array->ndim() != 0 || local::is_complex(array->dtype())) {
    throw TypeError(what + " must be a real number, not an array of " + local::name(array->dtype()) + " of shape " +
                    local::to_string(array->shape()));
  }
  return array->item().as_double();
}

bool to_truth(const Value& value, const std::string& what) {
  const NdArray* array = value.as<NdArray>();
  if (array != nullptr && array->size() == 1) return array->item().as_bool();
  if (array != nullptr) throw InvalidArgument(what + " must be True or False, not an array of several");
  if (value.is_none()) return false;
  return to_bool(value, what);
}

Scalar to_local_scalar(const Value& value, const std::string& what) {
  if (const std::optional<Number> number = value.number()) return to_scalar(*number);
  const std::optional<NdArray> array = number_array(value);
  if (!array || array->size() != 1) throw TypeError(what + " must be a number, not " + type_name(value));
  return array->item();
}

DType to_local_dtype(const Value& value, const std::string& what) {
  if (const NdArray* array = value.as<NdArray>()) return array->dtype();
  return to_dtype(value, what);
}

Value from_scalar(const Scalar& scalar) {
  const DType dtype = scalar.dtype();
  if (!scalar.weak()) {
    const NdArray result({}, dtype);
    result.fill(scalar);
    return result;
  }
  if (dtype == DType::bool_) return scalar.as_bool();
  if (local::is_complex(dtype)) return scalar.as_complex();
  if (local::is_float(dtype)) return scalar.as_double();
  if (dtype == DType::uint64) return Int(scalar.as_uint64());
  return Int(scalar.as_int64());
}

}  // namespace quarry::apps::expression
