#include "quarry/chunked/api/elementwise.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/ufunc/compositions.h"

namespace quarry {

using namespace compose;

namespace {

Array infinite(const Array& x, double value) {
  if (local::is_complex(x.dtype()))
    throw local::TypeError(fmt::format("This operation is not supported for {} values because it would be ambiguous.",
                                       local::name(x.dtype())));
  // Integers have no infinities, but a sign.
  return local::is_float(x.dtype()) ? equal(x, value) : isinf(x);
}

}  // namespace

Array isclose(const Operand& a, const Operand& b, const Operand& rtol, const Operand& atol, bool equal_nan) {
  Operand y = b;
  if (b.is_array()) {
    y = b.array().astype(promoted({b, 1.0}));
  } else if (b.scalar().weak() && local::is_integer(b.scalar().dtype())) {
    y = b.scalar().as_double();  // an integer literal counts as a float, so that any fits
  }
  // Two numbers have no array among them.
  const Operand x = a.is_array() || y.is_array() ? a : Operand(as_array(a));
  return local::compositions::isclose<Operand>(kApply, x, y, rtol, atol, equal_nan).array();
}

bool allclose(const Operand& a, const Operand& b, const Operand& rtol, const Operand& atol, bool equal_nan) {
  return static_cast<bool>(isclose(a, b, rtol, atol, equal_nan).all());
}

bool array_equal(const Array& a1, const Array& a2, bool equal_nan) {
  if (a1.shape() != a2.shape()) return false;
  const Array same = equal(a1, a2);
  if (!equal_nan || !compose::is_inexact(a1.dtype()) || !compose::is_inexact(a2.dtype()))
    return static_cast<bool>(same.all());
  return static_cast<bool>(logical_or(same, logical_and(isnan(a1), isnan(a2))).all());
}

bool array_equiv(const Array& a1, const Array& a2) {
  try {
    local::broadcast_shapes(a1.shape(), a2.shape());
  } catch (const local::InvalidArgument&) {
    return false;
  }
  return static_cast<bool>(equal(a1, a2).all());
}

Array real_if_close(const Array& a, double tol) {
  if (!local::is_complex(a.dtype())) return a;
  if (tol > 1) tol *= local::linalg::epsilon_of(a.dtype());
  return static_cast<bool>((absolute(imag(a)) < tol).all()) ? real(a) : a;
}

Array angle(const Array& z, bool deg) {
  return local::compositions::angle<Operand>(kApply, z, local::is_complex(z.dtype()), deg).array();
}
Array fix(const Array& x) { return trunc(x); }
Array sinc(const Array& x) { return local::compositions::sinc<Operand>(kApply, x).array(); }

Array i0(const Array& x) {
  if (local::is_complex(x.dtype())) throw local::TypeError("i0 not supported for complex values");
  const Operand magnitude = absolute(x.astype(DType::float64));
  return local::compositions::bessel_i0<Operand>(kApply, magnitude)
      .array()
      .astype(local::is_float(x.dtype()) ? x.dtype() : DType::float64);
}

Array around(const Array& a, int64_t decimals) { return round(a, decimals); }

Array iscomplex(const Array& x) {
  return local::is_complex(x.dtype()) ? not_equal(imag(x), 0) : constant(x.shape(), false, DType::bool_);
}
Array isreal(const Array& x) {
  return local::is_complex(x.dtype()) ? equal(imag(x), 0) : constant(x.shape(), true, DType::bool_);
}
Array isposinf(const Array& x) { return infinite(x, std::numeric_limits<double>::infinity()); }
Array isneginf(const Array& x) { return infinite(x, -std::numeric_limits<double>::infinity()); }
Array isnull(const Array& x) { return isnan(x); }
Array notnull(const Array& x) { return logical_not(isnan(x)); }

}  // namespace quarry
