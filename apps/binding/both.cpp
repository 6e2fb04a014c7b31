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
  if (parameter.name == "order") return text != nullptr && (*text == "C" || *text == "K" || *text == "A");
  return parameter.default_value && same_value(value, *parameter.default_value);
}

bool is_empty_out(const Value& value) {
  const SequenceValue* tuple = value.sequence();
  return value.is_none() || (tuple != nullptr && std::all_of(tuple->items.begin(), tuple->items.end(), is_empty_out));
}

}  // namespace

void refuse_missing(const Arguments& args, size_t position) {
  const Parameter& parameter = args.function().parameters[position];
  const Value& value = args.values()[position];
  if (!args.given(parameter.name)) return;
  if (parameter.name.starts_with("out")) {
    if (is_empty_out(value)) return;
    throw local::TypeError(args.function().name +
                           "() takes no 'out' here: chunked arrays are computed later and never written in place; name "
                           "the result instead");
  }
  if (asks_nothing(parameter, value)) return;
  throw local::NotSupported(args.function().name + "() takes no '" + parameter.name + "' here");
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
