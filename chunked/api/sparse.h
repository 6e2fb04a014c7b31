// Sparse matrices of any size, in compressed rows (CSR) cut into chunks of rows, on all ranks and spilled where they
// exceed memory. Names as SciPy's, and as those of one process in quarry::local::sparse.
// csr_array(data, indices, indptr, Dims{m, n}) makes one, matmul(a, x) multiplies, and linalg::cg(a, b) solves.
//
// What a chunk of rows touches of a vector is settled when a matrix is made, so that a product brings these parts
// alone, while other chunks are worked on. Structure is computed when a matrix is made: collective, blocking. Values
// are lazy.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/operand.h"
#include "quarry/local/sparse/sparse_array.h"

namespace quarry::algo {
struct SparseChunks;  // chunked/algo/sparse.h
struct SparseNodes;
}  // namespace quarry::algo

namespace quarry::sparse {

// A handle of something immutable, as Array. Values have any dtype but the 16-bit floats. Elements may be stored
// several times: they add up.
class SparseArray {
 public:
  const Dims& shape() const { return shape_; }
  int ndim() const { return 2; }
  DType dtype() const { return data_.dtype(); }
  // Stored elements, zeros and duplicates included.
  int64_t nnz() const;
  int64_t getnnz() const { return nnz(); }
  // The chunks of rows. Columns are not cut.
  const AxisChunks& chunks() const;
  // The values, rows after rows. Lazy until persist().
  const Array& data() const { return data_; }
  // The columns of the values, and where rows begin among them, (rows + 1): int64, as SciPy's csr_array has them. Lazy.
  Array indices() const;
  Array indptr() const;
  // Of all columns that a chunk touches, as read by a product: the most of any chunk.
  int64_t largest_halo() const;

  // The same structure with other values, as many as there are.
  SparseArray with_data(const Array& data) const;
  SparseArray astype(DType dtype) const { return with_data(data_.astype(dtype)); }
  SparseArray conj() const;
  SparseArray persist() const { return with_data(data_.persist()); }

  // These make a structure: collective, blocking. All elements are sorted by columns, by two passes over them, and
  // kept. The square of the count of chunks should not exceed some millions.
  SparseArray transpose() const;
  SparseArray T() const { return transpose(); }
  SparseArray H() const { return transpose().conj(); }
  // Sorted rows, in which no column occurs twice; and without zeros.
  SparseArray sum_duplicates() const;
  SparseArray eliminate_zeros() const;
  // Rows and columns by Python's rules, with any step.
  SparseArray rows(const Slice& slice) const;
  SparseArray columns(const Slice& slice) const;
  // Those at positions, in their order and as often as they are there, negative ones from the end; or those where a
  // mask of the axis is true. Sorted, without duplicates. A list of columns is kept on every rank. Throw IndexError for
  // positions out of range, other axes than one, and masks of another length, TypeError for what is neither integer nor
  // bool.
  SparseArray rows_at(const Array& chosen) const;
  SparseArray columns_at(const Array& chosen) const;

  // Lazy.
  // Elements (i, i + k); none where `k` is beyond the matrix.
  Array diagonal(int64_t k = 0) const;
  // Of a square matrix, the square blocks of its chunks of rows below each other, (n, the largest one's extent);
  // columns beyond a block's are zeros.
  Array diagonal_blocks() const;
  // Of a square matrix the elements in the same blocks, as a sparse matrix. Collective, blocking.
  SparseArray block_diagonal() const;
  // Over all elements (0-d) or an axis (1-d). dtype as NumPy's. Over columns (axis 0) a transpose is made.
  Array sum(std::optional<int64_t> axis = {}) const;
  // Chunks of whole rows.
  Array toarray() const;
  Array todense() const { return toarray(); }
  // Element by element. Dense arrays broadcast to the matrix, of which the result has the structure; of two matrices it
  // is as for `+`.
  SparseArray multiply(const Array& dense) const;
  SparseArray divide(const Array& dense) const;
  SparseArray multiply(const SparseArray& other) const;
  // Element by element, SciPy's a ** exponent of an array; duplicates are summed first: blocking. Throws NotSupported
  // for 0, whose result is not sparse. linalg::matrix_power() is the product's.
  SparseArray power(const Scalar& exponent) const;
  Array dot(const Array& x) const;
  SparseArray dot(const SparseArray& other) const;

  // The whole matrix in this process, on every rank. Collective, blocking.
  local::sparse::SparseArray to_host() const;

  // For the functions of this folder.
  SparseArray(const Dims& shape, std::shared_ptr<const algo::SparseChunks> chunks, Array data, Array indices,
              Array offsets);
  algo::SparseNodes nodes() const;
  const std::shared_ptr<const algo::SparseChunks>& structure() const { return chunks_; }

