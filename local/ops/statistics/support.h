// What the functions of local/ops/statistics/statistics.h share.
#pragma once

#include "quarry/local/base/detail.h"
#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/program.h"

namespace quarry::local {

// Bit per axis. Unlike the reductions' Axes::mask() an axis of a 0-d array is an IndexError.
uint32_t axes_mask(const Axes& axes, int ndim);

// The axes of `mask` merged into one in C order behind the others, which keep their order. A view where the strides
// allow.
NdArray merged_last(const NdArray& a, uint32_t mask);

// Weights as NumPy takes them: of a's shape, or of the shape of the axes in the order given; then they are transposed
// by `order` and get an axis of one element for each other axis of a: `shape`. Throws TypeError, InvalidArgument.
struct AlignedWeights {
  std::vector<int64_t> order;
  Dims shape;
};
AlignedWeights aligned_weights(const Dims& weights, const Dims& a, const Axes& axes);
NdArray checked_weights(const NdArray& weights, const NdArray& a, const Axes& axes);

// Smallest and largest element, 0-d, in one read; NaN if there is one. Not for complex numbers. The array is not empty.
std::pair<NdArray, NdArray> extremes(const NdArray& a);

NdArray cast_to(const NdArray& a, DType dtype);
// On the device of `context`.
NdArray filled(const Dims& shape, const Scalar& value, DType dtype, const ExecContext& context);
// Whether any element of a bool array is true, which is an error: false where the device has no values. Blocks.
bool holds_any(const NdArray& condition);
// The element, or 0-d: a view of position `k` of the last axis.
inline NdArray at_last(const NdArray& rows, int64_t k) { return rows[{ellipsis, k}]; }

// An application of an operation inside a program.
inline ValueId applied(Program& program, Op op, std::initializer_list<ValueId> args,
                       std::optional<DType> dtype = std::nullopt) {
  return program.apply(op, std::span<const ValueId>(args.begin(), args.size()), dtype);
}
// Queues the program, whose one output gets that shape.
NdArray evaluated(Program& program, ValueId output, std::initializer_list<const NdArray*> inputs, const Dims& shape);

}  // namespace quarry::local
