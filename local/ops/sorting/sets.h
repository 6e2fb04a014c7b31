// Distinct elements and set operations, by NumPy's names. All block, since the sizes of their results are data.
//
// Results are sorted, new, on the device of the arguments. Where `equal_nan`, all NaN count as one element. Of equal
// elements the first one stands for all: of both zeros too.
#pragma once

#include <tuple>

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops {

struct UniqueAllResult {
  NdArray values, indices, inverse_indices, counts;
  static constexpr const char* kFields[] = {"values", "indices", "inverse_indices", "counts"};
  auto tie() const { return std::tie(values, indices, inverse_indices, counts); }
};
struct UniqueCountsResult {
  NdArray values, counts;
  static constexpr const char* kFields[] = {"values", "counts"};
  auto tie() const { return std::tie(values, counts); }
};
struct UniqueInverseResult {
  NdArray values, inverse_indices;
  static constexpr const char* kFields[] = {"values", "inverse_indices"};
  auto tie() const { return std::tie(values, inverse_indices); }
};

// The distinct elements of the flattened array, or the distinct slices along an axis; on demand followed by the first
// position of each, the positions in the result that make up the input again, and how often each occurs.
std::variant<NdArray, ArrayTuple> unique(const NdArray& ar, bool return_index = false, bool return_inverse = false,
                                         bool return_counts = false, std::optional<int64_t> axis = std::nullopt,
                                         bool equal_nan = true, bool sorted = true);
// The array API's forms, to which every NaN is an element of its own (but to unique_values).
UniqueAllResult unique_all(const NdArray& x);
UniqueCountsResult unique_counts(const NdArray& x);
UniqueInverseResult unique_inverse(const NdArray& x);
NdArray unique_values(const NdArray& x);

NdArray union1d(const NdArray& ar1, const NdArray& ar2);
// With `return_indices` followed by the first positions in both arrays.
std::variant<NdArray, ArrayTuple> intersect1d(const NdArray& ar1, const NdArray& ar2, bool assume_unique = false,
                                              bool return_indices = false);
NdArray setdiff1d(const NdArray& ar1, const NdArray& ar2, bool assume_unique = false);
NdArray setxor1d(const NdArray& ar1, const NdArray& ar2, bool assume_unique = false);
// For every element whether it is one of the others; integers of any dtypes are compared exactly. `kind` None, "sort"
// or "table" (for bool and integers alone) gives the same.
NdArray isin(const NdArray& element, const NdArray& test_elements, bool assume_unique = false, bool invert = false,
             std::optional<std::string_view> kind = std::nullopt);
// Without leading ("f") and trailing ("b") zeros along all axes or some: a view.
NdArray trim_zeros(const NdArray& filt, std::string_view trim = "fb", const Axes& axis = {});

}  // namespace quarry::local::ops
