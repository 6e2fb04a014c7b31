// The tasks of factorisations: LAPACK's block operations on tiles.
//
// Square tiles are stored by rows. A panel is a column block with all rows of the matrix and is stored by columns: its
// tile has shape (columns, rows), so a matrix of panels is kept as its transpose. Parts of panels are named by the row
// at which they begin.
#pragma once

#include "quarry/chunked/tiles/program.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::tiles {

using local::MatrixOp;
using local::Triangle;

// ---- Square tiles ----

// update(c), read(a), read(b): c -= op(a) op(b); a conjugate transpose only of b, or of a.
extern const TileKernel kGemm;
// The same where a and b are one tile and c is Hermitian: half of the operations.
extern const TileKernel kHerk;
Parameters gemm_parameters(MatrixOp of_a, MatrixOp of_b);

// update(a): the factor of a Hermitian tile, of which one triangle is read, and zeros in the other triangle. Throws
// LinAlgError with the order of the leading minor of the whole matrix that is not positive definite; `first`: the row
// of the matrix at which the tile begins.
extern const TileKernel kPotrf;
Parameters potrf_parameters(Triangle triangle, int64_t first);
// update(a): a Hermitian tile whose lower triangle becomes that of the upper one.
extern const TileKernel kMirror;

// update(b), read(t): x of op(t) x = b, or of x op(t) = b, for a triangle t.
extern const TileKernel kTrsm;
struct TriangularTask {
  Triangle triangle;
  MatrixOp op = MatrixOp::none;
  bool from_right = false, unit_diagonal = false;
  Parameters parameters() const;
};
// update(b), which it leaves alone, read(t): throws LinAlgError where the diagonal of t has a zero; `first`: its first
// row in the matrix.
extern const TileKernel kCheckDiagonal;

// write(a): zeros.
extern const TileKernel kZeros;
// write(a): read(b).
extern const TileKernel kCopy;
// update(a): leaves it as it is, for an output that is an argument.
extern const TileKernel kKeep;

// ---- Panels ----

// LU with partial pivoting of rows [first, n) of a panel.
// update(panel), write(moves), read(order before), write(order): `moves` (2, 2 k) int64 names rows: row moves[0, i]
// comes from row moves[1, i], for the k pivots of the panel, with repetitions. `order` is (1, n + 2) int64: the row of
// the matrix that each row is now, how many exchanges that took, and the first pivot that is 0, counted from 1, or 0.
// Of the first panel, which has no order before: update(panel), write(moves), write(order).
extern const TileKernel kGetrf;
// write(order): that of no exchanges.
extern const TileKernel kPositions;
// read(order): throws LinAlgError where a pivot is 0.
extern const TileKernel kCheckPivots;
// update(c), read(panel), read(moves): the same exchanges of rows, and U of the panel's rows.
extern const TileKernel kLuTop;
// update(c), read(panel): what is below these rows, less its product with them.
extern const TileKernel kLuBelow;
// read(panel), read(moves), read(b), write(c): both, of b.
extern const TileKernel kLuApplyTo;
// update(c), read(panel): x of U x = c for the panel's rows; and what is above them, less its product with them.
extern const TileKernel kLuBackTop;
extern const TileKernel kLuAbove;
// read(panel), read(b), write(c): both, of b.
extern const TileKernel kLuBackTo;
// Of A^T = U^T L^T P: update(c), read(panel): the panel's rows of c, less the product of U^T with those above them,
// from row `begin` on, before which c is zero; or of L^T with those below them.
extern const TileKernel kLuLessAbove;
extern const TileKernel kLuLessBelow;
// update(c), read(panel): x of U^T x = c for the panel's rows.
extern const TileKernel kLuTopTransposed;
// update(c), read(panel), read(moves): x of L^T x = c for them, and then the exchanges of rows undone.
extern const TileKernel kLuBackTransposed;
// update(l), read(moves): rows exchanged in an earlier panel.
extern const TileKernel kExchangeRows;
// write(c), read(panel), read(order): L's columns from row `first` on, with their ones and zeros, each row where it was
// in the matrix.
extern const TileKernel kPlaceRows;

// QR of rows [first, n) of a panel by a block reflection H = I - V T V^H of k columns: panel = H [R; 0].
// update(panel), write(t), write(v): the first k rows of t (.., k) are T by columns, v (1, k (n - first)) is V by
// columns. R stands in the panel, and zeros below it.
extern const TileKernel kGeqrf;
// update(c), read(t), read(v): H^H c, or H c with `forward`.
extern const TileKernel kQrApply;
// The same to the panel's own columns of the identity: as many operations as the panel took.
extern const TileKernel kQrForm;
Parameters qr_parameters(int64_t first, bool forward);
// write(c): columns of the identity, from number `first` on.
extern const TileKernel kIdentity;

// ---- Tall matrices by blocks of rows ----

// read(a)..., write(q), write(r), or without q: the reduced Q R of what is read, one above the other, which has at
// least as many rows as columns.
extern const TileKernel kTallQr;
// read(q), write(part)..., or read(q), read(s), write(part)...: the rows of q, or of q s, in parts.
extern const TileKernel kSplitQ;
Parameters reads_of(int64_t count);  // of both
// read(q), read(s), write(c): c = q s.
extern const TileKernel kTimes;

Parameters from_row(int64_t first, int64_t begin = 0);

}  // namespace quarry::tiles
