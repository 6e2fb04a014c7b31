#include "quarry/local/cuda/plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/multiprocessors.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local::cuda {
namespace {

constexpr int64_t kNarrowLimit = int64_t{1} << 31;
// Enough blocks to fill the largest GPUs; a constant, so that the order of a sum does not depend on the device. Where
// no order follows from it, the device is asked.
constexpr int64_t kFillBlocks = 16 * kPlannedMultiprocessors;
constexpr int64_t kMaxSegments = 4 * kFillBlocks;
// A thread that combines fewer states in its loop needs no levels of partial sums.
constexpr int64_t kCascadeSteps = 16;

int64_t floor_power_of_two(int64_t x) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
}
int64_t ceil_power_of_two(int64_t x) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
}

// T. Granlund, P. L. Montgomery, Division by Invariant Integers using Multiplication (1994), for dividends below 2^31.
int64_t make_divider(int64_t divisor, bool wide) {
  if (wide) return divisor;
  const uint64_t d = static_cast<uint64_t>(divisor);
  const int shift = std::bit_width(d - 1);
  const uint64_t magic = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1;
  return static_cast<int64_t>(static_cast<uint64_t>(shift) << 32 | magic);
}

bool aligned(const LayoutOperand& operand, int lane_axis, int64_t bytes) {
  if (reinterpret_cast<uintptr_t>(operand.data) % static_cast<uint64_t>(bytes) != 0) return false;
  for (size_t d = 0; d < operand.strides.size(); ++d)
    if (static_cast<int>(d) != lane_axis && operand.strides[d] % bytes != 0) return false;
  return true;
}

PlanOperand plan_operand(const LayoutOperand& operand, int lane_axis, int lanes) {
  PlanOperand plan{operand.dtype};
  for (size_t d = 0; d < operand.strides.size(); ++d)
    if (operand.strides[d] != 0) plan.moves |= 1u << d;
  const int64_t size = itemsize(operand.dtype), stride = operand.strides[static_cast<size_t>(lane_axis)];
  if (stride == 0)
    plan.access = Access::broadcast;
  else if (stride != size)
    plan.access = Access::strided;
  else if (aligned(operand, lane_axis, std::min<int64_t>(kVectorBytes, size * lanes)))
    plan.access = Access::vector;
  else
    plan.access = Access::element;
  return plan;
}

// Sizes of the elements that move along the lane axis.
struct Sizes {
  int64_t largest = 1, smallest = kVectorBytes;
};
Sizes lane_sizes(const Layout& layout, int axis) {
  Sizes sizes;
  for (const auto* group : {&layout.inputs, &layout.outputs})
    for (const LayoutOperand& operand : *group)
      if (operand.strides[static_cast<size_t>(axis)] != 0) {
        sizes.largest = std::max(sizes.largest, itemsize(operand.dtype));
        sizes.smallest = std::min(sizes.smallest, itemsize(operand.dtype));
      }
  sizes.smallest = std::min(sizes.smallest, sizes.largest);
  return sizes;
}

int64_t state_bytes(const Layout& layout) {
  int64_t bytes = 0;
  for (const LayoutOperand& state : layout.states) bytes += itemsize(state.dtype);
  return bytes;
}

// Reductions that accumulate in a dtype of their own round; the others choose among the values.
bool sums_floats(const Program& program) {
  return std::any_of(program.reductions().begin(), program.reductions().end(), [](const ProgramReduction& r) {
    return info(r.reduction).takes_dtype && (is_float(r.accumulate) || is_complex(r.accumulate));
  });
}

// The axis along which an input is contiguous while the outputs are not; -1 where no input asks for tiles.
int find_tile_axis(const Layout& layout) {
  const int inner = layout.ndim() - 1;
  constexpr int64_t kWorthwhile = 16;
  if (layout.ndim() < 2 || layout.extents.back() < kWorthwhile) return -1;
  for (const LayoutOperand& operand : layout.inputs) {
    const int64_t size = itemsize(operand.dtype);
    const int64_t stride = operand.strides[static_cast<size_t>(inner)];
    if (stride == size || stride == 0) continue;
    for (int d = 0; d < inner; ++d)
      if (operand.strides[static_cast<size_t>(d)] == size && layout.extents[static_cast<size_t>(d)] >= kWorthwhile)
        return d;
  }
  return -1;
}

