// The ufuncs and reductions of the operation tables over chunked arrays.
#include "quarry/apps/binding/tables.h"

#include "quarry/apps/binding/both.h"
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/binding/table_names.h"
#include "quarry/apps/binding/ufunc_calls.h"
#include "quarry/apps/language/library.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::Op;
using local::Reduction;

namespace {

// Refuses the parameters that chunked arrays do not have.
void refuse(const Arguments& args, std::initializer_list<std::string_view> names) {
  const std::vector<Parameter>& parameters = args.function().parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (std::find(names.begin(), names.end(), parameters[i].name) != names.end()) refuse_missing(args, i);
  }
}

// where=: elsewhere a new array has zeros.
Value masked(const Arguments& args, const Value& result) {
  const bool* all = args["where"].as<bool>();
  if (all != nullptr && *all) return result;
  const Value mask = to_array(args["where"]);
  if (mask.as<Array>()->dtype() != DType::bool_)
    throw local::TypeError("Cannot cast array data from dtype('" + std::string(local::name(mask.as<Array>()->dtype())) +
                           "') to dtype('bool')");
  const Value choice[] = {mask, result, Value(false)};
  return apply("where"_op, choice);
}

Handler ufunc_handler(std::vector<Op> outputs) {
  return [outputs = std::move(outputs)](const Arguments& args, Session&) -> Value {
    const auto arity = static_cast<size_t>(local::info(outputs[0]).arity);
    const std::span<const Value> operands = std::span(args.values()).first(arity);
    const bool has_options = args.given_from(arity);
    SignedCall<Array> call{{operands.begin(), operands.end()}, std::nullopt};
    if (has_options) {
      refuse_out(args);
      refuse(args, {"order", "subok"});
      Keep keep;
      call.casting = Convert<local::Casting>::from(args["casting"], "casting", keep);
      call.dtype = to_optional_dtype(args["dtype"], "dtype");
      if (outputs.size() > 1) {
        refuse(args, {"signature"});
      } else if (!args["signature"].is_none()) {
        call =
            signed_call<Array>(outputs[0], args, call.dtype, call.casting,
                               [](const Value& value, std::optional<DType> dtype) { return to_array(value, dtype); });
      }
    }
    std::vector<Value> results;
    for (const Op op : outputs) {
      Value result = apply(op, call.operands, call.dtype, call.casting);
      results.push_back(has_options ? masked(args, result) : std::move(result));
    }
    return results.size() == 1 ? results[0] : Value::tuple(std::move(results));
  };
}

Handler reduction_handler(Reduction reduction) {
  return [reduction](const Arguments& args, Session& session) -> Value {
    if (std::optional<Value> masked =
            MaskedLibrary<ma::Chunked>::reduction(chunked_library().registry(), args, session))
      return *std::move(masked);
    const local::ReductionInfo& row = local::info(reduction);
    const std::string name = args.function().name + "(): ";
    refuse_out(args);
    Keep keep;
    ReduceOptions options;
    options.keepdims = to_bool(args["keepdims"], "keepdims");
    if (row.takes_dtype) options.dtype = to_optional_dtype(args["dtype"], "dtype");
    if (row.takes_ddof) {
      if (args.given("ddof") && args.given("correction"))
        throw InvalidArgument("ddof and correction cannot be given together");
      const char* given = args.given("correction") ? "correction" : "ddof";
      options.ddof = to_double(args[given], given);
      options.mean = Convert<std::optional<Array>>::from(args["mean"], name + "mean", keep);
    }
    if (row.takes_initial)
      options.initial = Convert<std::optional<Scalar>>::from(args["initial"], name + "initial", keep);
    if (reduction != "count_nonzero"_reduction && !row.has_position) {
      const bool* all = args["where"].as<bool>();
      if (all == nullptr || !*all) options.where = Convert<Array>::from(args["where"], name + "where", keep);
    }
    if (row.has_position && args["axis"].sequence() != nullptr)
      throw local::TypeError("axis must be an integer, not a " + type_name(args["axis"]));
    return reduce(reduction, to_array(args.values()[0]), axes_of(args["axis"]), options);
  };
}

}  // namespace

void add_chunked_ufuncs(Registry& registry) {
  const auto add = [&](const std::string& name, const std::vector<Op>& outputs) {
    if (registry.function(name) != nullptr) return;
    const char* signature = ufunc_signature(local::info(outputs[0]).arity, outputs.size());
    registry.add_function(name, signature, ufunc_handler(outputs), kUfuncSummary, Memory::streams);
  };
  for (const auto& [op, name] : ufunc_names()) add(name, {op});
  for (const local::MultiOutput& multi : local::multi_outputs()) add(multi.name, multi.outputs);
}

void add_chunked_reductions(Registry& registry) {
  for (int i = 0; i < local::reduction_count(); ++i) {
    const auto reduction = static_cast<Reduction>(i);
    const local::ReductionInfo& row = local::info(reduction);
    std::vector<std::string> names = words(row.aliases);
    names.emplace_back(row.name);
    for (const std::string& name : names) {
      if (registry.function(name) == nullptr)
        registry.add_function(name, reduction_signature(reduction, "a"), reduction_handler(reduction),
                              kReductionSummary, Memory::streams);
    }
    if (reduction != "count_nonzero"_reduction && registry.method(row.name) == nullptr)
      registry.add_method(row.name, reduction_signature(reduction, "self, /"), reduction_handler(reduction),
                          kReductionSummary, Memory::streams);
  }
}

}  // namespace quarry::apps::expression
