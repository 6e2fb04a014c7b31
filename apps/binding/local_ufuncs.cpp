// ufuncs and reductions of local arrays as functions of the language.

#include <algorithm>
#include <cmath>

#include "quarry/apps/binding/large_ints.h"
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/binding/table_names.h"
#include "quarry/apps/binding/tables.h"
#include "quarry/apps/binding/ufunc_calls.h"
#include "quarry/apps/language/library.h"
#include "quarry/local/base/dtype_text.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::Op;
using local::Reduction;
using local::TypeError;

namespace {

// out=: an array, or a tuple of as many as there are results.
std::optional<NdArray> out_of(const Value& value) {
  if (value.is_none()) return std::nullopt;
  const Value* out = &value;
  if (const SequenceValue* tuple = value.sequence(); tuple != nullptr && !tuple->is_list) {
    if (tuple->items.size() != 1) throw InvalidArgument("The 'out' tuple must have exactly one entry per ufunc output");
    out = &tuple->items[0];
    if (out->is_none()) return std::nullopt;
  }
  if (!out->is<NdArray>()) throw TypeError("return arrays must be of ArrayType");
  return *out->as<NdArray>();
}

std::optional<NdArray> where_of(const Value& value) {
  if (const bool* given = value.as<bool>(); given != nullptr && *given) return std::nullopt;
  return to_ndarray(value);
}

std::optional<DType> dtype_of(const Value& value) {
  if (value.is_none()) return std::nullopt;
  return to_dtype(value, "dtype");
}

local::UfuncOptions ufunc_options(const Arguments& args) {
  Keep keep;
  local::UfuncOptions options;
  options.out = out_of(args["out"]);
  options.where = where_of(args["where"]);
  options.casting = Convert<local::Casting>::from(args["casting"], "casting", keep);
  options.dtype = dtype_of(args["dtype"]);
  return options;
}

Value apply_signature(Op op, const Arguments& args) {
  local::UfuncOptions options = ufunc_options(args);
  const SignedCall<NdArray> call = signed_call<NdArray>(
      op, args, options.dtype, options.casting, [](const Value& value, std::optional<DType> dtype) {
        return dtype && value.number() ? to_ndarray(value, *dtype) : to_ndarray(value);
      });
  options.dtype = call.dtype;
  options.casting = call.casting;
  return apply_local(op, call.operands, options);
}

Handler ufunc_handler(Op op) {
  const auto arity = static_cast<size_t>(local::info(op).arity);
  return [op, arity](const Arguments& args, Session&) {
    if (!args.given_from(arity)) return apply_local(op, std::span(args.values()).first(arity), {});
    if (!args["signature"].is_none()) return apply_signature(op, args);
    return apply_local(op, std::span(args.values()).first(arity), ufunc_options(args));
  };
}

// out= of a ufunc with two outputs: a tuple, or two positional arguments.
std::vector<std::optional<NdArray>> outs_of(const Arguments& args) {
  std::vector<Value> given = {args["out1"], args["out2"]};
  if (args.given("out")) {
    if (args.given("out1") || args.given("out2")) {
      throw TypeError("cannot specify 'out' as both a positional and keyword argument");
    }
    const SequenceValue* tuple = args["out"].sequence();
    if (tuple == nullptr || tuple->is_list) throw TypeError("'out' must be a tuple of arrays");
    if (tuple->items.size() != 2) throw InvalidArgument("The 'out' tuple must have exactly one entry per ufunc output");
    given = tuple->items;
  }
  std::vector<std::optional<NdArray>> outs;
  for (const Value& value : given) outs.push_back(out_of(value));
  return outs;
}

}  // namespace

Value apply_local(Op op, std::span<const Value> args, const local::UfuncOptions& options) {
  if (any_masked<local::ma::Local>(args)) {
    if (options.out || options.where || options.dtype)
      throw local::NotSupported("out=, where= and dtype= of ufuncs over masked arrays");
    return *MaskedLibrary<local::ma::Local>::ufunc(op, args);
  }
  if (holds_large_int(args)) {
    const std::vector<Value> fitting = with_large_operands(op, args, options.dtype);
    if (!holds_large_int(fitting)) return apply_local(op, fitting, options);
  }
  Keep keep;
  std::vector<local::Arg> operands;
  for (const Value& arg : args) {
    operands.push_back(Convert<local::Arg>::from(arg, std::string(local::info(op).name) + "(): operand", keep));
  }
  const bool plain = !options.out && !options.where && options.casting == local::Casting::same_kind;
  return plain ? local::apply(op, operands, options.dtype) : local::apply(op, operands, options);
}

