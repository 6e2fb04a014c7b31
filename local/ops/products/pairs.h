// The axes that products sum over, from shapes alone: for arrays of one process and chunked ones.
#pragma once

#include <variant>
#include <vector>

#include "quarry/local/base/axes.h"

namespace quarry::local::ops {

// Axis a[i] of the first operand is summed with axis b[i] of the second.
struct AxisPairs {
  std::vector<int> a, b;
};
// Of dot() and inner() of shapes of one dimension or more, and of tensordot(). They throw InvalidArgument for extents
// that differ, with NumPy's texts; tensordot_axes() also for axes that occur twice and lists of different lengths, and
// IndexError for axes that do not exist.
AxisPairs dot_axes(const Dims& a, const Dims& b);
AxisPairs inner_axes(const Dims& a, const Dims& b);
AxisPairs tensordot_axes(const Dims& a, const Dims& b, const std::variant<int64_t, std::vector<Ints>>& axes);

// kron(a, b) is the product of a and b reshaped so that axes of a and b alternate, reshaped to `result`. Throws
// InvalidArgument for more than kMaxDims / 2 dimensions.
struct KroneckerShapes {
  Dims a, b, result;
};
KroneckerShapes kron_shapes(const Dims& a, const Dims& b);

}  // namespace quarry::local::ops
