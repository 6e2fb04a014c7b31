// What ufuncs and the functions beside them make and check of results and arguments.
#pragma once

#include <span>

#include "quarry/local/base/detail.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/program/program.h"

namespace quarry::local {

// A new array for the result of an elementwise operation over inputs that broadcast to `space`: NumPy's order 'K', its
// axes in memory as those of the inputs, where these agree, so that neither is read or written across, else C order.
NdArray new_result(std::span<const NdArray* const> inputs, const Dims& space, DType dtype, const ExecContext& context);

// The dtype as which a literal among the arguments of `op` takes part, where the loop wants one dtype. Throws
// InvalidArgument where the literal does not fit and has no meaning beyond the range.
DType literal_dtype(Op op, const Scalar& literal, DType wanted);
// The literal as a constant of that dtype.
ValueId bind_literal(Program& program, Op op, const Scalar& literal, DType wanted);
// Throws TypeError unless the mask is bool ("Cannot cast array data from dtype('int64') to dtype('bool') ...").
void check_where(DType where);
// Throws InvalidArgument for a read-only array, and where a write would reach one element twice.
void check_writable(const NdArray& out);

}  // namespace quarry::local
