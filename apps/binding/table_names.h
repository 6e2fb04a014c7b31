// Names that the operation tables of local/ give to the language.
#pragma once

#include <string>
#include <vector>

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

}  // namespace quarry::apps::expression
