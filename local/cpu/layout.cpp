#include "quarry/local/cpu/layout.h"

#include <algorithm>
#include <bit>

#include "quarry/local/base/error.h"

namespace quarry::local::cpu {
namespace {

constexpr int64_t kMapTile = 1024;        // elements: a few tiles of 8 bytes stay in L1
constexpr int64_t kLongTile = 8192;       // of one loop from memory to memory
constexpr int64_t kReadTile = 4096;       // of programs that only reduce what they read
constexpr int64_t kPlaceTile = 16384;     // the same of those that look for positions
constexpr int64_t kColumnTile = 512;      // states side by side
constexpr int64_t kColumnTiles = 4;       // a tile of columns is so many times larger: it is read once
constexpr int64_t kUnit = 64 * 1024;      // elements of one unit of parallel work
constexpr int64_t kEnoughUnits = 64;      // kept units above which the reduced axes are not split
constexpr int64_t kMaxUnits = 256;        // kept units times segments
constexpr int64_t kTransposeTile = 64;    // edge of a tile that is read across
constexpr int64_t kShortestKeptRow = 16;  // below, column tiles cross rows of the kept axes

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

// The strides of everything that a program touches, operand by operand; index generators step by elements.
struct Operands {
  std::vector<const Dims*> strides;
  std::vector<Dims> index_strides;
  std::vector<int64_t> index_first;
};

// Whether axis a walks in larger steps than axis b: the first operand that distinguishes them decides.
bool outside(const Operands& operands, int a, int b) {
  for (const Dims* strides : operands.strides) {
    const int64_t sa = magnitude((*strides)[a]), sb = magnitude((*strides)[b]);
    if (sa != 0 && sb != 0 && sa != sb) return sa > sb;
  }
  return a < b;
}

std::vector<int> ordered_axes(const Launch& launch, const Operands& operands) {
  std::vector<int> axes;
  for (int d = 0; d < launch.shape.size(); ++d) {
    if (launch.shape[d] == 1) continue;
    size_t place = axes.size();
    while (place > 0 && outside(operands, d, axes[place - 1])) --place;
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(place), d);
  }
  return axes;
}

AxisGroup group(const Launch& launch, const std::vector<int>& axes, const Dims& strides) {
  AxisGroup result;
  for (int d : axes) result.push_back(launch.shape[d], strides[d]);
  return result;
}

int64_t positions(const Launch& launch, const std::vector<int>& axes) {
  int64_t n = 1;
  for (int d : axes) n *= launch.shape[d];
  return n;
}

void add_addressing(Layout& layout, const Launch& launch, const Operands& operands, const std::vector<int>& outer,
                    const std::vector<int>& inner) {
  const auto both = [&](const Dims& strides) {
    return Addressing{group(launch, outer, strides), group(launch, inner, strides)};
  };
  for (const Operand& operand : launch.inputs) layout.inputs.push_back(both(operand.strides));
  for (const Operand& operand : launch.outputs) layout.outputs.push_back(both(operand.strides));
  for (size_t i = 0; i < operands.index_strides.size(); ++i)
    layout.indexes.push_back({both(operands.index_strides[i]), operands.index_first[i]});
  layout.outer = positions(launch, outer);
  layout.inner = positions(launch, inner);
}

// Whether neighbours along the axis are neighbours in the memory of every operand.
bool is_dense(const Code& code, const Launch& launch, int axis) {
  for (const CodeValue& value : code.values) {
    if (value.kind != CodeValue::Kind::input) continue;
    if (value.swapped || launch.inputs[static_cast<size_t>(value.slot)].strides[axis] != itemsize(value.dtype))
      return false;
  }
  for (size_t o = 0; o < launch.outputs.size(); ++o)
    if (launch.outputs[o].strides[axis] != itemsize(code.values[static_cast<size_t>(code.outputs[o])].dtype))
      return false;
  return true;
}

void lay_out_map(Layout& layout, const Code& code, const Launch& launch, const Operands& operands,
                 std::vector<int> axes) {
  // The inner group: the innermost axis and those that every operand merges with it.
  std::vector<int> inner;
  const auto merges = [&](int a, int b) {  // a directly outside b
    for (const Dims* strides : operands.strides)
      if ((*strides)[a] != (*strides)[b] * launch.shape[b]) return false;
    return true;
  };
  while (!axes.empty() && (inner.empty() || merges(axes.back(), inner.front()))) {
    inner.insert(inner.begin(), axes.back());
    axes.pop_back();
  }
  add_addressing(layout, launch, operands, axes, inner);
  bool across = false;
  if (!axes.empty())
    for (const Dims* strides : operands.strides) {
      const int64_t step = magnitude((*strides)[axes.back()]);
      across = across || (step != 0 && step < magnitude((*strides)[inner.back()]));
    }
  layout.kept = layout.outer * layout.inner;
  const bool is_long = !across && code.one_loop && !inner.empty() && is_dense(code, launch, inner.back());
  const int64_t longest = across ? kTransposeTile : is_long ? kLongTile : kMapTile;
  layout.tile_inner = std::max<int64_t>(1, std::min(layout.inner, longest));
  layout.tile_outer =
      std::max<int64_t>(1, std::min(layout.outer, across ? kTransposeTile : kMapTile / layout.tile_inner));
  layout.tiles_per_unit = std::max<int64_t>(1, kUnit / (layout.tile_inner * layout.tile_outer));
}

void lay_out_reduction(Layout& layout, const Code& code, const Launch& launch, const Operands& operands,
                       const std::vector<int>& axes) {
  const auto is_reduced = [&](int d) { return (launch.reduce_axes >> d & 1u) != 0; };
  std::vector<int> kept, reduced;
  for (int d : axes) (is_reduced(d) ? reduced : kept).push_back(d);
  layout.rows_reduced = axes.empty() || is_reduced(axes.back());
  layout.kept = positions(launch, kept);
  layout.reduced = positions(launch, reduced);
  add_addressing(layout, launch, operands, layout.rows_reduced ? kept : reduced, layout.rows_reduced ? reduced : kept);
  for (const Operand& operand : launch.states) layout.states.push_back(group(launch, kept, operand.strides));

  bool maps = false;
  for (const Instruction& in : code.instructions) maps = maps || in.loop != nullptr;
  // Positions come out the same for any tile; a long one is searched once for its extreme.
  bool positions = true;
  for (const CodeReduction& r : code.reductions) positions = positions && r.position >= 0;
  const int64_t tile = maps ? kMapTile : positions ? kPlaceTile : kReadTile;
  // The innermost axes of one group, and those of the other outside of them.
  int64_t inner_row = 1, outer_row = 1;
  size_t rest = axes.size();
  for (; rest > 0 && is_reduced(axes[rest - 1]) == layout.rows_reduced; --rest)
    inner_row *= launch.shape[axes[rest - 1]];
  for (; rest > 0 && is_reduced(axes[rest - 1]) != layout.rows_reduced; --rest)
    outer_row *= launch.shape[axes[rest - 1]];
  layout.kept_row = std::max<int64_t>(1, layout.kept);
  layout.reduced_row = std::max<int64_t>(1, layout.reduced);
  if (layout.rows_reduced) {
    // Rows that would be parts of several runs of memory are cut, if the tile has room for as many short ones.
    if (inner_row > 0 && inner_row * std::min(outer_row, tile / inner_row) >= kMapTile) {
      layout.reduced_row = inner_row;
      if (outer_row >= kShortestKeptRow) layout.kept_row = outer_row;
    }
    layout.tile_inner = std::max<int64_t>(1, std::min(layout.reduced_row, tile));
    layout.tile_outer = std::max<int64_t>(1, std::min(layout.kept_row, tile / layout.tile_inner));
    layout.kept_tile = layout.tile_outer;
  } else {
    // Columns side by side in memory: the innermost axes that are kept.
    if (inner_row >= kShortestKeptRow) layout.kept_row = inner_row;
    if (outer_row >= kShortestKeptRow) layout.reduced_row = outer_row;
    layout.tile_inner = std::max<int64_t>(1, std::min(layout.kept_row, kColumnTile));
    const int64_t rows = kColumnTiles * tile / layout.tile_inner;
    layout.tile_outer = std::max<int64_t>(1, std::min(layout.reduced_row, rows));
    layout.kept_tile = layout.tile_inner;
  }

  const int64_t tile_work = layout.kept_tile * std::max<int64_t>(1, layout.reduced);
  layout.tiles_per_unit = std::max<int64_t>(1, kUnit / tile_work);
  const int64_t kept_units = std::max<int64_t>(1, ceil_div(layout.kept_tiles(), layout.tiles_per_unit));
  int64_t segments = 1;
  if (kept_units < kEnoughUnits) segments = std::clamp<int64_t>(tile_work / kUnit, 1, kMaxUnits / kept_units);
  const int64_t step = layout.reduced_tile();
  layout.segment_length = std::max<int64_t>(1, ceil_div(ceil_div(layout.reduced, segments), step)) * step;
  layout.segments = std::max<int64_t>(1, ceil_div(layout.reduced, layout.segment_length));

  for (IndexAddressing& index : layout.indexes) {
    const Dims& strides = operands.index_strides[static_cast<size_t>(&index - layout.indexes.data())];
    index.increasing = true;
    for (int d : kept) index.increasing = index.increasing && strides[d] == 0;
    int64_t reach = 0;
    for (size_t i = reduced.size(); i-- > 0;) {
      index.increasing = index.increasing && strides[reduced[i]] > reach;
      reach += strides[reduced[i]] * (launch.shape[reduced[i]] - 1);
    }
  }
}

}  // namespace

