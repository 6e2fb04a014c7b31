// Python's tokens, as far as expressions need them.
#pragma once

#include <complex>
#include <string>
#include <variant>
#include <vector>

#include "quarry/apps/language/ast.h"

namespace quarry::apps::expression {

struct Token {
  enum class Kind : uint8_t { number, string, bytes, name, op, end };
  Kind kind;
  Span span;
  std::string text;  // names and operators as written; the value of a string or of bytes
  std::variant<Int, double, std::complex<double>> number;  // number
};

// The tokens of `source`, the last of kind `end`. Newlines count as spaces inside brackets, comments as nothing.
// Throws ExpressionError.
std::vector<Token> tokenize(const Source& source);

}  // namespace quarry::apps::expression
