// Distributions of vectors: each a sequence of array operations over all vectors at once, one per category at most.
#include <fmt/format.h>

#include <limits>

#include "quarry/local/base/log.h"
#include "quarry/local/device/range.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/random/random.h"
#include "quarry/local/ops/random/recipe.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/program/bit_generators.h"

namespace quarry::local {

Dims with_last(Dims shape, int64_t extent) {
  shape.push_back(extent);
  return shape;
}

Dims batch_shape(const Size& size, const Dims& parameters) {
  return size ? random_shape(random_shape(*size), parameters) : parameters;
}

// Gammas divided by their sum, from their logarithms: small alphas underflow otherwise.
NdArray Generator::dirichlet(const NdArray& alpha, const Size& size) {
  const Range named("random.dirichlet");
  if (alpha.ndim() != 1)
    throw InvalidArgument(fmt::format("alpha must be 1-dimensional, not of shape {}", to_string(alpha.shape())));
  check_parameter("alpha", alpha, kNonNegative);
  const Dims shape = with_last(batch_shape(size, Dims{}), alpha.shape()[0]);
  const Arg parameter = alpha;
  Recipe recipe(*this, DType::float64, {&parameter}, Ints(shape));
  NdArray logs = recipe.make(recipe.log_gamma(recipe.parameter(parameter)));
  if (logs.size() == 0) return logs;
  const ReduceOptions keep{.keepdims = true};
  // Where all alphas are zero nothing is finite.
  const NdArray most =
      apply("maximum"_op, {reduce("max"_reduction, logs, -1, keep), std::numeric_limits<double>::lowest()});
  const NdArray weights = apply("exp"_op, {logs - most});
  const NdArray sum = reduce("sum"_reduction, weights, -1, keep);
  return weights / apply("where"_op, {sum == 0, 1.0, sum});
}

std::vector<NdArray> conditional_chances(const NdArray& pvals) {
  if (pvals.ndim() == 0 || pvals.shape()[pvals.ndim() - 1] == 0) {
    throw InvalidArgument(
        "pvals must have at least 1 dimension and the last dimension of pvals must be greater than 0.");
  }
  constexpr const char* kOutside = "pvals < 0, pvals > 1 or pvals contains NaNs";
  static const ParameterRange kPvals{0, false, 1, false, kOutside, kOutside};
  check_parameter("pvals", pvals, kPvals);
  const int64_t categories = pvals.shape()[pvals.ndim() - 1];
  const NdArray p = pvals.astype(DType::float64, context_for(pvals.device()));
  const Slice head{std::nullopt, categories - 1, std::nullopt};
  const NdArray before = ops::cumsum(p[{ellipsis, head}], -1);  // p_0 + ... + p_j
  if (categories > 1 && before.size() > 0 && holds_any(before[{ellipsis, int64_t{-1}}] > 1.0 + 1e-12))
    throw InvalidArgument("sum(pvals[:-1]) > 1.0");
  std::vector<NdArray> chances;
  for (int64_t j = 0; j + 1 < categories; ++j) {
    NdArray chance = p[{ellipsis, j}];
    if (j > 0) {
      const NdArray rest = 1.0 - before[{ellipsis, j - 1}];
      chance =
          apply("where"_op,
                {rest > 0.0, apply("minimum"_op, {chance / apply("where"_op, {rest > 0.0, rest, 1.0}), 1.0}), 0.0});
    }
    chances.push_back(chance);
  }
  return chances;
}

// The first category is binomial, the next one binomial among what is left, and so on.
NdArray Generator::multinomial(const Arg& n, const NdArray& pvals, const Size& size) {
  const Range named("random.multinomial");
  check_parameter("n", n, kNonNegative);
  const std::vector<NdArray> chances = conditional_chances(pvals);
  const auto categories = static_cast<int64_t>(chances.size()) + 1;
  Dims outer = pvals.shape();
  outer.resize(outer.size() - 1);
  const Dims shape = batch_shape(size, broadcast_shapes(n.array() != nullptr ? n.array()->shape() : Dims{}, outer));
  const ExecContext context = context_for(pvals.device());
  NdArray result(with_last(shape, categories), DType::int64, context);
  if (result.size() == 0) return result;
  NdArray left(shape, DType::int64, context);
  if (n.array() != nullptr)
    left.assign(n.array()->astype(DType::int64));
  else
    left.fill(Scalar(n.scalar().as_int64()));
  for (int64_t j = 0; j + 1 < categories; ++j) {
    const Arg trials = left, probability = chances[static_cast<size_t>(j)];
    Recipe recipe(*this, DType::float64, {&trials, &probability}, Ints(shape));
    const Term all = recipe.parameter(trials);
    const NdArray count = recipe.make(
        recipe.apply("random_binomial"_op, {recipe.key(), all, recipe.parameter(probability)}), DType::int64);
    result[{ellipsis, j}].assign(count);
    left = left - count;
  }
  result[{ellipsis, categories - 1}].assign(left);
  return result;
}

std::vector<int64_t> colors_left(const std::vector<int64_t>& colors, int64_t nsample, std::string_view method) {
  if (method != "marginals" && method != "count") throw InvalidArgument("method must be \"count\" or \"marginals\".");
  if (nsample < 0) throw InvalidArgument("nsample must be nonnegative.");
  int64_t total = 0;
  for (int64_t color : colors) {
    if (color < 0) {
      throw InvalidArgument(fmt::format(
          "colors must be a one-dimensional sequence of nonnegative integers not exceeding {}.", INT64_MAX));
    }
    if (color >= 1000000000 - total) throw InvalidArgument("sum(colors) must be less than 1000000000.");
    total += color;
  }
  if (nsample > total) throw InvalidArgument("nsample > sum(colors)");
  std::vector<int64_t> left;
  for (int64_t color : colors) left.push_back(total -= color);
  return left;
}

NdArray Generator::multivariate_hypergeometric(const std::vector<int64_t>& colors, int64_t nsample, const Size& size,
                                               std::string_view method) {
  const Range named("random.multivariate_hypergeometric");
  const std::vector<int64_t> others = colors_left(colors, nsample, method);
  const Dims shape = batch_shape(size, Dims{});
  const auto categories = static_cast<int64_t>(colors.size());
  NdArray result(with_last(shape, categories), DType::int64);
  if (result.size() == 0) return result;
  NdArray left(shape, DType::int64);
  left.fill(Scalar(nsample));
  for (int64_t j = 0; j + 1 < categories; ++j) {
    const Arg sample = left;
    Recipe recipe(*this, DType::int64, {&sample}, Ints(shape));
    const Term both =
        recipe.constant((colors[static_cast<size_t>(j)] << 32) | others[static_cast<size_t>(j)], DType::int64);
    const NdArray count =
        recipe.make(recipe.apply("random_hypergeometric"_op, {recipe.key(), both, recipe.parameter(sample)}));
    result[{ellipsis, j}].assign(count);
    left = left - count;
  }
  result[{ellipsis, categories - 1}].assign(left);
  return result;
}

NormalVectors normal_vectors(const NdArray& mean, const NdArray& cov, std::string_view check_valid, double tol,
                             std::string_view method) {
  if (method != "svd" && method != "eigh" && method != "cholesky")
    throw InvalidArgument("method must be one of {'eigh', 'svd', 'cholesky'}");
  if (check_valid != "warn" && check_valid != "raise" && check_valid != "ignore")
    throw InvalidArgument("check_valid must equal 'warn', 'raise', or 'ignore'");
  if (mean.ndim() != 1) throw InvalidArgument("mean must be 1 dimensional");
  if (cov.ndim() != 2 || cov.shape()[0] != cov.shape()[1])
    throw InvalidArgument("cov must be 2 dimensional and square");
  const int64_t n = mean.shape()[0];
  if (cov.shape()[0] != n) throw InvalidArgument("mean and cov must have same length");
  check_parameter("mean", mean, kAnyReal);
  check_parameter("cov", cov, kAnyReal);

  const ExecContext context = context_for(common_device(std::vector<const NdArray*>{&mean, &cov}));
  const NdArray shift = mean.astype(DType::float64, context), matrix = cov.astype(DType::float64, context);
  if (n == 0) return {shift, matrix};
  const auto [values, vectors] = linalg::eigh(matrix);
  const double least = item_or(values[{int64_t{0}}], 1).as_double();
  if (method == "cholesky" && !(least > 0)) throw InvalidArgument("Matrix is not positive definite");
  if (check_valid != "ignore") {
    const double scale = 1 + item_or(reduce("max"_reduction, apply("absolute"_op, {matrix})), 0).as_double();
    const double skew = item_or(reduce("max"_reduction, apply("absolute"_op, {matrix - matrix.T()})), 0).as_double();
    if (least < -tol * scale || skew > tol * scale) {
      constexpr const char* kInvalid = "covariance is not symmetric positive-semidefinite.";
      if (check_valid == "raise") throw InvalidArgument(kInvalid);
      log(LogLevel::warn, kInvalid);
    }
  }
  return {shift, vectors * apply("sqrt"_op, {apply("maximum"_op, {values, 0.0})})};
}

NdArray Generator::multivariate_normal(const NdArray& mean, const NdArray& cov, const Size& size,
                                       std::string_view check_valid, double tol, std::string_view method) {
  const Range named("random.multivariate_normal");
  if (is_quasi_random(bits_.kind)) {
    throw NotSupported(
        fmt::format("multivariate_normal with {}: transform standard_normal((dimensions, count))", name(bits_.kind)));
  }
  const NormalVectors vectors = normal_vectors(mean, cov, check_valid, tol, method);
  const int64_t n = vectors.mean.size();
  const Dims shape = with_last(batch_shape(size, Dims{}), n);
  const Arg location = vectors.mean;
  Recipe recipe(*this, DType::float64, {&location}, Ints(shape));
  NdArray z = recipe.make(recipe.normal());
  if (n == 0) return z;
  const NdArray rows = linalg::matmul(z.reshape(Dims{z.size() / n, n}), vectors.root.T());
  return rows.reshape(shape) + vectors.mean;
}

}  // namespace quarry::local
