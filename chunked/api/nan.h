// Functions that leave NaN out, and the range of values: NumPy's, as in local/ops/ufunc/ufuncs.h. Lazy but where it is
// said; `axis` and keepdims as for reductions, `where` is bool and broadcasts to the array. `out` is there for the sake
// of one signature: a TypeError, for chunked arrays do not change.
#pragma once

#include "quarry/chunked/api/operand.h"

namespace quarry {

// NaN, inf and -inf replaced; the infinities by the largest finite numbers where nothing is given.
Array nan_to_num(const Array& x, bool copy = true, const Operand& nan = 0.0, const std::optional<Operand>& posinf = {},
                 const std::optional<Operand>& neginf = {});
// max - min, in one read.
Array ptp(const Array& a, const Axes& axis = {}, const std::optional<Array>& out = {}, bool keepdims = false);

Array nansum(const Array& a, const Axes& axis = {}, std::optional<DType> dtype = {},
             const std::optional<Array>& out = {}, bool keepdims = false, const std::optional<Scalar>& initial = {},
             const std::optional<Array>& where = {});
Array nanprod(const Array& a, const Axes& axis = {}, std::optional<DType> dtype = {},
              const std::optional<Array>& out = {}, bool keepdims = false, const std::optional<Scalar>& initial = {},
              const std::optional<Array>& where = {});
// NaN where nothing else is. Throw InvalidArgument for no elements, or `where`, without `initial`.
Array nanmin(const Array& a, const Axes& axis = {}, const std::optional<Array>& out = {}, bool keepdims = false,
             const std::optional<Scalar>& initial = {}, const std::optional<Array>& where = {});
Array nanmax(const Array& a, const Axes& axis = {}, const std::optional<Array>& out = {}, bool keepdims = false,
             const std::optional<Scalar>& initial = {}, const std::optional<Array>& where = {});
// Throw InvalidArgument where a slice is all NaN: computed at the call, in one read. Blocking, collective.
Array nanargmin(const Array& a, std::optional<int64_t> axis = {}, const std::optional<Array>& out = {},
                bool keepdims = false);
Array nanargmax(const Array& a, std::optional<int64_t> axis = {}, const std::optional<Array>& out = {},
                bool keepdims = false);
Array nanmean(const Array& a, const Axes& axis = {}, std::optional<DType> dtype = {},
              const std::optional<Array>& out = {}, bool keepdims = false, const std::optional<Array>& where = {});
// Two reads: the mean, then the distances from it.
Array nanvar(const Array& a, const Axes& axis = {}, std::optional<DType> dtype = {},
             const std::optional<Array>& out = {}, double ddof = 0, bool keepdims = false,
             const std::optional<Array>& where = {}, const std::optional<Array>& mean = {},
             std::optional<double> correction = {});
Array nanstd(const Array& a, const Axes& axis = {}, std::optional<DType> dtype = {},
             const std::optional<Array>& out = {}, double ddof = 0, bool keepdims = false,
             const std::optional<Array>& where = {}, const std::optional<Array>& mean = {},
             std::optional<double> correction = {});

}  // namespace quarry
