#include "quarry/chunked/exec/access.h"

#include <algorithm>

#include "quarry/chunked/exec/stored_array.h"
#include "quarry/chunked/plan/grids.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {
namespace {

// The lowest and highest position that the region touches along an axis; count > 0.
std::pair<int64_t, int64_t> span_of(const Region& region, int axis) {
  const int64_t first = region.start[axis];
  const int64_t last = first + (region.count[axis] - 1) * region.step[axis];
  return {std::min(first, last), std::max(first, last)};
}

// Whether a part of an own chunk comes by itself.
bool is_packed(const Access& access, int64_t itemsize, OwnParts parts) {
  const int64_t chunk = local::element_count(access.chunk_shape), part = local::element_count(access.cover_count);
  switch (parts) {
    case OwnParts::whole_if_large:
      return plan::is_taken_out(chunk * itemsize, part * itemsize);
    case OwnParts::packed:
      return part < chunk;
    case OwnParts::whole:
      return false;
  }
  __builtin_unreachable();
}

}  // namespace

std::vector<ChunkRegion> chunk_regions(const Grid& grid, const Region& region) {
  const int ndim = region.ndim();
  if (region.elements() == 0) return {};
  // Per axis: the runs of region positions that fall into one chunk each.
  struct Run {
    int64_t chunk, first, count, chunk_start, chunk_extent;
  };
  std::vector<std::vector<Run>> runs(static_cast<size_t>(ndim));
  for (int d = 0; d < ndim; ++d) {
    const AxisChunks& axis = grid.axis(d);
    const int64_t step = region.step[d];
    int64_t i = 0;
    while (i < region.count[d]) {
      const int64_t position = region.start[d] + i * step;
      const int64_t chunk = axis.find(position);
      const int64_t start = axis.start(chunk), end = axis.start(chunk + 1);
      int64_t count = region.count[d] - i;
      if (step > 0) count = std::min(count, (end - 1 - position) / step + 1);
      if (step < 0) count = std::min(count, (position - start) / -step + 1);
      runs[static_cast<size_t>(d)].push_back({chunk, i, count, start, end - start});
      i += count;
    }
  }
  size_t count = 1;
  for (const std::vector<Run>& along : runs) count *= along.size();
  std::vector<ChunkRegion> result;
  result.reserve(count);
  Dims at = Dims::filled(ndim);
  // Most of a part is that of the one before.
  ChunkRegion part{0, region, at, at, at};
  while (true) {
    part.chunk = 0;
    for (int d = 0; d < ndim; ++d) {
      const Run& run = runs[static_cast<size_t>(d)][static_cast<size_t>(at[d])];
      part.chunk = part.chunk * grid.axis(d).count() + run.chunk;
      part.offset[d] = run.first;
      part.region.start[d] = region.start[d] + run.first * region.step[d];
      part.region.count[d] = run.count;
      part.chunk_start[d] = run.chunk_start;
      part.chunk_shape[d] = run.chunk_extent;
    }
    result.push_back(part);
    int d = ndim - 1;
    while (d >= 0 && ++at[d] == static_cast<int64_t>(runs[static_cast<size_t>(d)].size())) at[d--] = 0;
    if (d < 0) return result;
  }
}

const Owners& owners_of(const plan::ArrayRef& array) {
  return array.kind == plan::ArrayRef::Kind::stored ? array.stored->owners() : array.owners;
}

Access resolve(const plan::ArrayRef& array, const Grid& grid, int64_t itemsize, const Region& region, int rank,
               const Ownership& owners, OwnParts parts) {
  Access access;
  access.region = region;
  const int ndim = region.ndim();
  const bool comes_packed = array.kind == plan::ArrayRef::Kind::dataset || array.kind == plan::ArrayRef::Kind::made;
  if (comes_packed || region.elements() == 0) {
    // Nothing is read of an empty region; a packed block of no bytes stands for it.
    access.kind = array.kind == plan::ArrayRef::Kind::dataset ? Access::Kind::read : Access::Kind::gather;
    access.strides = local::contiguous_strides(region.count, itemsize);
    return access;
  }
  ChunkRegion part{0, region, {}, Dims::filled(ndim), Dims::filled(ndim)};
  for (int d = 0; d < ndim; ++d) {
    const AxisChunks& axis = grid.axis(d);
    const auto [low, high] = span_of(region, d);
    const int64_t chunk = axis.find(low), start = axis.start(chunk), end = axis.start(chunk + 1);
    if (high >= end) {
      access.kind = Access::Kind::gather;
      access.strides = local::contiguous_strides(region.count, itemsize);
      return access;
    }
    part.chunk = part.chunk * axis.count() + chunk;
    part.chunk_start[d] = start;
    part.chunk_shape[d] = end - start;
  }
  return resolve(array, grid, itemsize, part, rank, owners, parts);
}

