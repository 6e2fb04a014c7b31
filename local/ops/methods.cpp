// The methods of arrays of one process.
#include "quarry/local/base/detail.h"
#include "quarry/local/ops/fft/fft.h"
#include "quarry/local/ops/indexing/elements.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/numerical/math.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/types/types.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"

namespace quarry::local {
namespace functions {

using local::reduce;
using ops::flatten;
using ops::matrix_transpose;
using ops::ravel;
using ops::squeeze;
using ops::swapaxes;
NdArray round(const NdArray& a, int64_t decimals) { return ops::round_to(a, decimals); }
NdArray clip(const NdArray& a, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  return ops::clip_method(a, low ? std::optional<Arg>(*low) : std::nullopt,
                          high ? std::optional<Arg>(*high) : std::nullopt);
}
NdArray conjugate(const NdArray& a) { return apply("conjugate"_op, {a}); }

}  // namespace functions

#include "quarry/local/ops/methods.inl"

// NAME(parameters): ops::FUNCTION(array, arguments).
#define QUARRY_METHOD(result, name, function, parameters, ...)      \
  template <class Self>                                             \
  result NdArrayMethods<Self>::name parameters const {              \
    return ops::function(this->value() __VA_OPT__(, ) __VA_ARGS__); \
  }
using Axis = std::optional<int64_t>;
using Text = std::string_view;
QUARRY_METHOD(void, sort, sort_in_place, (int64_t axis, std::optional<Text> kind), axis, kind)
QUARRY_METHOD(void, partition, partition_in_place, (const Ints& kth, int64_t axis), kth, axis)
QUARRY_METHOD(void, put, put, (const NdArray& indices, const Arg& values, Text mode), indices, values, mode)
QUARRY_METHOD(void, setfield, setfield, (const Arg& value, DType dtype, int64_t offset), value, dtype, offset)
QUARRY_METHOD(NdArray, argsort, argsort, (Axis axis, std::optional<Text> kind), axis, kind)
QUARRY_METHOD(NdArray, argpartition, argpartition, (const Ints& kth, Axis axis), kth, axis)
QUARRY_METHOD(NdArray, searchsorted, searchsorted, (const Arg& v, Text side), v, side)
QUARRY_METHOD(NdArray, cumsum, cumsum, (Axis axis, std::optional<DType> dtype), axis, dtype)
QUARRY_METHOD(NdArray, cumprod, cumprod, (Axis axis, std::optional<DType> dtype), axis, dtype)
QUARRY_METHOD(NdArray, take, take, (const NdArray& indices, Axis axis, Text mode), indices, axis, std::nullopt, mode)
QUARRY_METHOD(NdArray, repeat, repeat, (int64_t repeats, Axis axis), repeats, axis)
QUARRY_METHOD(NdArray, repeat, repeat, (const NdArray& repeats, Axis axis), repeats, axis)
QUARRY_METHOD(NdArray, choose, choose, (const std::vector<Arg>& choices, Text mode), choices, std::nullopt, mode)
QUARRY_METHOD(NdArray, compress, compress_array, (const NdArray& condition, Axis axis), condition, axis)
QUARRY_METHOD(ArrayTuple, nonzero, nonzero, ())
QUARRY_METHOD(NdArray, diagonal, diagonal, (int64_t offset, int64_t axis1, int64_t axis2), offset, axis1, axis2)
QUARRY_METHOD(NdArray, trace, trace, (int64_t offset, int64_t axis1, int64_t axis2), offset, axis1, axis2)
QUARRY_METHOD(NdArray, dot, dot, (const NdArray& b), b)
QUARRY_METHOD(NdArray, view, view, (DType dtype), dtype)
QUARRY_METHOD(NdArray, getfield, getfield, (DType dtype, int64_t offset), dtype, offset)
QUARRY_METHOD(NdArray, byteswap, byteswap, (bool inplace), inplace)
QUARRY_METHOD(NdArray, clip, clip_method, (const std::optional<Arg>& low, const std::optional<Arg>& high), low, high)
#undef QUARRY_METHOD

template class ArrayMethods<NdArray, NdArray>;
template class ArrayMethods<Elements, NdArray>;
template class NdArrayMethods<NdArray>;
template class NdArrayMethods<Elements>;

}  // namespace quarry::local
