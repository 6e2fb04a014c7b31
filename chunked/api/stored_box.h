// Which elements of a data set an index means that may be written.
#pragma once

#include <span>
#include <vector>

#include "quarry/local/base/shape.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::detail {

struct StoredBox {
  local::Region region;    // of all axes
  std::vector<bool> kept;  // by axis: not picked by an integer
  // Of the elements, without the axes that an integer picks from.
  local::Dims shape() const;
};
// Throws IndexError where the index passes the end or has too many terms, InvalidArgument for steps other than 1, new
// axes and a second ellipsis.
StoredBox resolve_box(std::span<const local::IndexItem> index, const local::Dims& shape);

}  // namespace quarry::detail