void Shares::add(const plan::Input* input, const Region& region) {
  if (region.elements() == 0) return;
  auto share = std::ranges::find(shares_, input, &Share::input);
  if (share == shares_.end()) share = shares_.insert(share, {input, region});
  share->elements += region.elements();
  share->has_steps |= !region.contiguous_steps();
  for (int d = 0; d < region.ndim(); ++d) {
    const int64_t end = std::max(share->box.start[d] + share->box.count[d], region.start[d] + region.count[d]);
    share->box.start[d] = std::min(share->box.start[d], region.start[d]);
    share->box.count[d] = end - share->box.start[d];
  }
}

const Region* Shares::of(const plan::Input* input) const {
  const auto share = std::ranges::find(shares_, input, &Share::input);
  if (share == shares_.end() || share->has_steps || share->elements != share->box.elements()) return nullptr;
  return &share->box;
}

Access resolve(const plan::ArrayRef& array, const Grid& grid, int64_t itemsize, const ChunkRegion& part, int rank,
               const Ownership& owners, OwnParts parts, const Region* share) {
  // Asking for a part takes a few microseconds, in which this many bytes come from another device.
  constexpr int64_t kLargePart = int64_t{4} << 20;
  QUARRY_CHECK(array.kind == plan::ArrayRef::Kind::stage || array.kind == plan::ArrayRef::Kind::stored);
  Access access;
  access.region = part.region;
  access.chunk = part.chunk;
  access.chunk_shape = part.chunk_shape;
  const Owners& dealt = owners_of(array);
  const bool everywhere = dealt.kind == Owners::Kind::everywhere;
  access.owner = owners.source(dealt, grid, access.chunk, rank);
  access.cover_start = access.cover_count = part.chunk_start;
  for (int d = 0; d < access.cover_start.size(); ++d) {
    const auto [low, high] = span_of(part.region, d);
    access.cover_start[d] = low - part.chunk_start[d];
    access.cover_count[d] = high - low + 1;
  }
  const bool as_it_lies = access.owner == rank && (everywhere || !is_packed(access, itemsize, parts));
  access.kind = as_it_lies ? Access::Kind::chunk : Access::Kind::box;
  if (share != nullptr && access.owner != rank && local::element_count(access.cover_count) * itemsize < kLargePart) {
    for (int d = 0; d < access.cover_start.size(); ++d) {
      const int64_t begin = std::max(share->start[d] - part.chunk_start[d], int64_t{0});
      const int64_t end = std::min(share->start[d] + share->count[d] - part.chunk_start[d], part.chunk_shape[d]);
      access.cover_start[d] = begin;
      access.cover_count[d] = end - begin;
    }
  }
  access.strides = local::contiguous_strides(as_it_lies ? access.chunk_shape : access.cover_count, itemsize);
  for (int d = 0; d < access.strides.size(); ++d) {
    const int64_t origin = part.chunk_start[d] + (as_it_lies ? 0 : access.cover_start[d]);
    access.offset += (part.region.start[d] - origin) * access.strides[d];
    access.strides[d] *= part.region.step[d];
  }
  return access;
}

Access resolve(const plan::Input& input, const Region& box, int rank, const Ownership& owners) {
  const int64_t itemsize = local::itemsize(input.dtype);
  Access access = resolve(input.array, input.grid, itemsize, input.region(box), rank, owners);
  if (input.map.beside.empty() || access.kind != Access::Kind::read || access.region.elements() == 0) return access;
  for (size_t d = 0; d < input.map.axes.size(); ++d) {
    std::vector<int> axes{input.map.axes[d].source};
    for (const auto& [at, axis] : input.map.beside)
      if (at == static_cast<int>(d)) axes.push_back(axis.source);
    if (axes.size() > 1) access.together.push_back(std::move(axes));
  }
  Dims count = access.region.count;
  for (const std::vector<int>& axes : access.together)
    for (const int axis : axes) count[axis] = 1;
  access.strides = local::contiguous_strides(count, itemsize);
  int64_t bytes = local::element_count(count) * itemsize;
  for (size_t g = access.together.size(); g-- > 0;) {
    for (const int axis : access.together[g]) access.strides[axis] = 0;
    const int lead = access.together[g][0];
    access.strides[lead] = bytes;
    bytes *= access.region.count[lead];
  }
  return access;
}

