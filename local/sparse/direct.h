// Direct solvers for sparse systems, by SciPy's names.
//
// Factorisations are SuperLU's, on the CPU, with one thread, for arrays on any device: a matrix on a GPU is copied to
// the host, factorised there, and right sides and solutions are copied too (cuDSS is not used). Triangular systems are
// solved where the matrix is. bool and integers count as float64. Throw InvalidArgument for matrices that are not
// square and right sides that do not fit, LinAlgError for singular matrices, NotSupported for more elements than 32
// bits count. All block.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "quarry/local/sparse/sparse_matrix.h"

namespace quarry::local::detail {
class LuFactors;  // local/program/sparse_factors.h
}

namespace quarry::local::sparse::linalg {

// A factorisation Pr a Pc = L U, kept for many solves.
class SuperLU {
 public:
  SuperLU(std::shared_ptr<const detail::LuFactors> factors, int64_t n, DType dtype, Device device);
  Dims shape() const { return {n_, n_}; }
  DType dtype() const { return dtype_; }
  int64_t nnz() const;
  // trans 'N': a x = b; 'T': a^T x = b; 'H': a^H x = b. b is (n,) or (n, k); x is on its device.
  NdArray solve(const NdArray& b, std::string_view trans = "N") const;
  // CSC with sorted indices, on the device of a. L has a unit diagonal.
  SparseArray L() const;
  SparseArray U() const;
  // int32: row i of a is row perm_r[i] of Pr a; column j of a is column perm_c[j] of a Pc.
  NdArray perm_r() const;
  NdArray perm_c() const;

 private:
  std::shared_ptr<const detail::LuFactors> factors_;
  int64_t n_;
  DType dtype_;
  Device device_;
};

// permc_spec: "NATURAL", "MMD_ATA", "MMD_AT_PLUS_A" or "COLAMD"; symmetric_mode prefers diagonal pivots.
SuperLU splu(const SparseArray& a, std::string_view permc_spec = "COLAMD", double diag_pivot_thresh = 1,
             bool symmetric_mode = false);
// Incomplete: elements below drop_tol are left out, and L and U have about fill_factor times as many as a.
SuperLU spilu(const SparseArray& a, double drop_tol = 1e-4, double fill_factor = 10,
              std::string_view permc_spec = "COLAMD", double diag_pivot_thresh = 0.1);
// The function x(b) that solves a x = b.
std::function<NdArray(const NdArray&)> factorized(const SparseArray& a);

// a x = b for b of (n,) or (n, k). A sparse b gives a sparse x of its format.
NdArray spsolve(const SparseArray& a, const NdArray& b, std::string_view permc_spec = "COLAMD");
SparseArray spsolve(const SparseArray& a, const SparseArray& b, std::string_view permc_spec = "COLAMD");
// For a lower (upper) triangular a, on the device. Throws InvalidArgument for elements in the other
// triangle, LinAlgError for zeros on the diagonal unless it counts as ones.
NdArray spsolve_triangular(const SparseArray& a, const NdArray& b, bool lower = true, bool unit_diagonal = false);

// As spsolve(): of a matrix a matrix.
inline SparseMatrix spsolve(const SparseMatrix& a, const SparseArray& b, std::string_view permc_spec = "COLAMD") {
  return SparseMatrix(spsolve(static_cast<const SparseArray&>(a), b, permc_spec));
}

// a a ... a. Throws InvalidArgument for a negative power.
SparseArray matrix_power(const SparseArray& a, int64_t power);
inline SparseMatrix matrix_power(const SparseMatrix& a, int64_t power) {
  return SparseMatrix(matrix_power(static_cast<const SparseArray&>(a), power));
}

// ord: "fro", "inf", "-inf", "1", "-1", "2" (by svds), without an axis; with one, the norms of columns (0) or rows (1),
// where ord is a number, "inf" or "-inf". Without ord "fro" or "2". 0-d or one-dimensional, real.
NdArray norm(const SparseArray& a, std::optional<std::string_view> ord = {}, std::optional<int64_t> axis = {});

}  // namespace quarry::local::sparse::linalg
