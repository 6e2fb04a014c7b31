#include "quarry/local/sparse/support.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/indexing/index_support.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/program/indexing.h"
#include "quarry/local/program/scanning.h"
#include "quarry/local/program/sorting.h"

namespace quarry::local::sparse {

void check_dtype(DType dtype, const char* argument) {
  if (is_half(dtype))
    throw TypeError(fmt::format("{}: sparse matrices do not support dtype {}", argument, local::name(dtype)));
}

void check_shape(const Dims& shape) {
  if (shape.size() != 2)
    throw InvalidArgument(fmt::format("shape: a sparse matrix has two dimensions, got {}", local::to_string(shape)));
  if (shape[0] < 0 || shape[1] < 0)
    throw InvalidArgument(fmt::format("shape: negative dimensions are not allowed: {}", local::to_string(shape)));
}

DType index_dtype_for(const Dims& shape, int64_t nonzeros) {
  const int64_t most = std::max({shape[0], shape[1], nonzeros});
  return most <= std::numeric_limits<int32_t>::max() ? DType::int32 : DType::int64;
}

NdArray cast(const NdArray& array, DType dtype) {
  return array.dtype() == dtype ? array : array.astype(dtype, context_of(array));
}

NdArray zeros(int64_t count, DType dtype, Device device) {
  const ExecContext context = context_for(device);
  NdArray result({count}, dtype, context);
  result.fill(0, context);
  return result;
}

NdArray counting(int64_t count, Device device) { return counting_array(count, device); }

NdArray slice(const NdArray& array, int64_t begin, int64_t end) {
  return array[{Slice{begin, std::max(begin, end), std::nullopt}}];
}

NdArray gather(const NdArray& array, const NdArray& positions) {
  const NdArray index = cast(positions, DType::int64);
  NdArray result(index.shape(), array.dtype(), context_of(array));
  if (result.size() == 0) return result;
  const NdArray* const used[] = {&index};
  run_gather(array, elements_along(array, 0, index, index.shape(), IndexMode::unchecked), used, result);
  return result;
}

void scatter(const NdArray& array, const NdArray& positions, const NdArray& values) {
  if (positions.size() == 0) return;
  const NdArray index = cast(positions, DType::int64), from = cast(values, array.dtype());
  const NdArray* const used[] = {&index};
  run_scatter(array, elements_along(array, 0, index, index.shape(), IndexMode::unchecked), used, from);
}

NdArray where_true(const NdArray& mask) { return CountedMask(mask).positions(); }

std::vector<NdArray> keep(const NdArray& mask, const std::vector<NdArray>& arrays) {
  CountedMask counted(mask);
  if (counted.count() == mask.size()) return arrays;
  std::vector<NdArray> kept;
  kept.reserve(arrays.size());
  for (const NdArray& array : arrays) kept.push_back(counted.select(array));
  return kept;
}

NdArray fold(Op op, const NdArray& data, const NdArray& begins, const NdArray& ends) {
  const ExecContext context = context_of(data);
  NdArray result({begins.size()}, data.dtype(), context);
  if (result.size() == 0) return result;
  const NdArray first = begins.is_contiguous() ? begins : begins.copy(context);
  const NdArray last = ends.is_contiguous() ? ends : ends.copy(context);
  for (const NdArray* array : {&data, &first, &last}) array->begin_read(context.stream);
  result.begin_write(context.stream);
  FoldLaunch launch;
  launch.op = op;
  launch.dtype = data.dtype();
  launch.shape = data.shape();
  launch.input = {data.raw(), data.strides()};
  launch.output = {result.raw(), result.strides()};
  launch.ranges = begins.size();
  launch.begins = first.data<const int64_t>();
  launch.ends = last.data<const int64_t>();
  engine(context.device).scanning().fold(launch, context);
  return result;
}

bool any(const NdArray& mask) { return mask.size() > 0 && ops::any(mask).item<bool>(); }

namespace {

// How often each number in [0, bins) occurs; others count nowhere.
NdArray count_of(const NdArray& numbers, int64_t bins) {
  const NdArray wide = cast(numbers, DType::int64);
  const ExecContext context = context_of(wide);
  const NdArray packed = wide.is_contiguous() ? wide : wide.copy(context);
  if (bins == 0 || packed.size() == 0) return zeros(bins, DType::int64, numbers.device());
  NdArray counts({bins}, DType::int64, context);
  packed.begin_read(context.stream);
  engine(context.device)
      .sorting()
      .bincount(packed.data<const int64_t>(), packed.size(), nullptr, bins, counts.raw(), context);
  return counts;
}

NdArray running_sum(const NdArray& values) {
  NdArray result(values.shape(), DType::int64, context_of(values));
  scan_axis("add"_op, values, 0, result);
  return result;
}

// Whether each element but the first differs from the one before it.
NdArray changes(const NdArray& major, const NdArray& minor) {
  const int64_t n = major.size();
  Fused f;
  const auto a = f.input(slice(major, 1, n)), before_a = f.input(slice(major, 0, n - 1));
  const auto b = f.input(slice(minor, 1, n)), before_b = f.input(slice(minor, 0, n - 1));
  return f.run(f("logical_or"_op, f("not_equal"_op, a, before_a), f("not_equal"_op, b, before_b)));
}

bool is_sorted(const Triplets& t) {
  const int64_t n = t.data.size();
  if (n < 2) return true;
  Fused f;
  const auto a = f.input(slice(t.major, 1, n)), before_a = f.input(slice(t.major, 0, n - 1));
  const auto b = f.input(slice(t.minor, 1, n)), before_b = f.input(slice(t.minor, 0, n - 1));
  const auto tie = f("logical_and"_op, f("equal"_op, a, before_a), f("less"_op, b, before_b));
  return !any(f.run(f("logical_or"_op, f("less"_op, a, before_a), tie)));
}

// Positions that sort by major, then minor coordinate; stable.
NdArray order_of(const Triplets& t) {
  int64_t product = 0;
  if (__builtin_mul_overflow(t.count, t.extent, &product)) return ops::lexsort({t.minor, t.major});
  Fused f;
  const auto major = f.cast(f.input(t.major), DType::int64);
  const auto minor = f.cast(f.input(t.minor), DType::int64);
  const auto key = f("add"_op, f("multiply"_op, major, t.extent), minor);
  return ops::argsort(f.run(product <= std::numeric_limits<uint32_t>::max() ? f.cast(key, DType::uint32) : key));
}

}  // namespace

NdArray running_total(const NdArray& counts) {
  NdArray total = zeros(counts.size() + 1, DType::int64, counts.device());
  if (counts.size() > 0) scan_axis("add"_op, counts, 0, slice(total, 1, counts.size() + 1));
  return total;
}

// The line of an element is the number of lines that end at or before it.
NdArray line_numbers(const NdArray& offsets, int64_t nonzeros) {
  if (nonzeros == 0) return NdArray({0}, DType::int64, context_of(offsets));
  return running_sum(count_of(slice(offsets, 1, offsets.size()), nonzeros));
}

NdArray line_offsets(const NdArray& numbers, int64_t lines, DType index) {
  return cast(running_total(count_of(numbers, lines)), index);
}

NdArray spread(const NdArray& begins, const NdArray& counts, int64_t total) {
  const NdArray offsets = running_total(counts);
  const NdArray lines = line_numbers(offsets, total);
  Fused f;
  const auto shift = f.input(gather(begins, lines));
  const auto start = f.input(gather(offsets, lines));
  const auto position = f.input(counting(total, begins.device()));
  return f.run(f("add"_op, position, f("subtract"_op, f.cast(shift, DType::int64), start)));
}

Triplets sorted(const Triplets& t) {
  if (is_sorted(t)) return t;
  const NdArray order = order_of(t);
  return {gather(t.data, order), gather(t.major, order), gather(t.minor, order), t.count, t.extent};
}

NdArray group_starts(const Triplets& t) {
  const int64_t n = t.data.size();
  NdArray starts({n}, DType::bool_, context_of(t.data));
  if (n == 0) return NdArray({0}, DType::int64, context_of(t.data));
  slice(starts, 0, 1).fill(true, context_of(t.data));
  if (n > 1) slice(starts, 1, n).assign(changes(t.major, t.minor), context_of(t.data));
  return where_true(starts);
}

Triplets distinct(const Triplets& elements, Duplicates duplicates, bool ordered) {
  Triplets t = ordered ? elements : sorted(elements);
  const int64_t n = t.data.size();
  const NdArray begins = group_starts(t);
  if (begins.size() == n) return t;
  const NdArray end = zeros(1, DType::int64, begins.device());
  end.fill(n, context_of(end));
  const NdArray ends = ops::concatenate({slice(begins, 1, begins.size()), end});
  t.data = duplicates == Duplicates::sum ? fold(sum_op(t.data.dtype()), t.data, begins, ends)
                                         : gather(t.data, ends - Scalar(1));
  t.major = gather(t.major, begins);
  t.minor = gather(t.minor, begins);
  return t;
}

Lines compressed(const Triplets& elements, DType index, Duplicates duplicates, bool ordered) {
  const Triplets t = distinct(elements, duplicates, ordered);
  return {t.data, cast(t.minor, index), line_offsets(t.major, t.count, index), t.count, t.extent};
}

Triplets triplets_of(const Lines& lines) {
  return {lines.data, line_numbers(lines.offsets, lines.data.size()), lines.indices, lines.count, lines.extent};
}

Lines lines_of(const SparseArray& a) {
  QUARRY_CHECK(a.format() == Format::csr || a.format() == Format::csc);
  const int major = major_axis(a.format());
  return {a.data(), a.second(), a.first(), a.shape()[major], a.shape()[1 - major]};
}

SparseArray from_lines(Format format, const Dims& shape, const Lines& lines, std::optional<bool> canonical) {
  return SparseArray(format, shape, lines.data, lines.offsets, lines.indices, canonical);
}

SparseArray canonical(const SparseArray& a, Format format) {
  if (a.format() == format && a.has_canonical_format()) return a;  // which it remembers
  SparseArray result = a.asformat(format);
  result.sum_duplicates();
  return result;
}

SparseArray canonical(const SparseArray& a) {
  return canonical(a, a.format() == Format::csc ? Format::csc : Format::csr);
}

Triplets row_triplets(const SparseArray& a) {
  switch (a.format()) {
    case Format::coo:
      return {a.data(), a.first(), a.second(), a.rows(), a.columns()};
    case Format::csr:
      return triplets_of(lines_of(a));
    case Format::csc: {
      const Triplets t = triplets_of(lines_of(a));
      return {t.data, t.minor, t.major, a.rows(), a.columns()};
    }
    case Format::dia:
      return row_triplets(a.tocoo());
  }
  __builtin_unreachable();
}

SparseArray from_dense(const NdArray& dense, Format format) {
  if (dense.ndim() != 2)
    throw InvalidArgument(fmt::format("a sparse matrix is made from an array of two dimensions, got shape {}",
                                      local::to_string(dense.shape())));
  check_dtype(dense.dtype(), "dense");
  CountedMask mask(apply("not_equal"_op, {dense, zero(dense.dtype())}));
  const NdArray at = mask.positions();
  const DType index = index_dtype_for(dense.shape(), at.size());
  const int64_t columns = std::max<int64_t>(1, dense.shape()[1]);
  const auto coordinate = [&](Op op) {
    Fused f;
    return f.run(f.cast(f(op, f.input(at), columns), index));
  };
  const SparseArray coo(Format::coo, dense.shape(), mask.select(dense), coordinate("floor_divide"_op),
                        coordinate("remainder"_op), true);
  return coo.asformat(format);
}

NdArray packed(const NdArray& array) {
  constexpr int64_t kAligned = 16;
  return array.is_contiguous() && array.offset() % kAligned == 0 ? array : array.copy(context_of(array));
}
Lines packed(const Lines& lines) {
  return {packed(lines.data), packed(lines.indices), packed(lines.offsets), lines.count, lines.extent};
}

void use(const NdArray& array, const ExecContext& context) { array.begin_read(context.stream); }
void use(const Lines& lines, const ExecContext& context) {
  use(lines.data, context);
  use(lines.indices, context);
  use(lines.offsets, context);
}

CompressedRows compressed_view(const Lines& lines) {
  return {lines.data.dtype(), lines.indices.dtype(), lines.count,         lines.extent,
          lines.data.size(),  lines.data.raw(),      lines.indices.raw(), lines.offsets.raw()};
}

}  // namespace quarry::local::sparse
