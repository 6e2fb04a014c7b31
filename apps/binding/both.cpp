#include "quarry/apps/binding/both.h"

#include <algorithm>

namespace quarry::apps::expression {

namespace {

// What says how to compute and not what, or how memory lies: chunked arrays may not care.
constexpr std::string_view kHints[] = {"subok",        "copy",     "overwrite_a", "overwrite_b", "overwrite_input",
                                       "check_finite", "optimize", "kind",        "stable",      "assume_unique"};

bool asks_nothing(const Parameter& parameter, const Value& value) {
  if (std::find(std::begin(kHints), std::end(kHints), parameter.name) != std::end(kHints)) return true;
  if (value.is_none()) return true;
  const auto* text = value.as<std::string>();
  if (parameter.name == "order") {
    // Chunked arrays have no order in memory.
    if (text != nullptr && *text != "C" && *text != "F" && *text != "K" && *text != "A")
      throw local::InvalidArgument("order must be one of 'C', 'F', 'A', or 'K' (got '" + *text + "')");
    return text != nullptr;
  }
  return parameter.default_value && same_value(value, *parameter.default_value);
}

bool is_empty_out(const Value& value) {
  const SequenceValue* tuple = value.sequence();
  return value.is_none() || (tuple != nullptr && std::all_of(tuple->items.begin(), tuple->items.end(), is_empty_out));
}

}  // namespace

void refuse_out(const Arguments& args) {
  const std::vector<Parameter>& parameters = args.function().parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    const bool is_out = name == "out" || name == "out1" || name == "out2";
    if (!is_out || !args.given(name) || is_empty_out(args.values()[i])) continue;
    throw local::TypeError(args.function().name +
                           "() takes no 'out' here: chunked arrays are computed later and never written in place; name "
                           "the result instead");
  }
}

void refuse_missing(const Arguments& args, size_t position) {
  const Parameter& parameter = args.function().parameters()[position];
  if (!args.given(parameter.name) || asks_nothing(parameter, args.values()[position])) return;
  throw local::NotSupported(args.function().name + "() takes no '" + parameter.name + "' here");
}

void refuse_later(const CallArguments& call, size_t position) {
  const std::vector<Parameter>& parameters = call.args.function().parameters();
  for (size_t i = position + 1; i < parameters.size(); ++i) {
    if ((call.mask >> i & 1) == 0 || !call.args.given(parameters[i].name)) continue;
    if (asks_nothing(parameters[i], call.args.values()[i])) continue;
    throw local::NotSupported(call.args.function().name + "() takes no '" + parameters[i].name + "' here without '" +
                              parameters[position].name + "'");
  }
}

namespace {

Value stand_in(const Value& value) {
  if (const Array* array = value.as<Array>()) return NdArray(Dims{0}, array->dtype());
  const SequenceValue* sequence = value.sequence();
  if (sequence == nullptr) return value;
  std::vector<Value> items;
  for (const Value& item : sequence->items) items.push_back(stand_in(item));
  return sequence->is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace

Handler shared_handler(const Handler& handler) {
  return [handler](const Arguments& args, Session& session) -> Value {
    std::vector<Value> values;
    std::vector<bool> given;
    for (const Value& value : args.values()) values.push_back(stand_in(value));
    for (const Parameter& parameter : args.function().parameters()) given.push_back(args.given(parameter.name));
    return chunked_result(handler(Arguments(args.function(), std::move(values), std::move(given)), session));
  };
}

Value chunked_result(Value value, bool as_tuple) {
  if (const NdArray* array = value.as<NdArray>()) return Array::from_local(*array);
  const SequenceValue* sequence = value.sequence();
  if (sequence == nullptr) return value;
  SequenceValue result{sequence->is_list && !as_tuple, {}, sequence->fields};
  for (const Value& item : sequence->items) result.items.push_back(chunked_result(item));
  return std::make_shared<const SequenceValue>(std::move(result));
}

}  // namespace quarry::apps::expression
