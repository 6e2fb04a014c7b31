#include "apps/quarry/expression/local_binding.h"

#include <charconv>

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

local::ArrayFunction Convert<local::ArrayFunction>::from(const Value& value, const std::string& what, Keep&) {
  if (const auto* dtype = value.as<DTypeValue>()) {
    return [type = dtype->dtype](std::span<const NdArray> args) { return args[0].astype(type); };
  }
  const auto* function = value.as<FunctionValue>();
  if (function == nullptr) throw TypeError(what + " must be a function, not " + type_name(value));
  return [function = *function](std::span<const NdArray> args) {
    std::vector<Value> positional;
    if (function.self) positional.push_back(*function.self);
    positional.insert(positional.end(), args.begin(), args.end());
    Session session;
    return to_ndarray(function.function->handler(bind(*function.function, std::move(positional), {}), session));
  };
}

}  // namespace quarry::apps::expression
