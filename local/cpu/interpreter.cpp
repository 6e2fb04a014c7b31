#include "quarry/local/cpu/interpreter.h"

#include <algorithm>
#include <cstring>

#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local::cpu {
namespace {

// A tile of a value: rows begin row_bytes apart, elements of a row are neighbours.
struct View {
  char* data;
  int64_t row_bytes;
};

class Interpreter {
 public:
  Interpreter(const Code& code, const Layout& layout, const ScratchMap& map, const Loops& loops,
              const std::vector<Scalar>& constants, const Launch& launch, char* scratch, int slots)
      : code_(code),
        layout_(layout),
        loops_(loops),
        constants_(constants),
        launch_(launch),
        map_(map),
        scratch_(scratch),
        slots_(slots),
        partials_(scratch + map_.slot_bytes * slots) {
    // An output that shares memory with an input is written when its tile is done, unless that is not read any more.
    for (size_t o = 0; o < launch.outputs.size(); ++o) {
      const CodeValue::Kind kind = code.values[static_cast<size_t>(code.outputs[o])].kind;
      bool in_place = kind == CodeValue::Kind::result || kind == CodeValue::Kind::index;
      for (size_t i = 0; i < launch.inputs.size(); ++i)
        in_place = in_place && (launch.inputs[i].data != launch.outputs[o].data || replaces(o, i));
      for (size_t p = 0; p < o; ++p) in_place = in_place && code.outputs[p] != code.outputs[o];
      direct_.push_back(in_place);
    }
    direct_output_.assign(code.values.size(), -1);
    for (size_t o = 0; o < direct_.size(); ++o)
      if (direct_[o]) direct_output_[static_cast<size_t>(code.outputs[o])] = static_cast<int>(o);
    only_copies_ = !layout.reducing;
    for (size_t o = 0; o < launch.outputs.size(); ++o) {
      const CodeValue& value = code.values[static_cast<size_t>(code.outputs[o])];
      only_copies_ = only_copies_ && value.kind == CodeValue::Kind::input && !value.swapped &&
                     launch.inputs[static_cast<size_t>(value.slot)].data != launch.outputs[o].data;
    }
  }

  void run() {
    if (layout_.reducing) {
      run_reductions();
    } else {
      const int64_t units = layout_.units();
      for_each_unit(units, slots_, [&](int64_t unit, int slot) { run_map_unit(unit, Worker(*this, slot)); });
    }
  }

 private:
  // Whether output `o` may take the place of input `i` as soon as it is made: element for element, by the last
  // instruction that reads it.
  bool replaces(size_t o, size_t i) const {
    if (launch_.inputs[i].strides != launch_.outputs[o].strides) return false;
    const auto reads = [&](int id) {
      const CodeValue& value = code_.values[static_cast<size_t>(id)];
      return value.kind == CodeValue::Kind::input && value.slot == static_cast<int>(i);
    };
    const int made = code_.outputs[o];
    if (code_.values[static_cast<size_t>(made)].kind != CodeValue::Kind::result) return false;
    bool done = false;
    for (const Instruction& in : code_.instructions) {
      if (!in.loop) {
        const CodeValue& value = code_.values[static_cast<size_t>(in.out)];
        if (reads(in.out) && (value.swapped || value.dtype != code_.values[static_cast<size_t>(made)].dtype))
          return false;
        continue;
      }
      for (int k = 0; k < in.nargs; ++k)
        if (done && reads(in.args[k])) return false;
      done = done || in.out == made;
    }
    for (const int id : code_.outputs)
      if (reads(id)) return false;
    for (const CodeReduction& r : code_.reductions)
      if (reads(r.value)) return false;
    return true;
  }

  // One thread's state.
  struct Worker {
    Worker(const Interpreter& owner, int slot)
        : scratch(owner.scratch_ + owner.map_.slot_bytes * slot), views(owner.code_.values.size()) {
      for (int id : owner.code_.constant_values) owner.fill_constant(*this, id);
    }
    char* scratch;
    std::vector<View> views;
  };
  struct Tile {
    int64_t outer, outer_count, inner, inner_count;
  };

