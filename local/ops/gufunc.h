// What the functions with out= and casting= parameters of this chapter share.
#pragma once

#include <span>
#include <string_view>

#include "local/ndarray/ndarray.h"

namespace quarry::local {

// "same_kind" ...
std::string_view casting_name(Casting casting);

// "(2,3)", as NumPy prints shapes in its messages about operands.
std::string compact_shape(const Dims& shape);

// Writes `result` to `out`, broadcasting, and returns it. Throws TypeError where `casting` forbids the conversion, and
// InvalidArgument where the shapes do not fit, with NumPy's texts about the ufunc `name`.
NdArray store_result(std::string_view name, const NdArray& result, const NdArray& out, Casting casting);

// The same for functions that write to `out` without conversion: throws InvalidArgument unless it has the result's
// dtype and shape and is in C order.
NdArray store_exactly(const NdArray& result, const NdArray& out);

}  // namespace quarry::local
