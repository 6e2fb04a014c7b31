// What the functions of this folder are made of. Private to it.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "quarry/chunked/api/operand.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/ops/manipulation/arrange.h"

namespace quarry::compose {

namespace arrange = local::arrange;
using local::InvalidArgument;

inline bool is_inexact(DType dtype) { return local::is_float(dtype) || local::is_complex(dtype); }
inline Scalar typed(const Scalar& value, DType dtype) { return Scalar::strong(value, dtype); }

// The dtype that operands promote to; literals are weak.
DType promoted(std::span<const Operand> operands);
inline DType promoted(std::initializer_list<Operand> operands) {
  return promoted(std::span<const Operand>(operands.begin(), operands.size()));
}
DType promoted(std::span<const Array> arrays);

// A number becomes a 0-d array of its dtype, or of the one given.
Array as_array(const Operand& operand);
Array as_array(const Operand& operand, DType dtype);  // InvalidArgument for a literal that does not fit

// How compositions.h applies an operation.
inline constexpr auto kApply = [](local::Op op, const auto&... values) -> Operand {
  const Operand args[] = {values...};
  return quarry::apply(op, args);
};

// The positions along an axis of an array of `shape`. They take no storage.
Array positions(const Dims& shape, int axis, DType dtype = DType::int64);
Array positions(int64_t count, DType dtype = DType::int64);
Array constant(const Dims& shape, const Scalar& value, DType dtype);

// The conjugates of complex numbers; others as they are. The conjugate transpose of a matrix.
Array conjugated(const Array& x);
Array adjoint(const Array& matrix);

// Arrays of one dtype one after the other; empty ones are left out.
Array joined(const std::vector<Array>& parts, int axis);
// A 1-d array along `axis` of `ndim`, the other axes of one element.
Array along(const Array& x, int axis, int ndim);
Array with_axes(const Array& x, int axis);  // one new axis of one element, before `axis`
Dims with_extent(const Dims& shape, int axis, int64_t extent);
// The elements at `positions` of an axis, each in [0, extent): one slice for each run of equal distances.
Array gathered(const Array& x, int axis, std::span<const int64_t> positions);

// Throws LinAlgError, as np.linalg, unless the last two axes are there and equal.
void check_square(const Array& a);

// In chunks that do not cut the axis, the others cut such that chunks are no larger than before, or hold one line. The
// array itself where its chunks are so.
Array with_whole_axis(const Array& x, int axis);

// In chunks of at most so many bytes, or of one line along `whole`: the array's own, cut along their first axes. The
// array itself where they are no larger.
Array with_chunks_within(const Array& x, int64_t bytes, std::optional<int> whole = std::nullopt);

// With smaller chunks, whole along `whole`, where a task that has so many bytes for each element of a chunk would not
// fit the budget. Else the array itself.
Array in_fitting_chunks(const Array& x, int64_t bytes_per_element, std::optional<int> whole = std::nullopt);
// The most elements along an axis of which a task fits so, where the other axes are cut as those of x.
int64_t most_fitting(const Array& x, int64_t bytes_per_element, int axis);
// Bytes of an array that every rank may have whole beside its tasks: at most a usual chunk.
int64_t most_on_every_rank();

// The values of a small integer or bool array on every rank, as int64. Blocking, collective.
std::vector<int64_t> settled(const Array& x);

}  // namespace quarry::compose
