// Reading and writing elements at positions that are data: gather, scatter, selection by masks.
// Part of Engine: the same contract (queued on context.stream, scratch from context.memory and at most what the
// *_scratch_bytes() function says, thread-safe for different streams).
#pragma once

#include "quarry/local/program/engine.h"

namespace quarry::local {

// What an index outside its axis means. unchecked: the caller knows that all are in [0, extent).
enum class IndexMode : uint8_t { raise, wrap, clip, unchecked };

// int64 positions along one axis of the array that is read or written.
struct AxisIndex {
  Operand positions;   // over the iteration space
  int64_t extent = 0;  // of the axis; not 0 where the iteration space has elements, unless mode is raise
  int64_t stride = 0;  // bytes between neighbours along the axis
  int axis = 0;        // its number, for messages
};

// Elements of an array: for every point p of `shape` the one at array.data + sum(p * array.strides) +
// sum over indices(position(p) * stride). Axes that are not indexed have their strides in `array`.
struct IndexedElements {
  Dims shape;
  Operand array;
  std::vector<AxisIndex> indices;
  IndexMode mode = IndexMode::raise;  // negative positions count from the end under raise only
  bool distinct = false;              // writing: the caller knows that no element occurs twice
};

// The first position outside its axis: by index array, then in C order. Throws IndexError naming index, axis, size.
[[noreturn]] void throw_out_of_bounds(int64_t index, int axis, int64_t size);

// An iteration space made small: axes of one element dropped, neighbours merged where every operand allows, order kept.
// strides[i][d] of operand i.
void merge_axes(Dims& shape, std::span<Dims* const> strides);
// The elements and the operand that they are copied to or from, over merged axes.
struct CompactElements {
  IndexedElements elements;
  Operand other;
  int64_t itemsize = 1;
};
CompactElements compact(const IndexedElements& elements, const Operand& other, int64_t itemsize);

// Masks are bytes in C order without gaps, 0 or 1, and are cut into tiles. offsets[t] is the number of true elements
// before tile t; the last one is their number.
inline constexpr int64_t kMaskTile = 16384;
constexpr int64_t mask_tiles(int64_t elements) { return (elements + kMaskTile - 1) / kMaskTile; }
struct Mask {
  const uint8_t* data = nullptr;
  Dims shape;
  const int64_t* offsets = nullptr;  // mask_tiles() + 1 of them; null where a function does not read them
};

class Indexing {
 public:
  virtual ~Indexing() = default;

  // Copies the elements to `to` (strides over the space), `itemsize` bytes each (1, 2, 4, 8, 16).
  // Under IndexMode::raise both block where the indices are not in host memory, and throw IndexError; then nothing of
  // a scatter's array has been written. Where elements occur twice, the last in C order counts.
  virtual int64_t gather_scratch_bytes(const IndexedElements& from, const Operand& to, int64_t itemsize) = 0;
  virtual void gather(const IndexedElements& from, const Operand& to, int64_t itemsize, const ExecContext& context) = 0;
  virtual int64_t scatter_scratch_bytes(const IndexedElements& to, const Operand& from, int64_t itemsize) = 0;
  virtual void scatter(const IndexedElements& to, const Operand& from, int64_t itemsize,
                       const ExecContext& context) = 0;

  // element = program(element, value) for every element in turn, so that those that occur twice accumulate. The program
  // has one input (the element's dtype) or two (the value's), no constants, and one output of the element's dtype. On a
  // GPU the order of commutative operations (add, subtract, multiply, minimum, maximum, bitwise and logical ones) on
  // the same element is not fixed, and float32 sums flush subnormal numbers to zero; that of all others is C order.
  virtual int64_t update_scratch_bytes(const IndexedElements& to, const Program& program, const Operand& value) = 0;
  virtual void update(const IndexedElements& to, const Program& program, const Operand& value,
                      const ExecContext& context) = 0;

  // Fills mask.offsets (written through `offsets`).
  virtual int64_t count_scratch_bytes(const Mask& mask) = 0;
  virtual void count(const Mask& mask, int64_t* offsets, const ExecContext& context) = 0;
  // Coordinate d of the j-th true element to to[j * step + d * axis_step]; with axis_step 0 its position in C order.
  virtual void positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step,
                         const ExecContext& context) = 0;
  // to[j] = from at the j-th true element; `to` has no gaps.
  virtual void select(const Mask& mask, const Operand& from, void* to, int64_t itemsize,
                      const ExecContext& context) = 0;
  // to at the j-th true element = element j % period of `from`, elements `step` bytes apart.
  virtual void expand(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to,
                      int64_t itemsize, const ExecContext& context) = 0;
  // to = from where the mask is true; needs no offsets.
  virtual void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize,
                          const ExecContext& context) = 0;
};

}  // namespace quarry::local
