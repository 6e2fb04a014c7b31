// Gather, scatter and update: positions are turned into byte offsets in blocks that stay in L1, then elements move.
#include "local/cpu/indexing.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "local/base/error.h"
#include "local/cpu/arena.h"
#include "local/cpu/masks.h"
#include "local/cpu/strided.h"
#include "local/cpu/update.h"

namespace quarry::local {
namespace cpu {
namespace {

constexpr int64_t kBlock = 256;
constexpr int64_t kUnitElements = 1 << 15;  // least work of one unit

struct Bytes16 {
  uint64_t low, high;
};

template <IndexMode mode>
bool add_offsets(int64_t* offsets, int64_t n, const AxisIndex& index, const char* positions, int64_t step) {
  bool good = true;
  const int64_t extent = index.extent, stride = index.stride;
  for (int64_t i = 0; i < n; ++i) {
    int64_t at;
    std::memcpy(&at, positions + i * step, sizeof at);
    if constexpr (mode == IndexMode::raise) {
      at += at < 0 ? extent : 0;
      good &= static_cast<uint64_t>(at) < static_cast<uint64_t>(extent);
    } else if constexpr (mode == IndexMode::wrap) {
      if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(extent)) {
        at %= extent;
        at += at < 0 ? extent : 0;
      }
    } else if constexpr (mode == IndexMode::clip) {
      at = std::clamp<int64_t>(at, 0, extent - 1);
    }
    offsets[i] = static_cast<int64_t>(static_cast<uint64_t>(offsets[i]) +
                                      static_cast<uint64_t>(at) * static_cast<uint64_t>(stride));
  }
  return good;
}

bool add_offsets(IndexMode mode, int64_t* offsets, int64_t n, const AxisIndex& index, const char* positions,
                 int64_t step) {
  switch (mode) {
    case IndexMode::raise:
      return add_offsets<IndexMode::raise>(offsets, n, index, positions, step);
    case IndexMode::wrap:
      return add_offsets<IndexMode::wrap>(offsets, n, index, positions, step);
    case IndexMode::clip:
      return add_offsets<IndexMode::clip>(offsets, n, index, positions, step);
    case IndexMode::unchecked:
      return add_offsets<IndexMode::unchecked>(offsets, n, index, positions, step);
  }
  return false;
}

// Compact elements cut into points and, where no index moves along the last axis, runs along it.
struct Walk {
  explicit Walk(CompactElements from) : c(std::move(from)) {
    IndexedElements& e = c.elements;
    points = e.shape;
    const int last = points.size() - 1;
    bool indexed = false;
    for (const AxisIndex& index : e.indices) indexed = indexed || (last >= 0 && index.positions.strides[last] != 0);
    if (last >= 0 && !indexed) {
      run = points[last];
      array_step = e.array.strides[last];
      other_step = c.other.strides[last];
      points.resize(last);
    }
    count = element_count(points);
  }

  // Calls f(offsets in the array, address in the other operand, step there, n) for blocks of the points in [begin,
  // end). False where a position is outside its axis.
  template <class F>
  bool blocks(int64_t begin, int64_t end, const F& f) const {
    const IndexedElements& e = c.elements;
    const int axes = points.size(), last = axes - 1;
    const int64_t inner = last >= 0 ? points[last] : 1;
    const int64_t array_inner = last >= 0 ? e.array.strides[last] : 0;
    const int64_t other_inner = last >= 0 ? c.other.strides[last] : 0;
    int64_t offsets[kBlock];
    for (int64_t p = begin; p < end;) {
      int64_t rest = p / inner, column = p % inner;
      Dims at(axes);
      if (last >= 0) at[last] = column;
      for (int d = last - 1; d >= 0; --d) {
        at[d] = rest % points[d];
        rest /= points[d];
      }
      const auto offset_of = [&](const Operand& operand) {
        int64_t offset = 0;
        for (int d = 0; d < axes; ++d) offset += at[d] * operand.strides[d];
        return offset;
      };
      const int64_t n = std::min({end - p, inner - column, kBlock});
      const int64_t first = offset_of(e.array);
      for (int64_t i = 0; i < n; ++i) offsets[i] = first + i * array_inner;
      for (const AxisIndex& index : e.indices) {
        const char* positions = static_cast<const char*>(index.positions.data) + offset_of(index.positions);
        if (!add_offsets(e.mode, offsets, n, index, positions, last >= 0 ? index.positions.strides[last] : 0))
          return false;
      }
      f(static_cast<const int64_t*>(offsets), static_cast<char*>(c.other.data) + offset_of(c.other), other_inner, n);
      p += n;
    }
    return true;
  }

