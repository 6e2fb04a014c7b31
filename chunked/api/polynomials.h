// Polynomials by their coefficients, the highest power first: their values at many positions, and fits to many points.
#pragma once

#include <tuple>
#include <utility>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/api/math.h"

namespace quarry {

// (n, N): the powers N - 1 to 0 of a vector, ascending with `increasing`; N is n unless said. Lazy. Throws
// InvalidArgument for arrays that are no vectors.
Array vander(const Array& x, std::optional<int64_t> N = std::nullopt, bool increasing = false);
// p(x) by Horner's rule, fused with what x is made of. Every coefficient is an operation: p is short. Lazy.
Array polyval(const Array& p, const Array& x);
// The coefficients (deg + 1) of the least-squares fit to the points (x, y), of y (n, k) those of k fits, with weights w
// of the residuals: by lstsq() of powers of x, whose columns have length 1, in double precision. x and y are read a
// chunk at a time. Collective, blocking. Throws InvalidArgument and TypeError with NumPy's texts.
Array polyfit(const Array& x, const Array& y, int64_t deg, std::optional<double> rcond = std::nullopt,
              const std::optional<Array>& w = std::nullopt);
// auto [coefficients, residuals, rank, singular_values, rcond] = polyfit(x, y, 2, full_result)
using local::covariance;
using local::full_result;
using FullFit = std::tuple<Array, Array, Scalar, Array, double>;
FullFit polyfit(const Array& x, const Array& y, int64_t deg, local::Full, std::optional<double> rcond = std::nullopt,
                const std::optional<Array>& w = std::nullopt);
// auto [coefficients, covariances] = polyfit(x, y, 2, covariance): (deg + 1, deg + 1), or of k fits (deg + 1, deg + 1,
// k); not scaled by the residuals where `scaled` is false.
std::pair<Array, Array> polyfit(const Array& x, const Array& y, int64_t deg, local::Cov,
                                std::optional<double> rcond = std::nullopt,
                                const std::optional<Array>& w = std::nullopt, bool scaled = true);

}  // namespace quarry
