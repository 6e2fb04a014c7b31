// Views and copies that functions of shape and order are made of. Private to local/ops.
#pragma once

#include <string_view>

#include "quarry/local/ops/arguments.h"

namespace quarry::local {

// NumPy's order=. A and K look at the strides of the array in question.
enum class Order : uint8_t { C, F, A, K };
// Throws InvalidArgument ("order must be one of 'C', 'F', 'A', or 'K' (got 'X')").
Order parse_order(std::string_view text);
// Throws InvalidArgument ("casting must be one of 'no', 'equiv', ...").
Casting parse_casting(std::string_view text);
// Throws TypeError ("Cannot cast array data from dtype('float64') to dtype('int32') according to the rule 'safe'").
void check_cast(DType from, DType to, Casting casting);

bool is_fortran_contiguous(const NdArray& array);
// Axes from the one with the longest stride to the one with the shortest: the order in which elements lie in memory.
std::vector<int64_t> memory_order(const NdArray& array);

// A shape argument: an int is one extent. Throws InvalidArgument for more than kMaxDims.
Dims shape_of(const Ints& shape);
// The axes as numbers in [0, ndim), in the order given. Throws IndexError, and InvalidArgument for duplicates with
// `repeated` as its message.
std::vector<int> normalize_axes(std::span<const int64_t> axes, int ndim, std::string_view repeated);

// Elements start, start + step ... along one axis. All must exist.
NdArray sliced(const NdArray& array, int axis, int64_t start, int64_t count, int64_t step = 1);
NdArray permuted(const NdArray& array, std::span<const int64_t> axes);
// The array seen with other extents of the same strides, or as another dtype.
NdArray with_strides(const NdArray& array, const Dims& shape, const Dims& strides, int64_t offset_bytes);

// A new array whose memory has that order (A and K: as `like`'s, else C).
NdArray new_array(const Dims& shape, DType dtype, Order order, const ExecContext& context,
                  const NdArray* like = nullptr);
// Writes `value`, broadcast and cast as astype() does, into `target`. They must not overlap.
void write_into(const NdArray& target, const NdArray& value);
// As write_into() where they may overlap.
void write_safely(const NdArray& target, const NdArray& value);

// For functions that take out=: throws TypeError and InvalidArgument unless it can hold the result.
void check_out(const NdArray& out, const Dims& shape, DType dtype, Casting casting);

Device common_device(const std::vector<NdArray>& arrays);

}  // namespace quarry::local
