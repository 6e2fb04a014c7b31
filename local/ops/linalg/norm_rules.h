// What norm(), vector_norm(), matrix_norm() and multi_dot() are made of, written once for arrays of one process and
// chunked ones. F names the functions: Array, sum, max, min (of numbers that are not negative: max of no elements is
// 0), absolute, power, nonzero_as_real, root_of_squares, singular_values, moveaxis,
// kept (the shape with these axes of one element), inexact (integers as float64).
#pragma once

#include <fmt/format.h>

#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "quarry/local/base/axes.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::local::linalg {

using NormOrderRule = std::optional<std::variant<double, std::string>>;

inline const double* norm_number(const NormOrderRule& ord) { return ord ? std::get_if<double>(&*ord) : nullptr; }
inline const std::string* norm_word(const NormOrderRule& ord) {
  return ord ? std::get_if<std::string>(&*ord) : nullptr;
}

template <class F, class A = typename F::Array>
A vector_norm_along(const A& x, const NormOrderRule& ord, const Axes& axis, bool keepdims) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (const std::string* text = norm_word(ord))
    throw InvalidArgument(fmt::format("Invalid norm order '{}' for vectors", *text));
  const double* p = norm_number(ord);
  if (!p || *p == 2) return F::root_of_squares(x, axis, keepdims);
  if (*p == kInfinity) return F::max(F::absolute(x), axis, keepdims);
  if (*p == -kInfinity) return F::min(F::absolute(x), axis, keepdims);
  if (*p == 0) return F::sum(F::nonzero_as_real(x), axis, keepdims);
  if (*p == 1) return F::sum(F::absolute(x), axis, keepdims);
  return F::power(F::sum(F::power(F::absolute(x), *p), axis, keepdims), 1 / *p);
}

// Of matrices in the last two axes.
template <class F, class A = typename F::Array>
A norm_of_matrices(const A& x, const NormOrderRule& ord) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (const std::string* text = norm_word(ord); text && *text != "fro" && *text != "f") {
    if (*text != "nuc") throw InvalidArgument("Invalid norm order for matrices.");
    return F::sum(F::singular_values(x), -1, false);
  }
  const double* p = norm_number(ord);
  if (!p) return F::root_of_squares(x, {-2, -1}, false);
  if (*p == 2) return F::max(F::singular_values(x), -1, false);
  if (*p == -2) return F::min(F::singular_values(x), -1, false);
  if (*p == 1) return F::max(F::sum(F::absolute(x), -2, false), -1, false);
  if (*p == -1) return F::min(F::sum(F::absolute(x), -2, false), -1, false);
  if (*p == kInfinity) return F::max(F::sum(F::absolute(x), -1, false), -1, false);
  if (*p == -kInfinity) return F::min(F::sum(F::absolute(x), -1, false), -1, false);
  throw InvalidArgument("Invalid norm order for matrices.");
}

// All axes where none is named.
inline std::vector<int64_t> listed_axes(const Axes& axis, int ndim) {
  if (!axis.none()) return axis.list();
  std::vector<int64_t> axes(static_cast<size_t>(ndim));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return axes;
}

template <class F, class A = typename F::Array>
A norm(const A& x_in, const NormOrderRule& ord, const Axes& axis, bool keepdims) {
  const A x = F::inexact(x_in);
  const int ndim = x.ndim();
  if (axis.none()) {
    const double* p = norm_number(ord);
    const std::string* text = norm_word(ord);
    const bool frobenius = text && (*text == "fro" || *text == "f");
    if (!ord || (frobenius && ndim == 2) || (p && *p == 2 && ndim == 1)) return F::root_of_squares(x, {}, keepdims);
  }
  const std::vector<int64_t> axes = listed_axes(axis, ndim);
  if (axes.size() == 1) return vector_norm_along<F>(x, ord, axes[0], keepdims);
  if (axes.size() != 2) throw InvalidArgument("Improper number of dimensions to norm.");
  const std::array<int, 2> both = {normalize_axis(axes[0], ndim), normalize_axis(axes[1], ndim)};
  if (both[0] == both[1]) throw InvalidArgument("Duplicate axes given.");
  const A result = norm_of_matrices<F>(F::moveaxis(x, {both[0], both[1]}, {-2, -1}), ord);
  return keepdims ? F::kept(result, x.shape(), both) : result;
}

// Where to split each part [i, j] of a chain of matrices, matrix i of (extents[i], extents[i + 1]), for the fewest
// operations (Cormen et al., Introduction to Algorithms, 15.2).
inline std::vector<std::vector<size_t>> best_splits(const std::vector<double>& extents) {
  const size_t n = extents.size() - 1;
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> split(n, std::vector<size_t>(n, 0));
  for (size_t length = 1; length < n; ++length) {
    for (size_t i = 0; i + length < n; ++i) {
      const size_t j = i + length;
      cost[i][j] = std::numeric_limits<double>::infinity();
      for (size_t k = i; k < j; ++k) {
        const double price = cost[i][k] + cost[k + 1][j] + extents[i] * extents[k + 1] * extents[j + 1];
        if (price < cost[i][j]) cost[i][j] = price, split[i][j] = k;
      }
    }
  }
  return split;
}

// The power n >= 1 of a matrix by squaring.
template <class A, class Product>
A power_by_squaring(A power, uint64_t n, const Product& product) {
  if (n == 3) return product(product(power, power), power);
  std::optional<A> result;
  for (;;) {
    if (n % 2 == 1) result = result ? product(*result, power) : power;
    n /= 2;
    if (n == 0) return *result;
    power = product(power, power);
  }
}

}  // namespace quarry::local::linalg
