// Reductions of values by their keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "quarry/chunked/api/array.h"

namespace quarry {

enum class GroupOp : uint8_t { sum, count, min, max, mean };

struct Grouped {
  std::vector<Array> keys;     // distinct, in order
  std::vector<Array> results;  // one per operation, of as many elements
};
// Of all values with equal keys, in the order of keys; those with several keys are ordered by the last of them first,
// as lexsort does. Keys and values are 1-d and as long. All NaN among keys are one key; NaN among values count as
// NumPy's reductions have them. Sums, means, minima and maxima have NumPy's dtypes; sums of floats are added up in
// float64, in the order of chunks.
//   const Grouped groups = group_reduce({city}, income, {GroupOp::mean, GroupOp::count});
//
// Any number of groups: every chunk is reduced by itself, and what chunks have of groups is sorted (sorting.h) and
// reduced again. Reads all once. Collective, blocking. Throws InvalidArgument for shapes, TypeError where an operation
// has no loop for the dtype.
Grouped group_reduce(const std::vector<Array>& keys, const Array& values, std::span<const GroupOp> ops);
inline Grouped group_reduce(const std::vector<Array>& keys, const Array& values, std::initializer_list<GroupOp> ops) {
  return group_reduce(keys, values, std::span<const GroupOp>(ops.begin(), ops.size()));
}

}  // namespace quarry
