#include "quarry/chunked/exec/access.h"

#include "quarry/chunked/exec/stored_array.h"

namespace quarry::exec {
namespace {

// The lowest and highest position that the region touches along an axis; count > 0.
std::pair<int64_t, int64_t> span_of(const Region& region, int axis) {
  const int64_t first = region.start[axis];
  const int64_t last = first + (region.count[axis] - 1) * region.step[axis];
  return {std::min(first, last), std::max(first, last)};
}

}  // namespace

std::vector<Piece> pieces(const Grid& grid, const Region& region) {
  const int ndim = region.ndim();
  if (region.elements() == 0) return {};
  // Per axis: the runs of region positions that fall into one chunk each.
  struct Run {
    int64_t chunk, first, count;
  };
  std::vector<std::vector<Run>> runs(static_cast<size_t>(ndim));
  for (int d = 0; d < ndim; ++d) {
    const AxisChunks& axis = grid.axis(d);
    const int64_t step = region.step[d];
    int64_t i = 0;
    while (i < region.count[d]) {
      const int64_t position = region.start[d] + i * step;
      const int64_t chunk = axis.find(position);
      int64_t count = region.count[d] - i;
      if (step > 0) count = std::min(count, (axis.start(chunk + 1) - 1 - position) / step + 1);
      if (step < 0) count = std::min(count, (position - axis.start(chunk)) / -step + 1);
      runs[static_cast<size_t>(d)].push_back({chunk, i, count});
      i += count;
    }
  }
  std::vector<Piece> result;
  Dims at(ndim);
  while (true) {
    Piece piece{0, {Dims(ndim), Dims(ndim), region.step}, Dims(ndim)};
    Dims coordinates(ndim);
    for (int d = 0; d < ndim; ++d) {
      const Run& run = runs[static_cast<size_t>(d)][static_cast<size_t>(at[d])];
      coordinates[d] = run.chunk;
      piece.offset[d] = run.first;
      piece.region.start[d] = region.start[d] + run.first * region.step[d];
      piece.region.count[d] = run.count;
    }
    piece.chunk = grid.flat(coordinates);
    result.push_back(std::move(piece));
    int d = ndim - 1;
    while (d >= 0 && ++at[d] == static_cast<int64_t>(runs[static_cast<size_t>(d)].size())) at[d--] = 0;
    if (d < 0) return result;
  }
}

Access resolve(const plan::ArrayRef& array, const Grid& grid, int64_t itemsize, const Region& region, int rank,
               const Ownership& owners) {
  Access access;
  access.region = region;
  const int ndim = region.ndim();
  if (array.kind == plan::ArrayRef::Kind::dataset || region.elements() == 0) {
    // Nothing is read of an empty region; a packed block of no bytes stands for it.
    access.kind = array.kind == plan::ArrayRef::Kind::dataset ? Access::Kind::read : Access::Kind::gather;
    access.strides = local::contiguous_strides(region.count, itemsize);
    return access;
  }
  Dims coordinates(ndim);
  for (int d = 0; d < ndim; ++d) {
    const auto [low, high] = span_of(region, d);
    coordinates[d] = grid.axis(d).find(low);
    if (grid.axis(d).find(high) != coordinates[d]) {
      access.kind = Access::Kind::gather;
      access.strides = local::contiguous_strides(region.count, itemsize);
      return access;
    }
  }
  access.chunk = grid.flat(coordinates);
  const Region chunk = grid.chunk(access.chunk);
  access.chunk_shape = chunk.count;
  const bool everywhere = array.kind == plan::ArrayRef::Kind::stored && array.stored->replicated();
  access.owner = everywhere ? rank : owners.owner(access.chunk, grid.count());
  Dims layout = chunk.count;
  Dims origin = chunk.start;
  if (access.owner == rank) {
    access.kind = Access::Kind::chunk;
  } else {
    access.kind = Access::Kind::receive;
    access.box_start = Dims(ndim);
    access.box_count = Dims(ndim);
    for (int d = 0; d < ndim; ++d) {
      const auto [low, high] = span_of(region, d);
      access.box_start[d] = low - chunk.start[d];
      access.box_count[d] = high - low + 1;
      origin[d] = low;
    }
    layout = access.box_count;
  }
  access.strides = local::contiguous_strides(layout, itemsize);
  for (int d = 0; d < ndim; ++d) {
    access.offset += (region.start[d] - origin[d]) * access.strides[d];
    access.strides[d] *= region.step[d];
  }
  return access;
}

Dims space_strides(const plan::AccessMap& map, const Dims& strides) {
  Dims result(static_cast<int>(map.axes.size()));
  for (int d = 0; d < result.size(); ++d) {
    const int source = map.axes[static_cast<size_t>(d)].source;
    result[d] = source < 0 ? 0 : strides[source];
  }
  return result;
}

std::vector<Region> linear_boxes(const Dims& shape, int64_t begin, int64_t end) {
  std::vector<Region> boxes;
  const int ndim = shape.size();
  const Dims strides = local::contiguous_strides(shape, 1);
  while (begin < end) {
    // The largest box from `begin`: whole sub-arrays along the outermost axis that `begin` is aligned to and that still
    // fit.
    Region box = Region::box(Dims(ndim, 0), Dims(ndim, 1));
    int64_t rest = begin;
    for (int d = 0; d < ndim; ++d) {
      box.start[d] = rest / strides[d];
      rest %= strides[d];
    }
    int axis = ndim - 1;
    for (int d = 0; d < ndim; ++d) {
      if (begin % strides[d] == 0 && begin + strides[d] <= end) {
        axis = d;
        break;
      }
    }
    int64_t taken = 1;
    if (ndim > 0) {
      box.count[axis] = std::min(shape[axis] - box.start[axis], (end - begin) / strides[axis]);
      for (int d = axis + 1; d < ndim; ++d) box.count[d] = shape[d];
      taken = box.count[axis] * strides[axis];
    }
    begin += taken;
    boxes.push_back(std::move(box));
  }
  return boxes;
}

std::pair<int64_t, int64_t> linear_range(const Dims& shape, const Region& box) {
  const Dims strides = local::contiguous_strides(shape, 1);
  int64_t begin = 0;
  bool inner_whole = true;  // every axis inside the current one is whole
  for (int d = shape.size() - 1; d >= 0; --d) {
    begin += box.start[d] * strides[d];
    QUARRY_CHECK(inner_whole || box.count[d] == 1);
    inner_whole = inner_whole && box.count[d] == shape[d];
  }
  return {begin, begin + box.elements()};
}

}  // namespace quarry::exec
