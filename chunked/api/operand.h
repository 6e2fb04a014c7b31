// Arguments of the array functions: arrays and literals side by side.
#pragma once

#include <complex>
#include <concepts>
#include <optional>
#include <type_traits>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/local/base/axes.h"

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

using local::Axes;

}  // namespace quarry