namespace {

Value reduce_by(Op op, const Arguments& args) {
  Keep keep;
  local::ReduceOptions options;
  options.dtype = dtype_of(args["dtype"]);
  options.out = out_of(args["out"]);
  options.keepdims = to_truth(args["keepdims"], "keepdims");
  options.initial = Convert<std::optional<Scalar>>::from(args["initial"], "initial", keep);
  options.where = where_of(args["where"]);
  const NdArray array = to_ndarray(args["array"]);
  // initial=None: there is not even the ufunc's own identity to start from.
  if (args.given("initial") && !options.initial && (array.size() == 0 || options.where)) {
    const uint32_t mask = axes_of(args["axis"]).mask(array.ndim());
    bool nothing = options.where.has_value();
    for (int d = 0; d < array.ndim(); ++d) nothing = nothing || ((mask >> d & 1u) != 0 && array.shape()[d] == 0);
    if (nothing)
      throw InvalidArgument("reduction operation '" + std::string(local::info(op).name) +
                            "' does not have an identity: initial is None");
  }
  return local::ops::ufunc_reduce(op, array, axes_of(args["axis"]), options);
}

Value add_at(Op op, const Arguments& args) {
  Keep keep;
  const NdArray* array = args["a"].as<NdArray>();
  if (array == nullptr) throw TypeError("first operand must be array");
  std::optional<local::Arg> value;
  const bool binary = local::info(op).arity == 2;
  if (binary != args.given("b"))
    throw InvalidArgument(binary ? "second operand needed for ufunc" : "one operand too many");
  if (binary) value = Convert<local::Arg>::from(args["b"], "b", keep);
  local::ops::ufunc_at(op, *array, index_terms(args["indices"]), value);
  return Value();
}

void add_ufunc_methods(Registry& registry) {
  for (const auto& entry : ufunc_names()) {
    const Op op = entry.op;
    const std::string& name = entry.name;
    if (local::info(op).arity > 2) continue;
    registry.add_function(name + ".at", "(a, indices, b=None, /)",
                          [op](const Arguments& args, Session&) { return add_at(op, args); });
    if (local::info(op).arity != 2) continue;
    registry.add_function(name + ".reduce",
                          "(array, /, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=True)",
                          [op](const Arguments& args, Session&) { return reduce_by(op, args); });
    registry.add_function(name + ".accumulate", "(array, /, axis=0, dtype=None, out=None)",
                          [op](const Arguments& args, Session&) -> Value {
                            return local::ops::ufunc_accumulate(op, to_ndarray(args["array"]),
                                                                to_index(args["axis"], "axis"), dtype_of(args["dtype"]),
                                                                out_of(args["out"]));
                          });
    registry.add_function(name + ".outer",
                          "(A, B, /, out=None, *, where=True, casting='same_kind', order='K', dtype=None, subok=True)",
                          [op](const Arguments& args, Session&) -> Value {
                            Keep keep;
                            const auto a = Convert<local::Arg>::from(args["A"], "A", keep);
                            const auto b = Convert<local::Arg>::from(args["B"], "B", keep);
                            return local::ops::ufunc_outer(op, a, b, ufunc_options(args));
                          });
    registry.add_function(name + ".reduceat", "(array, /, indices, axis=0, dtype=None, out=None)",
                          [op](const Arguments& args, Session&) -> Value {
                            return local::ops::ufunc_reduceat(
                                op, to_ndarray(args["array"]), to_ndarray(args["indices"]),
                                to_index(args["axis"], "axis"), dtype_of(args["dtype"]), out_of(args["out"]));
                          });
  }
}

}  // namespace

void add_local_ufuncs(Registry& registry) {
  for (const auto& [op, name] : ufunc_names()) {
    if (registry.function(name) != nullptr) continue;
    if (op == "real"_op || op == "imag"_op) {  // functions in NumPy
      registry.add_function(
          name, "(val)", [op = op](const Arguments& args, Session&) { return apply_local(op, args.values()); },
          kUfuncSummary);
      continue;
    }
    registry.add_function(name, ufunc_signature(local::info(op).arity, 1), ufunc_handler(op), kUfuncSummary);
  }
  for (const local::MultiOutput& multi : local::multi_outputs()) {
    if (registry.function(multi.name) != nullptr) continue;
    const int arity = local::info(multi.outputs[0]).arity;
    const auto handler = [&multi, arity](const Arguments& args, Session&) {
      Keep keep;
      std::vector<local::Arg> operands;
      for (int i = 0; i < arity; ++i) {
        operands.push_back(Convert<local::Arg>::from(args.values()[static_cast<size_t>(i)], multi.name, keep));
      }
      local::UfuncOptions options;
      options.where = where_of(args["where"]);
      options.casting = Convert<local::Casting>::from(args["casting"], "casting", keep);
      options.dtype = dtype_of(args["dtype"]);
      std::vector<Value> items;
      for (const NdArray& array : local::apply(multi, operands, options, outs_of(args))) items.emplace_back(array);
      return Value::tuple(std::move(items));
    };
    registry.add_function(multi.name, ufunc_signature(arity, multi.outputs.size()), handler, kUfuncSummary);
  }
  add_ufunc_methods(registry);
}

