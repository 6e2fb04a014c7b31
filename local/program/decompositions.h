// Factorisations of stacks of matrices, and what is solved with them.
// Part of Engine: the same contract (queued on context.stream, scratch from context.memory and at most what the
// *_scratch_bytes() function says, thread-safe for different streams). Svd, Eigh and Eig may block. Host memory that
// cuSOLVER asks for comes from the pinned pool, and is not counted.
//
// dtypes are float32, float64, complex64 and complex128; others throw TypeError. Extents are those of LAPACK (32 bits;
// NotSupported beyond). What a matrix does to the algorithm is told per matrix by `info`, count elements on the device:
// 0 where all is well, positive where the matrix is singular, not positive definite, or does not converge; its results
// are then unspecified, those of the other matrices are not touched by it.
#pragma once

#include <optional>
#include <variant>

#include "quarry/local/base/error.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/subset.h"

namespace quarry::local {

// `count` matrices one after the other, each column by column without gaps. Lu, Qr and TriangularSolve also take a part
// of a larger matrix, one: its columns are `distance` elements apart.
struct MatrixStack {
  void* data = nullptr;
  int64_t count = 0, rows = 0, columns = 0;
  int64_t distance = 0;                                // 0: rows
  int64_t elements() const { return rows * columns; }  // of one matrix
  bool is_part() const { return distance != 0 && distance != rows; }
  int64_t leading() const { return is_part() ? distance : rows; }
};

enum class MatrixOp : uint8_t { none, transpose, conjugate_transpose };

// P a = L U in place, by partial pivoting: L's diagonal is 1 and not stored. Rows were swapped in turn: i with
// pivots[i] - 1, min(rows, columns) of them per matrix. info: a pivot is 0; a library may say so of NaN. `complete`
// asks for the factors of such matrices too, and for LAPACK's choice of pivots, the largest |re| + |im|; else any large
// element may be the pivot.
struct Lu {
  DType dtype;
  MatrixStack a;
  int32_t* pivots;
  int32_t* info;
  bool complete = false;
};
// b becomes the solution of op(a) x = b, from what Lu left of square a; a.count is b.count.
struct LuSolve {
  DType dtype;
  MatrixOp op;
  MatrixStack lu;
  const int32_t* pivots;
  MatrixStack b;
};
// `out` becomes the inverses of square a, which is overwritten.
struct Inverse {
  DType dtype;
  MatrixStack a, out;
  int32_t* info;
};
// One triangle of Hermitian a is read and becomes the factor: a = L L^H (lower) or U^H U (upper). The other triangle's
// elements are unspecified. info: not positive definite.
struct Cholesky {
  DType dtype;
  Triangle triangle;
  MatrixStack a;
  int32_t* info;
};
// b becomes the solution of op(a) x = b, or `from_right` of x op(a) = b, where a is triangular; a zero on the diagonal
// gives infinities and NaN.
struct TriangularSolve {
  DType dtype;
  Triangle triangle;
  MatrixOp op;
  bool unit_diagonal;
  MatrixStack a, b;
  bool from_right = false;
};
// a = Q R in place, as LAPACK's geqrf: R above, Householder vectors below the diagonal, min(rows, columns) factors tau
// per matrix.
struct Qr {
  DType dtype;
  MatrixStack a;
  void* tau;
};
// The first a.columns columns of the product of `reflectors` Householder reflections (at least one), from what Qr left
// in a's first columns; a.rows >= a.columns >= reflectors. `tau_step` is the distance of a matrix's factors.
struct FormQ {
  DType dtype;
  MatrixStack a;
  int64_t reflectors;
  const void* tau;
  int64_t tau_step;
};
// a = u diag(values) vh for a.rows >= a.columns, which is overwritten; values descend. u has rows x columns or rows x
// rows, vh columns x columns; without u.data and vh.data only values are computed. a is finite.
struct Svd {
  DType dtype;
  MatrixStack a;
  void* values;  // of real_type(dtype)
  MatrixStack u, vh;
  int32_t* info;
};
// Eigenvalues, ascending, of Hermitian a, of which one triangle is read; a becomes the eigenvectors (in columns) or, if
// they are not asked for, is overwritten. a is finite. Of a `subset` alone: its eigenvalues are the first of each
// matrix's n in `values`, its eigenvectors the first columns of a, what is behind them is unspecified, and `found`, one
// for each matrix on the device, says how many there are.
struct Eigh {
  DType dtype;
  Triangle triangle;
  bool vectors;
  MatrixStack a;
  void* values;  // of real_type(dtype)
  int32_t* info;
  std::optional<Subset> subset = std::nullopt;
  int32_t* found = nullptr;
};
// The most eigenvalues that a subset of n may have.
inline int64_t most_of(const Subset& subset, int64_t n) {
  const auto* range = std::get_if<ByIndex>(&subset);
  return range != nullptr ? range->last - range->first + 1 : n;
}
// Eigenvalues of general a, which is overwritten, and its eigenvectors of length 1 where vectors.data is given. Those
// of real matrices lie as in LAPACK's geev: real and imaginary part in two columns for each conjugate pair. a is
// finite.
struct Eig {
  DType dtype;
  MatrixStack a;
  void* values;  // complex
  MatrixStack vectors;
  int32_t* info;
};

// order[i] of each of `count` matrices: the row that Lu brought to row i, from pivots as Lu leaves them.
struct RowOrder {
  const int32_t* pivots;
  int64_t count, swaps, rows;
  int64_t* order;
};
// For orthonormal columns, of which square `a` holds the first rows, and an upper triangle R with a positive diagonal:
// the signs that R's diagonal has in LAPACK's decomposition of their product. They are the s of an elimination without
// exchanges, a - diag(s) = L U, where s_j is -1 or 1, against the real part of the pivot that it changes (Ballard et
// al. 2014, "Reconstructing Householder vectors from tall-skinny QR"). `a` is overwritten.
struct ReflectionSigns {
  DType dtype;
  MatrixStack a;
  void* signs;  // of real_type(dtype)
};

// What a GPU does with small matrices at once, each read once.
//
// b becomes the solution of a x = b for square a, whose matrices stand row by row (`by_rows`) or column by column;
// a.count is b.count. a is not changed. info: singular, or NaN.
struct Solve {
  DType dtype;
  MatrixStack a;
  bool by_rows;
  MatrixStack b;
  int32_t* info;
};
// Sign (of the dtype) and logarithm of the absolute value (of its real type) of each determinant, of square a, which is
// not changed: 0 and minus infinity where a is singular, NaN where it has NaN.
struct LogDeterminant {
  DType dtype;
  MatrixStack a;
  void* sign;
  void* logarithm;
};
// `out`, row by row, becomes the factor that Cholesky describes, as the triangle of a that is read, and 0 in the other
// triangle; a stands row by row (`by_rows`) or column by column, and is not changed. info: not positive definite, or
// NaN.
struct CholeskyFactor {
  DType dtype;
  Triangle triangle;
  MatrixStack a;
  bool by_rows;
  MatrixStack out;
  int32_t* info;
};
using AtOnce = std::variant<Solve, LogDeterminant, CholeskyFactor>;

// In place: zeros outside of the triangle of `count` matrices in C order, of elements of any dtype; with
// `unit_diagonal`, ones on the diagonal.
struct KeptTriangle {
  DType dtype;
  Triangle triangle;
  bool unit_diagonal;
  void* data;
  int64_t count, rows, columns;
};

// What LAPACK alone has, on matrices in the CPU's memory.
//
// b becomes the solution of a x = b for banded a, whose element (i, j) is at (lower + upper + i - j, j) of the stack;
// the first `lower` rows of that are for what pivoting adds, so that it has 2 lower + upper + 1. info: singular.
struct BandedSolve {
  DType dtype;
  int64_t lower, upper;
  MatrixStack a, b;
  int32_t* info;
};
// The same for Hermitian positive definite a, by one triangle: (i, j) is at (i - j, j) of the stack (lower) or at
// (a.rows - 1 + i - j, j) (upper). info: the leading minor that is not positive definite.
struct HermitianBandedSolve {
  DType dtype;
  Triangle triangle;
  MatrixStack a, b;
  int32_t* info;
};
// b becomes the solution of a x = b where a has constant diagonals: a[i, j] is column[i - j], or row[j - i] above the
// main one, both of b.rows elements. info: a leading minor is singular.
struct ToeplitzSolve {
  DType dtype;
  const void* column;
  const void* row;
  MatrixStack b;
  int32_t* info;
};
// Symmetric or Hermitian a = F D F^T or F D F^H by Bunch and Kaufman's pivoting; one triangle is read. a becomes F,
// whose rows `order` (n per matrix) are a triangle with ones on the diagonal; D has blocks of 1 and 2.
struct Ldl {
  DType dtype;
  Triangle triangle;
  bool hermitian;
  MatrixStack a, d;
  int64_t* order;
};
// a = Z T Z^H: a becomes T, upper triangular, for real matrices with blocks of 2 for pairs of complex eigenvalues.
// info: no convergence. a is finite.
struct Schur {
  DType dtype;
  MatrixStack a, vectors;
  int32_t* info;
};
using HostDecomposition = std::variant<BandedSolve, HermitianBandedSolve, ToeplitzSolve, Ldl, Schur>;

using Decomposition =
    std::variant<Lu, LuSolve, Inverse, Cholesky, TriangularSolve, Qr, FormQ, Svd, Eigh, Eig, RowOrder, ReflectionSigns>;

class Decompositions {
 public:
  virtual ~Decompositions() = default;
  // The most that run() takes; reads no memory that the task names. A GPU's are what its libraries say, and so need
  // one.
  virtual int64_t scratch_bytes(const Decomposition& task) = 0;
  virtual void run(const Decomposition& task, const ExecContext& context) = 0;
  // By the CPU's engine alone; the others throw NotSupported.
  virtual int64_t host_scratch_bytes(const HostDecomposition&) { throw_on_host(); }
  virtual void run_on_host(const HostDecomposition&, const ExecContext&) { throw_on_host(); }
  // Whether the backend has a routine for tasks of these shapes, whatever the addresses; Lu serves else. No scratch.
  virtual bool takes(const AtOnce&, const ExecContext&) { return false; }
  virtual void run_at_once(const AtOnce&, const ExecContext&) {
    throw NotSupported("this backend has no routine that does it at once");
  }
  // False where a backend has no routine for it, and nothing is done. No scratch.
  virtual bool keep(const KeptTriangle&, const ExecContext&) { return false; }

  // Eigenvalues (ascending, real_type(dtype), n) and eigenvectors (n x n, row-major, in columns) of a Hermitian matrix
  // of which `triangle` is read. Throws InvalidArgument for NaN or inf, and where the solver does not converge (NumPy's
  // LinAlgError). Blocks.
  virtual int64_t eigh_scratch_bytes(DType dtype, int64_t n) = 0;
  virtual void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors,
                    const ExecContext& context) = 0;

 private:
  [[noreturn]] static void throw_on_host() { throw NotSupported("this decomposition runs on the CPU alone"); }
};

}  // namespace quarry::local
