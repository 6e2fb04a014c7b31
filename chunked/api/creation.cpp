#include "quarry/chunked/api/creation.h"

#include <fmt/format.h>

#include <cmath>

#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry {

using local::InvalidArgument;

namespace {

void check_shape(const Dims& shape) {
  for (int64_t extent : shape)
    if (extent < 0) throw InvalidArgument("negative dimensions are not allowed");
}

bool is_inexact(DType dtype) { return local::is_float(dtype) || local::is_complex(dtype); }

// An axis of n positions as `dtype`.
Array positions(int64_t n, DType dtype) { return Array(expr::index({n}, 0)).astype(dtype); }

Scalar typed(const Scalar& value, DType dtype) { return Scalar::strong(value, dtype); }

}  // namespace

Array full(const Dims& shape, const Scalar& value, std::optional<DType> dtype) {
  check_shape(shape);
  return Array(expr::constant(value, dtype.value_or(value.dtype()), shape));
}
Array zeros(const Dims& shape, DType dtype) { return full(shape, 0, dtype); }
Array ones(const Dims& shape, DType dtype) { return full(shape, 1, dtype); }
Array empty(const Dims& shape, DType dtype) { return full(shape, 0, dtype); }

Array arange(const Scalar& start, const Scalar& stop, const Scalar& step, std::optional<DType> dtype) {
  const local::PromotionOperand operands[] = {
      {start.dtype(), start.weak()}, {stop.dtype(), stop.weak()}, {step.dtype(), step.weak()}};
  const DType type = dtype.value_or(local::result_type(operands));
  int64_t count = 0;
  const bool integers = !is_inexact(start.dtype()) && !is_inexact(stop.dtype()) && !is_inexact(step.dtype());
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

Array arange(const Scalar& stop) { return arange(Scalar(0), stop); }

Array linspace(const Scalar& start, const Scalar& stop, int64_t num, bool endpoint, std::optional<DType> dtype) {
  if (num < 0) throw InvalidArgument(fmt::format("Number of samples, {}, must be non-negative.", num));
  const bool complex = local::is_complex(start.dtype()) || local::is_complex(stop.dtype());
  const DType work = complex ? DType::complex128 : DType::float64;
  const DType type = dtype.value_or(work);
  const std::complex<double> a = start.as_complex(), b = stop.as_complex();
  const int64_t divisor = endpoint ? num - 1 : num;
  Array y = positions(num, work);
  if (divisor > 0) {
    const std::complex<double> step = complex
                                          ? (b - a) / static_cast<double>(divisor)
                                          : std::complex<double>((b.real() - a.real()) / static_cast<double>(divisor));
    if (step == 0.0)
      y = y / typed(Scalar(static_cast<double>(divisor)), work) * typed(Scalar(b - a), work);
    else
      y = y * typed(Scalar(step), work);
  } else {
    y = y * typed(Scalar(b - a), work);
  }
  y = y + typed(Scalar(a), work);
  if (endpoint && num > 1) {
    const Array i(expr::index({num}, 0));
    y = where(i == Scalar(num - 1), typed(Scalar(b), work), y);
  }
  if (local::is_integer(type)) y = floor(y);
  return y.astype(type);
}

Array eye(int64_t rows, std::optional<int64_t> columns, int64_t k, DType dtype) {
  const Dims shape{rows, columns.value_or(rows)};
  check_shape(shape);
  const Array row(expr::index(shape, 0)), column(expr::index(shape, 1));
  return equal(row + Scalar(k), column).astype(dtype);
}

}  // namespace quarry
