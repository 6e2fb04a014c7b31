#include "quarry/chunked/exec/bodies/fused.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/chunked/exec/bodies/aggregate.h"
#include "quarry/chunked/exec/bodies/operand.h"
#include "quarry/chunked/exec/bodies/scratch_pool.h"
#include "quarry/chunked/exec/stored_array.h"

namespace quarry::exec {
namespace {

std::vector<local::Program> combine_programs(const local::Program& program) {
  std::vector<local::Program> programs;
  for (const auto& r : program.reductions()) {
    programs.push_back(local::combine_program(r.reduction, r.accumulate));
    programs.back().keep_key();
  }
  return programs;
}

// Fields of reduction `r` in a block.
std::vector<local::Operand> fields_of(const AggregateLayout& layout, int reduction, void* block,
                                      const Dims& strides_elems) {
  std::vector<local::Operand> operands;
  for (const AggregateLayout::Field& field : layout.fields) {
    if (field.reduction != reduction) continue;
    Dims strides = strides_elems;
    for (int64_t& stride : strides) stride *= local::itemsize(field.dtype);
    operands.push_back({static_cast<std::byte*>(block) + field.offset, std::move(strides)});
  }
  return operands;
}

// The launch of combine program `r`: into = combine(into, from) over `shape`; `offset` elements into the fields of
// `into`.
local::Launch merge_launch(int r, const AggregateLayout& into_layout, void* into, const Dims& into_strides,
                           int64_t into_offset, const AggregateLayout& from_layout, void* from,
                           const Dims& from_strides, const Dims& shape) {
  local::Launch launch;
  launch.shape = shape;
  launch.inputs = fields_of(into_layout, r, into, into_strides);
  size_t field = 0;
  for (const AggregateLayout::Field& f : into_layout.fields) {
    if (f.reduction != r) continue;
    auto*& data = launch.inputs[field++].data;
    data = static_cast<std::byte*>(data) + into_offset * local::itemsize(f.dtype);
  }
  launch.outputs = launch.inputs;
  for (local::Operand& operand : fields_of(from_layout, r, from, from_strides))
    launch.inputs.push_back(std::move(operand));
  return launch;
}

void merge(const std::vector<local::Program>& combine, const AggregateLayout& into_layout, void* into,
           const Dims& into_strides, int64_t into_offset, const AggregateLayout& from_layout, void* from,
           const Dims& from_strides, const Dims& shape, const local::ExecContext& context) {
  for (size_t r = 0; r < combine.size(); ++r) {
    const local::Launch launch = merge_launch(static_cast<int>(r), into_layout, into, into_strides, into_offset,
                                              from_layout, from, from_strides, shape);
    local::engine(context.device).run(combine[r], launch, context);
  }
}

// What merge() needs over `elements` states at most.
int64_t merge_scratch_bytes(const std::vector<local::Program>& combine, const AggregateLayout& layout, int64_t elements,
                            const local::Device& device) {
  int64_t bytes = 0;
  for (size_t r = 0; r < combine.size(); ++r) {
    const local::Launch launch =
        merge_launch(static_cast<int>(r), layout, nullptr, Dims{1}, 0, layout, nullptr, Dims{1}, Dims{elements});
    bytes = std::max(bytes, run_scratch_bytes(device, combine[r], launch));
  }
  return bytes;
}

Dims contiguous_elements(const Dims& shape) { return local::contiguous_strides(shape, 1); }

// What gives all states of a launch the identity: it reduces nothing.
local::Launch identity_launch(const local::Launch& whole) {
  local::Launch nothing = whole;
  for (int d = 0; d < nothing.shape.size(); ++d)
    if (whole.reduce_axes >> d & 1) nothing.shape[d] = 0;
  return nothing;
}

}  // namespace

FusedBody::FusedBody(const plan::Stage& stage, int rank, const Ownership& owners, const local::Device& device,
                     int64_t room)
    : stage_(stage),
      fused_(std::get<plan::Fused>(stage.work)),
      rank_(rank),
      owners_(owners),
      device_(device),
      room_(room) {
  aligned_ = std::ranges::all_of(fused_.inputs, [&](const plan::Input& input) {
    using Kind = plan::ArrayRef::Kind;
    const bool packed = input.array.kind == Kind::dataset || input.array.kind == Kind::made;
    const bool straight = input.map.axes == plan::AccessMap::identity(stage.grid.ndim()).axes;
    return straight && input.map.fixed.empty() && input.is_box() && (packed || input.grid == stage.grid);
  });
  int64_t largest = 0;
  for (size_t i = 0; i < fused_.inputs.size(); ++i) {
    const plan::Input& input = fused_.inputs[i];
    if (input.array.kind != plan::ArrayRef::Kind::dataset || !input.is_box()) continue;
    const int64_t elements = local::element_count(input.shape);
    if (elements > largest) {
      largest = elements;
      file_input_ = static_cast<int>(i);
    }
  }
  const auto in_memory = [](const plan::Input& input) {
    return input.array.kind == plan::ArrayRef::Kind::stage || input.array.kind == plan::ArrayRef::Kind::stored;
  };
  splits_ = !reduces() && std::ranges::all_of(fused_.inputs, in_memory) &&
            std::ranges::any_of(fused_.inputs, &plan::Input::is_window);
  for (const auto& applied : fused_.made) makers_.emplace_back(*applied, rank, owners, device);
  // Operators see whole chunks.
  if (!makers_.empty()) file_input_ = -1;
  splits_ = splits_ && makers_.empty();
  if (splits_ && room_ > 0) slot_views_ = slot_views();
  // On the CPU the largest file input is computed on while it is read; whatever else the program needs arrives as
  // blocks.
  if (device.kind == local::DeviceKind::cpu) streamed_ = file_input_;
  if (streamed_ < 0) return;
  for (int slot = 0; slot < fused_.program.inputs(); ++slot)
    if (fused_.slot(slot).input == streamed_) streamed_slot_ = slot;
  copies_ = copies_streamed();
  combine_ = combine_programs(fused_.program);
}

bool FusedBody::copies_streamed() const {
  const local::Program& program = fused_.program;
  if (reduces() || fused_.inputs.size() != 1 || program.inputs() != 1 || program.outputs().size() != 1) return false;
  const local::Value& value = program.values()[static_cast<size_t>(program.outputs()[0])];
  const plan::Input& input = fused_.inputs[0];
  if (value.kind != local::Value::Kind::input || value.swapped || !input.map.fixed.empty()) return false;
  if (static_cast<int>(input.map.axes.size()) != input.shape.size()) return false;
  for (int d = 0; d < input.shape.size(); ++d) {
    const expr::View::Axis& axis = input.map.axes[static_cast<size_t>(d)];
    if (axis.source != d || axis.step != 1) return false;
  }
  return true;
}

std::string FusedBody::name(int64_t index) const {
  return fmt::format("{}[{}]", stage_.label, local::to_string(stage_.grid.coordinates(index)));
}

Region FusedBody::input_region(int input, int64_t chunk) const {
  const plan::Input& in = fused_.inputs[static_cast<size_t>(input)];
  return in.region(stage_.grid.chunk(chunk));
}

Access FusedBody::access(int input, int64_t chunk) const {
  const plan::Input& in = fused_.inputs[static_cast<size_t>(input)];
  return resolve(in, stage_.grid.chunk(chunk), rank_, owners_);
}

Access FusedBody::access(int input, const Region& part) const {
  return resolve(fused_.inputs[static_cast<size_t>(input)], part, rank_, owners_);
}

// The largest box in which every window lies inside one chunk of its array, then what is left of the chunk axis by
// axis. The whole chunk where that box would be small.
std::vector<Region> FusedBody::parts(int64_t chunk) const {
  const Region whole = stage_.grid.chunk(chunk);
  if (!splits_ || whole.elements() == 0) return {whole};
  Region inner = whole;
  for (const plan::Input& input : fused_.inputs) {
    if (!input.is_window()) continue;
    for (int d = 0; d < whole.ndim(); ++d) {
      const expr::View::Axis& axis = input.map.axes[static_cast<size_t>(d)];
      if (axis.source < 0) continue;
      const AxisChunks& cuts = input.grid.axis(axis.source);
      if (cuts.count() == 1) continue;
      if (axis.step != 1 || input.pitch[axis.source] != 1) return {whole};
      const int64_t reach = input.reach[axis.source], end = inner.start[d] + inner.count[d];
      const int64_t home = cuts.find(axis.start + inner.start[d] + (inner.count[d] + reach) / 2);
      const int64_t low = std::max(inner.start[d], cuts.start(home) - axis.start);
      const int64_t high = std::min(end, cuts.start(home + 1) - axis.start - reach);
      if (high <= low) return {whole};
      inner.start[d] = low;
      inner.count[d] = high - low;
    }
    for (const auto& [axis, position] : input.map.fixed) {
      const AxisChunks& cuts = input.grid.axis(axis);
      if (cuts.find(position) != cuts.find(position + input.reach[axis])) return {whole};
    }
  }
  if (inner.elements() < whole.elements() / 2) return {whole};
  std::vector<Region> parts{inner};
  Region rest = whole;
  for (int d = 0; d < whole.ndim(); ++d) {
    const int64_t low = inner.start[d] - rest.start[d], high = rest.count[d] - low - inner.count[d];
    const auto add = [&](int64_t start, int64_t count) {
      if (count == 0) return;
      Region part = rest;
      part.start[d] = start;
      part.count[d] = count;
      parts.push_back(std::move(part));
    };
    add(rest.start[d], low);
    add(inner.start[d] + inner.count[d], high);
    rest.start[d] = inner.start[d];
    rest.count[d] = inner.count[d];
  }
  return parts;
}

// Empty where a view takes elements that are not neighbours.
std::vector<FusedBody::SlotView> FusedBody::slot_views() const {
  std::vector<SlotView> views;
  for (int slot = 0; slot < fused_.program.inputs(); ++slot) {
    const plan::Fused::Slot from = fused_.slot(slot);
    const plan::Input& input = fused_.inputs[static_cast<size_t>(from.input)];
    if (!input.map.beside.empty()) return {};
    SlotView view{from.input, Dims::filled(input.shape.size()), Dims::filled(input.shape.size(), -1)};
    if (input.is_window()) view.begin = from.offset;
    for (const auto& [axis, position] : input.map.fixed) view.begin[axis] += position;
    for (int d = 0; d < stage_.grid.ndim(); ++d) {
      const expr::View::Axis& axis = input.map.axes[static_cast<size_t>(d)];
      if (axis.source < 0) continue;
      if (axis.step != 1) return {};
      view.begin[axis.source] += axis.start;
      view.follows[axis.source] = d;
    }
    views.push_back(std::move(view));
  }
  return views;
}

namespace {

// Positions along an axis at which boxes begin, and the end; equal distances where `even` says so.
using Bounds = std::vector<int64_t>;

int64_t count_boxes(const std::vector<Bounds>& bounds) {
  int64_t boxes = 1;
  for (const Bounds& along : bounds) boxes *= std::ssize(along) - 1;
  return boxes;
}

// The same bounds and more of them, so that all boxes are of one shape.
std::vector<Bounds> evened(const std::vector<Bounds>& bounds) {
  std::vector<Bounds> even;
  for (const Bounds& along : bounds) {
    int64_t step = 0;
    for (size_t i = 1; i < along.size(); ++i) step = std::gcd(step, along[i] - along[i - 1]);
    Bounds& all = even.emplace_back();
    for (int64_t at = along.front(); at <= along.back(); at += step) all.push_back(at);
  }
  return even;
}

}  // namespace

std::optional<FusedBody::Cells> FusedBody::cells(int64_t chunk) const {
  constexpr int64_t kMostCells = 4;       // launches of a chunk
  constexpr int64_t kMostEvenCells = 16;  // of one shape: parts of one kernel, with those of other chunks
  constexpr int64_t kLeastEvenElements = 256 << 10;
  if (slot_views_.empty()) return std::nullopt;
  const Grid& grid = stage_.grid;
  const int ndim = grid.ndim();
  const Dims place = grid.coordinates(chunk);
  std::vector<Bounds> bounds(static_cast<size_t>(ndim));
  int64_t elements = 1;
  for (int d = 0; d < ndim; ++d) {
    const AxisChunks& cuts = grid.axis(d);
    bounds[static_cast<size_t>(d)] = {cuts.start(place[d]), cuts.start(place[d] + 1)};
    elements *= cuts.size(place[d]);
  }
  if (elements == 0) return std::nullopt;
  // Where, in the space, chunks of the arrays begin.
  for (const SlotView& view : slot_views_) {
    const plan::Input& input = fused_.inputs[static_cast<size_t>(view.input)];
    for (int axis = 0; axis < view.begin.size(); ++axis) {
      if (view.follows[axis] < 0) continue;
      Bounds& along = bounds[static_cast<size_t>(view.follows[axis])];
      const AxisChunks& cuts = input.grid.axis(axis);
      const int64_t begin = view.begin[axis], end = along.back();
      for (int64_t i = cuts.find(begin + along.front()) + 1; i < cuts.count() && cuts.start(i) < begin + end; ++i) {
        const int64_t cut = cuts.start(i) - begin;
        if (std::ranges::find(along, cut) != along.end()) continue;
        along.insert(along.end() - 1, cut);
        if (count_boxes(bounds) > kMostCells) return std::nullopt;
      }
    }
  }
  for (Bounds& along : bounds) std::ranges::sort(along);
  Cells cells;
  if (const int64_t boxes = count_boxes(bounds); boxes > 1) {
    std::vector<Bounds> even = evened(bounds);
    const int64_t count = count_boxes(even);
    cells.even = count == boxes || (count <= kMostEvenCells && elements >= count * kLeastEvenElements);
    if (cells.even) bounds = std::move(even);
  }

  Dims next = Dims::filled(ndim);
  int64_t held = 0;
  for (bool more = true; more;) {
    Cells::Box& box = cells.boxes.emplace_back();
    for (int d = 0; d < ndim; ++d) {
      const Bounds& along = bounds[static_cast<size_t>(d)];
      const auto i = static_cast<size_t>(next[d]);
      box.start.push_back(along[i]);
      box.count.push_back(along[i + 1] - along[i]);
    }
    for (const SlotView& view : slot_views_)
      if (!add_view(cells, view, box.start, held)) return std::nullopt;
    more = false;
    for (int d = ndim; d-- > 0 && !more;) {
      more = ++next[d] + 1 < std::ssize(bounds[static_cast<size_t>(d)]);
      if (!more) next[d] = 0;
    }
  }
  return cells;
}

// Adds where a view of an input begins for a box of the space; `held` are the bytes of all chunks so far. False where
// there is no room, or the chunk is another rank's.
bool FusedBody::add_view(Cells& cells, const SlotView& view, const Dims& start, int64_t& held) const {
  const plan::Input& input = fused_.inputs[static_cast<size_t>(view.input)];
  const int64_t itemsize = local::itemsize(input.dtype);
  int64_t chunk = 0, offset = 0, stride = itemsize, chunks = 1;
  for (int axis = view.begin.size(); axis-- > 0;) {
    const AxisChunks& cuts = input.grid.axis(axis);
    const int64_t at = view.begin[axis] + (view.follows[axis] < 0 ? 0 : start[view.follows[axis]]);
    const int64_t i = cuts.find(at);
    chunk += i * chunks;
    chunks *= cuts.count();
    offset += (at - cuts.start(i)) * stride;
    stride *= cuts.size(i);
  }
  const auto found = std::ranges::find_if(
      cells.chunks, [&](const Cells::Chunk& known) { return known.input == view.input && known.chunk == chunk; });
  const auto number = static_cast<size_t>(found - cells.chunks.begin());
  cells.views.push_back({number, offset});
  if (found != cells.chunks.end()) return true;
  if (owners_.source(owners_of(input.array), input.grid, chunk, rank_) != rank_) return false;
  held += stride;  // all of its bytes
  if (held > room_) return false;
  const Dims strides = local::contiguous_strides(input.grid.chunk_shape(chunk), itemsize);
  cells.chunks.push_back({view.input, chunk, space_strides(input.map, strides)});
  return true;
}

Placed FusedBody::placed(int slot, const Region& box) const {
  const plan::Fused::Slot from = fused_.slot(slot);
  return place_of(fused_.inputs[static_cast<size_t>(from.input)], from.offset, box, access(from.input, box));
}

Dims FusedBody::kept_shape(const Dims& shape) const {
  Dims kept;
  for (int d = 0; d < shape.size(); ++d)
    if (!(fused_.reduce_axes >> d & 1)) kept.push_back(shape[d]);
  return kept;
}

// Strides over the space for a C-contiguous array of the kept axes.
Dims FusedBody::state_strides(const Dims& shape, int64_t itemsize) const {
  const Dims kept = local::contiguous_strides(kept_shape(shape), itemsize);
  Dims strides = Dims::filled(shape.size());
  int k = 0;
  for (int d = 0; d < shape.size(); ++d) strides[d] = fused_.reduce_axes >> d & 1 ? 0 : kept[k++];
  return strides;
}

int64_t FusedBody::state_bytes(int64_t chunk) const {
  return AggregateLayout(fused_.program, local::element_count(kept_shape(stage_.grid.chunk_shape(chunk)))).bytes;
}

local::Launch FusedBody::launch(int64_t chunk) const {
  const Region box = stage_.grid.chunk(chunk);
  local::Launch launch;
  launch.shape = box.count;
  launch.index_offset = box.start;
  for (int slot = 0; slot < fused_.program.inputs(); ++slot)
    launch.inputs.push_back({nullptr, placed(slot, box).strides});
  for (local::ValueId value : fused_.program.outputs()) {
    launch.outputs.push_back(
        {nullptr, local::contiguous_strides(box.count, local::itemsize(fused_.program.dtype(value)))});
  }
  if (reduces()) {
    launch.reduce_axes = fused_.reduce_axes;
    const AggregateLayout layout(fused_.program, local::element_count(kept_shape(box.count)));
    for (const AggregateLayout::Field& field : layout.fields)
      launch.states.push_back({nullptr, state_strides(box.count, local::itemsize(field.dtype))});
  }
  return launch;
}

int64_t FusedBody::scratch_bytes(int64_t chunk, KnownScratch& known) const {
  const local::Launch whole = launch(chunk);
  const auto same_strides = [](const local::Operand& a, const local::Operand& b) { return a.strides == b.strides; };
  if (known.bytes < 0 || whole.shape != known.launch.shape ||
      !std::ranges::equal(whole.inputs, known.launch.inputs, same_strides))
    known = {whole, run_scratch_bytes(device_, fused_.program, whole)};
  int64_t bytes = known.bytes;
  if (splits_) bytes *= std::ssize(parts(chunk));
  bytes += making_bytes(chunk);
  if (streamed_ < 0) return bytes;
  // The pieces, their states, and what runs on a piece. A piece may be laid out in another way than the whole chunk.
  constexpr int64_t kPieceMargin = 64 << 10;
  const auto& dataset = fused_.inputs[static_cast<size_t>(streamed_)].array.dataset;
  const int64_t elements = local::element_count(kept_shape(whole.shape));
  const AggregateLayout layout(fused_.program, elements);
  if (reduces()) bytes = std::max(bytes, run_scratch_bytes(device_, fused_.program, identity_launch(whole)));
  bytes = std::max(bytes, merge_scratch_bytes(combine_, layout, elements, device_)) + kPieceMargin;
  const Region region = input_region(streamed_, chunk);
  const int64_t reading = copies_ ? dataset->read_scratch_bytes(region) : 0;
  bytes += align_up(std::max(dataset->visit_scratch_bytes(region), reading), local::kAllocationAlignment);
  return bytes + align_up(layout.bytes, local::kAllocationAlignment) + 2 * local::kAllocationAlignment;
}

int64_t FusedBody::scratch_bytes(int64_t chunk, const Cells& cells, KnownScratch& known) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < cells.boxes.size(); ++i) {
    const FusedBody::Cells::View* const views = cells.views.data() + i * slot_views_.size();
    const auto strides = [&](size_t slot) -> const Dims& { return cells.chunks[views[slot].input].strides; };
    bool same = known.bytes >= 0 && known.launch.shape == cells.boxes[i].count;
    for (size_t slot = 0; slot < slot_views_.size() && same; ++slot)
      same = known.launch.inputs[slot].strides == strides(slot);
    if (!same) {
      known.launch = {};
      lay_out(known.launch, chunk, cells.boxes[i].start, cells.boxes[i].count, {});
      for (size_t slot = 0; slot < slot_views_.size(); ++slot) known.launch.inputs.push_back({nullptr, strides(slot)});
      known.bytes = run_scratch_bytes(device_, fused_.program, known.launch);
    }
    bytes += known.bytes;
  }
  return bytes;
}

