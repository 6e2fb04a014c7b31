// Reductions of sparse matrices: a fold over the elements of every line, then what the missing zeros change.
#include <fmt/format.h>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/program/program.h"
#include "quarry/local/sparse/products.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse {
namespace {

// Axis 0 reduces columns: the lines of CSC.
Lines lines_along(const SparseArray& a, int64_t axis) {
  return lines_of(canonical(a, normalize_axis(axis, 2) == 0 ? Format::csc : Format::csr));
}

NdArray counts_of(const Lines& lines) {
  return cast(slice(lines.offsets, 1, lines.count + 1), DType::int64) -
         cast(slice(lines.offsets, 0, lines.count), DType::int64);
}

// The fold of `values`, one per element, over each line; `otherwise` for lines without elements.
NdArray fold_lines(Op op, const Lines& lines, const NdArray& values, const Scalar& otherwise) {
  const ExecContext context = context_of(values);
  NdArray result({lines.count}, values.dtype(), context);
  result.fill(otherwise, context);
  const NdArray filled = where_true(apply("greater"_op, {counts_of(lines), 0}));
  const NdArray begins = cast(gather(lines.offsets, filled), DType::int64);
  const NdArray ends = cast(gather(lines.offsets, filled + Scalar(1)), DType::int64);
  scatter(result, filled, fold(op, values, begins, ends));
  return result;
}

// The matrix as one line.
SparseArray flat(const SparseArray& a) { return a.reshape({1, -1}).tocsr(); }

void check_elements(const Dims& shape) {
  if (shape[0] == 0 || shape[1] == 0)
    throw InvalidArgument(fmt::format("zero-size matrix of shape {} has no extreme element", local::to_string(shape)));
}

void check_ordered(DType dtype) {
  if (is_complex(dtype)) throw TypeError("extreme elements of a complex matrix are not defined");
}

NdArray extreme(Op op, const Lines& lines) {
  const NdArray stored = fold_lines(op, lines, lines.data, zero(lines.data.dtype()));
  Fused f;
  const auto x = f.input(stored);
  const auto complete = f("equal"_op, f.input(counts_of(lines)), lines.extent);
  return f.run(f("where"_op, complete, x, f(op, x, zero(lines.data.dtype()))));
}

// The first position of a line's extreme element, among stored elements and zeros between them.
NdArray extreme_position(Op op, const Lines& lines) {
  const NdArray best = extreme(op, lines);
  const int64_t n = lines.data.size();
  const NdArray numbers = line_numbers(lines.offsets, n);
  Fused f;
  const auto x = f.input(lines.data), wanted = f.input(gather(best, numbers));
  auto hit = f("equal"_op, x, wanted);
  if (is_float(lines.data.dtype())) hit = f("logical_or"_op, hit, f("isnan"_op, x));  // then the extreme is NaN as well
  const NdArray places = f.run(f("where"_op, hit, f.cast(f.input(lines.indices), DType::int64), lines.extent));
  // The first gap of a line is as far as its positions count up from 0.
  Fused g;
  const auto place = g("subtract"_op, g.input(counting(n, lines.data.device())),
                       g.cast(g.input(gather(lines.offsets, numbers)), DType::int64));
  const auto next = g("not_equal"_op, g.cast(g.input(lines.indices), DType::int64), place);
  const NdArray gaps = g.run(g("where"_op, next, place, lines.extent));
  const NdArray stored = fold_lines("minimum"_op, lines, places, Scalar(lines.extent));
  const NdArray gap = fold_lines("minimum"_op, lines, gaps, Scalar(lines.extent));
  Fused h;
  const auto counts = h.input(counts_of(lines));
  const auto missing = h("minimum"_op, h.input(gap), counts);
  const auto zeros_count =
      h("logical_and"_op, h("less"_op, counts, lines.extent), h("equal"_op, h.input(best), zero(best.dtype())));
  const auto first = h.input(stored);
  return h.run(h("where"_op, zeros_count, h("minimum"_op, first, missing), first));
}

NdArray extreme_of(Op op, const SparseArray& a, std::optional<int64_t> axis) {
  check_elements(a.shape());
  check_ordered(a.dtype());
  if (axis) return extreme(op, lines_along(a, *axis));
  // Over all elements no positions are needed.
  const SparseArray summed = canonical(a);
  const int64_t stored = summed.data().size(), total = element_count(a.shape());
  NdArray none = zeros(1, a.dtype(), a.device()).reshape({});
  if (stored == 0) return none;
  const NdArray best = reduce(op == "maximum"_op ? "max"_reduction : "min"_reduction, summed.data());
  return stored == total ? best : apply(op, {best, none});
}

NdArray position_of(Op op, const SparseArray& a, std::optional<int64_t> axis) {
  check_elements(a.shape());
  check_ordered(a.dtype());
  if (axis) return extreme_position(op, lines_along(a, *axis));
  return extreme_position(op, lines_along(flat(a), 1)).reshape({});
}

}  // namespace

