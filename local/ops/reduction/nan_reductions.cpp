// ptp() and the reductions that leave NaN out: one read of the array, two for variances, where nothing but axes and a
// dtype is asked for. where=, initial=, out= and mean= take the reductions of replaced or masked elements.
#include <fmt/format.h>

#include <limits>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/fuse/fusing.h"
#include "quarry/local/ops/reduction/missing.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
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
  Fusing f;
  const auto x = f.input(a);
  const NdArray state = f.reduce(a.shape(), mask, {missing::total(f, reduction, x, f("isnan"_op, x), accumulate)})[0];
  return deliver(info(reduction).name, state.dtype() == accumulate ? state : state.astype(accumulate), a.shape(), mask,
                 options.keepdims, {});
}

const Scalar kNan = std::numeric_limits<double>::quiet_NaN();

NdArray extreme(Reduction reduction, const NdArray& a, const Axes& axis, const ReduceOptions& options) {
  if (!has_nan(a.dtype())) return reduce(reduction, a, axis, options);
  const char* const function = reduction == "max"_reduction ? "fmax" : "fmin";
  const uint32_t mask = axis.mask(a.ndim());
  if (a.size() == 0 && !options.initial && element_count(reduced_shape(a.shape(), mask, true)) != 0)
    throw InvalidArgument(fmt::format("zero-size array to reduction operation {} which has no identity", function));
  const Scalar worst = missing::worst_of(reduction, a.dtype());
  // A slice of nothing but NaN stays NaN: an initial value always beats it.
  if (!options.initial && !options.where && a.size() > 0 && !is_complex(a.dtype())) {
    Fusing f;
    const auto x = f.input(a), missing = f("isnan"_op, x);
    const std::vector<NdArray> states =
        f.reduce(a.shape(), mask, {missing::extreme(f, reduction, x, missing, worst), missing::none(f, missing)});
    return deliver(function, apply("where"_op, {states[1], kNan, states[0]}), a.shape(), mask, options.keepdims,
                   options.out);
  }
  ReduceOptions plain = options;
  plain.out.reset();
  plain.keepdims = true;
  NdArray result = reduce(reduction, replaced(a, worst), axis, plain);
  if (!options.initial) {
    const NdArray empty = reduce("all"_reduction, apply("isnan"_op, {a}), axis, {.keepdims = true});
    result = apply("where"_op, {empty, kNan, result});
  }
  return deliver(function, result, a.shape(), mask, options.keepdims, options.out);
}

NdArray position(Reduction reduction, const NdArray& a, std::optional<int64_t> axis, const std::optional<NdArray>& out,
                 bool keepdims) {
  const Axes axes = axis ? Axes(*axis) : Axes();
  ReduceOptions options;
  options.keepdims = keepdims;
  options.out = out;
  if (!has_nan(a.dtype())) return reduce(reduction, a, axes, options);
  const Scalar worst = missing::worst_of(reduction, a.dtype());
  const auto check = [](const NdArray& empty) {
    if (item_or(reduce("any"_reduction, empty), false).as_bool()) throw InvalidArgument("All-NaN slice encountered");
  };
  if (a.size() > 0 && !out && !is_complex(a.dtype())) {
    const uint32_t mask = axes.mask(a.ndim());
    const bool flat = !axis && a.ndim() > 1 && a.is_contiguous();  // one axis is its own position
    const NdArray source = flat ? a.reshape({a.size()}) : a;
    const uint32_t over = flat ? 1u : mask;
    Fusing f;
    const auto x = f.input(source), missing = f("isnan"_op, x);
    const std::vector<NdArray> states =
        f.reduce(source.shape(), over, {missing::extreme(f, reduction, x, missing, worst), missing::none(f, missing)});
    check(states[1]);
    return deliver(info(reduction).name, states[0], a.shape(), mask, keepdims, {});
  }
  if (a.size() > 0) check(reduce("all"_reduction, apply("isnan"_op, {a}), axes));
  return reduce(reduction, replaced(a, is_complex(a.dtype()) ? Scalar(worst.as_double()) : worst), axes, options);
}

// Both over the elements that are no NaN, with the reduced axes as 1.
struct Sum {
  NdArray value;  // of dtype `accumulate`, float32 for the 16-bit floats
  NdArray count;  // int64
};
Sum sum_of_numbers(const NdArray& a, uint32_t mask, DType accumulate) {
  Fusing f;
  const auto x = f.input(a), missing = f("isnan"_op, x);
  const std::vector<NdArray> states = f.reduce(a.shape(), mask, missing::sum_and_count(f, x, missing, accumulate));
  return {states[0], states[1]};
}
NdArray mean_of_numbers(const Sum& sum) {
  return apply("divide"_op, {sum.value, sum.count.astype(real_type(sum.value.dtype()))});
}

// In the two passes of NumPy; NaN without degrees of freedom. Of dtype `wide`.
NdArray variance_of_numbers(Reduction reduction, const NdArray& a, uint32_t mask, DType wide, double ddof) {
  const DType real = real_type(wide);
  const Sum sum = sum_of_numbers(a, mask, wide);
  Fusing f;
  const auto x = f.input(a), center = f.input(mean_of_numbers(sum));
  const NdArray total = f.reduce(a.shape(), mask, {missing::squares(f, x, f("isnan"_op, x), center, wide)})[0];
  Fused last;
  const auto freedom = last("subtract"_op, last.cast(last.input(sum.count), real), Scalar::strong(ddof, real));
  auto result = last("divide"_op, last.input(total), last("maximum"_op, freedom, Scalar::strong(0, real)));
  if (reduction == "std"_reduction) result = last("sqrt"_op, result);
  return last.run(last("where"_op, last("less_equal"_op, freedom, 0), kNan, result));
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
  if (!out && !where && !mean && !(dtype && is_complex(*dtype))) {
    const DType accumulate = dtype.value_or(a.dtype());
    const NdArray result = variance_of_numbers(reduction, a, mask, widened(accumulate), options.ddof);
    return deliver(info(reduction).name,
                   result.dtype() == real_type(accumulate) ? result : result.astype(real_type(accumulate)), a.shape(),
                   mask, keepdims, {});
  }
  const NdArray taking = valid(a, where);
  options.where = taking;
  options.keepdims = true;
  NdArray result = reduce(reduction, a, axis, options);
  // No degrees of freedom: NaN, not the quotient by zero.
  const NdArray count = reduce("count_nonzero"_reduction, taking, axis, {.keepdims = true});
  result = apply("where"_op, {apply("less_equal"_op, {count, options.ddof}), kNan, result});
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
  if (has_nan(a.dtype()) && !where) {
    const uint32_t mask = axis.mask(a.ndim());
    const DType accumulate = dtype.value_or(a.dtype());
    const NdArray mean = mean_of_numbers(sum_of_numbers(a, mask, accumulate));
    return deliver("mean", mean.dtype() == accumulate ? mean : mean.astype(accumulate), a.shape(), mask, keepdims, out);
  }
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
