// States of chunks along an axis, folded by levels of neighbours until one is left. For n chunks there are at most
// log2(n) levels; a state is read once and written once per level. The order is that of the chunks, so what the folds
// give depends on the chunks alone.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/map.h"

namespace quarry::algo {
namespace {

using local::NdArray;

constexpr int64_t kMostParts = 64;  // that meet in a task

// The first part of each group of neighbours, and the end of the last.
std::vector<int64_t> groups_of(const AxisChunks& parts, int64_t most) {
  std::vector<int64_t> firsts{0};
  int64_t together = 0;
  for (int64_t i = 0; i < parts.count(); ++i) {
    const int64_t count = i - firsts.back();
    if (count == kMostParts || (count >= 2 && together + parts.size(i) > most)) {
      firsts.push_back(i);
      together = 0;
    }
    together += parts.size(i);
  }
  firsts.push_back(parts.count());
  return firsts;
}

}  // namespace

std::vector<NodePtr> merged(const Merge& merge, std::vector<NodePtr> states) {
  const auto axis = static_cast<size_t>(merge.axis);
  while (states[0]->grid.axis(merge.axis).count() > 1) {
    const AxisChunks parts = states[0]->grid.axis(merge.axis);
    const std::vector<int64_t> firsts = groups_of(parts, merge.most);
    MapSpec spec;
    spec.name = merge.name;
    spec.identity = merge.identity;
    spec.bytes_per_element = merge.bytes_per_element;
    for (size_t s = 0; s < states.size(); ++s) {
      const AxisChunks cuts = states[s]->grid.axis(merge.axis);
      std::vector<int64_t> read, made;
      for (size_t g = 0; g + 1 < firsts.size(); ++g) {
        read.push_back(cuts.start(firsts[g + 1]) - cuts.start(firsts[g]));
        made.push_back(merge.extent(s, read.back()));
      }
      std::vector<AxisChunks> axes = states[s]->grid.axes();
      std::vector<Along> along;
      for (size_t d = 0; d < axes.size(); ++d)
        along.push_back(Along::following(static_cast<int>(d), d == axis ? AxisChunks(read) : axes[d]));
      axes[axis] = AxisChunks(made);
      Grid grid(std::move(axes));
      const Dims shape = grid.shape();
      spec.along.push_back(std::move(along));
      spec.outputs.push_back({shape, states[s]->dtype, std::move(grid), /*chosen_grid=*/true});
    }
    spec.function = [fold = merge.fold, at = merge.axis, parts, firsts](std::span<const NdArray> arrays,
                                                                        const ChunkPlace& place) {
      const auto group = static_cast<size_t>(place.coordinates[at]);
      std::vector<int64_t> extents;
      for (int64_t i = firsts[group]; i < firsts[group + 1]; ++i) extents.push_back(parts.size(i));
      return fold(arrays, extents);
    };
    states = map(std::move(spec), std::move(states));
  }
  return states;
}

}  // namespace quarry::algo
