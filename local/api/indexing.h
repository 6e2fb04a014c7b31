// Indexing by arrays and masks, and NumPy's functions of that chapter. An index is written x(rows, 2) or x[mask]
// (local/ops/indexing/elements.h); see local/ops/indexing/indexing.h for the functions.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/ops/indexing/elements.h"

namespace quarry::local {

using ops::argwhere;
using ops::choose;
using ops::compress;
using ops::copyto;
using ops::diag_indices;
using ops::diag_indices_from;
using ops::extract;
using ops::fill_diagonal;
using ops::flatnonzero;
using ops::ix_;
using ops::nonzero;
using ops::place;
using ops::put;
using ops::put_along_axis;
using ops::putmask;
using ops::ravel_multi_index;
using ops::select;
using ops::take;
using ops::take_along_axis;
using ops::tril_indices;
using ops::tril_indices_from;
using ops::triu_indices;
using ops::triu_indices_from;
using ops::unravel_index;

// where(condition): nonzero(condition). With x and y it is a ufunc.
inline ArrayTuple where(const NdArray& condition) { return ops::nonzero(condition); }
template <class... Arrays>
requires(sizeof...(Arrays) > 1 && (std::is_convertible_v<const Arrays&, NdArray> && ...)) ArrayTuple
    ix_(const Arrays&... args) {
  return ops::ix_({NdArray(args)...});
}

// One array per axis, of the axes' shape; sparse: of extent 1 along the others.
struct Sparse {};
inline constexpr Sparse sparse_grid{};
inline NdArray indices(const Dims& dimensions, DType dtype = DType::int64) {
  return std::get<NdArray>(ops::indices(dimensions, dtype));
}
inline ArrayTuple indices(const Dims& dimensions, Sparse, DType dtype = DType::int64) {
  return std::get<ArrayTuple>(ops::indices(dimensions, dtype, true));
}
// The indices of an n x n matrix where mask_func(matrix, k) is not zero: mask_indices(3, ql::triu).
template <class F>
ArrayTuple mask_indices(int64_t n, F mask_func, const Arg& k = 0) {
  return ops::mask_indices(
      n, [&](std::span<const NdArray> args) -> NdArray { return mask_func(args[0], args[1].item<int64_t>()); }, k);
}

}  // namespace quarry::local
