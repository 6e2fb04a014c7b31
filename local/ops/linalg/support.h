// What the functions of linalg share: dtypes, stacks of matrices as the engines take them, checks with NumPy's texts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::local::linalg {

// bool and integers are computed in float64, the 16-bit floats in float32; `result` is what NumPy returns, a 16-bit
// float where that came in.
struct LoopDTypes {
  DType compute, result;
};
LoopDTypes loop_dtypes(const NdArray& a);
LoopDTypes loop_dtypes(const NdArray& a, const NdArray& b);
DType complex_type(DType dtype);                   // float32 -> complex64 ...
double epsilon_of(DType dtype);                    // of a floating-point or complex dtype, 2^-52 for float64
NdArray converted(const NdArray& a, DType dtype);  // itself where nothing changes

// Throw LinAlgError: "1-dimensional array given. Array must be at least two-dimensional".
void check_stacked(const NdArray& a);
void check_square(const NdArray& a);  // stacked, the last two axes equal
void check_matrix(const NdArray& a);  // exactly two axes
// Throws LinAlgError with the text if an element is NaN or infinite. Blocks.
void check_finite(const NdArray& a, const char* message);
// SciPy's check_finite=, where `wanted`: throws InvalidArgument. Blocks.
void check_values(const NdArray& a, bool wanted);

NdArray swapped(const NdArray& a);  // the last two axes exchanged: a view
Dims batch_of(const NdArray& a);    // the shape without the last two axes
Dims joined(const Dims& batch, std::initializer_list<int64_t> core);

// New arrays in C order whose matrices the engines see column by column, that is transposed.
NdArray copied(const NdArray& a, DType dtype);
MatrixStack stack_of(const NdArray& columns);  // of an array of shape (..., columns, rows) in C order
void run(const Decomposition& task, const NdArray& like);

// The engine's word on each matrix of a batch.
class Info {
 public:
  Info(const Dims& batch, const ExecContext& context) : values_(batch, DType::int32, context) {}
  int32_t* data() const { return values_.data<int32_t>(); }
  const NdArray& array() const { return values_; }
  // Whether one is not 0, after the engine has run. The first call blocks.
  bool any() const;
  // Throws LinAlgError with the text where one is not 0. Blocks.
  void check(const char* message) const;

 private:
  NdArray values_;
  mutable std::optional<bool> any_;
};

// Whether a matrix of `a` is singular by `info`, which does not count for matrices with NaN: what is made of those is
// NaN (unknown()). Throws LinAlgError "Singular matrix", with the pivot that LAPACK's getrf finds to be 0, and of a
// stack which matrix. Blocks; reads `a` again only where info has something to say.
void check_singular(const Info& info, const NdArray& a);
// Throws LinAlgError "Matrix is not positive definite", with the order of the leading minor that is not, where a
// Cholesky decomposition has said so, and of a stack which matrix.
[[noreturn]] void throw_not_definite(const Info& info);
// Per matrix: not factored because of NaN.
NdArray unknown(const Info& info, const NdArray& a);

// In place: zeros outside of the triangle of each matrix: below (lower) or above the diagonal only what is stored there
// stays. An `upper` triangle keeps elements (i, j) with j >= i, a lower one j <= i.
// With `unit_diagonal`, the diagonal is 1.
void keep_triangle(const NdArray& a, Triangle triangle, bool unit_diagonal = false);
// Identity matrices of (rows, columns) for the batch.
NdArray identities(const Dims& batch, int64_t rows, int64_t columns, DType dtype);

// L U of the transposed matrices and their pivots, (..., n) as LAPACK counts them; no check.
struct LuOfTranspose {
  NdArray factors;  // (..., n, n): what the engine sees column by column
  NdArray pivots;
  Info info;
};
LuOfTranspose lu_of_transpose(const NdArray& a, DType dtype);

// The permutation that row swaps amount to, as LAPACK counts them (int32, from 1): row i of the swapped matrix was row
// order[i] (int64; ..., m).
NdArray row_order(const NdArray& pivots, int64_t m);
// The first k of the row swaps, from 0, that lead to such an order of the rows of one matrix. Blocks.
NdArray swaps_to(const NdArray& order, int64_t k);
// Throws InvalidArgument unless swaps, from 0, name rows of the n x n matrices that have them. Blocks.
void check_swaps(const NdArray& swaps, int64_t n);

// Inverses in C order; those of singular matrices are unspecified, and info says so.
struct Inverses {
  NdArray values;
  Info info;
};
Inverses inverses(const NdArray& a, DType dtype);

// Q (m, n) and R of one tall matrix by two Cholesky factorisations of Gram matrices (CholeskyQR2; Fukaya et al. 2014),
// or three, the first one shifted, where the matrix is ill-conditioned: 4 m n^2 operations per pass at most, in
// products of whole matrices, where Householder's method waits for one column after the other. As orthogonal as that,
// since the last pass starts from nearly orthogonal columns, and R has the signs that it has there; nothing where it
// would not be (a matrix without full rank, NaN) or does not pay. Without `with_q`, q is unspecified; without
// `with_signs`, R's diagonal is positive. Blocks.
struct TallQr {
  NdArray q, r;
};
std::optional<TallQr> tall_qr(const NdArray& a, DType dtype, bool with_q, bool with_signs = true);

// The matrix that tensorinv() and tensorsolve() make of a tensor with its axes in `order`, and their results' shape.
struct TensorMatrix {
  std::vector<int64_t> order;
  Dims matrix, result;
};
TensorMatrix inverse_of_tensor(const Dims& shape, int64_t ind);
TensorMatrix system_of_tensor(const Dims& shape, int b_ndim, const std::optional<Ints>& axes);

// Singular values and vectors, as NumPy's svd, in the compute dtype; matrices may be empty. Throws LinAlgError for NaN
// and infinity. Blocks.
struct Singular {
  NdArray u, s, vh;
};
Singular singular(const NdArray& a, DType dtype, bool full, bool vectors);

}  // namespace quarry::local::linalg

namespace quarry::local::ops {

// eig() and eigvals() with complex results where all eigenvalues are real, too: what it is depends on no value. Without
// `vectors` those are unspecified.
struct Eigen {
  NdArray values, vectors;
};
Eigen complex_eigen(const NdArray& a, bool vectors);

// eigh() of a subset, the generalized problem where b is given, in arrays whose shapes depend on no value: `found` of
// each matrix (int32) are first in `values` (..., n) and in the columns of `vectors` (..., n, n), what is behind them
// is unspecified. Throws what eigh() throws.
struct SomeEigen {
  NdArray values, vectors, found;
};
SomeEigen some_eigen(const NdArray& a, const Subset& subset, std::string_view uplo, bool vectors);
SomeEigen some_eigen(const NdArray& a, const NdArray& b, const Subset& subset, bool lower, int64_t type,
                     bool check_finite);

// lstsq() with the squares of the residuals' norms for each right-hand side whatever the rank, which is a 0-d array, so
// that what it is depends on no value.
struct LeastSquares {
  NdArray x, squares, rank, s;
};
LeastSquares least_squares(const NdArray& a, const NdArray& b, std::optional<double> rcond);

}  // namespace quarry::local::ops
