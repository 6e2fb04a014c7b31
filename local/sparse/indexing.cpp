// Elements of sparse matrices by position: a line at a time along the major axis, by comparison along the other.
#include <fmt/format.h>

#include <limits>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse {
namespace {

// The positions along one axis that an index names: a slice, or int64 positions in range.
struct Selection {
  int64_t start = 0, step = 1, count = 0;
  std::optional<NdArray> positions;
  int64_t size() const { return positions ? positions->size() : count; }
  bool whole(int64_t extent) const { return !positions && start == 0 && step == 1 && count == extent; }
  NdArray list(Device device) const {
    return positions ? *positions : counting(count, device) * Scalar(step) + Scalar(start);
  }
};

NdArray checked_positions(const NdArray& given, int64_t extent, int axis) {
  if (given.dtype() == DType::bool_) {
    if (given.ndim() != 1 || given.size() != extent)
      throw IndexError(fmt::format("boolean index has shape {} but axis {} has {} elements",
                                   local::to_string(given.shape()), axis, extent));
    return where_true(given);
  }
  if (given.ndim() > 1)
    throw IndexError(fmt::format("an index array of axis {} has shape {}: values_at() takes pairs of positions", axis,
                                 local::to_string(given.shape())));
  NdArray positions = as_positions(given.ndim() == 0 ? given.reshape({1}) : given, "safe");
  if (positions.size() == 0) return positions;
  const int64_t least = ops::min(positions).item().as_int64(), most = ops::max(positions).item().as_int64();
  if (least < -extent || most >= extent)
    throw IndexError(fmt::format("index {} is out of bounds for axis {} with size {}", least < -extent ? least : most,
                                 axis, extent));
  return least < 0 ? apply("where"_op, {positions < Scalar(0), positions + Scalar(extent), positions}) : positions;
}

Selection select(const IndexTerm& term, int64_t extent, int axis, Device device) {
  const IndexTerm::Variant& value = term.value();
  if (const auto* array = std::get_if<NdArray>(&value))
    return {0, 1, 0, checked_positions(array->to(device), extent, axis)};
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
    return {0, 1, 0, checked_positions(from_vector(*list).to(device), extent, axis)};
  if (std::holds_alternative<Ellipsis>(value)) return {0, 1, extent, std::nullopt};
  if (const auto* slice = std::get_if<Slice>(&value)) {
    const IndexItem item[] = {*slice};
    const BasicIndex index = resolve_index(item, Dims{extent});
    return {index.axes[0].start, index.axes[0].step, index.axes[0].count, std::nullopt};
  }
  if (const auto* position = std::get_if<int64_t>(&value)) {
    if (*position < -extent || *position >= extent)
      throw IndexError(fmt::format("index {} is out of bounds for axis {} with size {}", *position, axis, extent));
    return {*position < 0 ? *position + extent : *position, 1, 1, std::nullopt};
  }
  throw IndexError("only integers, slices (`:`), integer and boolean vectors are valid indices of a sparse matrix");
}

// Lines in the order of the selection.
Lines select_major(const Lines& lines, const Selection& selection) {
  if (selection.whole(lines.count)) return lines;
  const DType index = lines.indices.dtype();
  if (!selection.positions && selection.step == 1) {
    const NdArray offsets = slice(lines.offsets, selection.start, selection.start + selection.count + 1);
    const int64_t begin = offsets[{0}].item().as_int64(), end = offsets[{-1}].item().as_int64();
    return {slice(lines.data, begin, end), slice(lines.indices, begin, end), cast(offsets - Scalar(begin), index),
            selection.count, lines.extent};
  }
  const NdArray positions = selection.list(lines.data.device());
  const NdArray begins = cast(gather(lines.offsets, positions), DType::int64);
  const NdArray counts = cast(gather(lines.offsets, positions + Scalar(1)), DType::int64) - begins;
  const NdArray offsets = running_total(counts);
  const int64_t total = offsets[{-1}].item().as_int64();
  const NdArray from = spread(begins, counts, total);
  return {gather(lines.data, from), gather(lines.indices, from),
          cast(offsets, index_dtype_for({positions.size(), lines.extent}, total)), positions.size(), lines.extent};
}

// Elements whose minor coordinate is in a slice, renumbered.
Lines slice_minor(const Lines& lines, const Selection& selection) {
  Fused f;
  const auto shifted = f("subtract"_op, f.cast(f.input(lines.indices), DType::int64), selection.start);
  const NdArray distance = f.run(shifted);
  const NdArray position = apply("floor_divide"_op, {distance, Scalar(selection.step)});
  Fused g;
  const auto at = g.input(position);
  const auto inside = g("logical_and"_op, g("greater_equal"_op, at, 0), g("less"_op, at, selection.count));
  const auto exact = g("equal"_op, g("multiply"_op, at, selection.step), g.input(distance));
  const NdArray mask = g.run(g("logical_and"_op, inside, exact));
  const Triplets t = triplets_of(lines);
  const std::vector<NdArray> kept = keep(mask, {t.data, t.major, position});
  return compressed({kept[0], kept[1], kept[2], lines.count, selection.count}, lines.indices.dtype(), Duplicates::sum,
                    /*ordered=*/selection.step > 0);
}

SparseArray select_both(const SparseArray& a, const Selection& rows, const Selection& columns) {
  const bool by_columns = a.format() == Format::csc;
  const Selection& major = by_columns ? columns : rows;
  const Selection& minor = by_columns ? rows : columns;
  Lines lines = lines_of(a);
  const auto matrix = [&](const Lines& of) {
    const Dims shape = by_columns ? Dims{of.extent, of.count} : Dims{of.count, of.extent};
    const DType index = index_dtype_for(shape, of.data.size());
    return SparseArray(a.format(), shape, of.data, cast(of.offsets, index), cast(of.indices, index), true);
  };
  lines = select_major(lines, major);
  if (minor.whole(lines.extent)) return matrix(lines);
  if (!minor.positions) return matrix(slice_minor(lines, minor));
  const SparseArray across = matrix(lines).asformat(by_columns ? Format::csr : Format::csc);
  const Lines chosen = select_major(lines_of(across), minor);
  const Dims shape = by_columns ? Dims{chosen.count, chosen.extent} : Dims{chosen.extent, chosen.count};
  return from_lines(across.format(), shape, chosen, true).asformat(a.format());
}

// int64 coordinates of every pair of a row and a column, row after row.
std::pair<NdArray, NdArray> grid(const NdArray& rows, const NdArray& columns) {
  const Dims shape{rows.size(), columns.size()};
  const ExecContext context = context_of(rows);
  return {rows.reshape({-1, 1}).broadcast_to(shape).copy(context).reshape({-1}),
          columns.reshape({1, -1}).broadcast_to(shape).copy(context).reshape({-1})};
}

// `a` with elements put in place of those at the same positions.
SparseArray replaced(const SparseArray& a, const NdArray& rows, const NdArray& columns, const NdArray& values) {
  const Format format = a.format() == Format::csc ? Format::csc : Format::csr;
  const Triplets t = row_triplets(a.has_canonical_format() ? a : canonical(a));
  const auto join = [](const NdArray& x, const NdArray& y) {
    return ops::concatenate({cast(x, DType::int64), cast(y, DType::int64)});
  };
  Triplets all{ops::concatenate({t.data, values}), join(t.major, rows), join(t.minor, columns), a.rows(), a.columns()};
  if (format == Format::csc) all = {all.data, all.minor, all.major, all.extent, all.count};
  const Lines lines = compressed(all, index_dtype_for(a.shape(), all.data.size()), Duplicates::last);
  return from_lines(format, a.shape(), lines, true).asformat(a.format());
}

NdArray flat_key(const NdArray& rows, const NdArray& columns, int64_t extent) {
  Fused f;
  const auto row = f.cast(f.input(rows), DType::int64), column = f.cast(f.input(columns), DType::int64);
  return f.run(f("add"_op, f("multiply"_op, row, extent), column));
}

}  // namespace

