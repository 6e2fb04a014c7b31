// Gather, scatter and update: positions are turned into byte offsets in blocks that stay in L1, then elements move.
#include "quarry/local/cpu/indexing.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/masks.h"
#include "quarry/local/cpu/offsets.h"
#include "quarry/local/cpu/strided.h"
#include "quarry/local/cpu/update.h"
#include "quarry/local/cpu/words.h"

namespace quarry::local {
namespace cpu {
namespace {

constexpr int64_t kBlock = 256;
constexpr int64_t kUnitElements = 1 << 15;  // least work of one unit

// Whether the position is inside its axis; it is moved there where the mode says so.
template <IndexMode mode>
bool adjust(int64_t& at, int64_t extent) {
  if constexpr (mode == IndexMode::raise) {
    at += at < 0 ? extent : 0;
    return static_cast<uint64_t>(at) < static_cast<uint64_t>(extent);
  } else if constexpr (mode == IndexMode::wrap) {
    if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(extent)) {
      at %= extent;
      at += at < 0 ? extent : 0;
    }
  } else if constexpr (mode == IndexMode::clip) {
    at = std::clamp<int64_t>(at, 0, extent - 1);
  }
  return true;
}

// Of a position that may be out of bounds: the product may overflow then.
int64_t byte_offset(int64_t at, int64_t stride) {
  return static_cast<int64_t>(static_cast<uint64_t>(at) * static_cast<uint64_t>(stride));
}

// Writes the offsets of n positions, or adds them to what is there. False if one is outside its axis.
template <IndexMode mode, bool adding>
bool make_offsets(int64_t* offsets, int64_t n, const AxisIndex& index, const char* positions, int64_t step) {
  bool good = true;
  const int64_t extent = index.extent, stride = index.stride;
  for (int64_t i = 0; i < n; ++i) {
    int64_t at;
    std::memcpy(&at, positions + i * step, sizeof at);
    good &= adjust<mode>(at, extent);
    offsets[i] = static_cast<int64_t>(static_cast<uint64_t>(adding ? offsets[i] : 0) +
                                      static_cast<uint64_t>(byte_offset(at, stride)));
  }
  return good;
}

template <IndexMode mode>
bool make_offsets(bool adding, int64_t* offsets, int64_t n, const AxisIndex& index, const char* positions,
                  int64_t step) {
  if (adding) return make_offsets<mode, /*adding=*/true>(offsets, n, index, positions, step);
  return make_offsets<mode, /*adding=*/false>(offsets, n, index, positions, step);
}

bool make_offsets(IndexMode mode, bool adding, int64_t* offsets, int64_t n, const AxisIndex& index,
                  const char* positions, int64_t step) {
  static const OffsetLoop loops[] = {
      offset_loop(cpu_level(), IndexMode::raise), offset_loop(cpu_level(), IndexMode::wrap),
      offset_loop(cpu_level(), IndexMode::clip), offset_loop(cpu_level(), IndexMode::unchecked)};
  const OffsetLoop packed = loops[static_cast<int>(mode)];
  if (packed && !adding && step == static_cast<int64_t>(sizeof(int64_t)))
    return packed(offsets, reinterpret_cast<const int64_t*>(positions), n, index.extent, index.stride);
  switch (mode) {
    case IndexMode::raise:
      return make_offsets<IndexMode::raise>(adding, offsets, n, index, positions, step);
    case IndexMode::wrap:
      return make_offsets<IndexMode::wrap>(adding, offsets, n, index, positions, step);
    case IndexMode::clip:
      return make_offsets<IndexMode::clip>(adding, offsets, n, index, positions, step);
    case IndexMode::unchecked:
      return make_offsets<IndexMode::unchecked>(adding, offsets, n, index, positions, step);
  }
  return false;
}

// Compact elements cut into points and, where no index moves along the last axis, runs along it.
struct Walk {
  explicit Walk(CompactElements from) : c(std::move(from)) {
    IndexedElements& e = c.elements;
    points = e.shape;
    int last = points.size() - 1;
    bool indexed = false;
    for (const AxisIndex& index : e.indices) indexed = indexed || (last >= 0 && index.positions.strides[last] != 0);
    if (last >= 0 && !indexed) {
      run = points[last];
      array_step = e.array.strides[last];
      other_step = c.other.strides[last];
      points.resize(last--);
    }
    count = element_count(points);
    for (const AxisIndex& index : e.indices) {
      const bool moves = last >= 0 && index.positions.strides[last] != 0;
      (moves ? moving : resting).push_back(&index);
    }
    // Positions that every row uses become offsets once.
    constexpr int64_t kLongestTable = int64_t{1} << 16;
    if (moving.size() != 1 || e.array.strides[last] != 0 || points[last] > kLongestTable || count <= points[last])
      return;
    const Operand& positions = moving[0]->positions;
    for (int d = 0; d < last; ++d)
      if (positions.strides[d] != 0) return;
    table.resize(static_cast<size_t>(points[last]));
    good = make_offsets(e.mode, /*adding=*/false, table.data(), points[last], *moving[0],
                        static_cast<const char*>(positions.data), positions.strides[last]);
  }
  Walk(const Walk&) = delete;

