// A general index taken apart, for reading and for assignment. Private to this folder.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/local/base/detail.h"

namespace quarry {

// The arrays of an index stand apart from its other terms, which leave a view of the array.
struct IndexParts {
  struct Indexed {
    Array array;  // integers, or a mask of at least one axis
    int axis;     // of the array that is indexed; of a mask the first one
  };
  std::vector<local::IndexItem> basic;  // whole slices stand for the arrays
  std::vector<Indexed> arrays;
  std::vector<Array> truths;  // masks of no axes
  bool has_arrays = false;    // any of both
  bool is_one_mask = false;   // nothing but a mask of the array's shape
  bool integers_only = false;
  // Where the axes of the arrays are in the result: NumPy puts them first where other terms stand between arrays, and
  // counts integers as arrays.
  int place = 0;

  bool is_mask() const { return arrays.size() == 1 && truths.empty() && arrays[0].array.dtype() == DType::bool_; }
};
// Throws IndexError for too many indices, two ellipses, arrays of other dtypes, and masks of other shapes.
IndexParts parts_of(const Array& x, std::span<const IndexTerm> terms);

// Positions inside their axes.
struct IndexPositions {
  std::vector<int> axes;  // of what the other terms leave
  std::vector<std::vector<int64_t>> positions;
  Dims shape;  // of each: what the arrays broadcast to
};
// Brings the arrays to every rank. Collective, blocking. Throws IndexError naming index, axis and size, and where the
// arrays do not broadcast.
IndexPositions positions_of(const Array& x, const IndexParts& parts);

// Those in an array of integers, which may count from the end. Throws IndexError, TypeError.
std::vector<int64_t> checked_positions(const NdArray& indices, int axis, int64_t extent);

// A mask of one axis with its number of true elements per chunk.
struct MaskCounts {
  Array mask;  // kept, or computed again
  std::vector<int64_t> counts;
};
// With the cuts of an axis that is as long. The mask is kept, unless it is cheap elementwise work on what `beside`,
// which will be read with it, is computed from as well. Collective, blocking.
MaskCounts counted(const Array& mask, const AxisChunks& cuts, const Array* beside = nullptr);

// What an axis of the array became in a view by basic terms; -1: none.
int axis_in_view(const local::BasicIndex& basic, int axis);

}  // namespace quarry
