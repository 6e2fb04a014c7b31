// Parameters that NumPy writes as None, an int or a tuple of ints, and the keyword arguments of reductions.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"

namespace quarry::local {

// NumPy's axis=: none (all axes), one, or several. An empty list reduces no axis.
class Axes {
 public:
  Axes() = default;
  Axes(std::nullopt_t) {}
  template <std::integral T>
  Axes(T axis) : axes_{{static_cast<int64_t>(axis)}} {}
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
  template <std::integral T>
  Ints(T value) : values_{static_cast<int64_t>(value)} {}
  Ints(std::initializer_list<int64_t> values) : values_(values), scalar_(false) {}
  Ints(std::vector<int64_t> values) : values_(std::move(values)), scalar_(false) {}
  Ints(const Dims& values) : values_(values.begin(), values.end()), scalar_(false) {}
  bool scalar() const { return scalar_; }
  const std::vector<int64_t>& values() const { return values_; }

 private:
  std::vector<int64_t> values_;
  bool scalar_ = true;
};

// NumPy's size=: none, 1000 or {1000, 8}.
class Size : public std::optional<Ints> {
 public:
  using std::optional<Ints>::optional;
  Size(std::initializer_list<int64_t> shape) : std::optional<Ints>(Ints(shape)) {}
};

namespace detail {

// The first member of options: it has no value that an argument could give, so braces without names are never options.
struct NamedOnly {
  explicit NamedOnly() = default;
};

// NumPy's keyword arguments of a reduction, for arrays of one process (NdArray) and chunked ones (Array):
//   x.std({.axis = 0, .ddof = 1})
// A function throws TypeError for one that NumPy's does not take.
template <class ArrayType>
struct BasicReduceOptions {
  NamedOnly only_by_name = NamedOnly();
  Axes axis = {};                               // where no axis precedes the options
  std::optional<DType> dtype = std::nullopt;    // sum, prod, mean, var, std: what they are accumulated in
  std::optional<ArrayType> out = std::nullopt;  // of the result's shape; any dtype: the result is cast
  double ddof = 0;                              // var, std (NumPy's correction= is another name)
  bool keepdims = false;
  std::optional<Scalar> initial = std::nullopt;   // sum, prod, min, max: precedes the elements
  std::optional<ArrayType> where = std::nullopt;  // bool, broadcast: the elements that take part
  std::optional<ArrayType> mean = std::nullopt;   // var, std: the mean with keepdims, where it is known already
};

}  // namespace detail

}  // namespace quarry::local
