#include "quarry/chunked/api/diagonals.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"

namespace quarry {

using namespace compose;

namespace {

// k within what can make a difference, so that row + k does not overflow.
int64_t clamped_offset(int64_t k, int64_t rows, int64_t columns) { return std::clamp(k, -rows - 1, columns + 1); }

// Whether column <= row + k, for the matrices in the last two axes.
Array in_lower_triangle(const Dims& matrix, int64_t k) {
  const int64_t offset = clamped_offset(k, matrix[0], matrix[1]);
  return positions(matrix, 1) <= positions(matrix, 0) + Scalar(offset);
}

Array triangle(const Array& m, int64_t k, bool lower) {
  if (m.ndim() == 0) throw local::TypeError("a triangle needs an array of one dimension or more");
  const int64_t columns = m.shape(-1), rows = m.ndim() == 1 ? columns : m.shape(-2);
  const Array inside = in_lower_triangle({rows, columns}, lower ? k : k - (k > INT64_MIN));
  const Scalar zero = typed(0, m.dtype());
  return lower ? where(inside, m, zero) : where(inside, zero, m);
}

}  // namespace

Array eye(int64_t rows, std::optional<int64_t> columns, int64_t k, DType dtype) {
  const Dims shape{rows, columns.value_or(rows)};
  for (int64_t extent : shape)
    if (extent < 0) throw InvalidArgument("negative dimensions are not allowed");
  return equal(positions(shape, 0) + Scalar(clamped_offset(k, rows, shape[1])), positions(shape, 1)).astype(dtype);
}
Array identity(int64_t n, DType dtype) { return eye(n, std::nullopt, 0, dtype); }

Array tri(int64_t N, std::optional<int64_t> M, int64_t k, DType dtype) {
  return in_lower_triangle({std::max<int64_t>(N, 0), std::max<int64_t>(M.value_or(N), 0)}, k).astype(dtype);
}
Array tril(const Array& m, int64_t k) { return triangle(m, k, /*lower=*/true); }
Array triu(const Array& m, int64_t k) { return triangle(m, k, /*lower=*/false); }

Array diagonal(const Array& a, int64_t offset, int64_t axis1, int64_t axis2) {
  if (a.ndim() < 2) throw InvalidArgument("diag requires an array of at least two dimensions");
  const int first = local::normalize_axis(axis1, a.ndim()), second = local::normalize_axis(axis2, a.ndim());
  if (first == second) throw InvalidArgument(fmt::format("axis1 and axis2 cannot be the same: {}", first));
  const int64_t rows = a.shape()[first], columns = a.shape()[second];
  offset = std::clamp(offset, -rows, columns);
  const int64_t count =
      std::max<int64_t>(offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns), 0);
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  if (count == 0) {
    Dims shape;
    for (int d = 0; d < a.ndim(); ++d)
      if (d != first && d != second) shape.push_back(a.shape()[d]);
    shape.push_back(0);
    return constant(shape, 0, a.dtype());
  }
  return Array(expr::diagonal(a.node(), first, second, row, column, count));
}

Array diag(const Array& v, int64_t k) {
  if (v.ndim() == 2) return diagonal(v, k);
  if (v.ndim() != 1) throw InvalidArgument(fmt::format("Input must be 1- or 2-d, not {}-d", v.ndim()));
  int64_t n = 0;
  if (k == INT64_MIN || __builtin_add_overflow(v.shape()[0], std::abs(k), &n))
    throw InvalidArgument(fmt::format("diagonal {} is too far away", k));
  // The vector lies along the columns.
  const Array blank = constant({std::abs(k)}, 0, v.dtype());
  const Array line = joined(k > 0 ? std::vector{blank, v} : std::vector{v, blank}, 0);
  return where(positions({n, n}, 0) + Scalar(k) == positions({n, n}, 1), line, typed(0, v.dtype()));
}
Array diagflat(const Array& v, int64_t k) { return diag(ravel(v), k); }

Array trace(const Array& a, int64_t offset, int64_t axis1, int64_t axis2, std::optional<DType> dtype) {
  return sum(diagonal(a, offset, axis1, axis2), -1, {.dtype = dtype});
}

