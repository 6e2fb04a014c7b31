// The one function behind every eager elementwise call.
#pragma once

#include <initializer_list>
#include <span>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/op.h"

namespace quarry::local::detail {

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

// The array itself where it is not complex.
NdArray conjugated(const NdArray& a);

}  // namespace quarry::local::detail