  // Calls f(address in the array, offsets from there, address in the other operand, step there, n) for blocks of the
  // points in [begin, end). False where a position is outside its axis.
  template <class F>
  bool blocks(int64_t begin, int64_t end, const F& f) const {
    if (!good) return false;
    const IndexedElements& e = c.elements;
    const int last = points.size() - 1;
    const int64_t inner = last >= 0 ? points[last] : 1;
    const int64_t array_inner = last >= 0 ? e.array.strides[last] : 0;
    const int64_t other_inner = last >= 0 ? c.other.strides[last] : 0;
    // Where the row begins: in the array, in the other operand and in every index.
    const size_t operands = 2 + e.indices.size();
    std::vector<const Operand*> over{&e.array, &c.other};
    for (const AxisIndex& index : e.indices) over.push_back(&index.positions);
    std::vector<int64_t> row(operands, 0);
    Dims at = Dims::filled(points.size(), 0);
    for (int64_t d = last - 1, rest = begin / inner; d >= 0; --d) {
      const int axis = static_cast<int>(d);
      at[axis] = rest % points[axis];
      rest /= points[axis];
      for (size_t k = 0; k < operands; ++k) row[k] += at[axis] * over[k]->strides[axis];
    }
    const auto positions_of = [&](const AxisIndex* index) {
      return static_cast<const char*>(index->positions.data) + row[2 + static_cast<size_t>(index - e.indices.data())];
    };
    int64_t offsets[kBlock];
    int64_t column = begin % inner;
    for (int64_t p = begin; p < end;) {
      const int64_t longest = table.empty() ? kBlock : inner;
      const int64_t n = std::min({end - p, inner - column, longest});
      int64_t first = row[0] + column * array_inner;
      for (const AxisIndex* index : resting) {
        int64_t offset = 0;
        if (!make_offsets(e.mode, /*adding=*/false, &offset, 1, *index, positions_of(index), 0)) return false;
        first += offset;
      }
      const int64_t* from = offsets;
      if (!table.empty()) {
        from = table.data() + column;
      } else {
        const bool strided = array_inner != 0 || moving.empty();
        if (strided)
          for (int64_t i = 0; i < n; ++i) offsets[i] = i * array_inner;
        for (const AxisIndex* index : moving) {
          const int64_t step = index->positions.strides[last];
          if (!make_offsets(e.mode, /*adding=*/strided || index != moving[0], offsets, n, *index,
                            positions_of(index) + column * step, step))
            return false;
        }
      }
      f(static_cast<char*>(e.array.data) + first, from,
        static_cast<char*>(c.other.data) + row[1] + column * other_inner, other_inner, n);
      p += n;
      column += n;
      if (column < inner) continue;
      column = 0;
      for (int d = last - 1; d >= 0; --d) {
        const bool wraps = ++at[d] == points[d];
        const int64_t steps = wraps ? 1 - points[d] : 1;
        for (size_t k = 0; k < operands; ++k) row[k] += steps * over[k]->strides[d];
        if (!wraps) break;
        at[d] = 0;
      }
    }
    return true;
  }

