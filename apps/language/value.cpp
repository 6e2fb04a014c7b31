#include "quarry/apps/language/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/api/sparse.h"
#include "quarry/local/base/dtype_text.h"
#include "quarry/local/ops/random/random.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

Value Value::tuple(std::vector<Value> items) {
  return std::make_shared<const SequenceValue>(SequenceValue{false, std::move(items)});
}

Value Value::list(std::vector<Value> items) {
  return std::make_shared<const SequenceValue>(SequenceValue{true, std::move(items)});
}

Value Value::tuple(const Dims& dims) {
  std::vector<Value> items;
  for (const int64_t extent : dims) items.emplace_back(extent);
  return tuple(std::move(items));
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  return std::make_shared<const DictValue>(DictValue{std::move(items)});
}

const DictValue* Value::dict() const {
  const auto* pointer = std::get_if<std::shared_ptr<const DictValue>>(&value_);
  return pointer != nullptr ? pointer->get() : nullptr;
}

const Value* DictValue::find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    const auto* text = name.as<std::string>();
    if (text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

bool same_value(const Value& a, const Value& b) {
  const std::optional<Number> x = a.number(), y = b.number();
  if (x && y) return compare(CompareOp::equal, *x, *y);
  if (a.is<std::string>() && b.is<std::string>()) return *a.as<std::string>() == *b.as<std::string>();
  if (a.is<Bytes>() && b.is<Bytes>()) return *a.as<Bytes>() == *b.as<Bytes>();
  // As NumPy: a dtype equals its name.
  if (a.is<DTypeValue>() || b.is<DTypeValue>()) {
    const std::optional<DTypeValue> x = as_dtype(a), y = as_dtype(b);
    return x && y && x->dtype == y->dtype && x->swapped == y->swapped;
  }
  const SequenceValue* s = a.sequence();
  const SequenceValue* t = b.sequence();
  if (s != nullptr && t != nullptr) {
    return s->is_list == t->is_list &&
           std::equal(s->items.begin(), s->items.end(), t->items.begin(), t->items.end(), same_value);
  }
  return a.variant().index() == b.variant().index() && (a.is_none() || a.is<EllipsisValue>());
}

const SequenceValue* Value::sequence() const {
  const auto* pointer = std::get_if<std::shared_ptr<const SequenceValue>>(&value_);
  return pointer != nullptr ? pointer->get() : nullptr;
}

std::optional<Number> Value::number() const {
  if (const bool* b = as<bool>()) return Number(*b);
  if (const Int* i = as<Int>()) return Number(*i);
  if (const double* d = as<double>()) return Number(*d);
  if (const auto* c = as<std::complex<double>>()) return Number(*c);
  return std::nullopt;
}

namespace {

struct TypeName {
  std::string operator()(const None&) const { return "NoneType"; }
  std::string operator()(bool) const { return "bool"; }
  std::string operator()(const Int&) const { return "int"; }
  std::string operator()(double) const { return "float"; }
  std::string operator()(const std::complex<double>&) const { return "complex"; }
  std::string operator()(const std::string&) const { return "str"; }
  std::string operator()(const Bytes&) const { return "bytes"; }
  std::string operator()(const EllipsisValue&) const { return "ellipsis"; }
  std::string operator()(const DTypeValue&) const { return "dtype"; }
  std::string operator()(const local::Slice&) const { return "slice"; }
  std::string operator()(const std::shared_ptr<const SequenceValue>& s) const { return s->is_list ? "list" : "tuple"; }
  std::string operator()(const std::shared_ptr<const DictValue>&) const { return "dict"; }
  std::string operator()(const FunctionValue&) const { return "function"; }
  std::string operator()(const ModuleValue&) const { return "module"; }
  std::string operator()(const GeneratorValue&) const { return "Generator"; }
  std::string operator()(const SeedSequenceValue&) const { return "SeedSequence"; }
  std::string operator()(const MaskedValue&) const { return "MaskedArray"; }
  std::string operator()(const SparseValue&) const { return "csr_array"; }
  std::string operator()(const Array&) const { return "array"; }
  std::string operator()(const local::NdArray&) const { return "array"; }
};

std::string text_of(const DTypeValue& type) {
  if (!type.swapped) return local::name(type.dtype);
  return ">" + std::string(1, local::kind(type.dtype)) + std::to_string(local::itemsize(type.dtype));
}

std::string bound(const std::optional<int64_t>& value) { return value ? std::to_string(*value) : "None"; }

}  // namespace

std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> result;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xc0u) == 0x80u;
    if (continues && !result.empty())
      result.back() += c;
    else
      result.emplace_back(1, c);
  }
  return result;
}

std::string type_name(const Value& value) { return std::visit(TypeName{}, value.variant()); }

