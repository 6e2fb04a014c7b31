#include "quarry/local/ops/numerical/gufunc.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/ndarray/launch.h"

namespace quarry::local {

NdArray store_result(std::string_view name, const NdArray& result, const NdArray& out, Casting casting) {
  out.check_writable();
  if (!can_cast(result.dtype(), out.dtype(), casting)) {
    throw TypeError(fmt::format("Cannot cast ufunc '{}' output from dtype('{}') to dtype('{}') with casting rule '{}'",
                                name, local::name(result.dtype()), local::name(out.dtype()), local::name(casting)));
  }
  if (broadcast_shapes(result.shape(), out.shape()) != out.shape())
    throw InvalidArgument(
        fmt::format("non-broadcastable output operand with shape {} doesn't match the broadcast shape {}",
                    compact_shape(out.shape()), compact_shape(result.shape())));
  if (out.size() == 0) return out;
  Program program;
  program.output(program.cast(program.input(result.dtype()), out.dtype()));
  const NdArray *in[] = {&result}, *to[] = {&out};
  run_elementwise(program, in, to, context_for(out.device()));
  return out;
}

NdArray laid_out(const NdArray& result, Order order, std::span<const NdArray> operands) {
  if (order == Order::K) return result;
  const bool fortran =
      order == Order::F || (order == Order::A && std::all_of(operands.begin(), operands.end(), [](const NdArray& x) {
                              return is_fortran_contiguous(x) && !x.is_contiguous();
                            }));
  if (fortran ? is_fortran_contiguous(result) : result.is_contiguous()) return result;
  const ExecContext context = context_for(result.device());
  NdArray copy = new_array(result.shape(), result.dtype(), fortran ? Order::F : Order::C, context);
  copy.assign(result, context);
  return copy;
}

NdArray store_exactly(const NdArray& result, const NdArray& out) {
  out.check_writable();
  if (out.shape() != result.shape())
    throw InvalidArgument(fmt::format("output array has wrong dimensions: {} instead of {}", compact_shape(out.shape()),
                                      compact_shape(result.shape())));
  if (out.dtype() != result.dtype() || !out.is_contiguous())
    throw InvalidArgument(
        "output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)");
  out.assign(result);
  return out;
}

}  // namespace quarry::local
