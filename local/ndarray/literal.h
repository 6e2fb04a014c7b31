// Numbers in nested braces: {1, 2, 3} or {{1, 2}, {3, 4.5}}.
#pragma once

#include <complex>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"

namespace quarry::local {

// A number, or a list of such. What takes an NdArray takes braces: percentile(x, {5, 95}), dot(a, {{0, 1}, {1, 0}}).
class ArrayLiteral {
 public:
  template <detail::Literal T>
  ArrayLiteral(T number) : number_(number) {}
  ArrayLiteral(const Scalar& number) : number_(number) {}
  ArrayLiteral(std::initializer_list<ArrayLiteral> list) : list_(list), is_list_(true) {}

  // Of every depth the length of its lists. Throws InvalidArgument where lists of one depth differ in length, or
  // numbers stand beside lists.
  Dims shape() const;
  // As NumPy's for such a list: bool, int64, float64 or complex128; float64 without numbers.
  DType dtype() const;
  // The numbers in C order, converted to `dtype`.
  void store(DType dtype, std::byte* out) const;

 private:
  void collect(std::vector<const Scalar*>& numbers) const;
  Scalar number_;
  std::vector<ArrayLiteral> list_;
  bool is_list_ = false;
};

}  // namespace quarry::local
