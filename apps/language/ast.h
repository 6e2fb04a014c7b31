// The syntax tree of an expression: plain data with source positions.
#pragma once

#include <complex>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "quarry/apps/language/integer.h"
#include "quarry/apps/language/source.h"

namespace quarry::apps::expression {

// Python's bytes.
struct Bytes {
  std::string text;
  bool operator==(const Bytes&) const = default;
};

enum class UnaryOp : uint8_t { plus, minus, invert, logical_not };
enum class BinaryOp : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  remainder,
  power,
  matmul,
  left_shift,
  right_shift,
  bit_and,
  bit_xor,
  bit_or,
};
enum class CompareOp : uint8_t { less, less_equal, greater, greater_equal, equal, not_equal };
const char* symbol(UnaryOp op);
const char* symbol(BinaryOp op);
const char* symbol(CompareOp op);

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct NoneLiteral {};
struct EllipsisLiteral {};
struct Literal {
  std::variant<bool, Int, double, std::complex<double>, std::string, Bytes> value;
};
struct Name {
  std::string name;
};
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
struct Binary {
  BinaryOp op;
  Span op_span;
  ExprPtr left, right;
};
// first op[0] rest[0] op[1] rest[1] ..., as Python chains them.
struct Compare {
  ExprPtr first;
  std::vector<CompareOp> ops;
  std::vector<ExprPtr> rest;
};
struct BoolOp {
  bool is_and;
  ExprPtr left, right;
};
struct Conditional {
  ExprPtr then, condition, otherwise;
};
struct Keyword {
  std::string name;
  Span span;
  ExprPtr value;
};
struct Call {
  ExprPtr function;
  std::vector<ExprPtr> args;
  std::vector<Keyword> keywords;
};
struct Attribute {
  ExprPtr object;
  std::string name;
  Span name_span;
};
struct Subscript {
  ExprPtr object, index;
};
// Only inside a subscript.
struct SliceRange {
  ExprPtr start, stop, step;  // null: absent
};
struct Sequence {
  bool is_list;
  std::vector<ExprPtr> items;
};

struct Dict {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};

struct Lambda {
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // one per parameter; null: none
  std::shared_ptr<const Expr> body;
};

struct Expr {
  Span span;
  std::variant<NoneLiteral, EllipsisLiteral, Literal, Name, Unary, Binary, Compare, BoolOp, Conditional, Call,
               Attribute, Subscript, SliceRange, Sequence, Dict, Lambda>
      node;
  int depth = 1;  // levels below and including this one
};

// The tree in prefix form, for tests and messages: "(+ 1 (* 2 x))".
std::string to_string(const Expr& expr);

}  // namespace quarry::apps::expression
