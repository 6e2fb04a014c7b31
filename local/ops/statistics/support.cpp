#include "quarry/local/ops/statistics/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"

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

AlignedWeights aligned_weights(const Dims& weights, const Dims& a, const Axes& axes) {
  AlignedWeights aligned{std::vector<int64_t>(static_cast<size_t>(weights.size())), weights};
  std::iota(aligned.order.begin(), aligned.order.end(), int64_t{0});
  if (weights == a) return aligned;
  if (axes.none()) throw TypeError("Axis must be specified when shapes of a and weights differ.");
  const std::vector<int64_t>& list = axes.list();
  Dims wanted;
  aligned.shape = Dims::filled(a.size(), 1);
  for (int64_t axis : list) {
    const int d = normalize_axis(axis, a.size());
    wanted.push_back(a[d]);
    aligned.shape[d] = a[d];
  }
  if (!(weights == wanted)) {
    throw InvalidArgument(
        fmt::format("Shape of weights must be consistent with shape of a along specified axis: {} and {}",
                    to_string(weights), to_string(wanted)));
  }
  std::stable_sort(aligned.order.begin(), aligned.order.end(), [&](int64_t i, int64_t j) {
    return normalize_axis(list[static_cast<size_t>(i)], a.size()) <
           normalize_axis(list[static_cast<size_t>(j)], a.size());
  });
  return aligned;
}

NdArray checked_weights(const NdArray& weights, const NdArray& a, const Axes& axes) {
  const AlignedWeights aligned = aligned_weights(weights.shape(), a.shape(), axes);
  return weights.transpose(aligned.order).reshape(aligned.shape);
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
