// Elements of sorted rows: what the median and the quantiles share.
#pragma once

#include "quarry/local/ops/arguments.h"

namespace quarry::local {

inline bool is_inexact(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// How many elements of each row are not NaN: int64, the last axis with one element.
NdArray numbers_per_row(const NdArray& rows);

// The elements of the rows (kept ..., n) at positions that are known to be valid; the kept axes are those of
// `positions` from number `kept` on. New, of the positions' shape.
NdArray gathered(const NdArray& rows, const NdArray& positions, int kept);

// Writes the result to `out`, which must have its shape, and returns it. Throws TypeError where `casting` forbids that.
NdArray store_statistic(const NdArray& result, const NdArray& out, Casting casting);

}  // namespace quarry::local