  CompactElements c;
  Dims points;
  int64_t count = 1;  // of points
  int64_t run = 1;
  int64_t array_step = 0, other_step = 0;         // along a run
  std::vector<const AxisIndex*> moving, resting;  // along the last axis of the points
  std::vector<int64_t> table;                     // offsets along the last axis, where all rows have the same
  bool good = true;                               // all in the table
};

// Throws for the first position that is outside its axis.
void check_positions(const IndexedElements& elements, int threads) {
  for (const AxisIndex& index : elements.indices) {
    Dims shape = elements.shape, strides = index.positions.strides;
    for (int d = 0; d < shape.size(); ++d)
      if (strides[d] == 0) shape[d] = 1;
    Dims* const both[] = {&strides};
    merge_axes(shape, both);
    const int64_t count = element_count(shape);
    const int last = shape.size() - 1;
    const int64_t inner = last >= 0 ? shape[last] : 1, step = last >= 0 ? strides[last] : 0;
    // Calls f(address, n) for the pieces of rows in [begin, end).
    const auto pieces = [&](int64_t begin, int64_t end, const auto& f) {
      for (int64_t p = begin; p < end;) {
        const int64_t column = p % inner, n = std::min(end - p, inner - column);
        const char* from = static_cast<const char*>(index.positions.data) + column * step;
        for (int64_t d = last - 1, rest = p / inner; d >= 0; --d) {
          from += rest % shape[static_cast<int>(d)] * strides[static_cast<int>(d)];
          rest /= shape[static_cast<int>(d)];
        }
        f(from, n);
        p += n;
      }
    };
    const auto valid = static_cast<uint64_t>(index.extent);
    const int64_t units = (count + kUnitElements - 1) / kUnitElements;
    std::atomic<bool> good = true;
    for_each_unit(units, slots_for(units, threads), [&](int64_t unit, int) {
      bool bad = false;
      pieces(unit * kUnitElements, std::min(count, (unit + 1) * kUnitElements), [&](const char* from, int64_t n) {
        const auto check = [&](int64_t each) {
          for (int64_t i = 0; i < n; ++i) {
            uint64_t at;
            std::memcpy(&at, from + i * each, sizeof at);
            bad |= at + valid >= 2 * valid;  // below -extent or at least extent
          }
        };
        if (step == static_cast<int64_t>(sizeof(int64_t)))
          check(sizeof(int64_t));
        else
          check(step);
      });
      if (bad) good = false;
    });
    if (good) continue;
    pieces(0, count, [&](const char* from, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        int64_t at;
        std::memcpy(&at, from + i * step, sizeof at);
        if (at < -index.extent || at >= index.extent) throw_out_of_bounds(at, index.axis, index.extent);
      }
    });
  }
}

// Moves n elements or runs between the array and the other operand.
template <class T, bool reading>
void move_elements(char* array, const int64_t* offsets, char* other, int64_t step, int64_t n) {
  if (step == static_cast<int64_t>(sizeof(T))) {
    for (int64_t i = 0; i < n; ++i) {
      char* const there = other + i * static_cast<int64_t>(sizeof(T));
      if constexpr (reading)
        store(there, load<T>(array + offsets[i]));
      else
        store(array + offsets[i], load<T>(there));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (reading)
      store(other + i * step, load<T>(array + offsets[i]));
    else
      store(array + offsets[i], load<T>(other + i * step));
  }
}

template <bool reading>
void move_elements(int64_t bytes, char* array, const int64_t* offsets, char* other, int64_t step, int64_t n) {
  switch (bytes) {
    case 1:
      return move_elements<uint8_t, reading>(array, offsets, other, step, n);
    case 2:
      return move_elements<uint16_t, reading>(array, offsets, other, step, n);
    case 4:
      return move_elements<uint32_t, reading>(array, offsets, other, step, n);
    case 8:
      return move_elements<uint64_t, reading>(array, offsets, other, step, n);
    case 16:
      return move_elements<Bytes16, reading>(array, offsets, other, step, n);
    default:
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(reading ? other + i * step : array + offsets[i], reading ? array + offsets[i] : other + i * step,
                    static_cast<size_t>(bytes));
  }
}

// A block of elements of a vector, without the preparations that more of them need. False where they are not that, or
// where a position is outside its axis.
bool gather_few(const IndexedElements& from, const Operand& to, int64_t itemsize) {
  if (from.shape.size() != 1 || from.shape[0] > kBlock || from.indices.size() != 1 || from.array.strides[0] != 0)
    return false;
  int64_t offsets[kBlock];
  const AxisIndex& index = from.indices[0];
  if (!make_offsets(from.mode, /*adding=*/false, offsets, from.shape[0], index,
                    static_cast<const char*>(index.positions.data), index.positions.strides[0]))
    return false;
  move_elements</*reading=*/true>(itemsize, static_cast<char*>(from.array.data), offsets, static_cast<char*>(to.data),
                                  to.strides[0], from.shape[0]);
  return true;
}

template <bool reading>
void move_block(const Walk& walk, char* array, const int64_t* offsets, char* other, int64_t step, int64_t n) {
  const int64_t size = walk.c.itemsize;
  if (walk.run == 1) return move_elements<reading>(size, array, offsets, other, step, n);
  if (walk.array_step == size && walk.other_step == size)
    return move_elements<reading>(size * walk.run, array, offsets, other, step, n);
  for (int64_t i = 0; i < n; ++i) {
    char *const here = array + offsets[i], *const there = other + i * step;
    if constexpr (reading)
      copy_2d(there, 0, walk.other_step, here, 0, walk.array_step, 1, walk.run, size);
    else
      copy_2d(here, 0, walk.array_step, there, 0, walk.other_step, 1, walk.run, size);
  }
}

// Points per unit of parallel work and the number of units.
struct Units {
  Units(int64_t points, int64_t run) {
    points_per_unit = std::max<int64_t>(1, kUnitElements / std::max<int64_t>(run, 1));
    count = (points + points_per_unit - 1) / points_per_unit;
  }
  int64_t points_per_unit, count;
};

// Elements at different positions of the first axis are different ones: units that keep to whole positions of it do not
// disturb each other. 0: all in one unit.
int64_t independent_points(const Walk& walk) {
  if (walk.c.elements.distinct) return 1;
  if (walk.points.size() < 2 || walk.c.elements.array.strides[0] == 0) return 0;
  return walk.count / walk.points[0];
}

// The points in units that may run at once while they write to the array.
template <class F>
void for_writing_units(const Walk& walk, int threads, const F& f) {
  const int64_t step = independent_points(walk);
  if (step == 0) return f(int64_t{0}, walk.count);
  const int64_t per_unit = std::max<int64_t>(1, kUnitElements / std::max<int64_t>(walk.run * step, 1)) * step;
  const int64_t units = (walk.count + per_unit - 1) / per_unit;
  for_each_unit(units, slots_for(units, threads),
                [&](int64_t unit, int) { f(unit * per_unit, std::min(walk.count, (unit + 1) * per_unit)); });
}

// The elements of a small array before they are written, so that many positions need not be read twice: once to know
// that all are good, and again to write.
class Before {
 public:
  Before(const IndexedElements& to, int64_t itemsize) {
    int64_t elements = 1, below = 0, span = itemsize;
    const auto axis = [&](int64_t extent, int64_t stride) {
      if (extent <= 1 || stride == 0) return;
      elements *= extent;
      span += (extent - 1) * std::abs(stride);
      below += std::min<int64_t>((extent - 1) * stride, 0);
    };
    for (int d = 0; d < to.shape.size(); ++d) axis(to.shape[d], to.array.strides[d]);
    int64_t points = 1;
    for (const AxisIndex& index : to.indices) {
      axis(index.extent, index.stride);
      int64_t own = 1;
      for (int d = 0; d < to.shape.size(); ++d) own *= index.positions.strides[d] != 0 ? to.shape[d] : 1;
      points = std::max(points, own);
    }
    const bool dense = span == elements * itemsize;
    if (to.mode != IndexMode::raise || !dense || span > points || to.indices.empty()) return;
    from_ = static_cast<char*>(to.array.data) + below;
    bytes_.assign(from_, from_ + span);
  }
  bool kept() const { return from_ != nullptr; }
  void restore() const { std::copy(bytes_.begin(), bytes_.end(), from_); }

 private:
  char* from_ = nullptr;
  std::vector<char> bytes_;
};

// Runs f, of Walk::blocks(), over all points. Nothing is written in the end if a position is bad, and it throws.
template <class F>
void write_elements(const IndexedElements& to, const CompactElements& compact, int threads, const F& f) {
  const Before before(compact.elements, compact.itemsize);
  if (to.mode == IndexMode::raise && !before.kept()) check_positions(to, threads);
  const Walk walk(compact);
  std::atomic<bool> good = true;
  for_writing_units(walk, threads, [&](int64_t begin, int64_t end) {
    const bool all =
        walk.blocks(begin, end, [&](char* array, const int64_t* offsets, char* other, int64_t step, int64_t n) {
          f(walk, array, offsets, other, step, n);
        });
    if (!all) good = false;
  });
  if (good) return;
  before.restore();
  check_positions(to, threads);
}

}  // namespace

}  // namespace cpu