int64_t Layout::kept_tiles() const {
  if (kept == 0) return 0;
  return kept / kept_row * ceil_div(kept_row, kept_tile);
}

void Layout::kept_range(int64_t tile, int64_t* begin, int64_t* count) const {
  const int64_t per_row = ceil_div(kept_row, kept_tile);
  const int64_t row = tile / per_row, first = tile % per_row * kept_tile;
  *begin = row * kept_row + first;
  *count = std::min(kept_tile, kept_row - first);
}

int64_t Layout::units() const {
  if (reducing) return ceil_div(kept_tiles(), tiles_per_unit) * segments;
  return kept == 0 ? 0 : ceil_div(outer_tiles() * inner_tiles(), tiles_per_unit);
}

int Layout::stack_levels() const {
  // Whole tiles, and those that end with a row or a segment.
  const int64_t tiles = segment_length / reduced_tile() + segment_length / reduced_row + 2;
  return std::bit_width(static_cast<uint64_t>(tiles));
}

Layout make_layout(const Code& code, const std::vector<Scalar>& constants, const Launch& launch) {
  Operands operands;
  for (const CodeIndex& index : code.indexes) {
    Dims strides = Dims::filled(launch.shape.size());
    int64_t first = 0;
    for (const CodeIndex::Step& step : index.steps) {
      if (step.scale >= 0) {
        const int64_t scale = constants[static_cast<size_t>(step.scale)].as_int64();
        for (int d = 0; d < strides.size(); ++d) strides[d] *= scale;
        first *= scale;
      }
      strides[step.axis] += 1;
      if (!launch.index_offset.empty()) first += launch.index_offset[step.axis];
    }
    operands.index_strides.push_back(std::move(strides));
    operands.index_first.push_back(first);
  }
  for (const Operand& operand : launch.outputs) operands.strides.push_back(&operand.strides);
  for (const Operand& operand : launch.inputs) operands.strides.push_back(&operand.strides);
  for (const Dims& strides : operands.index_strides) operands.strides.push_back(&strides);
  for (const Dims* strides : operands.strides) QUARRY_CHECK(strides->size() == launch.shape.size());

  Layout layout;
  const std::vector<int> axes = ordered_axes(launch, operands);
  layout.reducing = !code.reductions.empty();
  if (layout.reducing) {
    lay_out_reduction(layout, code, launch, operands, axes);
  } else {
    lay_out_map(layout, code, launch, operands, axes);
  }
  return layout;
}

}  // namespace quarry::local::cpu
