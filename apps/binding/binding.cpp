#include "quarry/apps/binding/binding.h"

#include <algorithm>
#include <charconv>

#include "quarry/apps/language/library.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

// "cpu", "cuda", "cuda:1".
local::Device Convert<local::Device>::from(const Value& value, const std::string& what, Keep&) {
  const auto* text = value.as<std::string>();
  if (text == nullptr) throw TypeError(what + " must be a device's name, not " + type_name(value));
  const size_t colon = text->find(':');
  const std::optional<local::DeviceKind> kind = local::parse_device_kind(text->substr(0, colon));
  int index = 0;
  bool good = kind.has_value();
  if (colon != std::string::npos) {
    const auto [end, error] = std::from_chars(text->data() + colon + 1, text->data() + text->size(), index);
    good = good && error == std::errc() && end == text->data() + text->size();
  }
  if (!good) throw InvalidArgument(what + ": there is no device " + repr(*text));
  return {*kind, index};
}

local::Casting Convert<local::Casting>::from(const Value& value, const std::string& what, Keep&) {
  const auto* text = value.as<std::string>();
  if (text == nullptr) throw TypeError(what + " must be a string, not " + type_name(value));
  constexpr std::pair<std::string_view, local::Casting> kRules[] = {{"no", local::Casting::no},
                                                                    {"equiv", local::Casting::equiv},
                                                                    {"safe", local::Casting::safe},
                                                                    {"same_kind", local::Casting::same_kind},
                                                                    {"unsafe", local::Casting::unsafe}};
  for (const auto& [name, rule] : kRules) {
    if (*text == name) return rule;
  }
  throw InvalidArgument(what + " must be one of 'no', 'equiv', 'safe', 'same_kind', or 'unsafe' (got " + repr(*text) +
                        ")");
}

Value call_function(const Value& function, std::vector<Value> positional, std::vector<KeywordValue> keywords) {
  if (const auto* dtype = function.as<DTypeValue>()) {
    if (positional.size() != 1 || !keywords.empty()) throw TypeError("a dtype takes one argument when called");
    if (const Array* array = positional[0].as<Array>()) return array->astype(dtype->dtype);
    return to_ndarray(positional[0]).astype(dtype->dtype);
  }
  const auto* called = function.as<FunctionValue>();
  QUARRY_CHECK(called != nullptr);
  if (called->self) positional.insert(positional.begin(), *called->self);
  // A function over chunked arrays calls the local one of the same name with the local arrays of a chunk.
  const Function* called_function = called->function;
  const bool is_local =
      std::any_of(positional.begin(), positional.end(), [](const Value& value) { return value.is<NdArray>(); });
  if (is_local && !called->owner && !called->self) {
    if (const Function* same = local_library().registry().function(called_function->name)) called_function = same;
  }
  Session session;
  return called_function->handler(bind(*called_function, std::move(positional), std::move(keywords)), session);
}

local::ArrayFunction Convert<local::ArrayFunction>::from(const Value& value, const std::string& what, Keep&) {
  if (!fits(value)) throw TypeError(what + " must be a function, not " + type_name(value));
  return [value](std::span<const NdArray> args) {
    return to_ndarray(call_function(value, std::vector<Value>(args.begin(), args.end())));
  };
}

}  // namespace quarry::apps::expression
