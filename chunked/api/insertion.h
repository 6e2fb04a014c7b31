// Elements added to and taken out of an axis. Positions are known when the array is made: those in arrays are brought
// to every rank (blocking, collective), and each run of equal distances becomes a slice.
#pragma once

#include <concepts>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/chunked/api/operand.h"

namespace quarry {

// Elements before and after by axis.
using AxisWidths = std::vector<std::pair<int64_t, std::pair<int64_t, int64_t>>>;

// NumPy's keyword arguments of pad().
struct PadOptions {
  std::optional<NdArray> stat_length = std::nullopt;      // maximum, mean, minimum
  std::optional<NdArray> constant_values = std::nullopt;  // constant
  std::optional<NdArray> end_values = std::nullopt;       // linear_ramp
  std::optional<std::string_view> reflect_type = std::nullopt;
};

namespace detail {
Array insert_at(const Array& arr, int64_t position, const Operand& values, std::optional<int64_t> axis);
Array insert_at(const Array& arr, const Slice& positions, const Operand& values, std::optional<int64_t> axis);
Array delete_at(const Array& arr, int64_t position, std::optional<int64_t> axis);
Array delete_at(const Array& arr, const Slice& positions, std::optional<int64_t> axis);
}  // namespace detail

// Positions: an integer, a slice, or integers in an array or in braces; delete_() also takes a mask. Without an axis of
// the raveled array. Values are cast to the array's dtype and broadcast. Throw IndexError out of bounds.
template <class Position>
requires std::integral<Position> || std::same_as<Position, Slice> Array
insert(const Array& arr, Position position, const Operand& values, std::optional<int64_t> axis = std::nullopt) {
  return detail::insert_at(arr, position, values, axis);
}
Array insert(const Array& arr, const Array& positions, const Operand& values,
             std::optional<int64_t> axis = std::nullopt);
template <class Position>
requires std::integral<Position> || std::same_as<Position, Slice> Array
delete_(const Array& arr, Position position, std::optional<int64_t> axis = std::nullopt) {
  return detail::delete_at(arr, position, axis);
}
Array delete_(const Array& arr, const Array& positions, std::optional<int64_t> axis = std::nullopt);

// pad(x, 1), pad(x, {1, 2}) for every axis, pad(x, {{1, 1}, {0, 2}}) axis by axis. Modes constant, edge, linear_ramp,
// maximum, mean, median, minimum, reflect, symmetric, wrap, empty (zeros); lazy but for the median, which is computed
// at the call (blocking, collective). Widths axis by axis are pairs of an axis and its two sides. Throws as the local
// pad().
Array pad(const Array& array, const std::variant<AxisWidths, NdArray>& pad_width, std::string_view mode = "constant",
          const PadOptions& options = {});
Array pad(const Array& array, const NdArray& pad_width, std::string_view mode = "constant",
          const PadOptions& options = {});
Array pad(const Array& array, int64_t pad_width, std::string_view mode = "constant", const PadOptions& options = {});

// Without the zeros at the front ('f' in `trim`) and the back ('b') of all axes or those given. What is trimmed is
// computed at the call: blocking, collective.
Array trim_zeros(const Array& filt, std::string_view trim = "fb", const Axes& axis = {});

}  // namespace quarry