  char* tile_buffer(const Worker& worker, const CodeValue& value) const {
    return worker.scratch + map_.tiles[static_cast<size_t>(value.buffer)];
  }

  void fill_constant(Worker& worker, int id) const {
    const CodeValue& value = code_.values[static_cast<size_t>(id)];
    const int64_t size = itemsize(value.dtype);
    char* data = tile_buffer(worker, value);
    alignas(16) char bytes[16];
    constants_[static_cast<size_t>(value.slot)].store(value.dtype, bytes);
    copy_2d(data, 0, size, bytes, 0, 0, 1, code_.one_loop ? 1 : map_.tile_elements, size);
    worker.views[static_cast<size_t>(id)] = {data, layout_.tile_inner * size};
  }

  // ---- Tiles ----

  void run_map_unit(int64_t unit, Worker worker) const {
    const int64_t across = layout_.inner_tiles(), total = layout_.outer_tiles() * across;
    const int64_t begin = unit * layout_.tiles_per_unit, end = std::min(total, begin + layout_.tiles_per_unit);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t outer = t / across * layout_.tile_outer, inner = t % across * layout_.tile_inner;
      evaluate(worker, {outer, std::min(layout_.tile_outer, layout_.outer - outer), inner,
                        std::min(layout_.tile_inner, layout_.inner - inner)});
    }
  }

  // Brings every value of the program up to date for the tile and stores its elementwise outputs.
  void evaluate(Worker& worker, const Tile& tile) const {
    if (only_copies_) {
      for (size_t o = 0; o < code_.outputs.size(); ++o) copy(tile, o);
      return;
    }
    for (int id : code_.constant_values)  // tiles at the edge are narrower
      worker.views[static_cast<size_t>(id)].row_bytes =
          tile.inner_count * itemsize(code_.values[static_cast<size_t>(id)].dtype);
    for (const Instruction& in : code_.instructions) {
      if (!in.loop) {
        load(worker, tile, in.out);
        continue;
      }
      const CodeValue& value = code_.values[static_cast<size_t>(in.out)];
      const int64_t size = itemsize(value.dtype);
      View out{tile_buffer(worker, value), tile.inner_count * size};
      const int direct = direct_output_[static_cast<size_t>(in.out)];
      if (direct >= 0)
        place(layout_.outputs[static_cast<size_t>(direct)], launch_.outputs[static_cast<size_t>(direct)].data, tile,
              size, &out);
      worker.views[static_cast<size_t>(in.out)] = out;
      apply(worker, tile, in, out, size);
    }
    for (size_t o = 0; o < code_.outputs.size(); ++o) store(worker, tile, o);
  }

  void apply(const Worker& worker, const Tile& tile, const Instruction& in, const View& out, int64_t size) const {
    const void* args[3];
    int64_t steps[3] = {};
    bool gaps = out.row_bytes != tile.inner_count * size;
    for (int k = 0; k < in.nargs; ++k) {
      const View& view = worker.views[static_cast<size_t>(in.args[k])];
      const CodeValue& value = code_.values[static_cast<size_t>(in.args[k])];
      args[k] = view.data;
      if (code_.one_loop && value.kind == CodeValue::Kind::constant) continue;  // one element for all rows
      steps[k] = view.row_bytes;
      gaps = gaps || view.row_bytes != tile.inner_count * itemsize(value.dtype);
    }
    if (!gaps || tile.outer_count == 1) {
      in.loop(out.data, args, tile.outer_count * tile.inner_count);
      return;
    }
    for (int64_t r = 0; r < tile.outer_count; ++r) {
      in.loop(out.data + r * out.row_bytes, args, tile.inner_count);
      for (int k = 0; k < in.nargs; ++k) args[k] = static_cast<const char*>(args[k]) + steps[k];
    }
  }

  // Whether the tile of the memory can be used where it is: rows of neighbours, equally far apart.
  static bool place(const Addressing& at, void* data, const Tile& tile, int64_t size, View* view) {
    const AxisGroup::Run inner = at.inner.run(tile.inner, tile.inner_count);
    if (inner.count < tile.inner_count || (inner.stride != size && tile.inner_count > 1)) return false;
    const AxisGroup::Run outer = at.outer.run(tile.outer, tile.outer_count);
    if (outer.count < tile.outer_count) return false;
    *view = {static_cast<char*>(data) + outer.offset + inner.offset, tile.outer_count > 1 ? outer.stride : 0};
    if (tile.outer_count == 1) view->row_bytes = tile.inner_count * size;
    return true;
  }