int64_t FusedBody::making_bytes(int64_t chunk) const {
  if (makers_.empty()) return 0;
  int64_t made = 0, scratch = 0;
  for (const ChunkMaker& maker : makers_) {
    made += maker.output_bytes(chunk);
    scratch = std::max(scratch, maker.scratch_bytes(chunk));
  }
  return made + local::rounded_allocation(scratch);
}

local::Launch& FusedBody::add(Batch& batch, int64_t chunk, std::span<const scheduler::BlockView> inputs,
                              std::span<const scheduler::BlockView> outputs, void* states,
                              const local::ExecContext& context) const {
  local::Launch& launch = batch.add(context);
  const local::Launch* const before = batch.before();
  const Region box = stage_.grid.chunk(chunk);
  // Most chunks are of one shape.
  const bool same = aligned_ && before && before->shape == box.count;
  if (same) {
    launch = *before;
    launch.index_offset = box.start;
  } else {
    launch = this->launch(chunk);
  }
  QUARRY_CHECK(inputs.size() + (streamed_ >= 0 ? 1 : 0) == fused_.inputs.size());
  for (int slot = 0; slot < fused_.program.inputs(); ++slot) {
    const int input = fused_.slot(slot).input;
    if (input == streamed_) continue;
    const int64_t offset = aligned_ ? 0 : placed(slot, box).offset;
    const auto arrived = static_cast<size_t>(streamed_ >= 0 && input > streamed_ ? input - 1 : input);
    launch.inputs[static_cast<size_t>(slot)].data = static_cast<std::byte*>(inputs[arrived].data) + offset;
  }
  for (size_t o = 0; o < launch.outputs.size(); ++o) launch.outputs[o].data = outputs[o].data;
  if (!reduces()) return launch;
  if (same) {
    const std::byte* const from = static_cast<std::byte*>(before->states[0].data);
    for (local::Operand& state : launch.states) {
      state.data = static_cast<std::byte*>(states) + (static_cast<std::byte*>(state.data) - from);
    }
    return launch;
  }
  const AggregateLayout layout(fused_.program, local::element_count(kept_shape(launch.shape)));
  for (size_t f = 0; f < layout.fields.size(); ++f)
    launch.states[f].data = static_cast<std::byte*>(states) + layout.fields[f].offset;
  return launch;
}

