#include "quarry/chunked/api/vectors.h"

#include <algorithm>

#include "quarry/chunked/algo/algo.h"
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
Array ChunkedVectors::complex_values(const std::vector<Complex>& numbers, const Array& like) {
  return Array::from_local(
      local::from_vector(numbers).to(local::kCpu).astype(local::promote_types(like.dtype(), DType::complex64)));
}
Array ChunkedVectors::complex_columns(const Array& real, const Array& imaginary) {
  return real + imaginary * typed(Scalar(Complex(0, 1)), local::promote_types(real.dtype(), DType::complex64));
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

// ---- Basis ----

namespace {

constexpr int64_t kLeastHeight = 4, kMostBlocks = 8;

int64_t blocks_for(int64_t count, int64_t height) { return AxisChunks(count, height).count(); }

std::vector<expr::NodePtr> nodes_of(const std::vector<Array>& blocks) {
  std::vector<expr::NodePtr> nodes;
  for (const Array& block : blocks) nodes.push_back(block.node());
  return nodes;
}

Array row_numbers(int64_t height) { return positions({height, 1}, 0, DType::float64); }
// The rows of a block before one, and zeros.
Array rows_below(const Array& row, const Array& end, const Array& block) {
  return where(row < end, block, constant({}, 0, block.dtype()));
}

}  // namespace

ChunkedVectors::Basis::Basis(int64_t count, const Array& like)
    : like_(zeros_like(like)), height_(std::max(std::min(count, kLeastHeight), blocks_for(count, kMostBlocks))) {}

Array& ChunkedVectors::Basis::block_of(int64_t k) {
  const auto at = static_cast<size_t>(k / height_);
  if (at == blocks_.size()) {
    const Grid grid({AxisChunks(height_, height_), like_.chunks().axis(0)});
    blocks_.push_back(in_chunks(constant({height_, like_.size()}, 0, like_.dtype()), grid));
  }
  return blocks_[at];
}

Array ChunkedVectors::Basis::with_row(const Array& block, int64_t k, const Array& v) const {
  const Array row = row_numbers(height_), wanted = number(static_cast<double>(k % height_));
  return where(row == wanted, expand_dims(v, 0), rows_below(row, wanted, block));
}

void ChunkedVectors::Basis::set(int64_t k, const Array& v) {
  Array& block = block_of(k);
  block = with_row(block, k, v);
  blocks_.resize(static_cast<size_t>(k / height_) + 1);
  last_ = v;
  last_number_ = k;
  filled_ = k + 1;
}

void ChunkedVectors::Basis::cut_off(int64_t count) {
  blocks_.resize(static_cast<size_t>(blocks_for(count, height_)));
  const int64_t rows = count % height_;
  if (filled_ > count && rows > 0) {
    Array& block = blocks_.back();
    block = rows_below(row_numbers(height_), number(static_cast<double>(rows)), block);
  }
  filled_ = count;
}

const Array& ChunkedVectors::Basis::vector(int64_t k) const {
  QUARRY_CHECK(k == last_number_);
  return last_;
}

std::vector<ChunkedVectors::Complex> ChunkedVectors::Basis::append(int64_t count, Array w) {
  cut_off(count);
  const std::vector<expr::NodePtr> blocks = nodes_of(blocks_);
  const Array first = sum(Array(algo::basis_products(blocks, w.node())), Axes(0));
  const auto between = algo::without_basis(blocks, w.node(), first.node(), /*products=*/true);
  const Array second = sum(Array(between[1]), Axes(0));
  w = Array(algo::without_basis(blocks, between[0], second.node(), /*products=*/false)[0]);
  const Array squared = inner(w, w);
  const size_t vectors = blocks_.size();
  const Array number = Array::from_local(local::from_vector<int64_t>({count % height_}).reshape({}));
  const auto made = algo::with_basis_row(block_of(count).node(), number.node(), w.node(), squared.node());
  std::vector<Array> keep{Array(made[0]), Array(made[1])};
  // Stored ones would be copied.
  std::vector<size_t> pending;
  for (size_t i = 0; i < vectors; ++i)
    if (is_pending(blocks_[i])) pending.push_back(i);
  for (const size_t i : pending) keep.push_back(blocks_[i]);
  const Settled settled = settle(std::vector<Array>{first + second, squared}, keep);
  for (size_t i = 0; i < pending.size(); ++i) blocks_[pending[i]] = settled.kept[i + 2];

  std::vector<Complex> column = local::to_vector<Complex>(settled.values[0].astype(DType::complex128));
  column.resize(static_cast<size_t>(count));
  column.emplace_back(std::sqrt(std::max(settled.values[1].item().as_complex().real(), 0.0)));
  if (column.back() != Complex(0)) {
    block_of(count) = settled.kept[1];
    last_ = settled.kept[0];
    last_number_ = count;
    filled_ = count + 1;
  } else {
    blocks_.resize(vectors);
  }
  return column;
}

Array ChunkedVectors::Basis::rows_combined(const Small& coefficients) const {
  Small over_rows(coefficients.columns(), std::ssize(blocks_) * height_);
  for (int64_t i = 0; i < coefficients.rows(); ++i)
    for (int64_t j = 0; j < coefficients.columns(); ++j) over_rows.at(j, i) = coefficients.at(i, j);
  return Array(algo::basis_combined(nodes_of(blocks_), matrix(over_rows, like_).node()));
}

Array ChunkedVectors::Basis::combined(const std::vector<Complex>& coefficients) const {
  return reshape(rows_combined(Small(1, coefficients)), {like_.size()});
}

void ChunkedVectors::Basis::turn(const Small& coefficients) {
  std::vector<Array> made;
  for (int64_t from = 0; from < coefficients.columns(); from += height_) {
    Small some(coefficients.rows(), height_);  // with zeros behind the last column
    for (int64_t i = 0; i < some.rows(); ++i)
      for (int64_t j = 0; j < std::min(height_, coefficients.columns() - from); ++j)
        some.at(i, j) = coefficients.at(i, from + j);
    made.push_back(rows_combined(some));
  }
  blocks_ = settle({}, made).kept;
  last_number_ = -1;
  filled_ = coefficients.columns();
}

Array ChunkedVectors::Basis::columns(const Small& coefficients) const {
  const Array all = rows_combined(coefficients).T();
  Array result = in_chunks(all, Grid({like_.chunks().axis(0), AxisChunks(all.shape(1), all.shape(1))}));
  compute({}, {&result});
  return result;
}

}  // namespace quarry::sparse::linalg
