// The types of the eager functions' parameters. The expression language converts its values to exactly these
// (local/ops/functions/function.def), so that a function is declared once.
#pragma once

#include <complex>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {

// An argument of an eager function: an array, or a literal (weak, NEP 50) or strong scalar. Refers to the array, which
// must outlive it.
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

// NumPy's axis=: none (all axes), one, or several. An empty list reduces no axis.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{{axis}} {}
  Axes(int64_t axis) : axes_{{axis}} {}
  Axes(std::initializer_list<int64_t> axes) : axes_(axes) {}
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}
  // Bit per axis of an array of `ndim` dimensions. Throws IndexError out of range, InvalidArgument for a duplicate.
  uint32_t mask(int ndim) const;
  bool none() const { return !axes_; }
  // In the order given. Only where not none().
  const std::vector<int64_t>& list() const { return *axes_; }

 private:
  std::optional<std::vector<int64_t>> axes_;
};

// One integer or several: NumPy's shift=, repeats=, a shape, axes of moveaxis.
class Ints {
 public:
  Ints(int value) : values_{value} {}
  Ints(int64_t value) : values_{value} {}
  Ints(std::initializer_list<int64_t> values) : values_(values), scalar_(false) {}
  Ints(std::vector<int64_t> values) : values_(std::move(values)), scalar_(false) {}
  Ints(const Dims& values) : values_(values.begin(), values.end()), scalar_(false) {}
  bool scalar() const { return scalar_; }
  const std::vector<int64_t>& values() const { return values_; }

 private:
  std::vector<int64_t> values_;
  bool scalar_ = true;
};

// Several arrays that Python gets as a tuple (nonzero, ix_): an index in one piece.
struct ArrayTuple : std::vector<NdArray> {
  using std::vector<NdArray>::vector;
};

// A callable over arrays (apply_along_axis, piecewise, fromfunction).
using ArrayFunction = std::function<NdArray(std::span<const NdArray>)>;

// NumPy's keyword arguments of a ufunc call.
struct UfuncOptions {
  std::optional<DType> dtype = std::nullopt;    // forces the loop
  std::optional<NdArray> out = std::nullopt;    // the result is written there and returned; the inputs broadcast to it
  std::optional<NdArray> where = std::nullopt;  // bool, broadcast; elsewhere `out` keeps its values (zeros if new)
  Casting casting = Casting::same_kind;
};

// NumPy's keyword arguments of a reduction. A function throws TypeError for one that NumPy's does not take.
struct ReduceOptions {
  bool keepdims = false;
  std::optional<DType> dtype = std::nullopt;     // sum, prod, mean, var, std: what they are accumulated in
  double ddof = 0;                               // var, std (NumPy's correction= is another name)
  std::optional<NdArray> out = std::nullopt;     // of the result's shape; any dtype: the result is cast
  std::optional<Scalar> initial = std::nullopt;  // sum, prod, min, max: precedes the elements
  std::optional<NdArray> where = std::nullopt;   // bool, broadcast: the elements that take part
  std::optional<NdArray> mean = std::nullopt;    // var, std: the mean with keepdims, where it is known already
};

}  // namespace quarry::local
