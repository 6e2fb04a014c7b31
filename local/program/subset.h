// Which eigenvalues of a symmetric (Hermitian) matrix are computed.
#pragma once

#include <cstdint>
#include <limits>
#include <variant>

namespace quarry::local {

// Number `first` to number `last`, both included, counted from 0 in ascending order: SciPy's subset_by_index.
struct ByIndex {
  int64_t first = 0, last = 0;
};
// Those above `low` and at most `high`: SciPy's subset_by_value.
struct ByValue {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};
using Subset = std::variant<ByIndex, ByValue>;

}  // namespace quarry::local
