#include "quarry/chunked/api/reductions.h"

#include <fmt/format.h>

#include <bit>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/results.h"

namespace quarry {

namespace {

using local::Reduction;

bool is_extreme(Reduction reduction) { return reduction == "min"_reduction || reduction == "max"_reduction; }

// A reduction over the elements that take part, in the order and the dtypes of local::reduce(). Every result has the
// reduced axes as 1.
struct Reducer {
  const Array& x;
  uint32_t axes;
  std::optional<Array> where;  // of the array's shape

  Array plain(Reduction reduction, const Array& values, std::optional<DType> accumulate, double ddof = 0) const {
    return Array(expr::insert_axes(expr::reduce(reduction, values.node(), axes, accumulate, ddof), axes));
  }

  // The values, and what changes no state for those that do not take part.
  Array selected(const Array& values, const Scalar& neutral) const {
    return where ? quarry::where(*where, values, Scalar::strong(neutral, values.dtype())) : values;
  }

  // How many elements take part, as values of a real dtype.
  Array count(DType real) const {
    if (where) return plain("count_nonzero"_reduction, *where, {}).astype(real);
    int64_t elements = 1;
    for (int d = 0; d < x.ndim(); ++d)
      if (axes >> d & 1) elements *= x.shape()[d];
    return compose::constant({}, elements, real);
  }

  Array mean(DType accumulate) const {
    const Array sum = plain("sum"_reduction, selected(x.astype(accumulate), 0), accumulate);
    return sum / count(local::real_type(accumulate));
  }

  // The two passes of NumPy: squared distances from a mean that is known or made first.
  Array variance(Reduction reduction, DType accumulate, double ddof, const std::optional<Array>& known) const {
    const DType wide = local::widened(accumulate), real = local::real_type(wide);
    const Array center = known ? *known : where ? mean(wide) : plain("mean"_reduction, x, wide);
    if (!(local::broadcast_shapes(x.shape(), center.shape()) == x.shape()))
      throw local::InvalidArgument(fmt::format("the mean of shape {} does not broadcast to the array's shape {}",
                                               local::compact_shape(center.shape()), local::compact_shape(x.shape())));
    const Array distance = x.astype(wide) - center.astype(wide);
    Array squared = square(local::is_complex(wide) ? quarry::real(distance) : distance);
    if (local::is_complex(wide)) squared = squared + square(imag(distance));
    const Array total = plain("sum"_reduction, selected(squared, 0), real);
    Array result = total / maximum(count(real) - ddof, Scalar::strong(0.0, real));
    if (reduction == "std"_reduction) result = sqrt(result);
    return result.astype(local::real_type(accumulate));
  }

  // mean, var and std with an integer dtype=: sums and means are rounded to it on the way, as NumPy's are.
  Array integer_moment(Reduction reduction, DType dtype, double ddof) const {
    const Array elements = count(DType::float64);
    Array mean = (plain("sum"_reduction, x, dtype) / elements).astype(dtype);
    if (reduction == "mean"_reduction) return mean;
    Array distance = x - mean;
    distance = local::is_complex(distance.dtype()) ? square(quarry::real(distance)) + square(imag(distance))
                                                   : square(distance);
    const Array var = (plain("sum"_reduction, distance, dtype) / maximum(elements - ddof, 0.0)).astype(dtype);
    return reduction == "var"_reduction ? var : sqrt(var).astype(dtype);
  }
};

}  // namespace

Array detail::reduce(Reduction reduction, const Array& x, const Axes& given, const ReduceOptions& options) {
  const local::ReductionInfo& row = local::info(reduction);
  if (options.out)
    throw local::TypeError(fmt::format("{}() of chunked arrays takes no 'out': they are never written", row.name));
  const uint32_t axes = local::reduced_axes(reduction, x.shape(), given, options.axis,
                                            {options.dtype.has_value(), options.ddof != 0, options.mean.has_value(),
                                             options.initial.has_value(), options.where.has_value()})
                            .second;
  const auto [accumulate, converted] =
      local::reduction_dtypes(reduction, x.dtype(), options.dtype, std::popcount(axes) == x.ndim());
  if (options.where) {
    local::check_where(options.where->dtype());
    if (!(local::broadcast_shapes(x.shape(), options.where->shape()) == x.shape()))
      throw local::InvalidArgument(fmt::format("where of shape {} does not broadcast to the array's shape {}",
                                               local::compact_shape(options.where->shape()),
                                               local::compact_shape(x.shape())));
  }
  if (!converted && !options.where && !options.initial && !options.mean) {
    expr::NodePtr node = expr::reduce(reduction, x.node(), axes, options.dtype, options.ddof);
    if (options.keepdims) node = expr::insert_axes(node, axes);
    return Array(std::move(node));
  }

  Reducer reducer{x, axes, std::nullopt};
  if (options.where) reducer.where = broadcast_to(*options.where, x.shape());
  std::optional<Scalar> initial;
  if (options.initial) {
    local::check_literal(*options.initial, accumulate);
    initial = Scalar::strong(*options.initial, accumulate);
  }
  Array result;
  if (converted && !local::is_complex(*converted) && !options.where && !options.mean) {
    result = reducer.integer_moment(reduction, *converted, options.ddof);
  } else if (row.takes_ddof) {
    result = options.where || options.mean ? reducer.variance(reduction, accumulate, options.ddof, options.mean)
                                           : reducer.plain(reduction, x, accumulate, options.ddof);
  } else if (reduction == "mean"_reduction && options.where) {
    result = reducer.mean(accumulate).astype(accumulate);
  } else if (is_extreme(reduction)) {
    // Of no elements the initial value is the result.
    const bool empty = local::element_count(x.shape()) == 0;
    const Array values = x.astype(accumulate);
    if (!empty)
      result = reducer.plain(reduction, options.where ? quarry::where(*reducer.where, values, *initial) : values, {});
    else
      result = compose::constant(local::reduced_shape(x.shape(), axes, true), *initial, accumulate);
  } else {
    const bool one = row.start[0] == local::FieldStart::one;
    const DType dtype = row.of_truth ? DType::bool_ : accumulate;
    const Array values = options.where ? reducer.selected(x.astype(dtype), one ? 1 : 0) : x;
    result = reducer.plain(reduction, values, row.takes_dtype ? std::optional(accumulate) : std::nullopt);
  }
  if (initial) {
    const Operand args[] = {*initial, result};
    result = apply(*local::find_op(row.ufunc), args);
  }
  if (converted) result = result.astype(*converted);
  if (options.keepdims) return result;
  return reshape(result, local::reduced_shape(x.shape(), axes, false));
}

}  // namespace quarry
