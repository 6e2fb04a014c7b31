// Arguments of the array functions: arrays and literals side by side.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/local/base/axes.h"

namespace quarry {

// An array, a scalar, or numbers in braces. C++ literals are weak (NEP 50): they take the dtype of the arrays beside
// them.
class Operand {
 public:
  Operand(const Array& array) : array_(array), is_array_(true) {}
  Operand(const Elements& elements) : Operand(elements.value()) {}
  Operand(const Scalar& scalar) : scalar_(scalar) {}
  template <local::detail::Literal T>
  Operand(T value) : scalar_(value) {}
  Operand(std::initializer_list<local::ArrayLiteral> list) : Operand(Array(list)) {}
  // An array of one process, the same on every rank, as one chunk.
  Operand(const NdArray& array) : Operand(Array::from_local(array)) {}

  bool is_array() const { return is_array_; }
  const Array& array() const { return array_; }
  const Scalar& scalar() const { return scalar_; }

 private:
  Array array_;
  Scalar scalar_;
  bool is_array_ = false;
};

using local::Axes;
using local::Ints;

}  // namespace quarry
