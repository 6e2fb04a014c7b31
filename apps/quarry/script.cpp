#include "quarry/apps/quarry/script.h"

#include <algorithm>
#include <map>

#include "quarry/apps/binding/arrays.h"
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/language/parser.h"
#include "quarry/chunked/api/sparse_files.h"

namespace quarry::apps {

using expression::Value;

namespace {

bool holds_array(const Value& value) {
  if (value.is<Array>() || value.is<expression::MaskedValue>() || value.is<expression::SparseValue>()) return true;
  const expression::SequenceValue* sequence = value.sequence();
  return sequence != nullptr && std::any_of(sequence->items.begin(), sequence->items.end(), holds_array);
}

// Whose items are stored one by one.
const expression::SequenceValue* split_in(const Value& value) {
  const expression::SequenceValue* tuple = value.sequence();
  return tuple != nullptr && (!tuple->is_list || holds_array(value)) ? tuple : nullptr;
}

}  // namespace

std::vector<ma::FilledItem> store_items(const std::string& path, const Value& value) {
  if (const expression::SequenceValue* tuple = split_in(value)) {
    if (tuple->items.empty()) throw local::TypeError("an empty tuple has nothing to store");
    std::vector<ma::FilledItem> items;
    for (size_t i = 0; i < tuple->items.size(); ++i) {
      const std::vector<ma::FilledItem> inner = store_items(path + "." + std::to_string(i), tuple->items[i]);
      items.insert(items.end(), inner.begin(), inner.end());
    }
    return items;
  }
  if (const auto* masked = expression::masked_in<ma::Chunked>(value)) return {ma::filled_item(path, *masked)};
  if (const auto* sparse = value.as<expression::SparseValue>()) {
    std::vector<ma::FilledItem> items;
    for (StoreItem& item : sparse::group_items(path, *sparse->matrix)) items.push_back({std::move(item)});
    return items;
  }
  if (value.is<std::string>() || value.is<expression::Bytes>() || value.is<expression::DTypeValue>()) {
    throw local::TypeError("the result is a " + type_name(value) +
                           ", which chunked results do not store; eval --local -o stores it as an HDF5 string");
  }
  if (!expression::is_operand(value)) {
    throw local::TypeError("the result is a " + type_name(value) + ", which cannot be stored");
  }
  return {{{path, expression::to_array(value)}}};
}

detail::GroupAttributes store_groups(const std::string& path, const Value& value) {
  detail::GroupAttributes groups;
  if (const auto* sparse = value.as<expression::SparseValue>())
    groups.emplace(path, sparse::group_attributes(*sparse->matrix));
  if (const expression::SequenceValue* tuple = split_in(value))
    for (size_t i = 0; i < tuple->items.size(); ++i)
      groups.merge(store_groups(path + "." + std::to_string(i), tuple->items[i]));
  return groups;
}

namespace {

// One line's error, with its place where the error does not say it already.
std::string line_error(const expression::Source& source) {
  const std::exception_ptr error = std::current_exception();
  const std::string message = local::to_record(error).message;
  const std::string place = source.name + ":" + std::to_string(source.line) + ":";
  return message.starts_with(place) ? message : place + " " + message;
}

}  // namespace

Script evaluate_script(const std::string& path, const std::string& text, expression::Environment& environment,
                       bool keep_going, const CheckStorable& check) {
  std::map<std::string, ScriptResult> results;
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
    const auto failed = [&] {
      script.errors.push_back(line_error(source));
      if (!statement) return;
      environment.variables.erase(statement->name);
      environment.failed.insert_or_assign(statement->name, number);
      results.erase(statement->name);
    };
    try {
      statement = parse_statement(source);
      if (!statement) continue;
      const Value value = execute(source, *statement, environment);
      const bool is_private = statement->name.starts_with('_');
      if (!is_private) {
        try {
          check(value);
        } catch (const local::InvalidArgument& error) {
          throw expression::ExpressionError(source, statement->value->span, error.what(), error.code());
        }
      }
      environment.failed.erase(statement->name);
      environment.variables.insert_or_assign(statement->name, value);
      results.erase(statement->name);
      if (!is_private) results.emplace(statement->name, ScriptResult{statement->name, number, value});
    } catch (const local::Cancelled&) {
      throw;
    } catch (const std::exception&) {
      if (!keep_going) throw;
      failed();
    }
  }
  for (auto& [name, result] : results) script.results.push_back(std::move(result));
  std::sort(script.results.begin(), script.results.end(),
            [](const ScriptResult& a, const ScriptResult& b) { return a.line < b.line; });
  return script;
}

}  // namespace quarry::apps
