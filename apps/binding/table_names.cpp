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
    case OpRule::part:
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

const char* ufunc_signature(int arity, size_t outputs) {
  static constexpr const char* kOne[] = {
      "", "(x, /, out=None, *, where=True, casting='same_kind', order='K', dtype=None, subok=True, signature=None)",
      "(x1, x2, /, out=None, *, where=True, casting='same_kind', order='K', dtype=None, subok=True, signature=None)",
      ("(x1, x2, x3, /, out=None, *, where=True, casting='same_kind', order='K', dtype=None, subok=True, "
       "signature=None)")};
  static constexpr const char* kTwo[] = {
      "",
      ("(x, out1=None, out2=None, /, out=(None, None), *, where=True, casting='same_kind', order='K', dtype=None, "
       "subok=True, signature=None)"),
      ("(x1, x2, out1=None, out2=None, /, out=(None, None), *, where=True, casting='same_kind', order='K', dtype=None, "
       "subok=True, signature=None)")};
  return outputs == 1 ? kOne[arity] : kTwo[arity];
}

std::string reduction_signature(local::Reduction reduction, const std::string& first) {
  const local::ReductionInfo& row = local::info(reduction);
  const std::string text = "(" + first + ", axis=None, ";
  if (reduction == "count_nonzero"_reduction) return text + "*, keepdims=False)";
  if (row.has_position) return text + "out=None, *, keepdims=False)";
  return text + (row.takes_dtype ? "dtype=None, " : "") + "out=None, " + (row.takes_ddof ? "ddof=0, " : "") +
         (row.takes_initial ? "keepdims=False, initial=None, where=True" : "keepdims=False, *, where=True") +
         (row.takes_ddof ? ", mean=None, correction=None" : "") + ")";
}

}  // namespace quarry::apps::expression
