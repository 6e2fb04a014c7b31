#include "quarry/local/cpu/masks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/words.h"

namespace quarry::local::cpu {
namespace {

int64_t count_bytes(const uint8_t* mask, int64_t n) {
  int64_t count = 0;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) count += std::popcount(load<uint64_t>(reinterpret_cast<const char*>(mask + i)));
  for (; i < n; ++i) count += mask[i];
  return count;
}

// Calls f(i) for every true byte, in order.
template <class F>
void for_each_true(const uint8_t* mask, int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t word = load<uint64_t>(reinterpret_cast<const char*>(mask + i));
    if (word == 0x0101010101010101u) {
      for (int64_t k = 0; k < 8; ++k) f(i + k);
      continue;
    }
    for (; word != 0; word &= word - 1) f(i + (std::countr_zero(word) >> 3));
  }
  for (; i < n; ++i)
    if (mask[i] != 0) f(i);
}

// Puts value(i) for every true byte behind `next`, in order; there is room for those that are true and not more.
// Without branches that depend on the mask while all that a word might write fits.
template <class T, class Value>
void pack_true(const uint8_t* mask, int64_t n, T*& next, const T* end, const Value& value) {
  int64_t i = 0;
  for (; i + 8 <= n && end - next >= 8; i += 8) {
    const auto word = load<uint64_t>(reinterpret_cast<const char*>(mask + i));
    if (word == 0) continue;
    for (int64_t k = 0; k < 8; ++k) {
      store(reinterpret_cast<char*>(next), value(i + k));
      next += word >> (8 * k) & 1;
    }
  }
  for_each_true(mask + i, n - i, [&](int64_t k) { store(reinterpret_cast<char*>(next++), value(i + k)); });
}

// The elements of a mask and of operands beside it, over merged axes, in pieces along the last axis.
struct Pieces {
  Pieces(const Dims& space, std::vector<Operand> given) : shape(space), operands(std::move(given)) {
    std::vector<Dims*> strides;
    strides.reserve(operands.size());
    for (Operand& operand : operands) strides.push_back(&operand.strides);
    merge_axes(shape, strides);
  }
  // Calls f(first position, positions, addresses of the operands there) for the positions in [begin, end).
  template <class F>
  void run(int64_t begin, int64_t end, const F& f) const {
    const int last = shape.size() - 1;
    const int64_t inner = last >= 0 ? shape[last] : 1;
    std::vector<char*> at(operands.size());
    for (int64_t p = begin; p < end;) {
      const int64_t column = p % inner, n = std::min(end - p, inner - column);
      for (size_t i = 0; i < operands.size(); ++i) {
        int64_t offset = column * step(i), rest = p / inner;
        for (int d = last - 1; d >= 0; --d) {
          offset += rest % shape[d] * operands[i].strides[d];
          rest /= shape[d];
        }
        at[i] = static_cast<char*>(operands[i].data) + offset;
      }
      f(p, n, at.data());
      p += n;
    }
  }
  int64_t step(size_t operand) const { return shape.empty() ? 0 : operands[operand].strides[shape.size() - 1]; }

  Dims shape;
  std::vector<Operand> operands;
};

template <class F>
void for_each_tile(int64_t elements, int threads, const F& f) {
  const int64_t tiles = mask_tiles(elements);
  for_each_unit(tiles, slots_for(tiles / 2, threads),
                [&](int64_t tile, int) { f(tile, tile * kMaskTile, std::min(elements, (tile + 1) * kMaskTile)); });
}

}  // namespace

void count_mask(const Mask& mask, int64_t* offsets, int threads) {
  const int64_t elements = element_count(mask.shape), tiles = mask_tiles(elements);
  for_each_tile(elements, threads, [&](int64_t tile, int64_t begin, int64_t end) {
    offsets[tile + 1] = count_bytes(mask.data + begin, end - begin);
  });
  offsets[0] = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) offsets[tile + 1] += offsets[tile];
}

