// Shapes and axes: lazy, and views wherever NumPy's are.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "quarry/chunked/api/operand.h"

namespace quarry {

Array transpose(const Array& x, std::span<const int64_t> axes = {});  // reversed axes by default
Array swapaxes(const Array& x, int64_t a, int64_t b);
Array broadcast_to(const Array& x, const Dims& shape);
Array expand_dims(const Array& x, const Axes& axis);
Array squeeze(const Array& x, const Axes& axis = {});
Array reshape(const Array& x, const Dims& shape);  // one extent may be -1; C order
Array ravel(const Array& x);
Array flatten(const Array& x);           // the same: arrays are immutable
Array matrix_transpose(const Array& x);  // the last two axes. Throws InvalidArgument for fewer
// Joined along an existing axis, without one as ravel() gives them; the dtype is promoted. Throws InvalidArgument where
// other extents differ.
Array concatenate(std::span<const Array> arrays, std::optional<int64_t> axis = 0);
Array concatenate(std::initializer_list<Array> arrays, std::optional<int64_t> axis = 0);
// Joined along a new axis.
Array stack(std::span<const Array> arrays, int64_t axis = 0);
Array stack(std::initializer_list<Array> arrays, int64_t axis = 0);

}  // namespace quarry