// What a kernel calls the operands of a kind.
const char* prefix_of(Slots::Varying kind) {
  switch (kind) {
    case Slots::Varying::constant:
      return "c";
    case Slots::Varying::offset:
      return "x";
    case Slots::Varying::input:
      return "in";
    case Slots::Varying::output:
      return "out";
    case Slots::Varying::state:
      return "st";
    case Slots::Varying::partial:
      return "pt";
  }
  return "";
}

int64_t address_word(const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); }

std::array<int64_t, 2> constant_words(const Scalar& constant) {
  std::array<int64_t, 2> words = {0, 0};
  constant.store(constant.dtype(), words.data());
  return words;
}

void add_operand(Slots& slots, const LayoutOperand& operand, const PlanOperand& plan, Slots::Varying kind, size_t i) {
  slots.add_pointer(operand.data, kind, i);
  if (plan.like >= 0) return;
  for (size_t d = 0; d < operand.strides.size(); ++d)
    if (plan.moves >> d & 1u) slots.add(operand.strides[d], "{}{}_{}", prefix_of(kind), i, d);
}

// Constants, index offsets and operands: what every kernel of the program needs.
void add_common(Plan& plan, const Program& program, const Layout& layout) {
  for (size_t i = 0; i < program.constants().size(); ++i) plan.slots.add_constant(program.constants()[i], i);
  for (const Value& value : program.values())
    if (value.kind == Value::Kind::index)
      plan.slots.add_offset(layout.index_offset[static_cast<size_t>(value.slot)], static_cast<size_t>(value.slot));
  for (int d = 0; d < plan.ndim; ++d) plan.slots.add(layout.extents[static_cast<size_t>(d)], "e{}", d);
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    add_operand(plan.slots, layout.inputs[i], plan.inputs[i], Slots::Varying::input, i);
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    add_operand(plan.slots, layout.outputs[i], plan.outputs[i], Slots::Varying::output, i);
}

// Number of steps along an axis and what divides by it.
void add_steps(Slots& slots, int axis, int64_t steps, bool wide) {
  slots.add(steps, "n{}", axis);
  slots.add(make_divider(steps, wide), "d{}", axis);
}

void plan_operands(Plan& plan, const Layout& layout) {
  plan.whole = layout.extents.back() % plan.lanes == 0;
  for (const auto& operand : layout.inputs) plan.inputs.push_back(plan_operand(operand, plan.lane_axis(), plan.lanes));
  for (const auto& operand : layout.outputs)
    plan.outputs.push_back(plan_operand(operand, plan.lane_axis(), plan.lanes));
  for (const auto& operand : layout.states) plan.states.push_back(plan_operand(operand, plan.lane_axis(), plan.lanes));
}

bool is_sampler(const Value& value) {
  return value.kind == Value::Kind::op &&
         (info(value.op).rule == OpRule::sampler || value.op == "random_hypergeometric"_op);
}
bool has_samplers(const Program& program) {
  return std::any_of(program.values().begin(), program.values().end(), is_sampler);
}
// Whether there are random numbers, all of streams that are the same for all elements.
bool draws_numbers(const Program& program) {
  const auto is_constant = [&program](ValueId id) {
    return program.values()[static_cast<size_t>(id)].kind == Value::Kind::constant;
  };
  bool any = false;
  for (const Value& value : program.values()) {
    if (value.kind != Value::Kind::op || info(value.op).rule != OpRule::random) continue;
    if (!is_constant(value.args[1]) || !is_constant(value.args[2])) return false;
    any = true;
  }
  return any;
}

// Whether most inputs along the lane axis begin where wide accesses do not, as the shifted views of a stencil.
bool mostly_unaligned(const Plan& plan) {
  const auto unaligned = std::ranges::count(plan.inputs, Access::element, &PlanOperand::access);
  return unaligned > 1 && 2 * unaligned > std::ssize(plan.inputs);
}

// Of inputs with the same strides, offsets are computed once: 64-bit products are most of the work of a stencil.
void share_strides(Plan& plan, const Layout& layout) {
  if (plan.ndim < 2) return;  // one product
  for (size_t i = 1; i < plan.inputs.size(); ++i)
    for (size_t j = 0; j < i && plan.inputs[i].like < 0; ++j)
      if (layout.inputs[i].strides == layout.inputs[j].strides) plan.inputs[i].like = static_cast<int>(j);
}

