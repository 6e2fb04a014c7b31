// Shapes, axes, joining, splitting, repeating and padding. See local/ops/manipulation/manipulation.h.
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/ops/manipulation/manipulation.h"

namespace quarry::local {

using ops::append;
using ops::array_split;
using ops::as_strided;
using ops::ascontiguousarray;
using ops::asfortranarray;
using ops::astype;
using ops::block;
using ops::Broadcast;
using ops::broadcast;
using ops::broadcast_shapes;
using ops::broadcast_to;
using ops::column_stack;
using ops::concatenate;
using ops::copy;
using ops::diag;
using ops::diagflat;
using ops::diagonal;
using ops::dsplit;
using ops::dstack;
using ops::expand_dims;
using ops::flatten;
using ops::flip;
using ops::fliplr;
using ops::flipud;
using ops::hsplit;
using ops::hstack;
using ops::matrix_transpose;
using ops::moveaxis;
using ops::ndim;
using ops::PadFunction;
using ops::ravel;
using ops::reshape;
using ops::resize;
using ops::roll;
using ops::rollaxis;
using ops::rot90;
using ops::shape;
using ops::size;
using ops::sliding_window_view;
using ops::split;
using ops::squeeze;
using ops::stack;
using ops::swapaxes;
using ops::tile;
using ops::to_device;
using ops::trace;
using ops::transpose;
using ops::tri;
using ops::tril;
using ops::triu;
using ops::unstack;
using ops::vsplit;
using ops::vstack;
inline NdArray concat(const std::vector<NdArray>& arrays, std::optional<int64_t> axis = 0) {
  return ops::concatenate(arrays, axis);
}
inline NdArray permute_dims(const NdArray& a, const Axes& axes) { return ops::transpose(a, axes); }

// One array, or a list for several.
inline NdArray atleast_1d(const NdArray& a) { return std::get<NdArray>(ops::atleast_1d({a})); }
inline NdArray atleast_2d(const NdArray& a) { return std::get<NdArray>(ops::atleast_2d({a})); }
inline NdArray atleast_3d(const NdArray& a) { return std::get<NdArray>(ops::atleast_3d({a})); }

// auto [x, y] = broadcast_arrays(a, b)
template <class... Arrays>
requires(std::is_convertible_v<const Arrays&, NdArray>&&...) std::array<NdArray, sizeof...(Arrays)> broadcast_arrays(
    const Arrays&... args) {
  const std::vector<NdArray> views = ops::broadcast_arrays({NdArray(args)...});
  std::array<NdArray, sizeof...(Arrays)> result;
  std::copy(views.begin(), views.end(), result.begin());
  return result;
}
using ops::broadcast_arrays;  // of a vector

inline NdArray repeat(const NdArray& a, int64_t repeats, std::optional<int64_t> axis = std::nullopt) {
  return ops::repeat(a, repeats, axis);
}
inline NdArray repeat(const NdArray& a, const NdArray& repeats, std::optional<int64_t> axis = std::nullopt) {
  return ops::repeat(a, repeats, axis);
}

// Positions: an integer, a slice, or integers in an array or in braces; delete_() also takes a mask.
template <class Position>
requires std::is_integral_v<Position> || std::is_same_v<Position, Slice> NdArray
insert(const NdArray& arr, Position position, const NdArray& values, std::optional<int64_t> axis = std::nullopt) {
  return ops::insert(arr, position, values, axis);
}
template <detail::Literal Value, class Position>
requires std::is_integral_v<Position> || std::is_same_v<Position, Slice> NdArray
insert(const NdArray& arr, Position position, Value value, std::optional<int64_t> axis = std::nullopt) {
  return ops::insert(arr, position, NdArray{value}[0], axis);
}
inline NdArray insert(const NdArray& arr, const NdArray& positions, const NdArray& values,
                      std::optional<int64_t> axis = std::nullopt) {
  return ops::insert(arr, positions, values, axis);
}
template <class Position>
requires std::is_integral_v<Position> || std::is_same_v<Position, Slice> NdArray
delete_(const NdArray& arr, Position position, std::optional<int64_t> axis = std::nullopt) {
  return ops::delete_(arr, position, axis);
}
inline NdArray delete_(const NdArray& arr, const NdArray& positions, std::optional<int64_t> axis = std::nullopt) {
  return ops::delete_(arr, positions, axis);
}

// NumPy's keyword arguments of pad().
struct PadOptions {
  std::optional<NdArray> stat_length = std::nullopt;      // maximum, mean, median, minimum
  std::optional<NdArray> constant_values = std::nullopt;  // constant
  std::optional<NdArray> end_values = std::nullopt;       // linear_ramp
  std::optional<std::string_view> reflect_type = std::nullopt;
};
// pad(x, 1), pad(x, {1, 2}) for every axis, pad(x, {{1, 1}, {0, 2}}) axis by axis.
inline NdArray pad(const NdArray& array, const NdArray& pad_width, std::string_view mode = "constant",
                   const PadOptions& options = {}) {
  return ops::pad(array, pad_width, mode, options.stat_length, options.constant_values, options.end_values,
                  options.reflect_type);
}
inline NdArray pad(const NdArray& array, int64_t pad_width, std::string_view mode = "constant",
                   const PadOptions& options = {}) {
  return pad(array, NdArray{pad_width}, mode, options);
}
inline NdArray pad(const NdArray& array, const NdArray& pad_width, const PadFunction& mode) {
  return ops::pad(array, pad_width, mode);
}

namespace lib::stride_tricks {
using ops::as_strided;
using ops::sliding_window_view;
}  // namespace lib::stride_tricks

}  // namespace quarry::local
