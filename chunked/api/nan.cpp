#include "quarry/chunked/api/nan.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/fusing.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/out.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/reduction/missing.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/types/types.h"
#include "quarry/local/program/program.h"

namespace quarry {
namespace {

using local::InvalidArgument;
using local::TypeError;

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

bool has_nan(const Array& a) { return local::is_float(a.dtype()) || local::is_complex(a.dtype()); }

Array checked_mask(const Array& a, const Array& where) {
  if (where.dtype() != DType::bool_)
    throw TypeError(fmt::format("where must be an array of bool, not {}", local::name(where.dtype())));
  if (!(local::broadcast_shapes(a.shape(), where.shape()) == a.shape())) {
    throw InvalidArgument(fmt::format("where of shape {} does not broadcast to the array's shape {}",
                                      local::compact_shape(where.shape()), local::compact_shape(a.shape())));
  }
  return broadcast_to(where, a.shape());
}

// The elements that do not take part.
Operand left_out(const Array& a, const std::optional<Array>& where) {
  if (!has_nan(a)) return where ? logical_not(checked_mask(a, *where)) : broadcast_to(full({}, false), a.shape());
  return where ? logical_or(isnan(a), logical_not(checked_mask(a, *where))) : isnan(a);
}

Array shaped(const Array& kept, const Axes& axis, bool keepdims) { return keepdims ? kept : squeeze(kept, axis); }

Array with_first(const Array& result, const std::optional<Scalar>& initial, local::Op op) {
  if (!initial) return result;
  const Operand args[] = {Scalar::strong(*initial, result.dtype()), result};
  return apply(op, args);
}

Array total(local::Reduction reduction, const Array& a, const Axes& axis, std::optional<DType> dtype, bool keepdims,
            const std::optional<Scalar>& initial, const std::optional<Array>& where) {
  Array result = reduce(reduction, a, axis, {.dtype = dtype, .keepdims = keepdims});
  if (has_nan(a) || where) {
    Fusing f;
    const Operand x = a;
    const Array sum = f.reduce(a.shape(), axis.mask(a.ndim()),
                               {local::missing::total(f, reduction, x, left_out(a, where), result.dtype())})[0];
    result = shaped(sum.dtype() == result.dtype() ? sum : sum.astype(result.dtype()), axis, keepdims);
  }
  return with_first(result, initial, *local::find_op(local::info(reduction).ufunc));
}

Array extreme(const char* function, local::Reduction reduction, const Array& a, const Axes& axis, bool keepdims,
              const std::optional<Scalar>& initial, const std::optional<Array>& where) {
  const Dims shape = local::reduced_shape(a.shape(), axis.mask(a.ndim()), keepdims);
  const local::ReductionInfo& row = local::info(reduction);
  const char* const name = has_nan(a) ? function : row.ufunc;
  if (where && !initial) {
    throw InvalidArgument(
        fmt::format("reduction operation '{}' does not have an identity, so to use a where mask one has to specify "
                    "'initial'",
                    row.ufunc));
  }
  if (a.size() == 0) {
    if (initial) return full(shape, *initial, a.dtype());
    if (local::element_count(shape) == 0) return zeros(shape, a.dtype());
    throw InvalidArgument(fmt::format("zero-size array to reduction operation {} which has no identity", name));
  }
  const ReduceOptions keep{.keepdims = keepdims};
  if (!has_nan(a) && !where) return with_first(reduce(reduction, a, axis, keep), initial, *local::find_op(row.ufunc));
  const Scalar worst = initial ? Scalar::strong(*initial, a.dtype()) : local::missing::worst_of(reduction, a.dtype());
  const Array result = reduce(reduction, quarry::where(left_out(a, where), worst, a), axis, keep);
  if (initial) return with_first(result, initial, *local::find_op(row.ufunc));
  return quarry::where(all(isnan(a), axis, keep), Scalar::strong(kNan, a.dtype()), result);
}

Array position(local::Reduction reduction, const Array& a, std::optional<int64_t> axis, bool keepdims) {
  const Axes axes = axis ? Axes(*axis) : Axes();
  const ReduceOptions keep{.keepdims = keepdims};
  if (!has_nan(a) || a.size() == 0) return reduce(reduction, a, axes, keep);
  const bool low = reduction == "argmax"_reduction;
  // NumPy replaces NaN by a real infinity here, with complex numbers as well.
  const Scalar worst = Scalar::strong(Scalar(low ? -kInfinity : kInfinity), a.dtype());
  const Array missing = isnan(a);
  const Array computed[] = {reduce(reduction, quarry::where(missing, worst, a), axes, keep), any(all(missing, axes))};
  const std::vector<Array> values = persist(computed);
  if (values[1].item<bool>()) throw InvalidArgument("All-NaN slice encountered");
  return values[0];
}

void check_inexact(const Array& a, std::optional<DType> dtype) {
  if (dtype && has_nan(a) && !local::is_float(*dtype) && !local::is_complex(*dtype))
    throw TypeError("If a is inexact, then dtype must be inexact");
}

// Of the elements that take part, with the reduced axes as 1; the sum of dtype widened(accumulate), the count int64.
struct Sum {
  Array value, count;
};
Sum sum_of(const Array& a, const Operand& missing, const Axes& axis, DType accumulate) {
  Fusing f;
  const Operand x = f.cast(a, accumulate);
  const std::vector<Array> parts = f.reduce(a.shape(), axis.mask(a.ndim()),
                                            local::missing::sum_and_count(f, x, missing, local::widened(accumulate)));
  return {parts[0], parts[1]};
}
Array mean_of(const Sum& sum) { return sum.value / sum.count.astype(local::real_type(sum.value.dtype())); }

// NumPy's dtype of means and variances.
DType inexact(const Array& a, std::optional<DType> dtype) {
  return dtype.value_or(local::accumulate_dtype("mean"_reduction, a.dtype()));
}

Array spread(local::Reduction reduction, const Array& a, const Axes& axis, std::optional<DType> dtype, double ddof,
             bool keepdims, const std::optional<Array>& where, const std::optional<Array>& mean) {
  check_inexact(a, dtype);
  if (!has_nan(a) && !where && !mean)
    return reduce(reduction, a, axis, {.dtype = dtype, .ddof = ddof, .keepdims = keepdims});
  const DType accumulate = inexact(a, dtype);
  if (!local::is_float(accumulate) && !local::is_complex(accumulate))
    throw local::NotSupported(
        fmt::format("{}() in {} with where or mean", local::info(reduction).name, local::name(accumulate)));
  const DType wide = local::widened(accumulate), real_dtype = local::real_type(wide);
  const Operand missing = left_out(a, where), x = a;
  const Sum parts = sum_of(a, missing, axis, wide);
  const Operand center = mean ? *mean : mean_of(parts);
  Fusing f;
  const Array sum_of_squares =
      f.reduce(a.shape(), axis.mask(a.ndim()), {local::missing::squares(f, x, missing, center, wide)})[0];
  const Array freedom = parts.count.astype(real_dtype) - Scalar::strong(ddof, real_dtype);
  Array result = sum_of_squares / maximum(freedom, Scalar::strong(0, real_dtype));
  if (reduction == "std"_reduction) result = sqrt(result);
  // No degrees of freedom: NaN, not the quotient by zero.
  result = quarry::where(freedom <= 0, Scalar::strong(kNan, real_dtype), result);
  return shaped(result.astype(local::real_type(accumulate)), axis, keepdims);
}

}  // namespace

Array nan_to_num(const Array& x, bool /*copy*/, const Operand& nan, const std::optional<Operand>& posinf,
                 const std::optional<Operand>& neginf) {
  if (!has_nan(x)) return x;
  if (local::is_complex(x.dtype())) {
    for (const std::optional<Operand>& value : {std::optional(nan), posinf, neginf})
      if (value && !value->is_array() && !std::isfinite(value->scalar().as_double()))
        throw local::NotSupported("nan_to_num() of chunked complex numbers to what is not finite");
    const Array re = nan_to_num(real(x), true, nan, posinf, neginf),
                im = nan_to_num(imag(x), true, nan, posinf, neginf);
    return re.astype(x.dtype()) + im.astype(x.dtype()) * Scalar::strong(std::complex<double>(0, 1), x.dtype());
  }
  const double largest = local::ops::finfo(x.dtype()).max.as_double();
  const auto as_part = [&](const Operand& value) {
    return value.is_array() ? Operand(value.array().astype(x.dtype()))
                            : Operand(Scalar::strong(value.scalar(), x.dtype()));
  };
  Array value = where(x == kInfinity, as_part(posinf.value_or(Operand(largest))), x);
  value = where(x == -kInfinity, as_part(neginf.value_or(Operand(-largest))), value);
  return where(isnan(x), as_part(nan), value);
}

Array ptp(const Array& a, const Axes& axis, const std::optional<Array>& out, bool keepdims) {
  refuse_out("ptp", out);
  const ReduceOptions keep{.keepdims = keepdims};
  return max(a, axis, keep) - min(a, axis, keep);
}

Array nansum(const Array& a, const Axes& axis, std::optional<DType> dtype, const std::optional<Array>& out,
             bool keepdims, const std::optional<Scalar>& initial, const std::optional<Array>& where) {
  refuse_out("nansum", out);
  return total("sum"_reduction, a, axis, dtype, keepdims, initial, where);
}
Array nanprod(const Array& a, const Axes& axis, std::optional<DType> dtype, const std::optional<Array>& out,
              bool keepdims, const std::optional<Scalar>& initial, const std::optional<Array>& where) {
  refuse_out("nanprod", out);
  return total("prod"_reduction, a, axis, dtype, keepdims, initial, where);
}
Array nanmin(const Array& a, const Axes& axis, const std::optional<Array>& out, bool keepdims,
             const std::optional<Scalar>& initial, const std::optional<Array>& where) {
  refuse_out("nanmin", out);
  return extreme("fmin", "min"_reduction, a, axis, keepdims, initial, where);
}
Array nanmax(const Array& a, const Axes& axis, const std::optional<Array>& out, bool keepdims,
             const std::optional<Scalar>& initial, const std::optional<Array>& where) {
  refuse_out("nanmax", out);
  return extreme("fmax", "max"_reduction, a, axis, keepdims, initial, where);
}
Array nanargmin(const Array& a, std::optional<int64_t> axis, const std::optional<Array>& out, bool keepdims) {
  refuse_out("nanargmin", out);
  return position("argmin"_reduction, a, axis, keepdims);
}
Array nanargmax(const Array& a, std::optional<int64_t> axis, const std::optional<Array>& out, bool keepdims) {
  refuse_out("nanargmax", out);
  return position("argmax"_reduction, a, axis, keepdims);
}
Array nanmean(const Array& a, const Axes& axis, std::optional<DType> dtype, const std::optional<Array>& out,
              bool keepdims, const std::optional<Array>& where) {
  refuse_out("nanmean", out);
  check_inexact(a, dtype);
  if (!has_nan(a) && !where) return reduce("mean"_reduction, a, axis, {.dtype = dtype, .keepdims = keepdims});
  const DType accumulate = inexact(a, dtype);
  const Array mean = mean_of(sum_of(a, left_out(a, where), axis, accumulate));
  return shaped(mean.astype(accumulate), axis, keepdims);
}
Array nanvar(const Array& a, const Axes& axis, std::optional<DType> dtype, const std::optional<Array>& out, double ddof,
             bool keepdims, const std::optional<Array>& where, const std::optional<Array>& mean,
             std::optional<double> correction) {
  refuse_out("nanvar", out);
  return spread("var"_reduction, a, axis, dtype, correction.value_or(ddof), keepdims, where, mean);
}
Array nanstd(const Array& a, const Axes& axis, std::optional<DType> dtype, const std::optional<Array>& out, double ddof,
             bool keepdims, const std::optional<Array>& where, const std::optional<Array>& mean,
             std::optional<double> correction) {
  refuse_out("nanstd", out);
  return spread("std"_reduction, a, axis, dtype, correction.value_or(ddof), keepdims, where, mean);
}

}  // namespace quarry
