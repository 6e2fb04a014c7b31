// Assignment to elements: functions that give a new array of the same shape and dtype; the old one stays as it is. The
// notation x[index] = value and x[index] += value is these functions for a variable x (array.h). Chunks are x's, unless
// x takes no storage or everything is replaced.
//
// Values broadcast, are cast as astype() does, and may be numbers, arrays of one process or chunked ones. Positions and
// masks are checked at the call, before anything is computed; errors name index, axis and size. Positions in arrays are
// brought to every rank (collective, blocking); masks are computed at the call only where their elements get different
// values. What is assigned by slices, and one value by a mask, is lazy.
#pragma once

#include <initializer_list>
#include <span>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/program/op.h"

namespace quarry {

// x with x[index] = value, for every index that index() takes. Where positions repeat, the value that is last in C
// order counts. Chunks that the index does not reach are copied, and values are computed where it does. Memory: a task
// holds two chunks and the values that fall into them; values at positions that do not ascend by chunk are put in that
// order by take() first. Throws IndexError as index(), InvalidArgument for values that do not broadcast, and what NumPy
// raises for numbers that do not fit the dtype.
Array assigned(const Array& x, std::span<const IndexTerm> terms, const Operand& value);
inline Array assigned(const Array& x, std::initializer_list<IndexTerm> terms, const Operand& value) {
  return assigned(x, std::span<const IndexTerm>(terms.begin(), terms.size()), value);
}

namespace detail {

// x with x[index] op= value: repeated positions count once. Throws TypeError where the result does not cast to x's
// dtype by same_kind.
Array updated(const Array& x, std::span<const IndexTerm> terms, local::detail::Op op, const Operand& value);
inline Array updated(const Array& x, std::initializer_list<IndexTerm> terms, local::detail::Op op,
                     const Operand& value) {
  return updated(x, std::span<const IndexTerm>(terms.begin(), terms.size()), op, value);
}

}  // namespace detail

// arr with values at the positions along an axis that argsort, argmin ... name; the other axes broadcast, the values
// to the indices. Without an axis of the flattened array. Lazy: computing throws IndexError for positions outside.
// Memory: a task holds whole lines along the axis.
Array put_along_axis(const Array& arr, const Array& indices, const Operand& values, std::optional<int64_t> axis);

}  // namespace quarry
