// Between formats: rows become columns in one step of the engine, everything else goes by coordinates that are sorted
// once.
#include <fmt/format.h>

#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse {
namespace {

// Column j of diagonal k is the element (j - offset, j).
SparseArray coo_of_diagonals(const SparseArray& a) {
  const NdArray& data = a.data();
  const int64_t width = std::min(data.shape()[1], a.columns());
  const NdArray stored = data[{full_slice, Slice{0, width, std::nullopt}}];
  const NdArray column = counting(width, a.device()).broadcast_to(stored.shape());
  const NdArray offset = cast(a.first(), DType::int64).reshape({-1, 1});
  const NdArray row = column - offset;
  Fused f;
  const auto i = f.input(row);
  const auto inside = f("logical_and"_op, f("greater_equal"_op, i, 0), f("less"_op, i, a.rows()));
  const NdArray mask = f.run(f("logical_and"_op, inside, f("not_equal"_op, f.input(stored), zero(a.dtype()))));
  const auto flat = [](const NdArray& array) { return array.reshape({-1}); };
  const std::vector<NdArray> kept = keep(flat(mask), {flat(stored), flat(row), flat(column)});
  const DType index = index_dtype_for(a.shape(), kept[0].size());
  return SparseArray(Format::coo, a.shape(), kept[0], cast(kept[1], index), cast(kept[2], index), std::nullopt);
}

SparseArray diagonals_of(const SparseArray& coo) {
  Triplets t = row_triplets(coo.has_canonical_format() ? coo : coo.tocsr());
  const DType index = index_dtype_for(coo.shape(), t.data.size());
  const NdArray offset = cast(t.minor, DType::int64) - cast(t.major, DType::int64);
  const NdArray offsets = ops::unique_values(offset);
  const int64_t width = t.data.size() == 0 ? 0 : ops::max(t.minor).item().as_int64() + 1;
  const NdArray data = zeros(offsets.size() * width, t.data.dtype(), coo.device());
  if (t.data.size() > 0) {
    const NdArray line = ops::searchsorted(offsets, offset);
    scatter(data, line * Scalar(width) + cast(t.minor, DType::int64), t.data);
  }
  return SparseArray(Format::dia, coo.shape(), data.reshape({offsets.size(), width}), cast(offsets, index), NdArray(),
                     true);
}

// Rows to columns or back.
SparseArray other_lines(const SparseArray& a, Format format) {
  const Lines from = packed(lines_of(canonical(a)));
  const ExecContext context = context_of(from.data);
  const int64_t nonzeros = from.data.size();
  const DType index = from.indices.dtype();
  const Lines to{NdArray({nonzeros}, from.data.dtype(), context), NdArray({nonzeros}, index, context),
                 NdArray({from.extent + 1}, index, context), from.extent, from.count};
  use(from, context);
  use(to, context);
  engine(context.device)
      .sparse()
      .transpose({compressed_view(from), to.data.raw(), to.indices.raw(), to.offsets.raw()}, context);
  return from_lines(format, a.shape(), to, true);
}

SparseArray to_lines(const SparseArray& a, Format format) {
  Triplets t = row_triplets(a);
  if (format == Format::csc) t = {t.data, t.minor, t.major, t.extent, t.count};
  return from_lines(format, a.shape(), compressed(t, index_dtype_for(a.shape(), t.data.size())), true);
}

}  // namespace

SparseArray SparseArray::tocoo() const {
  if (format_ == Format::coo) return *this;
  if (format_ == Format::dia) return coo_of_diagonals(*this);
  const Triplets t = row_triplets(*this);
  // Columns in order are no rows in order.
  const bool known = format_ == Format::csr && canonical_.value_or(false);
  return SparseArray(Format::coo, shape_, data_, cast(t.major, index_dtype()), cast(t.minor, index_dtype()),
                     known ? std::optional(true) : std::nullopt);
}

SparseArray SparseArray::tocsr() const {
  if (format_ == Format::csr) return *this;
  return format_ == Format::csc ? other_lines(*this, Format::csr) : to_lines(*this, Format::csr);
}

SparseArray SparseArray::tocsc() const {
  if (format_ == Format::csc) return *this;
  return format_ == Format::csr ? other_lines(*this, Format::csc) : to_lines(*this, Format::csc);
}

SparseArray SparseArray::todia() const { return format_ == Format::dia ? *this : diagonals_of(tocoo()); }

SparseArray SparseArray::asformat(Format format) const {
  switch (format) {
    case Format::coo:
      return tocoo();
    case Format::csr:
      return tocsr();
    case Format::csc:
      return tocsc();
    case Format::dia:
      return todia();
  }
  __builtin_unreachable();
}

SparseArray SparseArray::tobsr() const { throw NotSupported("tobsr: there are no matrices of format 'bsr'"); }
SparseArray SparseArray::todok() const { throw NotSupported("todok: there are no matrices of format 'dok'"); }
SparseArray SparseArray::tolil() const { throw NotSupported("tolil: there are no matrices of format 'lil'"); }