std::vector<Region> parts_of(const plan::Input& input, const Region& box) {
  constexpr int64_t kMostColumns = 64;  // the box around what another rank sends has as many
  if (input.map.beside.empty() || input.array.kind == plan::ArrayRef::Kind::dataset) return {box};
  std::vector<Region> parts{box};
  for (const auto& [d, beside] : input.map.beside) {
    const expr::View::Axis* const axes[] = {&input.map.axes[static_cast<size_t>(d)], &beside};
    std::vector<Region> cut;
    for (const Region& part : parts) {
      for (int64_t done = 0; done < part.count[d];) {
        int64_t count = std::min(part.count[d] - done, kMostColumns);
        for (const expr::View::Axis* axis : axes) {
          const AxisChunks& cuts = input.grid.axis(axis->source);
          const int64_t first = axis->start + axis->step * (part.start[d] + done), chunk = cuts.find(first);
          while (cuts.find(first + axis->step * (count - 1)) != chunk) --count;
        }
        Region piece = part;
        piece.start[d] += done;
        piece.count[d] = count;
        cut.push_back(std::move(piece));
        done += count;
      }
    }
    parts = std::move(cut);
  }
  return parts;
}

Dims space_strides(const plan::AccessMap& map, const Dims& strides) {
  Dims result = Dims::filled(static_cast<int>(map.axes.size()));
  for (int d = 0; d < result.size(); ++d) {
    const int source = map.axes[static_cast<size_t>(d)].source;
    result[d] = source < 0 ? 0 : strides[source];
  }
  for (const auto& [d, axis] : map.beside) result[d] += strides[axis.source];
  return result;
}

Placed place_of(const plan::Input& input, const Dims& offset, const Region& box, const Access& access) {
  if (!input.is_window() || access.region.elements() == 0)
    return {access.offset, space_strides(input.map, access.strides)};
  const Region view = input.map.region(box, input.shape.size());
  Dims strides = access.strides;
  int64_t bytes = access.offset;
  for (int d = 0; d < strides.size(); ++d) {
    if (input.reach[d] == 0) continue;
    bytes += (view.start[d] + offset[d] - access.region.start[d]) / input.pitch[d] * strides[d];
    strides[d] *= view.step[d] / input.pitch[d];
  }
  return {bytes, space_strides(input.map, strides)};
}

std::vector<Region> linear_regions(const Dims& shape, int64_t begin, int64_t end) {
  std::vector<Region> regions;
  const int ndim = shape.size();
  const Dims strides = local::contiguous_strides(shape, 1);
  while (begin < end) {
    // The largest region from `begin`: whole sub-arrays along the outermost axis that `begin` is aligned to and that
    // still fit.
    Region region = Region::box(Dims::filled(ndim, 0), Dims::filled(ndim, 1));
    int64_t rest = begin;
    for (int d = 0; d < ndim; ++d) {
      region.start[d] = rest / strides[d];
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
      region.count[axis] = std::min(shape[axis] - region.start[axis], (end - begin) / strides[axis]);
      for (int d = axis + 1; d < ndim; ++d) region.count[d] = shape[d];
      taken = region.count[axis] * strides[axis];
    }
    begin += taken;
    regions.push_back(std::move(region));
  }
  return regions;
}

std::pair<int64_t, int64_t> linear_range(const Dims& shape, const Region& region) {
  const Dims strides = local::contiguous_strides(shape, 1);
  int64_t begin = 0;
  bool inner_whole = true;  // every axis inside the current one is whole
  for (int d = shape.size() - 1; d >= 0; --d) {
    begin += region.start[d] * strides[d];
    QUARRY_CHECK(inner_whole || region.count[d] == 1);
    inner_whole = inner_whole && region.count[d] == shape[d];
  }
  return {begin, begin + region.elements()};
}

}  // namespace quarry::exec
