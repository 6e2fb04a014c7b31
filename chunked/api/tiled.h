// Matrices that are decomposed by tiles, on all ranks and beyond memory: what quarry::linalg does with large ones.
// Private to this folder. Arguments have been checked; they and the results have the dtype that solvers compute in.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "quarry/chunked/api/linalg.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::linalg::tiled {

// Whether a matrix is decomposed by tiles: of several along an axis, or where the local function does not fit the
// budget, with so many arrays of the matrix's size as arguments and results: one of more than 256 KiB. Depends on
// shape, dtype, chunk_policy() and the budget. False for stacks.
bool is_large(const Array& a, DType dtype, int arrays = 2);
// Of a matrix with at least as many rows as columns, whether it is decomposed by blocks of rows.
bool is_tall(const Array& a, DType dtype);

Array cholesky(const Array& a, bool upper);
Array solve_triangular(const Array& a, const Array& b, local::Triangle triangle, local::MatrixOp op,
                       bool unit_diagonal);
Array solve(const Array& a, const Array& b);  // b has one or two axes
Array inv(const Array& a);
SlogdetResult slogdet(const Array& a);
Array det(const Array& a);
// L, or P L with `permute_l`, U, and the row of `a` that row i of L U is (int64).
struct Factors {
  Array lower, upper, order;
};
Factors lu(const Array& a, bool permute_l);
// L below its diagonal of ones and U in one array, and the same order.
struct PackedFactors {
  Array both, order;
};
PackedFactors packed_lu(const Array& a);
// x of op(a) x = b by what lu() or packed_lu(), or cholesky(), made of a.
Array solve_by_lu(const Array& lower, const Array& upper, const Array& order, const Array& b,
                  local::MatrixOp op = local::MatrixOp::none);
Array solve_by_cholesky(const Array& factor, const Array& b, local::Triangle triangle);
// R, and Q of so many columns.
struct Orthogonal {
  std::optional<Array> q;
  Array r;
};
Orthogonal qr(const Array& a, bool with_q, bool complete);

}  // namespace quarry::linalg::tiled
