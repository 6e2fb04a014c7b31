// Fills the registry from the three tables: functions.def, ufunc.def and reduction.def.
#include <cmath>

#include "quarry/apps/binding/arrays.h"
#include "quarry/apps/binding/handlers.h"
#include "quarry/apps/binding/table_names.h"
#include "quarry/chunked/api/reductions.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::Op;
using local::Reduction;

namespace {

constexpr const char* kUfuncSignatures[] = {"", "(x, /, *, dtype=None)", "(x1, x2, /, *, dtype=None)",
                                            "(x1, x2, x3, /, *, dtype=None)"};
constexpr const char* kOperandNames[][3] = {{"x", "", ""}, {"x1", "x2", ""}, {"x1", "x2", "x3"}};

std::vector<Value> operands(const Arguments& args, int arity) {
  std::vector<Value> values;
  for (int i = 0; i < arity; ++i) values.push_back(args[kOperandNames[arity - 1][i]]);
  return values;
}

Handler ufunc_handler(Op op) {
  return [op](const Arguments& args, Session&) {
    return apply(op, operands(args, local::info(op).arity), to_optional_dtype(args["dtype"], "dtype"));
  };
}

void add_ufuncs(Registry& registry) {
  for (const auto& [op, name] : ufunc_names()) {
    if (registry.function(name) == nullptr) {  // abs has a row of its own
      registry.add_function(name, kUfuncSignatures[local::info(op).arity], ufunc_handler(op));
    }
  }
  for (const local::MultiOutput& multi : local::multi_outputs()) {
    const std::vector<Op> outputs = multi.outputs;
    const int arity = local::info(outputs[0]).arity;
    registry.add_function(multi.name, kUfuncSignatures[arity], [outputs, arity](const Arguments& args, Session&) {
      const std::optional<DType> dtype = to_optional_dtype(args["dtype"], "dtype");
      std::vector<Value> items;
      for (const Op op : outputs) items.push_back(apply(op, operands(args, arity), dtype));
      return Value::tuple(std::move(items));
    });
  }
}

// What a reduction's signature has besides the array.
std::string reduction_parameters(const local::ReductionInfo& row) {
  std::string text = "axis=None, ";
  if (row.takes_dtype) text += "dtype=None, ";
  text += row.takes_ddof ? "*, ddof=0, keepdims=False, correction=None)" : "*, keepdims=False)";
  return text;
}

Handler reduction_handler(Reduction reduction, const char* operand) {
  return [reduction, operand](const Arguments& args, Session&) -> Value {
    const local::ReductionInfo& row = local::info(reduction);
    ReduceOptions options;
    options.keepdims = to_bool(args["keepdims"], "keepdims");
    if (row.takes_dtype) options.dtype = to_optional_dtype(args["dtype"], "dtype");
    if (row.takes_ddof) {
      if (args.given("ddof") && args.given("correction")) {
        throw InvalidArgument("ddof and correction cannot be given together");
      }
      const char* given = args.given("correction") ? "correction" : "ddof";
      options.ddof = to_double(args[given], given);
    }
    return reduce(reduction, to_array(args[operand]), to_axes(args["axis"]), options);
  };
}

void add_reductions(Registry& registry) {
  for (int i = 0; i < local::reduction_count(); ++i) {
    const auto reduction = static_cast<Reduction>(i);
    const local::ReductionInfo& row = local::info(reduction);
    const std::string parameters = reduction_parameters(row);
    std::vector<std::string> names = words(row.aliases);
    names.emplace_back(row.name);
    for (const std::string& name : names) {
      registry.add_function(name, "(a, " + parameters, reduction_handler(reduction, "a"));
    }
    if (reduction != "count_nonzero"_reduction) {
      registry.add_method(row.name, "(self, " + parameters, reduction_handler(reduction, "self"));
    }
  }
}

}  // namespace

Axes to_axes(const Value& value) {
  if (value.is_none()) return {};
  if (const SequenceValue* sequence = value.sequence()) {
    std::vector<int64_t> axes;
    for (const Value& item : sequence->items) axes.push_back(to_int64(item, "axis"));
    return axes;
  }
  return to_int64(value, "axis");
}

void add_all_functions(Registry& registry) {
#define QUARRY_FUNCTION(name, aliases, signature, handler) \
  registry.add_function(name, signature, handler);         \
  for (const std::string& alias : words(aliases)) registry.add_function(alias, signature, handler);
#define QUARRY_METHOD(name, signature, handler) registry.add_method(name, signature, handler);
#include "quarry/apps/binding/functions.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
  add_ufuncs(registry);
  add_reductions(registry);
}

}  // namespace quarry::apps::expression
