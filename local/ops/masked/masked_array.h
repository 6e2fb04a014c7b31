// numpy.ma's MaskedArray: data, and a mask beside it that is true where an element is missing. One class template for
// arrays of one process and chunked ones; ma.h (local/api, chunked/api) names it for each.
//
// What numpy.ma says holds, with these differences:
// - Data under a mask is not said: an operation may leave anything there. filled() and an assignment give it a value.
// - Numbers beside masked arrays are weak, as beside plain ones: float32 + 1.5 is float32.
// - Masks are values. An assignment through one handle shows in no other one, and the data of arrays of one process is
//   shared as NdArray's is.
// - There are no hard masks.
// Without a mask an array costs what its data costs.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "quarry/local/base/axes.h"
#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/program/op.h"
#include "quarry/local/program/rows.h"

namespace quarry::local::ma {

// The word for a missing element: x(0, _) = masked.
struct Masked {};
inline constexpr Masked masked{};

// numpy.ma's default: 999999, 1e20, True. As there an int64, uint64, float64, complex128 or bool, not of the dtype.
Scalar default_fill_value(DType dtype);
// The value as an element of the dtype. Throws TypeError for one that does not fit.
Scalar checked_fill_value(const Scalar& value, DType dtype);

template <class Kind>
class BasicMaskedArray;
template <class Kind>
class BasicMaskedElements;
template <class Kind>
class MaskedOperators;

// An argument: a masked array, an array, a number (weak), numbers in braces, or `masked`.
template <class Kind>
class BasicMaskedOperand {
 public:
  using Array = typename Kind::Array;
  BasicMaskedOperand(const BasicMaskedArray<Kind>& x);
  BasicMaskedOperand(const BasicMaskedElements<Kind>& x);
  BasicMaskedOperand(Masked);
  BasicMaskedOperand(std::initializer_list<ArrayLiteral> list) : array_(Array(list)) {}
  template <class T>
  requires std::is_constructible_v<typename Kind::Operand, const T&> BasicMaskedOperand(const T& value) {
    const typename Kind::Operand operand(value);
    if (const Array* array = Kind::array_of(operand))
      array_ = *array;
    else
      scalar_ = operand.scalar();
  }

  const std::optional<Array>& array() const { return array_; }  // the data; none for a number
  const Scalar& scalar() const { return scalar_; }
  const std::optional<Array>& mask() const { return mask_; }
  const std::optional<Scalar>& given_fill_value() const { return fill_value_; }
  Dims shape() const { return array_ ? array_->shape() : Dims{}; }
  DType dtype() const { return array_ ? array_->dtype() : scalar_.dtype(); }
  typename Kind::Operand data() const;  // refers to this object
  Array data_array() const;             // a number as a 0-d array
  bool is_masked_array() const { return is_masked_array_; }
  bool is_masked_word() const { return is_masked_word_; }  // `masked`

 private:
  std::optional<Array> array_, mask_;
  std::optional<Scalar> fill_value_;
  Scalar scalar_;
  bool is_masked_array_ = false, is_masked_word_ = false;
};

// NumPy's keyword arguments of a reduction.
struct MaskedReduceOptions {
  detail::NamedOnly only_by_name = detail::NamedOnly();
  Axes axis = {};                             // where no axis precedes the options
  std::optional<DType> dtype = std::nullopt;  // sum, prod, mean, var, std
  double ddof = 0;                            // var, std
  bool keepdims = false;
};

// The operators, found by their arguments: what numpy.ma's ufuncs say holds (apply() below).
template <class Kind>
class MaskedOperators {
  using Operand = BasicMaskedOperand<Kind>;
  using Result = BasicMaskedArray<Kind>;

