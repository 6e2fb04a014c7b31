// Arguments of the array functions: arrays and literals side by side.
#pragma once

#include <complex>
#include <concepts>
#include <optional>
#include <type_traits>
#include <vector>

#include "quarry/chunked/api/array.h"

namespace quarry {

// An array or a scalar. C++ literals are weak (NEP 50): they take the dtype of the arrays beside them.
class Operand {
 public:
  Operand(const Array& array) : array_(array), is_array_(true) {}
  Operand(const Scalar& scalar) : scalar_(scalar) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T value) : scalar_(value) {}
  Operand(std::complex<double> value) : scalar_(value) {}

  bool is_array() const { return is_array_; }
  const Array& array() const { return array_; }
  const Scalar& scalar() const { return scalar_; }

 private:
  Array array_;
  Scalar scalar_;
  bool is_array_ = false;
};

// NumPy's axis argument: none (all axes), one, or several.
class Axes {
 public:
  Axes() = default;
  Axes(std::nullopt_t) {}
  template <std::integral T>
  Axes(T axis) : axes_(std::vector<int64_t>{static_cast<int64_t>(axis)}) {}
  Axes(std::initializer_list<int64_t> axes) : axes_(axes) {}
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}
  bool all() const { return !axes_; }
  const std::vector<int64_t>& list() const { return *axes_; }
  // As bits, for an array of `ndim` axes. Throws IndexError for an axis out of range, InvalidArgument for one named
  // twice.
  uint32_t mask(int ndim) const;

 private:
  std::optional<std::vector<int64_t>> axes_;
};

}  // namespace quarry
