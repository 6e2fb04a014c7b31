#include "quarry/chunked/grid/tree.h"

namespace quarry {

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
    const bool reduced = (reduce_axes >> d & 1) != 0;
    axes_.insert(axes_.begin(), {grid.axis(d).count(), reduced});
    if (reduced) {
      tree.leaves *= grid.axis(d).count();
    } else {
      axes.push_back(grid.axis(d));
    }
  }
  kept = Grid(std::move(axes));
}

int64_t ReduceMap::chunk(int64_t j, int64_t leaf) const {
  int64_t chunk = 0, weight = 1;
  for (const Axis& axis : axes_) {
    int64_t& from = axis.reduced ? leaf : j;
    chunk += from % axis.count * weight;
    from /= axis.count;
    weight *= axis.count;
  }
  return chunk;
}

std::pair<int64_t, int64_t> ReduceMap::split(int64_t chunk) const {
  int64_t j = 0, leaf = 0, kept_weight = 1, leaf_weight = 1;
  for (const Axis& axis : axes_) {
    int64_t& to = axis.reduced ? leaf : j;
    int64_t& weight = axis.reduced ? leaf_weight : kept_weight;
    to += chunk % axis.count * weight;
    chunk /= axis.count;
    weight *= axis.count;
  }
  return {j, leaf};
}

}  // namespace quarry
