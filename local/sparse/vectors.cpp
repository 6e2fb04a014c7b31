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

// ---- LocalVectors ----

NdArray LocalVectors::left_vector(const LinearOperator&, const NdArray& b, DType dtype) {
  return b.reshape({-1}).astype(dtype, context_for(b.device()));
}
NdArray LocalVectors::right_vector(const LinearOperator& a, const std::optional<NdArray>& x0, const NdArray& left) {
  if (x0) return converted(*x0, left);
  const ExecContext context = context_for(left.device());
  NdArray x({a.shape()[1]}, left.dtype(), context);
  x.fill(0, context);
  return x;
}
NdArray LocalVectors::converted(const NdArray& x, const NdArray& like) {
  return x.reshape({-1}).astype(like.dtype(), context_for(like.device()));
}
NdArray LocalVectors::own(const NdArray& result, const NdArray& v) {
  if (result.dtype() == v.dtype() && !may_overlap(result, v)) return result;
  return result.astype(v.dtype(), context_for(v.device()));
}

NdArray LocalVectors::real_part(const NdArray& number) {
  return is_complex(number.dtype()) ? number.real().astype(number.dtype(), context_for(number.device())) : number;
}
NdArray LocalVectors::number(double value, const NdArray& like) {
  return from_vector<double>({value}).reshape({}).to(like.device()).astype(like.dtype(), context_for(like.device()));
}

std::vector<Complex> LocalVectors::compute(std::initializer_list<NdArray*> numbers, std::span<NdArray* const>) {
  std::vector<Complex> values;
  for (const NdArray* number : numbers) values.push_back(number->item().as_complex());
  return values;
}

LocalVectors::Basis::Basis(int64_t count, const NdArray& like)
    : rows_({count, like.size()}, like.dtype(), context_for(like.device())) {}

void LocalVectors::Basis::set(int64_t k, const NdArray& v) { rows_[{k}].assign(v, context_for(rows_.device())); }

std::vector<Complex> LocalVectors::Basis::append(int64_t count, NdArray w) {
  const ExecContext context = context_for(rows_.device());
  const NdArray so_far = rows_[{Slice{0, count, std::nullopt}}];
  NdArray h;
  for (int pass = 0; pass < 2; ++pass) {
    const NdArray part = matmul(conjugate(so_far), w);
    w = w - matmul(part, so_far);
    h = pass == 0 ? part : h + part;
  }
  const double length = norm2(w);
  std::vector<Complex> column = to_vector<Complex>(h.astype(DType::complex128, context));
  column.emplace_back(length);
  if (length > 0) set(count, linalg::scaled(w, 1 / length));
  return column;
}

NdArray LocalVectors::Basis::combined(const std::vector<Complex>& coefficients) const {
  const ExecContext context = context_for(rows_.device());
  const NdArray given = from_vector(coefficients).to(rows_.device());
  const NdArray factors = (is_complex(rows_.dtype()) ? given : given.real()).astype(rows_.dtype(), context);
  return matmul(factors, rows_[{Slice{0, static_cast<int64_t>(coefficients.size()), std::nullopt}}]);
}

}  // namespace quarry::local::sparse::linalg
