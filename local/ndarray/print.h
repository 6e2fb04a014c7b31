// How arrays are printed: NumPy's print options.
#pragma once

#include <optional>
#include <string>

#include "local/ndarray/ndarray.h"

namespace quarry::local {

// Digits of floating point numbers: `precision` of them after the point; as many as identify each number; at most
// `precision` of those (maxprec), the same number for all elements of an array (maxprec_equal).
enum class FloatMode : uint8_t { fixed, unique, maxprec, maxprec_equal };

struct PrintOptions {
  int precision = 8;
  int64_t threshold = 1000;  // an array of more elements is summarised
  int64_t edgeitems = 3;     // of which these many at both ends of an axis are shown
  int64_t linewidth = 75;
  bool suppress = false;  // small numbers are not a reason for exponents
  std::string nanstr = "nan", infstr = "inf";
  char sign = '-';  // of positive numbers: '+', ' ' (room for one), '-' (none)
  FloatMode floatmode = FloatMode::maxprec;
};

// The calling thread's options, which to_string() and repr() of arrays obey.
const PrintOptions& print_options();
// Throws InvalidArgument for a sign that is none and negative numbers.
void set_print_options(const PrintOptions& options);

// Other options for the lifetime of the object.
class PrintScope {
 public:
  explicit PrintScope(const PrintOptions& options) : previous_(print_options()) { set_print_options(options); }
  ~PrintScope() { set_print_options(previous_); }
  PrintScope(const PrintScope&) = delete;
  PrintScope& operator=(const PrintScope&) = delete;

 private:
  PrintOptions previous_;
};

// Elements are separated by `separator`; room for `prefix` and `suffix` is left on every line.
std::string format_array(const NdArray& array, const PrintOptions& options, const std::string& separator = " ",
                         const std::string& prefix = "", const std::string& suffix = "");
std::string format_repr(const NdArray& array, const PrintOptions& options);

namespace ops {

// NumPy's functions: what is not given is that of print_options(). Throw InvalidArgument for options that do not exist.
std::string array2string(const NdArray& a, std::optional<int64_t> max_line_width = std::nullopt,
                         std::optional<int64_t> precision = std::nullopt,
                         std::optional<bool> suppress_small = std::nullopt, std::string_view separator = " ",
                         std::string_view prefix = "", std::optional<int64_t> threshold = std::nullopt,
                         std::optional<int64_t> edgeitems = std::nullopt,
                         std::optional<std::string_view> sign = std::nullopt,
                         std::optional<std::string_view> floatmode = std::nullopt, std::string_view suffix = "");
std::string array_repr(const NdArray& arr, std::optional<int64_t> max_line_width = std::nullopt,
                       std::optional<int64_t> precision = std::nullopt,
                       std::optional<bool> suppress_small = std::nullopt);
std::string array_str(const NdArray& a, std::optional<int64_t> max_line_width = std::nullopt,
                      std::optional<int64_t> precision = std::nullopt,
                      std::optional<bool> suppress_small = std::nullopt);

}  // namespace ops
}  // namespace quarry::local