namespace {

Handler reduction_handler(Reduction reduction) {
  return [reduction](const Arguments& args, Session& session) -> Value {
    if (std::optional<Value> masked =
            MaskedLibrary<local::ma::Local>::reduction(local_library().registry(), args, session))
      return *std::move(masked);
    const local::ReductionInfo& row = local::info(reduction);
    const bool is_count = reduction == "count_nonzero"_reduction;  // without `out` and `where`
    local::ReduceOptions options;
    Keep keep;
    options.keepdims = to_truth(args["keepdims"], "keepdims");
    if (row.takes_dtype) options.dtype = dtype_of(args["dtype"]);
    if (!is_count) options.out = out_of(args["out"]);
    if (row.takes_initial) options.initial = Convert<std::optional<Scalar>>::from(args["initial"], "initial", keep);
    if (!is_count && !row.has_position) options.where = where_of(args["where"]);
    if (row.takes_ddof) {
      if (args.given("ddof") && args.given("correction")) {
        throw InvalidArgument("ddof and correction can't be provided simultaneously.");
      }
      const char* given = args.given("correction") ? "correction" : "ddof";
      options.ddof = to_real_number(args[given], given);
    }
    const NdArray x = Convert<NdArray>::from(args.values()[0], args.function().name + "(): a", keep);
    if (row.has_position && args["axis"].sequence() != nullptr) {
      throw TypeError("axis must be an integer, not a " + type_name(args["axis"]));
    }
    if (row.takes_ddof) options.mean = Convert<std::optional<NdArray>>::from(args["mean"], "mean", keep);
    return local::reduce(reduction, x, axes_of(args["axis"]), options);
  };
}

}  // namespace

namespace {

// What begins a reduction, where it is one number for all dtypes.
Value identity_of(Op op) {
  const local::OpInfo& row = local::info(op);
  const bool truth = row.rule == local::OpRule::logical;
  switch (row.identity) {
    case local::OpInfo::Identity::none:
      break;
    case local::OpInfo::Identity::zero:
      return truth ? Value(false) : Value(Int{0});
    case local::OpInfo::Identity::one:
      return truth ? Value(true) : Value(Int{1});
    case local::OpInfo::Identity::all_ones:
      return Int{-1};
    case local::OpInfo::Identity::lowest:
      return -INFINITY;
  }
  return None{};
}

// "ff->f" for every loop.
std::vector<Value> loops_of(std::span<const Op> outputs) {
  const local::OpInfo& row = local::info(outputs[0]);
  std::vector<Value> loops;
  for (int i = 0; i < local::kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::vector<local::PromotionOperand> operands(static_cast<size_t>(row.arity), {dtype, false});
    try {
      const local::OpTypes types = local::resolve(outputs[0], operands);
      std::string text;
      bool direct = types.args[0] == dtype;
      for (int k = 0; k < row.arity; ++k) text += local::letter(types.args[static_cast<size_t>(k)]);
      text += "->";
      for (const Op output : outputs) text += local::letter(local::resolve(output, operands).result);
      if (direct) loops.emplace_back(std::move(text));
    } catch (const TypeError&) {  // no loop
    }
  }
  return loops;
}

}  // namespace

std::optional<Value> ufunc_attribute(std::string_view function, std::string_view name) {
  std::vector<Op> outputs;
  for (const auto& [op, known] : ufunc_names()) {
    if (known == function && op != "real"_op && op != "imag"_op) outputs = {op};
  }
  for (const local::MultiOutput& multi : local::multi_outputs()) {
    if (multi.name == function) outputs.assign(multi.outputs.begin(), multi.outputs.end());
  }
  if (outputs.empty()) return std::nullopt;
  const int arity = local::info(outputs[0]).arity, results = static_cast<int>(outputs.size());
  if (name == "nin") return Value(arity);
  if (name == "nout") return Value(results);
  if (name == "nargs") return Value(arity + results);
  if (name == "signature") return Value();
  if (name == "identity") return results == 1 ? identity_of(outputs[0]) : Value();
  if (name == "types") return Value::list(loops_of(outputs));
  if (name == "ntypes") return Value(static_cast<int64_t>(loops_of(outputs).size()));
  return std::nullopt;
}

void add_local_reductions(Registry& registry) {
  for (int i = 0; i < local::reduction_count(); ++i) {
    const auto reduction = static_cast<Reduction>(i);
    const local::ReductionInfo& row = local::info(reduction);
    std::vector<std::string> names = words(row.aliases);
    names.emplace_back(row.name);
    for (const std::string& name : names) {
      if (registry.function(name) != nullptr) continue;
      registry.add_function(name, reduction_signature(reduction, "a"), reduction_handler(reduction), kReductionSummary);
    }
    if (reduction != "count_nonzero"_reduction && registry.method(row.name) == nullptr) {
      registry.add_method(row.name, reduction_signature(reduction, "self, /"), reduction_handler(reduction),
                          kReductionSummary);
    }
  }
}

}  // namespace quarry::apps::expression