  // Calls f(address of the memory, row step, column step, rows, columns, first row, first column) for the pieces of a
  // tile inside which steps are constant.
  template <class F>
  static void for_each_piece(const Addressing& at, const Tile& tile, F&& f) {
    for (int64_t r = 0; r < tile.outer_count;) {
      const AxisGroup::Run outer = at.outer.run(tile.outer + r, tile.outer_count - r);
      for (int64_t c = 0; c < tile.inner_count;) {
        const AxisGroup::Run inner = at.inner.run(tile.inner + c, tile.inner_count - c);
        f(outer.offset + inner.offset, outer.stride, inner.stride, outer.count, inner.count, r, c);
        c += inner.count;
      }
      r += outer.count;
    }
  }

  void load(Worker& worker, const Tile& tile, int id) const {
    const CodeValue& value = code_.values[static_cast<size_t>(id)];
    const int64_t size = itemsize(value.dtype), row = tile.inner_count * size;
    View& view = worker.views[static_cast<size_t>(id)];
    if (value.kind == CodeValue::Kind::index) {
      view = {tile_buffer(worker, value), row};
      const int64_t origin = layout_.indexes[static_cast<size_t>(value.slot)].first;
      const Addressing& at = layout_.indexes[static_cast<size_t>(value.slot)].at;
      const int direct = direct_output_[static_cast<size_t>(id)];
      if (direct >= 0 && !value.contiguous)
        place(layout_.outputs[static_cast<size_t>(direct)], launch_.outputs[static_cast<size_t>(direct)].data, tile,
              size, &view);
      for_each_piece(
          at, tile,
          [&](int64_t first, int64_t down, int64_t right, int64_t rows, int64_t columns, int64_t r0, int64_t c0) {
            for (int64_t r = 0; r < rows; ++r) {
              int64_t* p = reinterpret_cast<int64_t*>(view.data + (r0 + r) * view.row_bytes) + c0;
              int64_t index = origin + first + r * down;  // added up: products of 64 bits are slow
              for (int64_t c = 0; c < columns; ++c, index += right) p[c] = index;
            }
          });
      return;
    }
    const Operand& operand = launch_.inputs[static_cast<size_t>(value.slot)];
    const Addressing& at = layout_.inputs[static_cast<size_t>(value.slot)];
    if (!value.swapped && place(at, operand.data, tile, size, &view) && (!value.contiguous || view.row_bytes == row))
      return;
    view = {tile_buffer(worker, value), row};
    for_each_piece(
        at, tile,
        [&](int64_t offset, int64_t down, int64_t right, int64_t rows, int64_t columns, int64_t r, int64_t c) {
          copy_2d(view.data + r * row + c * size, row, size, static_cast<const char*>(operand.data) + offset, down,
                  right, rows, columns, size);
        });
    if (value.swapped) {
      const void* args[] = {view.data};
      loops_.swap[static_cast<int>(value.dtype)](view.data, args, tile.outer_count * tile.inner_count);
    }
  }

  // The tile of an output that is an input, from one memory to the other.
  void copy(const Tile& tile, size_t o) const {
    const CodeValue& value = code_.values[static_cast<size_t>(code_.outputs[o])];
    const auto slot = static_cast<size_t>(value.slot);
    const Addressing& here = layout_.inputs[slot];
    const char* from = static_cast<const char*>(launch_.inputs[slot].data);
    char* to = static_cast<char*>(launch_.outputs[o].data);
    for_each_piece(
        layout_.outputs[o], tile,
        [&](int64_t offset, int64_t down, int64_t right, int64_t rows, int64_t columns, int64_t r, int64_t c) {
          const Tile piece{tile.outer + r, rows, tile.inner + c, columns};
          for_each_piece(here, piece,
                         [&](int64_t source, int64_t source_down, int64_t source_right, int64_t source_rows,
                             int64_t source_columns, int64_t r0, int64_t c0) {
                           copy_2d(to + offset + r0 * down + c0 * right, down, right, from + source, source_down,
                                   source_right, source_rows, source_columns, itemsize(value.dtype));
                         });
        });
  }

