// What the functions of local/sparse share: device-neutral steps on one-dimensional arrays. Private to the folder.
#pragma once

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/sparse.h"
#include "quarry/local/sparse/sparse_array.h"

namespace quarry::local::sparse {

// Throws TypeError for the 16-bit floats.
void check_dtype(DType dtype, const char* argument);
// Throws InvalidArgument unless there are two extents, none negative.
void check_shape(const Dims& shape);
// int32 where a matrix of that shape and that many elements allows.
DType index_dtype_for(const Dims& shape, int64_t nonzeros);
// The same array where it has that dtype, else a copy.
NdArray cast(const NdArray& array, DType dtype);
NdArray zeros(int64_t count, DType dtype, Device device);
// 0, 1 ... of int64.
NdArray counting(int64_t count, Device device);
NdArray slice(const NdArray& array, int64_t begin, int64_t end);
// 0 as a value of `dtype` that does not widen others.
inline Scalar zero(DType dtype) { return Scalar::strong(Scalar(0), dtype); }
inline ExecContext context_of(const NdArray& array) { return context_for(array.device()); }

// array[positions] and array[positions] = values for one-dimensional arrays and positions known to be in range.
NdArray gather(const NdArray& array, const NdArray& positions);
void scatter(const NdArray& array, const NdArray& positions, const NdArray& values);
// Positions of the true elements.
NdArray where_true(const NdArray& mask);
// Out of one mask the elements of several arrays. Counts once; blocks.
std::vector<NdArray> keep(const NdArray& mask, const std::vector<NdArray>& arrays);
// op over data[begins[i] .. ends[i]), none of them empty; the result has data's dtype.
NdArray fold(Op op, const NdArray& data, const NdArray& begins, const NdArray& ends);
// How sums of values of a dtype are formed: or for bool.
inline Op sum_op(DType dtype) { return dtype == DType::bool_ ? "logical_or"_op : "add"_op; }
// Whether any element is true. Blocks.
bool any(const NdArray& mask);

// For line offsets (indptr) the int64 number of the line of each of `nonzeros` elements.
NdArray line_numbers(const NdArray& offsets, int64_t nonzeros);
// The offsets of lines that have these numbers, in any order.
NdArray line_offsets(const NdArray& numbers, int64_t lines, DType index);
// 0, counts[0], counts[0] + counts[1] ... in int64.
NdArray running_total(const NdArray& counts);
// The positions offsets[line] + 0, 1 ... of all elements of the lines: of `counts[i]` elements from `begins[i]`.
NdArray spread(const NdArray& begins, const NdArray& counts, int64_t total);

// Elements in lines (CSR: rows, CSC: columns) or with explicit coordinates along both axes.
struct Lines {
  NdArray data, indices, offsets;
  int64_t count = 0, extent = 0;
};
struct Triplets {
  NdArray data, major, minor;  // coordinates of any integer dtype
  int64_t count = 0, extent = 0;
};
// What stays of elements with equal coordinates.
enum class Duplicates : uint8_t { sum, last };
// Sorted by major, then minor coordinate.
Triplets sorted(const Triplets& elements);
// Sorted and without duplicates.
Triplets distinct(const Triplets& elements, Duplicates duplicates = Duplicates::sum, bool ordered = false);
// Sorted lines without duplicates. `ordered`: the triplets are sorted already.
Lines compressed(const Triplets& elements, DType index, Duplicates duplicates = Duplicates::sum, bool ordered = false);
// The positions, among sorted triplets, of the first of each group of equal coordinates.
NdArray group_starts(const Triplets& ordered);
Triplets triplets_of(const Lines& lines);

// CSR or CSC as lines; the major axis of a format.
Lines lines_of(const SparseArray& a);
inline int major_axis(Format format) { return format == Format::csc ? 1 : 0; }
// The other way round, of a matrix of that shape.
SparseArray from_lines(Format format, const Dims& shape, const Lines& lines, std::optional<bool> canonical);
// As CSR or CSC with sorted indices and without duplicates: the same where it is.
SparseArray canonical(const SparseArray& a, Format format);
// CSR, or CSC where `a` has that format already; sorted, without duplicates.
SparseArray canonical(const SparseArray& a);
// The matrix's elements by row and column, in whatever order they are stored.
Triplets row_triplets(const SparseArray& a);
SparseArray from_dense(const NdArray& dense, Format format);

// Right-hand sides in a vector or a matrix: what reshape() cannot tell where there are no rows.
inline int64_t columns_of(const NdArray& b) { return b.ndim() == 1 ? 1 : b.shape()[1]; }

// For the engines. Without gaps, and aligned: cuSPARSE wants that, and slices need not be.
NdArray packed(const NdArray& array);
Lines packed(const Lines& lines);
void use(const NdArray& array, const ExecContext& context);
void use(const Lines& lines, const ExecContext& context);
// Of packed lines; the arrays must outlive the use.
CompressedRows compressed_view(const Lines& lines);

}  // namespace quarry::local::sparse
