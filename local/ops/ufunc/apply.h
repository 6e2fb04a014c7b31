// The one function behind every eager elementwise call.
#pragma once

#include <initializer_list>
#include <span>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/program.h"

namespace quarry::local {

// One ufunc over broadcast arguments; `dtype` forces the loop as NumPy's dtype=. The result is new, on the arrays'
// device, in C order or with its axes in memory as the arguments' where these agree. Throws TypeError (no loop),
// InvalidArgument (shapes that do not broadcast, devices that differ, a literal out of range, a negative power of
// integers), OutOfMemory. Does not wait for the result.
NdArray apply(Op op, std::span<const Arg> args, std::optional<DType> dtype = std::nullopt);
inline NdArray apply(Op op, std::initializer_list<Arg> args, std::optional<DType> dtype = std::nullopt) {
  return apply(op, std::span<const Arg>(args.begin(), args.size()), dtype);
}
// The same with NumPy's keyword arguments. The result has the shape that arguments, `where` and `out` broadcast to; it
// is `out` itself where that is given, and then `out` may share memory with the arguments in any way. Without `out`,
// elements outside of `where` are zero. Throws TypeError besides where `casting` forbids a conversion or `where` is not
// bool, InvalidArgument where `out` has not the broadcast shape.
NdArray apply(Op op, std::span<const Arg> args, const UfuncOptions& options);
inline NdArray apply(Op op, std::initializer_list<Arg> args, const UfuncOptions& options) {
  return apply(op, std::span<const Arg>(args.begin(), args.size()), options);
}
// The outputs of divmod, modf, frexp in one pass. `out` is empty or has an entry per output; options.out is not used.
std::vector<NdArray> apply(const MultiOutput& function, std::span<const Arg> args, const UfuncOptions& options,
                           std::span<const std::optional<NdArray>> out = {});
inline std::vector<NdArray> apply(const MultiOutput& function, std::span<const Arg> args,
                                  std::optional<DType> dtype = std::nullopt) {
  return apply(function, args, UfuncOptions{.dtype = dtype});
}

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
