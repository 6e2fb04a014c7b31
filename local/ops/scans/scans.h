// Cumulative functions and differences, as NumPy's of the same names. Errors: IndexError for an axis, TypeError where
// the ufunc behind a function has no loop. None waits for its result.
#pragma once

#include <numbers>
#include <variant>

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops {

// Without an axis over the elements in C order (a 1-d result). bool and narrow integers accumulate in 64 bits.
NdArray cumsum(const NdArray& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
               const std::optional<NdArray>& out = {});
NdArray cumprod(const NdArray& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                const std::optional<NdArray>& out = {});
// NaN counts as 0 or as 1.
NdArray nancumsum(const NdArray& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                  const std::optional<NdArray>& out = {});
NdArray nancumprod(const NdArray& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                   const std::optional<NdArray>& out = {});
// The array API's: one axis or a 1-d array; with include_initial the identity comes first, and the axis is one longer.
NdArray cumulative_sum(const NdArray& x, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                       const std::optional<NdArray>& out = {}, bool include_initial = false);
NdArray cumulative_prod(const NdArray& x, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                        const std::optional<NdArray>& out = {}, bool include_initial = false);

// n-th differences of neighbours; prepend and append are joined to the array first (a 0-d one is one position wide).
NdArray diff(const NdArray& a, int64_t n = 1, int64_t axis = -1, const std::optional<NdArray>& prepend = {},
             const std::optional<NdArray>& append = {});
// Of the elements in C order, between to_begin and to_end.
NdArray ediff1d(const NdArray& ary, const std::optional<NdArray>& to_end = {},
                const std::optional<NdArray>& to_begin = {});
// Adds multiples of the period, such that neighbours differ by at most half of it, or by less than `discont`.
NdArray unwrap(const NdArray& p, std::optional<double> discont = {}, int64_t axis = -1,
               const Scalar& period = Scalar(2 * std::numbers::pi));
// The integral of y by the trapezoidal rule, over positions x or steps dx.
NdArray trapezoid(const NdArray& y, const std::optional<NdArray>& x = {}, const Arg& dx = Arg(1.0), int64_t axis = -1);

// A spacing of gradient(): a step, or the positions along an axis.
using Spacing = std::variant<Scalar, NdArray>;
// Second-order central differences inside, differences of edge_order (1 or 2) at the ends, per axis; an array for one
// axis, a list for several.
std::variant<NdArray, std::vector<NdArray>> gradient(const NdArray& f, const std::vector<Spacing>& varargs = {},
                                                     const Axes& axis = {}, int64_t edge_order = 1);

}  // namespace quarry::local::ops
