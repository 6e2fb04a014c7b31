// What the functions of local/ops/indexing/indexing.h share.
#pragma once

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/indexing.h"

namespace quarry::local {

IndexMode parse_index_mode(std::string_view mode);

// What Python raises where a number cannot become an element: InvalidArgument out of the dtype's range (floats after
// truncation) and for NaN or infinity to integers, TypeError for complex to real. Values that are not literals are
// cast.
void check_literal(const Scalar& value, DType dtype);
// The value as an array of `dtype` on `device`: a scalar is 0-d. Throws what check_literal() does.
NdArray value_array(const Arg& value, DType dtype, Device device);
// The same with the value's own dtype; literals take that of result_type() alone.
NdArray plain_array(const Arg& value, Device device);
// int64 positions from integers or bools. Throws TypeError ("Cannot cast array data from float64 ...").
NdArray as_positions(const NdArray& indices, const char* rule);
// `array` where it does not share memory with `target`, else a copy.
NdArray apart_from(const NdArray& array, const NdArray& target);

// Where the broadcast axes go: to the place of the first array, or to the front if anything, even an ellipsis that
// stands for no axes, stands between arrays. Integers count as arrays.
class IndexPlacement {
 public:
  void array() {
    if (state_ == State::none) {
      place_ = axes_;
      state_ = State::inside;
    } else if (state_ == State::left) {
      state_ = State::split;
    }
  }
  void other(int axes) {
    if (state_ == State::inside) state_ = State::left;
    axes_ += axes;
  }
  int place() const { return state_ == State::split ? 0 : place_; }

 private:
  enum class State { none, inside, left, split } state_ = State::none;
  int axes_ = 0, place_ = 0;
};

// A flat view of the array's elements in C order; a copy where strides do not allow one.
inline NdArray flattened(const NdArray& array) { return array.reshape(Dims{-1}); }
inline bool same_memory(const NdArray& view, const NdArray& array) { return view.buffer() == array.buffer(); }

// The elements of `array` along axis `axis` at `positions` (over `space`); `kept` are the array's strides over the
// space for the other axes.
IndexedElements elements_along(const NdArray& array, int axis, const NdArray& positions, const Dims& space,
                               IndexMode mode);
void run_gather(const NdArray& array, const IndexedElements& from, std::span<const NdArray* const> positions,
                const NdArray& to);
void run_scatter(const NdArray& array, const IndexedElements& to, std::span<const NdArray* const> positions,
                 const NdArray& from);

// A mask that is counted: bool, C order, on its device.
class CountedMask {
 public:
  // Of the elements that are not zero. Does not block.
  explicit CountedMask(const NdArray& array);
  // Blocks at the first call.
  int64_t count();
  const NdArray& mask() const { return mask_; }
  const Dims& shape() const { return mask_.shape(); }
  // C-order positions, int64, (count(),).
  NdArray positions();
  // (count(), ndim).
  NdArray coordinates();
  NdArray select(const NdArray& from);
  // `values` is one-dimensional and not empty, of the dtype of `to`.
  void expand(const NdArray& values, const NdArray& to);

 private:
  Mask view() const;
  NdArray mask_, offsets_;
  int64_t count_ = -1;
};
// The mask as bool in C order without gaps.
NdArray packed_mask(const NdArray& array);
// to = from where the packed mask is true; all have one shape, `from` may have strides of 0.
void run_copy_where(const NdArray& mask, const NdArray& from, const NdArray& to);
// 0, 1, ... n - 1 on the device.
NdArray counting_array(int64_t n, Device device);

}  // namespace quarry::local
