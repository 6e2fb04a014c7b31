// Elements chosen by conditions and positions, positions in arrays, and bits. Lazy unless a function says otherwise.
#pragma once

#include <array>
#include <functional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "quarry/chunked/api/operand.h"

namespace quarry {

// Element by element from choices[a]; all broadcast. mode: "raise" computes the smallest and the largest position at
// the call (blocking, collective) and throws InvalidArgument for one outside; "wrap" and "clip" are lazy.
Array choose(const Array& a, const std::vector<Operand>& choices, std::string_view mode = "raise");
// The first choice whose condition is true. Throws TypeError for conditions that are not bool, InvalidArgument for no
// conditions, or another number of choices.
Array select(const std::vector<Array>& condlist, const std::vector<Operand>& choicelist, const Operand& default_ = 0);

// One part of piecewise(): a function of the elements, or a value.
class Piece {
 public:
  template <class F>
  requires std::is_invocable_v<F, Array> Piece(F function) : value_(std::function<Array(const Array&)>(function)) {}
  template <local::detail::Literal T>
  Piece(T value) : value_(Scalar(value)) {}
  const std::variant<std::function<Array(const Array&)>, Scalar>& value() const { return value_; }

 private:
  std::variant<std::function<Array(const Array&)>, Scalar> value_;
};
// piecewise(x, {x < 0, x >= 0}, {[](const auto& v) { return -v; }, 0.5}): of conditions that hold, the last counts. One
// more function than conditions: where none holds. A function gets all elements of x, and must be elementwise. The
// dtype is that of x. Throws InvalidArgument for another number of functions.
Array piecewise(const Array& x, const std::vector<Array>& condlist, const std::vector<Piece>& funclist);

// Flat positions to one array per axis and back; order "C" or "F". The smallest and the largest position are computed
// at the call (blocking, collective), and InvalidArgument is thrown for one out of bounds; the modes "wrap" and "clip"
// are lazy. Throw TypeError for positions that are no integers.
std::vector<Array> unravel_index(const Array& indices, const Dims& shape, std::string_view order = "C");
Array ravel_multi_index(const std::vector<Array>& multi_index, const Dims& dims, std::string_view mode = "raise",
                        std::string_view order = "C");

// Whether eight neighbours along the axis (of the raveled array without one) are non-zero as the bits of a uint8, the
// first one highest for bitorder 'big'; missing ones are 0. Throws TypeError but for bool and integers.
Array packbits(const Array& a, std::optional<int64_t> axis = std::nullopt, std::string_view bitorder = "big");
// The bits of a uint8 array; `count` of them: more are 0, a negative number is left off at the end.
Array unpackbits(const Array& a, std::optional<int64_t> axis = std::nullopt,
                 std::optional<int64_t> count = std::nullopt, std::string_view bitorder = "big");

}  // namespace quarry
