// Products of matrices, factorisations and what is solved by them. Lazy, but for eig(), eigvals() and lstsq().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/api/linalg.h"
#include "quarry/local/program/precision.h"
#include "quarry/local/program/subset.h"
#include "quarry/local/program/triangle.h"

namespace quarry {

using local::Precision;

// As np.matmul: (..., m, k) by (..., k, n), batch axes broadcast, vectors are rows on the left and columns on the
// right. Throws InvalidArgument for 0-d arguments and where core dimensions differ (both sizes in the message). `z.T()
// x z` reads z once (SYRK). 2 m n k operations a product. `precision` may round products of float32 on GPUs
// (local/program/precision.h).
Array matmul(const Array& a, const Array& b, Precision precision = Precision::exact);

namespace linalg {

using local::Triangle;

// The functions of numpy.linalg, with the values, dtypes and errors of those of local arrays
// (local/ops/linalg/linalg.h). Leading axes are a stack of matrices, cut into chunks as they are; where matrices are
// cut too, they are made whole, and stacks of them cut until a chunk has about the usual bytes. A matrix (or two
// operands of two axes) is brought together on one rank: planning throws NotSupported, with its bytes and the budget,
// where the task does not fit. Errors that depend on values (LinAlgError for singular matrices ...) come with the
// computation, and name function and chunk.

// ---- Solving and inverting ----

// x of a x = b; b is a vector if it has one axis, else matrices.
Array solve(const Array& a, const Array& b);
Array inv(const Array& a);
Array det(const Array& a);
struct SlogdetResult {
  Array sign, logabsdet;
  static constexpr const char* kFields[] = {"sign", "logabsdet"};
  auto tie() const { return std::tie(sign, logabsdet); }
};
SlogdetResult slogdet(const Array& a);
// x of op(a) x = b for triangular a: trans 0 or "N" takes a itself, 1 or "T" its transpose, 2 or "C" the conjugate of
// that. Throws LinAlgError where the diagonal has a zero; check_finite: InvalidArgument for NaN and infinity.
Array solve_triangular(const Array& a, const Array& b, const std::variant<int64_t, std::string>& trans = 0,
                       bool lower = false, bool unit_diagonal = false, bool check_finite = true);
// L with L L^H = a, or U with U^H U = a; one triangle is read.
Array cholesky(const Array& a, bool upper = false);
using LstsqResult = std::tuple<Array, Array, Scalar, Array>;
// (x, squares of the residuals' norms, rank, singular values) of two matrices, or a matrix and a vector. Collective,
// blocking: computes, since the shape of the residuals depends on the rank.
LstsqResult lstsq(const Array& a, const Array& b, std::optional<double> rcond = std::nullopt);
// NumPy's rtol=: "no value" says that it is not given.
using PinvTolerance = std::variant<std::string, std::optional<Array>>;
// The Moore-Penrose inverse. Singular values of at most rtol times the largest count as 0; rcond is its older name.
// Each is a number, or one for each matrix.
Array pinv(const Array& a, const std::optional<Operand>& rcond = std::nullopt, bool hermitian = false,
           const PinvTolerance& rtol = std::string("no value"));

// ---- Decompositions ----

struct QRResult {
  Array Q, R;
  static constexpr const char* kFields[] = {"Q", "R"};
  auto tie() const { return std::tie(Q, R); }
};
// auto [q, r] = qr(a), auto [q, r] = qr(a, complete), Array r = qr(a, r_only), auto [h, tau] = qr(a, raw); or by
// NumPy's text: "reduced" and "complete" (QRResult), "r" (R), "raw" (the pair).
using local::linalg::complete;
using local::linalg::r_only;
using local::linalg::raw;
using local::linalg::reduced;
using QROutcome = std::variant<QRResult, Array, std::pair<Array, Array>>;
QROutcome qr(const Array& a, std::string_view mode);
inline QRResult qr(const Array& a, local::linalg::Reduced = {}) { return std::get<QRResult>(qr(a, "reduced")); }
inline QRResult qr(const Array& a, local::linalg::Complete) { return std::get<QRResult>(qr(a, "complete")); }
inline Array qr(const Array& a, local::linalg::ROnly) { return std::get<Array>(qr(a, "r")); }
inline std::pair<Array, Array> qr(const Array& a, local::linalg::Raw) {
  return std::get<std::pair<Array, Array>>(qr(a, "raw"));
}
// dask.array.linalg's: the reduced qr() of a tall matrix, which is read once by blocks of rows, and of a wide one, R =
// Q^H A. Throw InvalidArgument where `data` is no matrix, sfqr() also where it has more rows than columns.
QRResult tsqr(const Array& data);
QRResult sfqr(const Array& data);

// auto [p, l, u] = lu(a), auto [pl, u] = lu(a, permute_l): P L U = a by partial pivoting, as scipy.linalg.lu.
// check_finite: throws InvalidArgument for NaN and infinity.
struct LUResult {
  Array P, L, U;
};
LUResult lu(const Array& a);
using local::linalg::permute_l;
std::pair<Array, Array> lu(const Array& a, local::linalg::PermuteL);
// By flags: P L and U with permute_l; with p_indices the first is a permutation of rows.
std::vector<Array> lu(const Array& a, bool permute_l, bool p_indices, bool check_finite = true);

struct SVDResult {
  Array U, S, Vh;
  static constexpr const char* kFields[] = {"U", "S", "Vh"};
  auto tie() const { return std::tie(U, S, Vh); }
};
// auto [u, s, vh] = svd(a). `hermitian` goes by eigenvalues.
SVDResult svd(const Array& a, bool full_matrices = true, bool hermitian = false);
Array svdvals(const Array& x, bool hermitian = false);

struct EigResult {
  Array eigenvalues, eigenvectors;
  static constexpr const char* kFields[] = {"eigenvalues", "eigenvectors"};
  auto tie() const { return std::tie(eigenvalues, eigenvectors); }
};
// Collective and blocking for real matrices: computes and keeps the results, which are real where all eigenvalues are.
EigResult eig(const Array& a);
Array eigvals(const Array& a);

// Eigenvalues, ascending, and eigenvectors in columns of symmetric or Hermitian matrices, of which `triangle` is read.
// Integers become float64. Throws LinAlgError for what is not square, TypeError for a matrix of 16-bit floats; the
// computation throws InvalidArgument for NaN, infinity, or where the solver does not converge.
//
// One device computes a matrix that it holds with twice its bytes of workspace. The spectrum of a larger one is divided
// until devices hold the parts, by products and factorisations on all ranks (ADR 35): collective, blocking. So are
// svd() and what follows from it: svdvals(), pinv(), lstsq(), cond(), matrix_rank(), and norms 2, -2 and "nuc".
EigResult eigh(const Array& a, Triangle triangle = Triangle::lower);
Array eigvalsh(const Array& a, Triangle triangle = Triangle::lower);
// A part of the spectrum: eigh(a, ByIndex{0, 4}), eigh(a, ByValue{0, inf}), as SciPy's subset_by_index and
// subset_by_value. Of a matrix that is divided, only the sides that have a part of it are decomposed. By index of
// stacks too. By value collective, blocking: how many there are is data. Throw InvalidArgument for numbers outside of
// [0, n), and where the last is before the first or `high` not above `low`.
using local::ByIndex;
using local::ByValue;
using local::Subset;
EigResult eigh(const Array& a, const Subset& subset, Triangle triangle = Triangle::lower);
Array eigvalsh(const Array& a, const Subset& subset, Triangle triangle = Triangle::lower);
// The generalized problem, as scipy.linalg.eigh(): a v = w b v (type 1), a b v = w v (2), b a v = w v (3), with a
// positive definite b. Stacks of both broadcast.
EigResult eigh(const Array& a, const Array& b, bool lower = true, int64_t type = 1,
               const std::optional<Subset>& subset = std::nullopt);

// ---- Numbers about a matrix ----

// norm(x, p) norm(inv(x), p), for nothing and 2 the ratio of singular values; infinite where singular.
Array cond(const Array& x, std::optional<double> p = std::nullopt);
Array cond(const Array& x, const char* p);
// Singular values above tol, by default the largest times rtol; each a number, or one for each matrix.
Array matrix_rank(const Array& A, const std::optional<Operand>& tol = std::nullopt, bool hermitian = false,
                  const std::optional<Operand>& rtol = std::nullopt);

}  // namespace linalg
}  // namespace quarry
