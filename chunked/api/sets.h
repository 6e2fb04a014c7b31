// Distinct elements and set operations, by NumPy's names.
//
// All compute at the call: collective, blocking. Every chunk's distinct elements are merged along a tree, in one read;
// the array itself is never sorted or moved. Where what is distinct does not fit into the budget of one rank, at about
// a hundred bytes for each number, the array is sorted instead (sorting.h), whatever its length; slices are sorted by
// at most 64 numbers of each at a time, so none has to fit a task. Results are kept as one chunk, or cut as new arrays.
// Where `equal_nan`, all NaN count as one element. Of equal elements the first one stands for all.
#pragma once

#include <algorithm>
#include <array>
#include <tuple>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/api/sorting.h"

namespace quarry {

using local::return_counts;
using local::return_index;
using local::return_indices;
using local::return_inverse;
using local::ReturnCounts;
using local::ReturnIndex;
using local::ReturnInverse;

namespace detail {
struct UniqueParts {
  bool index = false, inverse = false, counts = false;
};
// The values and, in NumPy's order, the parts.
std::vector<Array> unique(const Array& ar, const UniqueParts& parts, std::optional<int64_t> axis, bool equal_nan);
}  // namespace detail

// The sorted distinct elements, of all or slice by slice along an axis; NaN in slices never equal.
Array unique(const Array& ar, std::optional<int64_t> axis = std::nullopt, bool equal_nan = true);
// auto [values, counts] = unique(x, return_counts): behind the values first positions in the flattened array, the
// places of its elements among the values (lazy: reads the array again, a task holds all values; or sorted back to
// their places where those are many), and counts.
template <local::detail::UniqueWord... Words>
requires(sizeof...(Words) > 0) auto unique(const Array& ar, Words...) {
  const std::vector<Array> all =
      detail::unique(ar,
                     {(std::is_same_v<Words, ReturnIndex> || ...), (std::is_same_v<Words, ReturnInverse> || ...),
                      (std::is_same_v<Words, ReturnCounts> || ...)},
                     std::nullopt, /*equal_nan=*/true);
  std::array<Array, sizeof...(Words) + 1> result;
  std::copy(all.begin(), all.end(), result.begin());
  return result;
}

struct UniqueAllResult {
  Array values, indices, inverse_indices, counts;
  static constexpr const char* kFields[] = {"values", "indices", "inverse_indices", "counts"};
  auto tie() const { return std::tie(values, indices, inverse_indices, counts); }
};
struct UniqueCountsResult {
  Array values, counts;
  static constexpr const char* kFields[] = {"values", "counts"};
  auto tie() const { return std::tie(values, counts); }
};
struct UniqueInverseResult {
  Array values, inverse_indices;
  static constexpr const char* kFields[] = {"values", "inverse_indices"};
  auto tie() const { return std::tie(values, inverse_indices); }
};
// The array API's forms, to which every NaN is an element of its own.
UniqueAllResult unique_all(const Array& x);
UniqueCountsResult unique_counts(const Array& x);
UniqueInverseResult unique_inverse(const Array& x);
Array unique_values(const Array& x);

// Of flattened arrays; the dtype is promoted. What `assume_unique` says is checked all the same, but that setdiff1d()
// then keeps the first array's order and reads it chunk by chunk.
Array union1d(const Array& ar1, const Array& ar2);
Array intersect1d(const Array& ar1, const Array& ar2, bool assume_unique = false);
// The values, and the positions of their first occurrences in both arrays.
std::array<Array, 3> intersect1d(const Array& ar1, const Array& ar2, ReturnIndex, bool assume_unique = false);
Array setdiff1d(const Array& ar1, const Array& ar2, bool assume_unique = false);
Array setxor1d(const Array& ar1, const Array& ar2, bool assume_unique = false);

}  // namespace quarry
