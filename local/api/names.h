// Short names for what NumPy users type: dtypes, slices and the words of an index. `using namespace quarry::names;`
// brings them in; quarry::local and quarry have them too.
//
//   x(0, _);               // x[0, :]
//   x("1:-1"_s, newaxis);  // x[1:-1, None]
//   x(slice(1, none, 2));  // x[1::2]
//   x.astype(f32);         // x.astype(np.float32)
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::names {

using local::ellipsis;
using local::newaxis;
inline constexpr local::Slice _{};  // the whole axis
inline constexpr std::nullopt_t none = std::nullopt;

// Python's slice(stop) and slice(start, stop, step); a bound may be `none`.
constexpr local::Slice slice(std::optional<int64_t> stop) { return {.start = {}, .stop = stop, .step = {}}; }
constexpr local::Slice slice(std::optional<int64_t> start, std::optional<int64_t> stop,
                             std::optional<int64_t> step = std::nullopt) {
  return {.start = start, .stop = stop, .step = step};
}

// A slice as Python writes it: "1:-1"_s, "::2"_s, ":10"_s. Throws InvalidArgument for other text, or
// does not compile where a constant is wanted.
constexpr local::Slice operator""_s(const char* text, size_t length) {
  int64_t values[3] = {};
  bool given[3] = {};
  int part = 0;
  bool negative = false;
  for (size_t i = 0; i < length; ++i) {
    const char c = text[i];
    if (c == ':' && (given[part] || !negative) && part < 2) {
      ++part;
      negative = false;
    } else if (c == '-' && !negative && !given[part]) {
      negative = true;
    } else if (c >= '0' && c <= '9') {
      values[part] = values[part] * 10 + (negative ? '0' - c : c - '0');
      given[part] = true;
    } else if (c != ' ') {
      throw local::InvalidArgument("a slice is written start:stop:step");
    }
  }
  if (part == 0 || (negative && !given[part])) throw local::InvalidArgument("a slice is written start:stop:step");
  local::Slice slice;
  if (given[0]) slice.start = values[0];
  if (given[1]) slice.stop = values[1];
  if (given[2]) slice.step = values[2];
  return slice;
}

// DType::float64 ... by NumPy's names and by short ones.
using enum local::DType;
inline constexpr local::DType f16 = float16, bf16 = bfloat16, f32 = float32, f64 = float64;
inline constexpr local::DType i8 = int8, i16 = int16, i32 = int32, i64 = int64;
inline constexpr local::DType u8 = uint8, u16 = uint16, u32 = uint32, u64 = uint64;
inline constexpr local::DType c64 = complex64, c128 = complex128;

}  // namespace quarry::names

namespace quarry::local {

using namespace names;

// NumPy's constants.
inline constexpr double pi = 3.14159265358979323846, e = 2.71828182845904523536;
inline constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace quarry::local