void FusedBody::lay_out(local::Launch& launch, int64_t chunk, const Dims& start, const Dims& count,
                        std::span<const scheduler::BlockView> outputs) const {
  const Region whole = stage_.grid.chunk(chunk);
  launch.shape = count;
  launch.index_offset = start;
  launch.outputs.resize(fused_.program.outputs().size());
  for (size_t o = 0; o < launch.outputs.size(); ++o) {
    const int64_t itemsize = local::itemsize(fused_.program.dtype(fused_.program.outputs()[o]));
    int64_t offset = 0, stride = itemsize;
    Dims& strides = launch.outputs[o].strides;
    strides.resize(whole.ndim());
    for (int d = whole.ndim(); d-- > 0;) {
      strides[d] = stride;
      offset += (start[d] - whole.start[d]) * stride;
      stride *= whole.count[d];
    }
    launch.outputs[o].data = outputs.empty() ? nullptr : static_cast<std::byte*>(outputs[o].data) + offset;
  }
}

void FusedBody::add_cell(Batch& batch, const scheduler::TaskRun& run, const Cells& cells, size_t box) const {
  local::Launch& launch = batch.add_elementwise(run.context);
  lay_out(launch, run.index, cells.boxes[box].start, cells.boxes[box].count, run.outputs);
  launch.inputs.resize(slot_views_.size());
  for (size_t slot = 0; slot < slot_views_.size(); ++slot) {
    const Cells::View& view = cells.views[box * slot_views_.size() + slot];
    launch.inputs[slot].data = static_cast<std::byte*>(run.inputs[view.input].data) + view.offset;
    launch.inputs[slot].strides = cells.chunks[view.input].strides;
  }
}

