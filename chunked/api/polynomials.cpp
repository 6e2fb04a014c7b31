#include "quarry/chunked/api/polynomials.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/linalg/support.h"
#include "quarry/local/ops/numerical/fits.h"

namespace quarry {

using namespace compose;
using local::TypeError;

namespace {

Array inexact(const Array& x) { return is_inexact(x.dtype()) ? x : x.astype(DType::float64); }
Array in_double(const Array& x) { return x.astype(local::fits::in_double(x.dtype())); }

// Columns of the powers 0 to count - 1, ascending, in NumPy's order of multiplication.
std::vector<Array> powers_of(const Array& x, int64_t count) {
  std::vector<Array> columns;
  for (int64_t i = 0; i < count; ++i)
    columns.push_back(i == 0 ? constant(x.shape(), 1, x.dtype()) : i == 1 ? x : columns.back() * x);
  for (Array& column : columns) column = expand_dims(column, 1);
  return columns;
}

}  // namespace

Array vander(const Array& x, std::optional<int64_t> N, bool increasing) {
  if (x.ndim() != 1)
    throw InvalidArgument(fmt::format("x must be a one-dimensional array or sequence, not {}-dimensional.", x.ndim()));
  const int64_t count = N.value_or(x.size());
  const DType dtype = local::promote_types(x.dtype(), DType::int64);
  if (count < 0) throw InvalidArgument("negative dimensions are not allowed");
  if (count == 0 || x.size() == 0) return constant({x.size(), count}, 0, dtype);
  std::vector<Array> columns = powers_of(x.astype(dtype), count);
  if (!increasing) std::reverse(columns.begin(), columns.end());
  return joined(columns, 1);
}

Array polyval(const Array& p, const Array& x) {
  if (p.ndim() == 0) throw TypeError("iteration over a 0-d array");
  Array y = constant(x.shape(), 0, x.dtype());
  for (int64_t i = 0; i < p.shape(0); ++i) y = y * x + p(i);
  return y;
}

namespace {

struct Fit {
  Array lhs, scale;  // powers of x in columns of length 1, and what those were divided by
  Array coefficients, residuals;
  Scalar rank;
  Array singular_values;
  double rcond;
};
Fit fitted(const Array& x_in, const Array& y_in, int64_t deg, std::optional<double> rcond,
           const std::optional<Array>& w) {
  const Array x = inexact(x_in), y = inexact(y_in);
  local::fits::check(deg, x.shape(), y.shape(), w ? std::optional(w->shape()) : std::nullopt);
  if (!rcond) rcond = static_cast<double>(x.size()) * local::linalg::epsilon_of(local::real_type(x.dtype()));
  Array lhs = vander(x, deg + 1), rhs = y;
  if (w) {
    const Array weights = inexact(*w);
    lhs = lhs * expand_dims(weights, 1);
    rhs = rhs * (y.ndim() == 2 ? expand_dims(weights, 1) : weights);
  }
  const Array scale = sqrt(sum(lhs * lhs, Axes(0))).persist();
  lhs = lhs / scale;
  const DType dtype = local::promote_types(lhs.dtype(), rhs.dtype()), real = local::real_type(dtype);
  const auto [solution, residuals, rank, values] = linalg::lstsq(in_double(lhs), in_double(rhs), rcond);
  const Array coefficients = solution.astype(dtype) / (y.ndim() == 2 ? expand_dims(scale, 1) : scale);
  return {lhs, scale, coefficients, residuals.astype(real), rank, values.astype(real), *rcond};
}

}  // namespace

Array polyfit(const Array& x, const Array& y, int64_t deg, std::optional<double> rcond, const std::optional<Array>& w) {
  return fitted(x, y, deg, rcond, w).coefficients;
}

FullFit polyfit(const Array& x, const Array& y, int64_t deg, local::Full, std::optional<double> rcond,
                const std::optional<Array>& w) {
  const Fit fit = fitted(x, y, deg, rcond, w);
  return {fit.coefficients, fit.residuals, fit.rank, fit.singular_values, fit.rcond};
}

std::pair<Array, Array> polyfit(const Array& x, const Array& y, int64_t deg, local::Cov, std::optional<double> rcond,
                                const std::optional<Array>& w, bool scaled) {
  const Fit fit = fitted(x, y, deg, rcond, w);
  const Array products = linalg::inv(in_double(matmul(transpose(fit.lhs), fit.lhs))).astype(fit.lhs.dtype());
  Array base = products / (expand_dims(fit.scale, 1) * expand_dims(fit.scale, 0));
  if (y.ndim() == 2) base = expand_dims(base, 2);
  if (!scaled) return {fit.coefficients, base};
  const int64_t free = x.size() - (deg + 1);
  if (free <= 0) throw InvalidArgument("the number of data points must exceed order to scale the covariance matrix.");
  return {fit.coefficients, base * (fit.residuals / free)};
}

}  // namespace quarry
