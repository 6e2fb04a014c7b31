#include "quarry/chunked/tiles/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/elements.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/program/indexing.h"
#include "quarry/local/program/products.h"

namespace quarry::tiles {
namespace {

using local::DType;
using local::ExecContext;
using local::MatrixStack;
using local::MatrixView;
using local::Slice;
using Arrays = std::span<const NdArray>;

// ---- Views of tiles ----

// A tile as the engines take it: by rows or by columns without gaps in a line, else a copy.
NdArray in_lines(const NdArray& tile) {
  if (tile.size() <= 1 || tile.strides()[0] == tile.itemsize() || tile.strides()[1] == tile.itemsize()) {
    const int64_t rows = tile.shape()[0], columns = tile.shape()[1], item = tile.itemsize();
    const bool by_rows = tile.strides()[1] == item && (rows == 1 || tile.strides()[0] >= columns * item);
    const bool by_columns = tile.strides()[0] == item && (columns == 1 || tile.strides()[1] >= rows * item);
    if (by_rows || by_columns) return tile;
  }
  return tile.copy();
}
MatrixView view_of(const NdArray& tile) {
  return {tile.raw(), tile.shape()[0], tile.shape()[1], tile.strides()[0] / tile.itemsize(),
          tile.strides()[1] / tile.itemsize()};
}
MatrixView transposed(const MatrixView& m) { return {m.data, m.columns, m.rows, m.column_stride, m.row_stride}; }

// A panel, or what stands beside it, as a matrix by columns; rows [first, first + rows) of it.
MatrixView rows_of(const NdArray& panel, int64_t first, int64_t rows) {
  const int64_t item = panel.itemsize(), n = panel.shape()[1];
  return {static_cast<char*>(panel.raw()) + first * item, rows, panel.shape()[0], 1, n};
}
MatrixStack stack_of(const MatrixView& columns) {
  return {columns.data, 1, columns.rows, columns.columns, columns.column_stride};
}
MatrixView first_columns(MatrixView m, int64_t columns) {
  m.columns = columns;
  return m;
}

const ExecContext& context() { return local::current_context(); }

void multiply(DType dtype, double alpha, const MatrixView& a, MatrixOp of_a, const MatrixView& b, MatrixOp of_b,
              double beta, const MatrixView& c) {
  if (c.rows == 0 || c.columns == 0 || (a.rows == 0 && beta == 1)) return;
  local::Gemm task{dtype, alpha, of_a == MatrixOp::none ? a : transposed(a), of_b == MatrixOp::none ? b : transposed(b),
                   beta,  c};
  const bool is_complex = local::is_complex(dtype);
  task.conjugate_a = is_complex && of_a == MatrixOp::conjugate_transpose;
  task.conjugate_b = is_complex && of_b == MatrixOp::conjugate_transpose;
  if (task.a.columns == 0) return;
  local::engine(context().device).products().gemm(task, context());
}
void run(const local::Decomposition& task) { local::engine(context().device).decompositions().run(task, context()); }

void solve(DType dtype, Triangle triangle, MatrixOp op, bool unit_diagonal, const MatrixView& a, const MatrixView& b) {
  if (b.rows == 0 || b.columns == 0) return;
  run(local::TriangularSolve{dtype, triangle, op, unit_diagonal, stack_of(a), stack_of(b)});
}

Triangle other(Triangle triangle) { return triangle == Triangle::lower ? Triangle::upper : Triangle::lower; }

int64_t pivots_of(const NdArray& panel, int64_t first) { return std::min(panel.shape()[0], panel.shape()[1] - first); }

// ---- Square tiles ----

void gemm(Arrays tiles, const Parameters& parameters) {
  const auto operand = [&](size_t i) {
    const bool conjugates = static_cast<MatrixOp>(parameters[i - 1]) == MatrixOp::conjugate_transpose;
    return conjugates && !tiles[i].is_contiguous() ? tiles[i].copy() : in_lines(tiles[i]);
  };
  const NdArray a = operand(1), b = operand(2);
  multiply(a.dtype(), /*alpha=*/-1, view_of(a), static_cast<MatrixOp>(parameters[0]), view_of(b),
           static_cast<MatrixOp>(parameters[1]), /*beta=*/1, view_of(tiles[0]));
}

// By rows L is what the engine sees by columns as the upper U = L^T: a = L L^H is a^T = U^H U.
void potrf(Arrays tiles, const Parameters& parameters) {
  const NdArray& a = tiles[0];
  if (a.size() == 0) return;
  const auto triangle = static_cast<Triangle>(parameters[0]);
  const local::linalg::Info info({}, context());
  run(local::Cholesky{a.dtype(), other(triangle), local::linalg::stack_of(a), info.data()});
  const int64_t minor = local::item_or(info.array(), local::Scalar(0)).as_int64();
  if (minor != 0)
    throw local::LinAlgError(
        fmt::format("Matrix is not positive definite: its leading minor of order {} is not", parameters[1] + minor));
  local::linalg::keep_triangle(a, triangle);
}

void mirror(Arrays tiles, const Parameters& /*parameters*/) {
  const NdArray& a = tiles[0];
  const NdArray above = local::ops::triu(a, 1);
  a.assign(local::ops::triu(a) + local::apply("conjugate"_op, {above.T()}));
}

void trsm(Arrays tiles, const Parameters& parameters) {
  const NdArray& b = tiles[0];
  const NdArray t = tiles[1].is_contiguous() ? tiles[1] : tiles[1].copy();
  if (b.size() == 0) return;
  const auto triangle = static_cast<Triangle>(parameters[0] & 1);
  const auto op = static_cast<MatrixOp>(parameters[0] >> 1 & 3);
  const bool from_right = (parameters[0] >> 3 & 1) != 0, unit = (parameters[0] >> 4 & 1) != 0;
  // The engine sees both transposed: x op(t) = b is op(t)^T x^T = b^T.
  run(local::TriangularSolve{b.dtype(), other(triangle), op, unit, local::linalg::stack_of(t),
                             local::linalg::stack_of(b), !from_right});
}

void check_diagonal(Arrays tiles, const Parameters& parameters) {
  const NdArray diagonal = local::ops::diagonal(tiles[1]);
  const NdArray is_zero = local::apply("equal"_op, {diagonal, 0});
  if (!local::item_or(local::ops::any(is_zero), local::Scalar(false)).as_bool()) return;
  const int64_t at = parameters[0] + local::ops::argmax(is_zero).item().as_int64();
  throw local::LinAlgError(fmt::format("singular matrix: a diagonal element is zero, number {}", at));
}

void zeros(Arrays tiles, const Parameters& /*parameters*/) { tiles[0].fill(local::Scalar(0)); }
void keep(Arrays /*tiles*/, const Parameters& /*parameters*/) {}
void copy(Arrays tiles, const Parameters& /*parameters*/) { tiles[0].assign(tiles[1]); }

// ---- Panels ----

// a[:, moves[0]] = a[:, moves[1]], or `back` from there.
void move_rows(const NdArray& a, const NdArray& moves, bool back = false) {
  if (a.size() == 0 || moves.size() == 0) return;
  const int64_t lines = a.shape()[0], count = moves.shape()[1], item = a.itemsize();
  const NdArray moved({lines, count}, a.dtype());
  const auto elements = [&](int64_t which) {
    local::IndexedElements found{{lines, count}, {a.raw(), {a.strides()[0], 0}}, {}, local::IndexMode::unchecked};
    void* const positions = static_cast<int64_t*>(moves.raw()) + which * count;
    found.indices.push_back({{positions, {0, static_cast<int64_t>(sizeof(int64_t))}}, a.shape()[1], item, /*axis=*/1});
    found.distinct = true;  // those that occur twice get the same value
    return found;
  };
  local::Indexing& indexing = local::engine(context().device).indexing();
  indexing.gather(elements(back ? 0 : 1), {moved.raw(), moved.strides()}, item, context());
  indexing.scatter(elements(back ? 1 : 0), {moved.raw(), moved.strides()}, item, context());
}

// Row numbers, no exchange, no pivot of 0.
void positions(Arrays tiles, const Parameters& /*parameters*/) {
  const NdArray& order = tiles[0];
  const int64_t n = order.shape()[1] - 2;
  order.fill(local::Scalar(0));
  const Slice every{}, rows{0, n, 1};
  NdArray(order[{every, rows}]).assign(local::ops::arange(n));
}

// Nothing here waits for the device.
void getrf(Arrays tiles, const Parameters& parameters) {
  const NdArray &panel = tiles[0], &moves = tiles[1], &order = tiles.back();
  const int64_t first = parameters[0], rows = panel.shape()[1] - first, count = pivots_of(panel, first);
  const NdArray swaps({count}, DType::int32), sources({rows}, DType::int64);
  const local::linalg::Info info({}, context());
  run(local::Lu{panel.dtype(), stack_of(rows_of(panel, first, rows)), swaps.data<int32_t>(), info.data(),
                /*complete=*/true});
  run(local::RowOrder{swaps.data<const int32_t>(), 1, count, rows, sources.data<int64_t>()});
  // Each of the first rows comes from somewhere, and so does each row that one of them was exchanged with; the others
  // stay.
  const NdArray own = local::ops::arange(count), with = swaps.astype(DType::int64) - 1;
  const Slice every{}, left{0, count, 1}, right{count, 2 * count, 1};
  const auto part = [&](int64_t row, const Slice& columns) { return NdArray(moves[{row, columns}]); };
  part(0, left).assign(own + first);
  part(0, right).assign(with + first);
  part(1, left).assign(sources[{left}] + first);
  part(1, right).assign(local::ops::take(sources, with, std::nullopt, std::nullopt, "clip") + first);

  if (tiles.size() == 3)
    positions(tiles.last(1), parameters);
  else
    order.assign(tiles[2]);
  move_rows(order, moves);
  const int64_t n = order.shape()[1] - 2;
  const Slice number{n, n + 1, 1}, zero{n + 1, n + 2, 1};
  const NdArray exchanges = order[{every, number}], singular = order[{every, zero}];
  const NdArray is_exchange = local::apply("not_equal"_op, {own, with});
  exchanges.assign(exchanges + local::ops::sum(is_exchange.astype(DType::int64)));
  const NdArray found = info.array().astype(DType::int64);
  const NdArray here = local::apply("where"_op, {local::apply("greater"_op, {found, 0}), found + first, 0});
  singular.assign(local::apply("where"_op, {local::apply("equal"_op, {singular, 0}), here, singular}));
}
void check_pivots(Arrays tiles, const Parameters& /*parameters*/) {
  const NdArray& order = tiles[0];
  const Slice every{}, zero{order.shape()[1] - 1, order.shape()[1], 1};
  const int64_t pivot = local::item_or(order[{every, zero}].copy(), local::Scalar(0)).as_int64();
  if (pivot != 0) throw local::LinAlgError(fmt::format("Singular matrix: pivot {} is 0", pivot));
}

void solve_top(const NdArray& panel, const NdArray& c, int64_t first, Triangle triangle, MatrixOp op = MatrixOp::none) {
  const int64_t count = pivots_of(panel, first);
  solve(c.dtype(), triangle, op, /*unit_diagonal=*/triangle == Triangle::lower,
        first_columns(rows_of(panel, first, count), count), rows_of(c, first, count));
}
// Of rows [begin, end) of c, the panel's part times the rows that have been solved.
void subtract_product(const NdArray& panel, const NdArray& c, int64_t first, int64_t begin, int64_t end) {
  const int64_t count = pivots_of(panel, first);
  multiply(c.dtype(), /*alpha=*/-1, first_columns(rows_of(panel, begin, end - begin), count), MatrixOp::none,
           rows_of(c, first, count), MatrixOp::none, /*beta=*/1, rows_of(c, begin, end - begin));
}
void lu_top(Arrays tiles, const Parameters& parameters) {
  move_rows(tiles[0], tiles[2]);
  solve_top(tiles[1], tiles[0], parameters[0], Triangle::lower);
}
void lu_below(Arrays tiles, const Parameters& parameters) {
  const int64_t n = tiles[0].shape()[1];
  subtract_product(tiles[1], tiles[0], parameters[0], parameters[0] + pivots_of(tiles[1], parameters[0]), n);
}
void lu_back_top(Arrays tiles, const Parameters& parameters) {
  solve_top(tiles[1], tiles[0], parameters[0], Triangle::upper);
}
void lu_above(Arrays tiles, const Parameters& parameters) {
  subtract_product(tiles[1], tiles[0], parameters[0], 0, parameters[0]);
}
void lu_apply_to(Arrays tiles, const Parameters& parameters) {
  tiles[3].assign(tiles[2]);
  const NdArray now[] = {tiles[3], tiles[0], tiles[1]};
  lu_top(now, parameters);
  lu_below(now, parameters);
}
void lu_back_to(Arrays tiles, const Parameters& parameters) {
  tiles[2].assign(tiles[1]);
  const NdArray now[] = {tiles[2], tiles[0]};
  lu_back_top(now, parameters);
  lu_above(now, parameters);
}
// Of the panel's rows of c, its part transposed times rows [begin, end).
void subtract_transposed(const NdArray& panel, const NdArray& c, int64_t first, int64_t begin, int64_t end) {
  const int64_t count = pivots_of(panel, first);
  multiply(c.dtype(), /*alpha=*/-1, first_columns(rows_of(panel, begin, end - begin), count), MatrixOp::transpose,
           rows_of(c, begin, end - begin), MatrixOp::none, /*beta=*/1, rows_of(c, first, count));
}
void lu_less_above(Arrays tiles, const Parameters& parameters) {
  subtract_transposed(tiles[1], tiles[0], parameters[0], parameters[1], parameters[0]);
}
void lu_less_below(Arrays tiles, const Parameters& parameters) {
  const int64_t n = tiles[0].shape()[1];
  subtract_transposed(tiles[1], tiles[0], parameters[0], parameters[0] + pivots_of(tiles[1], parameters[0]), n);
}
void lu_top_transposed(Arrays tiles, const Parameters& parameters) {
  solve_top(tiles[1], tiles[0], parameters[0], Triangle::upper, MatrixOp::transpose);
}
void lu_back_transposed(Arrays tiles, const Parameters& parameters) {
  solve_top(tiles[1], tiles[0], parameters[0], Triangle::lower, MatrixOp::transpose);
  move_rows(tiles[0], tiles[2], /*back=*/true);
}
void place_rows(Arrays tiles, const Parameters& parameters) {
  const NdArray &c = tiles[0], &panel = tiles[1];
  const int64_t first = parameters[0], count = c.shape()[0], n = c.shape()[1];
  const Slice columns{0, count, 1}, every{}, rows{0, n, 1};
  const NdArray ones = local::linalg::identities({}, count, n - first, c.dtype());
  NdArray lower({count, n}, c.dtype());
  lower.fill(local::Scalar(0));
  const Slice behind{first, n, 1};
  NdArray(lower[{every, behind}]).assign(local::ops::triu(panel[{columns, behind}], 1) + ones);
  const NdArray order = tiles[2][{int64_t{0}, rows}];
  c(every, order) = lower;
}
void exchange_rows(Arrays tiles, const Parameters& /*parameters*/) { move_rows(tiles[0], tiles[1]); }

// The tile of V as it is used: (k, rows from `first` on), V by columns.
NdArray reflections(const NdArray& tile, const NdArray& panel, int64_t first) {
  return tile.reshape({pivots_of(panel, first), panel.shape()[1] - first});
}
// Tiles of T are all as high as the first; the last one may have fewer columns, and is used as far.
NdArray square(const NdArray& tile) {
  const Slice rows{0, tile.shape()[1], 1}, every{};
  return tile[{rows, every}];
}

// By a product form of Q: for orthonormal columns Q, whose signs make R's those of Householder's method,
// V = Q - [I; 0] and T = -V_top^-H give (I - V T V^H) [I; 0] = Q, and it is unitary (Yamamoto 2012, "Aggregation of the
// compact WY representations generated by the TSQR algorithm"). False where the panel is not decomposed so.
bool qr_by_products(const NdArray& part, const NdArray& t, const NdArray& v) {
  if (part.shape()[0] != v.shape()[0]) return false;
  const int64_t count = v.shape()[0];
  const auto found = local::linalg::tall_qr(part.T(), part.dtype(), /*with_q=*/true);
  if (!found) return false;
  const Slice pivots{0, count, 1}, every{};
  v.assign(found->q.T());
  const NdArray top = v[{every, pivots}];
  const NdArray diagonal = top.restrided({count}, {top.strides()[0] + top.strides()[1]}, top.offset());
  diagonal.assign(diagonal - 1);
  // By columns.
  t.assign(local::apply("negative"_op, {local::apply("conjugate"_op, {local::ops::inv(top.copy()).T()})}));
  part.fill(local::Scalar(0));
  NdArray(part[{every, pivots}]).assign(found->r.T());
  return true;
}

// T of H_1 ... H_k = I - V T V^H by its inverse: T^-1 + T^-H = V^H V (Puglisi 1992, "Modification of the Householder
// method based on the compact WY representation"), so above its diagonal T^-1 is V^H V, on it 1 / tau. A tau of 0 is no
// reflection: its column of V is zero, so that any number may be on the diagonal.
void qr_by_reflections(const NdArray& part, const MatrixView& columns, const NdArray& t, const NdArray& v) {
  const DType dtype = part.dtype();
  const int64_t count = v.shape()[0];
  const NdArray tau({count}, dtype);
  run(local::Qr{dtype, stack_of(columns), tau.raw()});
  // By columns the lower triangle of V is the upper one of its transpose.
  const Slice pivots{0, count, 1}, every{};
  v.assign(part[{pivots, every}]);
  local::linalg::keep_triangle(v, Triangle::upper, /*unit_diagonal=*/true);
  local::linalg::keep_triangle(part, Triangle::lower);
  const NdArray is_none = local::apply("equal"_op, {tau, 0});
  v.assign(local::apply("where"_op, {is_none.reshape({count, 1}), 0, v}));
  NdArray inverse({count, count}, dtype);
  const MatrixView by_columns = transposed(view_of(inverse)), all = transposed(view_of(v));
  multiply(dtype, 1, all, MatrixOp::conjugate_transpose, all, MatrixOp::none, 0, by_columns);
  const NdArray diagonal = local::linalg::identities({}, count, count, dtype);
  const NdArray is_above = local::apply("equal"_op, {diagonal, 0});
  const NdArray reciprocals = local::apply("divide"_op, {1., local::apply("where"_op, {is_none, 1, tau})});
  inverse.assign(local::apply("where"_op, {is_above, inverse, reciprocals}));
  t.assign(diagonal);
  solve(dtype, Triangle::upper, MatrixOp::none, /*unit_diagonal=*/false, by_columns, transposed(view_of(t)));
}

void geqrf(Arrays tiles, const Parameters& parameters) {
  const NdArray& panel = tiles[0];
  const int64_t first = parameters[0], n = panel.shape()[1];
  const NdArray t = square(tiles[1]), v = reflections(tiles[2], panel, first);
  const Slice every{}, rows{first, n, 1};
  const NdArray part = panel[{every, rows}];
  if (!qr_by_products(part, t, v)) qr_by_reflections(part, rows_of(panel, first, n - first), t, v);
}

void qr_apply(Arrays tiles, const Parameters& parameters) {
  const NdArray& c = tiles[0];
  const DType dtype = c.dtype();
  const int64_t first = parameters[0], n = c.shape()[1], count = tiles[1].shape()[1];
  if (c.size() == 0 || count == 0) return;
  const NdArray t = square(tiles[1]), v = tiles[2].reshape({count, n - first});
  const NdArray products({c.shape()[0], count}, dtype), scaled({c.shape()[0], count}, dtype);
  const MatrixView w = transposed(view_of(products)), s = transposed(view_of(scaled)), all = transposed(view_of(v));
  const MatrixView rest = rows_of(c, first, n - first);
  const MatrixOp of_t = parameters[1] != 0 ? MatrixOp::none : MatrixOp::conjugate_transpose;
  multiply(dtype, 1, all, MatrixOp::conjugate_transpose, rest, MatrixOp::none, 0, w);
  multiply(dtype, 1, transposed(view_of(t)), of_t, w, MatrixOp::none, 0, s);
  multiply(dtype, -1, all, MatrixOp::none, s, MatrixOp::none, 1, rest);
}

void identity(Arrays tiles, const Parameters& parameters) {
  const NdArray& c = tiles[0];
  c.fill(local::Scalar(0));
  // By columns: column i, from `first` on, has its one in row first + i.
  const int64_t count = std::min(c.shape()[0], c.shape()[1] - parameters[0]);
  if (count <= 0) return;
  const int64_t item = c.itemsize();
  c.restrided({count}, {(c.shape()[1] + 1) * item}, c.offset() + parameters[0] * item).fill(local::Scalar(1));
}

// ---- Tall matrices by blocks of rows ----

// The first `reads` tiles are what is decomposed, one above the other; the last one is R, the one before it Q where it
// is there.
void tall_qr(Arrays tiles, const Parameters& parameters) {
  const Arrays given = tiles.first(static_cast<size_t>(parameters[0])), results = tiles.subspan(given.size());
  const NdArray a = given.size() == 1 ? given[0] : local::ops::concatenate({given.begin(), given.end()});
  if (const auto found = local::linalg::tall_qr(a, a.dtype(), results.size() > 1, /*with_signs=*/false)) {
    if (results.size() > 1) results[0].assign(found->q);
    results.back().assign(found->r);
    return;
  }
  if (results.size() == 1) {
    results[0].assign(std::get<NdArray>(local::ops::qr(a, "r")));
    return;
  }
  const auto both = std::get<local::ops::QRResult>(local::ops::qr(a, "reduced"));
  results[0].assign(both.Q);
  results[1].assign(both.R);
}
void split_q(Arrays tiles, const Parameters& parameters) {
  const auto reads = static_cast<size_t>(parameters[0]);
  const NdArray q = reads == 1 ? tiles[0] : local::ops::matmul(tiles[0], tiles[1]);
  int64_t row = 0;
  for (const NdArray& part : tiles.subspan(reads)) {
    const Slice every{}, rows{row, row + part.shape()[0], 1};
    part.assign(q[{rows, every}]);
    row += part.shape()[0];
  }
}
void times(Arrays tiles, const Parameters& /*parameters*/) {
  const NdArray a = in_lines(tiles[0]), b = in_lines(tiles[1]);
  if (tiles[2].size() == 0) return;
  multiply(a.dtype(), 1, view_of(a), MatrixOp::none, view_of(b), MatrixOp::none, 0, view_of(tiles[2]));
}

// ---- Additions and multiplications ----

using Shapes = std::span<const Dims>;
double elements(const Dims& shape) { return static_cast<double>(shape[0]) * static_cast<double>(shape[1]); }
// Of an LU decomposition of m x n elements; those of a QR decomposition are twice as many.
double decomposition_flops(int64_t m, int64_t n) {
  const auto larger = static_cast<double>(std::max(m, n)), smaller = static_cast<double>(std::min(m, n));
  return smaller * smaller * (larger - smaller / 3);
}

double gemm_flops(Shapes shapes, const Parameters& parameters) {
  const bool stands = static_cast<MatrixOp>(parameters[0]) == MatrixOp::none;
  return 2 * elements(shapes[0]) * static_cast<double>(shapes[1][stands ? 1 : 0]);
}
double herk_flops(Shapes shapes, const Parameters& parameters) { return gemm_flops(shapes, parameters) / 2; }
double potrf_flops(Shapes shapes, const Parameters& /*parameters*/) {
  return elements(shapes[0]) * static_cast<double>(shapes[0][0]) / 3;
}
double trsm_flops(Shapes shapes, const Parameters& /*parameters*/) {
  return elements(shapes[0]) * static_cast<double>(shapes[1][0]);
}

// The panel (columns, n) of `first` and what it is applied to, (columns, n) too.
struct PanelStep {
  PanelStep(const Dims& panel, const Dims& c, const Parameters& parameters)
      : columns(static_cast<double>(c[0])),
        above(static_cast<double>(parameters[0])),
        pivots(static_cast<double>(std::min(panel[0], panel[1] - parameters[0]))),
        below(static_cast<double>(panel[1]) - above - pivots) {}
  double columns, above, pivots, below;
  double solve() const { return pivots * pivots * columns; }
  double product(double rows) const { return 2 * rows * pivots * columns; }
};
double getrf_flops(Shapes shapes, const Parameters& parameters) {
  return decomposition_flops(shapes[0][0], shapes[0][1] - parameters[0]);
}
double geqrf_flops(Shapes shapes, const Parameters& parameters) { return 2 * getrf_flops(shapes, parameters); }
double lu_top_flops(Shapes shapes, const Parameters& parameters) {
  return PanelStep(shapes[1], shapes[0], parameters).solve();
}
double lu_below_flops(Shapes shapes, const Parameters& parameters) {
  const PanelStep step(shapes[1], shapes[0], parameters);
  return step.product(step.below);
}
double lu_above_flops(Shapes shapes, const Parameters& parameters) {
  const PanelStep step(shapes[1], shapes[0], parameters);
  return step.product(step.above);
}
double lu_less_above_flops(Shapes shapes, const Parameters& parameters) {
  const PanelStep step(shapes[1], shapes[0], parameters);
  return step.product(step.above - static_cast<double>(parameters[1]));
}
double lu_apply_to_flops(Shapes shapes, const Parameters& parameters) {
  const PanelStep step(shapes[0], shapes[3], parameters);
  return step.solve() + step.product(step.below);
}
double lu_back_to_flops(Shapes shapes, const Parameters& parameters) {
  const PanelStep step(shapes[0], shapes[2], parameters);
  return step.solve() + step.product(step.above);
}
// Of reflections, as if they were applied one by one.
double qr_apply_flops(Shapes shapes, const Parameters& parameters) {
  const auto columns = static_cast<double>(shapes[0][0]), rows = static_cast<double>(shapes[0][1] - parameters[0]),
             count = static_cast<double>(shapes[1][1]);
  return 2 * columns * count * (2 * rows - count);
}
double tall_qr_flops(Shapes shapes, const Parameters& parameters) {
  const auto reads = static_cast<size_t>(parameters[0]);
  int64_t rows = 0;
  for (const Dims& shape : shapes.first(reads)) rows += shape[0];
  const bool with_q = shapes.size() > reads + 1;
  return 2 * decomposition_flops(rows, shapes[0][1]) * (with_q ? 2 : 1);
}
double product_flops(Shapes shapes, const Parameters& /*parameters*/) {
  return 2 * elements(shapes[0]) * static_cast<double>(shapes[1][1]);
}
double split_q_flops(Shapes shapes, const Parameters& parameters) {
  return parameters[0] == 1 ? 0 : product_flops(shapes, parameters);
}

}  // namespace

const TileKernel kGemm{"gemm", gemm, gemm_flops};
const TileKernel kHerk{"herk", gemm, herk_flops};
const TileKernel kPotrf{"potrf", potrf, potrf_flops};
const TileKernel kMirror{"mirror", mirror};
const TileKernel kTrsm{"trsm", trsm, trsm_flops};
const TileKernel kCheckDiagonal{"check diagonal", check_diagonal};
const TileKernel kZeros{"zeros", zeros};
const TileKernel kCopy{"copy", copy};
const TileKernel kKeep{"keep", keep};
const TileKernel kPositions{"positions", positions};
const TileKernel kGetrf{"getrf", getrf, getrf_flops};
const TileKernel kCheckPivots{"check pivots", check_pivots};
const TileKernel kLuTop{"exchange and solve", lu_top, lu_top_flops};
const TileKernel kLuBelow{"gemm", lu_below, lu_below_flops};
const TileKernel kLuApplyTo{"apply LU", lu_apply_to, lu_apply_to_flops};
const TileKernel kPlaceRows{"place rows", place_rows};
const TileKernel kExchangeRows{"exchange rows", exchange_rows};
const TileKernel kLuBackTop{"substitute back", lu_back_top, lu_top_flops};
const TileKernel kLuAbove{"gemm", lu_above, lu_above_flops};
const TileKernel kLuBackTo{"substitute back", lu_back_to, lu_back_to_flops};
const TileKernel kLuLessAbove{"gemm", lu_less_above, lu_less_above_flops};
const TileKernel kLuLessBelow{"gemm", lu_less_below, lu_below_flops};
const TileKernel kLuTopTransposed{"solve by U transposed", lu_top_transposed, lu_top_flops};
const TileKernel kLuBackTransposed{"solve and exchange back", lu_back_transposed, lu_top_flops};
const TileKernel kGeqrf{"geqrf", geqrf, geqrf_flops};
const TileKernel kQrApply{"apply QR", qr_apply, qr_apply_flops};
const TileKernel kQrForm{"form Q", qr_apply, geqrf_flops};
const TileKernel kIdentity{"identity", identity};
const TileKernel kTallQr{"qr", tall_qr, tall_qr_flops};
const TileKernel kSplitQ{"split q", split_q, split_q_flops};
const TileKernel kTimes{"times", times, product_flops};

Parameters gemm_parameters(MatrixOp of_a, MatrixOp of_b) {
  return {static_cast<int64_t>(of_a), static_cast<int64_t>(of_b)};
}
Parameters potrf_parameters(Triangle triangle, int64_t first) { return {static_cast<int64_t>(triangle), first}; }
Parameters TriangularTask::parameters() const {
  const int64_t flags = static_cast<int64_t>(triangle) | static_cast<int64_t>(op) << 1 | int64_t{from_right} << 3 |
                        int64_t{unit_diagonal} << 4;
  return {flags, 0};
}
Parameters qr_parameters(int64_t first, bool forward) { return {first, forward ? 1 : 0}; }
Parameters reads_of(int64_t count) { return {count, 0}; }
Parameters from_row(int64_t first, int64_t begin) { return {first, begin}; }

}  // namespace quarry::tiles
