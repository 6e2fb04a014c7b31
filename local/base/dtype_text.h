// Names of dtypes, as NumPy's strings and its namespace write them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "quarry/local/base/dtype.h"

namespace quarry::local {

// A name besides the dtype's own ("float64"): "double", "intp". A code is a short form that takes a byte order before
// it: "f8", "d", "<f8", ">i4", "|b1", "=c16".
struct DTypeAlias {
  std::string_view text;
  DType dtype;
  bool is_code = false;
};
std::span<const DTypeAlias> dtype_aliases();
// NumPy's letter of a dtype, as in "d"; 'E' for bfloat16, as ml_dtypes has it.
char letter(DType dtype);

// A dtype's text with its byte order. Arrays hold numbers in the machine's order, so `swapped` matters only where the
// text describes bytes that come from elsewhere.
struct DTypeText {
  DType dtype;
  bool swapped = false;
};
// Nothing if unknown: NumPy's dtypes of text, objects, records, times and long doubles do not exist.
std::optional<DTypeText> parse_dtype_text(std::string_view text);

}  // namespace quarry::local
