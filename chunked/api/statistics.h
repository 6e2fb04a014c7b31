// Averages, correlation and moments, by NumPy's names, and the tests of scipy.stats. Lazy but where it is said. NaN
// anywhere in a slice makes its result NaN.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/api/statistics.h"

namespace quarry {

using local::Returned;
using local::returned;

// The weighted mean, and with `returned` the sum of the weights, of the same shape: auto [m, w] = average(x, 0,
// weights, returned). Weights have a's shape, or that of the axes in the order given. Throws as
// local/ops/statistics/statistics.h says; weights are checked at the call: blocking, collective. One read of the data.
Array average(const Array& a, const Axes& axis = {}, const std::optional<Array>& weights = std::nullopt,
              bool keepdims = false);
std::pair<Array, Array> average(const Array& a, const Axes& axis, const std::optional<Array>& weights, Returned,
                                bool keepdims = false);

// Covariances of the variables in rows (`rowvar`) or columns, with those of `y` below: see local/ops/statistics. Two
// reads: the means, then one product. Weights are checked at the call: blocking, collective.
Array cov(const Array& m, const std::optional<Array>& y = std::nullopt, bool rowvar = true, bool bias = false,
          std::optional<double> ddof = std::nullopt, const std::optional<Array>& fweights = std::nullopt,
          const std::optional<Array>& aweights = std::nullopt, std::optional<DType> dtype = std::nullopt);
// Covariances divided by the deviations of both variables, cut off to [-1, 1] in each part.
Array corrcoef(const Array& x, const std::optional<Array>& y = std::nullopt, bool rowvar = true,
               std::optional<DType> dtype = std::nullopt);

// The central moment sum((a - mean)^order) / (n - ddof) over the axes: dask.array.moment. Two reads from order 2 on.
// Throws InvalidArgument for a negative order.
Array moment(const Array& a, int64_t order, const Axes& axis = {}, std::optional<DType> dtype = std::nullopt,
             bool keepdims = false, double ddof = 0);

namespace detail {

// func(array, axis) for each of the axes in turn; where it takes the axis away, it comes back with length 1.
Array restored_axis(const Array& result, const Array& before, int64_t axis);

}  // namespace detail

template <class F>
requires std::is_invocable_r_v<Array, F, Array, int64_t> Array apply_over_axes(F func, const Array& a,
                                                                               const local::Ints& axes) {
  Array value = a;
  for (int64_t axis : axes.values()) {
    if (axis < 0) axis += a.ndim();
    value = detail::restored_axis(func(value, axis), value, axis);
  }
  return value;
}

// SciPy's, over one axis or all (none). Integers count as float64. p-values are two-sided where that makes sense.
namespace stats {

using Axis = std::optional<int64_t>;
struct TestResult {
  Array statistic, pvalue;
  static constexpr const char* kFields[] = {"statistic", "pvalue"};
  auto tie() const { return std::tie(statistic, pvalue); }
};

// Central; of order 0 one. Two reads from order 2 on.
Array moment(const Array& a, int64_t order = 1, Axis axis = 0);
// m3 / m2^1.5 and m4 / m2^2 (less 3 by `fisher`), NaN of slices whose elements are equal; without `bias` corrected. Two
// reads: the means, then all moments.
Array skew(const Array& a, Axis axis = 0, bool bias = true);
Array kurtosis(const Array& a, Axis axis = 0, bool fisher = true, bool bias = true);
// Whether skewness, kurtosis, or both are those of a normal distribution. NaN of fewer than 8, 5 and 8 elements.
TestResult skewtest(const Array& a, Axis axis = 0);
TestResult kurtosistest(const Array& a, Axis axis = 0);
TestResult normaltest(const Array& a, Axis axis = 0);
// Observed against expected frequencies, by default equal ones. `lambda` is a number, or pearson, log-likelihood,
// freeman-tukey, mod-log-likelihood, neyman, cressie-read. Throw InvalidArgument where the sums differ by more than the
// root of epsilon: checked at the call where `f_exp` is given, blocking, collective.
TestResult power_divergence(const Array& f_obs, const std::optional<Array>& f_exp = std::nullopt, double ddof = 0,
                            Axis axis = 0, const std::variant<double, std::string_view>& lambda = 1.0);
TestResult chisquare(const Array& f_obs, const std::optional<Array>& f_exp = std::nullopt, double ddof = 0,
                     Axis axis = 0);
// Whether groups have equal means. Throws TypeError for fewer than two. Each group is read once.
TestResult f_oneway(std::span<const Array> groups, Axis axis = 0);
TestResult f_oneway(std::initializer_list<Array> groups, Axis axis = 0);
// Student's tests: the mean against a number (or one per slice), means of two samples (Welch's without `equal_var`), of
// pairs. One read.
TestResult ttest_1samp(const Array& a, const Operand& popmean, Axis axis = 0);
TestResult ttest_ind(const Array& a, const Array& b, Axis axis = 0, bool equal_var = true);
TestResult ttest_rel(const Array& a, const Array& b, Axis axis = 0);

}  // namespace stats
}  // namespace quarry
