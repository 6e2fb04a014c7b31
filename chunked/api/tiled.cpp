#include "quarry/chunked/api/tiled.h"

#include <algorithm>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/sorting.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/op/operator.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/chunked/tiles/program.h"

namespace quarry::linalg::tiled {
namespace {

using namespace compose;
using local::MatrixOp;

// What all ranks have for tasks; 0 where nothing is to run.
int64_t job_memory() {
  const Runtime& runtime = Runtime::current();
  return runtime.plan_bytes() * runtime.size();
}
// The rows in an order that is computed with them; take() would compute it first. Tasks hold whole columns.
Array rows_in(const Array& x, const Array& order) {
  if (x.ndim() == 1) return take_along_axis(x, order, 0);
  const Array lines = in_fitting_chunks(with_whole_axis(x, 0), algo::taken_along_bytes(x.dtype()), 0);
  return take_along_axis(lines, broadcast_to(expand_dims(order, 1), x.shape()).rechunk(lines.chunks()), 0);
}
Array columns_of(const Array& x, int64_t count) { return arrange::part(x, 1, 0, count); }
// Of what algo::lu() gives for a matrix of m rows.
PackedFactors packed(const std::vector<expr::NodePtr>& found, int64_t m) {
  return {transpose(Array(found[0])), squeeze(columns_of(Array(found[1]), m), Axes(0))};
}

}  // namespace

bool is_large(const Array& a, DType dtype, int arrays) {
  constexpr int64_t kFew = 2;  // tiles along an axis, of which one device makes no less
  if (a.ndim() != 2 || a.size() == 0) return false;
  const int64_t n = std::max(a.shape(0), a.shape(1));
  if (n > kFew * tiles::tile_edge(n, dtype, /*together=*/1, /*room=*/0)) return true;
  // Smaller ones stay whole in any budget, so that their bits do not depend on it.
  constexpr int64_t kLeastBytes = 256 << 10;
  const int64_t one = a.size() * local::itemsize(dtype), bytes = arrays * one, room = Runtime::current().plan_bytes();
  return one > kLeastBytes && room > 0 && bytes + op::estimated_peak_bytes(bytes) > room;
}

bool is_tall(const Array& a, DType dtype) {
  constexpr int64_t kTall = 4;
  const int64_t m = a.shape(0), n = a.shape(1);
  return m >= kTall * n && n <= 2 * tiles::panel_width(m, n, dtype, /*together=*/1, /*room=*/0);
}

Array cholesky(const Array& a, bool upper) {
  return Array(algo::cholesky(a.node(), upper ? local::Triangle::upper : local::Triangle::lower, job_memory()));
}

Array solve_triangular(const Array& a, const Array& b, local::Triangle triangle, local::MatrixOp op,
                       bool unit_diagonal) {
  const bool vector = b.ndim() == 1;
  const Array sides = vector ? expand_dims(b, 1) : b;
  const Array x(algo::solve_triangular(a.node(), sides.node(), {triangle, op, unit_diagonal}));
  return vector ? squeeze(x, Axes(1)) : x;
}

Array solve(const Array& a, const Array& b) {
  const bool vector = b.ndim() == 1;
  const Array sides = vector ? expand_dims(b, 0) : transpose(b);
  const Array x(algo::solve(transpose(a).node(), sides.node(), job_memory()));
  return vector ? squeeze(x, Axes(0)) : transpose(x);
}

Array inv(const Array& a) { return Array(algo::inverse(transpose(a).node(), job_memory())); }

SlogdetResult slogdet(const Array& a) {
  const std::vector<expr::NodePtr> found = algo::lu(transpose(a).node(), job_memory(), algo::LuRows::own);
  const Array pivots = quarry::diagonal(Array(found[0])), order(found[1]);
  const Array exchanges = arrange::part(order, 1, a.shape(0), 1);
  const Array parity = (1 - 2 * (squeeze(exchanges) % 2)).astype(a.dtype());
  return {prod(sign(pivots)) * parity, sum(log(absolute(pivots)))};
}
Array det(const Array& a) {
  const SlogdetResult parts = slogdet(a);
  return parts.sign * exp(parts.logabsdet).astype(a.dtype());
}

PackedFactors packed_lu(const Array& a) {
  return packed(algo::lu(transpose(a).node(), job_memory(), algo::LuRows::last), a.shape(0));
}

Array solve_by_lu(const Array& lower, const Array& upper, const Array& order, const Array& b, MatrixOp op) {
  const auto by_lower = [&](const Array& sides) {
    return solve_triangular(lower, sides, Triangle::lower, op, /*unit_diagonal=*/true);
  };
  const auto by_upper = [&](const Array& sides) {
    return solve_triangular(upper, sides, Triangle::upper, op, /*unit_diagonal=*/false);
  };
  if (op == MatrixOp::none) return by_upper(by_lower(rows_in(b, order)));
  return rows_in(by_lower(by_upper(b)), argsort(order));
}

Array solve_by_cholesky(const Array& factor, const Array& b, Triangle triangle) {
  const auto solved = [&](const Array& sides, MatrixOp op) {
    return solve_triangular(factor, sides, triangle, op, /*unit_diagonal=*/false);
  };
  if (triangle == Triangle::lower) return solved(solved(b, MatrixOp::none), MatrixOp::conjugate_transpose);
  return solved(solved(b, MatrixOp::conjugate_transpose), MatrixOp::none);
}

Factors lu(const Array& a, bool permute_l) {
  const std::vector<expr::NodePtr> found =
      algo::lu(transpose(a).node(), job_memory(), permute_l ? algo::LuRows::placed : algo::LuRows::last);
  const int64_t m = a.shape(0), k = std::min(m, a.shape(1));
  const auto [both, order] = packed(found, m);
  const Array upper = triu(arrange::part(both, 0, 0, k));
  if (permute_l) return {transpose(Array(found[2])), upper, order};
  const Array left = columns_of(both, k);
  const Array ones = positions(left.shape(), 0) == positions(left.shape(), 1);
  return {where(ones, constant(Dims{}, 1, a.dtype()), tril(left, -1)), upper, order};
}

Orthogonal qr(const Array& a, bool with_q, bool complete) {
  const int64_t m = a.shape(0), n = a.shape(1), k = std::min(m, n);
  if (m >= n && !complete && is_tall(a, a.dtype())) {
    const std::vector<expr::NodePtr> found = algo::tall_qr(a.node(), with_q);
    return {with_q ? std::optional(Array(found[1])) : std::nullopt, Array(found[0])};
  }
  const std::vector<expr::NodePtr> found = algo::qr(transpose(a).node(), !with_q ? -1 : complete ? m : k, job_memory());
  const Array r = triu(arrange::part(transpose(Array(found[0])), 0, 0, complete ? m : k));
  return {with_q ? std::optional(transpose(Array(found[1]))) : std::nullopt, r};
}

}  // namespace quarry::linalg::tiled
