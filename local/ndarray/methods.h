// The methods of arrays, by NumPy's names: x.sum(0), x.std({.axis = 0, .ddof = 1}), x.argsort(). Each is the function
// of its name with the array as the first argument; what that function says of shapes, dtypes and errors holds.
//
// ArrayMethods are those that arrays of one process and chunked arrays share, so that one template takes both:
//   template <class A> A standardised(const A& x) { return (x - x.mean(0)) / x.std(0); }
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/base/axes.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"

namespace quarry::local {

class Arg;
class NdArray;
struct ArrayTuple;

// Self is an array, or stands for one and has value(). Value is the type of results.
template <class Self, class Value>
class ArrayMethods {
 public:
  using Options = detail::BasicReduceOptions<Value>;

  // Reductions: over all axes, or those given. The result has the other axes, and with keepdims those of extent 1.
  //   Value sum(const Axes& axis = {}) const;
  //   Value sum(const Axes& axis, const Options& options) const;
  //   Value sum(const Options& options) const;
  // The first form is a template because some compilers take {.ddof = 1} for an axis: then the third is preferred.
#define QUARRY_REDUCING_METHOD(name)                          \
  template <class = void>                                     \
  Value name(const Axes& axis = {}) const {                   \
    return name(axis, Options());                             \
  }                                                           \
  Value name(const Axes& axis, const Options& options) const; \
  Value name(const Options& options) const { return name({}, options); }
  QUARRY_REDUCING_METHOD(sum)
  QUARRY_REDUCING_METHOD(prod)
  QUARRY_REDUCING_METHOD(min)
  QUARRY_REDUCING_METHOD(max)
  QUARRY_REDUCING_METHOD(any)
  QUARRY_REDUCING_METHOD(all)
  QUARRY_REDUCING_METHOD(mean)
  QUARRY_REDUCING_METHOD(var)
  QUARRY_REDUCING_METHOD(std)
  QUARRY_REDUCING_METHOD(argmin)  // at most one axis
  QUARRY_REDUCING_METHOD(argmax)
#undef QUARRY_REDUCING_METHOD

  // Shapes.
  Value ravel() const;    // one axis, C order; a view where strides allow
  Value flatten() const;  // the same as a copy
  Value squeeze(const Axes& axis = {}) const;
  Value swapaxes(int64_t axis1, int64_t axis2) const;
  Value mT() const;  // the last two axes transposed

  // Elements.
  Value round(int64_t decimals = 0) const;  // halves to even
  Value clip(const std::optional<Scalar>& low, const std::optional<Scalar>& high) const;
  Value conj() const;
  Value conjugate() const { return conj(); }

 protected:
  decltype(auto) value() const { return static_cast<const Self&>(*this).value(); }
};

// The methods of arrays of one process, and of what stands for one.
template <class Self>
class NdArrayMethods : public ArrayMethods<Self, NdArray> {
 public:
  // Copies in sorted order are functions, ql::sort(x); these write into the array.
  void sort(int64_t axis = -1, std::optional<std::string_view> kind = std::nullopt) const;
  void partition(const Ints& kth, int64_t axis = -1) const;
  void put(const NdArray& indices, const Arg& values, std::string_view mode = "raise") const;
  void setfield(const Arg& value, DType dtype, int64_t offset = 0) const;

  NdArray argsort(std::optional<int64_t> axis = -1, std::optional<std::string_view> kind = std::nullopt) const;
  NdArray argpartition(const Ints& kth, std::optional<int64_t> axis = -1) const;
  NdArray searchsorted(const Arg& v, std::string_view side = "left") const;
  NdArray cumsum(std::optional<int64_t> axis = std::nullopt, std::optional<DType> dtype = std::nullopt) const;
  NdArray cumprod(std::optional<int64_t> axis = std::nullopt, std::optional<DType> dtype = std::nullopt) const;
  NdArray take(const NdArray& indices, std::optional<int64_t> axis = std::nullopt,
               std::string_view mode = "raise") const;
  NdArray repeat(int64_t repeats, std::optional<int64_t> axis = std::nullopt) const;
  NdArray repeat(const NdArray& repeats, std::optional<int64_t> axis = std::nullopt) const;
  NdArray choose(const std::vector<Arg>& choices, std::string_view mode = "raise") const;
  NdArray compress(const NdArray& condition, std::optional<int64_t> axis = std::nullopt) const;
  ArrayTuple nonzero() const;
  NdArray diagonal(int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1) const;  // a view
  NdArray trace(int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1) const;
  NdArray dot(const NdArray& b) const;
  NdArray view(DType dtype) const;  // the same bytes
  NdArray getfield(DType dtype, int64_t offset = 0) const;
  NdArray byteswap(bool inplace = false) const;
  NdArray clip(const std::optional<Arg>& low, const std::optional<Arg>& high) const;  // bounds may be arrays
};

}  // namespace quarry::local