SparseArray SparseArray::index(const IndexTerm& row, const IndexTerm& column) const {
  const Selection rows = select(row, shape_[0], 0, device()), columns = select(column, shape_[1], 1, device());
  return select_both(canonical(*this), rows, columns);
}

Scalar SparseArray::item(int64_t row, int64_t column) const {
  const NdArray found = index(IndexTerm(row), IndexTerm(column)).data_;
  return found.size() == 0 ? zero(dtype()) : found.item();
}

NdArray SparseArray::values_at(const NdArray& rows, const NdArray& columns) const {
  const Dims shape = broadcast_shapes(rows.shape(), columns.shape());
  const ExecContext context = context_of(data_);
  const auto flat = [&](const NdArray& positions) { return positions.broadcast_to(shape).copy(context).reshape({-1}); };
  const NdArray at_rows = checked_positions(flat(rows), shape_[0], 0);
  const NdArray at_columns = checked_positions(flat(columns), shape_[1], 1);
  int64_t elements = 0;
  if (__builtin_mul_overflow(shape_[0], shape_[1], &elements))
    throw NotSupported(fmt::format("values_at() of a matrix of shape {}", local::to_string(shape_)));
  const Triplets t = row_triplets(canonical(*this, Format::csr));
  const int64_t n = t.data.size();
  const NdArray values = ops::concatenate({t.data, zeros(1, dtype(), device())});
  const NdArray keys = flat_key(t.major, t.minor, shape_[1]), wanted = flat_key(at_rows, at_columns, shape_[1]);
  if (n == 0 || wanted.size() == 0) return gather(values, zeros(wanted.size(), DType::int64, device())).reshape(shape);
  const NdArray place = ops::searchsorted(keys, wanted);
  const NdArray found = gather(keys, apply("minimum"_op, {place, Scalar(n - 1)})) == wanted;
  return gather(values, apply("where"_op, {found, apply("minimum"_op, {place, Scalar(n - 1)}), Scalar(n)}))
      .reshape(shape);
}

