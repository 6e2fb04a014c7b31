#include "quarry/chunked/plan/stage.h"

namespace quarry::plan {

AccessMap AccessMap::identity(int ndim) {
  AccessMap map;
  for (int d = 0; d < ndim; ++d) map.axes.push_back({d, 0, 1});
  return map;
}

Region AccessMap::region(const Region& box, int array_ndim) const {
  Region region = Region::box(Dims(array_ndim, 0), Dims(array_ndim, 1));
  for (size_t d = 0; d < axes.size(); ++d) {
    const expr::View::Axis& axis = axes[d];
    if (axis.source < 0) continue;
    region.start[axis.source] = axis.start + axis.step * box.start[static_cast<int>(d)];
    region.count[axis.source] = box.count[static_cast<int>(d)];
    region.step[axis.source] = axis.step;
  }
  for (const auto& [source, position] : fixed) region.start[source] = position;
  // A box that is empty along a broadcast axis reads nothing, though no array axis says so.
  if (box.elements() == 0)
    for (int64_t& count : region.count) count = 0;
  return region;
}

}  // namespace quarry::plan