Array fill_diagonal(const Array& a, const Operand& val, bool wrap) {
  if (a.ndim() < 2) throw InvalidArgument("array must be at least 2-d");
  const int64_t rows = a.shape()[0], columns = a.shape()[1];
  for (const int64_t extent : a.shape())
    if (a.ndim() > 2 && extent != rows) throw InvalidArgument("All dimensions of input must be of equal length");
  if (a.size() == 0) return a;
  // Each diagonal begins one row below the end of the last one.
  const int64_t period = a.ndim() == 2 && wrap ? columns + 1 : rows + 1;
  const Array row = positions(a.shape(), 0), place = row % Scalar(period);
  Array on = place == positions(a.shape(), 1);
  for (int d = 2; d < a.ndim(); ++d) on = on & (place == positions(a.shape(), d));
  const Array values = as_array(val, a.dtype());
  if (values.size() == 0) return a;
  if (values.size() == 1) return where(on, reshape(values, Dims{}), a);
  // The value of each row: rows between two diagonals have none.
  const int64_t line = std::min(period - 1, columns), repeats = (rows + period - 1) / period;
  const int64_t needed = line * repeats;
  const Array flat = ravel(values);
  Array each = arrange::part(tile(flat, (needed + flat.size() - 1) / flat.size()), 0, 0, needed);
  if (repeats > 1) {
    const Array gap = constant({repeats, 1}, 0, a.dtype());
    each = reshape(joined({reshape(each, {repeats, line}), gap}, 1), {repeats * period});
  }
  const int64_t missing = rows - each.shape()[0];
  each = missing > 0 ? joined({each, constant({missing}, 0, a.dtype())}, 0) : arrange::part(each, 0, 0, rows);
  return where(on, along(each, 0, a.ndim()), a);
}

std::array<Array, 2> tril_indices(int64_t n, int64_t k, std::optional<int64_t> columns) {
  n = std::max<int64_t>(n, 0);
  const int64_t m = std::max<int64_t>(columns.value_or(n), 0);
  k = clamped_offset(k, n, m);
  // Row r has clamp(r + k + 1, 0, m) elements: none at first, then `first`, first + 1 ... in `growing` rows, then m.
  const int64_t start = std::min(std::max<int64_t>(-k, 0), n);
  const int64_t growing = std::max<int64_t>(std::min(n, m - k) - start, 0);
  const int64_t first = start + k + 1, rest = n - start - growing;
  const auto before = [&](const auto& s) { return s * (2 * first - 1 + s); };  // twice the elements of s growing rows
  const int64_t triangle = before(growing) / 2;
  std::array<Array, 2> parts[2];
  {
    // Position t is in row s with before(s) <= 2 t < before(s + 1): the root of a quadratic, made exact.
    const Array t = positions(triangle);
    const double b = 2.0 * static_cast<double>(first) - 1;
    Array s = floor((sqrt(t.astype(DType::float64) * 8.0 + b * b) - b) / 2).astype(DType::int64);
    const auto twice_before = [&](const Array& row) { return row * (row + Scalar(2 * first - 1)); };
    s = where(twice_before(s) > t * 2, s - 1, s);
    s = where(twice_before(s + 1) <= t * 2, s + 1, s);
    parts[0] = {s + Scalar(start), t - floor_divide(twice_before(s), 2)};
  }
  {
    const Array t = positions(m > 0 ? rest * m : 0);
    const Scalar width(std::max<int64_t>(m, 1));
    parts[1] = {floor_divide(t, width) + Scalar(start + growing), remainder(t, width)};
  }
  return {joined({parts[0][0], parts[1][0]}, 0), joined({parts[0][1], parts[1][1]}, 0)};
}

std::array<Array, 2> triu_indices(int64_t n, int64_t k, std::optional<int64_t> columns) {
  n = std::max<int64_t>(n, 0);
  const int64_t m = std::max<int64_t>(columns.value_or(n), 0);
  // Counted from the last element, it is a lower triangle.
  const auto [rows, cols] = tril_indices(n, m - n - clamped_offset(k, n, m), m);
  return {Scalar(n - 1) - flip(rows), Scalar(m - 1) - flip(cols)};
}

namespace {
void check_matrix(const Array& array) {
  if (array.ndim() != 2) throw InvalidArgument("input array must be 2-d");
}
}  // namespace

std::array<Array, 2> tril_indices_from(const Array& arr, int64_t k) {
  check_matrix(arr);
  return tril_indices(arr.shape()[0], k, arr.shape()[1]);
}
std::array<Array, 2> triu_indices_from(const Array& arr, int64_t k) {
  check_matrix(arr);
  return triu_indices(arr.shape()[0], k, arr.shape()[1]);
}

}  // namespace quarry