void FusedBody::add_parts(Batch& batch, const scheduler::TaskRun& run) const {
  std::span<const scheduler::BlockView> blocks = run.inputs;
  for (const Region& part : parts(run.index)) {
    local::Launch& launch = batch.add_elementwise(run.context);
    lay_out(launch, run.index, part.start, part.count, run.outputs);
    launch.inputs.clear();
    for (int slot = 0; slot < fused_.program.inputs(); ++slot) {
      const plan::Fused::Slot from = fused_.slot(slot);
      const plan::Input& input = fused_.inputs[static_cast<size_t>(from.input)];
      Placed placed = place_of(input, from.offset, part, access(from.input, part));
      launch.inputs.push_back({static_cast<std::byte*>(blocks[static_cast<size_t>(from.input)].data) + placed.offset,
                               std::move(placed.strides)});
    }
    blocks = blocks.subspan(fused_.inputs.size());
  }
  QUARRY_CHECK(blocks.empty());
}

void FusedBody::run_batch(std::span<scheduler::TaskRun* const> runs) {
  constexpr size_t kLaunches = 96;  // the device begins with these while others are laid out
  Batch& batch = Batch::mine();
  const size_t outputs = fused_.program.outputs().size();
  // Boxes of one number are mostly of one shape: one kernel takes those of several chunks. Where all boxes of a chunk
  // are, chunk after chunk, so that what neighbours share is still in the device's caches.
  std::vector<std::pair<const scheduler::TaskRun*, Cells>> in_place;
  size_t most = 0;
  for (const scheduler::TaskRun* run : runs) {
    if (splits_) {
      std::optional<Cells> cells = this->cells(run->index);
      if (!cells) {
        add_parts(batch, *run);
      } else if (cells->even) {
        for (size_t i = 0; i < cells->boxes.size(); ++i) add_cell(batch, *run, *cells, i);
        if (batch.size() >= kLaunches) batch.run(fused_.program);
      } else {
        most = std::max(most, cells->boxes.size());
        in_place.emplace_back(run, *std::move(cells));
      }
      continue;
    }
    void* const states = reduces() ? run->outputs[outputs].data : nullptr;
    add(batch, run->index, run->inputs, run->outputs.first(outputs), states, run->context);
  }
  for (size_t i = 0; i < most; ++i)
    for (const auto& [run, cells] : in_place)
      if (i < cells.boxes.size()) add_cell(batch, *run, cells, i);
  if (batch.size() > 0) batch.run(fused_.program);
}

