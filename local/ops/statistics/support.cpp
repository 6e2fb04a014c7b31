#include "quarry/local/ops/statistics/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"

namespace quarry::local {

uint32_t axes_mask(const Axes& axes, int ndim) {
  if (ndim == 0 && !axes.none())
    for (int64_t axis : axes.list()) normalize_axis(axis, ndim);
  return axes.mask(ndim);
}

NdArray merged_last(const NdArray& a, uint32_t mask) {
  std::vector<int64_t> order;
  Dims shape;
  for (int d = 0; d < a.ndim(); ++d) {
    if (mask & (1u << d)) continue;
    order.push_back(d);
    shape.push_back(a.shape()[d]);
  }
  int64_t length = 1;
  for (int d = 0; d < a.ndim(); ++d) {
    if (!(mask & (1u << d))) continue;
    order.push_back(d);
    length *= a.shape()[d];
  }
  shape.push_back(length);
  return a.transpose(order).reshape(shape);
}

NdArray checked_weights(const NdArray& weights, const NdArray& a, const Axes& axes) {
  if (weights.shape() == a.shape()) return weights;
  if (axes.none()) throw TypeError("Axis must be specified when shapes of a and weights differ.");
  const std::vector<int64_t>& list = axes.list();
  Dims wanted, spread = Dims::filled(a.ndim(), 1);
  for (int64_t axis : list) {
    const int d = normalize_axis(axis, a.ndim());
    wanted.push_back(a.shape()[d]);
    spread[d] = a.shape()[d];
  }
  if (!(weights.shape() == wanted)) {
    throw InvalidArgument(
        fmt::format("Shape of weights must be consistent with shape of a along specified axis: {} and {}",
                    to_string(weights.shape()), to_string(wanted)));
  }
  std::vector<int64_t> order(list.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return normalize_axis(list[static_cast<size_t>(i)], a.ndim()) <
           normalize_axis(list[static_cast<size_t>(j)], a.ndim());
  });
  return weights.transpose(order).reshape(spread);
}

std::pair<NdArray, NdArray> extremes(const NdArray& a) {
  Program program;
  const ValueId value[] = {program.input(a.dtype())};
  program.reduce("min"_reduction, value, a.dtype());
  program.reduce("max"_reduction, value, a.dtype());
  const NdArray* inputs[] = {&a};
  const auto states = run_reductions(program, inputs, a.shape(), axes_mask(Axes(), a.ndim()), context_for(a.device()));
  return {states[0].reshape({}), states[1].reshape({})};
}

NdArray cast_to(const NdArray& a, DType dtype) {
  return a.dtype() == dtype ? a : a.astype(dtype, context_for(a.device()));
}

NdArray filled(const Dims& shape, const Scalar& value, DType dtype, const ExecContext& context) {
  NdArray result(shape, dtype, context);
  result.fill(Scalar::strong(value, dtype), context);
  return result;
}

bool holds_any(const NdArray& condition) { return item_or(ops::any(condition), false).as_bool(); }

NdArray evaluated(Program& program, ValueId output, std::initializer_list<const NdArray*> inputs, const Dims& shape) {
  program.output(output);
  const std::span<const NdArray* const> arrays(inputs.begin(), inputs.size());
  const ExecContext context = context_for(common_device(arrays));
  NdArray result(shape, program.dtype(output), context);
  const NdArray* outputs[] = {&result};
  run_elementwise(program, arrays, outputs, context);
  return result;
}

}  // namespace quarry::local