  void store(const Worker& worker, const Tile& tile, size_t o) const {
    const int id = code_.outputs[o];
    const int64_t size = itemsize(code_.values[static_cast<size_t>(id)].dtype);
    const View& view = worker.views[static_cast<size_t>(id)];
    char* data = static_cast<char*>(launch_.outputs[o].data);
    View in_place;
    if (direct_[o] && place(layout_.outputs[o], data, tile, size, &in_place) && in_place.data == view.data) return;
    for_each_piece(
        layout_.outputs[o], tile,
        [&](int64_t offset, int64_t down, int64_t right, int64_t rows, int64_t columns, int64_t r, int64_t c) {
          copy_2d(data + offset, down, right, view.data + r * view.row_bytes + c * size, view.row_bytes, size, rows,
                  columns, size);
        });
  }

  // ---- Reductions ----

  struct Block {
    void* fields[3];
  };
  // Partial states of the tiles so far, as a binary counter: level l holds the merged states of 2^l tiles.
  struct Stack {
    std::vector<Block> levels;
    Block free;
    int64_t count = 0;
  };

  void run_reductions() const {
    if (layout_.kept == 0) return;
    if (layout_.reduced == 0) {
      store_identities();
      return;
    }
    const int64_t per_segment = (layout_.kept_tiles() + layout_.tiles_per_unit - 1) / layout_.tiles_per_unit;
    for_each_unit(layout_.units(), slots_, [&](int64_t unit, int slot) {
      Worker worker(*this, slot);
      std::vector<Stack> stacks = make_stacks(worker);
      const int64_t segment = unit / per_segment, first = unit % per_segment * layout_.tiles_per_unit;
      const int64_t last = std::min(layout_.kept_tiles(), first + layout_.tiles_per_unit);
      for (int64_t t = first; t < last; ++t) reduce_tile(worker, stacks, t, segment);
    });
    if (layout_.segments > 1) {
      for_each_unit(per_segment, slots_, [&](int64_t unit, int slot) {
        const int64_t first = unit * layout_.tiles_per_unit;
        const int64_t last = std::min(layout_.kept_tiles(), first + layout_.tiles_per_unit);
        for (int64_t t = first; t < last; ++t) merge_segments(slot, t);
      });
    }
  }

  std::vector<Stack> make_stacks(const Worker& worker) const {
    const int levels = layout_.stack_levels();
    std::vector<Stack> stacks(code_.reductions.size());
    for (size_t i = 0; i < stacks.size(); ++i) {
      char* block = worker.scratch + map_.reductions[i].stack;
      for (int l = 0; l <= levels; ++l, block += map_.reductions[i].block_bytes) {
        Block b{};
        for (int f = 0; f < code_.reductions[i].fields; ++f) b.fields[f] = block + map_.reductions[i].field_offset[f];
        if (l < levels)
          stacks[i].levels.push_back(b);
        else
          stacks[i].free = b;
      }
    }
    return stacks;
  }

  // a = a merged with b.
  void combine(const CodeReduction& r, const Block& a, const Block& b, int64_t n) const {
    const void* const fields[3] = {b.fields[0], b.fields[1], b.fields[2]};
    loops_.combine[r.loop][static_cast<int>(r.dtype)](a.fields, fields, n);
    if (r.count == 1) {  // mean: the moments count for themselves
      void* const count[1] = {a.fields[1]};
      const void* const more[1] = {b.fields[1]};
      loops_.combine[static_cast<int>(Accumulator::sum)][static_cast<int>(DType::int64)](count, more, n);
    }
  }

