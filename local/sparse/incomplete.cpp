#include "quarry/local/sparse/incomplete.h"

#include <fmt/format.h>

#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/sparse/support.h"

namespace quarry::local::sparse {
SparseArray incomplete_lu(const SparseArray& a, int64_t first_row) {
  if (a.rows() != a.columns())
    throw InvalidArgument("a: expected a square matrix, got shape " + local::to_string(a.shape()));
  check_dtype(a.dtype(), "a");
  const DType dtype = is_float(a.dtype()) || is_complex(a.dtype()) ? a.dtype() : DType::float64;
  const Lines lines = packed(lines_of(canonical(a, Format::csr)));
  const ExecContext context = context_of(lines.data);
  const NdArray values = lines.data.astype(dtype, context);
  const Lines own{values, lines.indices, lines.offsets, lines.count, lines.extent};
  use(own, context);
  const int64_t row =
      a.rows() == 0 ? -1
                    : engine(context.device).sparse().factorise_incomplete(compressed_view(own), values.raw(), context);
  if (row >= 0)
    throw LinAlgError(fmt::format("a: no incomplete factors: the pivot of row {} is zero", first_row + row));
  return from_lines(Format::csr, a.shape(), own, true);
}

NdArray incomplete_solve(const SparseArray& factors, const NdArray& b, bool adjoint) {
  const int64_t n = factors.rows();
  if ((b.ndim() != 1 && b.ndim() != 2) || b.shape()[0] != n)
    throw InvalidArgument(fmt::format("b: shape {} does not fit factors of shape {}", local::to_string(b.shape()),
                                      local::to_string(factors.shape())));
  const DType dtype = promote_types(factors.dtype(), b.dtype());
  check_dtype(dtype, "b");
  const ExecContext context = context_of(factors.data());
  Lines lines = lines_of(factors);
  lines.data = cast(lines.data, dtype);
  lines = packed(lines);
  // By columns. (L U)^H x = b is conj(x) of (L U)^T conj(x) = conj(b).
  const NdArray columns = b.reshape({n, columns_of(b)}).T().astype(dtype, context);
  const NdArray right = adjoint ? conjugated(columns) : columns;
  const NdArray between(right.shape(), dtype, context), x(right.shape(), dtype, context);
  if (x.size() == 0) return x.T().copy(context).reshape(b.shape());
  use(lines, context);
  use(right, context);
  use(between, context);
  use(x, context);
  const auto view = [&](const NdArray& m) { return MatrixView{m.raw(), n, m.shape()[0], 1, n}; };
  const auto solve = [&](Triangle triangle, const NdArray& from, const NdArray& to) {
    const bool unit_diagonal = triangle == Triangle::lower;
    engine(context.device)
        .sparse()
        .solve({compressed_view(lines), triangle, unit_diagonal, adjoint, view(from), view(to)}, context);
  };
  solve(adjoint ? Triangle::upper : Triangle::lower, right, between);
  solve(adjoint ? Triangle::lower : Triangle::upper, between, x);
  return (adjoint ? conjugated(x) : x).T().copy(context).reshape(b.shape());
}

}  // namespace quarry::local::sparse
