// Python's expression grammar without comprehensions, dictionaries, sets, starred and assignment expressions.
#pragma once

#include <optional>

#include "quarry/apps/language/ast.h"

namespace quarry::apps::expression {

// The tree of a whole source; a top-level comma makes a tuple. Throws ExpressionError.
ExprPtr parse(const Source& source);

// A script line `name = EXPR`, `name[INDEX] = EXPR` or `name[INDEX] += EXPR`, with any of Python's operators but @.
// Nothing for a line of spaces and comments. Throws ExpressionError.
struct Statement {
  std::string name;
  Span name_span;
  ExprPtr value;
  ExprPtr target = nullptr;                       // name[INDEX], a Subscript of a Name; null: the name alone
  std::optional<BinaryOp> update = std::nullopt;  // of +=
};
std::optional<Statement> parse_statement(const Source& source);

}  // namespace quarry::apps::expression
