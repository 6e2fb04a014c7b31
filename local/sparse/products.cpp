#include "quarry/local/sparse/products.h"

#include <fmt/format.h>

#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse {
namespace {

bool engine_knows(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::complex64 || dtype == DType::complex128;
}

[[noreturn]] void mismatch(const Dims& a, const Dims& b) {
  throw InvalidArgument(fmt::format("matmul: shapes {} and {} do not match", local::to_string(a), local::to_string(b)));
}

DType product_dtype(DType a, DType b) {
  const DType dtype = promote_types(a, b);
  check_dtype(dtype, "matmul");
  return dtype;
}

Lines with_dtype(const Lines& lines, DType dtype) {
  return packed({cast(lines.data, dtype), lines.indices, lines.offsets, lines.count, lines.extent});
}

MatrixView view_of(const NdArray& m) { return {m.raw(), m.shape()[0], m.shape()[1], m.shape()[1], 1}; }

// The lines' matrix (or its transpose) times b (k, n) of the same dtype, by the engine.
NdArray float_product(const Lines& lines, bool transpose, const NdArray& b) {
  const ExecContext context = context_of(lines.data);
  NdArray c({transpose ? lines.extent : lines.count, b.shape()[1]}, b.dtype(), context);
  if (c.size() == 0) return c;
  if (lines.data.size() == 0) {
    c.fill(0, context);
    return c;
  }
  use(lines, context);
  use(b, context);
  use(c, context);
  engine(context.device).sparse().multiply({compressed_view(lines), transpose, view_of(b), view_of(c)}, context);
  return c;
}

// The same for bool and integers: differences of running sums, which are exact where sums wrap.
NdArray integer_product(const Lines& lines, const NdArray& b) {
  const ExecContext context = context_of(lines.data);
  const DType wide = kind(b.dtype()) == 'u' ? DType::uint64 : DType::int64;
  const int64_t n = lines.data.size(), columns = b.shape()[1];
  const NdArray factors = cast(lines.data, wide).reshape({n, 1});
  const NdArray terms = factors * ops::get(cast(b, wide), {IndexTerm(lines.indices)});
  const NdArray sums({n + 1, columns}, wide, context);
  sums[{0}].fill(0, context);
  scan_axis("add"_op, terms, 0, sums[{Slice{1, std::nullopt, std::nullopt}}]);
  const auto at = [&](int64_t begin, int64_t end) {
    return ops::get(sums, {IndexTerm(slice(lines.offsets, begin, end))});
  };
  const NdArray result = at(1, lines.count + 1) - at(0, lines.count);
  return b.dtype() == DType::bool_ ? apply("not_equal"_op, {result, 0}) : cast(result, b.dtype());
}

// The product of compressed lines: every element of a times every element of b's line, then sums of duplicates.
Lines composed_product(const Lines& a, const Lines& b) {
  const NdArray begins = cast(gather(b.offsets, a.indices), DType::int64);
  const NdArray counts = cast(gather(b.offsets, cast(a.indices, DType::int64) + Scalar(1)), DType::int64) - begins;
  const NdArray offsets = running_total(counts);
  const int64_t total = offsets[{-1}].item().as_int64();
  const NdArray from = spread(begins, counts, total), owner = line_numbers(offsets, total);
  const NdArray major = gather(line_numbers(a.offsets, a.data.size()), owner);
  const NdArray values = gather(a.data, owner) * gather(b.data, from);
  return compressed({values, major, gather(b.indices, from), a.count, b.extent},
                    index_dtype_for({a.count, b.extent}, total));
}

Lines engine_product(const Lines& a, const Lines& b) {
  const ExecContext context = context_of(a.data);
  const DType index = a.indices.dtype();
  Lines c{NdArray(), NdArray(), NdArray({a.count + 1}, index, context), a.count, b.extent};
  use(a, context);
  use(b, context);
  use(c.offsets, context);
  engine(context.device)
      .sparse()
      .multiply_sparse(
          compressed_view(a), compressed_view(b), c.offsets.raw(),
          [&](int64_t nonzeros) {
            c.indices = NdArray({nonzeros}, index, context);
            c.data = NdArray({nonzeros}, a.data.dtype(), context);
            return CompressedRoom{c.indices.raw(), c.data.raw()};
          },
          context);
  return c;
}

Lines product(const Lines& left, const Lines& right) {
  const DType dtype = product_dtype(left.data.dtype(), right.data.dtype());
  Lines a = with_dtype(left, dtype), b = with_dtype(right, dtype);
  if (!engine_knows(dtype) || a.data.size() == 0 || b.data.size() == 0) return composed_product(a, b);
  const DType narrow = promote_types(a.indices.dtype(), b.indices.dtype());
  for (const DType index : {narrow, DType::int64}) {
    for (Lines* lines : {&a, &b}) {
      lines->indices = cast(lines->indices, index);
      lines->offsets = cast(lines->offsets, index);
    }
    try {
      return engine_product(a, b);
    } catch (const NotSupported&) {  // too many elements for the indices, or wide indices
    }
  }
  return composed_product(a, b);
}

}  // namespace

NdArray matmul(const SparseArray& a, const NdArray& b) {
  const NdArray* const arrays[] = {&a.data(), &b};
  common_device(arrays);
  if (b.ndim() < 1 || b.ndim() > 2 || b.shape()[0] != a.columns()) mismatch(a.shape(), b.shape());
  const DType dtype = product_dtype(a.dtype(), b.dtype());
  const NdArray right = packed(cast(b, dtype)).reshape({b.shape()[0], columns_of(b)});
  const bool transpose = a.format() == Format::csc && engine_knows(dtype);
  const SparseArray left = transpose ? a : a.tocsr();
  NdArray result;
  if (engine_knows(dtype)) {
    result = float_product(with_dtype(lines_of(left), dtype), transpose, right);
  } else {
    result = integer_product(lines_of(left), right);
  }
  return b.ndim() == 1 ? result.reshape({a.rows()}) : result;
}

NdArray matmul(const NdArray& a, const SparseArray& b) {
  if (a.ndim() < 1 || a.ndim() > 2 || a.shape()[a.ndim() - 1] != b.rows()) mismatch(a.shape(), b.shape());
  const NdArray result = matmul(b.transpose(), a.T());
  return a.ndim() == 1 ? result : result.T().copy(context_of(result));
}

SparseArray matmul(const SparseArray& a, const SparseArray& b) {
  const NdArray* const arrays[] = {&a.data(), &b.data()};
  common_device(arrays);
  if (a.columns() != b.rows()) mismatch(a.shape(), b.shape());
  const Dims shape{a.rows(), b.columns()};
  const bool by_columns = a.format() == Format::csc && b.format() == Format::csc;
  const Format format = by_columns ? Format::csc : Format::csr;
  const Lines left = lines_of(a.asformat(format)), right = lines_of(b.asformat(format));
  const Lines c = by_columns ? product(right, left) : product(left, right);
  const DType index = index_dtype_for(shape, c.data.size());
  return SparseArray(format, shape, c.data, cast(c.offsets, index), cast(c.indices, index), true);
}

SparseArray SparseArray::dot(const SparseArray& other) const { return matmul(*this, other); }
NdArray SparseArray::dot(const NdArray& other) const { return matmul(*this, other); }

}  // namespace quarry::local::sparse