void plan_map(Plan& plan, const Program& program, const Layout& layout, bool force_wide) {
  const Sizes sizes = lane_sizes(layout, plan.lane_axis());
  // One 16-byte access of the widest operand, but at least four bytes of the narrowest.
  int64_t lanes = std::max<int64_t>(kVectorBytes / sizes.largest, 4 / sizes.smallest);
  lanes = std::clamp<int64_t>(lanes, 1, ceil_power_of_two(layout.extents.back()));
  // Stores are not gathered in a cache as loads are: the gaps of a strided output must not grow by more lanes.
  const auto lane_axis = static_cast<size_t>(plan.lane_axis());
  for (const LayoutOperand& output : layout.outputs)
    if (std::abs(output.strides[lane_axis]) > itemsize(output.dtype)) lanes = 1;
  // A sampler's code is long, and repeats for every lane.
  if (has_samplers(program)) lanes = std::min<int64_t>(lanes, 2);
  plan.lanes = static_cast<int>(lanes);
  plan_operands(plan, layout);
  if (lanes > 1 && mostly_unaligned(plan)) {
    // Their accesses have gaps between the lanes' elements, which cost as many as one of each lane would.
    lanes /= 2;
    plan.lanes = static_cast<int>(lanes);
    plan.inputs.clear();
    plan.outputs.clear();
    plan.states.clear();
    plan_operands(plan, layout);
  }
  share_strides(plan, layout);

  const int64_t per_row = ceil_divide(layout.extents.back(), lanes);
  const int64_t threads = layout.elements() / layout.extents.back() * per_row;
  plan.wide = force_wide || threads >= kNarrowLimit;
  // Arithmetic bounds random numbers, not memory: the Philox blocks of a thread share the round keys. A block apart, so
  // that every access of a warp is of adjacent bytes.
  if (lanes > 1 && program.inputs() == 0 && draws_numbers(program) && !has_samplers(program) &&
      threads >= kFillBlocks * kBlockThreads * 2)
    plan.unroll = 2;
  plan.grid_x = ceil_divide(threads, kBlockThreads * plan.unroll);
  const bool prepares = std::any_of(program.values().begin(), program.values().end(),
                                    [&](const Value& value) { return is_prepared(program, value); });
  if (prepares) plan.grid_x = std::min(plan.grid_x, 16 * multiprocessor_count());
  add_common(plan, program, layout);
  plan.slots.add(threads, "threads");
  for (int d = 1; d < plan.ndim; ++d)
    add_steps(plan.slots, d, d == plan.lane_axis() ? per_row : layout.extents[static_cast<size_t>(d)], plan.wide);
}

void plan_tile(Plan& plan, const Program& program, const Layout& layout, bool force_wide) {
  constexpr int64_t kSharedBytes = 48 << 10;
  plan.kind = Plan::Kind::tile;
  plan_operands(plan, layout);
  // Pieces of 256 bytes of both axes keep the memory's rows busy; small elements get them from larger tiles.
  constexpr int64_t kSmallTile = 32, kLargeTile = 64, kWorthLarge = 256;
  const auto extent_of = [&layout](int axis) { return layout.extents[static_cast<size_t>(axis)]; };
  const bool large = lane_sizes(layout, plan.lane_axis()).largest * kSmallTile < 256 &&
                     std::min(extent_of(plan.lane_axis()), extent_of(plan.tile_axis)) >= kWorthLarge;
  const int64_t tile = large ? kLargeTile : kSmallTile;
  plan.tile = static_cast<int>(tile);
  int64_t shared = 0;
  for (size_t i = 0; i < layout.inputs.size(); ++i) {
    const LayoutOperand& operand = layout.inputs[i];
    const int64_t size = itemsize(operand.dtype), bytes = tile * (tile + 1) * size;
    const int64_t along = operand.strides[static_cast<size_t>(plan.lane_axis())];
    const bool fits = shared + bytes <= kSharedBytes;
    if (operand.strides[static_cast<size_t>(plan.tile_axis)] == size && along != size && along != 0 && fits) {
      plan.inputs[i].access = Access::tiled;
      shared += bytes;
    }
  }
  int64_t blocks = 1;
  std::vector<int64_t> steps;
  for (int d = 0; d < plan.ndim; ++d) {
    const int64_t extent = extent_of(d);
    steps.push_back(d == plan.tile_axis || d == plan.lane_axis() ? ceil_divide(extent, tile) : extent);
    blocks *= steps.back();
  }
  plan.wide = force_wide || blocks >= kNarrowLimit;
  plan.grid_x = blocks;
  add_common(plan, program, layout);
  for (int d = 0; d < plan.ndim; ++d) add_steps(plan.slots, d, steps[static_cast<size_t>(d)], plan.wide);
}

