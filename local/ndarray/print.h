// How arrays are printed: NumPy's print options.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {

// Digits of floating point numbers: `precision` of them after the point; as many as identify each number; at most
// `precision` of those (maxprec), the same number for all elements of an array (maxprec_equal).
enum class FloatMode : uint8_t { fixed, unique, maxprec, maxprec_equal };

// How an earlier version of NumPy printed, oldest first: 1.13 leaves room for a sign, prints 0-d arrays as Python's
// numbers and all exponents with all digits; up to 1.25 scalars are shown without their type; up to 2.2 a summary does
// not tell its shape, and float16 and float32 get exponents from 1e8 on.
enum class PrintLegacy : uint8_t { v1_13, v1_21, v1_25, v2_1, v2_2, none };
// The text of one element, by what it is for: "bool", "int", "float", "complexfloat"; "int_kind", "float_kind",
// "complex_kind" where these are not given; "all" where neither is. Other names are taken, as in NumPy, and mean
// nothing.
using ElementTexts = std::map<std::string, std::function<std::string(const Scalar&)>, std::less<>>;

struct PrintOptions {
  int precision = 8;
  int64_t threshold = 1000;  // an array of more elements is summarised
  int64_t edgeitems = 3;     // of which these many at both ends of an axis are shown
  int64_t linewidth = 75;
  bool suppress = false;  // small numbers are not a reason for exponents
  std::string nanstr = "nan", infstr = "inf";
  char sign = '-';  // of positive numbers: '+', ' ' (room for one), '-' (none)
  FloatMode floatmode = FloatMode::maxprec;
  ElementTexts formatter{};
  PrintLegacy legacy = PrintLegacy::none;
  std::function<std::string(const NdArray&)> override_repr{};  // instead of repr()
};

// The calling thread's options, which to_string() and repr() of arrays obey.
const PrintOptions& print_options();
// Throws InvalidArgument for a sign that is none and negative numbers.
void set_print_options(PrintOptions options);

// Other options for the lifetime of the object.
class PrintScope {
 public:
  explicit PrintScope(PrintOptions options) : previous_(print_options()) { set_print_options(std::move(options)); }
  ~PrintScope() { set_print_options(previous_); }
  PrintScope(const PrintScope&) = delete;
  PrintScope& operator=(const PrintScope&) = delete;

 private:
  PrintOptions previous_;
};

namespace detail {

// Elements are separated by `separator`; room for `prefix` and `suffix` is left on every line.
std::string format_array(const NdArray& array, const PrintOptions& options, const std::string& separator = " ",
                         const std::string& prefix = "", const std::string& suffix = "");
std::string format_repr(const NdArray& array, const PrintOptions& options);

}  // namespace detail

namespace ops {

// "1.13", "1.21", "1.25", "2.1", "2.2", or false for none; others are ignored, as in NumPy.
using Legacy = std::variant<bool, std::string_view>;

// NumPy's functions: what is not given is that of print_options(). Throw InvalidArgument for options that do not exist.
std::string array2string(const NdArray& a, std::optional<int64_t> max_line_width = std::nullopt,
                         std::optional<int64_t> precision = std::nullopt,
                         std::optional<bool> suppress_small = std::nullopt, std::string_view separator = " ",
                         std::string_view prefix = "", const std::optional<ElementTexts>& formatter = std::nullopt,
                         std::optional<int64_t> threshold = std::nullopt,
                         std::optional<int64_t> edgeitems = std::nullopt,
                         std::optional<std::string_view> sign = std::nullopt,
                         std::optional<std::string_view> floatmode = std::nullopt, std::string_view suffix = "",
                         const std::optional<Legacy>& legacy = std::nullopt);
std::string array_repr(const NdArray& arr, std::optional<int64_t> max_line_width = std::nullopt,
                       std::optional<int64_t> precision = std::nullopt,
                       std::optional<bool> suppress_small = std::nullopt);
std::string array_str(const NdArray& a, std::optional<int64_t> max_line_width = std::nullopt,
                      std::optional<int64_t> precision = std::nullopt,
                      std::optional<bool> suppress_small = std::nullopt);

// Changes the calling thread's options: those that are given, and `formatter` and `override_repr` always. Throws
// InvalidArgument.
void set_printoptions(std::optional<int64_t> precision = std::nullopt, std::optional<int64_t> threshold = std::nullopt,
                      std::optional<int64_t> edgeitems = std::nullopt, std::optional<int64_t> linewidth = std::nullopt,
                      std::optional<bool> suppress = std::nullopt, std::optional<std::string> nanstr = std::nullopt,
                      std::optional<std::string> infstr = std::nullopt,
                      const std::optional<ElementTexts>& formatter = std::nullopt,
                      std::optional<std::string_view> sign = std::nullopt,
                      std::optional<std::string_view> floatmode = std::nullopt,
                      const std::optional<Legacy>& legacy = std::nullopt,
                      const std::optional<std::function<std::string(const NdArray&)>>& override_repr = std::nullopt);
// The same for the lifetime of the result: const auto scope = ops::printoptions(3);
[[nodiscard]] PrintScope printoptions(
    std::optional<int64_t> precision = std::nullopt, std::optional<int64_t> threshold = std::nullopt,
    std::optional<int64_t> edgeitems = std::nullopt, std::optional<int64_t> linewidth = std::nullopt,
    std::optional<bool> suppress = std::nullopt, std::optional<std::string> nanstr = std::nullopt,
    std::optional<std::string> infstr = std::nullopt, const std::optional<ElementTexts>& formatter = std::nullopt,
    std::optional<std::string_view> sign = std::nullopt, std::optional<std::string_view> floatmode = std::nullopt,
    const std::optional<Legacy>& legacy = std::nullopt,
    const std::optional<std::function<std::string(const NdArray&)>>& override_repr = std::nullopt);

}  // namespace ops
}  // namespace quarry::local
