#include "quarry/apps/binding/table_names.h"

#include <sstream>

#include "quarry/local/program/op.h"

namespace quarry::apps::expression {

using local::Op;
using local::OpRule;

std::vector<std::string> words(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

namespace {

// Rows that serve other functions: their own handlers, outputs of two-output ufuncs, the random streams.
bool is_ufunc(Op op) {
  const local::OpInfo& row = local::info(op);
  switch (row.rule) {
    case OpRule::cast:
    case OpRule::random:
    case OpRule::bounded:
    case OpRule::sampler:
    case OpRule::select:
      return false;
    case OpRule::plain:
    case OpRule::no_bool:
    case OpRule::true_divide:
    case OpRule::double_only:
    case OpRule::comparison:
    case OpRule::logical:
    case OpRule::scale:
    case OpRule::storage:
      break;
  }
  for (const local::MultiOutput& multi : local::multi_outputs()) {
    if (std::string(row.name).starts_with(std::string(multi.name) + "_")) return false;
  }
  return op != "clip"_op;
}

std::vector<UfuncName> collect_ufunc_names() {
  std::vector<UfuncName> result;
  for (int i = 0; i < local::op_count(); ++i) {
    const Op op = static_cast<Op>(i);
    if (!is_ufunc(op)) continue;
    const local::OpInfo& row = local::info(op);
    result.push_back({op, row.name});
    for (std::string& alias : words(row.aliases)) result.push_back({op, std::move(alias)});
  }
  return result;
}

}  // namespace

const std::vector<UfuncName>& ufunc_names() {
  static const std::vector<UfuncName> names = collect_ufunc_names();
  return names;
}

}  // namespace quarry::apps::expression
