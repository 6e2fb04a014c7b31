#include "quarry/chunked/api/reductions.h"

#include <fmt/format.h>

#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry {

Array reduce(local::Reduction reduction, const Array& x, const Axes& given, const ReduceOptions& options) {
  if (!given.none() && !options.axis.none())
    throw local::TypeError(fmt::format("{}() got axis twice", local::info(reduction).name));
  const Axes& axis = given.none() ? options.axis : given;
  if (options.out || options.where || options.initial || options.mean)
    throw local::NotSupported(
        fmt::format("{}() of chunked arrays takes axis, dtype, ddof and keepdims; out, where, initial and mean are for "
                    "arrays of one process",
                    local::info(reduction).name));
  const uint32_t axes = axis.mask(x.ndim());
  if (local::info(reduction).has_position && !axis.none() && axis.list().size() != 1)
    throw local::TypeError(
        fmt::format("{}() takes one axis or none, not {}", local::info(reduction).name, axis.list().size()));
  expr::NodePtr node = expr::reduce(reduction, x.node(), axes, options.dtype, options.ddof);
  if (options.keepdims) node = expr::insert_axes(node, axes);
  return Array(std::move(node));
}

}  // namespace quarry
