// The names that chunked arrays are to have.
#pragma once

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/source_file.h"

namespace quarry::test {

struct TargetName {
  std::string name;       // "sum", "linalg.qr", "random.Generator.normal", "Array.map_blocks", "ufunc.reduce"
  bool of_local = false;  // arrays of one process have it too, as NumPy or SciPy has
};

// Those that ../shared/api/target.tsv beside the tree wants of chunked arrays; nothing where there is no such list.
inline std::optional<std::vector<TargetName>> chunked_target_names() {
  std::ifstream list(source_file("../shared/api/target.tsv"));
  if (!list) return std::nullopt;
  std::vector<TargetName> names;
  std::string line;
  for (std::getline(list, line); std::getline(list, line);) {
    std::istringstream fields(line);
    std::string name, in_local, in_chunked;
    std::getline(fields, name, '\t') && std::getline(fields, in_local, '\t') && std::getline(fields, in_chunked, '\t');
    if (in_chunked == "chunked") names.push_back({name, in_local == "local"});
  }
  return names;
}

}  // namespace quarry::test
