#include "quarry/local/sparse/vectors.h"

#include <cmath>

#include "quarry/local/ops/linalg/hermitian.h"

namespace quarry::local::sparse::linalg {

double norm2(const NdArray& x) {
  const double squared = inner(x, x).item().as_complex().real();
  return std::sqrt(squared < 0 ? 0 : squared);  // NaN stays NaN
}

Scalar factor_for(const NdArray& x, Complex value) {
  return Scalar::strong(is_complex(x.dtype()) ? Scalar(value) : Scalar(value.real()), x.dtype());
}

void add_scaled(const NdArray& y, const Arg& a, const NdArray& x) {
  Fused f;
  const auto to = f.input(y);
  f.run_into(f("add"_op, to, f("multiply"_op, f.input(x), f.input(a))), y);
}

void scale_add(const NdArray& y, const Arg& a, const NdArray& x) {
  Fused f;
  const auto to = f.input(y);
  f.run_into(f("add"_op, f.input(x), f("multiply"_op, to, f.input(a))), y);
}

NdArray scaled(const NdArray& x, Complex a) { return apply("multiply"_op, {x, factor_for(x, a)}); }
NdArray copy_of(const NdArray& x) { return x.copy(context_for(x.device())); }
NdArray zeros_like(const NdArray& x) {
  const ExecContext context = context_for(x.device());
  NdArray result(x.shape(), x.dtype(), context);
  result.fill(0, context);
  return result;
}
NdArray conjugate(const NdArray& x) { return is_complex(x.dtype()) ? apply("conjugate"_op, {x}) : x; }
NdArray matmul(const NdArray& a, const NdArray& b) { return local::linalg::matmul(a, b); }

}  // namespace quarry::local::sparse::linalg
