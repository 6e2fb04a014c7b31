#include "quarry/chunked/api/joining.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/api/compose.h"
#include "quarry/local/base/error.h"

namespace quarry {

using namespace compose;

Array concat(const std::vector<Array>& arrays, std::optional<int64_t> axis) { return concatenate(arrays, axis); }

Array vstack(const std::vector<Array>& tup) { return concatenate(arrange::all_at_least(tup, 2), 0); }
Array hstack(const std::vector<Array>& tup) {
  const std::vector<Array> arrays = arrange::all_at_least(tup, 1);
  return concatenate(arrays, !arrays.empty() && arrays[0].ndim() == 1 ? 0 : 1);
}
Array dstack(const std::vector<Array>& tup) { return concatenate(arrange::all_at_least(tup, 3), 2); }
Array column_stack(const std::vector<Array>& tup) { return concatenate(arrange::as_columns(tup), 1); }

Array append(const Array& arr, const Array& values, std::optional<int64_t> axis) { return concat({arr, values}, axis); }

namespace {

using arrange::BlockDepth;
using arrange::depth_of;

Array block_of(const Blocks& blocks, int ndim, int depth) {
  if (!blocks.is_list()) return arrange::with_leading_axes(blocks.array(), ndim);
  std::vector<Array> parts;
  for (const Blocks& part : blocks.list()) parts.push_back(block_of(part, ndim, depth - 1));
  const int axis = ndim - depth;
  for (const Array& part : parts) {
    for (int d = 0; d < ndim; ++d) {
      if (d == axis || part.shape()[d] == parts[0].shape()[d]) continue;
      throw InvalidArgument(fmt::format("Mismatched array shapes in block along axis {}: {} and {}", axis,
                                        local::to_string(parts[0].shape()), local::to_string(part.shape())));
    }
  }
  return concatenate(parts, axis);
}

}  // namespace

Array block(const Blocks& arrays) {
  const BlockDepth depth = depth_of(arrays);
  const int ndim = std::max(depth.lists, depth.ndim);
  return depth.lists == 0 ? arrays.array() : block_of(arrays, ndim, depth.lists);
}

namespace {

// The extents along an axis of arrays that lie one after the other; all rows of blocks must have the same ones.
std::vector<int64_t> extents_along(const Blocks& blocks, int axis, int ndim, int depth) {
  if (!blocks.is_list()) return {arrange::with_leading_axes(blocks.array(), ndim).shape()[axis]};
  std::vector<int64_t> extents;
  for (const Blocks& part : blocks.list()) {
    std::vector<int64_t> next = extents_along(part, axis, ndim, depth - 1);
    if (extents.empty()) {
      extents = std::move(next);
    } else if (ndim - depth == axis) {
      extents.insert(extents.end(), next.begin(), next.end());
    } else if (next != extents) {
      throw InvalidArgument(
          fmt::format("from_blocks: the blocks are no grid; along axis {} they have extents {} and {}", axis,
                      fmt::join(extents, ", "), fmt::join(next, ", ")));
    }
  }
  return extents;
}

}  // namespace

Array from_blocks(const Blocks& arrays) {
  const Array whole = block(arrays);
  const BlockDepth depth = depth_of(arrays);
  std::vector<AxisChunks> axes;
  for (int d = 0; d < whole.ndim(); ++d) {
    axes.emplace_back(extents_along(arrays, d, whole.ndim(), depth.lists));
  }
  return whole.rechunk(Grid(std::move(axes)));
}

std::vector<Array> array_split(const Array& ary, const Ints& indices_or_sections, int64_t axis) {
  return arrange::array_split(ary, indices_or_sections, axis);
}
std::vector<Array> split(const Array& ary, const Ints& indices_or_sections, int64_t axis) {
  return arrange::split(ary, indices_or_sections, axis);
}
std::vector<Array> hsplit(const Array& ary, const Ints& indices_or_sections) {
  return arrange::hsplit(ary, indices_or_sections);
}
std::vector<Array> vsplit(const Array& ary, const Ints& indices_or_sections) {
  return arrange::vsplit(ary, indices_or_sections);
}
std::vector<Array> dsplit(const Array& ary, const Ints& indices_or_sections) {
  return arrange::dsplit(ary, indices_or_sections);
}
std::vector<Array> unstack(const Array& x, int64_t axis) { return arrange::unstack(x, axis); }

std::vector<Array> broadcast_arrays(const std::vector<Array>& args) {
  std::vector<Dims> shapes;
  for (const Array& a : args) shapes.push_back(a.shape());
  const Dims shape = args.empty() ? Dims() : local::broadcast_shapes(shapes);
  std::vector<Array> results;
  for (const Array& a : args) results.push_back(broadcast_to(a, shape));
  return results;
}

}  // namespace quarry