void add_states(Plan& plan, const Layout& layout) {
  if (!plan.split) {
    for (size_t i = 0; i < plan.states.size(); ++i)
      add_operand(plan.slots, layout.states[i], plan.states[i], Slots::Varying::state, i);
    return;
  }
  for (size_t i = 0; i < plan.states.size(); ++i) plan.slots.add_pointer(nullptr, Slots::Varying::partial, i);

  // The second kernel: a group of threads per result.
  plan.merge_group = plan.segments <= kBlockThreads ? 32 : kBlockThreads;
  plan.merge_grid = ceil_divide(plan.results, kBlockThreads / plan.merge_group);
  Slots& slots = plan.merge_slots;
  for (int d = 0; d < plan.ndim; ++d)
    if (!plan.is_reduced(d)) add_steps(slots, d, layout.extents[static_cast<size_t>(d)], plan.wide);
  slots.add(plan.results, "results");
  slots.add(plan.segments, "segments");
  for (size_t i = 0; i < plan.states.size(); ++i) slots.add_pointer(nullptr, Slots::Varying::partial, i);
  for (size_t i = 0; i < plan.states.size(); ++i)
    add_operand(slots, layout.states[i], plan.states[i], Slots::Varying::state, i);
}

// Inputs of which a result takes more than one element; at least 1.
int64_t moving_inputs(const Plan& plan) {
  const auto moves = [&plan](const PlanOperand& input) { return (input.moves & plan.reduced) != 0; };
  return std::max<int64_t>(1, std::count_if(plan.inputs.begin(), plan.inputs.end(), moves));
}