void mask_positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step, int threads) {
  const int ndim = mask.shape.size();
  for_each_tile(element_count(mask.shape), threads, [&](int64_t tile, int64_t begin, int64_t end) {
    int64_t* next = to + mask.offsets[tile] * step;
    if ((axis_step == 0 || ndim == 1) && step == 1) {
      return pack_true(mask.data + begin, end - begin, next, to + mask.offsets[tile + 1],
                       [&](int64_t i) { return begin + i; });
    }
    if (axis_step == 0 || ndim == 1) {
      for_each_true(mask.data + begin, end - begin, [&](int64_t i) {
        *next = begin + i;
        next += step;
      });
      return;
    }
    // One row of the last axis after the other.
    const int64_t inner = mask.shape[ndim - 1];
    Dims at = Dims::filled(ndim);
    for (int64_t p = begin; p < end;) {
      const int64_t n = std::min(end - p, inner - p % inner);
      int64_t rest = p / inner;
      for (int d = ndim - 2; d >= 0; --d) {
        at[d] = rest % mask.shape[d];
        rest /= mask.shape[d];
      }
      for_each_true(mask.data + p, n, [&](int64_t i) {
        for (int d = 0; d < ndim - 1; ++d) next[d * axis_step] = at[d];
        next[(ndim - 1) * axis_step] = p % inner + i;
        next += step;
      });
      p += n;
    }
  });
}

void select_masked(const Mask& mask, const Operand& from, void* to, int64_t itemsize, int threads) {
  const Pieces pieces(mask.shape, {from});
  with_width(itemsize, [&]<class T>(T) {
    for_each_tile(element_count(mask.shape), threads, [&](int64_t tile, int64_t begin, int64_t end) {
      T* next = static_cast<T*>(to) + mask.offsets[tile];
      const T* const last = static_cast<const T*>(to) + mask.offsets[tile + 1];
      pieces.run(begin, end, [&](int64_t p, int64_t n, char* const* at) {
        const char* const base = at[0];
        const int64_t step = pieces.step(0);
        if (step == static_cast<int64_t>(sizeof(T)))
          pack_true(mask.data + p, n, next, last,
                    [&](int64_t i) { return load<T>(base + i * static_cast<int64_t>(sizeof(T))); });
        else
          pack_true(mask.data + p, n, next, last, [&](int64_t i) { return load<T>(base + i * step); });
      });
    });
  });
}

void expand_masked(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to,
                   int64_t itemsize, int threads) {
  const Pieces pieces(mask.shape, {to});
  const char* const values = static_cast<const char*>(from);
  with_width(itemsize, [&]<class T>(T) {
    for_each_tile(element_count(mask.shape), threads, [&](int64_t tile, int64_t begin, int64_t end) {
      if (mask.offsets[tile] == mask.offsets[tile + 1]) return;
      int64_t next = mask.offsets[tile] % period;
      pieces.run(begin, end, [&](int64_t p, int64_t n, char* const* at) {
        char* const base = at[0];
        const int64_t target = pieces.step(0);
        for_each_true(mask.data + p, n, [&](int64_t i) {
          store(base + i * target, load<T>(values + next * step));
          if (++next == period) next = 0;
        });
      });
    });
  });
}

void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize, int threads) {
  const Pieces pieces(mask.shape, {from, to});
  with_width(itemsize, [&]<class T>(T) {
    for_each_tile(element_count(mask.shape), threads, [&](int64_t, int64_t begin, int64_t end) {
      pieces.run(begin, end, [&](int64_t p, int64_t n, char* const* at) {
        const char* const source = at[0];
        char* const target = at[1];
        const int64_t from_step = pieces.step(0), to_step = pieces.step(1);
        for_each_true(mask.data + p, n,
                      [&](int64_t i) { store(target + i * to_step, load<T>(source + i * from_step)); });
      });
    });
  });
}

}  // namespace quarry::local::cpu