std::string repr(const Value& value, const std::function<std::string(const Value&)>& array) {
  if (const std::optional<Number> number = value.number()) return repr(*number);
  if (const auto* text = value.as<std::string>()) return repr(*text);
  if (const auto* bytes = value.as<Bytes>()) return repr(*bytes);
  if (const SequenceValue* sequence = value.sequence()) {
    std::string text = sequence->is_list ? "[" : "(";
    for (size_t i = 0; i < sequence->items.size(); ++i) {
      if (i > 0) text += ", ";
      if (!sequence->fields.empty()) text += std::string(sequence->fields[i]) + "=";
      text += repr(sequence->items[i], array);
    }
    if (!sequence->is_list && sequence->items.size() == 1 && sequence->fields.empty()) text += ",";
    return text + (sequence->is_list ? "]" : ")");
  }
  if (const DictValue* dict = value.dict()) {
    std::string text = "{";
    for (const auto& [key, item] : dict->items) {
      text += (text.size() > 1 ? ", " : "") + repr(key, array) + ": " + repr(item, array);
    }
    return text + "}";
  }
  if (value.is<Array>() || value.is<local::NdArray>() || value.is<MaskedValue>()) return array(value);
  if (const auto* sparse = value.as<SparseValue>())
    return fmt::format("<Compressed Sparse Row sparse array of dtype '{}' with {} stored elements and shape {}>",
                       local::name(sparse->matrix->dtype()), sparse->matrix->nnz(),
                       local::to_string(sparse->matrix->shape()));
  if (const auto* dtype = value.as<DTypeValue>()) return "dtype('" + text_of(*dtype) + "')";
  if (const auto* slice = value.as<local::Slice>()) {
    return "slice(" + bound(slice->start) + ", " + bound(slice->stop) + ", " + bound(slice->step) + ")";
  }
  if (const auto* module = value.as<ModuleValue>()) return "<module '" + module->name + "'>";
  if (value.is<EllipsisValue>()) return "Ellipsis";
  if (const auto* generator = value.as<GeneratorValue>())
    return std::string("Generator(") + name(generator->generator->bit_generator().kind) + ")";
  if (value.is<SeedSequenceValue>()) return "SeedSequence(...)";
  return value.is_none() ? "None" : "<function>";
}

namespace {

// Of an int that may be very long.
std::string brief(const Int& value) {
  constexpr int64_t kMostBits = 256;
  return value.bits() <= kMostBits ? to_string(value) : "an integer of " + std::to_string(value.bits()) + " bits";
}

}  // namespace

int64_t to_int64(const Value& value, const std::string& what) {
  if (const bool* b = value.as<bool>()) return *b ? 1 : 0;
  const Int* integer = value.as<Int>();
  if (integer == nullptr) throw TypeError(what + " must be an integer, not " + type_name(value));
  const std::optional<int64_t> result = integer->as_int64();
  if (!result) throw InvalidArgument(what + " is out of range: " + brief(*integer));
  return *result;
}

bool to_bool(const Value& value, const std::string& what) {
  const std::optional<Number> number = value.number();
  if (!number) throw TypeError(what + " must be True or False, not " + type_name(value));
  return truth(*number);
}

double to_double(const Value& value, const std::string& what) {
  if (const double* d = value.as<double>()) return *d;
  if (const Int* i = value.as<Int>()) return i->as_double();
  if (const bool* b = value.as<bool>()) return *b ? 1 : 0;
  throw TypeError(what + " must be a real number, not " + type_name(value));
}

std::optional<DTypeValue> as_dtype(const Value& value) {
  if (const auto* dtype = value.as<DTypeValue>()) return *dtype;
  const auto* text = value.as<std::string>();
  const std::optional<local::DTypeText> found = text == nullptr ? std::nullopt : local::parse_dtype_text(*text);
  if (!found) return std::nullopt;
  return DTypeValue{found->dtype, false, found->swapped};
}

DType to_dtype(const Value& value, const std::string& what) {
  if (const std::optional<DTypeValue> dtype = as_dtype(value)) return dtype->dtype;
  if (const auto* text = value.as<std::string>()) throw TypeError("data type " + repr(*text) + " not understood");
  throw TypeError(what + " must be a dtype, not " + type_name(value));
}

std::optional<DType> to_optional_dtype(const Value& value, const std::string& what) {
  if (value.is_none()) return std::nullopt;
  return to_dtype(value, what);
}

Dims to_shape(const Value& value, const std::string& what) {
  Dims shape;
  if (const SequenceValue* sequence = value.sequence()) {
    for (const Value& item : sequence->items) shape.push_back(to_int64(item, what + "'s entries"));
    return shape;
  }
  shape.push_back(to_int64(value, what));
  return shape;
}

Scalar to_scalar(const Number& number, std::optional<DType> dtype) {
  if (const Int* i = std::get_if<Int>(&number)) {
    if (const std::optional<int64_t> value = i->as_int64()) return {*value};
    if (const std::optional<uint64_t> value = i->as_uint64()) return {*value};
    if (dtype && (local::is_float(*dtype) || local::is_complex(*dtype))) return {i->as_double()};
    if (dtype == DType::bool_) return {true};
    throw InvalidArgument("Python int too large to convert to C long: no integer dtype holds " + brief(*i));
  }
  if (const bool* b = std::get_if<bool>(&number)) return {*b};
  if (const double* d = std::get_if<double>(&number)) return {*d};
  return {std::get<std::complex<double>>(number)};
}

}  // namespace quarry::apps::expression
