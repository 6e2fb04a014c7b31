#include "quarry/chunked/api/stored_box.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"

namespace quarry::detail {

using local::Dims;

Dims StoredBox::shape() const {
  Dims out;
  for (int d = 0; d < region.ndim(); ++d)
    if (kept[static_cast<size_t>(d)]) out.push_back(region.count[d]);
  return out;
}

StoredBox resolve_box(std::span<const local::IndexItem> index, const Dims& shape) {
  const int ndim = shape.size();
  int named = 0, ellipses = 0;
  for (const local::IndexItem& item : index) {
    if (std::holds_alternative<local::NewAxis>(item))
      throw local::InvalidArgument("a region of a data set has no new axes");
    (std::holds_alternative<local::Ellipsis>(item) ? ellipses : named) += 1;
  }
  if (ellipses > 1) throw local::InvalidArgument("a region of a data set has one ellipsis at most");
  if (named > ndim)
    throw local::IndexError(fmt::format("a region of {} indices, and the data set has {} axes", named, ndim));
  StoredBox box{local::Region::whole(shape), std::vector<bool>(static_cast<size_t>(ndim), true)};
  int axis = 0;
  for (const local::IndexItem& item : index) {
    if (std::holds_alternative<local::Ellipsis>(item)) {
      axis += ndim - named;
      continue;
    }
    const int64_t extent = shape[axis];
    const auto position = [&](int64_t at, int64_t most) {
      const int64_t from_start = at < 0 ? at + extent : at;
      if (from_start < 0 || from_start > most)
        throw local::IndexError(
            fmt::format("index {} is outside of the data set, which has {} elements along axis {}", at, extent, axis));
      return from_start;
    };
    if (const auto* at = std::get_if<int64_t>(&item)) {
      box.region.start[axis] = position(*at, extent - 1);
      box.region.count[axis] = 1;
      box.kept[static_cast<size_t>(axis)] = false;
    } else {
      const auto& slice = std::get<local::Slice>(item);
      if (slice.step.value_or(1) != 1)
        throw local::InvalidArgument(
            fmt::format("a region of a data set has steps of 1, not {}, along axis {}", *slice.step, axis));
      const int64_t begin = position(slice.start.value_or(0), extent),
                    end = position(slice.stop.value_or(extent), extent);
      box.region.start[axis] = begin;
      box.region.count[axis] = std::max<int64_t>(0, end - begin);
    }
    ++axis;
  }
  return box;
}

}  // namespace quarry::detail
