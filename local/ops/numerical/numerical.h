// Sliding products, interpolation, and functions applied to parts of arrays.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops {

// The sliding products of two vectors, computed directly (exact for integers): a reversed v slides over a ...
NdArray convolve(const NdArray& a, const NdArray& v, std::string_view mode = "full");
// ... or conj(v) itself. `mode`: full (every overlap), same (as long as the longer), valid (complete overlaps only).
// Throws InvalidArgument for empty and for two-dimensional arrays (correlate also for 0-d ones, as NumPy).
NdArray correlate(const NdArray& a, const NdArray& v, std::string_view mode = "valid");

// Piecewise linear interpolation of the points (xp, fp), xp increasing, at x: float64, or complex128 for complex fp.
// Outside, `left` and `right` (default: the first and last of fp); or all is periodic.
NdArray interp(const NdArray& x, const NdArray& xp, const NdArray& fp, std::optional<Scalar> left = std::nullopt,
               std::optional<Scalar> right = std::nullopt, std::optional<double> period = std::nullopt);

// func1d(slice, *args) for every slice along `axis`; its results' axes take the place of that axis. The function is
// called once per slice.
NdArray apply_along_axis(const ArrayFunction& func1d, int64_t axis, const NdArray& arr,
                         const std::vector<NdArray>& args = {});
// func(a, axis) for one axis after the other; axes that it removes are put back with one element.
NdArray apply_over_axes(const ArrayFunction& func, const NdArray& a, const Ints& axes);
// Where a condition holds, what its function gives for those elements of x, or its value. One more function than
// conditions: where none holds. Blocks.
NdArray piecewise(const NdArray& x, const NdArray& condlist,
                  const std::vector<std::variant<ArrayFunction, Arg>>& funclist, const std::vector<NdArray>& args = {});

}  // namespace quarry::local::ops
