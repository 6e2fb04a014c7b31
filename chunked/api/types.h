// Questions about dtypes and shapes. They compute nothing; an array stands for its dtype. See local/ops/types/types.h.
#pragma once

#include <concepts>
#include <string_view>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/api/types.h"
#include "quarry/local/ops/manipulation/manipulation.h"

namespace quarry {

using local::can_cast;
using local::finfo;
using local::iinfo;
using local::isdtype;
using local::issubdtype;
using local::promote_types;
using local::result_type;
using local::ops::broadcast_shapes;

inline bool can_cast(const Array& from, DType to, std::string_view casting = "safe") {
  return local::can_cast(from.dtype(), to, casting);
}

namespace detail {
template <class T>
decltype(auto) stand_in(const T& value) {
  if constexpr (std::same_as<T, Array>)
    return value.dtype();
  else
    return (value);
}
}  // namespace detail
// result_type(x, 1, f32)
template <class... Each>
requires(std::same_as<Each, Array> || ...) DType result_type(const Each&... arrays_and_dtypes) {
  return local::result_type(detail::stand_in(arrays_and_dtypes)...);
}

inline bool iscomplexobj(const Array& x) { return local::is_complex(x.dtype()); }
inline bool isrealobj(const Array& x) { return !local::is_complex(x.dtype()); }
inline int64_t ndim(const Array& a) { return a.ndim(); }
inline Dims shape(const Array& a) { return a.shape(); }
inline int64_t size(const Array& a) { return a.size(); }

}  // namespace quarry
