// Sorting and selecting, by NumPy's and Dask's names. Lazy.
//
// Lines along the axis may have any length. Those that fit a task, and are not much longer than a chunk, come to one
// task each, whole: axes of several chunks are made one chunk, and the others are cut so that chunks keep their size.
// Longer ones are sorted by runs: chunks are sorted where they are, split exactly at the cuts of the result, exchanged
// between the ranks and merged (chunked/algo/sort.h). The runs are made at the call, which is collective and blocks
// then; the last merge is lazy, and the result has equal chunks along the axis. Either way the values, and so the bits,
// are those of the local function; but partitions of long lines are sorted lines. sort_method() says which way is
// taken, and the stages that explain() names: "sort", or "sort merge". One GPU alone sorts at once what it holds ("sort
// runs").
//
// topk(), argtopk() and top_k() merge the candidates of chunks. Order is NumPy's: NaN last, complex numbers
// lexicographically. Options and errors as in local/ops/sorting/sorting.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/chunked/api/operand.h"

namespace quarry {

// Without an axis of the flattened array.
Array sort(const Array& a, std::optional<int64_t> axis = -1, std::optional<std::string_view> kind = std::nullopt,
           std::optional<std::string_view> order = std::nullopt, std::optional<bool> stable = std::nullopt);
// Along the last axis, as complex numbers: complex64 for complex64 and integers of at most 16 bits, else complex128.
Array sort_complex(const Array& a);
// The int64 positions that sort; equal elements keep their order.
Array argsort(const Array& a, std::optional<int64_t> axis = -1, std::optional<std::string_view> kind = std::nullopt,
              std::optional<std::string_view> order = std::nullopt, std::optional<bool> stable = std::nullopt);
// The elements such that those at the positions `kth` are where a sort puts them.
Array partition(const Array& a, const Ints& kth, std::optional<int64_t> axis = -1,
                std::string_view kind = "introselect", std::optional<std::string_view> order = std::nullopt);
Array argpartition(const Array& a, const Ints& kth, std::optional<int64_t> axis = -1,
                   std::string_view kind = "introselect", std::optional<std::string_view> order = std::nullopt);
// Positions that sort by the last key, equal ones by the one before it, and so on.
Array lexsort(const std::vector<Array>& keys, int64_t axis = -1);

// The rows of x, along its first axis, in the stable order of a key as long, or in that of falling keys: those with NaN
// come first then, and equal ones keep their order as well. Rows come whole to tasks. Throws InvalidArgument for keys
// of other shapes. Collective, blocking where there are more rows than a chunk has.
Array sort_by(const Array& x, const Array& key, bool descending = false);
// How sort() goes about an array, in words.
std::string sort_method(const Array& a, std::optional<int64_t> axis = -1);

// The k greatest elements along an axis, the greatest first, and their positions; NaN counts as greatest. Of equal
// elements the last come first; of the smallest ones the first. Throws InvalidArgument unless 0 <= k <= the extent.
std::pair<Array, Array> top_k(const Array& a, int64_t k, int64_t axis = -1, bool largest = true);
// Dask's: the k greatest, or for negative k the -k smallest elements, in order from the most extreme one; all where
// there are fewer. The same order.
Array topk(const Array& a, int64_t k, int64_t axis = -1);
Array argtopk(const Array& a, int64_t k, int64_t axis = -1);

// Dask's: the positions along the axis that each group names, group after group; the positions of a group stay in one
// chunk, and chunks keep about their size. Throws IndexError for positions outside. Memory: as take().
Array shuffle(const Array& x, const std::vector<std::vector<int64_t>>& indexer, int64_t axis);

}  // namespace quarry
