// Fills a registry from the rows of local/ops/functions/function.def.
#include <fmt/format.h>

#include <algorithm>

#include "quarry/apps/binding/large_ints.h"
#include "quarry/apps/binding/table_names.h"
#include "quarry/apps/binding/tables.h"
#include "quarry/apps/language/library.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

std::vector<Row> collect_rows() {
  std::vector<Row> all;
  for (auto* rows : {&indexing_rows, &scans_rows, &ufuncs_rows, &sorting_rows, &statistics_rows, &manipulation_rows,
                     &creation_rows, &types_rows, &math_rows, &fft_rows, &special_rows, &random_rows, &linalg_rows,
                     &chunks_rows, &masked_rows, &sparse_rows}) {
    for (Row& row : rows()) all.push_back(std::move(row));
  }
  return all;
}

}  // namespace

const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows = collect_rows();
  return rows;
}

namespace {

// What is wrong with a row, or nothing.
std::string problem(const Row& row) {
  const Signature signature(row.signature);
  const size_t parameters = signature.count() - (signature.takes_keywords() ? 1 : 0);
  if (parameters == row.parameters) return "";
  return fmt::format("{}{}: the C++ function has {} parameters, the signature {}", row.symbol, row.signature,
                     row.parameters, parameters);
}

// The functions among the arguments get the keywords that the signature has no name for, as NumPy passes them on.
Value with_keywords(const Value& value, const DictValue& keywords) {
  if (const SequenceValue* sequence = value.sequence()) {
    std::vector<Value> items;
    for (const Value& item : sequence->items) items.push_back(with_keywords(item, keywords));
    return sequence->is_list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  if (!value.is<FunctionValue>()) return value;
  std::vector<KeywordValue> more;
  for (const auto& [name, item] : keywords.items) more.push_back({*name.as<std::string>(), item});
  auto function = std::make_shared<Function>();
  function->name = "<function>";
  function->signature = Signature("(*args)");
  function->handler = [value, more](const Arguments& args, Session&) {
    return call_function(value, args["args"].sequence()->items, more);
  };
  return FunctionValue{function.get(), nullptr, function};
}

Handler passing_keywords(const Handler& handler) {
  return [handler](const Arguments& args, Session& session) -> Value {
    std::vector<Value> values = args.values();
    const DictValue& keywords = *values.back().dict();
    if (keywords.items.empty()) return handler(args, session);
    bool any = false;
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      values[i] = with_keywords(values[i], keywords);
      any = any || values[i].is<FunctionValue>() || values[i].sequence() != nullptr;
    }
    if (!any)
      throw TypeError(args.function().name + "() got an unexpected keyword argument '" +
                      *keywords.items[0].first.as<std::string>() + "'");
    return handler(Arguments(args.function(), std::move(values), std::vector<bool>(args.values().size(), true)),
                   session);
  };
}

Handler fitting_ints(const Handler& handler) {
  return [handler](const Arguments& args, Session& session) -> Value {
    std::vector<Value> values = args.values();
    std::vector<bool> given;
    for (const Parameter& parameter : args.function().parameters()) given.push_back(args.given(parameter.name));
    bool any = holds_large_int(values);
    for (size_t i = 0; i < values.size(); ++i) {  // *args
      if (args.function().parameters()[i].kind != Parameter::Kind::variadic) continue;
      const std::vector<Value>& items = values[i].sequence()->items;
      if (!holds_large_int(items)) continue;
      any = true;
      values[i] = Value::tuple(with_large_ints_as_floats(items));
    }
    if (!any) return handler(args, session);
    values = with_large_ints_as_floats(values);
    return handler(Arguments(args.function(), std::move(values), std::move(given)), session);
  };
}

// A view in the other byte order would have other values than its elements.
Handler in_own_order(const Handler& handler) {
  return [handler](const Arguments& args, Session& session) -> Value {
    const std::optional<DTypeValue> dtype = as_dtype(args["dtype"]);
    if (dtype && dtype->swapped)
      throw local::NotSupported("view(): arrays hold the machine's byte order only; frombuffer() reads the other one");
    return handler(args, session);
  };
}

// Arguments whose Python numbers become elements of a known dtype one by one, so that those that do not fit raise.
struct Elements {
  std::string_view function;
  size_t values, target;  // the target is an array or a dtype
};
constexpr Elements kElements[] = {{"array", 0, 1},          {"asarray", 0, 1},
                                  {"asanyarray", 0, 1},     {"ascontiguousarray", 0, 1},
                                  {"asfortranarray", 0, 1}, {"put", 2, 0},
                                  {"putmask", 2, 0},        {"place", 2, 0},
                                  {"insert", 2, 0},         {"put_along_axis", 2, 0},
                                  {"fill_diagonal", 1, 0}};

inline NdArray as_kind(const Value& value, const NdArray&, DType dtype) { return to_ndarray(value, dtype); }
inline Array as_kind(const Value& value, const Array&, DType dtype) { return to_array(value, dtype); }

template <class A>
Handler converting_elements(const Handler& handler, const Elements& row) {
  return [handler, row](const Arguments& args, Session& session) -> Value {
    std::vector<Value> values = args.values();
    Value& given = values[row.values];
    const Value& target = values[row.target];
    for (size_t i = 0; i < values.size(); ++i) {
      const bool* copies = args.function().parameters()[i].name == "copy" ? values[i].as<bool>() : nullptr;
      if (copies != nullptr && !*copies && !given.is<A>())
        throw InvalidArgument("Unable to avoid copy while creating an array as requested.");
    }
    const A* array = target.as<A>();
    const bool known = array != nullptr || Convert<DType>::fits(target);
    if (known && !given.is<A>() && Convert<A>::fits(given))
      given = as_kind(given, A(), array != nullptr ? array->dtype() : to_dtype(target, "dtype"));
    return handler(Arguments(args.function(), std::move(values), std::vector<bool>(args.values().size(), true)),
                   session);
  };
}

// NumPy's clip() takes both of a_min and a_max or neither, of which None is one.
Handler with_both_bounds(const Handler& handler) {
  return [handler](const Arguments& args, Session& session) -> Value {
    for (const auto& [one, other] : {std::pair("a_min", "a_max"), std::pair("a_max", "a_min")}) {
      if (args.given(one) && !args.given(other))
        throw TypeError(std::string("clip() missing 1 required positional argument: '") + other + "'");
    }
    return handler(args, session);
  };
}

template <class A>
void add(const Row& row, Registry& registry) {
  constexpr bool is_local = std::is_same_v<A, NdArray>;
  Handler handler = is_local ? row.local : row.chunked;
  if (!handler) return;
  if (const std::string wrong = problem(row); !wrong.empty()) {
    handler = [wrong](const Arguments&, Session&) -> Value { throw local::InternalError(wrong); };
  }
  if (Signature(row.signature).takes_keywords()) handler = passing_keywords(handler);
  handler = fitting_ints(handler);
  for (const std::string& name : words(row.names)) {
    const auto* found = std::find_if(std::begin(kElements), std::end(kElements),
                                     [&](const Elements& one) { return one.function == name; });
    if (found != std::end(kElements)) handler = converting_elements<A>(handler, *found);
    if (!row.is_method && name == "clip") handler = with_both_bounds(handler);
    if (row.is_method && name == "view") handler = in_own_order(handler);
    if (row.is_method) {
      registry.add_method(name, row.signature, handler, row.summary, is_local ? Memory::unknown : row.memory);
    } else {
      registry.add_function(name, row.signature, handler, row.summary, is_local ? Memory::unknown : row.memory);
    }
  }
}

}  // namespace

template <class A>
void add_rows(Registry& registry) {
  for (const Row& row : all_rows()) add<A>(row, registry);
}
template void add_rows<NdArray>(Registry& registry);
template void add_rows<Array>(Registry& registry);

std::string table_problems() {
  std::string problems;
  for (const Row& row : all_rows()) {
    if (const std::string wrong = problem(row); !wrong.empty()) problems += wrong + "\n";
  }
  return problems;
}

}  // namespace quarry::apps::expression
