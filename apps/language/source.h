// Places in an expression's source text, and errors that point at them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "quarry/local/base/error.h"

namespace quarry::apps::expression {

// Bytes [begin, end) of the source.
struct Span {
  int64_t begin = 0, end = 0;
};

// The text of one expression or of one script line. `name` and `line` say where it came from: "" and 0 on the command
// line, else the script's path and the line number.
struct Source {
  std::string text;
  std::string name;
  int line = 0;
};
using SourcePtr = std::shared_ptr<const Source>;

// A mistake in an expression: what() is one line with the reason, then the source line and a caret line under the
// place.
class ExpressionError : public local::InvalidArgument {
 public:
  // `code` tells the kind of the mistake, as Python's exception class does.
  ExpressionError(const Source& source, Span span, const std::string& message,
                  local::ErrorCode code = local::ErrorCode::invalid_argument);
};

// "MESSAGE", then the source line that holds the span, then carets under it; columns are counted in code points.
std::string point_at(const Source& source, Span span, const std::string& message);
// "FILE:LINE:COLUMN: " of a script, "column N: " on the command line.
std::string place(const Source& source, Span span);

}  // namespace quarry::apps::expression
