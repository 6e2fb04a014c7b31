// Linear maps by what they do to chunked vectors: what the iterative solvers work with, for matrices that exceed one
// device or memory, and for those that are never formed. As scipy.sparse.linalg.LinearOperator. Lazy.
#pragma once

#include <functional>
#include <optional>

#include "quarry/chunked/api/sparse.h"

namespace quarry::sparse::linalg {

// Cheap to copy. Vectors are (n,) or (n, 1) and results like them; matrices are (n, k).
//   const LinearOperator shifted({n, n}, [=](const Array& x) { return matvec(a, x) + 2 * x; });
class LinearOperator {
 public:
  // From a lazy array to a lazy array, called on every rank alike. Vectors come with one axis.
  using Apply = std::function<Array(const Array&)>;

  // Without rmatvec (A^H x) there is no adjoint; matmat goes column by column where it is not given. Throws
  // InvalidArgument where the shape has not two extents, or there is no matvec.
  LinearOperator(const Dims& shape, Apply matvec, Apply rmatvec = {}, DType dtype = DType::float64, Apply matmat = {},
                 Apply rmatmat = {});
  // Of a matrix, whose cuts along rows and columns are those of vectors. It is computed, or read from its file, anew in
  // every product, a chunk at a time: what is no file's and takes time is persist()ed first.
  LinearOperator(const Array& a);
  // Of a sparse matrix, whose chunks of rows are those of results and, where it is square, of vectors. Its adjoint is a
  // matrix that is made at the first use, collectively, and kept.
  LinearOperator(const SparseArray& a);

  const Dims& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  // The chunks of what matvec() gives and of what it takes, where the operator has any of its own.
  const std::optional<AxisChunks>& row_chunks() const { return row_chunks_; }
  const std::optional<AxisChunks>& column_chunks() const { return column_chunks_; }
  // Throw InvalidArgument for shapes that do not match, NotSupported where there is no adjoint.
  Array matvec(const Array& x) const;
  Array rmatvec(const Array& x) const;  // A^H x
  Array matmat(const Array& x) const;
  Array rmatmat(const Array& x) const;
  Array dot(const Array& x) const { return x.ndim() == 2 && x.shape()[1] != 1 ? matmat(x) : matvec(x); }
  Array operator()(const Array& x) const { return dot(x); }

  LinearOperator adjoint() const;
  LinearOperator H() const { return adjoint(); }
  LinearOperator transpose() const;
  LinearOperator T() const { return transpose(); }

 private:
  Dims shape_;
  DType dtype_;
  std::optional<AxisChunks> row_chunks_, column_chunks_;
  Apply matvec_, rmatvec_, matmat_, rmatmat_;
};
LinearOperator operator+(const LinearOperator& a, const LinearOperator& b);
LinearOperator operator-(const LinearOperator& a, const LinearOperator& b);
LinearOperator operator*(const LinearOperator& a, const LinearOperator& b);  // a of b
LinearOperator operator*(const Scalar& factor, const LinearOperator& a);

inline LinearOperator aslinearoperator(const LinearOperator& a) { return a; }

// ---- Preconditioners: approximations of the inverse of a square matrix ----

// Division by the diagonal (Saad, Iterative Methods for Sparse Linear Systems, 2003, section 10.2), of which n elements
// are read and kept. Collective, blocking. Throws InvalidArgument where the matrix is not square, LinAlgError where the
// diagonal has a zero.
LinearOperator jacobi(const Array& a);
LinearOperator jacobi(const SparseArray& a);
// The inverses of the blocks on the diagonal, one for every chunk of rows (the same book, section 12.2), made by the
// local inv() on the owner of the rows. Only those blocks are read; they are kept, in all n times the largest block's
// extent elements. Collective, blocking. Throws InvalidArgument where the matrix is not square; LinAlgError, that names
// the chunk, where a block is singular.
LinearOperator block_jacobi(const Array& a);
LinearOperator block_jacobi(const SparseArray& a);
// Incomplete factors L U of the blocks on the diagonal, one for every chunk of rows, without fill (the same book,
// sections 10.3 and 12.2): Hermitian where a is. As many elements as the blocks are kept, and each chunk is factorised
// and solved on the owner of the rows; by cuSPARSE on a GPU. A dense matrix becomes a sparse one, in
// chunks of whole rows. Collective, blocking.
// Throws InvalidArgument where the matrix is not square, LinAlgError that names the row whose pivot is zero or missing.
LinearOperator ilu(const Array& a);
LinearOperator ilu(const SparseArray& a);

}  // namespace quarry::sparse::linalg