void plan_rows(Plan& plan, const Program& program, const Layout& layout, bool force_wide) {
  plan.kind = Plan::Kind::rows;
  const int64_t inner = layout.extents.back();
  const bool one_axis = std::popcount(plan.reduced) == 1;
  int64_t lanes = std::clamp<int64_t>(kVectorBytes / lane_sizes(layout, plan.lane_axis()).largest, 1, 8);
  // Over several axes every access is whole, so that only a single axis has a remainder to care for.
  while (lanes > 1 && (lanes > inner || (!one_axis && inner % lanes != 0))) lanes /= 2;
  plan.lanes = static_cast<int>(lanes);
  plan_operands(plan, layout);

  const int64_t reduced = layout.elements(true);
  const int64_t per_row = ceil_divide(inner, lanes);
  const int64_t chunks = inner == 0 ? 0 : reduced / inner * per_row;
  const int64_t full_chunks = one_axis ? inner / lanes : chunks;
  // States of several fields are dear to combine across threads: fewer threads per row where the rows fill the device.
  constexpr int64_t kManyResults = 4096;
  constexpr int kFewThreads = 8;
  if (chunks <= 64)
    plan.group = static_cast<int>(std::min<int64_t>(32, ceil_power_of_two(chunks)));
  else if (chunks < 1024 && plan.states.size() > 1 && plan.results * kFewThreads >= kFillBlocks * kBlockThreads)
    plan.group = kFewThreads;
  else if (chunks < 1024 && plan.results >= kManyResults)
    plan.group = 32;
  else
    plan.group = kBlockThreads;
  const int64_t inputs = moving_inputs(plan);
  int64_t unroll = std::min<int64_t>({4, 16 / lanes, std::max<int64_t>(1, 8 / inputs)});
  unroll = std::min<int64_t>(unroll, std::max<int64_t>(1, chunks / plan.group));
  plan.unroll = static_cast<int>(floor_power_of_two(unroll));
  if (chunks > 0 && chunks <= plan.group && plan.group <= 32) {
    plan.once = true;
    const int64_t groups = kBlockThreads / plan.group;
    const int64_t each = std::min<int64_t>(4, plan.results / (groups * kFillBlocks));
    plan.each = static_cast<int>(floor_power_of_two(std::min(each, std::max<int64_t>(1, 8 / inputs))));
  }

  if (plan.group == kBlockThreads && plan.results < kFillBlocks) {
    const int64_t most = chunks / (kBlockThreads * plan.unroll);
    constexpr int64_t kWorthSplitting = 4, kSteps = 16;
    const int64_t fill = ceil_divide(kFillBlocks, plan.results);
    int64_t even = std::min(ceil_divide(kMaxSegments, plan.results), most / kSteps);
    // Whole waves of blocks.
    constexpr int64_t kWave = kFillBlocks / 2;
    if (plan.results == 1 && even > kWave) even -= even % kWave;
    if (most >= kWorthSplitting)
      plan.segments = std::clamp<int64_t>(std::max(fill, even), 1, std::min(most, kMaxSegments));
  }
  int64_t per_segment = ceil_divide(chunks, plan.segments);
  // Of few steps, whole ones, if that takes few blocks away: what is left of a step is read access by access.
  const int64_t step = int64_t{plan.group} * plan.unroll, whole_steps = ceil_divide(per_segment, step) * step;
  if (plan.segments > 1 && whole_steps <= 4 * step && 4 * whole_steps <= 5 * per_segment) per_segment = whole_steps;
  if (per_segment > 0) plan.segments = ceil_divide(chunks, per_segment);
  if (per_segment < kCascadeSteps * step) plan.cascade = false;
  plan.split = plan.segments > 1;
  plan.wide = force_wide || chunks + kBlockThreads * plan.unroll >= kNarrowLimit || plan.results >= kNarrowLimit;
  plan.grid_x = ceil_divide(plan.results, kBlockThreads / plan.group * plan.each);
  plan.grid_y = plan.segments;

  add_common(plan, program, layout);
  for (int d = 0; d < plan.ndim; ++d)
    add_steps(plan.slots, d,
              std::max<int64_t>(1, d == plan.lane_axis() ? per_row : layout.extents[static_cast<size_t>(d)]),
              plan.wide);
  plan.slots.add(plan.results, "results");
  plan.slots.add(plan.segments, "segments");
  plan.slots.add(chunks, "chunks");
  plan.slots.add(full_chunks, "full_chunks");
  plan.slots.add(inner - full_chunks * lanes, "tail");
  plan.slots.add(per_segment, "per_segment");
  add_states(plan, layout);
}

