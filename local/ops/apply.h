// The one function behind every eager elementwise call.
#pragma once

#include <initializer_list>
#include <span>

#include "local/ops/arguments.h"
#include "local/program/op.h"

namespace quarry::local {

// One ufunc over broadcast arguments; `dtype` forces the loop as NumPy's dtype=. The result is new, in C order, on the
// arrays' device. Throws TypeError (no loop), InvalidArgument (shapes that do not broadcast, devices that differ, a
// literal out of range, a negative power of integers), OutOfMemory. Does not wait for the result.
NdArray apply(Op op, std::span<const Arg> args, std::optional<DType> dtype = std::nullopt);
inline NdArray apply(Op op, std::initializer_list<Arg> args, std::optional<DType> dtype = std::nullopt) {
  return apply(op, std::span<const Arg>(args.begin(), args.size()), dtype);
}
// The outputs of divmod, modf, frexp in one pass.
std::vector<NdArray> apply(const MultiOutput& function, std::span<const Arg> args,
                           std::optional<DType> dtype = std::nullopt);

}  // namespace quarry::local
