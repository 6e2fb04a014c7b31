// Polynomials as arrays of coefficients, highest power first: NumPy's poly* functions.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops {

// The coefficients of the polynomial with these roots, or of a square matrix's characteristic polynomial. Computed on
// the CPU, for each factor needs the one before. Blocks. Throws TypeError for 0-d, InvalidArgument for other shapes.
NdArray poly(const NdArray& seq_of_zeros);
// The shorter one has zeros in front. Throws InvalidArgument but for one-dimensional arrays of different lengths.
NdArray polyadd(const NdArray& a1, const NdArray& a2);
NdArray polysub(const NdArray& a1, const NdArray& a2);
// Leading zeros are dropped first. Blocks.
NdArray polymul(const NdArray& a1, const NdArray& a2);
// Quotient and remainder. Computed on the CPU, for each step needs the one before. Blocks.
std::pair<NdArray, NdArray> polydiv(const NdArray& u, const NdArray& v);
// The m-th derivative.
NdArray polyder(const NdArray& p, int64_t m = 1);
// The m-th antiderivative with the constants k (default 0).
NdArray polyint(const NdArray& p, int64_t m = 1, const std::optional<NdArray>& k = std::nullopt);
// p(x) by Horner's rule, in one pass over x for every 16 coefficients.
NdArray polyval(const NdArray& p, const NdArray& x);

// Coefficients; with cov, their covariance; with full, residuals, rank, singular values and rcond.
using PolyFit =
    std::variant<NdArray, std::pair<NdArray, NdArray>, std::tuple<NdArray, NdArray, Scalar, NdArray, double>>;
// The least-squares fit of degree `deg`. The system is solved by LAPACK on the CPU in double precision, for arrays of
// any device. Blocks. Throws InvalidArgument and TypeError with NumPy's texts.
PolyFit polyfit(const NdArray& x, const NdArray& y, int64_t deg, std::optional<double> rcond = std::nullopt,
                bool full = false, const std::optional<NdArray>& w = std::nullopt,
                const std::variant<bool, std::string>& cov = false);
// The zeros of a polynomial: eigenvalues of its companion matrix, by LAPACK on the CPU for arrays of any device.
// Blocks. Throws TypeError for 0-d arrays, InvalidArgument for others that are not one-dimensional.
NdArray roots(const NdArray& p);

}  // namespace quarry::local::ops
