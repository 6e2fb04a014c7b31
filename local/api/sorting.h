// Sorting, searching and sets. See local/ops/sorting/sorting.h and sets.h.
#pragma once

#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "quarry/local/ops/sorting/sorting.h"

namespace quarry::local {

using ops::argpartition;
using ops::argsort;
using ops::digitize;
using ops::isin;
using ops::lexsort;
using ops::partition;
using ops::searchsorted;
using ops::setdiff1d;
using ops::setxor1d;
using ops::sort;
using ops::sort_complex;
using ops::top_k;
using ops::trim_zeros;
using ops::union1d;
using ops::unique_all;
using ops::unique_counts;
using ops::unique_inverse;
using ops::unique_values;

// What else unique() and intersect1d() return, in NumPy's order whatever the order of the words:
//   auto [values, counts] = unique(x, return_counts);
struct ReturnIndex {};
struct ReturnInverse {};
struct ReturnCounts {};
inline constexpr ReturnIndex return_index{}, return_indices{};
inline constexpr ReturnInverse return_inverse{};
inline constexpr ReturnCounts return_counts{};

namespace detail {

template <class T>
concept UniqueWord =
    std::is_same_v<T, ReturnIndex> || std::is_same_v<T, ReturnInverse> || std::is_same_v<T, ReturnCounts>;

}  // namespace detail

// The sorted distinct elements, of all or slice by slice along an axis.
inline NdArray unique(const NdArray& ar, std::optional<int64_t> axis = std::nullopt, bool equal_nan = true) {
  return std::get<NdArray>(ops::unique(ar, false, false, false, axis, equal_nan));
}
template <detail::UniqueWord... Words>
requires(sizeof...(Words) > 0) auto unique(const NdArray& ar, Words...) {
  const ArrayTuple all = std::get<ArrayTuple>(ops::unique(ar, (std::is_same_v<Words, ReturnIndex> || ...),
                                                          (std::is_same_v<Words, ReturnInverse> || ...),
                                                          (std::is_same_v<Words, ReturnCounts> || ...)));
  std::array<NdArray, sizeof...(Words) + 1> result;
  std::copy(all.begin(), all.end(), result.begin());
  return result;
}

inline NdArray intersect1d(const NdArray& ar1, const NdArray& ar2, bool assume_unique = false) {
  return std::get<NdArray>(ops::intersect1d(ar1, ar2, assume_unique));
}
// The values, and the positions of their first occurrences in both arrays.
inline std::array<NdArray, 3> intersect1d(const NdArray& ar1, const NdArray& ar2, ReturnIndex,
                                          bool assume_unique = false) {
  const ArrayTuple all = std::get<ArrayTuple>(ops::intersect1d(ar1, ar2, assume_unique, true));
  return {all[0], all[1], all[2]};
}

}  // namespace quarry::local
