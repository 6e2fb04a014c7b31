// Differences, integrals, sliding products and interpolation. Lazy.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/base/error.h"

namespace quarry {

// n-th differences of neighbours; prepend and append are joined to the array first (a number is one position wide).
// Throws InvalidArgument for n < 0 and for 0-d arrays.
Array diff(const Array& a, int64_t n = 1, int64_t axis = -1, const std::optional<Operand>& prepend = {},
           const std::optional<Operand>& append = {});
// Of the elements in C order, between to_begin and to_end, whose dtypes must cast to the array's by same_kind.
Array ediff1d(const Array& ary, const std::optional<Operand>& to_end = {}, const std::optional<Operand>& to_begin = {});
// The integral of y by the trapezoidal rule, over positions x or steps dx.
Array trapezoid(const Array& y, const std::optional<Array>& x = {}, const Operand& dx = 1.0, int64_t axis = -1);

// Angles without jumps between neighbours of more than `discont` (half a period): what is taken from a jump is taken
// from all that follow. Throws InvalidArgument for 0-d arrays.
Array unwrap(const Array& p, std::optional<double> discont = {}, int64_t axis = -1,
             const Scalar& period = 6.283185307179586);

// One array per axis. It is the array itself where there is one: Array g = gradient(f) for one dimension.
struct ArrayList : std::vector<Array> {
  using std::vector<Array>::vector;
  // Throws InvalidArgument unless there is one.
  operator Array() const {
    if (size() != 1) throw local::InvalidArgument("the result has " + std::to_string(size()) + " arrays, one per axis");
    return front();
  }
};
// A spacing of gradient(): a step, or the positions along an axis.
using Spacing = std::variant<Scalar, Array>;
// Central differences along all axes or those given; spacing: one number for all, or one number or array of positions
// per axis. At the ends differences of edge_order 1 or 2. Positions are taken as uneven; NumPy takes the formula of a
// step where they are even, which differs by rounding. Throws InvalidArgument for axes of edge_order elements or fewer.
ArrayList gradient(const Array& f, const std::vector<Spacing>& spacing = {}, const Axes& axis = {},
                   int64_t edge_order = 1);
ArrayList gradient(const Array& f, double spacing, const Axes& axis = {}, int64_t edge_order = 1);

// The sliding products of two vectors: a reversed v slides over a ... or conj(v) itself. `mode`: full (every overlap),
// same (as long as the longer), valid (complete overlaps only). Throw InvalidArgument for empty and for two-dimensional
// arrays. A task holds the shorter one, and what of the longer one meets it.
Array convolve(const Array& a, const Array& v, std::string_view mode = "full");
Array correlate(const Array& a, const Array& v, std::string_view mode = "valid");

// Piecewise linear interpolation of the points (xp, fp), xp increasing, at x: float64, or complex128 for complex fp.
// Outside, `left` and `right` (default: the first and last of fp); or all is periodic. xp and fp are brought to every
// rank (blocking, collective), and a task holds them. Throws InvalidArgument for points that are no vectors of equal
// length.
Array interp(const Array& x, const Array& xp, const Array& fp, std::optional<Scalar> left = std::nullopt,
             std::optional<Scalar> right = std::nullopt, std::optional<double> period = std::nullopt);

}  // namespace quarry
