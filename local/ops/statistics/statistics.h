// Order statistics, averages, correlation and histograms, by NumPy's names.
//
// NaN, dtypes and errors are NumPy's, except that the dtype of a result never depends on whether the data hold a NaN
// and that 16-bit floats are summed in float32. Results are new, in C order, on the arrays' device. `overwrite_input`
// only allows the array to be overwritten; its values stay. Axes are those of the array: a 0-d one has none, so that
// any axis is an IndexError.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops {

using ArrayPair = std::pair<NdArray, NdArray>;
// A number of equal bins, the edges of any, or the name of a rule for their number: auto, doane, fd, rice, scott, sqrt,
// stone, sturges.
using Bins = std::variant<std::string, int64_t, NdArray>;
using BinRange = std::optional<std::pair<Scalar, Scalar>>;
// (N, D), or one array of N for each of the D coordinates; a number of bins for all of them, or an entry per
// coordinate: a number (0-d) or edges.
using Sample = std::variant<ArrayTuple, NdArray>;
using AxisBins = std::variant<int64_t, ArrayTuple, NdArray>;

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

// Covariance of variables in rows (`rowvar`) or columns, with those of `y` below, divided by the number of observations
// less `ddof` (1, or 0 with `bias`); fweights: how often each observation occurs, aweights: how much it counts. float64
// or complex128, or `dtype`; (p, p), or 0-d of one variable. Where there are no degrees of freedom the result is
// infinite or NaN. Throws InvalidArgument (dimensions, lengths, negative weights, a ddof that is no integer), TypeError
// for fweights that are not integers. Blocks with weights. Memory: a copy of the data.
NdArray cov(const NdArray& m, const std::optional<NdArray>& y = std::nullopt, bool rowvar = true, bool bias = false,
            std::optional<double> ddof = std::nullopt, const std::optional<NdArray>& fweights = std::nullopt,
            const std::optional<NdArray>& aweights = std::nullopt, std::optional<DType> dtype = std::nullopt);
// The covariance divided by the standard deviations of both variables, cut off to [-1, 1] in each part.
NdArray corrcoef(const NdArray& x, const std::optional<NdArray>& y = std::nullopt, bool rowvar = true,
                 std::optional<DType> dtype = std::nullopt);

// How many elements are in each bin, and the edges. A bin holds its lower edge, the last one its upper edge too; NaN
// and what lies outside is in none. Counts are int64, or of the weights' dtype, added up as float64; with `density`
// divided by the bins' widths and the sum. Equal bins lie between the bounds of `range`, by default the smallest and
// the largest element; their edges have the dtype that the bounds and a promote to, float64 for integers. One pass over
// the data beside that for the bounds. Throws InvalidArgument (bounds that are not finite, edges that descend, no bins,
// bins too narrow for the dtype, weights of another shape), TypeError (complex numbers). Blocks.
ArrayPair histogram(const NdArray& a, const Bins& bins = int64_t{10}, const BinRange& range = std::nullopt,
                    std::optional<bool> density = std::nullopt, const std::optional<NdArray>& weights = std::nullopt);
// The edges alone. One more than bins.
NdArray histogram_bin_edges(const NdArray& a, const Bins& bins = int64_t{10}, const BinRange& range = std::nullopt,
                            const std::optional<NdArray>& weights = std::nullopt);
// The same of points with D coordinates: float64 counts of D axes, and the edges along each. Throws besides TypeError
// for complex weights.
std::pair<NdArray, std::vector<NdArray>> histogramdd(const Sample& sample, const AxisBins& bins = int64_t{10},
                                                     const std::optional<std::vector<BinRange>>& range = std::nullopt,
                                                     std::optional<bool> density = std::nullopt,
                                                     const std::optional<NdArray>& weights = std::nullopt);
// Two coordinates: counts, edges of x, edges of y. More than two entries of `bins` are the edges of both.
std::tuple<NdArray, NdArray, NdArray> histogram2d(const NdArray& x, const NdArray& y,
                                                  const AxisBins& bins = int64_t{10},
                                                  const std::optional<std::vector<BinRange>>& range = std::nullopt,
                                                  std::optional<bool> density = std::nullopt,
                                                  const std::optional<NdArray>& weights = std::nullopt);

}  // namespace quarry::local::ops