void plan_columns(Plan& plan, const Program& program, const Layout& layout, bool force_wide) {
  plan.kind = Plan::Kind::columns;
  const int64_t inner = layout.extents.back(), rows = layout.elements(true);
  int64_t lanes = std::clamp<int64_t>(kVectorBytes / lane_sizes(layout, plan.lane_axis()).largest, 1, 8);
  // Registers that a thread may spend on one level of its states; few rows need one level only.
  const int64_t most_state_bytes = rows <= 16 ? 64 : 32;
  while (lanes > 1 && (lanes > inner || lanes * state_bytes(layout) > most_state_bytes)) lanes /= 2;
  plan.lanes = static_cast<int>(lanes);
  plan_operands(plan, layout);
  const int64_t across = ceil_divide(inner, lanes);
  // Few rows: more threads along the kept axis, fewer to combine.
  const int64_t most_across = rows <= 16 ? kBlockThreads : rows <= 64 ? 128 : 32;
  plan.group = static_cast<int>(std::min(most_across, ceil_power_of_two(across)));
  const int64_t down = kBlockThreads / plan.group;
  // One element for all lanes, as of a vector that weighs rows, is no load worth counting.
  const auto loads = std::count_if(plan.inputs.begin(), plan.inputs.end(), [&plan](const PlanOperand& input) {
    return (input.moves & plan.reduced) != 0 && input.access != Access::broadcast;
  });
  int64_t unroll = 8 / std::max<int64_t>(1, loads);
  unroll = std::max<int64_t>(1, unroll);
  plan.once = down == 1 && rows > 0 && rows <= 2 * unroll;
  if (plan.once) {
    plan.unroll = static_cast<int>(rows);
  } else {
    unroll = std::min<int64_t>(unroll, std::max<int64_t>(1, rows / down));
    plan.unroll = static_cast<int>(floor_power_of_two(unroll));
  }

  const int64_t tiles = ceil_divide(across, plan.group);
  const int64_t blocks = plan.results / inner * tiles;
  // A block ends with combining its threads' states: long code where they have several fields, so fewer blocks.
  const int64_t fill = plan.states.size() > 1 ? kFillBlocks / 4 : kFillBlocks;
  if (blocks < fill && !plan.once) {
    const int64_t most = std::min(rows / (down * plan.unroll), kMaxSegments);
    plan.segments = std::clamp<int64_t>(ceil_divide(fill, blocks), 1, std::max<int64_t>(1, most));
  }
  int64_t per_segment = ceil_divide(rows, plan.segments);
  // Whole steps, if that takes few blocks away: what is left of one is read row by row.
  const int64_t step = down * plan.unroll, whole_steps = ceil_divide(per_segment, step) * step;
  if (plan.segments > 1 && 4 * whole_steps <= 5 * per_segment) per_segment = whole_steps;
  if (per_segment > 0) plan.segments = ceil_divide(rows, per_segment);
  if (per_segment < kCascadeSteps * down * plan.unroll) plan.cascade = false;
  plan.split = plan.segments > 1;
  plan.wide = force_wide || rows + kBlockThreads * plan.unroll >= kNarrowLimit || blocks >= kNarrowLimit ||
              plan.results >= kNarrowLimit;
  plan.grid_x = blocks;
  plan.grid_y = plan.segments;

  add_common(plan, program, layout);
  for (int d = 0; d < plan.ndim; ++d)
    add_steps(plan.slots, d,
              std::max<int64_t>(1, d == plan.lane_axis() ? tiles : layout.extents[static_cast<size_t>(d)]), plan.wide);
  plan.slots.add(plan.segments, "segments");
  plan.slots.add(rows, "rows");
  plan.slots.add(per_segment, "per_segment");
  add_states(plan, layout);
}

void append(std::string& key, const std::vector<PlanOperand>& operands) {
  for (const PlanOperand& operand : operands)
    key += fmt::format("{}{:x}{}.", static_cast<char>(operand.access), operand.moves,
                       operand.like < 0 ? "" : fmt::format("={}", operand.like));
  key += ';';
}

}  // namespace

void Slots::add_constant(const Scalar& value, size_t number) {
  const std::array<int64_t, 2> words = constant_words(value);
  varying_.push_back({Varying::constant, number, size()});
  add(words[0], "c{}", number);
  add(words[1], "c{}_high", number);
}

void Slots::add_pointer(void* data, Varying kind, size_t number) {
  varying_.push_back({kind, number, size()});
  add(address_word(data), "{}{}", prefix_of(kind), number);
}

void Slots::add_offset(int64_t offset, size_t axis) {
  varying_.push_back({Varying::offset, axis, size()});
  add(offset, "{}{}", prefix_of(Varying::offset), axis);
}

int64_t Slots::value_of(const VaryingSlot& varying, const Launch& launch) {
  switch (varying.kind) {
    case Varying::offset:
      return launch.index_offset.empty() ? 0 : launch.index_offset[static_cast<int>(varying.number)];
    case Varying::input:
      return address_word(launch.inputs[varying.number].data);
    case Varying::output:
      return address_word(launch.outputs[varying.number].data);
    case Varying::state:
      return address_word(launch.states[varying.number].data);
    case Varying::constant:
    case Varying::partial:
      break;
  }
  throw InternalError("neither a program's constant nor a partial state is the launch's");
}

void Slots::refresh(const Program& program, const Launch& launch) {
  for (const VaryingSlot& varying : varying_) {
    if (varying.kind == Varying::partial) continue;
    if (varying.kind == Varying::constant) {
      const std::array<int64_t, 2> words = constant_words(program.constants()[varying.number]);
      std::copy(words.begin(), words.end(), values_.begin() + static_cast<std::ptrdiff_t>(varying.slot));
    } else {
      values_[varying.slot] = value_of(varying, launch);
    }
  }
}

void Slots::set_partial(size_t number, const void* data) {
  for (const VaryingSlot& varying : varying_)
    if (varying.kind == Varying::partial && varying.number == number) values_[varying.slot] = address_word(data);
}

