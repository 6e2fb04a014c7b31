#include "quarry/apps/binding/ufunc_calls.h"

#include "quarry/apps/binding/binding.h"
#include "quarry/local/base/dtype_text.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

DType letter_dtype(char letter) {
  const std::optional<DType> dtype = local::parse_dtype(std::string_view(&letter, 1));
  if (!dtype) throw InvalidArgument("there is no dtype '" + std::string(1, letter) + "'");
  return *dtype;
}

}  // namespace

local::Axes axes_of(const Value& value) {
  if (const SequenceValue* sequence = value.sequence(); sequence != nullptr && sequence->is_list) {
    throw TypeError("'list' object cannot be interpreted as an integer: axis must be None, an int or a tuple of ints");
  }
  Keep keep;
  return Convert<local::Axes>::from(value, "axis", keep);
}

std::vector<std::optional<DType>> signature_of(const Value& value, size_t inputs, size_t outputs) {
  std::vector<std::optional<DType>> types;
  if (const auto* text = value.as<std::string>()) {
    if (text->size() > 1 && text->find("->") == std::string::npos && text->size() != inputs)
      throw InvalidArgument("the signature " + repr(*text) + " does not name the types of all operands");
    for (const char letter : *text) {
      if (letter == '-' || letter == '>') continue;
      types.emplace_back(letter_dtype(letter));
    }
  } else if (const SequenceValue* tuple = value.sequence(); tuple != nullptr && !tuple->is_list) {
    for (const Value& item : tuple->items) types.push_back(to_optional_dtype(item, "dtype"));
  } else {
    throw TypeError("the signature object to ufunc must be a string or a tuple, not " + type_name(value));
  }
  if (types.size() == inputs) types.resize(inputs + outputs);
  if (types.size() == 1) throw TypeError("a type-tuple of one type does not say what it is of; use dtype=");
  if (types.size() != inputs + outputs)
    throw InvalidArgument("a type-tuple must be specified of length 1 or " + std::to_string(inputs + outputs));
  return types;
}

}  // namespace quarry::apps::expression
