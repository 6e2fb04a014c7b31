#include "apps/quarry/script.h"

#include <algorithm>

#include "apps/quarry/expression/arrays.h"
#include "apps/quarry/expression/parser.h"

namespace quarry::apps {

using expression::Value;

std::vector<StoreItem> store_items(const std::string& path, const Value& value) {
  if (const expression::SequenceValue* tuple = value.sequence(); tuple != nullptr && !tuple->is_list) {
    if (tuple->items.empty()) throw local::TypeError("an empty tuple has nothing to store");
    std::vector<StoreItem> items;
    for (size_t i = 0; i < tuple->items.size(); ++i) {
      const std::vector<StoreItem> inner = store_items(path + "." + std::to_string(i), tuple->items[i]);
      items.insert(items.end(), inner.begin(), inner.end());
    }
    return items;
  }
  if (!expression::is_operand(value)) {
    throw local::TypeError("the result is a " + type_name(value) + ", which cannot be stored");
  }
  return {{path, expression::to_array(value)}};
}

Script evaluate_script(const std::string& path, const std::string& text, expression::Environment& environment,
                       bool keep_going) {
  Script script;
  int number = 0;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const expression::Source source{line, path, ++number};
    std::optional<expression::Statement> statement;
    try {
      statement = parse_statement(source);
      if (!statement) continue;
      const Value value = evaluate(source, *statement->value, environment);
      const bool is_private = statement->name.starts_with('_');
      if (!is_private) {
        try {
          store_items("/" + statement->name, value);
        } catch (const local::InvalidArgument& error) {
          throw expression::ExpressionError(source, statement->value->span, error.what());
        }
      }
      environment.failed.erase(statement->name);
      environment.variables.insert_or_assign(statement->name, value);
      std::erase_if(script.results, [&](const ScriptResult& result) { return result.name == statement->name; });
      if (!is_private) script.results.push_back({statement->name, number, value});
    } catch (const local::InvalidArgument& error) {
      if (!keep_going) throw;
      script.errors.emplace_back(error.what());
      if (!statement) continue;
      environment.variables.erase(statement->name);
      environment.failed.insert_or_assign(statement->name, number);
      std::erase_if(script.results, [&](const ScriptResult& result) { return result.name == statement->name; });
    }
  }
  return script;
}

}  // namespace quarry::apps