std::vector<size_t> Slots::differing() const {
  std::vector<size_t> slots;
  for (const VaryingSlot& varying : varying_)
    if (varying.kind != Varying::constant) slots.push_back(varying.slot);
  return slots;
}

void Slots::differing_values(const Launch& launch, std::span<const void* const> partials, int64_t* to) const {
  for (const VaryingSlot& varying : varying_) {
    if (varying.kind == Varying::constant) continue;
    *to++ = varying.kind == Varying::partial ? address_word(partials[varying.number]) : value_of(varying, launch);
  }
}

std::string Plan::key() const {
  std::string key =
      fmt::format("{}{}{}{}{}{}v{}u{}g{}e{}m{}n{}r{:x}t{}x{}k{};", static_cast<char>(kind), wide ? 'w' : '-',
                  split ? 's' : '-', cascade ? 'c' : '-', once ? 'o' : '-', whole ? 'f' : '-', lanes, unroll, group,
                  each, merge_group, ndim, reduced, tile_axis, tile, several);
  append(key, inputs);
  append(key, outputs);
  append(key, states);
  for (const int axis : axis_of) key += fmt::format("{},", axis);
  return key;
}

int Plan::most_several(size_t parameter_bytes) const {
  constexpr size_t kMost = 512;
  const auto fit = [most_slots = parameter_bytes / sizeof(int64_t)](const Slots& of) {
    return (most_slots - std::min(most_slots, of.size())) / std::max<size_t>(1, of.differing().size());
  };
  return static_cast<int>(std::min({kMost, fit(slots), fit(merge_slots)}));
}

std::vector<int64_t> Plan::several_values(const Slots& of, std::span<const Launch> launches,
                                          std::span<const std::vector<const void*>> partials) const {
  const size_t row = of.differing().size();
  std::vector<int64_t> values = of.values();
  values.resize(of.size() + static_cast<size_t>(several) * row);
  for (size_t i = 0; i < launches.size(); ++i)
    of.differing_values(launches[i], partials[i], values.data() + of.size() + i * row);
  return values;
}

int64_t Plan::scratch_bytes() const {
  int64_t bytes = 0;
  if (split)
    for (const PlanOperand& state : states) bytes += rounded_allocation(results * segments * itemsize(state.dtype));
  return bytes;
}

bool is_prepared(const Program& program, const Value& value) {
  if (!is_sampler(value)) return false;
  std::vector<ValueId> open(value.args + 1, value.args + value.nargs);
  while (!open.empty()) {
    const Value& argument = program.values()[static_cast<size_t>(open.back())];
    open.pop_back();
    if (argument.kind == Value::Kind::input || argument.kind == Value::Kind::index) return false;
    for (int i = 0; i < argument.nargs; ++i) open.push_back(argument.args[i]);
  }
  return true;
}

Plan make_plan(const Program& program, const Layout& layout, bool naming) {
  return make_plan(program, layout, naming, {});
}

Plan make_plan(const Program& program, const Layout& layout, bool naming, const PlanOverrides& overrides) {
  Plan plan;
  plan.slots = Slots(naming);
  plan.merge_slots = Slots(naming);
  plan.ndim = layout.ndim();
  for (int d = 0; d < plan.ndim; ++d)
    if (layout.reduced[static_cast<size_t>(d)]) plan.reduced |= 1u << d;
  // Only axes that an index generator names matter to the code.
  plan.axis_of.assign(layout.axis_of.size(), -1);
  for (const Value& value : program.values())
    if (value.kind == Value::Kind::index)
      plan.axis_of[static_cast<size_t>(value.slot)] = layout.axis_of[static_cast<size_t>(value.slot)];
  if (program.reductions().empty()) {
    plan.tile_axis = find_tile_axis(layout);
    if (plan.tile_axis >= 0)
      plan_tile(plan, program, layout, overrides.force_wide);
    else
      plan_map(plan, program, layout, overrides.force_wide);
    return plan;
  }
  plan.cascade = sums_floats(program);
  plan.results = layout.elements(false);
  if (layout.reduced.back())
    plan_rows(plan, program, layout, overrides.force_wide);
  else
    plan_columns(plan, program, layout, overrides.force_wide);
  return plan;
}

}  // namespace quarry::local::cuda
