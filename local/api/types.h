// Questions about dtypes and memory, bits, and text. See local/ops/types/types.h.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/local/ndarray/print.h"
#include "quarry/local/ops/types/types.h"

namespace quarry::local {

using ops::array2string;
using ops::array_repr;
using ops::array_str;
using ops::can_cast;
using ops::finfo;
using ops::FloatInfo;
using ops::iinfo;
using ops::IntInfo;
using ops::isdtype;
using ops::issubdtype;
using ops::may_share_memory;
using ops::min_scalar_type;
using ops::packbits;
using ops::printoptions;
using ops::set_printoptions;
using ops::shares_memory;
using ops::unpackbits;

// By NumPy's name: dtype("float32"), dtype("<f4"). Throws TypeError for another.
inline DType dtype(std::string_view name) {
  const std::optional<DType> found = parse_dtype(name);
  if (!found) throw TypeError("data type '" + std::string(name) + "' not understood");
  return *found;
}

// result_type(x, 1, f32)
template <class... Each>
requires(sizeof...(Each) > 0 && (std::constructible_from<std::variant<DType, Arg>, const Each&> && ...)) DType
    result_type(const Each&... arrays_and_dtypes) {
  return ops::result_type({std::variant<DType, Arg>(arrays_and_dtypes)...});
}

}  // namespace quarry::local
