#include "local/ops/reduce.h"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <memory>
#include <tuple>

#include "local/ops/launch.h"

namespace quarry::local {
namespace {

bool takes_dtype(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::prod:
    case Reduction::mean:
    case Reduction::var:
    case Reduction::std:
      return true;
    case Reduction::min:
    case Reduction::max:
    case Reduction::any:
    case Reduction::all:
    case Reduction::argmin:
    case Reduction::argmax:
    case Reduction::count_nonzero:
      return false;
  }
  return false;
}

bool takes_ddof(Reduction reduction) { return reduction == Reduction::var || reduction == Reduction::std; }

// NumPy's name of what min and max reduce with, for messages.
const char* reducing_name(Reduction reduction) {
  return reduction == Reduction::min ? "minimum" : reduction == Reduction::max ? "maximum" : info(reduction).name;
}

// Programs are kept per thread. Positional ones depend on the extents and are made anew.
const Program& cached_reduction(Reduction reduction, DType input, DType accumulate) {
  thread_local std::map<std::tuple<Reduction, DType, DType>, std::unique_ptr<Program>> cache;
  auto& entry = cache[{reduction, input, accumulate}];
  if (!entry) {
    auto program = std::make_unique<Program>();
    const ValueId value[] = {program->input(input)};
    program->reduce(reduction, value, accumulate);
    entry = std::move(program);
  }
  return *entry;
}

const Program& cached_finalize(Reduction reduction, DType accumulate, double ddof) {
  thread_local std::map<std::tuple<Reduction, DType, uint64_t>, std::unique_ptr<Program>> cache;
  auto& entry = cache[{reduction, accumulate, std::bit_cast<uint64_t>(ddof)}];
  if (!entry) entry = std::make_unique<Program>(finalize_program(reduction, accumulate, ddof));
  return *entry;
}

// The position of an element in C order over the reduced axes.
Program positional_program(Reduction reduction, const NdArray& x, uint32_t mask, DType accumulate) {
  Program program;
  const ValueId value = program.input(x.dtype());
  ValueId position = -1;
  for (int d = 0; d < x.ndim(); ++d) {
    if (!(mask & (1u << d))) continue;
    const ValueId index = program.index(d);
    if (position < 0) {
      position = index;
      continue;
    }
    const ValueId scaled[] = {position, program.constant(x.shape()[d], DType::int64)};
    const ValueId sum[] = {program.apply(Op::multiply, scaled), index};
    position = program.apply(Op::add, sum);
  }
  if (position < 0) position = program.constant(0, DType::int64);
  const ValueId args[] = {value, position};
  program.reduce(reduction, args, accumulate);
  return program;
}

}  // namespace

uint32_t Axes::mask(int ndim) const {
  if (!axes_) return ndim == kMaxDims ? ~0u : (1u << ndim) - 1;
  uint32_t mask = 0;
  // As NumPy: a 0-d array has an axis 0 for a reduction along one axis.
  if (ndim == 0 && axes_->size() == 1 && (axes_->front() == 0 || axes_->front() == -1)) return 0;
  for (int64_t axis : *axes_) {
    const uint32_t bit = 1u << normalize_axis(axis, ndim);
    if (mask & bit) throw InvalidArgument("duplicate value in 'axis'");
    mask |= bit;
  }
  return mask;
}

Dims reduced_shape(const Dims& shape, uint32_t mask, bool keepdims) {
  Dims result;
  for (int d = 0; d < shape.size(); ++d) {
    if (!(mask & (1u << d)))
      result.push_back(shape[d]);
    else if (keepdims)
      result.push_back(1);
  }
  return result;
}

NdArray reduce(Reduction reduction, const NdArray& x, const Axes& axes, const ReduceOptions& options) {
  const ReductionInfo& row = info(reduction);
  const uint32_t mask = axes.mask(x.ndim());
  if (options.dtype && !takes_dtype(reduction))
    throw TypeError(fmt::format("{}() got an unexpected keyword argument 'dtype'", row.name));
  if (options.ddof != 0 && !takes_ddof(reduction))
    throw TypeError(fmt::format("{}() got an unexpected keyword argument 'ddof'", row.name));
  if (row.has_position && !axes.none() && (std::popcount(mask) > 1 || (mask == 0 && x.ndim() > 0)))
    throw TypeError(fmt::format("{}() takes one axis or none", row.name));
  const DType accumulate = options.dtype.value_or(accumulate_dtype(reduction, x.dtype()));

  // States have the kept axes as 1, so that they align with the space.
  const Dims kept = reduced_shape(x.shape(), mask, /*keepdims=*/true);
  if (!row.has_identity && x.size() == 0) {
    int64_t reduced = 1;
    for (int d = 0; d < x.ndim(); ++d)
      if (mask & (1u << d)) reduced *= x.shape()[d];
    if (row.has_position && reduced == 0)
      throw InvalidArgument(fmt::format("attempt to get {} of an empty sequence", row.name));
    if (element_count(kept) != 0) {
      throw InvalidArgument(
          fmt::format("zero-size array to reduction operation {} which has no identity", reducing_name(reduction)));
    }
  }

  const ExecContext context = context_for(x.device());
  const std::vector<DType> fields = state_dtypes(reduction, accumulate);
  std::vector<NdArray> states;
  states.reserve(fields.size());
  for (DType field : fields) states.emplace_back(kept, field, context);
  const Dims shape = reduced_shape(x.shape(), mask, options.keepdims);
  if (element_count(kept) != 0) {
    Launch launch;
    launch.shape = x.shape();
    x.buffer()->use(context.stream);
    launch.inputs.push_back(operand(x, launch.shape));
    for (const NdArray& state : states) launch.states.push_back(operand(state, launch.shape));
    launch.reduce_axes = mask;
    if (row.has_position)
      engine(context.device).run(positional_program(reduction, x, mask, accumulate), launch, context);
    else
      engine(context.device).run(cached_reduction(reduction, x.dtype(), accumulate), launch, context);
  }
  const Program& finalize = cached_finalize(reduction, accumulate, options.ddof);
  const Value& output = finalize.values()[static_cast<size_t>(finalize.outputs()[0])];
  if (output.kind == Value::Kind::input)  // the result is a field of the state
    return states[static_cast<size_t>(output.slot)].reshape(shape);
  const NdArray result(kept, output.dtype, context);
  std::vector<const NdArray*> inputs;
  inputs.reserve(states.size());
  for (const NdArray& state : states) inputs.push_back(&state);
  const NdArray* out[] = {&result};
  run_elementwise(finalize, inputs, out, context);
  return result.reshape(shape);
}

}  // namespace quarry::local
