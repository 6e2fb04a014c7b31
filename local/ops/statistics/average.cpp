#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local::ops {
namespace {

// sum(a w) over the axes, which stay with one element each.
NdArray weighted_sum(const NdArray& a, const NdArray& weights, uint32_t mask, DType dtype) {
  Program program;
  const ValueId value = program.cast(program.input(a.dtype()), dtype);
  const ValueId weight = program.cast(program.input(weights.dtype()), dtype);
  const ValueId product[] = {applied(program, "multiply"_op, {value, weight})};
  program.reduce("sum"_reduction, product, dtype);
  const NdArray* inputs[] = {&a, &weights};
  return cast_to(run_reductions(program, inputs, a.shape(), mask, context_for(common_device(inputs)))[0], dtype);
}

}  // namespace

std::variant<NdArray, ArrayPair> average(const NdArray& a, const Axes& axis, const std::optional<NdArray>& weights,
                                         bool returned, bool keepdims) {
  const Range named("average");
  const uint32_t mask = axes_mask(axis, a.ndim());
  const Dims shape = reduced_shape(a.shape(), mask, keepdims);
  if (!weights) {
    const int64_t results = element_count(shape);
    if (results == 0) throw InvalidArgument("division by zero: the average has no elements");
    const NdArray mean = local::reduce("mean"_reduction, a, axis, {.keepdims = keepdims});
    if (!returned) return mean;
    return ArrayPair{mean, filled(shape, a.size() / results, mean.dtype(), context_for(a.device()))};
  }
  const NdArray w = checked_weights(*weights, a, axis);
  const bool exact = a.dtype() == DType::bool_ || is_integer(a.dtype());
  DType dtype = promote_types(a.dtype(), w.dtype());
  if (exact) dtype = promote_types(dtype, DType::float64);
  const NdArray total = local::reduce("sum"_reduction, w, axis, {.dtype = dtype, .keepdims = true});
  if (holds_any(apply("equal"_op, {total, 0.0}))) throw InvalidArgument("Weights sum to zero, can't be normalized");
  const NdArray sum = weighted_sum(a, w, mask, dtype);
  const NdArray result = apply("divide"_op, {sum, total}).reshape(shape);
  if (!returned) return result;
  return ArrayPair{result, total.broadcast_to(sum.shape()).copy(context_for(a.device())).reshape(shape)};
}

}  // namespace quarry::local::ops
