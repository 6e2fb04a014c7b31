// From dtypes to the classes of sorting_keys.h.
#pragma once

#include <type_traits>

#include "quarry/local/base/dtype.h"
#include "quarry/local/base/error.h"
#include "quarry/local/program/sorting_keys.h"

namespace quarry::local::keys {

// f.operator()<Key>() with the class of a dtype. Throws InternalError for complex dtypes, whose keys have two words.
template <class F>
decltype(auto) with_key(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bool_:
    case DType::uint8:
      return f.template operator()<UnsignedKey<uint8_t>>();
    case DType::uint16:
      return f.template operator()<UnsignedKey<uint16_t>>();
    case DType::uint32:
      return f.template operator()<UnsignedKey<uint32_t>>();
    case DType::uint64:
      return f.template operator()<UnsignedKey<uint64_t>>();
    case DType::int8:
      return f.template operator()<SignedKey<uint8_t>>();
    case DType::int16:
      return f.template operator()<SignedKey<uint16_t>>();
    case DType::int32:
      return f.template operator()<SignedKey<uint32_t>>();
    case DType::int64:
      return f.template operator()<SignedKey<uint64_t>>();
    case DType::float16:
      return f.template operator()<Float16Key>();
    case DType::bfloat16:
      return f.template operator()<BFloat16Key>();
    case DType::float32:
      return f.template operator()<Float32Key>();
    case DType::float64:
      return f.template operator()<Float64Key>();
    case DType::complex64:
    case DType::complex128:
      break;
  }
  throw InternalError("complex keys have two words");
}

// Throws InternalError where the keys of the dtype do not have that width.
template <class Bits>
RuntimeKey<Bits> runtime_key(DType dtype, bool ranked) {
  RuntimeKey<Bits> key;
  key.ranked = ranked;
  with_key(dtype, [&]<class Class>() {
    if constexpr (!std::is_same_v<Bits, typename Class::Bits>)
      throw InternalError("a key of another width");
    else if constexpr (requires { Class::kInfinity; })
      key.infinity = static_cast<Bits>(Class::kInfinity ^ Class::kSign);
    else
      key.flip = Class::encode(Bits{0});
  });
  return key;
}

}  // namespace quarry::local::keys
