#include "quarry/chunked/exec/lowering/copies.h"

#include <algorithm>

namespace quarry::exec {

std::vector<CopyRegion> copy_regions(const plan::Stage& stage, int64_t chunk) {
  const auto& assemble = std::get<plan::Assemble>(stage.work);
  const int64_t itemsize = local::itemsize(stage.outputs[0].dtype);
  const Region box = stage.outputs[0].grid.chunk(chunk);
  std::vector<CopyRegion> parts;
  if (assemble.linear) {
    const auto [begin, end] = linear_range(stage.outputs[0].shape, box);
    int64_t at = begin;
    for (Region& source : linear_regions(assemble.hyperslabs[0].count, begin, end)) {
      const int64_t elements = source.elements();
      Dims strides = local::contiguous_strides(source.count, itemsize);
      parts.push_back({&assemble.hyperslabs[0].input, std::move(source), (at - begin) * itemsize, std::move(strides)});
      at += elements;
    }
    return parts;
  }
  const Dims strides = local::contiguous_strides(box.count, itemsize);
  for (const auto& part : assemble.hyperslabs) {
    Region inside = Region::box(Dims::filled(box.ndim()), Dims::filled(box.ndim()));
    int64_t offset = 0;
    bool empty = false;
    for (int d = 0; d < box.ndim(); ++d) {
      const int64_t first = std::max(box.start[d], part.offset[d]);
      const int64_t end = std::min(box.start[d] + box.count[d], part.offset[d] + part.count[d]);
      empty = empty || end <= first;
      inside.start[d] = first - part.offset[d];
      inside.count[d] = end - first;
      offset += (first - box.start[d]) * strides[d];
    }
    if (!empty) parts.push_back({&part.input, std::move(inside), offset, strides});
  }
  return parts;
}

std::vector<CopySegment> copy_segments(const std::vector<CopyRegion>& parts, int rank, const Ownership& owners) {
  std::vector<CopySegment> segments;
  for (const CopyRegion& part : parts) {
    const plan::Input& input = *part.input;
    const int64_t itemsize = local::itemsize(input.dtype);
    const Region region = input.map.region(part.box, input.shape.size());
    if (region.elements() == 0) continue;
    if (input.array.kind == plan::ArrayRef::Kind::dataset) {
      CopySegment segment{resolve(input.array, input.grid, itemsize, region, rank, owners),
                          part.box.count,
                          {},
                          part.strides,
                          part.offset,
                          input.dtype,
                          input.array.dataset->info().swapped,
                          /*conjugate=*/false,
                          &input};
      segment.source_strides = space_strides(input.map, segment.access.strides);
      segments.push_back(std::move(segment));
      continue;
    }
    for (ChunkRegion& overlap : chunk_regions(input.grid, region)) {
      CopySegment segment{resolve(input.array, input.grid, itemsize, overlap.region, rank, owners),
                          part.box.count,
                          {},
                          part.strides,
                          part.offset,
                          input.dtype,
                          /*swapped=*/false,
                          /*conjugate=*/false,
                          &input};
      for (int d = 0; d < segment.count.size(); ++d) {
        const int source = input.map.axes[static_cast<size_t>(d)].source;
        if (source < 0) continue;
        segment.count[d] = overlap.region.count[source];
        segment.offset += overlap.offset[source] * part.strides[d];
      }
      segment.source_strides = space_strides(input.map, segment.access.strides);
      segments.push_back(std::move(segment));
    }
  }
  return segments;
}

}  // namespace quarry::exec
