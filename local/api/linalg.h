// Linear algebra, by NumPy's and SciPy's names: auto [u, s, vh] = ql::linalg::svd(a). See local/ops/linalg/linalg.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/products.h"

namespace quarry::local::linalg {

using local::ByIndex;
using local::ByValue;
using local::Subset;

using ops::block_diag;
using ops::cho_factor;
using ops::cho_solve;
using ops::cholesky;
using ops::det;
using ops::eig;
using ops::eigh;
using ops::EighResult;
using ops::EigResult;
using ops::eigvals;
using ops::eigvalsh;
using ops::expm;
using ops::inv;
using ops::ldl;
using ops::lstsq;
using ops::lu_factor;
using ops::lu_solve;
using ops::matrix_power;
using ops::matrix_transpose;
using ops::multi_dot;
using ops::pinv;
using ops::QRResult;
using ops::schur;
using ops::slogdet;
using ops::SlogdetResult;
using ops::solve;
using ops::solve_banded;
using ops::solve_toeplitz;
using ops::solve_triangular;
using ops::solveh_banded;
using ops::sqrtm;
using ops::SVDResult;
using ops::svdvals;
using ops::tensorinv;
using ops::tensorsolve;
using ops::toeplitz;

// auto [u, s, vh] = svd(a). The singular values alone: svdvals(a).
inline SVDResult svd(const NdArray& a, bool full_matrices = true, bool hermitian = false) {
  return std::get<SVDResult>(ops::svd(a, full_matrices, true, hermitian));
}

// What qr() gives: auto [q, r] = qr(a), auto [q, r] = qr(a, complete), NdArray r = qr(a, r_only),
// auto [h, tau] = qr(a, raw).
struct Reduced {};
struct Complete {};
struct ROnly {};
struct Raw {};
inline constexpr Reduced reduced{};
inline constexpr Complete complete{};
inline constexpr ROnly r_only{};
inline constexpr Raw raw{};
inline QRResult qr(const NdArray& a, Reduced = {}) { return std::get<QRResult>(ops::qr(a)); }
inline QRResult qr(const NdArray& a, Complete) { return std::get<QRResult>(ops::qr(a, "complete")); }
inline NdArray qr(const NdArray& a, ROnly) { return std::get<NdArray>(ops::qr(a, "r")); }
inline std::pair<NdArray, NdArray> qr(const NdArray& a, Raw) {
  const ArrayTuple both = std::get<ArrayTuple>(ops::qr(a, "raw"));
  return {both[0], both[1]};
}

// auto [p, l, u] = lu(a);  auto [pl, u] = lu(a, permute_l)
struct PermuteL {};
inline constexpr PermuteL permute_l{};
struct LUResult {
  NdArray P, L, U;
};
inline LUResult lu(const NdArray& a) {
  const ArrayTuple parts = ops::lu(a);
  return {parts[0], parts[1], parts[2]};
}
inline std::pair<NdArray, NdArray> lu(const NdArray& a, PermuteL) {
  const ArrayTuple parts = ops::lu(a, true);
  return {parts[0], parts[1]};
}

// ord: none, a number, or "fro" and "nuc". norm(x), norm(x, 1), norm(x, inf, 0), norm(a, "fro").
inline NdArray norm(const NdArray& x, std::optional<double> ord = std::nullopt, const Axes& axis = {},
                    bool keepdims = false) {
  return ops::norm(x, ord ? ops::NormOrder(*ord) : std::nullopt, axis, keepdims);
}
template <detail::Literal T>
NdArray norm(const NdArray& x, T ord, const Axes& axis = {}, bool keepdims = false) {  // 0 is no null pointer
  return norm(x, std::optional<double>(static_cast<double>(ord)), axis, keepdims);
}
inline NdArray norm(const NdArray& x, const char* ord, const Axes& axis = {}, bool keepdims = false) {
  return ops::norm(x, ops::NormOrder(std::string(ord)), axis, keepdims);
}
inline NdArray matrix_norm(const NdArray& x, const char* ord = "fro", bool keepdims = false) {
  return ops::matrix_norm(x, keepdims, ops::NormOrder(std::string(ord)));
}
inline NdArray matrix_norm(const NdArray& x, double ord, bool keepdims = false) {
  return ops::matrix_norm(x, keepdims, ops::NormOrder(ord));
}
inline NdArray vector_norm(const NdArray& x, const Axes& axis = {}, double ord = 2.0, bool keepdims = false) {
  return ops::vector_norm(x, axis, keepdims, ops::NormOrder(ord));
}
inline NdArray cond(const NdArray& x, std::optional<double> p = std::nullopt) {
  return ops::cond(x, p ? ops::NormOrder(*p) : std::nullopt);
}
inline NdArray cond(const NdArray& x, const char* p) { return ops::cond(x, ops::NormOrder(std::string(p))); }
inline NdArray matrix_rank(const NdArray& A, std::optional<double> tol = std::nullopt, bool hermitian = false) {
  return ops::matrix_rank(A, tol ? std::optional<NdArray>(NdArray{*tol}.reshape(Dims{})) : std::nullopt, hermitian);
}

inline NdArray cross(const NdArray& x1, const NdArray& x2, int64_t axis = -1) {
  return ops::linalg_cross(x1, x2, axis);
}
inline NdArray outer(const NdArray& x1, const NdArray& x2) { return ops::linalg_outer(x1, x2); }
inline NdArray matmul(const NdArray& x1, const NdArray& x2) { return ops::linalg_matmul(x1, x2); }
inline NdArray tensordot(const NdArray& x1, const NdArray& x2, int64_t axes = 2) {
  return ops::linalg_tensordot(x1, x2, axes);
}
inline NdArray tensordot(const NdArray& x1, const NdArray& x2, const std::vector<Ints>& axes) {
  return ops::linalg_tensordot(x1, x2, axes);
}
inline NdArray vecdot(const NdArray& x1, const NdArray& x2, int64_t axis = -1) {
  return ops::linalg_vecdot(x1, x2, axis);
}
inline NdArray diagonal(const NdArray& x, int64_t offset = 0) { return ops::linalg_diagonal(x, offset); }
inline NdArray trace(const NdArray& x, int64_t offset = 0, std::optional<DType> dtype = std::nullopt) {
  return ops::linalg_trace(x, offset, dtype);
}

}  // namespace quarry::local::linalg
