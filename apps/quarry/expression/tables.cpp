// Fills the registry from the three tables: functions.def, ufunc.def and reduction.def.
#include <cmath>

#include "apps/quarry/expression/arrays.h"
#include "apps/quarry/expression/handlers.h"
#include "apps/quarry/expression/table_names.h"
#include "chunked/functions/reductions.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::Op;
using local::Reduction;

namespace {

constexpr const char* kUfuncSignatures[] = {"", "(x, /, *, dtype=None)", "(x1, x2, /, *, dtype=None)"};
constexpr const char* kOperandNames[][2] = {{"x", ""}, {"x1", "x2"}};

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

struct ReductionSignature {
  std::string parameters;
  bool dtype = false, ddof = false;
};

ReductionSignature reduction_signature(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::prod:
    case Reduction::mean:
      return {"axis=None, dtype=None, *, keepdims=False)", true, false};
    case Reduction::var:
    case Reduction::std:
      return {"axis=None, dtype=None, *, ddof=0, keepdims=False, correction=None)", true, true};
    case Reduction::min:
    case Reduction::max:
    case Reduction::any:
    case Reduction::all:
    case Reduction::argmin:
    case Reduction::argmax:
    case Reduction::count_nonzero:
      break;
  }
  return {"axis=None, *, keepdims=False)", false, false};
}

Handler reduction_handler(Reduction reduction, const ReductionSignature& signature, const char* operand) {
  return [reduction, signature, operand](const Arguments& args, Session&) -> Value {
    ReduceOptions options;
    options.keepdims = to_bool(args["keepdims"], "keepdims");
    if (signature.dtype) options.dtype = to_optional_dtype(args["dtype"], "dtype");
    if (signature.ddof) {
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
  for (int i = 0; i < local::kReductionCount; ++i) {
    const auto reduction = static_cast<Reduction>(i);
    const local::ReductionInfo& row = local::info(reduction);
    const ReductionSignature signature = reduction_signature(reduction);
    std::vector<std::string> names = words(row.aliases);
    names.emplace_back(row.name);
    for (const std::string& name : names) {
      registry.add_function(name, "(a, " + signature.parameters, reduction_handler(reduction, signature, "a"));
    }
    if (reduction != Reduction::count_nonzero) {
      registry.add_method(row.name, "(self, " + signature.parameters, reduction_handler(reduction, signature, "self"));
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
#include "apps/quarry/expression/functions.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
  add_ufuncs(registry);
  add_reductions(registry);
}

}  // namespace quarry::apps::expression
