// Selecting by masks and by arrays of positions: NumPy's names and meaning. Where the size of the result depends on
// data, the call computes what it has to know: it is collective and blocks (settle.h), and keeps the mask, a byte per
// element, with its owners. Results are lazy; small neighbouring chunks of them are joined.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "quarry/chunked/api/array.h"

namespace quarry {

// x[mask]: a mask of x's shape, or of that of its first axes; the other axes follow. Throws IndexError for another
// shape, TypeError where the mask is not bool. Collective, blocking.
Array boolean_index(const Array& x, const Array& mask);
// x[index] as NumPy's, with any mixture of terms; index arrays broadcast, and their axes stand where NumPy places them.
// Several index arrays, or a mask of several axes among other terms, copy what the other terms leave of x once, into
// chunks of whole rows. Throws IndexError naming index, axis and size; for masks that do not fit; for too many indices.
// Collective and blocking where a term is an array.
Array index(const Array& x, std::span<const IndexTerm> terms);
inline Array index(const Array& x, std::initializer_list<IndexTerm> terms) {
  return index(x, std::span<const IndexTerm>(terms.begin(), terms.size()));
}
// Along an axis, or of the elements in C order, where the 1-d condition is true; a short one is false beyond its end.
// Throws InvalidArgument for a condition of several axes, IndexError for one that is longer. Collective, blocking.
Array compress(const Array& condition, const Array& a, std::optional<int64_t> axis = {});
// Elements in C order where the condition, of as many elements, is true. Collective, blocking.
Array extract(const Array& condition, const Array& arr);
// Positions of elements that are not 0, an int64 array per axis, in C order. Throws InvalidArgument for 0-d arrays.
// Collective, blocking.
std::vector<Array> nonzero(const Array& a);
// The same as rows of one array; of shape (n, ndim).
Array argwhere(const Array& a);
// The same for the flattened array.
Array flatnonzero(const Array& a);

// Elements at positions along an axis, or of the flattened array; the axes of `indices`, integers of any dtype, replace
// the axis. Negative positions count from the end. The indices are brought to every rank. Throws IndexError naming
// index, axis and size, TypeError for indices that are no integers. Collective and blocking, unless the indices are
// local. Memory: a task holds a chunk of the result, what it takes of other ranks, and the chunks of its own rank that
// it takes from.
Array take(const Array& a, const Array& indices, std::optional<int64_t> axis = {}, std::string_view mode = "raise");
Array take(const Array& a, const NdArray& indices, std::optional<int64_t> axis = {}, std::string_view mode = "raise");
// The elements that argsort, argmin ... along the axis name; the other axes broadcast. Lazy: computing throws
// IndexError for positions outside. Without an axis over flattened arrays. Memory: a task holds whole lines along the
// axis.
Array take_along_axis(const Array& arr, const Array& indices, std::optional<int64_t> axis = -1);

}  // namespace quarry
