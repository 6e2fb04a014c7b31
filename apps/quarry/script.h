// The statements of a script (quarry eval -f), evaluated in order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "quarry/apps/language/evaluator.h"
#include "quarry/chunked/api/ma.h"
#include "quarry/chunked/api/outputs.h"

namespace quarry::apps {

struct ScriptResult {
  std::string name;
  int line;
  expression::Value value;
};
// Throws TypeError where the value of a line cannot be stored.
using CheckStorable = std::function<void(const expression::Value& value)>;
struct Script {
  std::vector<ScriptResult> results;  // of the names that do not start with '_', the last assignment of each
  std::vector<std::string> errors;    // of the lines that failed, in order (only with keep_going)
};

// Throws ExpressionError for the first line that fails, unless keep_going. Results that cannot be stored fail too.
Script evaluate_script(const std::string& path, const std::string& text, expression::Environment& environment,
                       bool keep_going, const CheckStorable& check);

// A value as the arrays it is stored as: `path`, or for tuples and lists `path.0`, `path.1` and so on. Throws TypeError
// for what no array can hold. A masked array is filled, and its fill value noted.
// A sparse matrix is stored as three arrays below `path`.
std::vector<ma::FilledItem> store_items(const std::string& path, const expression::Value& value);
// The attributes of the groups of sparse matrices among these.
detail::GroupAttributes store_groups(const std::string& path, const expression::Value& value);

}  // namespace quarry::apps
