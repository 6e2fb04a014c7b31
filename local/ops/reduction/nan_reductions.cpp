// ptp() and the reductions that leave NaN out.
#include <fmt/format.h>

#include <limits>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/ufuncs.h"

namespace quarry::local::ops {
namespace {

bool has_nan(DType dtype) { return is_float(dtype) || is_complex(dtype); }

NdArray replaced(const NdArray& a, const Scalar& with) {
  Fused f;
  const auto x = f.input(a);
  return f.run(f("where"_op, f("isnan"_op, x), with, x));
}

// The elements that take part.
NdArray valid(const NdArray& a, const std::optional<NdArray>& where) {
  Fused f;
  const auto present = f("logical_not"_op, f("isnan"_op, f.input(a)));
  return f.run(where ? f("logical_and"_op, present, f.input(*where)) : present);
}

// sum and prod in one read where nothing else is asked for.
NdArray total(Reduction reduction, int neutral, const NdArray& a, const Axes& axis, const ReduceOptions& options) {
  if (!has_nan(a.dtype())) return reduce(reduction, a, axis, options);
  if (options.where || options.initial || options.out) return reduce(reduction, replaced(a, neutral), axis, options);
  const DType accumulate = options.dtype.value_or(a.dtype());
  const uint32_t mask = axis.mask(a.ndim());
  Fused f;
  const auto x = f.input(a);
  const ValueId value[] = {f.id(f.cast(f("where"_op, f("isnan"_op, x), neutral, x), accumulate))};
  f.program().reduce(reduction, value, accumulate);
  const NdArray state = run_reductions(f.program(), f.inputs(), a.shape(), mask, f.context())[0];
  return deliver(info(reduction).name, state.dtype() == accumulate ? state : state.astype(accumulate), a.shape(), mask,
                 options.keepdims, {});
}

NdArray extreme(Reduction reduction, const NdArray& a, const Axes& axis, const ReduceOptions& options) {
  if (!has_nan(a.dtype())) return reduce(reduction, a, axis, options);
  const bool low = reduction == "max"_reduction;
  const uint32_t mask = axis.mask(a.ndim());
  if (a.size() == 0 && !options.initial && element_count(reduced_shape(a.shape(), mask, true)) != 0)
    throw InvalidArgument(
        fmt::format("zero-size array to reduction operation {} which has no identity", low ? "fmax" : "fmin"));
  const double infinity = low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  // A slice of nothing but NaN stays NaN: an initial value always beats it.
  const Scalar worst = is_complex(a.dtype()) ? Scalar(std::complex<double>(infinity, infinity)) : Scalar(infinity);
  ReduceOptions plain = options;
  plain.out.reset();
  plain.keepdims = true;
  NdArray result = reduce(reduction, replaced(a, worst), axis, plain);
  if (!options.initial) {
    const NdArray empty = reduce("all"_reduction, apply("isnan"_op, {a}), axis, {.keepdims = true});
    result = apply("where"_op, {empty, std::numeric_limits<double>::quiet_NaN(), result});
  }
  return deliver(low ? "fmax" : "fmin", result, a.shape(), mask, options.keepdims, options.out);
}

NdArray position(Reduction reduction, const NdArray& a, std::optional<int64_t> axis, const std::optional<NdArray>& out,
                 bool keepdims) {
  const Axes axes = axis ? Axes(*axis) : Axes();
  ReduceOptions options;
  options.keepdims = keepdims;
  options.out = out;
  if (!has_nan(a.dtype())) return reduce(reduction, a, axes, options);
  if (a.size() > 0) {
    const NdArray empty = reduce("all"_reduction, apply("isnan"_op, {a}), axes);
    if (reduce("any"_reduction, empty).item().as_bool()) throw InvalidArgument("All-NaN slice encountered");
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return reduce(reduction, replaced(a, reduction == "argmax"_reduction ? -infinity : infinity), axes, options);
}

void check_inexact(const NdArray& a, std::optional<DType> dtype, const std::optional<NdArray>& out) {
  if (dtype && has_nan(a.dtype()) && !has_nan(*dtype)) throw TypeError("If a is inexact, then dtype must be inexact");
  if (out && has_nan(a.dtype()) && !has_nan(out->dtype())) throw TypeError("If a is inexact, then out must be inexact");
}

NdArray spread(Reduction reduction, const NdArray& a, const Axes& axis, std::optional<DType> dtype,
               const std::optional<NdArray>& out, double ddof, bool keepdims, const std::optional<NdArray>& where,
               const std::optional<NdArray>& mean, std::optional<double> correction) {
  check_inexact(a, dtype, out);
  ReduceOptions options;
  options.dtype = dtype;
  options.ddof = correction.value_or(ddof);
  options.mean = mean;
  if (!has_nan(a.dtype())) {
    options.out = out;
    options.keepdims = keepdims;
    options.where = where;
    return reduce(reduction, a, axis, options);
  }
  const uint32_t mask = axis.mask(a.ndim());
  const NdArray taking = valid(a, where);
  options.where = taking;
  options.keepdims = true;
  NdArray result = reduce(reduction, a, axis, options);
  // No degrees of freedom: NaN, not the quotient by zero.
  const NdArray count = reduce("count_nonzero"_reduction, taking, axis, {.keepdims = true});
  result = apply("where"_op,
                 {apply("less_equal"_op, {count, options.ddof}), std::numeric_limits<double>::quiet_NaN(), result});
  return deliver(info(reduction).name, result, a.shape(), mask, keepdims, out);
}

}  // namespace

NdArray ptp(const NdArray& a, const Axes& axis, const std::optional<NdArray>& out, bool keepdims) {
  const ReduceOptions options{.keepdims = keepdims};
  const Dims shape = reduced_shape(a.shape(), axis.mask(a.ndim()), keepdims);
  if (out && !(out->shape() == shape))
    throw InvalidArgument(fmt::format("output parameter for ptp has shape {} but the result has {}",
                                      compact_shape(out->shape()), compact_shape(shape)));
  UfuncOptions last;
  last.out = out;
  return apply("subtract"_op, {reduce("max"_reduction, a, axis, options), reduce("min"_reduction, a, axis, options)},
               last);
}

NdArray nansum(const NdArray& a, const Axes& axis, std::optional<DType> dtype, const std::optional<NdArray>& out,
               bool keepdims, const std::optional<Scalar>& initial, const std::optional<NdArray>& where) {
  return total("sum"_reduction, 0, a, axis,
               {.dtype = dtype, .out = out, .keepdims = keepdims, .initial = initial, .where = where});
}
NdArray nanprod(const NdArray& a, const Axes& axis, std::optional<DType> dtype, const std::optional<NdArray>& out,
                bool keepdims, const std::optional<Scalar>& initial, const std::optional<NdArray>& where) {
  return total("prod"_reduction, 1, a, axis,
               {.dtype = dtype, .out = out, .keepdims = keepdims, .initial = initial, .where = where});
}
NdArray nanmin(const NdArray& a, const Axes& axis, const std::optional<NdArray>& out, bool keepdims,
               const std::optional<Scalar>& initial, const std::optional<NdArray>& where) {
  return extreme("min"_reduction, a, axis, {.out = out, .keepdims = keepdims, .initial = initial, .where = where});
}
NdArray nanmax(const NdArray& a, const Axes& axis, const std::optional<NdArray>& out, bool keepdims,
               const std::optional<Scalar>& initial, const std::optional<NdArray>& where) {
  return extreme("max"_reduction, a, axis, {.out = out, .keepdims = keepdims, .initial = initial, .where = where});
}
NdArray nanargmin(const NdArray& a, std::optional<int64_t> axis, const std::optional<NdArray>& out, bool keepdims) {
  return position("argmin"_reduction, a, axis, out, keepdims);
}
NdArray nanargmax(const NdArray& a, std::optional<int64_t> axis, const std::optional<NdArray>& out, bool keepdims) {
  return position("argmax"_reduction, a, axis, out, keepdims);
}
NdArray nanmean(const NdArray& a, const Axes& axis, std::optional<DType> dtype, const std::optional<NdArray>& out,
                bool keepdims, const std::optional<NdArray>& where) {
  check_inexact(a, dtype, out);
  ReduceOptions options{.dtype = dtype, .out = out, .keepdims = keepdims, .where = where};
  if (has_nan(a.dtype())) options.where = valid(a, where);
  return reduce("mean"_reduction, a, axis, options);
}
NdArray nanvar(const NdArray& a, const Axes& axis, std::optional<DType> dtype, const std::optional<NdArray>& out,
               double ddof, bool keepdims, const std::optional<NdArray>& where, const std::optional<NdArray>& mean,
               std::optional<double> correction) {
  return spread("var"_reduction, a, axis, dtype, out, ddof, keepdims, where, mean, correction);
}
NdArray nanstd(const NdArray& a, const Axes& axis, std::optional<DType> dtype, const std::optional<NdArray>& out,
               double ddof, bool keepdims, const std::optional<NdArray>& where, const std::optional<NdArray>& mean,
               std::optional<double> correction) {
  return spread("std"_reduction, a, axis, dtype, out, ddof, keepdims, where, mean, correction);
}

}  // namespace quarry::local::ops
