#include "quarry/local/sparse/vectors.h"

#include <cmath>

#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/random/random.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/sparse/construct.h"

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
NdArray matmul(const NdArray& a, const NdArray& b) { return local::linalg::matmul(a, b); }

NdArray random_vector(int64_t n, DType dtype, Device device, int64_t number) {
  const DeviceScope scope(device);
  Generator generator(kSeed + static_cast<uint64_t>(number));
  return generator.standard_normal(Ints(n), real_type(dtype)).astype(dtype);
}

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

NdArray LocalVectors::values(const std::vector<double>& numbers, const NdArray& like) {
  return from_vector(numbers).to(like.device()).astype(real_type(like.dtype()), context_for(like.device()));
}
NdArray LocalVectors::complex_values(const std::vector<Complex>& numbers, const NdArray& like) {
  return from_vector(numbers)
      .to(like.device())
      .astype(promote_types(like.dtype(), DType::complex64), context_for(like.device()));
}
NdArray LocalVectors::complex_columns(const NdArray& real, const NdArray& imaginary) {
  const DType dtype = promote_types(real.dtype(), DType::complex64);
  const NdArray turned = apply("multiply"_op, {imaginary, Scalar::strong(Scalar(Complex(0, 1)), dtype)});
  return apply("add"_op, {real, turned});
}
NdArray LocalVectors::unit(int64_t n, const NdArray& like) {
  return identity(n, like.dtype()).to(like.device()).toarray();
}
NdArray LocalVectors::of_dtype(const NdArray& m, DType dtype) {
  return m.dtype() == dtype ? m : m.astype(dtype, context_for(m.device()));
}
LocalVectors::Small LocalVectors::products(const NdArray& a, const NdArray& b) {
  const NdArray small = matmul(linalg::adjoint(a), b);
  return Small(small.shape()[1], to_vector<Complex>(small.astype(DType::complex128, context_for(small.device()))));
}
NdArray LocalVectors::column_norms(const NdArray& m) { return apply("sqrt"_op, {ops::sum(squares(m), Axes(0))}); }
NdArray LocalVectors::columns_over(const NdArray& m, const NdArray& norms) {
  return m / apply("where"_op, {norms == Scalar(0), Scalar::strong(Scalar(1), norms.dtype()), norms});
}

NdArray LocalVectors::joined(const std::vector<NdArray>& parts) { return ops::concatenate(parts, 1); }

LocalVectors::Basis::Basis(int64_t count, const NdArray& like)
    : rows_({count, like.size()}, like.dtype(), context_for(like.device())) {}

void LocalVectors::Basis::set(int64_t k, const NdArray& v) { rows_[{k}].assign(v, context_for(rows_.device())); }

std::vector<Complex> LocalVectors::Basis::append(int64_t count, NdArray w) {
  const ExecContext context = context_for(rows_.device());
  const NdArray so_far = first(count);
  NdArray h;
  for (int pass = 0; pass < 2; ++pass) {
    const NdArray part = matmul(conjugated(so_far), w);
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
  return matmul(factors, first(static_cast<int64_t>(coefficients.size())));
}

void LocalVectors::Basis::turn(const Small& coefficients) {
  const ExecContext context = context_for(rows_.device());
  const NdArray by = matrix(coefficients, rows_).T().copy(context);
  first(coefficients.columns()).assign(matmul(by, first(coefficients.rows())), context);
}
NdArray LocalVectors::Basis::columns(const Small& coefficients) const {
  return matmul(first(coefficients.rows()).T(), matrix(coefficients, rows_));
}

}  // namespace quarry::local::sparse::linalg