namespace {

class CpuIndexing final : public Indexing {
 public:
  int64_t gather_scratch_bytes(const IndexedElements&, const Operand&, int64_t) override { return 0; }
  void gather(const IndexedElements& from, const Operand& to, int64_t itemsize, const ExecContext& context) override {
    if (element_count(from.shape) == 0) {
      if (from.mode == IndexMode::raise) cpu::check_positions(from, context.threads);
      return;
    }
    if (cpu::gather_few(from, to, itemsize)) return;
    const cpu::Walk walk(compact(from, to, itemsize));
    const cpu::Units units(walk.count, walk.run);
    std::atomic<bool> good = true;
    cpu::for_each_unit(units.count, cpu::slots_for(units.count, context.threads), [&](int64_t unit, int) {
      const int64_t begin = unit * units.points_per_unit;
      if (!walk.blocks(begin, std::min(walk.count, begin + units.points_per_unit),
                       [&](char* array, const int64_t* offsets, char* other, int64_t step, int64_t n) {
                         cpu::move_block</*reading=*/true>(walk, array, offsets, other, step, n);
                       }))
        good = false;
    });
    if (!good) cpu::check_positions(from, context.threads);
  }

  int64_t scatter_scratch_bytes(const IndexedElements&, const Operand&, int64_t) override { return 0; }
  void scatter(const IndexedElements& to, const Operand& from, int64_t itemsize, const ExecContext& context) override {
    if (element_count(to.shape) == 0) {
      if (to.mode == IndexMode::raise) cpu::check_positions(to, context.threads);
      return;
    }
    cpu::write_elements(to, compact(to, from, itemsize), context.threads, cpu::move_block</*reading=*/false>);
  }