void FusedBody::run(scheduler::TaskRun& run) {
  if (splits_) {
    scheduler::TaskRun* const one = &run;
    run_batch({&one, 1});
    return;
  }
  if (makers_.empty()) {
    run_with(run, run.inputs);
    return;
  }
  ScratchPool scratch(run.context, making_bytes(run.index));
  const local::ExecContext context = scratch.context();
  const local::DeviceScope scope(context);
  size_t arrived = 0;
  for (size_t i = 0; i < fused_.inputs.size(); ++i) arrived += fused_.arrives(i) ? 1 : 0;
  std::vector<std::vector<local::NdArray>> made;
  std::span<const scheduler::BlockView> blocks = run.inputs;
  blocks = blocks.subspan(arrived);
  for (const ChunkMaker& maker : makers_) {
    const size_t count = maker.count_inputs(run.index);
    made.push_back(maker.made(run.index, blocks.first(count), context));
    blocks = blocks.subspan(count);
  }
  std::vector<scheduler::BlockView> inputs;
  arrived = 0;
  for (size_t i = 0; i < fused_.inputs.size(); ++i) {
    const plan::ArrayRef& array = fused_.inputs[i].array;
    if (fused_.arrives(i)) {
      inputs.push_back(run.inputs[arrived++]);
    } else {
      const local::NdArray& chunk = made[static_cast<size_t>(array.stage)][static_cast<size_t>(array.output)];
      inputs.push_back({chunk.raw(), chunk.nbytes()});
    }
  }
  run_with(run, inputs);
}

