// The methods of chunked arrays.
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/program/rows.h"

namespace quarry::functions {

using quarry::conjugate;
using quarry::flatten;
using quarry::matrix_transpose;
using quarry::ravel;
using quarry::round;
using quarry::squeeze;
using quarry::swapaxes;
using quarry::detail::reduce;
Array clip(const Array& x, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  return quarry::clip(x, low ? std::optional<Operand>(*low) : std::nullopt,
                      high ? std::optional<Operand>(*high) : std::nullopt);
}

}  // namespace quarry::functions

namespace quarry::local {

namespace functions = quarry::functions;
#include "quarry/local/ops/methods.inl"
template class ArrayMethods<Array, Array>;
template class ArrayMethods<Elements, Array>;

}  // namespace quarry::local
