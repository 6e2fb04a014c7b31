// Evaluates a syntax tree over variables. Building arrays is lazy: nothing computes.
#pragma once

#include <map>
#include <string>

#include "apps/quarry/expression/function.h"

namespace quarry::apps::expression {

struct Environment {
  std::map<std::string, Value, std::less<>> variables;  // they hide functions and constants of the same name
  Session session;
  // Names that failed to evaluate, with the line that did (--keep-going), for messages.
  std::map<std::string, int, std::less<>> failed;
};

// Throws ExpressionError that points at the operation that could not be done.
Value evaluate(const Source& source, const Expr& expr, Environment& environment);

}  // namespace quarry::apps::expression
