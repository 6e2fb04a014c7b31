// Evaluates a syntax tree over variables, with the arrays of a library: chunked ones are built lazily, local ones at
// once.
#pragma once

#include <map>
#include <string>

#include "quarry/apps/language/library.h"
#include "quarry/apps/language/parser.h"

namespace quarry::apps::expression {

// Where what is missing in the library may be.
struct OtherLibrary {
  const Library* library = nullptr;
  std::string hint;  // "--local has it"
};

struct Environment {
  std::map<std::string, Value, std::less<>> variables;  // they hide functions and constants of the same name
  Session session;
  const Library* library = &chunked_library();
  OtherLibrary other;
  // Names that failed to evaluate, with the line that did (--keep-going), for messages.
  std::map<std::string, int, std::less<>> failed;
};

// Throws ExpressionError that points at the operation that could not be done, OutOfMemory with the same text.
Value evaluate(const Source& source, const Expr& expr, Environment& environment);
// The value that the statement's name has afterwards; the caller gives it to the name. An assignment to elements writes
// into local arrays, and makes a new array of a chunked one.
Value execute(const Source& source, const Statement& statement, Environment& environment);

}  // namespace quarry::apps::expression
