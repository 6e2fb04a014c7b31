// Vectors of the iterative methods: updates in place and products. Private to the folder.
#pragma once

#include <complex>
#include <concepts>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/linear_operator.h"

namespace quarry::local::sparse::linalg {

using Complex = std::complex<double>;

// sum of conj(a) b, 0-d, on the device; does not block.
inline NdArray inner(const NdArray& a, const NdArray& b) { return ops::vdot(a, b); }
// The same as a number: blocks.
inline Complex inner_value(const NdArray& a, const NdArray& b) { return inner(a, b).item().as_complex(); }
double norm2(const NdArray& x);

// A number as a factor of a vector that keeps the vector's dtype.
Scalar factor_for(const NdArray& x, Complex value);

// y = y + a x and y = x + a y, in place; `a` is a number or 0-d.
void add_scaled(const NdArray& y, const Arg& a, const NdArray& x);
void scale_add(const NdArray& y, const Arg& a, const NdArray& x);
template <std::same_as<Complex> T>  // not what converts to one: an array does
void add_scaled(const NdArray& y, T a, const NdArray& x) {
  add_scaled(y, Arg(factor_for(y, a)), x);
}
// x * a, new.
NdArray scaled(const NdArray& x, Complex a);
NdArray copy_of(const NdArray& x);
NdArray zeros_like(const NdArray& x);
NdArray conjugate(const NdArray& x);
// a^H of a matrix.
inline NdArray adjoint(const NdArray& a) { return conjugate(a).T(); }
NdArray matmul(const NdArray& a, const NdArray& b);

}  // namespace quarry::local::sparse::linalg
