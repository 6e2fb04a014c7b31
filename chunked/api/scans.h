// Cumulative functions: as NumPy's of the same names, along axes of any number of chunks. Lazy. x is read twice where
// the axis is cut. `out` is refused by a TypeError. Sums are added up chunk by chunk, so their bits depend on the
// chunks.
#pragma once

#include <optional>

#include "quarry/chunked/api/array.h"

namespace quarry {

// Without an axis over the elements in C order (a 1-d result). bool and narrow integers accumulate in 64 bits. Throws
// IndexError for an axis, TypeError where there is no loop for the dtype.
Array cumsum(const Array& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
             const std::optional<Array>& out = {});
Array cumprod(const Array& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
              const std::optional<Array>& out = {});
// NaN counts as 0 or as 1.
Array nancumsum(const Array& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                const std::optional<Array>& out = {});
Array nancumprod(const Array& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                 const std::optional<Array>& out = {});
// The array API's: one axis or a 1-d array; with include_initial the identity comes first, and the axis is one longer.
// Throws InvalidArgument without an axis for arrays of several.
Array cumulative_sum(const Array& x, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                     const std::optional<Array>& out = {}, bool include_initial = false);
Array cumulative_prod(const Array& x, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                      const std::optional<Array>& out = {}, bool include_initial = false);
// As Dask's: every NaN becomes the last element before it along the axis that is none, at most n positions back. Throws
// InvalidArgument for a negative n.
Array push(const Array& array, std::optional<int64_t> n = {}, int64_t axis = -1);

}  // namespace quarry