NdArray SparseArray::values_where(const NdArray& mask) const {
  if (mask.dtype() != DType::bool_ || !(mask.shape() == shape_))
    throw IndexError(fmt::format("mask: needs dtype bool and shape {}, got {} and {}", local::to_string(shape_),
                                 local::name(mask.dtype()), local::to_string(mask.shape())));
  const ArrayTuple at = ops::nonzero(mask);
  return values_at(at[0], at[1]);
}

void SparseArray::set_at(const NdArray& rows, const NdArray& columns, const Arg& values) {
  const Dims shape = broadcast_shapes(rows.shape(), columns.shape());
  const ExecContext context = context_of(data_);
  const auto flat = [&](const NdArray& x) { return x.broadcast_to(shape).copy(context).reshape({-1}); };
  const NdArray value = flat(value_array(values, dtype(), device()));
  *this = replaced(*this, checked_positions(flat(rows), shape_[0], 0), checked_positions(flat(columns), shape_[1], 1),
                   value);
}

void SparseArray::set(const IndexTerm& row, const IndexTerm& column, const Arg& values) {
  const Selection rows = select(row, shape_[0], 0, device()), columns = select(column, shape_[1], 1, device());
  const Dims shape{rows.size(), columns.size()};
  const NdArray value =
      value_array(values, dtype(), device()).broadcast_to(shape).copy(context_of(data_)).reshape({-1});
  const auto [at_rows, at_columns] = grid(rows.list(device()), columns.list(device()));
  *this = replaced(*this, at_rows, at_columns, value);
}

void SparseArray::set(const IndexTerm& row, const IndexTerm& column, const SparseArray& values) {
  const Selection rows = select(row, shape_[0], 0, device()), columns = select(column, shape_[1], 1, device());
  const Dims shape{rows.size(), columns.size()};
  if (!(values.shape() == shape))
    throw InvalidArgument(fmt::format("values: shape {} is not that of the indexed elements, {}",
                                      local::to_string(values.shape()), local::to_string(shape)));
  const NdArray at_rows = rows.list(device()), at_columns = columns.list(device());
  // What was there goes, whether something comes in its place or not.
  const auto covered = [&](const NdArray& positions, int64_t extent, const NdArray& coordinates) {
    const NdArray flags = zeros(extent, DType::bool_, device()), on = zeros(positions.size(), DType::bool_, device());
    on.fill(true, context_of(on));
    scatter(flags, positions, on);
    return gather(flags, coordinates);
  };
  Triplets t = row_triplets(canonical(*this));
  const NdArray inside =
      apply("logical_and"_op, {covered(at_rows, shape_[0], t.major), covered(at_columns, shape_[1], t.minor)});
  const std::vector<NdArray> kept = keep(apply("logical_not"_op, {inside}), {t.data, t.major, t.minor});
  const DType narrow = index_dtype_for(shape_, kept[0].size());
  const SparseArray rest(Format::coo, shape_, kept[0], cast(kept[1], narrow), cast(kept[2], narrow));
  const Triplets put = row_triplets(canonical(values));
  *this = replaced(rest, gather(at_rows, put.major), gather(at_columns, put.minor), cast(put.data, dtype()))
              .asformat(format_);
}

// ---- Diagonals ----

namespace {

int64_t diagonal_length(const Dims& shape, int64_t k) {
  return std::max<int64_t>(0, std::min(shape[0] + std::min<int64_t>(k, 0), shape[1] - std::max<int64_t>(k, 0)));
}

}  // namespace

NdArray SparseArray::diagonal(int64_t k) const {
  const int64_t length = diagonal_length(shape_, k);
  NdArray result = zeros(length, dtype(), device());
  if (length == 0) return result;
  const Triplets t = row_triplets(canonical(*this));
  const NdArray minor = cast(t.minor, DType::int64), major = cast(t.major, DType::int64);
  const NdArray mask = (minor - major) == Scalar(k);
  const std::vector<NdArray> kept = keep(mask, {t.data, k >= 0 ? major : minor});
  scatter(result, kept[1], kept[0]);
  return result;
}

Scalar SparseArray::trace(int64_t offset) const { return ops::sum(diagonal(offset)).item(); }

void SparseArray::setdiag(const Arg& values, int64_t k) {
  const int64_t length = diagonal_length(shape_, k);
  if (length == 0)
    throw InvalidArgument(fmt::format("k: diagonal {} exceeds the matrix of shape {}", k, local::to_string(shape_)));
  NdArray value = value_array(values, dtype(), device());
  if (value.ndim() > 1)
    throw InvalidArgument(fmt::format("values: at most one dimension, got shape {}", local::to_string(value.shape())));
  const int64_t count = value.ndim() == 0 ? length : std::min(length, value.size());
  value = value.ndim() == 0 ? value.broadcast_to({count}) : slice(value, 0, count);
  const NdArray along = counting(count, device());
  *this = replaced(*this, along + Scalar(std::max<int64_t>(-k, 0)), along + Scalar(std::max<int64_t>(k, 0)), value);
}

}  // namespace quarry::local::sparse
