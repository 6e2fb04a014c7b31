#include "quarry/apps/language/ast.h"

#include "quarry/apps/language/python.h"

namespace quarry::apps::expression {

const char* symbol(UnaryOp op) {
  switch (op) {
    case UnaryOp::plus:
      return "+";
    case UnaryOp::minus:
      return "-";
    case UnaryOp::invert:
      return "~";
    case UnaryOp::logical_not:
      return "not";
  }
  return "";
}

const char* symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "+";
    case BinaryOp::subtract:
      return "-";
    case BinaryOp::multiply:
      return "*";
    case BinaryOp::divide:
      return "/";
    case BinaryOp::floor_divide:
      return "//";
    case BinaryOp::remainder:
      return "%";
    case BinaryOp::power:
      return "**";
    case BinaryOp::matmul:
      return "@";
    case BinaryOp::left_shift:
      return "<<";
    case BinaryOp::right_shift:
      return ">>";
    case BinaryOp::bit_and:
      return "&";
    case BinaryOp::bit_xor:
      return "^";
    case BinaryOp::bit_or:
      return "|";
  }
  return "";
}

const char* symbol(CompareOp op) {
  switch (op) {
    case CompareOp::less:
      return "<";
    case CompareOp::less_equal:
      return "<=";
    case CompareOp::greater:
      return ">";
    case CompareOp::greater_equal:
      return ">=";
    case CompareOp::equal:
      return "==";
    case CompareOp::not_equal:
      return "!=";
  }
  return "";
}

namespace {

struct Printer {
  std::string operator()(const NoneLiteral&) const { return "None"; }
  std::string operator()(const EllipsisLiteral&) const { return "..."; }
  std::string operator()(const Literal& e) const {
    return std::visit([](const auto& value) { return repr(value); }, e.value);
  }
  std::string operator()(const Name& e) const { return e.name; }
  std::string operator()(const Unary& e) const {
    return std::string("(") + symbol(e.op) + " " + to_string(*e.operand) + ")";
  }
  std::string operator()(const Binary& e) const {
    return std::string("(") + symbol(e.op) + " " + to_string(*e.left) + " " + to_string(*e.right) + ")";
  }
  std::string operator()(const Compare& e) const {
    std::string text = "(compare " + to_string(*e.first);
    for (size_t i = 0; i < e.ops.size(); ++i) text += std::string(" ") + symbol(e.ops[i]) + " " + to_string(*e.rest[i]);
    return text + ")";
  }
  std::string operator()(const BoolOp& e) const {
    return std::string(e.is_and ? "(and " : "(or ") + to_string(*e.left) + " " + to_string(*e.right) + ")";
  }
  std::string operator()(const Conditional& e) const {
    return "(if " + to_string(*e.condition) + " " + to_string(*e.then) + " " + to_string(*e.otherwise) + ")";
  }
  std::string operator()(const Call& e) const {
    std::string text = "(call " + to_string(*e.function);
    for (const ExprPtr& arg : e.args) text += " " + to_string(*arg);
    for (const Keyword& keyword : e.keywords) text += " " + keyword.name + "=" + to_string(*keyword.value);
    return text + ")";
  }
  std::string operator()(const Attribute& e) const { return "(. " + to_string(*e.object) + " " + e.name + ")"; }
  std::string operator()(const Subscript& e) const {
    return "(index " + to_string(*e.object) + " " + to_string(*e.index) + ")";
  }
  std::string operator()(const SliceRange& e) const {
    const auto part = [](const ExprPtr& p) { return p ? to_string(*p) : std::string("_"); };
    return "(slice " + part(e.start) + " " + part(e.stop) + " " + part(e.step) + ")";
  }
  std::string operator()(const Sequence& e) const {
    std::string text = e.is_list ? "(list" : "(tuple";
    for (const ExprPtr& item : e.items) text += " " + to_string(*item);
    return text + ")";
  }
  std::string operator()(const Dict& e) const {
    std::string text = "(dict";
    for (const auto& [key, value] : e.items) text += " " + to_string(*key) + ": " + to_string(*value);
    return text + ")";
  }
  std::string operator()(const Lambda& e) const {
    std::string text = "(lambda";
    for (size_t i = 0; i < e.parameters.size(); ++i) {
      text += " " + e.parameters[i];
      if (e.defaults[i]) text += "=" + to_string(*e.defaults[i]);
    }
    return text + ": " + to_string(*e.body) + ")";
  }
};

}  // namespace

std::string to_string(const Expr& expr) { return std::visit(Printer{}, expr.node); }

}  // namespace quarry::apps::expression
