// Products with sparse matrices, and triangular systems.
// Part of Engine: calls queue their work on context.stream and are thread-safe for different streams. Scratch comes
// from context.memory; how much, a vendor's library says when a call runs.
#pragma once

#include <functional>
#include <memory>

#include "quarry/local/program/engine.h"

namespace quarry::local {

namespace detail {
class LuFactors;  // local/program/sparse_factors.h
}
struct LuMatrix;
struct LuOptions;

// Compressed rows: row i has the elements [offsets[i], offsets[i + 1]) of `values`, in the columns that `indices`
// names.
struct CompressedRows {
  DType dtype = DType::float64;  // float32, float64, complex64 or complex128
  DType index = DType::int64;    // of indices and offsets: int32 or int64
  int64_t rows = 0, columns = 0, nonzeros = 0;
  const void* values = nullptr;
  const void* indices = nullptr;  // in range, in any order, several times in a row if need be
  const void* offsets = nullptr;  // rows + 1 of them
};

// c = a b, or a^T b with `transpose`. b and c have a's dtype, lie by rows (column_stride 1; row_stride 1 where there is
// one column) and overlap nothing.
struct SparseDenseProduct {
  CompressedRows a;
  bool transpose = false;
  MatrixView b, c;
};

// The elements of a by columns: the compressed rows of its transpose. Those of a column keep their order. Values of any
// dtype of at most 16 bytes; a and the arrays written overlap nothing.
struct SparseTranspose {
  CompressedRows a;
  void* values = nullptr;   // a.nonzeros of a.dtype
  void* indices = nullptr;  // a.nonzeros of a.index: rows of a
  void* offsets = nullptr;  // a.columns + 1 of a.index
};

// Solves a x = b (a^T x = b with `transpose`) for the triangle of a square matrix with sorted rows; what lies in the
// other triangle is not read, and with `unit_diagonal` neither is the diagonal. b and x have a's dtype, lie by columns
// (row_stride 1) and overlap nothing.
struct SparseTriangularSolve {
  CompressedRows a;
  Triangle triangle = Triangle::lower;
  bool unit_diagonal = false, transpose = false;
  MatrixView b, x;
};

// Room for the columns (of the operands' index dtype) and values of a product, given their number.
struct CompressedRoom {
  void* indices = nullptr;
  void* values = nullptr;
};
using AllocateCompressed = std::function<CompressedRoom(int64_t nonzeros)>;

class SparseProducts {
 public:
  virtual ~SparseProducts() = default;

  // Sums are formed in an order that depends on a alone; on a GPU that of a vector's and of a transpose's is the
  // library's.
  virtual void multiply(const SparseDenseProduct& product, const ExecContext& context) = 0;

  // a b of two sparse matrices of one dtype and one index dtype: writes the a.rows + 1 offsets, asks once for room and
  // fills it; rows come out sorted, each column once, and values that cancelled stay as zeros. Blocks, and takes
  // scratch from context.memory as it needs it. Throws NotSupported where the backend cannot do that size.
  virtual void multiply_sparse(const CompressedRows& a, const CompressedRows& b, void* offsets,
                               const AllocateCompressed& allocate, const ExecContext& context) = 0;

  // May block.
  virtual void transpose(const SparseTranspose& task, const ExecContext& context) = 0;

  // A zero on the diagonal gives inf or NaN; one that is missing counts as zero.
  virtual void solve(const SparseTriangularSolve& solve, const ExecContext& context) = 0;

  // Incomplete factors L and U of a square matrix, in its own places: Saad, Iterative Methods for Sparse Linear
  // Systems, 2003, section 10.3.2. Rows are sorted, each column once. `values`, a copy of a's, become U's on and above
  // the diagonal and L's below it, whose diagonal is of ones. Returns the first row whose pivot is missing or zero, -1
  // where there is none. Blocks.
  virtual int64_t factorise_incomplete(const CompressedRows& a, void* values, const ExecContext& context) = 0;

  // A direct factorisation of a matrix in host memory; blocks, takes the system's memory. Throws LinAlgError for a
  // singular matrix, InvalidArgument for options that do not exist, OutOfMemory, NotSupported where the kind has none.
  virtual std::unique_ptr<LuFactors> factorise(const LuMatrix& a, const LuOptions& options);
};

}  // namespace quarry::local