 private:
  Dims shape_;
  std::shared_ptr<const algo::SparseChunks> chunks_;
  Array data_, indices_, offsets_;
};

// ---- Makers. Collective, blocking. They check their arguments: throw InvalidArgument that names the row and the value
// where a column is out of range or offsets decrease, TypeError for indices that are no integers ----

struct SparseOptions {
  std::optional<int64_t> row_chunk = {};  // rows in a chunk; none: of about equally many elements
};
// From SciPy's three arrays, in any chunks or files: each rank reads the elements of its own rows. Without a shape as
// many columns as indices ask for.
SparseArray csr_array(const Array& data, const Array& indices, const Array& indptr,
                      const std::optional<Dims>& shape = {}, const SparseOptions& options = {});
// The same of columns: a transpose is made.
SparseArray csc_array(const Array& data, const Array& indices, const Array& indptr,
                      const std::optional<Dims>& shape = {}, const SparseOptions& options = {});
// From elements (row, col) in any order; those of one place are summed.
SparseArray coo_array(const Array& data, const Array& row, const Array& col, const Dims& shape,
                      const SparseOptions& options = {});
// The elements of a dense matrix that are not zero.
SparseArray csr_array(const Array& dense);
// From a local matrix, the same on every rank.
SparseArray csr_array(const local::sparse::SparseArray& a, const SparseOptions& options = {});

// ---- Files. Each rank reads what its own rows take. Throw as the functions that they are named after ----

// A group of an HDF5 file with the data sets data, indices and indptr, as AnnData (attributes `encoding-type` and
// `shape`), h5sparse (`h5sparse_format`, `h5sparse_shape`) and 10x (a data set `shape`, compressed by columns) write
// them: open_hdf5("cells.h5ad", "/X"). Of matrices compressed by columns a transpose is made.
SparseArray open_hdf5(const std::string& file, const std::string& group, const SparseOptions& options = {});
// A Matrix Market file, in pieces that ranks share: lines are counted, then each is parsed once, where its piece is,
// and elements go to the ranks of their rows. As of local::sparse::mmread: float64, int64 or complex128, both triangles
// of a symmetric matrix; elements of one place are summed. A file in array format is read by each rank as a whole.
SparseArray mmread(const std::string& file, const SparseOptions& options = {});
// Writes a group that open_hdf5() takes, as AnnData writes it: data, indices and indptr, with attributes.
void to_hdf5(const std::string& file, const std::string& group, const SparseArray& a, const StoreOptions& options = {});
// Writes a Matrix Market file, general, in coordinate format: the same text as local::sparse::mmwrite(), elements of
// one place summed. Of `options`, `overwrite` alone; the file appears, or replaces another, when all of it is written.
// Lines are made twice, by the ranks that have the elements: first to know their length. Throws NotSupported for other
// options (`chunks` and `version` do not count), InvalidArgument where the file exists without `overwrite`, IoError.
void mmwrite(const std::string& file, const SparseArray& a, const StoreOptions& options = {});
// The same in array format, of a dense matrix or of a vector as one column. Throws InvalidArgument for other axes,
// TypeError for 16-bit floats.
void mmwrite(const std::string& file, const Array& a, const StoreOptions& options = {});

// A x of (m, n) by (n,) or (n, k), lazy: 2 nnz k flops. Throws InvalidArgument for shapes that do not match.
Array matmul(const SparseArray& a, const Array& x);
// A B of (m, k) by (k, n), sparse, in the chunks of A or in smaller ones where there are many products of two values:
// sorted, without duplicates; what cancels stays as zeros. A chunk brings the rows of B that its elements touch, and
// takes memory for as many elements as it has products, or as a dense chunk has. All products are made twice.
// Collective, blocking. Throws InvalidArgument for shapes that do not match, BudgetError where rows are too large.
SparseArray matmul(const SparseArray& a, const SparseArray& b);

// Sums take the second matrix in the chunks of the first; they are sorted, without duplicates. Collective, blocking.
// Throw InvalidArgument for different shapes.
SparseArray operator+(const SparseArray& a, const SparseArray& b);
SparseArray operator-(const SparseArray& a, const SparseArray& b);
SparseArray operator*(const SparseArray& a, const Scalar& factor);
SparseArray operator*(const Scalar& factor, const SparseArray& a);
SparseArray operator/(const SparseArray& a, const Scalar& divisor);
SparseArray operator-(const SparseArray& a);
inline SparseArray pow(const SparseArray& a, const Scalar& exponent) { return a.power(exponent); }

namespace linalg {
// a a ... a of a square matrix, by squarings; the identity for 0. Collective, blocking. Throws InvalidArgument for
// negative powers and where the matrix is not square.
SparseArray matrix_power(const SparseArray& a, int64_t power);
}  // namespace linalg

}  // namespace quarry::sparse
