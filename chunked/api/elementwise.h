// Functions made of ufuncs, by NumPy's names. Lazy but for allclose(); fused with what they are used in.
#pragma once

#include "quarry/chunked/api/ufuncs.h"

namespace quarry {

// |a - b| <= atol + rtol |b|, broadcast; equal infinities are close.
Array isclose(const Operand& a, const Operand& b, const Operand& rtol = 1e-5, const Operand& atol = 1e-8,
              bool equal_nan = false);
// Whether all elements are. Blocking, collective.
bool allclose(const Operand& a, const Operand& b, const Operand& rtol = 1e-5, const Operand& atol = 1e-8,
              bool equal_nan = false);

// Whether the shapes and all elements are equal, with `equal_nan` NaN to NaN; whether all are after broadcasting, false
// where shapes do not. Blocking, collective, where shapes do not say it.
bool array_equal(const Array& a1, const Array& a2, bool equal_nan = false);
bool array_equiv(const Array& a1, const Array& a2);
// The real parts of complex numbers whose imaginary parts are all below tol times the dtype's epsilon, or tol itself
// for tol <= 1; others as they are. Blocking, collective, for complex numbers.
Array real_if_close(const Array& a, double tol = 100);

Array angle(const Array& z, bool deg = false);  // of complex numbers; of real ones 0 or pi
Array fix(const Array& x);                      // towards 0
Array sinc(const Array& x);                     // sin(pi x) / (pi x)
// The modified Bessel function of order 0, float64 but for floats. Throws TypeError for complex numbers.
Array i0(const Array& x);
Array around(const Array& a, int64_t decimals = 0);  // round()

Array iscomplex(const Array& x);  // bool: the imaginary part is not 0
Array isreal(const Array& x);
// Throw TypeError for complex numbers.
Array isposinf(const Array& x);
Array isneginf(const Array& x);
Array isnull(const Array& x);  // bool: NaN; of integers nothing is
Array notnull(const Array& x);

}  // namespace quarry