  int64_t update_scratch_bytes(const IndexedElements&, const Program&, const Operand&) override { return 0; }
  void update(const IndexedElements& to, const Program& program, const Operand& value,
              const ExecContext& context) override {
    if (element_count(to.shape) == 0) {
      if (to.mode == IndexMode::raise) cpu::check_positions(to, context.threads);
      return;
    }
    const cpu::Updater updater(program);
    const Operand values = program.inputs() == 1 ? Operand{to.array.data, Dims::filled(to.shape.size(), 0)} : value;
    const auto update_block = [&](const cpu::Walk& walk, char* array, const int64_t* offsets, char* other, int64_t step,
                                  int64_t n) {
      if (walk.run == 1) return updater(array, offsets, other, step, n);
      int64_t along[cpu::kBlock];
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t first = 0; first < walk.run; first += cpu::kBlock) {
          const int64_t count = std::min(cpu::kBlock, walk.run - first);
          for (int64_t k = 0; k < count; ++k) along[k] = offsets[i] + (first + k) * walk.array_step;
          updater(array, along, other + i * step + first * walk.other_step, walk.other_step, count);
        }
      }
    };
    cpu::write_elements(to, compact(to, values, itemsize(program.input_dtype(0))), context.threads, update_block);
  }

  int64_t count_scratch_bytes(const Mask&) override { return 0; }
  void count(const Mask& mask, int64_t* offsets, const ExecContext& context) override {
    cpu::count_mask(mask, offsets, context.threads);
  }
  void positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step, const ExecContext& context) override {
    cpu::mask_positions(mask, to, step, axis_step, context.threads);
  }
  void select(const Mask& mask, const Operand& from, void* to, int64_t itemsize, const ExecContext& context) override {
    cpu::select_masked(mask, from, to, itemsize, context.threads);
  }
  void expand(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to, int64_t itemsize,
              const ExecContext& context) override {
    cpu::expand_masked(mask, from, step, period, to, itemsize, context.threads);
  }
  void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize,
                  const ExecContext& context) override {
    cpu::copy_where(mask, from, to, itemsize, context.threads);
  }
};

}  // namespace

Indexing& cpu_indexing() {
  static CpuIndexing& instance = *new CpuIndexing;
  return instance;
}

}  // namespace quarry::local
