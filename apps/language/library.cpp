#include "quarry/apps/language/library.h"

#include <limits>
#include <numbers>

namespace quarry::apps::expression {

using local::Op;

std::optional<Value> Library::constant(std::string_view name) const {
  if (name == "pi") return Value(std::numbers::pi);
  if (name == "e") return Value(std::numbers::e);
  if (name == "inf") return Value(std::numeric_limits<double>::infinity());
  if (name == "nan") return Value(std::numeric_limits<double>::quiet_NaN());
  if (name == "newaxis") return Value(None{});
  if (name == "euler_gamma") return Value(0.57721566490153286060651209008240243);
  // The names of abstract dtypes, for issubdtype().
  for (const std::string_view kind :
       {"generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating"}) {
    if (name == kind) return Value(std::string(kind));
  }
  return std::nullopt;
}

Op ufunc(UnaryOp op) {
  switch (op) {
    case UnaryOp::plus:
      return "positive"_op;
    case UnaryOp::minus:
      return "negative"_op;
    case UnaryOp::invert:
      return "invert"_op;
    case UnaryOp::logical_not:
      return "logical_not"_op;
  }
  __builtin_unreachable();
}

Op ufunc(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "add"_op;
    case BinaryOp::subtract:
      return "subtract"_op;
    case BinaryOp::multiply:
      return "multiply"_op;
    case BinaryOp::divide:
      return "divide"_op;
    case BinaryOp::floor_divide:
      return "floor_divide"_op;
    case BinaryOp::remainder:
      return "remainder"_op;
    case BinaryOp::power:
      return "power"_op;
    case BinaryOp::matmul:
      break;
    case BinaryOp::left_shift:
      return "left_shift"_op;
    case BinaryOp::right_shift:
      return "right_shift"_op;
    case BinaryOp::bit_and:
      return "bitwise_and"_op;
    case BinaryOp::bit_xor:
      return "bitwise_xor"_op;
    case BinaryOp::bit_or:
      return "bitwise_or"_op;
  }
  QUARRY_CHECK(op != BinaryOp::matmul);
  __builtin_unreachable();
}

Op ufunc(CompareOp op) {
  switch (op) {
    case CompareOp::less:
      return "less"_op;
    case CompareOp::less_equal:
      return "less_equal"_op;
    case CompareOp::greater:
      return "greater"_op;
    case CompareOp::greater_equal:
      return "greater_equal"_op;
    case CompareOp::equal:
      return "equal"_op;
    case CompareOp::not_equal:
      return "not_equal"_op;
  }
  __builtin_unreachable();
}

}  // namespace quarry::apps::expression