NdArray SparseArray::sum(std::optional<int64_t> axis, std::optional<DType> dtype) const {
  const DType wide = dtype.value_or(accumulate_dtype("sum"_reduction, data_.dtype()));
  if (axis && wide == data_.dtype() && (is_float(wide) || is_complex(wide))) {
    const SparseArray lines = normalize_axis(*axis, 2) == 0 ? transpose() : *this;
    const NdArray ones({lines.columns()}, wide, context_of(data_));
    ones.fill(1, context_of(data_));
    return matmul(lines, ones);
  }
  // Duplicates are one element, which matters for bool and where sums wrap.
  if (!axis) return reduce("sum"_reduction, canonical(*this).data_, {}, {.dtype = wide});
  const Lines lines = lines_along(*this, *axis);
  return fold_lines(sum_op(wide), lines, cast(lines.data, wide), zero(wide));
}

NdArray SparseArray::mean(std::optional<int64_t> axis, std::optional<DType> dtype) const {
  const DType inexact = dtype.value_or(accumulate_dtype("mean"_reduction, data_.dtype()));
  const int64_t count = axis ? shape_[normalize_axis(*axis, 2)] : element_count(shape_);
  return cast(apply("divide"_op, {sum(axis, inexact), Scalar(static_cast<double>(count))}), inexact);
}

NdArray SparseArray::max(std::optional<int64_t> axis) const { return extreme_of("maximum"_op, *this, axis); }
NdArray SparseArray::min(std::optional<int64_t> axis) const { return extreme_of("minimum"_op, *this, axis); }
NdArray SparseArray::argmax(std::optional<int64_t> axis) const { return position_of("maximum"_op, *this, axis); }
NdArray SparseArray::argmin(std::optional<int64_t> axis) const { return position_of("minimum"_op, *this, axis); }

NdArray SparseArray::getnnz(int64_t axis) const {
  const Triplets t = row_triplets(format_ == Format::dia ? tocoo() : *this);
  const bool columns = normalize_axis(axis, 2) == 0;
  const NdArray offsets = line_offsets(columns ? t.minor : t.major, columns ? t.extent : t.count, DType::int64);
  return slice(offsets, 1, offsets.size()) - slice(offsets, 0, offsets.size() - 1);
}

ArrayTuple SparseArray::nonzero() const {
  SparseArray a = canonical(*this, Format::csr);
  a.eliminate_zeros();
  const Triplets t = row_triplets(a);
  return {t.major, cast(t.minor, DType::int64)};
}

int64_t SparseArray::count_nonzero() const {
  SparseArray a = canonical(*this);
  a.eliminate_zeros();
  return a.data_.size();
}
NdArray SparseArray::count_nonzero(int64_t axis) const {
  SparseArray a = canonical(*this);
  a.eliminate_zeros();
  return a.getnnz(axis);
}

}  // namespace quarry::local::sparse
