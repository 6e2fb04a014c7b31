// Linear algebra by NumPy's names (numpy.linalg) and SciPy's (scipy.linalg), on the arrays' device.
//
// Leading axes are a batch of matrices, which broadcast where there are two operands. bool and integers are computed in
// float64; float16 and bfloat16 in float32, with results of their own dtype (NumPy has no loops for them); float32 and
// complex64 stay what they are (NumPy computes in double precision). Results are new and may be in Fortran's order.
// Where an algorithm can fail (singular, not positive definite, no convergence) the call waits for its result and
// throws LinAlgError with NumPy's text; it throws that too where the last two axes are not square. NaN and infinity:
// LinAlgError from what iterates (eig, eigh, svd and what is made of them), NaN from the rest. SciPy's functions throw
// InvalidArgument for them unless check_finite is false; their overwrite_* have no meaning here.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/program/subset.h"

namespace quarry::local::ops {

struct EigResult {
  NdArray eigenvalues, eigenvectors;
  static constexpr const char* kFields[] = {"eigenvalues", "eigenvectors"};
  auto tie() const { return std::tie(eigenvalues, eigenvectors); }
};
struct EighResult {
  NdArray eigenvalues, eigenvectors;
  static constexpr const char* kFields[] = {"eigenvalues", "eigenvectors"};
  auto tie() const { return std::tie(eigenvalues, eigenvectors); }
};
struct QRResult {
  NdArray Q, R;
  static constexpr const char* kFields[] = {"Q", "R"};
  auto tie() const { return std::tie(Q, R); }
};
struct SVDResult {
  NdArray U, S, Vh;
  static constexpr const char* kFields[] = {"U", "S", "Vh"};
  auto tie() const { return std::tie(U, S, Vh); }
};
struct SlogdetResult {
  NdArray sign, logabsdet;
  static constexpr const char* kFields[] = {"sign", "logabsdet"};
  auto tie() const { return std::tie(sign, logabsdet); }
};
// A norm's ord=: a number, inf among them, or "fro" or "nuc".
using NormOrder = std::optional<std::variant<double, std::string>>;

// ---- Solving and inverting ----

// x of a x = b by LU with partial pivoting; b is a vector if it has one axis, else matrices. Throws LinAlgError
// "Singular matrix".
NdArray solve(const NdArray& a, const NdArray& b);
// Throws LinAlgError "Singular matrix".
NdArray inv(const NdArray& a);
NdArray det(const NdArray& a);            // one number per matrix, 0 where singular
SlogdetResult slogdet(const NdArray& a);  // (sign, log|det|); 0 and -inf where singular
// L with L L^H = a, or U with U^H U = a; one triangle is read.
NdArray cholesky(const NdArray& a, bool upper = false);
// min |a x - b|, the x of least norm, by singular values and two steps of refinement: (x, squares of the residuals'
// norms, rank, singular values). Singular values of at most rcond times the largest count as 0 (none: the precision
// times the larger extent of a). Matrices alone, as NumPy.
std::tuple<NdArray, NdArray, Scalar, NdArray> lstsq(const NdArray& a, const NdArray& b,
                                                    std::optional<double> rcond = std::nullopt);
// The Moore-Penrose inverse. Singular values of at most rtol times the largest count as 0; rcond is its older name.
// rtol is a number for each matrix, nothing (the precision of a's dtype times the larger extent) or, by default, the
// text "no value": 1e-15, in single precision as for nothing.
using PinvTolerance = std::variant<std::string, std::optional<NdArray>>;
NdArray pinv(const NdArray& a, const std::optional<NdArray>& rcond = std::nullopt, bool hermitian = false,
             const PinvTolerance& rtol = std::string("no value"));
// x with tensordot(a, x, x.ndim) = b, and the inverse of that map; `axes` of a are moved to its end first, the first
// `ind` axes of a are those of b. Throw LinAlgError where a is not square as a matrix over these axes.
NdArray tensorsolve(const NdArray& a, const NdArray& b, const std::optional<Ints>& axes = std::nullopt);
NdArray tensorinv(const NdArray& a, int64_t ind = 2);

// ---- Decompositions ----

// mode: "reduced" (Q of min(m, n) columns), "complete" (of m), "r" (R alone), "raw" (LAPACK's h, transposed, and tau).
std::variant<QRResult, NdArray, ArrayTuple> qr(const NdArray& a, std::string_view mode = "reduced");
// With compute_uv U, S, Vh, else S alone. `hermitian` goes by eigenvalues.
std::variant<SVDResult, NdArray> svd(const NdArray& a, bool full_matrices = true, bool compute_uv = true,
                                     bool hermitian = false);
NdArray svdvals(const NdArray& x);
EigResult eig(const NdArray& a);  // real where all eigenvalues are
NdArray eigvals(const NdArray& a);
EighResult eigh(const NdArray& a, std::string_view UPLO = "L");  // ascending; one triangle is read
NdArray eigvalsh(const NdArray& a, std::string_view UPLO = "L");
// A part of the spectrum: eigh(a, ByIndex{0, 4}), eigh(a, ByValue{0, inf}). By index of stacks too. Throw
// InvalidArgument for numbers outside of [0, n), and where the last is before the first or `high` not above `low`.
EighResult eigh(const NdArray& a, const Subset& subset, std::string_view UPLO = "L");
NdArray eigvalsh(const NdArray& a, const Subset& subset, std::string_view UPLO = "L");

// ---- Numbers about a matrix ----

// Norms of vectors (one axis), of matrices (two), or, without `axis` and `ord`, of all elements; real. ord of vectors:
// a number, inf or -inf (2); of matrices 1, -1, 2, -2, inf, -inf, "fro" or "nuc" ("fro"). Throws InvalidArgument for
// another.
NdArray norm(const NdArray& x, const NormOrder& ord = std::nullopt, const Axes& axis = {}, bool keepdims = false);
NdArray matrix_norm(const NdArray& x, bool keepdims = false, const NormOrder& ord = std::string("fro"));
NdArray vector_norm(const NdArray& x, const Axes& axis = {}, bool keepdims = false, const NormOrder& ord = 2.0);
// norm(x, p) norm(inv(x), p), for nothing and 2 the ratio of singular values; infinite where singular.
NdArray cond(const NdArray& x, const NormOrder& p = std::nullopt);
// Singular values above tol; the default is the largest times rtol, whose default is the larger extent times the
// precision.
NdArray matrix_rank(const NdArray& A, const std::optional<NdArray>& tol = std::nullopt, bool hermitian = false,
                    const std::optional<NdArray>& rtol = std::nullopt);

// ---- Products and parts; the array API's forms of functions that NumPy has elsewhere ----

// By repeated squaring; of the inverse for n < 0.
NdArray matrix_power(const NdArray& a, int64_t n);
// The product of several matrices, in the order that takes the fewest multiplications.
NdArray multi_dot(const std::vector<NdArray>& arrays, const std::optional<NdArray>& out = std::nullopt);
NdArray linalg_cross(const NdArray& x1, const NdArray& x2, int64_t axis = -1);
NdArray linalg_outer(const NdArray& x1, const NdArray& x2);
NdArray linalg_matmul(const NdArray& x1, const NdArray& x2);
NdArray linalg_tensordot(const NdArray& x1, const NdArray& x2,
                         const std::variant<int64_t, std::vector<Ints>>& axes = 2);
NdArray linalg_vecdot(const NdArray& x1, const NdArray& x2, int64_t axis = -1);
NdArray linalg_diagonal(const NdArray& x, int64_t offset = 0);
NdArray linalg_trace(const NdArray& x, int64_t offset = 0, std::optional<DType> dtype = std::nullopt);

// ---- scipy.linalg ----

// (P, L, U) with P L U = a; (P L, U) with permute_l; with p_indices the first is a permutation of rows.
ArrayTuple lu(const NdArray& a, bool permute_l = false, bool overwrite_a = false, bool check_finite = true,
              bool p_indices = false);
// L (its diagonal is 1) and U in one array, and the rows that were swapped in turn, from 0.
std::pair<NdArray, NdArray> lu_factor(const NdArray& a, bool overwrite_a = false, bool check_finite = true);
// trans 0: a x = b; 1: a^T x = b; 2: a^H x = b.
NdArray lu_solve(const std::pair<NdArray, NdArray>& lu_and_piv, const NdArray& b, int64_t trans = 0,
                 bool overwrite_b = false, bool check_finite = true);
// Throws LinAlgError where the diagonal has a zero. trans also "N", "T", "C".
NdArray solve_triangular(const NdArray& a, const NdArray& b, const std::variant<int64_t, std::string>& trans = 0,
                         bool lower = false, bool unit_diagonal = false, bool overwrite_b = false,
                         bool check_finite = true);
std::pair<NdArray, bool> cho_factor(const NdArray& a, bool lower = false, bool overwrite_a = false,
                                    bool check_finite = true);
NdArray cho_solve(const std::pair<NdArray, bool>& c_and_lower, const NdArray& b, bool overwrite_b = false,
                  bool check_finite = true);
// Of a v = w b v (type 1), a b v = w v (2) or b a v = w v (3) for Hermitian a and positive definite b, of which one
// triangle is read: w ascends, and v^H b v = 1 (3: v^H b^-1 v = 1). By b's Cholesky factor. Throws LinAlgError where b
// is not positive definite, InvalidArgument for another type.
EighResult eigh(const NdArray& a, const NdArray& b, bool lower = true, int64_t type = 1, bool check_finite = true,
                const std::optional<Subset>& subset = std::nullopt);
// SciPy's subset_by_index and subset_by_value, of which one may be given. Throws InvalidArgument for both.
using IndexRange = std::optional<std::pair<int64_t, int64_t>>;
using ValueRange = std::optional<std::pair<double, double>>;
std::optional<Subset> subset_of(const IndexRange& by_index, const ValueRange& by_value);
// NumPy's eigh, or SciPy's where b is given, as the second argument or by its name; `lower` stands for UPLO.
std::variant<EighResult, NdArray> eigh_of(const NdArray& a,
                                          const std::variant<std::string, NdArray>& UPLO = std::string("L"),
                                          const std::optional<NdArray>& b = std::nullopt,
                                          std::optional<bool> lower = std::nullopt, bool eigvals_only = false,
                                          int64_t type = 1, bool check_finite = true,
                                          const IndexRange& subset_by_index = std::nullopt,
                                          const ValueRange& subset_by_value = std::nullopt);
NdArray eigvalsh_of(const NdArray& a, std::string_view UPLO = "L", const IndexRange& subset_by_index = std::nullopt,
                    const ValueRange& subset_by_value = std::nullopt);

// These run on the CPU by LAPACK; arrays of other devices are copied there and their results back.
//
// (T, Z) with a = Z T Z^H: T is upper triangular; for output "real" (or "r") and a real matrix it has blocks of 2 for
// pairs of complex eigenvalues. "complex" (or "c") computes in complex numbers. Throws LinAlgError without convergence,
// InvalidArgument for another output.
std::pair<NdArray, NdArray> schur(const NdArray& a, std::string_view output = "real", bool overwrite_a = false,
                                  bool check_finite = true);
// (F, D, order) with A = F D F^H (without `hermitian` F D F^T), by Bunch and Kaufman's pivoting; one triangle is read.
// D has blocks of 1 and 2, and F[order] is a triangle, lower or upper as asked for, with ones on its diagonal.
std::tuple<NdArray, NdArray, NdArray> ldl(const NdArray& A, bool lower = true, bool hermitian = true,
                                          bool overwrite_a = false, bool check_finite = true);
// x of a x = b for banded a with l and u diagonals below and above the main one, a[i, j] in ab[u + i - j, j]. b is a
// vector if it has one axis. Throws LinAlgError "singular matrix", InvalidArgument where shapes do not match.
NdArray solve_banded(const std::pair<int64_t, int64_t>& l_and_u, const NdArray& ab, const NdArray& b,
                     bool overwrite_ab = false, bool overwrite_b = false, bool check_finite = true);
// The same for Hermitian positive definite a: a[i, j] in ab[i - j, j] (lower) or ab[u + i - j, j]. Throws LinAlgError
// where a is not positive definite.
NdArray solveh_banded(const NdArray& ab, const NdArray& b, bool overwrite_ab = false, bool overwrite_b = false,
                      bool lower = false, bool check_finite = true);

// x of a x = b where a has constant diagonals, by Levinson's recursion: given are the first column and the first row,
// which is the conjugate of the column if it is left out; the first element is the column's. Throws LinAlgError where
// a leading minor is singular.
NdArray solve_toeplitz(const std::variant<std::pair<NdArray, NdArray>, NdArray>& c_or_cr, const NdArray& b,
                       bool check_finite = true);

// The exponential of square matrices, by Pade approximants with scaling and squaring (Higham 2005).
NdArray expm(const NdArray& A);
// The principal square root of Hermitian matrices, complex where an eigenvalue is negative. Throws InvalidArgument for
// others.
NdArray sqrtm(const NdArray& A);
NdArray block_diag(const std::vector<NdArray>& arrs);  // vectors are rows
NdArray toeplitz(const NdArray& c, const std::optional<NdArray>& r = std::nullopt);

}  // namespace quarry::local::ops
