// Systems of which more is known go to Cholesky's or LU's tiles, n^3 / 3 or 2 n^3 / 3 multiplications and additions
// (cholesky.cpp, lu.cpp). Products with a triangle by halves, [a11 0; a21 a22] [b1; b2] = [a11 b1; a21 b1 + a22 b2]:
// after h halvings (1 / 2 + 2^-h / 2) times the 2 n^2 r multiplications and additions of a whole matrix. With a
// symmetric matrix as many as those, of half as many elements that are read. What ranks receive and tasks hold is what
// products of the parts do (exec/product_places.h).
#include "quarry/chunked/api/structured.h"

#include <cmath>

#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/matrix_calls.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/tiled.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/linalg/refinement.h"
#include "quarry/local/ops/linalg/support.h"

namespace quarry::linalg {
namespace {

using namespace compose;
using namespace calls;
namespace ops = local::ops;

Array across(const Array& a, bool hermitian) { return hermitian ? adjoint(a) : transpose(a); }

Array mirrored(const Array& a, Triangle triangle, bool hermitian) {
  if (hermitian) return both_triangles(a, triangle);
  const bool lower = triangle == Triangle::lower;
  return (lower ? tril(a) : triu(a)) + transpose(lower ? tril(a, -1) : triu(a, 1));
}

std::vector<double> numbers_of(const std::vector<Array>& values) {
  std::vector<double> numbers;
  for (const NdArray& value : settle(values, {}, InPlans::zeros).values) numbers.push_back(value.item().as_double());
  return numbers;
}

void check_symmetry(const Array& a, bool hermitian) {
  if (a.size() == 0) return;
  const std::vector<double> found = numbers_of({max(absolute(a - across(a, hermitian))), max(absolute(a))});
  ops::check_difference(found[0], found[1], computed_in(a.dtype()), hermitian);
}

// Of a Hermitian matrix whose diagonal is positive; none where it is not positive definite. Computes.
std::optional<Array> cholesky_if_positive(const Array& a, Triangle triangle) {
  if (!(settled_number(min(real(diagonal(a))), /*in_plans=*/1) > 0)) return std::nullopt;
  try {
    return tiled::cholesky(a, triangle == Triangle::upper).persist();
  } catch (const local::LinAlgError&) {
    return std::nullopt;
  }
}

// Of a large matrix, in the dtype that solvers compute in.
Array solve_large(const Array& a, const Array& b, const SystemOptions& options) {
  switch (options.assume) {
    case Assumed::general:
      return tiled::solve(a, b);
    case Assumed::positive_definite:
      return tiled::solve_by_cholesky(tiled::cholesky(a, options.triangle == Triangle::upper), b, options.triangle);
    case Assumed::symmetric:
    case Assumed::hermitian:
      const bool hermitian = options.assume == Assumed::hermitian || !local::is_complex(a.dtype());
      if (hermitian)
        if (const std::optional<Array> factor = cholesky_if_positive(a, options.triangle))
          return tiled::solve_by_cholesky(*factor, b, options.triangle);
      return tiled::solve(mirrored(a, options.triangle, hermitian), b);
  }
  return a;
}

// The factors in single precision, as a function that solves by them. Computes them.
std::function<Array(const Array&)> factored(const Array& a, const SystemOptions& options) {
  if (options.assume == Assumed::positive_definite) {
    const Array factor = tiled::cholesky(a, options.triangle == Triangle::upper).persist();
    return
        [factor, triangle = options.triangle](const Array& b) { return tiled::solve_by_cholesky(factor, b, triangle); };
  }
  const tiled::Factors parts = tiled::lu(a, /*permute_l=*/false);
  const std::vector<Array> factors{parts.lower, parts.upper, parts.order}, kept = persist(factors);
  return [kept](const Array& b) { return tiled::solve_by_lu(kept[0], kept[1], kept[2], b); };
}

Array solve_in_two_precisions(const Array& given, const Array& b, const SystemOptions& options) {
  const DType dtype = given.dtype(), single = local::is_complex(dtype) ? DType::complex64 : DType::float32;
  const auto full = [&] { return solve_large(given, b, options); };
  const Array a = options.assume == Assumed::general
                      ? given
                      : mirrored(given, options.triangle, options.assume != Assumed::symmetric);
  const double size = numbers_of({max(sum(absolute(a), Axes(1)))})[0];
  const double factor = size * local::linalg::epsilon_of(dtype) * std::sqrt(static_cast<double>(given.shape(0)));
  std::function<Array(const Array&)> by_factors;
  try {
    by_factors = factored(a.astype(single), options);
  } catch (const local::LinAlgError&) {  // not positive definite in single precision
    return full();
  }
  const auto solved = [&](const Array& r) { return by_factors(r.astype(single)).astype(dtype).persist(); };
  const auto residual = [&](const Array& x) {
    const Array r = b - matmul(a, x);
    const auto largest = [](const Array& columns) { return max(absolute(columns), Axes(0)); };
    const std::vector<Array> values{all(less_equal(largest(r), largest(x) * factor)), all(isfinite(r))};
    const Settled known = settle(values, std::span(&r, 1), InPlans::zeros);
    if (known.is_planned) return local::linalg::Residual<Array>{known.kept[0], true, true};
    return local::linalg::Residual<Array>{known.kept[0], known.values[0].item<bool>(), known.values[1].item<bool>()};
  };
  return local::linalg::solve_refined<Array>(b, solved, residual, full);
}

// ---- Products of triangles, by halves ----

constexpr int kMostHalvings = 4;

// The part of `a` that starts at a row and a column.
Array block(const Array& a, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return arrange::part(arrange::part(a, a.ndim() - 2, row, rows), a.ndim() - 1, column, columns);
}
// Where chunks of rows begin, nearest to the middle; 0 where a half would be no matrix to divide.
int64_t middle_of(const Array& a) {
  const AxisChunks& rows = a.chunks().axis(0);
  const int64_t chunk = rows.find(a.shape(0) / 2), start = rows.start(chunk);
  return start > 0 ? start : a.shape(0) / 2;
}

// op(T) b for a triangle T.
Array triangle_times(const Array& a, const Array& b, Triangle triangle, int64_t trans, bool unit, int halvings) {
  const auto turned = [&](const Array& x) { return trans == 0 ? x : across(x, trans == 2); };
  const bool lower = triangle == Triangle::lower;
  if (halvings == 0 || !is_large(a)) {
    Array part = lower ? tril(a) : triu(a);
    if (unit)
      part = where(positions(a.shape(), a.ndim() - 2) == positions(a.shape(), a.ndim() - 1),
                   constant(Dims{}, 1, a.dtype()), part);
    return matmul(turned(part), b);
  }
  const int64_t n = a.shape(0), h = middle_of(a);
  const Array off = turned(lower ? block(a, h, n - h, 0, h) : block(a, 0, h, h, n - h));
  const Array b1 = arrange::part(b, 0, 0, h), b2 = arrange::part(b, 0, h, n - h);
  const Array first = triangle_times(block(a, 0, h, 0, h), b1, triangle, trans, unit, halvings - 1);
  const Array second = triangle_times(block(a, h, n - h, h, n - h), b2, triangle, trans, unit, halvings - 1);
  if (lower == (trans == 0)) return joined({first, matmul(off, b1) + second}, 0);
  return joined({first + matmul(off, b2), second}, 0);
}

// a b for a symmetric or Hermitian matrix.
Array symmetric_times(const Array& a, const Array& b, Triangle triangle, bool hermitian, int halvings) {
  if (halvings == 0 || !is_large(a)) {
    const Array side = triangle == Triangle::lower ? tril(a, -1) : triu(a, 1);
    const Array on_diagonal = positions(a.shape(), a.ndim() - 2) == positions(a.shape(), a.ndim() - 1);
    const Array turned = matrix_transpose(hermitian ? conjugated(side) : side);
    return matmul(where(on_diagonal, hermitian ? real(a).astype(a.dtype()) : a, side + turned), b);
  }
  const int64_t n = a.shape(0), h = middle_of(a);
  const bool lower = triangle == Triangle::lower;
  const Array stored = lower ? block(a, h, n - h, 0, h) : block(a, 0, h, h, n - h);
  const Array below = lower ? stored : across(stored, hermitian), right = lower ? across(stored, hermitian) : stored;
  const Array b1 = arrange::part(b, 0, 0, h), b2 = arrange::part(b, 0, h, n - h);
  const Array first = symmetric_times(block(a, 0, h, 0, h), b1, triangle, hermitian, halvings - 1);
  const Array second = symmetric_times(block(a, h, n - h, h, n - h), b2, triangle, hermitian, halvings - 1);
  return joined({first + matmul(right, b2), matmul(below, b1) + second}, 0);
}

Array symmetric_product(const Array& a, const Array& b, int64_t side, bool lower, bool hermitian) {
  ops::check_side(side);
  check_square(a);
  const Triangle triangle = lower ? Triangle::lower : Triangle::upper;
  const int halvings = a.ndim() == 2 && b.ndim() <= 2 ? kMostHalvings : 0;
  if (side == 0) return symmetric_times(a, b, triangle, hermitian, halvings);
  if (b.ndim() < 2) return symmetric_times(hermitian ? conjugated(a) : a, b, triangle, hermitian, halvings);
  // b a = (a^T b^T)^T, and the transpose of a Hermitian matrix is its conjugate.
  return matrix_transpose(
      symmetric_times(hermitian ? conjugated(a) : a, matrix_transpose(b), triangle, hermitian, halvings));
}

}  // namespace

Array solve(const Array& a, const Array& b, const SystemOptions& options) {
  check_square(a);
  if (options.check && options.assume != Assumed::general) check_symmetry(a, options.assume != Assumed::symmetric);
  SystemOptions plain = options;
  plain.check = plain.refine = false;
  if (plain.assume == Assumed::general && !options.refine) return solve(a, b);
  op::Hash parameters;
  parameters.add(static_cast<int>(plain.assume)).add(static_cast<int>(plain.triangle));
  Call call{"solve", {{a}, {b, b.ndim() == 1 ? kVector : kMatrix}}, parameters, [plain](Arrays given) {
              return Results{ops::solve(given[0], given[1], plain)};
            }};
  if (b.ndim() > 2 || !is_large(a)) return applied(std::move(call))[0];
  const DType result = results_of(call)[0].dtype, dtype = computed_in(result);
  const Array left = a.astype(dtype), right = b.astype(dtype);
  const bool refined = options.refine && local::itemsize(local::real_type(dtype)) == 8;
  return (refined ? solve_in_two_precisions(left, right, plain) : solve_large(left, right, plain)).astype(result);
}

Array symm(const Array& a, const Array& b, int64_t side, bool lower) {
  return symmetric_product(a, b, side, lower, /*hermitian=*/false);
}
Array hemm(const Array& a, const Array& b, int64_t side, bool lower) {
  return symmetric_product(a, b, side, lower, /*hermitian=*/true);
}
Array trmm(const Array& a, const Array& b, int64_t side, bool lower, int64_t trans, bool unit_diagonal) {
  ops::check_side(side);
  ops::check_trans(trans);
  check_square(a);
  const Triangle triangle = lower ? Triangle::lower : Triangle::upper;
  const int halvings = a.ndim() == 2 && b.ndim() <= 2 ? kMostHalvings : 0;
  if (side == 0 && a.ndim() == 2) return triangle_times(a, b, triangle, trans, unit_diagonal, halvings);
  // b op(a) = (op(a)^T b^T)^T.
  const Array given = trans == 2 ? conjugated(a) : a;
  const bool vector = b.ndim() < 2;
  const Array x =
      triangle_times(given, vector ? b : matrix_transpose(b), triangle, trans == 0 ? 1 : 0, unit_diagonal, halvings);
  return vector ? x : matrix_transpose(x);
}
Array syrk(const Array& a, bool trans) {
  return trans ? matmul(matrix_transpose(a), a) : matmul(a, matrix_transpose(a));
}
Array herk(const Array& a, bool trans) {
  const Array turned = matrix_transpose(conjugated(a));
  return trans ? matmul(turned, a) : matmul(a, turned);
}

}  // namespace quarry::linalg
