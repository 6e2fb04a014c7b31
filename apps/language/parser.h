// Python's expression grammar without comprehensions, dictionaries, sets, starred and assignment expressions.
#pragma once

#include "quarry/apps/language/ast.h"

namespace quarry::apps::expression {

// The tree of a whole source; a top-level comma makes a tuple. Throws ExpressionError.
ExprPtr parse(const Source& source);

// A script line `name = EXPR`. Nothing for a line of spaces and comments. Throws ExpressionError.
struct Statement {
  std::string name;
  Span name_span;
  ExprPtr value;
};
std::optional<Statement> parse_statement(const Source& source);

}  // namespace quarry::apps::expression
