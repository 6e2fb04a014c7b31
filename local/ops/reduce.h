// The eager reductions: one per row of reduction.def, by NumPy's names.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "local/ndarray/ndarray.h"
#include "local/program/op.h"

namespace quarry::local {

// NumPy's axis=: none (all axes), one, or several. An empty list reduces no axis.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{{axis}} {}
  Axes(int64_t axis) : axes_{{axis}} {}
  Axes(std::initializer_list<int64_t> axes) : axes_(axes) {}
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}
  // Bit per axis of an array of `ndim` dimensions. Throws IndexError out of range, InvalidArgument for a duplicate.
  uint32_t mask(int ndim) const;
  bool none() const { return !axes_; }

 private:
  std::optional<std::vector<int64_t>> axes_;
};

struct ReduceOptions {
  bool keepdims = false;
  std::optional<DType> dtype = std::nullopt;  // sum, prod, mean, var, std: what they are accumulated in
  double ddof = 0;                            // var, std
};

// The shape of a reduction over the axes of `mask`.
Dims reduced_shape(const Dims& shape, uint32_t mask, bool keepdims);

// Throws TypeError, IndexError, InvalidArgument (duplicate axes; no elements where there is no identity; several axes
// for argmin and argmax), OutOfMemory. Positions of argmin and argmax count in C order over the reduced axis, or over
// the whole array. Does not wait for the result.
NdArray reduce(Reduction reduction, const NdArray& x, const Axes& axes = {}, const ReduceOptions& options = {});

namespace ops {

#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, f0, f1, f2, c0, c1, c2, finalize) \
  inline NdArray name(const NdArray& x, const Axes& axes = {}, const ReduceOptions& options = {}) {         \
    return reduce(Reduction::name, x, axes, options);                                                       \
  }
#include "local/ops/reduction.def"
#undef QUARRY_REDUCTION

}  // namespace ops
}  // namespace quarry::local
