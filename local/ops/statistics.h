// Order statistics, averages, correlation and histograms, by NumPy's names.
//
// NaN, dtypes and errors are NumPy's, except that the dtype of a result never depends on whether the data hold a NaN
// and that 16-bit floats are summed in float32. Results are new, in C order, on the arrays' device. `overwrite_input`
// only allows the array to be overwritten; its values stay. Axes are those of the array: a 0-d one has none, so that
// any axis is an IndexError.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "local/ops/arguments.h"

namespace quarry::local::ops {

using ArrayPair = std::pair<NdArray, NdArray>;

// The mean, with `weights` of a's shape or of the shape of the axes in the order given: sum(a w) / sum(w). `returned`:
// beside it the sum of the weights, of the same shape. Throws TypeError, InvalidArgument for weights of other shapes,
// InvalidArgument where they sum to zero (Python's ZeroDivisionError). Blocks with weights. One read of the data.
std::variant<NdArray, ArrayPair> average(const NdArray& a, const Axes& axis = {},
                                         const std::optional<NdArray>& weights = std::nullopt, bool returned = false,
                                         bool keepdims = false);

// How often each of 0, 1, ... max(x) occurs in the one-dimensional x, as int64; with `weights` the sum of theirs, as
// float64; at least `minlength` of them. Throws TypeError where x is not of integers or the weights do not become
// float64, InvalidArgument for negative values and other shapes. Blocks.
NdArray bincount(const NdArray& x, const std::optional<NdArray>& weights = std::nullopt, int64_t minlength = 0);

// The middle element of the sorted values over the axes, or the mean of the middle two; integers as float64. A NaN
// among them is the result; the second function leaves NaNs out, and without a number gives NaN. `out` gets the result
// as astype() converts. One partition; nanmedian sorts where rows have different numbers of NaNs, and blocks.
NdArray median(const NdArray& a, const Axes& axis = {}, const std::optional<NdArray>& out = std::nullopt,
               bool overwrite_input = false, bool keepdims = false);
NdArray nanmedian(const NdArray& a, const Axes& axis = {}, const std::optional<NdArray>& out = std::nullopt,
                  bool overwrite_input = false, bool keepdims = false);

// Quantiles q in [0, 1] (percentiles in [0, 100]) over the axes: q's axes, at most two, come first in the result.
// `method` is one of NumPy's 13. Methods that interpolate give the dtype of a + (b - a) q, where a Python number is
// weak; the others that of a. With `weights`, of a's shape or that of the axes, method "inverted_cdf" alone. NaN as for
// the median. Throws InvalidArgument (quantiles out of range, unknown methods, weights that are negative, all zero or
// not finite), IndexError for no elements, TypeError for complex numbers, bool where a method interpolates, and casts
// to `out` that same_kind forbids. Reads q, and blocks with weights or where NaNs are counted.
NdArray percentile(const NdArray& a, const Arg& q, const Axes& axis = {},
                   const std::optional<NdArray>& out = std::nullopt, bool overwrite_input = false,
                   std::string_view method = "linear", bool keepdims = false,
                   const std::optional<NdArray>& weights = std::nullopt);
NdArray quantile(const NdArray& a, const Arg& q, const Axes& axis = {},
                 const std::optional<NdArray>& out = std::nullopt, bool overwrite_input = false,
                 std::string_view method = "linear", bool keepdims = false,
                 const std::optional<NdArray>& weights = std::nullopt);
NdArray nanpercentile(const NdArray& a, const Arg& q, const Axes& axis = {},
                      const std::optional<NdArray>& out = std::nullopt, bool overwrite_input = false,
                      std::string_view method = "linear", bool keepdims = false,
                      const std::optional<NdArray>& weights = std::nullopt);
NdArray nanquantile(const NdArray& a, const Arg& q, const Axes& axis = {},
                    const std::optional<NdArray>& out = std::nullopt, bool overwrite_input = false,
                    std::string_view method = "linear", bool keepdims = false,
                    const std::optional<NdArray>& weights = std::nullopt);

}  // namespace quarry::local::ops