  CompactElements c;
  Dims points;
  int64_t count = 1;  // of points
  int64_t run = 1;
  int64_t array_step = 0, other_step = 0;  // along a run
};

// Throws for the first position that is outside its axis.
void check_positions(const IndexedElements& elements) {
  for (const AxisIndex& index : elements.indices) {
    Dims shape = elements.shape, strides = index.positions.strides;
    for (int d = 0; d < shape.size(); ++d)
      if (strides[d] == 0) shape[d] = 1;
    Dims* const both[] = {&strides};
    merge_axes(shape, both);
    const int64_t count = element_count(shape);
    const int last = shape.size() - 1;
    const int64_t inner = last >= 0 ? shape[last] : 1, step = last >= 0 ? strides[last] : 0;
    for (int64_t row = 0; row * inner < count; ++row) {
      const char* from = static_cast<const char*>(index.positions.data);
      for (int64_t d = last - 1, rest = row; d >= 0; --d) {
        from += rest % shape[static_cast<int>(d)] * strides[static_cast<int>(d)];
        rest /= shape[static_cast<int>(d)];
      }
      for (int64_t i = 0; i < inner; ++i) {
        int64_t at;
        std::memcpy(&at, from + i * step, sizeof at);
        if (at < -index.extent || at >= index.extent) throw_out_of_bounds(at, index.axis, index.extent);
      }
    }
  }
}

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
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

template <bool reading>
void move_block(const Walk& walk, const int64_t* offsets, char* other, int64_t step, int64_t n) {
  char* const array = static_cast<char*>(walk.c.elements.array.data);
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

}  // namespace

}  // namespace cpu

namespace {

class CpuIndexing final : public Indexing {
 public:
  int64_t gather_scratch_bytes(const IndexedElements&, const Operand&, int64_t) override { return 0; }
  void gather(const IndexedElements& from, const Operand& to, int64_t itemsize, const ExecContext& context) override {
    if (element_count(from.shape) == 0) {
      if (from.mode == IndexMode::raise) cpu::check_positions(from);
      return;
    }
    const cpu::Walk walk(compact(from, to, itemsize));
    const cpu::Units units(walk.count, walk.run);
    std::atomic<bool> good = true;
    cpu::for_each_unit(units.count, cpu::slots_for(units.count, context.threads), [&](int64_t unit, int) {
      const int64_t begin = unit * units.points_per_unit;
      if (!walk.blocks(begin, std::min(walk.count, begin + units.points_per_unit),
                       [&](const int64_t* offsets, char* other, int64_t step, int64_t n) {
                         cpu::move_block</*reading=*/true>(walk, offsets, other, step, n);
                       }))
        good = false;
    });
    if (!good) cpu::check_positions(from);
  }

  int64_t scatter_scratch_bytes(const IndexedElements&, const Operand&, int64_t) override { return 0; }
  void scatter(const IndexedElements& to, const Operand& from, int64_t itemsize, const ExecContext& context) override {
    if (to.mode == IndexMode::raise) cpu::check_positions(to);
    if (element_count(to.shape) == 0) return;
    const cpu::Walk walk(compact(to, from, itemsize));
    cpu::for_writing_units(walk, context.threads, [&](int64_t begin, int64_t end) {
      walk.blocks(begin, end, [&](const int64_t* offsets, char* other, int64_t step, int64_t n) {
        cpu::move_block</*reading=*/false>(walk, offsets, other, step, n);
      });
    });
  }

  int64_t update_scratch_bytes(const IndexedElements&, const Program&, const Operand&) override { return 0; }
  void update(const IndexedElements& to, const Program& program, const Operand& value,
              const ExecContext& context) override {
    if (to.mode == IndexMode::raise) cpu::check_positions(to);
    if (element_count(to.shape) == 0) return;
    const cpu::Updater updater(program);
    const bool unary = program.inputs() == 1;
    const cpu::Walk walk(compact(to, unary ? Operand{to.array.data, Dims(to.shape.size(), 0)} : value,
                                 itemsize(program.input_dtype(0))));
    char* const array = static_cast<char*>(to.array.data);
    cpu::for_writing_units(walk, context.threads, [&](int64_t begin, int64_t end) {
      walk.blocks(begin, end, [&](const int64_t* offsets, char* other, int64_t step, int64_t n) {
        if (walk.run == 1) return updater(array, offsets, other, step, n);
        int64_t along[cpu::kBlock];
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t first = 0; first < walk.run; first += cpu::kBlock) {
            const int64_t count = std::min(cpu::kBlock, walk.run - first);
            for (int64_t k = 0; k < count; ++k) along[k] = offsets[i] + (first + k) * walk.array_step;
            updater(array, along, other + i * step + first * walk.other_step, walk.other_step, count);
          }
        }
      });
    });
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
