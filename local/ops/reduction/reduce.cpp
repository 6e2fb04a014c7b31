#include "quarry/local/ops/reduction/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <map>
#include <memory>
#include <tuple>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/ops/ufunc/results.h"

namespace quarry::local {
namespace {

// NumPy's name of what min and max reduce with, for messages.
const char* reducing_name(Reduction reduction) {
  const ReductionInfo& row = info(reduction);
  return row.ufunc && !row.has_identity ? row.ufunc : row.name;
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

Program positional_program(Reduction reduction, const NdArray& x, uint32_t mask, DType accumulate) {
  Program program;
  const ValueId value = program.input(x.dtype());
  const ValueId args[] = {value, reduced_position(program, x.shape(), mask)};
  program.reduce(reduction, args, accumulate);
  return program;
}

// Sums of where= and the two-pass var are programs of their own; the plain ones are kept.
const Program& cached_masked(Reduction reduction, DType input, DType accumulate) {
  thread_local std::map<std::tuple<Reduction, DType, DType>, std::unique_ptr<Program>> cache;
  auto& entry = cache[{reduction, input, accumulate}];
  if (!entry) {
    auto program = std::make_unique<Program>();
    const ValueId value = program->input(input), mask = program->input(DType::bool_);
    const ReductionInfo& row = info(reduction);
    // What changes no state: it is fed in for elements that do not take part.
    const bool one = row.start[0] == FieldStart::one;
    const DType dtype = row.of_truth ? DType::bool_ : accumulate;
    const ValueId args[] = {mask, program->cast(value, dtype), program->constant(Scalar(one ? 1 : 0), dtype)};
    const ValueId selected[] = {program->apply("where"_op, args)};
    program->reduce(reduction, selected, dtype);
    entry = std::move(program);
  }
  return *entry;
}

// x less one element of each result, so that the moments are those of small numbers. The 16-bit floats are shifted as
// float32.
const Program& cached_shifted(Reduction reduction, DType input, DType accumulate) {
  thread_local std::map<std::tuple<Reduction, DType, DType>, std::unique_ptr<Program>> cache;
  auto& entry = cache[{reduction, input, accumulate}];
  if (!entry) {
    auto program = std::make_unique<Program>();
    const ValueId x = program->input(input), pilot = program->input(input);
    const ValueId args[] = {program->cast(x, accumulate), program->cast(pilot, accumulate)};
    const ValueId shifted[] = {program->apply("subtract"_op, args)};
    program->reduce(reduction, shifted, accumulate);
    program->keep_key();
    entry = std::move(program);
  }
  return *entry;
}

// The first element of each result.
NdArray pilot_of(const NdArray& x, const Dims& kept) { return x.restrided(kept, x.strides(), x.offset()); }

// Elements that take part in each result: a number, or counts with the kept axes as 1.
int64_t reduced_count(const Dims& shape, uint32_t mask) {
  int64_t count = 1;
  for (int d = 0; d < shape.size(); ++d)
    if (mask & (1u << d)) count *= shape[d];
  return count;
}

struct Reducer {
  const NdArray& x;
  uint32_t mask;
  Dims kept;
  ExecContext context;
  std::optional<NdArray> where;  // broadcast to x

  // Sum of the elements that take part and their count, both in one read.
  std::pair<NdArray, NdArray> sum_and_count(DType accumulate) const {
    Program program;
    const ValueId value = program.input(x.dtype()), taking = program.input(DType::bool_);
    const ValueId args[] = {taking, program.cast(value, accumulate), program.constant(Scalar(0), accumulate)};
    const ValueId selected[] = {program.apply("where"_op, args)}, counted[] = {taking};
    program.reduce("sum"_reduction, selected, accumulate);
    program.reduce("count_nonzero"_reduction, counted, DType::bool_);
    const NdArray* inputs[] = {&x, &*where};
    auto states = run_reductions(program, inputs, x.shape(), mask, context);
    return {states[0], states[1]};
  }

  NdArray mean(DType accumulate) const {
    const auto [sum, count] = sum_and_count(accumulate);
    return apply("divide"_op, {sum, count.astype(real_type(sum.dtype()))});
  }

  // The two passes of NumPy: squared distances from a mean that is known or made first.
  NdArray variance(Reduction reduction, DType accumulate, double ddof, const std::optional<NdArray>& known) const {
    const DType wide = widened(accumulate), real = real_type(wide);
    const NdArray center = known ? *known
                           : where
                               ? mean(wide)
                               : local::reduce("mean"_reduction, x, Axes(axes()), {.dtype = wide, .keepdims = true});
    Program program;
    const ValueId value = program.cast(program.input(x.dtype()), wide);
    const ValueId centre = program.cast(program.input(center.dtype()), wide);
    const ValueId pair[] = {value, centre};
    const ValueId distance[] = {program.apply("subtract"_op, pair)};
    const auto square_of = [&](Op part) {
      const ValueId of[] = {program.apply(part, distance)};
      return program.apply("square"_op, of);
    };
    ValueId squared = square_of("real"_op);
    if (is_complex(wide)) {
      const ValueId both[] = {squared, square_of("imag"_op)};
      squared = program.apply("add"_op, both);
    }
    if (where) {
      const ValueId args[] = {program.input(DType::bool_), squared, program.constant(Scalar(0), real)};
      squared = program.apply("where"_op, args);
    }
    const ValueId sum[] = {squared};
    program.reduce("sum"_reduction, sum, real);
    const Dims space = broadcast_shapes(x.shape(), center.shape());
    if (!(space == x.shape()))
      throw InvalidArgument(fmt::format("the mean of shape {} does not broadcast to the array's shape {}",
                                        compact_shape(center.shape()), compact_shape(x.shape())));
    std::vector<const NdArray*> inputs{&x, &center};
    if (where) inputs.push_back(&*where);
    const NdArray total = run_reductions(program, inputs, space, mask, context)[0];
    const Arg none(Scalar::strong(0.0, real));
    NdArray result;
    if (where) {
      const NdArray count = counts().astype(real);
      result = apply("divide"_op, {total, apply("maximum"_op, {apply("subtract"_op, {count, ddof}), none})});
    } else {
      const double count = static_cast<double>(reduced_count(x.shape(), mask)) - ddof;
      result = apply("divide"_op, {total, std::max(count, 0.0)});
    }
    if (reduction == "std"_reduction) result = apply("sqrt"_op, {result});
    return result.astype(real_type(accumulate));
  }

  NdArray counts() const {
    Program program;
    const ValueId counted[] = {program.input(DType::bool_)};
    program.reduce("count_nonzero"_reduction, counted, DType::bool_);
    const NdArray* inputs[] = {&*where};
    return run_reductions(program, inputs, x.shape(), mask, context)[0];
  }

  std::vector<int64_t> axes() const {
    std::vector<int64_t> list;
    for (int d = 0; d < x.ndim(); ++d)
      if (mask & (1u << d)) list.push_back(d);
    return list;
  }
};

// Means along one short axis in front of a contiguous one, on devices whose results of a reduction are states that are
// read again: the slices are added in pairs and divided in one kernel. Nothing for other means.
std::optional<NdArray> mean_of_slices(const NdArray& x, uint32_t mask, DType accumulate, const ExecContext& context) {
  constexpr int64_t kMostSlices = 16, kLeastLine = 64, kLeastResults = 1 << 16;
  if (acts_as(context.device) == DeviceKind::cpu || std::popcount(mask) != 1) return std::nullopt;
  const int axis = std::countr_zero(mask);
  const int64_t slices = x.shape()[axis];
  if (slices < 2 || slices > kMostSlices || x.size() / slices < kLeastResults) return std::nullopt;
  bool in_lines = false;
  for (int d = 0; d < x.ndim(); ++d)
    in_lines = in_lines || (d != axis && x.strides()[d] == x.itemsize() && x.shape()[d] >= kLeastLine);
  if (!in_lines) return std::nullopt;
  const DType wide = widened(accumulate);
  Program program;
  std::deque<NdArray> views;
  std::vector<const NdArray*> inputs;
  std::vector<ValueId> sums;
  std::vector<IndexItem> index(static_cast<size_t>(x.ndim()), IndexItem(full_slice));
  for (int64_t k = 0; k < slices; ++k) {
    index[static_cast<size_t>(axis)] = Slice{k, k + 1, std::nullopt};
    inputs.push_back(&views.emplace_back(x[index]));
    sums.push_back(program.cast(program.input(x.dtype()), wide));
  }
  while (sums.size() > 1) {
    size_t pairs = 0;
    for (size_t k = 0; k + 1 < sums.size(); k += 2)
      sums[pairs++] = program.apply("add"_op, std::array{sums[k], sums[k + 1]});
    if (sums.size() % 2 == 1) sums[pairs++] = sums.back();
    sums.resize(pairs);
  }
  const ValueId count = program.constant(Scalar::strong(slices, real_type(wide)), real_type(wide));
  program.output(program.cast(program.apply("divide"_op, std::array{sums[0], count}), accumulate));
  NdArray result(views[0].shape(), accumulate, context);
  const NdArray* outputs[] = {&result};
  run_elementwise(program, inputs, outputs, context);
  return result;
}

// The identity of min and max beside a literal: the literal itself, which must fit.
Scalar initial_value(const Scalar& initial, DType dtype) {
  check_literal(initial, dtype);
  return Scalar::strong(initial, dtype);
}

NdArray filled(const Dims& shape, const Scalar& value, DType dtype, const ExecContext& context) {
  NdArray result(shape, dtype, context);
  result.fill(value, context);
  return result;
}

// Converts as astype() does, with no casting rule.
void cast_into(const NdArray& from, const NdArray& to) {
  Program program;
  program.output(program.cast(program.input(from.dtype()), to.dtype()));
  const NdArray* inputs[] = {&from};
  const NdArray* outputs[] = {&to};
  run_elementwise(program, inputs, outputs, context_for(to.device()));
}

// mean, var and std with an integer dtype=: sums and means are rounded to it on the way, as NumPy's are.
NdArray integer_moment(Reduction reduction, const NdArray& x, const Axes& axes, DType dtype, double ddof) {
  const uint32_t mask = axes.mask(x.ndim());
  const auto count = static_cast<double>(reduced_count(x.shape(), mask));
  const ReduceOptions keep{.dtype = dtype, .keepdims = true};
  const auto cast = [dtype](const NdArray& value) { return value.dtype() == dtype ? value : value.astype(dtype); };
  NdArray mean = cast(apply("divide"_op, {reduce("sum"_reduction, x, axes, keep), count}));
  if (reduction == "mean"_reduction) return mean;
  NdArray distance = apply("subtract"_op, {x, mean});
  distance = is_complex(distance.dtype())
                 ? apply("add"_op, {apply("square"_op, {distance.real()}), apply("square"_op, {distance.imag()})})
                 : apply("multiply"_op, {distance, distance});
  const NdArray total = reduce("sum"_reduction, distance, axes, keep);
  const NdArray var = cast(apply("divide"_op, {total, std::max(count - ddof, 0.0)}));
  return reduction == "var"_reduction ? var : cast(apply("sqrt"_op, {var}));
}

// Throws TypeError where the root that ends std() does not go to the dtype.
void check_root(DType result, DType to) {
  if (!can_cast(result, to, Casting::same_kind))
    throw TypeError(
        fmt::format("Cannot cast ufunc 'sqrt' output from dtype('{}') to dtype('{}') with casting rule 'same_kind'",
                    name(result), name(to)));
}

bool is_extreme(Reduction reduction) { return reduction == "min"_reduction || reduction == "max"_reduction; }

}  // namespace

ValueId reduced_position(Program& program, const Dims& shape, uint32_t mask) {
  ValueId position = -1;
  for (int d = 0; d < shape.size(); ++d) {
    if (!(mask & (1u << d))) continue;
    const ValueId index = program.index(d);
    if (position < 0) {
      position = index;
      continue;
    }
    const ValueId scaled[] = {position, program.constant(shape[d], DType::int64)};
    const ValueId sum[] = {program.apply("multiply"_op, scaled), index};
    position = program.apply("add"_op, sum);
  }
  return position < 0 ? program.constant(0, DType::int64) : position;
}

void check_reducible(Reduction reduction, const Dims& shape, uint32_t mask) {
  const ReductionInfo& row = info(reduction);
  if (row.has_identity || reduced_count(shape, mask) != 0) return;
  if (row.has_position) throw InvalidArgument(fmt::format("attempt to get {} of an empty sequence", row.name));
  throw InvalidArgument(
      fmt::format("zero-size array to reduction operation {} which has no identity", reducing_name(reduction)));
}

void check_axes(Reduction reduction, const Axes& axes, uint32_t mask, int ndim) {
  const ReductionInfo& row = info(reduction);
  if (row.has_position && !axes.none() && (std::popcount(mask) > 1 || (mask == 0 && ndim > 0)))
    throw TypeError(fmt::format("{}() takes one axis or none", row.name));
}

std::pair<Axes, uint32_t> reduced_axes(Reduction reduction, const Dims& shape, const Axes& first, const Axes& named,
                                       const ReductionGiven& given) {
  const ReductionInfo& row = info(reduction);
  if (!first.none() && !named.none()) throw TypeError(fmt::format("{}() got axis twice", row.name));
  const Axes& axes = first.none() ? named : first;
  const uint32_t mask = axes.mask(shape.size());
  const auto refuse = [&row](bool given, bool taken, const char* keyword) {
    if (given && !taken)
      throw TypeError(fmt::format("{}() got an unexpected keyword argument '{}'", row.name, keyword));
  };
  refuse(given.dtype, row.takes_dtype, "dtype");
  refuse(given.ddof, row.takes_ddof, "ddof");
  refuse(given.mean, row.takes_ddof, "mean");
  refuse(given.initial, row.takes_initial, "initial");
  refuse(given.where, !row.has_position, "where");
  check_axes(reduction, axes, mask, shape.size());
  // Means count along the axis, so that an array without axes has none, unlike sum() and others.
  const bool counts = reduction == "mean"_reduction || row.takes_ddof;
  if (counts && shape.size() == 0 && !given.where && !axes.none() && !axes.list().empty())
    throw IndexError(fmt::format("axis {} is out of bounds for array of dimension 0", axes.list()[0]));
  if (!given.initial) check_reducible(reduction, shape, mask);
  if (given.where && !row.has_identity && !given.initial)
    throw InvalidArgument(
        fmt::format("reduction operation '{}' does not have an identity, so to use a where mask one has to specify "
                    "'initial'",
                    reducing_name(reduction)));
  return {axes, mask};
}

ReductionDTypes reduction_dtypes(Reduction reduction, DType dtype, std::optional<DType> wanted, bool to_one) {
  const ReductionInfo& row = info(reduction);
  if (!wanted) return {accumulate_dtype(reduction, dtype), std::nullopt};
  // The root of one number is rounded; that of an array has no loop of integers.
  if (reduction == "std"_reduction && !to_one && !is_float(*wanted) && !is_complex(*wanted))
    check_root(DType::float64, *wanted);
  if (!is_float(*wanted) && !is_complex(*wanted) && !row.takes_initial) return {DType::float64, wanted};
  if (row.takes_ddof && is_complex(*wanted)) return {*wanted, wanted};
  return {*wanted, std::nullopt};
}

Reduction executed_reduction(Reduction reduction, DType accumulate, Device device) {
  if (!is_extreme(reduction) || !is_complex(accumulate) || acts_as(device) == DeviceKind::cpu) return reduction;
  return reduction == "min"_reduction ? "argmin"_reduction : "argmax"_reduction;
}

NdArray finish_states(Reduction reduction, DType accumulate, double ddof, std::span<const NdArray> states,
                      const ExecContext& context) {
  if (executed_reduction(reduction, accumulate, context.device) != reduction) return states[0];
  const Program& finalize = cached_finalize(reduction, accumulate, ddof);
  const Value& output = finalize.values()[static_cast<size_t>(finalize.outputs()[0])];
  // The result is a field of the state.
  if (output.kind == Value::Kind::input) return states[static_cast<size_t>(output.slot)];
  NdArray result(states[0].shape(), output.dtype, context);
  std::vector<const NdArray*> inputs;
  for (const NdArray& state : states) inputs.push_back(&state);
  const NdArray* out[] = {&result};
  run_elementwise(finalize, inputs, out, context);
  return result;
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

std::vector<NdArray> run_reductions(const Program& program, std::span<const NdArray* const> inputs, const Dims& space,
                                    uint32_t mask, const ExecContext& context,
                                    std::span<const NdArray* const> outputs) {
  const Dims kept = reduced_shape(space, mask, /*keepdims=*/true);
  std::vector<NdArray> states;
  for (const ProgramReduction& reduction : program.reductions())
    for (DType field : state_dtypes(reduction.reduction, reduction.accumulate))
      states.emplace_back(kept, field, context);
  if (element_count(kept) == 0) return states;
  Launch launch;
  launch.shape = space;
  launch.reduce_axes = mask;
  for (const NdArray* input : inputs) {
    input->begin_read(context.stream);
    launch.inputs.push_back(operand(*input, space));
  }
  for (const NdArray* output : outputs) {
    output->begin_write(context.stream);
    launch.outputs.push_back(operand(*output, space));
  }
  for (const NdArray& state : states) launch.states.push_back(operand(state, space));
  engine(context.device).run(program, launch, context);
  return states;
}

NdArray deliver(const char* function, const NdArray& result, const Dims& shape, uint32_t mask, bool keepdims,
                const std::optional<NdArray>& out) {
  const Dims wanted = reduced_shape(shape, mask, keepdims);
  NdArray reshaped = result.reshape(wanted);
  if (!out) return reshaped;
  if (out->ndim() != wanted.size())
    throw InvalidArgument(fmt::format(
        "output parameter for reduction operation {} has the wrong number of dimensions: Found {} but expected {}{}",
        function, out->ndim(), wanted.size(), keepdims ? " (must match the operand's when keepdims=True)" : ""));
  if (!(out->shape() == wanted))
    throw InvalidArgument(fmt::format("output parameter for reduction operation {} has shape {} but the result has {}",
                                      function, compact_shape(out->shape()), compact_shape(wanted)));
  check_writable(*out);
  cast_into(reshaped, *out);
  return *out;
}

NdArray detail::reduce(Reduction reduction, const NdArray& x, const Axes& given, const ReduceOptions& options) {
  const Range named(info(reduction).name);
  const ReductionInfo& row = info(reduction);
  const ReductionGiven keywords{options.dtype.has_value(), options.ddof != 0, options.mean.has_value(),
                                options.initial.has_value(), options.where.has_value()};
  const auto [axes, mask] = reduced_axes(reduction, x.shape(), given, options.axis, keywords);
  auto [accumulate, converted] = reduction_dtypes(reduction, x.dtype(), options.dtype, std::popcount(mask) == x.ndim());
  // Accumulated in what out and the array promote to, as NumPy's ufuncs resolve the loop.
  if (!options.dtype && options.out && (reduction == "sum"_reduction || reduction == "prod"_reduction))
    accumulate = promote_types(x.dtype(), options.out->dtype());

  // States have the kept axes as 1, so that they align with the space.
  const Dims kept = reduced_shape(x.shape(), mask, /*keepdims=*/true);
  if (row.has_position && options.out && !can_cast(options.out->dtype(), DType::int64, Casting::safe) &&
      options.out->shape() == reduced_shape(x.shape(), mask, options.keepdims))
    throw TypeError(
        fmt::format("Cannot cast array data from dtype('{}') to dtype('int64') according to the rule 'safe'",
                    name(options.out->dtype())));
  if (reduction == "std"_reduction && options.out) check_root(real_type(accumulate), options.out->dtype());
  std::vector<const NdArray*> arrays{&x};
  if (options.where) {
    check_where(options.where->dtype());
    arrays.push_back(&*options.where);
  }
  if (options.out) arrays.push_back(&*options.out);
  const ExecContext context = context_for(common_device(arrays));
  const bool empty = reduced_count(x.shape(), mask) == 0;
  const auto finish = [&, &converted = converted, &mask = mask](const NdArray& result) {
    return deliver(reducing_name(reduction), converted ? result.astype(*converted) : result, x.shape(), mask,
                   options.keepdims, options.out);
  };
  if (converted && !is_complex(*converted) && !options.where && !options.mean)
    return finish(integer_moment(reduction, x, axes, *converted, options.ddof));
  Reducer reducer{x, mask, kept, context, std::nullopt};
  if (options.where) {
    if (!(broadcast_shapes(x.shape(), options.where->shape()) == x.shape())) {
      throw InvalidArgument(fmt::format("where of shape {} does not broadcast to the array's shape {}",
                                        compact_shape(options.where->shape()), compact_shape(x.shape())));
    }
    reducer.where = options.where->broadcast_to(x.shape());
  }

  if (row.takes_ddof && (options.where || options.mean))
    return finish(reducer.variance(reduction, accumulate, options.ddof, options.mean));
  if (reduction == "mean"_reduction && options.where) {
    const auto [sum, count] = reducer.sum_and_count(accumulate);
    return finish(apply("divide"_op, {sum, count.astype(real_type(sum.dtype()))}).astype(accumulate));
  }

  if (reduction == "mean"_reduction)
    if (const auto mean = mean_of_slices(x, mask, accumulate, context)) return finish(*mean);

  const Reduction used = empty ? reduction : executed_reduction(reduction, accumulate, context.device);
  const Scalar initial = options.initial ? initial_value(*options.initial, accumulate) : Scalar();

  NdArray source = x;
  if (is_extreme(reduction) && options.where) {
    source = apply("where"_op, {*reducer.where, x, initial});
  }
  std::vector<NdArray> states;
  if (is_extreme(reduction) && empty) {
    if (options.initial) return finish(filled(kept, initial, accumulate, context));
    states.emplace_back(kept, accumulate, context);
  } else if (info(used).has_position) {
    // One axis, where memory allows: its index is the position, and the engine need not keep axes apart.
    const bool flat = std::popcount(mask) == x.ndim() && x.ndim() > 1 && source.is_contiguous();
    if (flat) source = source.reshape({source.size()});
    const uint32_t over = flat ? 1u : mask;
    const NdArray* inputs[] = {&source};
    states = run_reductions(positional_program(used, source, over, accumulate), inputs, source.shape(), over, context);
    if (flat)
      for (NdArray& state : states) state = state.reshape(kept);
  } else if (options.where && !is_extreme(reduction)) {
    const NdArray* inputs[] = {&x, &*reducer.where};
    states = run_reductions(cached_masked(reduction, x.dtype(), accumulate), inputs, x.shape(), mask, context);
  } else if (row.takes_ddof && !empty) {
    const NdArray pilot = pilot_of(x, kept);
    const NdArray* inputs[] = {&x, &pilot};
    states =
        run_reductions(cached_shifted(reduction, x.dtype(), widened(accumulate)), inputs, x.shape(), mask, context);
  } else {
    const NdArray* inputs[] = {&source};
    states = run_reductions(cached_reduction(reduction, x.dtype(), accumulate), inputs, x.shape(), mask, context);
  }

  // The states of no elements are the reduction's own.
  NdArray result =
      is_extreme(reduction) && empty ? states[0] : finish_states(reduction, accumulate, options.ddof, states, context);
  if (options.initial) {
    result = apply(*find_op(row.ufunc), {initial, result});
  }
  return finish(result);
}

}  // namespace quarry::local
