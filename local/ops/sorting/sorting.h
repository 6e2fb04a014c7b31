// Sorting, selecting and searching, by NumPy's names.
//
// Order is that of local/program/sorting.h: NaN last, complex numbers lexicographically. Results are new, in C order,
// on the device of the arguments, and are not waited for. Throws IndexError for an axis out of range, InvalidArgument
// for options that do not exist, OutOfMemory.
#pragma once

#include "quarry/local/ops/arguments.h"
#include "quarry/local/ops/sorting/sets.h"

namespace quarry::local::ops {

// The elements in order along `axis`; nothing sorts the flattened array. Equal elements that differ (both zeros, NaNs)
// keep their order where `kind` is "stable" or "mergesort", or `stable`; else zeros come with the negative ones first.
NdArray sort(const NdArray& a, std::optional<int64_t> axis = -1, std::optional<std::string_view> kind = std::nullopt,
             std::optional<std::string_view> order = std::nullopt, std::optional<bool> stable = std::nullopt);
// The int64 positions that sort along `axis`; equal elements keep their order.
NdArray argsort(const NdArray& a, std::optional<int64_t> axis = -1, std::optional<std::string_view> kind = std::nullopt,
                std::optional<std::string_view> order = std::nullopt, std::optional<bool> stable = std::nullopt);
// The elements as complex numbers, in order along the last axis: complex64 of 8- and 16-bit integers, else complex128.
NdArray sort_complex(const NdArray& a);

// The elements such that those at the positions `kth` along `axis` are where a sort puts them, with no greater one
// before and no smaller one behind. The order among the others is not specified.
NdArray partition(const NdArray& a, const Ints& kth, std::optional<int64_t> axis = -1,
                  std::string_view kind = "introselect", std::optional<std::string_view> order = std::nullopt);
// The positions of such an arrangement.
NdArray argpartition(const NdArray& a, const Ints& kth, std::optional<int64_t> axis = -1,
                     std::string_view kind = "introselect", std::optional<std::string_view> order = std::nullopt);

// Methods, which work in place.
void sort_in_place(const NdArray& a, int64_t axis = -1, std::optional<std::string_view> kind = std::nullopt,
                   std::optional<std::string_view> order = std::nullopt, std::optional<bool> stable = std::nullopt);
void partition_in_place(const NdArray& a, const Ints& kth, int64_t axis = -1, std::string_view kind = "introselect",
                        std::optional<std::string_view> order = std::nullopt);

// For every element of v the position in the sorted 1-D array a before which it could be inserted: the first one
// (`side` left) or the last. `sorter`: positions that sort a. int64 of v's shape.
NdArray searchsorted(const NdArray& a, const Arg& v, std::string_view side = "left",
                     const std::optional<NdArray>& sorter = std::nullopt);
// For every element of x the number of the bin between the monotonic edges `bins` that it is in. Blocks.
NdArray digitize(const NdArray& x, const NdArray& bins, bool right = false);

// Positions that sort along `axis` by the last key, equal ones by the one before it, and so on. An array's first axis
// counts its keys. Throws TypeError for no keys, InvalidArgument for keys of different shapes.
NdArray lexsort(const std::vector<NdArray>& keys, int64_t axis = -1);
// The k greatest (or smallest) elements along an axis, in order from the most extreme one, and their positions. NaN
// counts as greatest. Throws InvalidArgument unless 0 <= k <= the extent.
std::pair<NdArray, NdArray> top_k(const NdArray& a, int64_t k, int64_t axis = -1, bool largest = true);

}  // namespace quarry::local::ops