void FusedBody::run_with(scheduler::TaskRun& run, std::span<const scheduler::BlockView> inputs) {
  if (streamed_ < 0 || stage_.grid.chunk_elements(run.index) == 0) {
    Batch& batch = Batch::mine();
    const size_t outputs = fused_.program.outputs().size();
    void* const states = reduces() ? run.outputs[outputs].data : nullptr;
    add(batch, run.index, inputs, run.outputs.first(outputs), states, run.context);
    batch.run(fused_.program);
    return;
  }
  Batch& batch = Batch::mine();
  const size_t outputs = fused_.program.outputs().size();
  void* const states = reduces() ? run.outputs[outputs].data : nullptr;
  run_streamed(run, run.index, add(batch, run.index, inputs, run.outputs.first(outputs), states, run.context));
}

void FusedBody::run_streamed(scheduler::TaskRun& run, int64_t chunk, const local::Launch& whole) {
  const plan::Input& input = fused_.inputs[static_cast<size_t>(streamed_)];
  const Region region = input_region(streamed_, chunk);
  const Dims& box = whole.shape;
  const int ndim = box.size();
  local::Engine& engine = local::engine(run.context.device);

  if (copies_) {  // to where it is wanted, instead of through pieces in the cache
    const int64_t bytes = input.array.dataset->read_scratch_bytes(region);
    auto* scratch = static_cast<std::byte*>(run.context.memory->allocate(bytes, run.context.stream));
    input.array.dataset->read(region, run.outputs[0].data, {scratch, static_cast<size_t>(bytes)});
    return;
  }
  const int64_t visit_bytes = input.array.dataset->visit_scratch_bytes(region);
  auto* visit_scratch = static_cast<std::byte*>(run.context.memory->allocate(visit_bytes, run.context.stream));
  const AggregateLayout layout(fused_.program, local::element_count(kept_shape(box)));
  void* const state_block = reduces() ? run.outputs[whole.outputs.size()].data : nullptr;
  void* const piece_states = reduces() ? run.context.memory->allocate(layout.bytes, run.context.stream) : nullptr;
  const Dims whole_kept = kept_shape(box);
  const Dims whole_kept_strides = contiguous_elements(whole_kept);
  bool initialised = false;

  local::Launch piece_launch = whole;
  input.array.dataset->visit(
      region, {visit_scratch, static_cast<size_t>(visit_bytes)}, [&](const io::Dataset::Piece& piece) {
        if (run.is_cancelled()) throw local::Cancelled("the computation was cancelled");
        Dims start = Dims::filled(ndim, 0);
        for (int d = 0; d < ndim; ++d) {
          const int source = input.map.axes[static_cast<size_t>(d)].source;
          piece_launch.shape[d] = source < 0 ? box[d] : piece.count[source];
          start[d] = source < 0 ? 0 : piece.start[source];
          piece_launch.index_offset[d] = whole.index_offset[d] + start[d];
        }
        auto shifted = [&](const local::Operand& operand) {
          int64_t offset = 0;
          for (int d = 0; d < ndim; ++d) offset += start[d] * operand.strides[d];
          return static_cast<std::byte*>(operand.data) + offset;
        };
        for (size_t i = 0; i < whole.inputs.size(); ++i) {
          if (static_cast<int>(i) != streamed_slot_) piece_launch.inputs[i].data = shifted(whole.inputs[i]);
        }
        piece_launch.inputs[static_cast<size_t>(streamed_slot_)] = {const_cast<std::byte*>(piece.data),
                                                                    space_strides(input.map, piece.strides)};
        for (size_t o = 0; o < whole.outputs.size(); ++o) piece_launch.outputs[o].data = shifted(whole.outputs[o]);
        if (!reduces()) {
          engine.run(fused_.program, piece_launch, run.context);
          return;
        }
        const Dims kept = kept_shape(piece_launch.shape);
        if (!initialised && kept == whole_kept) {  // the first piece's states are the first states
          piece_launch.states = whole.states;
          engine.run(fused_.program, piece_launch, run.context);
          initialised = true;
          return;
        }
        if (!initialised) {  // pieces cover the kept axes in parts: begin with the identity everywhere
          local::Launch nothing = identity_launch(whole);
          nothing.inputs[static_cast<size_t>(streamed_slot_)] =
              piece_launch.inputs[static_cast<size_t>(streamed_slot_)];
          engine.run(fused_.program, nothing, run.context);
          initialised = true;
        }
        const AggregateLayout piece_layout(fused_.program, local::element_count(kept));
        for (size_t f = 0; f < piece_layout.fields.size(); ++f) {
          piece_launch.states[f] = {static_cast<std::byte*>(piece_states) + piece_layout.fields[f].offset,
                                    state_strides(piece_launch.shape, local::itemsize(piece_layout.fields[f].dtype))};
        }
        engine.run(fused_.program, piece_launch, run.context);
        int64_t offset = 0;
        const Dims kept_start = kept_shape(start);
        for (int d = 0; d < kept_start.size(); ++d) offset += kept_start[d] * whole_kept_strides[d];
        merge(combine_, layout, state_block, whole_kept_strides, offset, piece_layout, piece_states,
              contiguous_elements(kept), kept, run.context);
      });
}

}  // namespace quarry::exec
