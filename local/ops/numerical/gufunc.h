// What the functions with out= and casting= parameters of this chapter share.
#pragma once

#include <span>
#include <string_view>

#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/ops/indexing/placement.h"

namespace quarry::local {

// Writes `result` to `out`, broadcasting, and returns it. Throws TypeError where `casting` forbids the conversion, and
// InvalidArgument where the shapes do not fit, with NumPy's texts about the ufunc `name`.
NdArray store_result(std::string_view name, const NdArray& result, const NdArray& out, Casting casting);

// The same for functions that write to `out` without conversion: throws InvalidArgument unless it has the result's
// dtype and shape and is in C order.
NdArray store_exactly(const NdArray& result, const NdArray& out);

// The result in the layout of a function's order=: itself, or a copy. A: Fortran's where all operands have it; K: any.
NdArray laid_out(const NdArray& result, Order order, std::span<const NdArray> operands);

}  // namespace quarry::local
