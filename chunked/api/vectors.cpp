#include "quarry/chunked/api/vectors.h"

#include <algorithm>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/products.h"
#include "quarry/chunked/api/random.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/detail.h"

namespace quarry::sparse::linalg {

using namespace compose;

namespace {

Array as_vector(const Array& x) { return x.ndim() == 1 ? x : reshape(x, {x.size()}); }
Array in_chunks(const Array& x, const Grid& grid) { return x.chunks() == grid ? x : x.rechunk(grid); }

// Whether there is something to compute and keep.
bool is_pending(const Array& x) {
  return x.node() != nullptr && x.node()->as<expr::Stored>() == nullptr && !x.node()->generated;
}

}  // namespace

Array ChunkedVectors::left_vector(const LinearOperator& a, const Array& b, DType dtype) {
  const Array vector = as_vector(b).astype(dtype);
  return a.row_chunks() ? in_chunks(vector, Grid({*a.row_chunks()})) : vector;
}

Array ChunkedVectors::right_vector(const LinearOperator& a, const std::optional<Array>& x0, const Array& left) {
  const Dims shape{a.shape()[1]};
  const Array x = x0 ? as_vector(*x0).astype(left.dtype()) : constant(shape, 0, left.dtype());
  if (a.column_chunks()) return in_chunks(x, Grid({*a.column_chunks()}));
  return x0 ? x : in_chunks(x, default_grid(shape, left.dtype()));
}

Array ChunkedVectors::converted(const Array& x, const Array& like) {
  return in_chunks(as_vector(x).astype(like.dtype()), like.chunks());
}

Array ChunkedVectors::inner(const Array& a, const Array& b) { return vdot(a, b); }
void ChunkedVectors::add_scaled(Array& y, const Array& a, const Array& x) { y = y + x * a; }
void ChunkedVectors::scale_add(Array& y, const Array& a, const Array& x) { y = x + y * a; }
Array ChunkedVectors::scaled(const Array& x, Complex a) { return x * number(a, x.dtype()); }

Array ChunkedVectors::zeros_like(const Array& x) { return in_chunks(constant(x.shape(), 0, x.dtype()), x.chunks()); }
Array ChunkedVectors::real_zeros_like(const Array& x) {
  return in_chunks(constant(x.shape(), 0, local::real_type(x.dtype())), x.chunks());
}
Array ChunkedVectors::squares(const Array& x) { return square(absolute(x)); }
Array ChunkedVectors::real_part(const Array& number) {
  return local::is_complex(number.dtype()) ? real(number).astype(number.dtype()) : number;
}
Array ChunkedVectors::square_root(const Array& number) {
  return local::is_complex(number.dtype()) ? sqrt(real(number)).astype(number.dtype()) : sqrt(number);
}

Array ChunkedVectors::number(Complex value, DType dtype) {
  const NdArray given =
      local::is_complex(dtype) ? local::from_vector<Complex>({value}) : local::from_vector<double>({value.real()});
  return Array::from_local(given.to(local::kCpu).astype(dtype).reshape({}));
}

std::vector<ChunkedVectors::Complex> ChunkedVectors::compute(std::span<Array* const> numbers,
                                                             std::span<Array* const> live) {
  std::vector<Array> values, keep;
  for (const Array* number : numbers) values.push_back(*number);
  const auto same = [](const Array& x) { return [&x](const Array& kept) { return kept.node() == x.node(); }; };
  for (const Array* vector : live)
    if (is_pending(*vector) && std::ranges::none_of(keep, same(*vector))) keep.push_back(*vector);
  if (values.empty() && keep.empty()) return {};
  const Settled settled = settle(values, keep);
  for (Array* vector : live) {
    if (!is_pending(*vector)) continue;
    *vector = settled.kept[static_cast<size_t>(std::ranges::find_if(keep, same(*vector)) - keep.begin())];
  }
  std::vector<Complex> known;
  for (size_t i = 0; i < numbers.size(); ++i) {
    *numbers[i] = Array::from_local(settled.values[i]);
    known.push_back(settled.values[i].item().as_complex());
  }
  return known;
}

namespace {

// The numbers that local/sparse/vectors.h begins with.
Array normal_vector(int64_t n, DType dtype, int64_t number) {
  constexpr uint64_t kSeed = 20261121;
  random::Generator generator(kSeed + static_cast<uint64_t>(number));
  return generator.standard_normal(local::Ints(n), local::real_type(dtype)).astype(dtype);
}
Array random_vector(int64_t n, DType dtype, const std::optional<AxisChunks>& chunks) {
  const Array made = normal_vector(n, dtype, 0);
  return chunks ? in_chunks(made, Grid({*chunks})) : made;
}

}  // namespace

Array ChunkedVectors::random(const Array& like, int64_t number) {
  return in_chunks(normal_vector(like.size(), like.dtype(), number), like.chunks());
}
Array ChunkedVectors::random_left(const LinearOperator& a, DType dtype) {
  return random_vector(a.shape()[0], dtype, a.row_chunks());
}
Array ChunkedVectors::random_right(const LinearOperator& a, DType dtype) {
  return random_vector(a.shape()[1], dtype, a.column_chunks());
}
Array ChunkedVectors::values(const std::vector<double>& numbers, const Array& like) {
  return Array::from_local(local::from_vector(numbers).to(local::kCpu).astype(local::real_type(like.dtype())));
}
Array ChunkedVectors::unit(int64_t n, const Array& like) {
  return (positions({n, n}, 0) == positions({n, n}, 1)).astype(like.dtype());
}
Array ChunkedVectors::empty(const Dims& shape, const Array& like) { return constant(shape, 0, like.dtype()); }

Array ChunkedVectors::own_columns(const Array& m, const LinearOperator& a, DType dtype) {
  const AxisChunks rows = a.row_chunks().value_or(m.chunks().axis(0));
  return in_chunks(m.astype(dtype), Grid({rows, AxisChunks(m.shape(1), std::max<int64_t>(m.shape(1), 1))}));
}
NdArray ChunkedVectors::gram(const Array& a, const Array& b) { return matmul(compose::adjoint(a), b).to_host(); }
Array ChunkedVectors::times(const Array& columns, const NdArray& by) {
  const Array made = matmul(columns, Array::from_local(by.copy()));
  return in_chunks(made, Grid({columns.chunks().axis(0), AxisChunks(made.shape(1), made.shape(1))}));
}
Array ChunkedVectors::projected(const Array& x, const Array& y, const Array& m) {
  return in_chunks(matmul(x, matmul(compose::adjoint(y), m)), m.chunks());
}
Array ChunkedVectors::joined(const std::vector<Array>& parts) {
  const Array all = compose::joined(parts, 1);
  return in_chunks(all, Grid({parts.front().chunks().axis(0), AxisChunks(all.shape(1), all.shape(1))}));
}
Array ChunkedVectors::columns_from(const Array& m, int64_t first) {
  return arrange::part(m, 1, first, m.shape(1) - first);
}

ChunkedVectors::Small ChunkedVectors::products(const Array& a, const Array& b) {
  const NdArray small = gram(a, b);
  return Small(small.shape()[1], local::to_vector<Complex>(small.astype(DType::complex128)));
}
Array ChunkedVectors::turned(const Array& columns, const Small& by) { return matmul(columns, matrix(by, columns)); }
Array ChunkedVectors::column_norms(const Array& m) { return sqrt(sum(squares(m), Axes(0))); }
Array ChunkedVectors::columns_over(const Array& m, const Array& norms) {
  return m / where(norms == 0, constant({}, 1, norms.dtype()), norms);
}
Array ChunkedVectors::adjoint(const Array& m) { return compose::adjoint(m); }

std::vector<ChunkedVectors::Complex> ChunkedVectors::Basis::append(int64_t count, Array w) {
  std::vector<Array> h(static_cast<size_t>(count));
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<Array> parts;
    for (size_t i = 0; i < h.size(); ++i) parts.push_back(inner(vectors_[i], w));
    for (size_t i = 0; i < h.size(); ++i) {
      w = w - vectors_[i] * parts[i];
      h[i] = pass == 0 ? parts[i] : h[i] + parts[i];
    }
  }
  Array squared = inner(w, w), next = w / square_root(squared);
  std::vector<Array*> numbers, live{&next};
  for (Array& part : h) numbers.push_back(&part);
  numbers.push_back(&squared);
  for (int64_t i = 0; i < count; ++i) live.push_back(&vectors_[static_cast<size_t>(i)]);
  std::vector<Complex> column = compute(numbers, live);
  column.back() = std::sqrt(std::max(column.back().real(), 0.0));
  if (column.back() != Complex(0)) set(count, next);
  return column;
}

Array ChunkedVectors::Basis::combined(const std::vector<Complex>& coefficients) const {
  Array sum;
  for (size_t i = 0; i < coefficients.size(); ++i) {
    const Array term = scaled(vectors_[i], coefficients[i]);
    sum = i == 0 ? term : sum + term;
  }
  return sum;
}

void ChunkedVectors::Basis::turn(const Small& coefficients) {
  std::vector<Array> made;
  std::vector<Array*> live;
  for (int64_t j = 0; j < coefficients.columns(); ++j) made.push_back(combined(coefficients.column(j)));
  for (Array& vector : made) live.push_back(&vector);
  compute({}, live);
  std::ranges::copy(made, vectors_.begin());
}

Array ChunkedVectors::Basis::columns(const Small& coefficients) const {
  std::vector<Array> made;
  for (int64_t j = 0; j < coefficients.columns(); ++j) made.push_back(combined(coefficients.column(j)));
  const Array all = stack(made, 1);
  Array result = in_chunks(all, Grid({made.front().chunks().axis(0), AxisChunks(all.shape(1), all.shape(1))}));
  compute({}, {&result});
  return result;
}

}  // namespace quarry::sparse::linalg
