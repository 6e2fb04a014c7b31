// What calls of ufuncs and reductions ask for, for arrays of one process and chunked ones.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "quarry/apps/language/evaluator.h"
#include "quarry/local/base/axes.h"
#include "quarry/local/base/error.h"
#include "quarry/local/program/op.h"

namespace quarry::apps::expression {

// axis= of a reduction: None, an int or a tuple of ints; TypeError for a list, as NumPy.
local::Axes axes_of(const Value& value);

// "ff->f", "dd" or a tuple of dtypes and None, inputs first. Nothing for an operand that is left open.
std::vector<std::optional<DType>> signature_of(const Value& value, size_t inputs, size_t outputs);

// A call of a ufunc of one output without its signature: the operands in the dtypes that it asks for.
template <class AnyArray>
struct SignedCall {
  std::vector<Value> operands;
  std::optional<DType> dtype;
  local::Casting casting = local::Casting::same_kind;
};

// `array_of(value, dtype)` makes an array of an operand, of a number in the dtype where one is given. Throws TypeError
// where an operand does not convert by `casting`, or where the ufunc has no such loop.
template <class AnyArray, class F>
SignedCall<AnyArray> signed_call(local::Op op, const Arguments& args, std::optional<DType> dtype,
                                 local::Casting casting, const F& array_of) {
  const local::OpInfo& row = local::info(op);
  const auto arity = static_cast<size_t>(row.arity);
  if (dtype) throw local::TypeError("cannot specify both 'signature' and 'dtype'");
  const std::vector<std::optional<DType>> wanted = signature_of(args["signature"], arity, 1);
  SignedCall<AnyArray> call{{args.values().begin(), args.values().begin() + row.arity}, std::nullopt, casting};
  if (std::none_of(wanted.begin(), wanted.end() - 1, [](const auto& type) { return type.has_value(); })) {
    call.dtype = wanted.back();
    return call;
  }
  std::vector<local::PromotionOperand> types;
  for (size_t i = 0; i < arity; ++i) {
    const AnyArray given = array_of(call.operands[i], std::nullopt);
    const bool weak = call.operands[i].number().has_value();
    const DType type = wanted[i].value_or(given.dtype());
    const bool truth = row.rule == local::OpRule::logical;  // is taken of any dtype
    if (!weak && !truth && !local::can_cast(given.dtype(), type, casting))
      throw local::TypeError("Cannot cast ufunc '" + std::string(row.name) + "' input " + std::to_string(i) +
                             " from dtype('" + local::name(given.dtype()) + "') to dtype('" + local::name(type) +
                             "') with casting rule '" + local::name(casting) + "'");
    call.operands[i] = weak ? array_of(call.operands[i], type) : given.astype(type);
    types.push_back({type, false});
  }
  const local::OpTypes found = local::resolve(op, types, std::nullopt, local::Casting::unsafe);
  bool is_loop = !wanted.back() || *wanted.back() == found.result;
  for (size_t i = 0; i < arity; ++i) is_loop = is_loop && found.args[i] == types[i].dtype;
  if (!is_loop)
    throw local::TypeError("No loop matching the specified signature and casting was found for ufunc " +
                           std::string(row.name));
  if (casting == local::Casting::no || casting == local::Casting::equiv) call.casting = local::Casting::safe;
  return call;
}

}  // namespace quarry::apps::expression
