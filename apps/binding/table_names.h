// Names that the operation tables of local/ give to the language.
#pragma once

#include <string>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/program/op.h"

namespace quarry::apps::expression {

// Split at blanks.
std::vector<std::string> words(const char* text);

struct UfuncName {
  local::Op op;
  std::string name;
};
// Every ufunc of local/program/ufunc.def with one output under each of its names, the first one first.
const std::vector<UfuncName>& ufunc_names();

// NumPy's signatures of ufuncs by their number of operands and of results, and of a reduction: `first` is its first
// parameter, "a" or "self, /".
const char* ufunc_signature(int arity, size_t outputs);
std::string reduction_signature(local::Reduction reduction, const std::string& first);
constexpr const char* kUfuncSummary = "Element by element, with broadcasting.";
constexpr const char* kReductionSummary = "Over all axes, or some.";

}  // namespace quarry::apps::expression
