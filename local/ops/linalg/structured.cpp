#include "quarry/local/ops/linalg/structured.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/linalg/refinement.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/products/products.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/program/engine.h"

namespace quarry::local::ops {

using namespace linalg;

namespace {

NdArray adjoint(const NdArray& a) { return is_complex(a.dtype()) ? conjugate(swapped(a)) : swapped(a); }
NdArray across(const NdArray& a, bool hermitian) { return hermitian ? adjoint(a) : swapped(a); }

// Where the diagonal of a matrix is.
NdArray on_diagonal(const NdArray& a) {
  const DeviceScope scope(context_for(a.device()));
  return eye(a.shape(-1), std::nullopt, 0, DType::bool_);
}

// What a triangle says of a symmetric or Hermitian matrix; of the diagonal of the latter the real part counts.
NdArray mirrored(const NdArray& a, bool lower, bool hermitian) {
  check_square(a);
  const NdArray side = lower ? tril(a, -1) : triu(a, 1), whole = add(side, across(side, hermitian));
  return where(on_diagonal(a), hermitian ? a.real().astype(a.dtype()) : a, whole);
}

void check_symmetry(const NdArray& a, bool hermitian) {
  if (a.size() == 0) return;
  const double size = max(absolute(a)).astype(DType::float64).item<double>();
  const double difference = max(absolute(subtract(a, across(a, hermitian)))).astype(DType::float64).item<double>();
  check_difference(difference, size, loop_dtypes(a).compute, hermitian);
}

// a = F D F^T, where F[order] is a triangle.
NdArray solve_by_ldl(const NdArray& a, const NdArray& b, bool lower, bool hermitian) {
  const auto [factor, d, order] = ldl(a, lower, hermitian, false, /*check_finite=*/false);
  const NdArray triangle = take(factor, order, 0);
  const std::string trans = hermitian ? "C" : "T";
  const auto solved = [&](const NdArray& sides, const std::string& how) {
    return solve_triangular(triangle, sides, how, lower, /*unit_diagonal=*/true, false, /*check_finite=*/false);
  };
  const int64_t n = a.shape(0);
  NdArray band({3, n}, d.dtype());
  band.fill(0, context_for(band.device()));
  for (const int64_t k : {-1, 0, 1}) {
    if (n <= std::abs(k)) continue;
    const Slice columns{std::max<int64_t>(k, 0), n + std::min<int64_t>(k, 0), 1};
    band[{1 - k, columns}].assign(diagonal(d, k), context_for(band.device()));
  }
  const NdArray middle = solve_banded({1, 1}, band, solved(take(b, order, 0), "N"), false, false, false);
  return take(solved(middle, trans), argsort(order), 0);
}

NdArray solve_plainly(const NdArray& a, const NdArray& b, const SystemOptions& options) {
  const bool lower = options.triangle == Triangle::lower, hermitian = options.assume == Assumed::hermitian;
  if (options.assume == Assumed::general) return solve(a, b);
  if (options.assume == Assumed::positive_definite)
    return cho_solve({cholesky(a, /*upper=*/!lower), lower}, b, false, /*check_finite=*/false);
  if (acts_as(a.device()) != DeviceKind::cpu || a.ndim() > 2 || b.ndim() > 2 || a.size() == 0)
    return solve(mirrored(a, lower, hermitian), b);
  return solve_by_ldl(a, b, lower, hermitian);
}

// The largest of each right-hand side, which are columns.
NdArray largest(const NdArray& x) { return max(absolute(x), 0); }

NdArray solve_in_two_precisions(const NdArray& a, const NdArray& b, const SystemOptions& options, DType dtype) {
  const bool is_positive = options.assume == Assumed::positive_definite, lower = options.triangle == Triangle::lower;
  const DType single_type = is_complex(dtype) ? DType::complex64 : DType::float32;
  const NdArray wide =
      options.assume == Assumed::general ? a.astype(dtype) : mirrored(a, lower, options.assume != Assumed::symmetric);
  const NdArray narrow = wide.astype(single_type), sides = b.astype(dtype);
  std::pair<NdArray, NdArray> factors;
  NdArray triangle;
  try {
    if (is_positive)
      triangle = cholesky(narrow, /*upper=*/!lower);
    else
      factors = lu_factor(narrow, false, /*check_finite=*/false);
  } catch (const LinAlgError&) {  // not positive definite in single precision
    return solve_plainly(a, b, options);
  }
  const auto single = [&](const NdArray& r) {
    const NdArray given = r.astype(single_type);
    return (is_positive ? cho_solve({triangle, lower}, given, false, false)
                        : lu_solve(factors, given, 0, false, /*check_finite=*/false))
        .astype(dtype);
  };
  const double size = max(sum(absolute(wide), 1)).item<double>();
  const double factor = size * epsilon_of(dtype) * std::sqrt(static_cast<double>(a.shape(0)));
  const auto residual = [&](const NdArray& x) {
    const NdArray r = subtract(sides, matmul(wide, x));
    return Residual<NdArray>{r, all(less_equal(largest(r), multiply(largest(x), factor))).item<bool>(),
                             all(isfinite(r)).item<bool>()};
  };
  return solve_refined<NdArray>(sides, single, residual, [&] { return solve_plainly(a, b, options); });
}

}  // namespace

void check_difference(double difference, double size, DType dtype, bool hermitian) {
  constexpr double kRoundings = 8;
  if (difference <= kRoundings * epsilon_of(dtype) * size) return;
  throw LinAlgError(
      fmt::format("the matrix is not {}: elements differ from those across the diagonal by up to {:.3g}, where the "
                  "largest is {:.3g}",
                  hermitian ? "Hermitian" : "symmetric", difference, size));
}

SystemOptions system_options(std::string_view assume_a, bool lower, bool check_symmetric, bool refine) {
  constexpr std::array<std::pair<std::string_view, Assumed>, 8> kNames{
      {{"gen", Assumed::general},
       {"general", Assumed::general},
       {"sym", Assumed::symmetric},
       {"symmetric", Assumed::symmetric},
       {"her", Assumed::hermitian},
       {"hermitian", Assumed::hermitian},
       {"pos", Assumed::positive_definite},
       {"positive definite", Assumed::positive_definite}}};
  for (const auto& [name, assumed] : kNames)
    if (name == assume_a) return {assumed, lower ? Triangle::lower : Triangle::upper, check_symmetric, refine};
  throw InvalidArgument(fmt::format("assume_a must be 'gen', 'sym', 'her' or 'pos', not '{}'", assume_a));
}

NdArray solve(const NdArray& a, const NdArray& b, const SystemOptions& options) {
  check_square(a);
  if (options.check && options.assume != Assumed::general) check_symmetry(a, options.assume != Assumed::symmetric);
  const DType dtype = loop_dtypes(a, b).compute;
  if (options.refine && itemsize(real_type(dtype)) == 8 && a.ndim() == 2 && b.ndim() <= 2 && b.ndim() > 0 &&
      a.size() > 0 && b.size() > 0 && b.shape(0) == a.shape(0))
    return solve_in_two_precisions(a, b, options, dtype);
  return solve_plainly(a, b, options);
}

NdArray solve_of(const NdArray& a, const NdArray& b, std::string_view assume_a, bool lower, bool check_symmetric,
                 bool refine) {
  return solve(a, b, system_options(assume_a, lower, check_symmetric, refine));
}

// ---- BLAS 3 ----

void check_side(int64_t side) {
  if (side != 0 && side != 1) throw InvalidArgument(fmt::format("side must be 0 (left) or 1 (right), not {}", side));
}
void check_trans(int64_t trans) {
  if (trans < 0 || trans > 2) throw InvalidArgument(fmt::format("trans must be 0, 1 or 2, not {}", trans));
}

NdArray symm(const NdArray& a, const NdArray& b, int64_t side, bool lower) {
  check_side(side);
  const NdArray whole = mirrored(a, lower, /*hermitian=*/false);
  return side == 0 ? matmul(whole, b) : matmul(b, whole);
}
NdArray hemm(const NdArray& a, const NdArray& b, int64_t side, bool lower) {
  check_side(side);
  const NdArray whole = mirrored(a, lower, /*hermitian=*/true);
  return side == 0 ? matmul(whole, b) : matmul(b, whole);
}
NdArray trmm(const NdArray& a, const NdArray& b, int64_t side, bool lower, int64_t trans, bool unit_diagonal) {
  check_side(side);
  check_trans(trans);
  check_square(a);
  NdArray part = lower ? tril(a) : triu(a);
  if (unit_diagonal) part = where(on_diagonal(a), 1, part);
  const NdArray operand = trans == 0 ? part : across(part, trans == 2);
  return side == 0 ? matmul(operand, b) : matmul(b, operand);
}
NdArray syrk(const NdArray& a, bool trans) {
  check_stacked(a);
  return trans ? matmul(swapped(a), a) : matmul(a, swapped(a));
}
NdArray herk(const NdArray& a, bool trans) {
  check_stacked(a);
  return trans ? matmul(adjoint(a), a) : matmul(a, adjoint(a));
}

}  // namespace quarry::local::ops