 public:
#define QUARRY_OPERATOR(symbol, name) \
  friend Result operator symbol(const Operand& x, const Operand& y) { return apply(detail::named_op<#name>(), {x, y}); }
#define QUARRY_COMPARISON QUARRY_OPERATOR
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_COMPARISON
#undef QUARRY_OPERATOR
  friend Result operator-(const Operand& x) { return apply(detail::named_op<"negative">(), {x}); }
  friend Result operator+(const Operand& x) { return apply(detail::named_op<"positive">(), {x}); }
  friend Result operator~(const Operand& x) { return apply(detail::named_op<"invert">(), {x}); }

  // Any ufunc. Masks are united. Where the function has a domain (log, sqrt, arcsin, divide, power ...), what is
  // outside and what is not finite is masked, in the same pass. The fill value is that of the first masked array.
  static Result apply(detail::Op op, std::span<const Operand> args);
  static Result apply(detail::Op op, std::initializer_list<Operand> args) {
    return apply(op, std::span<const Operand>(args.begin(), args.size()));
  }
};

template <class Kind>
class BasicMaskedArray : public MaskedOperators<Kind> {
 public:
  using Array = typename Kind::Array;
  using Operand = BasicMaskedOperand<Kind>;
  using Options = MaskedReduceOptions;

  BasicMaskedArray() = default;
  // Throws TypeError for a mask that is not bool or a fill value that does not fit, InvalidArgument for a mask of
  // another shape.
  BasicMaskedArray(Array data, std::optional<Array> mask, const std::optional<Scalar>& fill_value = std::nullopt);
  BasicMaskedArray(std::initializer_list<ArrayLiteral> list) : data_(Array(list)) {}
  // Of an array or a number; without a mask.
  template <class T>
  requires std::is_constructible_v<typename Kind::Operand, const T&> BasicMaskedArray(const T& value)
      : data_(Operand(value).data_array()) {}
  BasicMaskedArray(const BasicMaskedElements<Kind>& elements) : BasicMaskedArray(elements.value()) {}
  BasicMaskedArray(Masked);  // 0-d float64

  const Array& data() const { return data_; }
  // None where no element can be masked.
  const std::optional<Array>& mask_or_none() const { return mask_; }
  Array mask() const;  // false everywhere where there is none
  Scalar fill_value() const { return fill_value_ ? *fill_value_ : default_fill_value(dtype()); }
  const std::optional<Scalar>& given_fill_value() const { return fill_value_; }
  void set_fill_value(const std::optional<Scalar>& value);  // none: the default. Throws TypeError.
  DType dtype() const { return data_.dtype(); }
  const Dims& shape() const { return data_.shape(); }
  int64_t shape(int64_t axis) const { return data_.shape(axis); }
  int ndim() const { return data_.ndim(); }
  int64_t size() const { return data_.size(); }

  // The data with the masked elements replaced: by the fill value, or by `value` (a number, or an array that
  // broadcasts).
  Array filled(const std::optional<Operand>& value = std::nullopt) const;
  // The elements that are not masked, one axis. Blocks; collective for chunked arrays.
  Array compressed() const;
  // Of one element, or NaN where it is masked. Blocks; collective for chunked arrays. Throws InvalidArgument for a
  // masked integer and for other sizes.
  template <class T>
  T item() const {
    const Scalar value = masked_item();
    return value.template as<T>();
  }
  template <detail::Literal T>
  explicit operator T() const {
    return item<T>();
  }
  bool is_masked() const;  // whether any element is. Blocks; collective for chunked arrays

  // Reductions over the elements that are not masked, one pass over data and mask; var and std take two. A result of
  // none is masked; so are means that are not finite, of at least one axis, as numpy.ma's. Of a mean of float32 the
  // dtype is float64, as there.
#define QUARRY_MASKED_REDUCTION(name)                                    \
  template <class = void>                                                \
  BasicMaskedArray name(const Axes& axis = {}) const {                   \
    return name(axis, Options());                                        \
  }                                                                      \
  BasicMaskedArray name(const Axes& axis, const Options& options) const; \
  BasicMaskedArray name(const Options& options) const { return name(options.axis, options); }
  QUARRY_MASKED_REDUCTION(sum)
  QUARRY_MASKED_REDUCTION(prod)
  QUARRY_MASKED_REDUCTION(mean)
  QUARRY_MASKED_REDUCTION(var)
  QUARRY_MASKED_REDUCTION(std)
  QUARRY_MASKED_REDUCTION(min)
  QUARRY_MASKED_REDUCTION(max)
  QUARRY_MASKED_REDUCTION(ptp)
  QUARRY_MASKED_REDUCTION(any)
  QUARRY_MASKED_REDUCTION(all)
  QUARRY_MASKED_REDUCTION(median)  // chunked arrays: blocking, collective
#undef QUARRY_MASKED_REDUCTION
  // Positions; 0 where all is masked. `fill_value` stands for masked elements, by default what none is beyond.
  Array argmin(std::optional<int64_t> axis = std::nullopt, const std::optional<Scalar>& fill_value = std::nullopt,
               bool keepdims = false) const;
  Array argmax(std::optional<int64_t> axis = std::nullopt, const std::optional<Scalar>& fill_value = std::nullopt,
               bool keepdims = false) const;
  Array count(const Axes& axis = {}, bool keepdims = false) const;  // of elements that are not masked, int64
  BasicMaskedArray anom(const Axes& axis = {}, std::optional<DType> dtype = std::nullopt) const;  // self - mean
  // Masked elements count as 0 or as 1 and stay masked.
  BasicMaskedArray cumsum(std::optional<int64_t> axis = std::nullopt, std::optional<DType> dtype = std::nullopt) const;
  BasicMaskedArray cumprod(std::optional<int64_t> axis = std::nullopt, std::optional<DType> dtype = std::nullopt) const;

  // Of data and mask alike.
  BasicMaskedArray ravel() const;
  BasicMaskedArray flatten() const { return ravel(); }
  BasicMaskedArray reshape(const Dims& shape) const;
  BasicMaskedArray transpose(const Axes& axes = {}) const;
  BasicMaskedArray T() const { return transpose(); }
  BasicMaskedArray swapaxes(int64_t axis1, int64_t axis2) const;
  BasicMaskedArray squeeze(const Axes& axis = {}) const;
  BasicMaskedArray astype(DType dtype) const;
  BasicMaskedArray real() const;
  BasicMaskedArray imag() const;
  BasicMaskedArray conj() const;
  BasicMaskedArray round(int64_t decimals = 0) const;
  BasicMaskedArray clip(const std::optional<Scalar>& low, const std::optional<Scalar>& high) const;
  BasicMaskedArray take(const Array& indices, std::optional<int64_t> axis = std::nullopt) const;
  BasicMaskedArray repeat(int64_t repeats, std::optional<int64_t> axis = std::nullopt) const;
  BasicMaskedArray diagonal(int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1) const;
  // Where the condition, of one axis, is true. Chunked arrays: blocking, collective.
  BasicMaskedArray compress(const Array& condition, std::optional<int64_t> axis = std::nullopt) const;
  Array trace(int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1,
              std::optional<DType> dtype = std::nullopt) const;
  // Sorted copies, masked elements last, or first without `endwith`; equal elements keep their order.
  BasicMaskedArray sort(std::optional<int64_t> axis = -1, bool endwith = true) const;
  Array argsort(std::optional<int64_t> axis = -1, bool endwith = true) const;
  // Of elements that are neither masked nor 0, an array per axis. Chunked arrays: blocking, collective.
  std::vector<Array> nonzero() const;
  BasicMaskedArray copy() const;

  // x(0, _), x[3], x(rows, 2), x[condition]: of a variable a place that can be assigned to, x[0] = masked. Errors as
  // those of the array's index. A masked condition is taken by its data.
  template <class... Terms>
  requires(sizeof...(Terms) > 0) BasicMaskedElements<Kind>
  operator()(const Terms&... terms) &;
  template <class... Terms>
  requires(sizeof...(Terms) > 0) BasicMaskedArray operator()(const Terms&... terms) const&;
  template <class Term>
  auto operator[](const Term& term) & {
    return (*this)(term);
  }
  template <class Term>
  BasicMaskedArray operator[](const Term& term) const& {
    return (*this)(term);
  }
  BasicMaskedArray get(std::span<const typename Kind::IndexTerm> index) const;
  // self[index] = value; `masked` masks and leaves the data.
  void set(std::span<const typename Kind::IndexTerm> index, const Operand& value);

  // As NumPy's str() and repr(); of chunked arrays shape, dtype and chunks.
  std::string to_string() const;
  std::string repr() const;

 private:
  template <class F>
  BasicMaskedArray alike(F&& function) const;  // of data and of mask
  BasicMaskedArray with_fill_of(const BasicMaskedArray& other) const;
  BasicMaskedArray reduced(detail::Reduction reduction, const Axes& axis, const Options& options) const;
  Scalar masked_item() const;
  void own_mask();

  Array data_;
  std::optional<Array> mask_;
  std::optional<Scalar> fill_value_;  // of the dtype
};

// A part of a variable: read where it is used, and a place for values.
template <class Kind>
class BasicMaskedElements : public MaskedOperators<Kind> {
 public:
  using Operand = BasicMaskedOperand<Kind>;
  BasicMaskedElements(BasicMaskedArray<Kind>& array, std::vector<typename Kind::IndexTerm> index)
      : array_(&array), index_(std::move(index)) {}
  BasicMaskedElements(const BasicMaskedElements&) = delete;
  ~BasicMaskedElements() = default;
  BasicMaskedArray<Kind> value() const { return std::as_const(*array_).get(index_); }
  void operator=(const Operand& value) && { array_->set(index_, value); }
  void operator=(const BasicMaskedElements& other) && { array_->set(index_, Operand(other.value())); }
#define QUARRY_OPERATOR(symbol, name)                                                                            \
  void operator symbol##=(const Operand& y)&& {                                                                  \
    array_->set(                                                                                                 \
        index_,                                                                                                  \
        Operand(MaskedOperators<Kind>::apply(detail::named_op<#name>(), {value(), y}).astype(array_->dtype()))); \
  }
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_OPERATOR
  auto data() const { return value().data(); }
  auto mask() const { return value().mask(); }
  auto filled() const { return value().filled(); }

 private:
  BasicMaskedArray<Kind>* array_;
  std::vector<typename Kind::IndexTerm> index_;
};

template <class Kind>
template <class... Terms>
requires(sizeof...(Terms) > 0) BasicMaskedElements<Kind> BasicMaskedArray<Kind>::operator()(const Terms&... terms) & {
  return {*this, Kind::index_terms(terms...)};
}
template <class Kind>
template <class... Terms>
requires(sizeof...(Terms) > 0) BasicMaskedArray<Kind> BasicMaskedArray<Kind>::operator()(const Terms&... terms) const& {
  return get(Kind::index_terms(terms...));
}

// What a data set says of its missing elements, as netCDF's attributes do: they have one of `values`, or are below or
// above the valid ones.
struct MissingValues {
  std::vector<Scalar> values;
  std::optional<Scalar> least, most;
  bool any() const { return !values.empty() || least || most; }
};

// How numbers of a file are packed: what they mean is scale * stored + offset.
struct Packing {
  std::optional<double> scale, offset;
  bool is_unsigned = false;  // stored as integers with a sign that they do not have
};

}  // namespace quarry::local::ma
