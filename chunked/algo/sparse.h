// Sparse matrices in chunks of rows: what of them is settled, and the nodes that are made from it (sparse.cpp).
//
// The stored elements of all rows are two 1-d arrays, values and columns; a third one has, for every chunk of r rows,
// r + 1 offsets into the chunk's elements. A chunk touches some columns, which a barrier settled as a few boxes; its
// columns are positions in those boxes behind each other, so that a product takes what it reads of its other operand as
// it comes.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/grid/grid.h"
#include "quarry/chunked/op/operator.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/sparse/sparse_array.h"

namespace quarry::algo {

using expr::NodePtr;
using LocalSparse = local::sparse::SparseArray;

// Equal on all ranks.
struct SparseChunks {
  struct Box {
    int64_t start, count;
    int64_t at;  // of its first column, in all boxes of the chunk behind each other
  };
  AxisChunks rows;
  int64_t columns = 0;
  std::vector<int64_t> elements;        // where those of each chunk begin, and where the last ones end
  std::vector<std::vector<Box>> boxes;  // of columns, by chunk
  uint64_t hash = 0;                    // of all this

  int64_t element_count() const { return elements.back(); }
  int64_t width(int64_t chunk) const;  // of its boxes together
};

struct SparseNodes {
  NodePtr data, indices, offsets;
};

// Local matrices, one for each chunk of rows, in compressed rows of all columns: how they are made of the arguments'
// boxes, which needs() names.
struct SparseMaker {
  std::string name;
  uint64_t identity = 0;
  AxisChunks rows;
  int64_t columns = 0;
  local::DType dtype = local::DType::float64;
  std::function<void(int64_t chunk, std::vector<op::Need>& needs)> needs;
  std::function<LocalSparse(int64_t chunk, std::span<const local::NdArray> pieces)> make;
  std::vector<int64_t> more_bytes = {};  // by chunk: what make() takes that its arguments do not tell; empty: none
};
// Their offsets and numbers of elements (chunks); and with these their values and columns, int64.
std::pair<NodePtr, NodePtr> sparse_offsets(const SparseMaker& maker, const std::vector<NodePtr>& arguments);
std::pair<NodePtr, NodePtr> sparse_elements(const SparseMaker& maker, const std::vector<NodePtr>& arguments,
                                            std::span<const int64_t> elements);

// From other matrices of the same chunks.
SparseMaker sparse_of_sparse(std::string name, uint64_t identity, local::DType dtype,
                             std::vector<std::shared_ptr<const SparseChunks>> chunks,
                             std::function<LocalSparse(std::span<const LocalSparse>)> make);
// The product of two. Of the second one the values, `columns` of all its elements and `offsets` of all its rows follow
// after the first one's nodes; of these a chunk reads the rows in its boxes. `elements`: where each box's rows begin
// and end among the elements, two for each box of each chunk, and `terms`: the products of two values, by chunk.
SparseMaker sparse_times_sparse(const std::shared_ptr<const SparseChunks>& chunks, int64_t columns, local::DType dtype,
                                std::vector<int64_t> elements, const std::vector<int64_t>& terms);
// Rows of the second one, taken as they are: the first one has one element in each row, in the column that is the
// number of the row that comes there. Arguments as of sparse_times_sparse().
SparseMaker sparse_taken_rows(const std::shared_ptr<const SparseChunks>& chunks, int64_t columns, local::DType dtype,
                              std::vector<int64_t> elements, const std::vector<int64_t>& terms);
// Rows [first, last) of one.
SparseMaker sparse_rows_between(const std::shared_ptr<const SparseChunks>& chunks, local::DType dtype, int64_t first,
                                int64_t last);
// From a dense matrix whose rows are cut so and whose columns are not cut.
SparseMaker sparse_of_dense(const NodePtr& dense);
// From elements in any order. The first step sorts each chunk by rows: outputs 0 values, 1 rows, 2 columns, and 3 how
// many belong to each chunk of rows, (chunks of elements, chunks of rows). The second one takes what that settled.
// Elements of one place are summed.
std::vector<NodePtr> sorted_by_rows(const NodePtr& data, const NodePtr& row, const NodePtr& column,
                                    const AxisChunks& rows);
SparseMaker sparse_of_sorted(const std::vector<NodePtr>& sorted, const AxisChunks& rows, int64_t columns,
                             std::vector<int64_t> counts);
// The rows, columns and values of all elements, each (nnz) int64, int64 and the matrix's.
std::vector<NodePtr> sparse_coordinates(const SparseNodes& nodes, const std::shared_ptr<const SparseChunks>& chunks);

// The offsets of chunks, from those of all rows (n + 1).
NodePtr offsets_of_chunks(const NodePtr& indptr, const AxisChunks& rows);
// A line per chunk that says what its columns touch, and what is wrong with it; and what it says. `elements` as in
// SparseChunks. The second throws InvalidArgument that names row and value.
NodePtr touched_columns(const NodePtr& indices, const NodePtr& offsets, const AxisChunks& rows, int64_t columns,
                        const std::vector<int64_t>& elements);
std::shared_ptr<const SparseChunks> settled_chunks(const local::NdArray& touched, const AxisChunks& rows,
                                                   int64_t columns, std::vector<int64_t> elements);
// Columns as positions in boxes, of `dtype`.
NodePtr compact_columns(const NodePtr& indices, const std::shared_ptr<const SparseChunks>& chunks, local::DType dtype);

// A x for x (n) or (n, k): reads of x the boxes alone. 2 nnz k flops.
NodePtr sparse_product(const SparseNodes& nodes, const std::shared_ptr<const SparseChunks>& chunks, const NodePtr& x);
// The blocks on the diagonal of a square matrix, one for each chunk: the elements in the columns that are the chunk's
// rows.
SparseMaker sparse_diagonal_blocks(const std::shared_ptr<const SparseChunks>& chunks, local::DType dtype);
// Of such blocks with whole diagonals the values of their incomplete factors, in the same places; and the x of L U x =
// b (with `adjoint` of (L U)^H) for these. Each chunk on its own.
NodePtr incomplete_factors(const SparseNodes& nodes, const std::shared_ptr<const SparseChunks>& chunks);
NodePtr incomplete_solution(const SparseNodes& factors, const std::shared_ptr<const SparseChunks>& chunks,
                            const NodePtr& b, bool adjoint);
// The values, each times (or divided by) the element of `dense` at its place; extents of 1 broadcast.
NodePtr sparse_scaled(local::Op op, const SparseNodes& nodes, const std::shared_ptr<const SparseChunks>& chunks,
                      const NodePtr& dense, local::DType dtype);
// What a function, told apart by its name, makes of each chunk: (rows) or, with `width`, (rows, width), of a matrix of
// all columns and its first row. `compact`: of one of the columns that the chunk touches alone.
NodePtr of_sparse_rows(std::string name, const SparseNodes& nodes, const std::shared_ptr<const SparseChunks>& chunks,
                       std::optional<int64_t> width, local::DType dtype,
                       std::function<local::NdArray(const LocalSparse&, int64_t first)> function, bool compact = false);

}  // namespace quarry::algo
