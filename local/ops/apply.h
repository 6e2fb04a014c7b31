// The one function behind every eager elementwise call.
#pragma once

#include <complex>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "local/ndarray/ndarray.h"
#include "local/program/op.h"

namespace quarry::local {

// An argument of an eager function: an array, or a literal (weak, NEP 50) or strong scalar. Refers to the array.
class Arg {
 public:
  Arg(const NdArray& array) : array_(&array) {}
  Arg(const Scalar& scalar) : scalar_(scalar) {}
  template <class T>
  requires std::is_arithmetic_v<T> Arg(T literal) : scalar_(literal) {}
  Arg(std::complex<double> literal) : scalar_(literal) {}

  const NdArray* array() const { return array_; }
  const Scalar& scalar() const { return scalar_; }
  PromotionOperand promotion() const {
    return array_ ? PromotionOperand{array_->dtype(), false} : PromotionOperand{scalar_.dtype(), scalar_.weak()};
  }

 private:
  const NdArray* array_ = nullptr;
  Scalar scalar_;
};

// One ufunc over broadcast arguments; `dtype` forces the loop as NumPy's dtype=. The result is new, in C order, on the
// arrays' device. Throws TypeError (no loop), InvalidArgument (shapes that do not broadcast, devices that differ, a
// literal out of range, a negative power of integers), OutOfMemory. Does not wait for the result.
NdArray apply(Op op, std::span<const Arg> args, std::optional<DType> dtype = std::nullopt);
inline NdArray apply(Op op, std::initializer_list<Arg> args, std::optional<DType> dtype = std::nullopt) {
  return apply(op, std::span<const Arg>(args.begin(), args.size()), dtype);
}
// The outputs of divmod, modf, frexp in one pass.
std::vector<NdArray> apply(const MultiOutput& function, std::span<const Arg> args,
                           std::optional<DType> dtype = std::nullopt);

}  // namespace quarry::local
