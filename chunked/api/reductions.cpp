#include "quarry/chunked/api/reductions.h"

#include <fmt/format.h>

#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry {

uint32_t Axes::mask(int ndim) const {
  if (all()) return ndim >= 32 ? ~uint32_t{0} : (uint32_t{1} << ndim) - 1;
  uint32_t mask = 0;
  for (int64_t axis : list()) {
    // As NumPy, axis 0 of a 0-d array means the array.
    if (ndim == 0 && (axis == 0 || axis == -1)) continue;
    const uint32_t bit = uint32_t{1} << local::normalize_axis(axis, ndim);
    if (mask & bit) throw local::InvalidArgument("duplicate value in 'axis'");
    mask |= bit;
  }
  return mask;
}

Array reduce(local::Reduction reduction, const Array& x, const Axes& axis, const ReduceOptions& options) {
  const uint32_t axes = axis.mask(x.ndim());
  if (local::info(reduction).has_position && !axis.all() && axis.list().size() != 1)
    throw local::TypeError(
        fmt::format("{}() takes one axis or none, not {}", local::info(reduction).name, axis.list().size()));
  expr::NodePtr node = expr::reduce(reduction, x.node(), axes, options.dtype, options.ddof);
  if (options.keepdims) node = expr::insert_axes(node, axes);
  return Array(std::move(node));
}

#define QUARRY_REDUCING(name, function)                                            \
  Array function(const Array& x, const Axes& axis, const ReduceOptions& options) { \
    return reduce(local::named_reduction<#name>(), x, axis, options);              \
  }
#define QUARRY_REDUCTION(name, aliases, ...) QUARRY_REDUCING(name, name) QUARRY_EACH(QUARRY_REDUCING, name, aliases)
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
#undef QUARRY_REDUCING

}  // namespace quarry