  // The index that the positions of a reduction are, or null.
  const IndexAddressing* index_of(const CodeReduction& r) const {
    if (r.position < 0 || code_.values[static_cast<size_t>(r.position)].kind != CodeValue::Kind::index) return nullptr;
    return &layout_.indexes[static_cast<size_t>(code_.values[static_cast<size_t>(r.position)].slot)];
  }
  // From places among the reduced positions of a tile that begins with `first` to indexes.
  void number(const IndexAddressing& index, int64_t first, int64_t* places, int64_t count) const {
    const AxisGroup& group = layout_.rows_reduced ? index.at.inner : index.at.outer;
    if (group.single_run()) {
      const int64_t step = group.inner_stride(), begin = index.first + first * step;
      for (int64_t k = 0; k < count; ++k) places[k] = begin + places[k] * step;
    } else {
      for (int64_t k = 0; k < count; ++k) places[k] = index.first + group.run(first + places[k], 1).offset;
    }
  }

  // Reduces one kept tile over one segment.
  void reduce_tile(Worker& worker, std::vector<Stack>& stacks, int64_t kept_tile, int64_t segment) const {
    int64_t kept, count;
    layout_.kept_range(kept_tile, &kept, &count);
    const int64_t begin = segment * layout_.segment_length;
    const int64_t end = std::min(layout_.reduced, begin + layout_.segment_length);
    int64_t n = 0;
    for (int64_t at = begin; at < end; at += n) {
      n = layout_.reduced_count(at, end);
      const Tile tile = layout_.rows_reduced ? Tile{kept, count, at, n} : Tile{at, n, kept, count};
      evaluate(worker, tile);
      for (size_t i = 0; i < stacks.size(); ++i) {
        const CodeReduction& r = code_.reductions[i];
        Stack& stack = stacks[i];
        const IndexAddressing* order = index_of(r);
        if (order && !order->increasing) {
          load(worker, tile, r.position);
          order = nullptr;
        }
        const View& view = worker.views[static_cast<size_t>(r.value)];
        const int64_t* positions =
            r.position < 0 || order
                ? nullptr
                : reinterpret_cast<const int64_t*>(worker.views[static_cast<size_t>(r.position)].data);
        const auto& table = layout_.rows_reduced ? loops_.reduce_columns : loops_.reduce_rows;
        table[r.loop][static_cast<int>(r.dtype)](view.data, positions, tile.outer_count, tile.inner_count,
                                                 view.row_bytes, stack.free.fields);
        if (r.count >= 0) std::fill_n(static_cast<int64_t*>(stack.free.fields[r.count]), count, n);
        if (order) number(*order, at, static_cast<int64_t*>(stack.free.fields[1]), count);
        size_t level = 0;
        for (; stack.count >> level & 1; ++level) {
          combine(r, stack.levels[level], stack.free, count);
          std::swap(stack.levels[level], stack.free);
        }
        std::swap(stack.levels[level], stack.free);
        ++stack.count;
      }
    }
    for (size_t i = 0; i < stacks.size(); ++i) {
      const CodeReduction& r = code_.reductions[i];
      Stack& stack = stacks[i];
      const Block* total = nullptr;
      for (size_t level = 0; stack.count >> level; ++level) {
        if (!(stack.count >> level & 1)) continue;
        if (total) combine(r, stack.levels[level], *total, count);
        total = &stack.levels[level];
      }
      stack.count = 0;
      if (layout_.segments == 1) {
        store_states(worker.scratch, i, *total, kept, count);
      } else {
        const Block to = partial(i, segment, kept);
        for (int f = 0; f < r.fields; ++f)
          std::memcpy(to.fields[f], total->fields[f], static_cast<size_t>(count * itemsize(r.wide[f])));
      }
    }
  }

  Block partial(size_t reduction, int64_t segment, int64_t kept) const {
    Block block{};
    for (int f = 0; f < code_.reductions[reduction].fields; ++f)
      block.fields[f] = partials_ + map_.reductions[reduction].partial[f] +
                        (segment * layout_.kept + kept) * itemsize(code_.reductions[reduction].wide[f]);
    return block;
  }

  // A binary tree over the segments.
  void merge_segments(int slot, int64_t kept_tile) const {
    int64_t kept, count;
    layout_.kept_range(kept_tile, &kept, &count);
    for (size_t i = 0; i < code_.reductions.size(); ++i) {
      for (int64_t step = 1; step < layout_.segments; step *= 2)
        for (int64_t s = 0; s + step < layout_.segments; s += 2 * step)
          combine(code_.reductions[i], partial(i, s, kept), partial(i, s + step, kept), count);
      store_states(scratch_ + map_.slot_bytes * slot, i, partial(i, 0, kept), kept, count);
    }
  }

