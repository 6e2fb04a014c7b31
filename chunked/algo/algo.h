// The nodes that algorithms make: one declaration per algorithm, whose file has its name. Shapes and dtypes of the
// arguments have been checked; the user's mistakes that only an algorithm can see throw here. Lazy.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/expr/node.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/program/decompositions.h"
#include "quarry/local/program/engine.h"

namespace quarry::algo {

using expr::NodePtr;

// C order; as many elements. A view where only axes of length 1 come or go.
NodePtr reshape(const NodePtr& arg, const Dims& shape);
// Chunk i of the result has the elements of chunk i of `arg`, of which there are as many.
NodePtr reshape_chunks(const NodePtr& arg, const Grid& grid);
// Equal dtypes, and shapes but for `axis`.
NodePtr concatenate(std::vector<NodePtr> args, int axis);
// Outputs: 0 eigenvalues (n), 1 eigenvectors (n, n), of a square matrix of a dtype that solvers have.
NodePtr eigh(const NodePtr& arg, local::Triangle triangle);
// Factorisations by tiles (cholesky.cpp, lu.cpp, qr.cpp, tall_qr.cpp) of matrices of a dtype that solvers have.
// `memory`: that of all ranks for tasks, which decides about the order of tasks alone. Errors that depend on values
// come with the computation.
//
// L, or U of U^H U, with zeros in the other triangle. Reads one triangle.
NodePtr cholesky(const NodePtr& arg, local::Triangle triangle, int64_t memory);
// x of op(T) x = sides; two axes.
struct TriangularSides {
  local::Triangle triangle;
  local::MatrixOp op = local::MatrixOp::none;
  bool unit_diagonal = false;
};
NodePtr solve_triangular(const NodePtr& triangle, const NodePtr& sides, const TriangularSides& how);

// P A = L U of A^T: (L U)^T without L's ones, and (1, m + 2) int64: the rows of A in that order, how many exchanges
// gave it, and the first pivot that is 0, counted from 1, or 0. Rows of L stand in the order of their own step, for
// what needs U alone, or in that of the end; `placed`: a third output is (P L)^T.
enum class LuRows : uint8_t { own, last, placed };
std::vector<NodePtr> lu(const NodePtr& transposed, int64_t memory, LuRows rows);
// X^T of A X = B, from A^T (n, n) and B^T (r, n).
NodePtr solve(const NodePtr& transposed, const NodePtr& sides, int64_t memory);
// A^-1 from A^T (n, n).
NodePtr inverse(const NodePtr& transposed, int64_t memory);
// A = Q R of A^T: 0, R^T with zeros below R's rows; 1, the first `q_columns` columns of Q, transposed. -1: without Q.
std::vector<NodePtr> qr(const NodePtr& transposed, int64_t q_columns, int64_t memory);

// R and, where asked for, Q of a matrix with at least as many rows as columns, whose rows fit a task many times.
std::vector<NodePtr> tall_qr(const NodePtr& arg, bool with_q);

// With the rows of blocks (h_i, n), h in all, that are not cut, and vectors (n) cut as these are (basis.cpp). For each
// chunk a row of conj(rows) w, of shape (chunks, h).
NodePtr basis_products(const std::vector<NodePtr>& blocks, const NodePtr& w);
// w - coefficients (h) times rows, and where asked for, those products with that.
std::vector<NodePtr> without_basis(const std::vector<NodePtr>& blocks, const NodePtr& w, const NodePtr& coefficients,
                                   bool products);
// w / sqrt(squared) (0-d), and the block with that as row `number` (0-d).
std::vector<NodePtr> with_basis_row(const NodePtr& block, const NodePtr& number, const NodePtr& w,
                                    const NodePtr& squared);
// (r, n): coefficients (r, h) times rows.
NodePtr basis_combined(const std::vector<NodePtr>& blocks, const NodePtr& coefficients);

// Every prefix's fold along an axis by an associative operation. `skip_nan` (add and multiply): NaN counts as 0 or 1.
NodePtr accumulate(local::Op op, const NodePtr& arg, int axis, std::optional<local::DType> dtype, bool skip_nan);
// Every NaN becomes the last element before it along the axis that is none.
NodePtr push(const NodePtr& arg, int axis);

// Selections (select.cpp). Of a 1-d mask, one count per chunk:
NodePtr true_counts(const NodePtr& mask);
// What a 1-d mask with the chunks of that axis selects; `counts` as true_counts() gives them.
NodePtr selected(const NodePtr& arg, const NodePtr& mask, int axis, std::span<const int64_t> counts);
// What its tasks take for each element of a chunk.
int64_t selected_bytes(local::DType dtype, int ndim);
// The positions (int64) where a 1-d mask is true.
NodePtr true_positions(const NodePtr& mask, std::span<const int64_t> counts);
// Elements at positions inside the axis, in that order, at most so many along it in a chunk. A task holds a chunk of
// the result, what it takes from other ranks, and the chunks of its own rank that it takes from.
NodePtr taken(const NodePtr& arg, int axis, std::vector<int64_t> positions,
              int64_t most = std::numeric_limits<int64_t>::max());
// What its tasks take for each element.
int64_t taken_bytes(local::DType dtype);
// One element per index; extents but for the axis are equal. A task holds whole lines of `arg`.
NodePtr taken_along_axis(const NodePtr& arg, const NodePtr& indices, int axis);
// What its tasks take for each element of lines with as many indices.
int64_t taken_along_bytes(local::DType dtype);

// A function of whole lines along an axis of one chunk, of arrays of one shape and chunks; the result has them too.
// Tasks hold chunks (lines.cpp).
using LinesFunction = std::function<local::NdArray(std::span<const local::NdArray> lines)>;
NodePtr of_lines(const std::string& name, uint64_t identity, local::DType result, LinesFunction function,
                 const std::vector<NodePtr>& args);
// What the task for one line takes, whose arguments and result have so many bytes and elements.
int64_t line_task_bytes(int64_t bytes, int64_t elements = 0);
// The same for each element of long lines, whose argument and result have so many bytes.
int64_t line_bytes(int64_t item_bytes);

// States of chunks along an axis, several arrays of them with as many chunks, become one chunk of it, level by level: a
// task holds some neighbours and what they become (merge.cpp).
struct Merge {
  std::string name;
  uint64_t identity = 0;  // of the functions with their parameters
  int axis = 0;
  int64_t most = 0;  // elements of state 0 along the axis that meet in a task; two chunks do in any case
  // The extent along the axis of what becomes of state number `state`, from the extents of its parts together.
  std::function<int64_t(size_t state, int64_t together)> extent;
  // Neighbours' states, joined along the axis, as one; `parts`: the extents of those of state 0.
  std::function<std::vector<local::NdArray>(std::span<const local::NdArray> states, std::span<const int64_t> parts)>
      fold;
  int64_t bytes_per_element = 0;  // as MapSpec's
};
std::vector<NodePtr> merged(const Merge& merge, std::vector<NodePtr> states);

// The k greatest or smallest elements of every line, k > 0 and at most their length, in ascending order, and their
// positions where those are wanted. Of equal elements, later ones count as greater (top.cpp).
std::vector<NodePtr> ends_of_lines(const NodePtr& arg, int axis, int64_t k, bool greatest, bool positions);
// What a task of that has for each element of a chunk.
int64_t ends_bytes(local::DType dtype);

// Distinct elements of a 1-d array, or distinct rows of a 2-d array whose rows are not cut; not empty (distinct.cpp).
struct DistinctWanted {
  bool index = false, counts = false;
  bool equal_nan = true;  // of elements; NaN in rows never equal
};
// In order, with the first position and the number of each where those are wanted; the last output is how many there
// are, and zeros stand behind so many in the others. They hold `most`; of more, the last output is a larger number. A
// task merges the states of neighbours that hold `together`, or two.
std::vector<NodePtr> distinct(const NodePtr& arg, const DistinctWanted& wanted, int64_t most, int64_t together);
// Of a sorted 1-d array which elements differ from the one before; the first does. A task holds a chunk.
NodePtr starts_of_equals(const NodePtr& sorted, bool equal_nan);
// The memory that its largest task takes for each distinct element, or row of so many.
int64_t distinct_bytes(local::DType dtype, int64_t width, const DistinctWanted& wanted);
// For every element, or row, its place among the distinct ones. `first`: their first positions, where every NaN is
// distinct.
NodePtr places_of(const NodePtr& arg, const NodePtr& values, const NodePtr& first);
// The results of a function of whole arrays, in that form: 1-d arrays of these dtypes, of at most `most` elements.
std::vector<NodePtr> counted_call(const std::string& name, const std::vector<NodePtr>& args,
                                  const std::vector<local::DType>& results, int64_t most,
                                  std::function<std::vector<local::NdArray>(std::span<const local::NdArray>)> function);
// Assignments (assign.cpp): `arg` with some elements replaced by `values` of its dtype, whose extents of 1 broadcast.
// At slices of positive steps along every axis, of at least one element; values have the slices' counts.
NodePtr assigned_slices(const NodePtr& arg, const NodePtr& values, op::Slices slices);
// At positions inside some axes, given for each of them. Values have one axis for the positions, then the other axes of
// `arg`. Of equal positions the last one counts.
NodePtr assigned_positions(const NodePtr& arg, const NodePtr& values, const std::vector<int>& axes,
                           const std::vector<std::vector<int64_t>>& positions);
// Where a 1-d mask with the chunks of that axis is true; `counts` as true_counts() gives them. Values have an axis for
// the true elements, then the other axes of `arg`.
NodePtr assigned_masked(const NodePtr& arg, const NodePtr& mask, const NodePtr& values, int axis,
                        std::span<const int64_t> counts);

// A function of local arrays, for arrays of one chunk.
struct LocalCall {
  std::string name;                    // in listings, traces and errors
  uint64_t identity = 0;               // of the function with its parameters; the same on every rank
  std::vector<op::ArraySpec> outputs;  // shapes and dtypes
  std::function<std::vector<local::NdArray>(std::span<const local::NdArray>)> function;
  std::optional<int64_t> scratch_bytes;  // that it takes at most at once, results included; none: estimated
  bool by_trial = false;                 // or found by a trial; the function calls quarry::local alone
  bool calls_program = false;            // as Operator's
};
// One node per output. Planning throws NotSupported where arguments of several chunks do not fit one task.
std::vector<NodePtr> local_call(LocalCall call, std::vector<NodePtr> args);

}  // namespace quarry::algo
