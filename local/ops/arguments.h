// The types of the eager functions' parameters. The expression language converts its values to exactly these
// (local/ops/functions/function.def), so that a function is declared once.
#pragma once

#include <complex>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/local/base/axes.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {

// An argument of an eager function: an array, or a literal (weak, NEP 50) or strong scalar, or numbers in braces.
// Refers to the array, which must outlive it.
class Arg {
 public:
  Arg(const NdArray& array) : array_(&array) {}
  Arg(const Scalar& scalar) : scalar_(scalar) {}
  template <detail::Literal T>
  Arg(T literal) : scalar_(literal) {}
  Arg(std::initializer_list<ArrayLiteral> list) : Arg(std::make_shared<const NdArray>(list)) {}
  // What stands for an array (Elements).
  template <class T>
  requires requires(const T& proxy) { requires std::is_same_v<decltype(proxy.value()), NdArray>; }
  Arg(const T& proxy) : Arg(std::make_shared<const NdArray>(proxy.value())) {}

  const NdArray* array() const { return array_; }
  const Scalar& scalar() const { return scalar_; }
  detail::PromotionOperand promotion() const {
    return array_ ? detail::PromotionOperand{array_->dtype(), false}
                  : detail::PromotionOperand{scalar_.dtype(), scalar_.weak()};
  }

 private:
  explicit Arg(std::shared_ptr<const NdArray> own) : array_(own.get()), own_(std::move(own)) {}
  const NdArray* array_ = nullptr;
  std::shared_ptr<const NdArray> own_;
  Scalar scalar_;
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

using ReduceOptions = detail::BasicReduceOptions<NdArray>;

}  // namespace quarry::local