  // Writes the states of kept positions [kept, kept + count).
  void store_states(char* slot, size_t reduction, const Block& block, int64_t kept, int64_t count) const {
    const CodeReduction& r = code_.reductions[reduction];
    size_t operand = 0;
    for (size_t i = 0; i < reduction; ++i) operand += static_cast<size_t>(code_.reductions[i].fields);
    for (int f = 0; f < r.fields; ++f, ++operand) {
      const char* from = static_cast<const char*>(block.fields[f]);
      if (r.wide[f] != r.state[f]) {
        const void* args[] = {from};
        loops_.cast[static_cast<int>(r.wide[f])][static_cast<int>(r.state[f])](slot + map_.conversion, args, count);
        from = slot + map_.conversion;
      }
      const int64_t size = itemsize(r.state[f]);
      char* data = static_cast<char*>(launch_.states[operand].data);
      for (int64_t k = 0; k < count;) {
        const AxisGroup::Run run = layout_.states[operand].run(kept + k, count - k);
        copy_2d(data + run.offset, 0, run.stride, from + k * size, 0, size, 1, run.count, size);
        k += run.count;
      }
    }
  }

  void store_identities() const {
    const Worker worker(*this, 0);
    for (size_t i = 0; i < code_.reductions.size(); ++i) {
      const CodeReduction& r = code_.reductions[i];
      Block block = make_stacks(worker)[i].free;
      for (int f = 0; f < r.fields; ++f) {
        alignas(16) char bytes[16];
        start_value(r.reduction, f, r.wide[f]).store(r.wide[f], bytes);
        const int64_t size = itemsize(r.wide[f]);
        copy_2d(static_cast<char*>(block.fields[f]), 0, size, bytes, 0, 0, 1, layout_.kept_tile, size);
      }
      for (int64_t t = 0; t < layout_.kept_tiles(); ++t) {
        int64_t kept, count;
        layout_.kept_range(t, &kept, &count);
        store_states(worker.scratch, i, block, kept, count);
      }
    }
  }

  const Code& code_;
  const Layout& layout_;
  const Loops& loops_;
  const std::vector<Scalar>& constants_;
  const Launch& launch_;
  const ScratchMap& map_;
  char* const scratch_;
  const int slots_;
  char* const partials_;
  std::vector<bool> direct_;        // per output
  bool only_copies_ = false;        // the outputs are inputs
  std::vector<int> direct_output_;  // per value: the output it may be computed into, or -1
};

}  // namespace

ScratchMap::ScratchMap(const Code& code, const Layout& layout) : tile_elements(layout.tile_outer * layout.tile_inner) {
  tiles.reserve(code.buffer_itemsize.size());
  for (int64_t size : code.buffer_itemsize) {
    tiles.push_back(slot_bytes);
    slot_bytes += align_up(size * tile_elements, kAllocationAlignment);
  }
  const int64_t states = layout.kept_tile;
  reductions.resize(code.reductions.size());
  for (size_t i = 0; i < reductions.size(); ++i) {
    const CodeReduction& r = code.reductions[i];
    ReductionPart& part = reductions[i];
    for (int f = 0; f < r.fields; ++f) {
      part.field_offset[f] = part.block_bytes;
      part.block_bytes += align_up(itemsize(r.wide[f]) * states, kAllocationAlignment);
      part.partial[f] = partial_bytes;
      if (layout.segments > 1)
        partial_bytes += align_up(itemsize(r.wide[f]) * layout.kept * layout.segments, kAllocationAlignment);
    }
    part.stack = slot_bytes;
    slot_bytes += part.block_bytes * (layout.stack_levels() + 1);
  }
  conversion = slot_bytes;
  if (!reductions.empty()) slot_bytes += align_up(16 * states, kAllocationAlignment);
}

void interpret(const Code& code, const Layout& layout, const ScratchMap& map, const Loops& loops,
               const std::vector<Scalar>& constants, const Launch& launch, char* scratch, int slots) {
  Interpreter(code, layout, map, loops, constants, launch, scratch, slots).run();
}

}  // namespace quarry::local::cpu
