// Reductions over axes, by NumPy's names. Lazy. `axis`: none (all axes), one, or several; an axis out of range or named
// twice throws. The result has the kept axes (with keepdims, the reduced ones with length 1).
#pragma once

#include "quarry/chunked/api/operand.h"
#include "quarry/local/program/op.h"

namespace quarry {

struct ReduceOptions {
  bool keepdims = false;
  double ddof = 0;                            // var, std
  std::optional<DType> dtype = std::nullopt;  // of the accumulation; default: NumPy's
};

// Any reduction of the table. Throws InvalidArgument for no elements where there is no identity, TypeError for a dtype
// without a loop or argmin and argmax over several axes.
Array reduce(local::Reduction reduction, const Array& x, const Axes& axis = {}, const ReduceOptions& options = {});

#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, f0, f1, f2, c0, c1, c2, finalize) \
  Array name(const Array& x, const Axes& axis = {}, const ReduceOptions& options = {});
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION

inline Array amin(const Array& x, const Axes& axis = {}, const ReduceOptions& options = {}) {
  return min(x, axis, options);
}
inline Array amax(const Array& x, const Axes& axis = {}, const ReduceOptions& options = {}) {
  return max(x, axis, options);
}

}  // namespace quarry
