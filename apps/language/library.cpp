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
  return std::nullopt;
}

Op ufunc(UnaryOp op) {
  switch (op) {
    case UnaryOp::plus:
      return Op::positive;
    case UnaryOp::minus:
      return Op::negative;
    case UnaryOp::invert:
      return Op::invert;
    case UnaryOp::logical_not:
      return Op::logical_not;
  }
  __builtin_unreachable();
}

Op ufunc(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return Op::add;
    case BinaryOp::subtract:
      return Op::subtract;
    case BinaryOp::multiply:
      return Op::multiply;
    case BinaryOp::divide:
      return Op::divide;
    case BinaryOp::floor_divide:
      return Op::floor_divide;
    case BinaryOp::remainder:
      return Op::remainder;
    case BinaryOp::power:
      return Op::power;
    case BinaryOp::matmul:
      break;
    case BinaryOp::left_shift:
      return Op::left_shift;
    case BinaryOp::right_shift:
      return Op::right_shift;
    case BinaryOp::bit_and:
      return Op::bitwise_and;
    case BinaryOp::bit_xor:
      return Op::bitwise_xor;
    case BinaryOp::bit_or:
      return Op::bitwise_or;
  }
  QUARRY_CHECK(op != BinaryOp::matmul);
  __builtin_unreachable();
}

Op ufunc(CompareOp op) {
  switch (op) {
    case CompareOp::less:
      return Op::less;
    case CompareOp::less_equal:
      return Op::less_equal;
    case CompareOp::greater:
      return Op::greater;
    case CompareOp::greater_equal:
      return Op::greater_equal;
    case CompareOp::equal:
      return Op::equal;
    case CompareOp::not_equal:
      return Op::not_equal;
  }
  __builtin_unreachable();
}

}  // namespace quarry::apps::expression