NdArray SparseArray::toarray(std::string_view order) const {
  const Order layout = parse_order(order);
  if (layout == Order::F) return transpose().toarray("C").T();
  const SparseArray source = format_ == Format::dia || canonical_.value_or(false) ? *this : canonical(*this);
  const Triplets t = row_triplets(source);
  const NdArray dense = zeros(element_count(shape_), dtype(), device());
  if (t.data.size() > 0) {
    Fused f;
    const auto row = f.cast(f.input(t.major), DType::int64), column = f.cast(f.input(t.minor), DType::int64);
    scatter(dense, f.run(f("add"_op, f("multiply"_op, row, columns()), column)), t.data);
  }
  return dense.reshape(shape_);
}

SparseArray SparseArray::transpose() const {
  const Dims shape{columns(), rows()};
  switch (format_) {
    case Format::coo:
      return SparseArray(Format::coo, shape, data_, second_, first_);
    case Format::csr:
    case Format::csc:
      return SparseArray(format_ == Format::csr ? Format::csc : Format::csr, shape, data_, first_, second_, canonical_);
    case Format::dia:
      return tocoo().transpose().todia();
  }
  __builtin_unreachable();
}

SparseArray matrix_transpose(const SparseArray& a) { return a.transpose(); }
SparseArray swapaxes(const SparseArray& a, int64_t axis1, int64_t axis2) {
  return normalize_axis(axis1, 2) == normalize_axis(axis2, 2) ? a : a.transpose();
}
SparseArray permute_dims(const SparseArray& a, const Axes& axes) {
  if (axes.none()) return a.transpose();
  const std::vector<int64_t>& list = axes.list();
  axes.mask(2);  // throws
  if (list.size() != 2) throw InvalidArgument(fmt::format("axes: a matrix has two, got {}", list.size()));
  return normalize_axis(list[0], 2) == 0 ? a : a.transpose();
}

SparseArray SparseArray::reshape(const Dims& shape, std::string_view order) const {
  const Order layout = parse_order(order);
  Dims wanted = shape;
  const int64_t total = element_count(shape_);
  for (int d = 0; d < wanted.size(); ++d) {
    if (wanted[d] != -1) continue;
    int64_t others = 1;
    for (int e = 0; e < wanted.size(); ++e)
      if (e != d) others *= wanted[e];
    if (others > 0 && total % others == 0) wanted[d] = total / others;
  }
  check_shape(wanted);
  if (element_count(wanted) != total)
    throw InvalidArgument(fmt::format("cannot reshape a matrix of shape {} into shape {}", local::to_string(shape_),
                                      local::to_string(shape)));
  if (layout == Order::F) return transpose().reshape({wanted[1], wanted[0]}).transpose();
  const Triplets t = row_triplets(*this);
  Fused f;
  const auto row = f.cast(f.input(t.major), DType::int64), column = f.cast(f.input(t.minor), DType::int64);
  const NdArray flat = f.run(f("add"_op, f("multiply"_op, row, columns()), column));
  const DType index = index_dtype_for(wanted, t.data.size());
  const Scalar extent(std::max<int64_t>(1, wanted[1]));
  const NdArray rows = cast(apply("floor_divide"_op, {flat, extent}), index),
                columns = cast(apply("remainder"_op, {flat, extent}), index);
  return SparseArray(Format::coo, wanted, t.data, rows, columns);
}

// ---- In place ----

void SparseArray::sum_duplicates() {
  if (format_ == Format::dia || has_canonical_format()) return;
  if (format_ == Format::coo) {
    const Triplets t = distinct(row_triplets(*this));
    *this = SparseArray(format_, shape_, t.data, t.major, t.minor, true);
  } else {
    *this = from_lines(format_, shape_, compressed(triplets_of(lines_of(*this)), index_dtype()), true);
  }
}

void SparseArray::sort_indices() {
  if (has_sorted_indices()) return;
  const Triplets t = sorted(triplets_of(lines_of(*this)));
  *this = SparseArray(format_, shape_, t.data, first_, cast(t.minor, index_dtype()));
}
SparseArray SparseArray::sorted_indices() const {
  SparseArray result = *this;
  result.sort_indices();
  return result;
}

void SparseArray::eliminate_zeros() {
  if (format_ == Format::dia) return;
  const NdArray mask = apply("not_equal"_op, {data_, zero(dtype())});
  if (format_ == Format::coo) {
    const std::vector<NdArray> kept = keep(mask, {data_, first_, second_});
    *this = SparseArray(format_, shape_, kept[0], kept[1], kept[2], canonical_);
    return;
  }
  const Triplets t = triplets_of(lines_of(*this));
  const std::vector<NdArray> kept = keep(mask, {data_, t.major, second_});
  if (kept[0].size() == data_.size()) return;
  *this = SparseArray(format_, shape_, kept[0], line_offsets(kept[1], t.count, index_dtype()), kept[2], canonical_);
}

void SparseArray::prune() {
  if (format_ != Format::csr && format_ != Format::csc) return;
  const int64_t used = first_[{-1}].item().as_int64();
  if (used > data_.size() || used > second_.size())
    throw InvalidArgument(fmt::format("indptr ends with {}, but indices and data have {} and {} elements", used,
                                      second_.size(), data_.size()));
  if (used == data_.size() && used == second_.size()) return;
  *this = SparseArray(format_, shape_, slice(data_, 0, used), first_, slice(second_, 0, used), canonical_);
}

}  // namespace quarry::local::sparse
