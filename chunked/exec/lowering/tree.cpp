#include "chunked/exec/lowering/tree.h"

namespace quarry::exec {

int64_t Tree::segment_of(int64_t leaf) const {
  int64_t s = leaf * segments() / leaves;
  while (first(s) > leaf) --s;
  while (s + 1 < segments() && first(s + 1) <= leaf) ++s;
  return s;
}

int Tree::levels() const {
  int level = 0;
  while (nodes(level) > 1) ++level;
  return level;
}

std::pair<int, int64_t> Tree::solid(int level, int64_t node) const {
  while (level > 0 && 2 * node + 1 >= nodes(level - 1)) {
    --level;
    node *= 2;
  }
  return {level, node};
}

int64_t Tree::end_leaf(int level, int64_t node) const {
  const int64_t end = std::min((node + 1) << level, segments());
  return end == segments() ? leaves : first(end);
}

ReduceMap::ReduceMap(const Grid& grid, uint32_t reduce_axes) {
  std::vector<AxisChunks> axes;
  for (int d = 0; d < grid.ndim(); ++d) {
    if (reduce_axes >> d & 1) {
      reduced_axes.push_back(d);
      reduced_counts.push_back(grid.axis(d).count());
    } else {
      kept_axes.push_back(d);
      axes.push_back(grid.axis(d));
    }
  }
  kept = Grid(std::move(axes));
  tree.leaves = local::element_count(reduced_counts);
}

int64_t ReduceMap::chunk(const Grid& grid, int64_t j, int64_t leaf) const {
  Dims coordinates(grid.ndim());
  const Dims kept_coordinates = kept.coordinates(j);
  for (int k = 0; k < kept_axes.size(); ++k) coordinates[static_cast<int>(kept_axes[k])] = kept_coordinates[k];
  for (int r = reduced_axes.size() - 1; r >= 0; --r) {
    coordinates[static_cast<int>(reduced_axes[r])] = leaf % reduced_counts[r];
    leaf /= reduced_counts[r];
  }
  return grid.flat(coordinates);
}

std::pair<int64_t, int64_t> ReduceMap::split(const Grid& grid, int64_t chunk) const {
  const Dims coordinates = grid.coordinates(chunk);
  Dims kept_coordinates(kept_axes.size());
  for (int k = 0; k < kept_axes.size(); ++k) kept_coordinates[k] = coordinates[static_cast<int>(kept_axes[k])];
  int64_t leaf = 0;
  for (int r = 0; r < reduced_axes.size(); ++r)
    leaf = leaf * reduced_counts[r] + coordinates[static_cast<int>(reduced_axes[r])];
  return {kept.flat(kept_coordinates), leaf};
}

}  // namespace quarry::exec
