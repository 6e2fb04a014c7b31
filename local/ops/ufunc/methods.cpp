#include "quarry/local/ops/ufunc/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/ops/ufunc/results.h"
#include "quarry/local/program/scanning.h"

namespace quarry::local {
namespace {

void check_binary(Op op, const char* method) {
  if (info(op).arity != 2) throw InvalidArgument(fmt::format("{} only supported for binary functions", method));
}

// A 0-d array has the axes 0 and -1, but nothing along them.
void check_not_scalar(const NdArray& array, int64_t axis, const char* method) {
  if (array.ndim() > 0) return;
  if (axis != 0 && axis != -1) throw IndexError(fmt::format("axis {} is out of bounds for array of dimension 0", axis));
  throw TypeError(fmt::format("cannot {} on a scalar", method));
}

[[noreturn]] void no_loop(Op op) {
  throw TypeError(
      fmt::format("No loop matching the specified signature and casting was found for ufunc {}", info(op).name));
}

NdArray filled(const Dims& shape, const Scalar& value, DType dtype, const ExecContext& context) {
  NdArray result(shape, dtype, context);
  result.fill(value, context);
  return result;
}

NdArray as_dtype(const NdArray& array, DType dtype) { return array.dtype() == dtype ? array : array.astype(dtype); }

// Positions [start, stop) along an axis.
NdArray part(const NdArray& array, int axis, int64_t start, int64_t stop) {
  std::vector<IndexItem> index(static_cast<size_t>(axis), IndexItem(full_slice));
  index.emplace_back(Slice{start, stop, std::nullopt});
  return array[index];
}

// The axis cut into `parts` of `length`, as two axes.
NdArray cut(const NdArray& array, int axis, int64_t parts, int64_t length) {
  Dims shape = array.shape(), strides = array.strides();
  shape[axis] = parts;
  shape.insert(axis + 1, length);
  strides.insert(axis + 1, strides[axis]);
  strides[axis] *= length;
  return array.restrided(shape, strides, array.offset());
}

void run_fold(Op op, const NdArray& array, int axis, const NdArray& out, int64_t ranges = 1,
              const int64_t* begins = nullptr, const int64_t* ends = nullptr) {
  const ExecContext context = context_for(array.device());
  FoldLaunch launch;
  launch.op = op;
  launch.dtype = array.dtype();
  launch.shape = array.shape();
  launch.axis = axis;
  array.begin_read(context.stream);
  out.begin_write(context.stream);
  launch.input = {array.raw(), array.strides()};
  launch.output = {out.raw(), out.strides()};
  launch.ranges = ranges;
  launch.begins = begins;
  launch.ends = ends;
  engine(context.device).scanning().fold(launch, context);
}

void run_scan(Op op, const NdArray& array, int axis, const NdArray& out, const std::optional<NdArray>& before,
              bool only_last) {
  if (array.size() == 0) return;
  const ExecContext context = context_for(array.device());
  ScanLaunch launch;
  launch.op = op;
  launch.dtype = out.dtype();
  launch.shape = array.shape();
  launch.axis = axis;
  launch.input_dtype = array.dtype();
  launch.only_last = only_last;
  array.begin_read(context.stream);
  if (before) before->begin_read(context.stream);
  out.begin_write(context.stream);
  launch.input = operand(array, array.shape());
  launch.output = operand(out, array.shape());
  if (before) {
    QUARRY_CHECK(before->dtype() == out.dtype());
    launch.before = operand(*before, array.shape());
  }
  engine(context.device).scanning().scan(launch, context);
}

// One element after another, each where its mask says: for operations that no value leaves as they are.
NdArray masked_fold(Op op, const NdArray& array, int axis, const NdArray& where, const Scalar& initial) {
  Dims kept = array.shape();
  kept[axis] = 1;
  NdArray result = filled(kept, initial, array.dtype(), context_for(array.device()));
  for (int64_t i = 0; i < array.shape()[axis]; ++i) {
    UfuncOptions options;
    options.out = result;
    options.where = part(where, axis, i, i + 1);
    apply(op, {result, part(array, axis, i, i + 1)}, options);
  }
  return result;
}

}  // namespace

std::optional<Scalar> identity_of(Op op, DType dtype) {
  const DType of = info(op).rule == OpRule::logical ? DType::bool_ : dtype;
  switch (info(op).identity) {
    case OpInfo::Identity::none:
      break;
    case OpInfo::Identity::zero:
      return Scalar::strong(Scalar(0), of);
    case OpInfo::Identity::one:
      return Scalar::strong(Scalar(1), of);
    case OpInfo::Identity::all_ones:
      return Scalar::strong(Scalar(of == DType::bool_ ? 1 : -1), of);
    case OpInfo::Identity::lowest:
      return Scalar::strong(Scalar(-std::numeric_limits<double>::infinity()), of);
  }
  return std::nullopt;
}

bool is_reorderable(Op op) { return info(op).grouping == OpInfo::Grouping::reorderable; }

DType fold_dtype(Op op, DType input, std::optional<DType> dtype, const std::optional<NdArray>& out) {
  const bool logical = info(op).rule == OpRule::logical;
  if (!dtype && !out && (op == "add"_op || op == "multiply"_op)) {
    // Sums and products of bool and of narrow integers are wide.
    if (kind(input) == 'b' || kind(input) == 'i') return DType::int64;
    if (kind(input) == 'u') return DType::uint64;
  }
  DType loop = DType::bool_;
  if (dtype) {
    loop = *dtype;
  } else if (!logical) {
    const PromotionOperand operands[] = {{out && info(op).result == OpInfo::Result::same ? out->dtype() : input, false},
                                         {input, false}};
    const OpTypes types = resolve(op, operands);
    loop = types.loop;
    if (types.result != loop) no_loop(op);
  }
  if ((logical && loop != DType::bool_) || !Scanning::supports(op, loop)) no_loop(op);
  return loop;
}

NdArray fold_axis(Op op, const NdArray& array, int axis) {
  const ExecContext context = context_for(array.device());
  const int64_t length = array.shape()[axis];
  Dims kept = array.shape();
  kept[axis] = 1;
  constexpr int64_t kPart = 1024, kManyLines = 1 << 16;
  if (!is_associative(op) || length < 4 * kPart || element_count(kept) >= kManyLines) {
    NdArray result(kept, array.dtype(), context);
    run_fold(op, array, axis, result);
    return result;
  }
  const int64_t parts = length / kPart, rest = length - parts * kPart;
  Dims shape = kept;
  shape[axis] = parts + (rest > 0 ? 1 : 0);
  const NdArray partial(shape, array.dtype(), context);
  run_fold(op, cut(part(array, axis, 0, parts * kPart), axis, parts, kPart), axis + 1,
           cut(part(partial, axis, 0, parts), axis, parts, 1));
  if (rest > 0) run_fold(op, part(array, axis, parts * kPart, length), axis, part(partial, axis, parts, parts + 1));
  return fold_axis(op, partial, axis);
}

void scan_axis(Op op, const NdArray& array, int axis, const NdArray& out, const std::optional<NdArray>& before) {
  run_scan(op, array, axis, out, before, /*only_last=*/false);
}

void last_of_scan(Op op, const NdArray& array, int axis, const NdArray& out) {
  run_scan(op, array, axis, out, {}, /*only_last=*/true);
}

namespace {

// Calls f(part of array, its axis, part of parts, part of whole) for all whole segments and for the last one where it
// is shorter; `parts` has an element per segment, `whole` the array's shape or nothing.
template <class F>
void for_each_segments(const NdArray& array, int axis, int64_t length, const NdArray& parts,
                       const std::optional<NdArray>& whole, const F& f) {
  const int64_t n = array.shape()[axis], full = n / length, end = full * length;
  const auto cut_of = [&](const NdArray& x) { return cut(part(x, axis, 0, end), axis, full, length); };
  if (full > 0)
    f(cut_of(array), axis + 1, cut(part(parts, axis, 0, full), axis, full, 1), whole ? cut_of(*whole) : whole);
  if (end == n) return;
  f(part(array, axis, end, n), axis, part(parts, axis, full, full + 1), whole ? part(*whole, axis, end, n) : whole);
}

}  // namespace

void fold_segments(Op op, const NdArray& array, int axis, int64_t length, const NdArray& out) {
  for_each_segments(array, axis, length, out, {},
                    [op](const NdArray& x, int along, const NdArray& fold, const std::optional<NdArray>&) {
                      last_of_scan(op, x, along, fold);
                    });
}

void scan_segments(Op op, const NdArray& array, int axis, int64_t length, const NdArray& before, const NdArray& out) {
  for_each_segments(array, axis, length, before, out,
                    [op](const NdArray& x, int along, const NdArray& ahead, const std::optional<NdArray>& to) {
                      scan_axis(op, x, along, *to, ahead);
                    });
}

std::optional<Scalar> exact_identity(Op op, DType dtype) {
  if (is_complex(dtype) && op != "add"_op) return {};
  const bool floats = is_float(dtype) || is_complex(dtype);
  if (op == "add"_op)
    return is_complex(dtype) ? Scalar(std::complex<double>(-0.0, -0.0)) : floats ? Scalar(-0.0) : Scalar(0);
  if (op == "multiply"_op) return Scalar(1);
  if (op == "maximum"_op && floats) return Scalar(-std::numeric_limits<double>::infinity());
  if (op == "minimum"_op && floats) return Scalar(std::numeric_limits<double>::infinity());
  return {};
}

namespace ops {

NdArray ufunc_reduce(Op op, const NdArray& array, const Axes& axis, const ReduceOptions& options) {
  check_binary(op, "reduce");
  const char* function = info(op).name;
  const uint32_t mask = axis.mask(array.ndim());
  const DType loop = fold_dtype(op, array.dtype(), options.dtype, options.out);
  if (std::popcount(mask) > 1 && !is_reorderable(op))
    throw InvalidArgument(
        fmt::format("reduction operation '{}' is not reorderable, so at most one axis may be specified", function));

  if (const auto reduction = reduction_of(op)) {
    ReduceOptions plain = options;
    plain.dtype.reset();
    if (info(*reduction).takes_dtype) plain.dtype = loop;
    const bool truth = info(op).rule == OpRule::logical;
    if (truth) plain.initial.reset(), plain.out.reset();
    const NdArray values = info(*reduction).takes_dtype || truth ? array : as_dtype(array, loop);
    if (!truth || !(options.initial || options.out)) return reduce(*reduction, values, axis, plain);
    plain.keepdims = true;
    NdArray result = reduce(*reduction, values, axis, plain);
    if (options.initial) result = apply(op, {Scalar::strong(*options.initial, DType::bool_), result});
    return deliver(function, result, array.shape(), mask, options.keepdims, options.out);
  }

  const auto identity = identity_of(op, loop);
  if (options.initial) check_literal(*options.initial, loop);
  const auto initial = options.initial ? std::optional(Scalar::strong(*options.initial, loop)) : std::nullopt;
  if (options.where) {
    check_where(options.where->dtype());
    if (!identity && !initial)
      throw InvalidArgument(fmt::format(
          "reduction operation '{}' does not have an identity, so to use a where mask one has to specify 'initial'",
          function));
  }
  NdArray values = as_dtype(array, loop);
  const Dims kept = reduced_shape(array.shape(), mask, /*keepdims=*/true);
  const ExecContext context = context_for(array.device());
  const auto finish = [&](const NdArray& result) {
    return deliver(function, result, array.shape(), mask, options.keepdims, options.out);
  };
  if (array.size() == 0 && element_count(kept) != 0) {
    if (!initial && !identity)
      throw InvalidArgument(fmt::format("zero-size array to reduction operation {} which has no identity", function));
    return finish(filled(kept, initial ? *initial : *identity, loop, context));
  }
  if (options.where) {
    const NdArray where = options.where->broadcast_to(array.shape());
    if (!identity && !is_associative(op) && mask != 0)
      return finish(masked_fold(op, values, std::countr_zero(mask), where, *initial));
    values = apply("where"_op, {where, values, identity ? *identity : *initial});
  }
  if (initial && !is_associative(op) && mask != 0) {
    // The initial value is element 0.
    const int along = std::countr_zero(mask);
    Dims longer = values.shape();
    ++longer[along];
    const NdArray extended(longer, loop, context);
    part(extended, along, 0, 1).fill(*initial, context);
    part(extended, along, 1, longer[along]).assign(values, context);
    values = extended;
  }
  NdArray result = values;
  if (element_count(kept) != 0)
    for (int d = 0; d < array.ndim(); ++d)
      if (mask & (1u << d)) result = fold_axis(op, result, d);
  if (mask == 0 && result.raw() == array.raw()) result = result.copy(context);
  if (initial && (is_associative(op) || mask == 0)) result = apply(op, {*initial, result});
  // The fold starts from the identity, which gives a lone element its magnitude.
  if (op == "hypot"_op && !initial && mask != 0) result = apply("absolute"_op, {result});
  return finish(result);
}

NdArray ufunc_accumulate(Op op, const NdArray& array, int64_t axis, std::optional<DType> dtype,
                         const std::optional<NdArray>& out) {
  check_binary(op, "accumulate");
  check_not_scalar(array, axis, "accumulate");
  const int along = normalize_axis(axis, array.ndim());
  const DType loop = fold_dtype(op, array.dtype(), dtype, out);
  if (out && !(out->shape() == array.shape()))
    throw InvalidArgument(fmt::format("the output of accumulate has shape {}, the array {}",
                                      compact_shape(out->shape()), compact_shape(array.shape())));
  if (out) check_writable(*out);
  const bool direct = out && out->dtype() == loop && !may_overlap(array, *out);
  NdArray result = direct ? *out : NdArray(array.shape(), loop, context_for(array.device()));
  scan_axis(op, array, along, result);
  if (!out || direct) return result;
  return deliver(info(op).name, result, array.shape(), 0, false, out);
}

NdArray ufunc_outer(Op op, const Arg& a, const Arg& b, const UfuncOptions& options) {
  check_binary(op, "outer product");
  // A number is an array here, with its default dtype.
  const auto strong = [](const Arg& arg) {
    return arg.array() ? arg : Arg(Scalar::strong(arg.scalar(), arg.scalar().dtype()));
  };
  if (!a.array() || !b.array() || b.array()->ndim() == 0) return apply(op, {strong(a), strong(b)}, options);
  Dims shape = a.array()->shape(), strides = a.array()->strides();
  for (int d = 0; d < b.array()->ndim(); ++d) {
    shape.push_back(1);
    strides.push_back(0);
  }
  const NdArray left = a.array()->restrided(shape, strides, a.array()->offset());
  return apply(op, {left, b}, options);
}

NdArray ufunc_reduceat(Op op, const NdArray& array, const NdArray& indices, int64_t axis, std::optional<DType> dtype,
                       const std::optional<NdArray>& out) {
  const Range named("reduceat");
  check_binary(op, "reduceat");
  check_not_scalar(array, axis, "reduceat");
  const int along = normalize_axis(axis, array.ndim());
  if (indices.ndim() != 1)
    throw InvalidArgument(
        fmt::format("reduceat takes one-dimensional indices, not {}", compact_shape(indices.shape())));
  if (!is_integer(indices.dtype()) && indices.size() > 0)
    throw TypeError(
        fmt::format("Cannot cast array data from dtype('{}') to dtype('int64') according to the rule 'safe'",
                    name(indices.dtype())));
  const DType loop = fold_dtype(op, array.dtype(), dtype, out);
  const int64_t length = array.shape()[along];
  std::vector<int64_t> begins = to_vector<int64_t>(as_dtype(indices, DType::int64)), ends(begins.size());
  for (size_t i = 0; i < begins.size(); ++i) {
    if (begins[i] < 0 || begins[i] >= length)
      throw IndexError(fmt::format("index {} out-of-bounds in {}.reduceat [0, {})", begins[i], info(op).name, length));
    ends[i] = i + 1 == begins.size() ? length : std::max(begins[i] + 1, begins[i + 1]);
  }
  Dims shape = array.shape();
  shape[along] = static_cast<int64_t>(begins.size());
  if (out && !(out->shape() == shape))
    throw InvalidArgument(fmt::format("the output of reduceat has shape {}, the result {}", compact_shape(out->shape()),
                                      compact_shape(shape)));
  const ExecContext context = context_for(array.device());
  const DeviceScope scope(context);
  const NdArray result(shape, loop, context);
  if (result.size() > 0) {
    std::vector<int64_t> both = begins;
    both.insert(both.end(), ends.begin(), ends.end());
    const NdArray bounds = from_vector(both);
    bounds.begin_read(context.stream);
    const auto* first = static_cast<const int64_t*>(bounds.raw());
    run_fold(op, as_dtype(array, loop), along, result, shape[along], first, first + shape[along]);
  }
  return out ? deliver(info(op).name, result, shape, 0, false, out) : result;
}

}  // namespace ops
}  // namespace quarry::local
