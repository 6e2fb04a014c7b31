#include "quarry/chunked/exec/lowering/copies.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace quarry::exec {

CopyRegion copy_region(const plan::Stage& stage, int64_t chunk) {
  const plan::Input& input = std::get<plan::Assemble>(stage.work).input;
  const Region box = stage.grid.chunk(chunk);
  return {&input, box, 0, local::contiguous_strides(box.count, local::itemsize(input.dtype))};
}

namespace {

std::vector<CopySegment> segments_with(const std::vector<CopyRegion>& parts, const CopyRules& rules, OwnParts own) {
  std::vector<CopySegment> segments;
  for (const CopyRegion& part : parts) {
    const plan::Input& input = *part.input;
    const bool is_diagonal = !input.map.beside.empty();
    if (const std::vector<Region> boxes = is_diagonal ? parts_of(input, part.box) : std::vector<Region>();
        boxes.size() > 1) {
      for (const Region& box : boxes) {
        CopyRegion one{part.input, box, part.offset, part.strides};
        for (int d = 0; d < box.ndim(); ++d) one.offset += (box.start[d] - part.box.start[d]) * part.strides[d];
        std::vector<CopySegment> more = segments_with({one}, rules, own);
        std::ranges::move(more, std::back_inserter(segments));
      }
      continue;
    }
    const int64_t itemsize = local::itemsize(input.dtype);
    const Region region = input.map.region(part.box, input.shape.size());
    if (region.elements() == 0) continue;
    if (input.array.kind == plan::ArrayRef::Kind::dataset) {
      CopySegment segment{resolve(input, part.box, rules.rank, rules.owners),
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
    const std::vector<ChunkRegion> overlaps = chunk_regions(input.grid, region);
    const Region* const share = own == OwnParts::whole ? rules.shares.of(&input) : nullptr;
    if (segments.empty()) segments.reserve(overlaps.size());
    for (const ChunkRegion& overlap : overlaps) {
      CopySegment segment{resolve(input.array, input.grid, itemsize, overlap, rules.rank, rules.owners, own, share),
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

// What a task holds of own chunks, and of what comes with its parts of others, each once.
int64_t held_bytes(const std::vector<CopySegment>& segments) {
  using Chunk = std::tuple<const void*, int, int, int64_t, int64_t>;  // of which array, number, bytes
  std::vector<Chunk> chunks;
  chunks.reserve(segments.size());
  for (const CopySegment& segment : segments) {
    const Access& access = segment.access;
    if (access.kind != Access::Kind::chunk && access.kind != Access::Kind::box) continue;
    const plan::ArrayRef& array = segment.input->array;
    const Dims& held = access.kind == Access::Kind::chunk ? access.chunk_shape : access.cover_count;
    chunks.emplace_back(array.stored.get(), array.stage, array.output, access.chunk,
                        local::element_count(held) * local::itemsize(segment.dtype));
  }
  std::ranges::sort(chunks);
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  int64_t bytes = 0;
  for (const Chunk& chunk : chunks) bytes += std::get<4>(chunk);
  return bytes;
}

}  // namespace

std::vector<CopySegment> copy_segments(const std::vector<CopyRegion>& parts, const CopyRules& rules) {
  if (!rules.visits && rules.room == 0) return segments_with(parts, rules, OwnParts::packed);
  std::vector<CopySegment> whole = segments_with(parts, rules, OwnParts::whole);
  if (rules.visits) return whole;
  int64_t held = held_bytes(whole);
  for (const CopyRegion& part : parts) held += part.box.elements() * local::itemsize(part.input->dtype);
  if (held <= rules.room) return whole;
  return segments_with(parts, rules, OwnParts::packed);
}

void lower_copies(Builder& builder, CopyRegions regions) {
  const plan::Stage& stage = builder.stage();
  const Grid& grid = stage.outputs[0].grid;
  CopyRules rules = builder.copy_rules();
  if (rules.room > 0) builder.result().grouped = true;
  if (builder.takes_shares()) {
    for (const int64_t chunk : builder.owned())
      for (const CopyRegion& part : regions(chunk))
        rules.shares.add(part.input, part.input->map.region(part.box, part.input->shape.size()));
  }
  auto segments = [regions = std::move(regions), rules = std::move(rules)](int64_t chunk) {
    return copy_segments(regions(chunk), rules);
  };
  const int32_t number = builder.add_body<CopyBody>(stage.label, segments).first;
  std::vector<CopySegment> before;
  Builder::Cost cost;
  std::vector<scheduler::BlockId> inputs;
  bool is_first = true;
  for (const int64_t chunk : builder.owned()) {
    std::vector<CopySegment> now = segments(chunk);
    inputs.clear();
    for (const CopySegment& segment : now) inputs.push_back(builder.prefetch(*segment.input, segment.access));
    const int64_t bytes = grid.chunk_elements(chunk) * local::itemsize(stage.outputs[0].dtype);
    const scheduler::BlockId output = builder.add_output(0, chunk, bytes);
    // Most chunks are copied together as the one before.
    if (std::exchange(is_first, false) || bytes != cost.traffic_bytes || !std::ranges::equal(now, before, are_alike))
      cost = builder.copy_cost(now, bytes);
    builder.add_compute(number, chunk, {builder.progress(chunk), kMain}, cost, inputs, {output},
                        scheduler::TaskKind::copy);
    before = std::move(now);
  }
}

void lower_work(Builder& builder, const plan::Assemble& /*assemble*/) {
  lower_copies(builder, [&stage = builder.stage()](int64_t chunk) { return std::vector{copy_region(stage, chunk)}; });
}

}  // namespace quarry::exec
