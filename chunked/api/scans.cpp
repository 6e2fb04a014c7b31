#include "quarry/chunked/api/scans.h"

#include <fmt/format.h>

#include <limits>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/out.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/methods.h"

namespace quarry {
namespace {

using local::InvalidArgument;
using local::Op;

Array accumulated(Op op, const Array& a, std::optional<int64_t> axis, std::optional<DType> dtype, bool skip_nan) {
  const bool flat = !axis || a.ndim() == 0;
  if (flat && axis) local::normalize_axis(*axis, 1);
  const Array x = flat ? ravel(a) : a;
  return Array(algo::accumulate(op, x.node(), flat ? 0 : local::normalize_axis(*axis, x.ndim()), dtype, skip_nan));
}

Array cumulative(Op op, const Array& given, std::optional<int64_t> axis, std::optional<DType> dtype,
                 bool include_initial) {
  const Array x = given.ndim() == 0 ? reshape(given, {1}) : given;
  if (!axis && x.ndim() != 1)
    throw InvalidArgument("For arrays which have more than one dimension ``axis`` argument is required.");
  const int along = local::normalize_axis(axis.value_or(0), x.ndim());
  Array result = accumulated(op, x, along, dtype, /*skip_nan=*/false);
  if (!include_initial) return result;
  Dims shape = x.shape();
  shape[along] = 1;
  const Scalar identity = *local::identity_of(op, result.dtype());
  return concatenate({Array(expr::constant(identity, result.dtype(), shape)), result}, along);
}

}  // namespace

Array cumsum(const Array& a, std::optional<int64_t> axis, std::optional<DType> dtype, const std::optional<Array>& out) {
  refuse_out("cumsum", out);
  return accumulated("add"_op, a, axis, dtype, /*skip_nan=*/false);
}
Array cumprod(const Array& a, std::optional<int64_t> axis, std::optional<DType> dtype,
              const std::optional<Array>& out) {
  refuse_out("cumprod", out);
  return accumulated("multiply"_op, a, axis, dtype, /*skip_nan=*/false);
}
Array nancumsum(const Array& a, std::optional<int64_t> axis, std::optional<DType> dtype,
                const std::optional<Array>& out) {
  refuse_out("nancumsum", out);
  return accumulated("add"_op, a, axis, dtype, /*skip_nan=*/true);
}
Array nancumprod(const Array& a, std::optional<int64_t> axis, std::optional<DType> dtype,
                 const std::optional<Array>& out) {
  refuse_out("nancumprod", out);
  return accumulated("multiply"_op, a, axis, dtype, /*skip_nan=*/true);
}
Array cumulative_sum(const Array& x, std::optional<int64_t> axis, std::optional<DType> dtype,
                     const std::optional<Array>& out, bool include_initial) {
  refuse_out("cumulative_sum", out);
  return cumulative("add"_op, x, axis, dtype, include_initial);
}
Array cumulative_prod(const Array& x, std::optional<int64_t> axis, std::optional<DType> dtype,
                      const std::optional<Array>& out, bool include_initial) {
  refuse_out("cumulative_prod", out);
  return cumulative("multiply"_op, x, axis, dtype, include_initial);
}

Array push(const Array& array, std::optional<int64_t> n, int64_t axis) {
  const int along = local::normalize_axis(axis, array.ndim());
  if (n && *n < 0) throw InvalidArgument(fmt::format("push by {} positions", *n));
  Array pushed(algo::push(array.node(), along));
  if (!n || pushed.node() == array.node() || *n >= array.shape()[along]) return pushed;
  // How far back each element came from.
  const Array positions = Array(expr::index(array.shape(), along)).astype(DType::float64);
  const Array nan(expr::constant(std::numeric_limits<double>::quiet_NaN(), DType::float64));
  const Array from(algo::push(where(isnan(array), nan, positions).node(), along));
  return where(positions - from <= Scalar(*n), pushed, nan.astype(array.dtype()));
}

}  // namespace quarry
