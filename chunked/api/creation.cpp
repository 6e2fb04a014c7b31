#include "quarry/chunked/api/creation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"

namespace quarry {

using namespace compose;

namespace {

void check_shape(const Dims& shape) {
  for (int64_t extent : shape)
    if (extent < 0) throw InvalidArgument("negative dimensions are not allowed");
}

// The floating point dtype that start and stop are interpolated in.
DType inexact_type(const Operand& start, const Operand& stop) { return promoted({start, stop, 1.0}); }

}  // namespace

Array asarray(const Operand& a, std::optional<DType> dtype) { return dtype ? as_array(a, *dtype) : as_array(a); }
Array from_array(const NdArray& x, const std::optional<Dims>& chunks) {
  return from_array(Array::from_local(x), chunks);
}
Array from_array(const Array& x, const std::optional<Dims>& chunks) { return chunks ? x.rechunk(*chunks) : x; }
Array from_dlpack(const NdArray& x) { return Array::from_local(x); }

Array full(const Dims& shape, const Operand& value, std::optional<DType> dtype) {
  check_shape(shape);
  if (value.is_array()) return broadcast_to(asarray(value, dtype), shape);
  const DType type = dtype.value_or(value.scalar().dtype());
  local::check_weak_fits(value.scalar(), type);
  return compose::constant(shape, value.scalar(), type);
}
Array zeros(const Dims& shape, DType dtype) { return full(shape, 0, dtype); }
Array ones(const Dims& shape, DType dtype) { return full(shape, 1, dtype); }
Array empty(const Dims& shape, DType dtype) { return full(shape, 0, dtype); }

Array full_like(const Array& a, const Operand& fill_value, std::optional<DType> dtype,
                const std::optional<Dims>& shape) {
  return full(shape.value_or(a.shape()), fill_value, dtype.value_or(a.dtype()));
}
Array zeros_like(const Array& a, std::optional<DType> dtype, const std::optional<Dims>& shape) {
  return full_like(a, 0, dtype, shape);
}
Array ones_like(const Array& a, std::optional<DType> dtype, const std::optional<Dims>& shape) {
  return full_like(a, 1, dtype, shape);
}
Array empty_like(const Array& a, std::optional<DType> dtype, const std::optional<Dims>& shape) {
  return full_like(a, 0, dtype, shape);
}

Array arange(const Scalar& start, const Scalar& stop, const Scalar& step, std::optional<DType> dtype) {
  const local::PromotionOperand operands[] = {
      {start.dtype(), start.weak()}, {stop.dtype(), stop.weak()}, {step.dtype(), step.weak()}};
  const DType type = dtype.value_or(local::promote_types(local::result_type(operands), DType::int64));
  int64_t count = 0;
  const bool integers =
      !compose::is_inexact(start.dtype()) && !compose::is_inexact(stop.dtype()) && !compose::is_inexact(step.dtype());
  if (integers) {
    const __int128 a = start.as_int64(), b = stop.as_int64(), s = step.as_int64();
    if (s == 0) throw InvalidArgument("arange: the step must not be 0");
    const __int128 n = s > 0 ? (b - a + s - 1) / s : (b - a + s + 1) / s;
    if (n > INT64_MAX) throw InvalidArgument("arange: more elements than 64 bits can count");
    count = n > 0 ? static_cast<int64_t>(n) : 0;
  } else {
    const double s = step.as_double();
    if (s == 0) throw InvalidArgument("arange: the step must not be 0");
    const double n = std::ceil((stop.as_double() - start.as_double()) / s);
    if (std::isnan(n)) throw InvalidArgument("arange: cannot compute length");
    if (n >= 9.2e18) throw InvalidArgument("arange: Maximum allowed size exceeded");
    count = n > 0 ? static_cast<int64_t>(n) : 0;
  }
  if (type == DType::bool_ && count > 2)
    throw local::TypeError("arange() is only supported for booleans when the result has at most length 2.");
  const Scalar next =
      integers ? Scalar(start.as_int64() + step.as_int64()) : Scalar(start.as_double() + step.as_double());
  if (count > 0) local::check_weak_fits(start, type);
  if (count > 1) local::check_weak_fits(next, type);
  // As NumPy: the difference of the first two elements, in the result's dtype, is what counts.
  if (integers && local::is_integer(type)) return positions(count, type) * typed(step, type) + typed(start, type);
  if (type == DType::bool_) return (positions(count, DType::int64) * step + start).astype(type);
  if (local::is_integer(type)) {
    const int64_t first = typed(start, type).as_int64();
    const int64_t second = typed(Scalar(start.as_double() + step.as_double()), type).as_int64();
    return positions(count, type) * typed(Scalar(second - first), type) + typed(Scalar(first), type);
  }
  const std::complex<double> first = typed(start, type).as_complex();
  const std::complex<double> second = typed(Scalar(start.as_complex() + step.as_complex()), type).as_complex();
  return positions(count, type) * typed(Scalar(second - first), type) + typed(Scalar(first), type);
}

Array arange(const Scalar& start, const Scalar& stop, DType dtype) { return arange(start, stop, 1, dtype); }
Array arange(const Scalar& stop) { return arange(Scalar(0), stop); }
Array arange(const Scalar& stop, DType dtype) { return arange(Scalar(0), stop, 1, dtype); }

std::pair<Array, Array> linspace(const Operand& start, const Operand& stop, int64_t num, RetStep, bool endpoint,
                                 std::optional<DType> dtype, int64_t axis) {
  if (num < 0) throw InvalidArgument(fmt::format("Number of samples, {}, must be non-negative.", num));
  const DType loop = inexact_type(start, stop), wanted = dtype.value_or(loop);
  if (local::is_integer(wanted) && local::is_complex(loop))
    throw local::TypeError(
        "ufunc 'floor' not supported for the input types (complex numbers do not round to integers)");
  const int64_t parts = endpoint ? num - 1 : num;
  const Array from = as_array(start, loop), to = as_array(stop, loop);
  const Array distance = to - from;
  const Array step =
      parts > 0 ? distance / Scalar(parts) : compose::constant({}, std::numeric_limits<double>::quiet_NaN(), loop);
  Dims shape = distance.shape();
  const int along = local::normalize_axis(axis, shape.size() + 1);
  const auto placed = [&](const Array& x) {
    return x.ndim() == 0 ? x : expand_dims(broadcast_to(x, distance.shape()), along);
  };
  shape.insert(along, num);
  const Array index = positions(shape, along), i = index.astype(loop);
  Array y;
  if (parts > 0) {
    // As NumPy: where a step underflows, every element is divided first.
    const Array underflows = any(step == Scalar(0));
    y = where(underflows, i / Scalar(parts) * placed(distance), i * placed(step));
  } else {
    y = i * placed(distance);
  }
  y = y + placed(from);
  if (endpoint && num > 1) y = where(index == Scalar(num - 1), placed(to), y);
  if (local::is_integer(wanted)) y = floor(y);
  return {y.astype(wanted), step};
}

Array linspace(const Operand& start, const Operand& stop, int64_t num, bool endpoint, std::optional<DType> dtype,
               int64_t axis) {
  return linspace(start, stop, num, RetStep(), endpoint, dtype, axis).first;
}

Array logspace(const Operand& start, const Operand& stop, int64_t num, bool endpoint, const Operand& base,
               std::optional<DType> dtype, int64_t axis) {
  Array values;
  if (base.is_array() && base.array().ndim() > 0) {
    // The base takes part in the broadcast before the new axis is placed.
    const DType loop = inexact_type(start, stop);
    const Array from = as_array(start, loop), to = as_array(stop, loop);
    const int ndim = std::max({from.ndim(), to.ndim(), base.array().ndim()});
    const auto widened = [&](const Array& a) { return arrange::with_leading_axes(a, ndim); };
    values = power(expand_dims(widened(base.array()), axis),
                   linspace(widened(from), widened(to), num, endpoint, std::nullopt, axis));
  } else {
    values = power(base, linspace(start, stop, num, endpoint, std::nullopt, axis));
  }
  return dtype ? values.astype(*dtype) : values;
}

Array geomspace(const Operand& start, const Operand& stop, int64_t num, bool endpoint, std::optional<DType> dtype,
                int64_t axis) {
  const Operand natural = compose::constant({}, 0, dtype.value_or(DType::float64));
  const DType loop = local::promote_types(promoted({start, stop, natural}), DType::float64);
  Array from = as_array(start, loop), to = as_array(stop, loop);
  for (const Operand* end : {&start, &stop}) {
    const bool zero =
        end->is_array() ? static_cast<bool>(any(end->array() == Scalar(0))) : end->scalar().as_complex() == 0.0;
    if (zero) throw InvalidArgument("Geometric sequence cannot include zero");
  }
  // Turned so that the start is a positive real number, and back at the end.
  const Array turn = sign(from);
  from = from / turn;
  to = to / turn;
  Array values = logspace(log10(from), log10(to), num, endpoint, 10.0, loop);
  if (num > 0) {
    const Array index = positions(values.shape(), 0);
    values = where(index == Scalar(0), from, values);
    if (num > 1 && endpoint) values = where(index == Scalar(num - 1), to, values);
  }
  values = moveaxis(values * turn, 0, axis);
  return values.astype(dtype.value_or(loop));
}

namespace fft {
namespace {

// (position, or where `wraps`, position - n from the middle on) / (n d)
Array frequencies(int64_t n, double d, int64_t count, bool wraps) {
  if (static_cast<double>(n) * d == 0) throw InvalidArgument("float division by zero: n * d is 0");
  Array position = positions(count);
  if (wraps) position = where(position < Scalar((n - 1) / 2 + 1), position, position - Scalar(n));
  return position.astype(DType::float64) * Scalar(1.0 / (static_cast<double>(n) * d));
}

}  // namespace

Array fftfreq(int64_t n, double d) {
  if (n < 0) throw InvalidArgument("negative dimensions are not allowed");
  return frequencies(n, d, n, /*wraps=*/true);
}
Array rfftfreq(int64_t n, double d) { return frequencies(n, d, n < 0 ? 0 : n / 2 + 1, /*wraps=*/false); }

}  // namespace fft

Array indices(const Dims& dimensions, DType dtype) {
  check_shape(dimensions);
  Dims shape = dimensions;
  shape.insert(0, dimensions.size());
  if (dimensions.empty()) return compose::constant(shape, 0, dtype);
  const Array number = positions(shape, 0);
  Array result = positions(shape, dimensions.size());
  for (int d = dimensions.size() - 1; d-- > 0;) result = where(number == Scalar(d), positions(shape, d + 1), result);
  return result.astype(dtype);
}

std::vector<Array> indices(const Dims& dimensions, Sparse, DType dtype) {
  check_shape(dimensions);
  std::vector<Array> result;
  for (int d = 0; d < dimensions.size(); ++d)
    result.push_back(along(positions(dimensions[d], dtype), d, dimensions.size()));
  return result;
}

std::vector<Array> meshgrid(const std::vector<Array>& xi, bool /*copy*/, bool sparse, std::string_view indexing) {
  if (indexing != "xy" && indexing != "ij")
    throw InvalidArgument(fmt::format("Valid values for `indexing` are 'xy' and 'ij', not '{}'.", indexing));
  const int ndim = static_cast<int>(xi.size());
  if (ndim > local::kMaxDims)
    throw InvalidArgument(fmt::format("meshgrid of {} vectors: at most {}", ndim, local::kMaxDims));
  const bool swapped = indexing == "xy" && ndim > 1;
  Dims whole = Dims::filled(ndim);
  std::vector<Array> results;
  for (int i = 0; i < ndim; ++i) {
    const Array& x = xi[static_cast<size_t>(i)];
    const int axis = swapped && i < 2 ? 1 - i : i;
    whole[axis] = x.size();
    results.push_back(along(ravel(x), axis, ndim));
  }
  for (Array& result : results)
    if (!sparse) result = broadcast_to(result, whole);
  return results;
}

namespace detail {

std::vector<Array> position_arrays(const Dims& shape, DType dtype) {
  check_shape(shape);
  std::vector<Array> result;
  for (int d = 0; d < shape.size(); ++d) result.push_back(positions(shape, d, dtype));
  return result;
}

}  // namespace detail
}  // namespace quarry
