// NumPy 2's str() and repr() with default print options: precision 8, threshold 1000, 3 edge items, line width 75,
// float mode "maxprec", no suppression of small numbers.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "local/ndarray/ndarray.h"
#include "local/ops/launch.h"

namespace quarry::local {
namespace {

constexpr int kPrecision = 8;
constexpr int64_t kThreshold = 1000;
constexpr int64_t kEdgeItems = 3;
constexpr int kLineWidth = 75;

// The shortest digits that give the value back in its own type: 0.digits * 10^point, without trailing zeros.
struct Digits {
  std::string digits;
  int point = 0;
};

Digits from_scientific(std::string_view text) {  // "d.ddde+xx" or "de-xx"
  Digits result;
  const size_t e = text.find('e');
  for (char c : text.substr(0, e))
    if (c != '.') result.digits += c;
  const char* exponent = text.data() + e + 1;
  if (*exponent == '+') ++exponent;
  int value = 0;
  std::from_chars(exponent, text.data() + text.size(), value);
  result.point = value + 1;
  while (result.digits.size() > 1 && result.digits.back() == '0') result.digits.pop_back();
  return result;
}

template <class T>
Digits shortest(T magnitude) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, magnitude, std::chars_format::scientific).ptr;
  return from_scientific({text, static_cast<size_t>(end - text)});
}

// For the 16-bit floats: the first precision whose decimal lies nearer to the value than to its neighbours.
template <class Half>
Digits shortest_half(double magnitude) {
  const Half self(static_cast<float>(magnitude));
  const auto value_of = [](int bits) {
    Half h;
    h.bits = static_cast<uint16_t>(bits);
    return static_cast<double>(static_cast<float>(h));
  };
  const double below = self.bits == 0 ? -value_of(1) : value_of(self.bits - 1);
  double above = value_of(self.bits + 1);
  if (std::isinf(above)) above = magnitude + (magnitude - below);
  const double low = (below + magnitude) / 2, high = (magnitude + above) / 2;
  const bool even = self.bits % 2 == 0;
  const auto identifies = [&](const std::string& text) {
    const double read = std::strtod(text.c_str(), nullptr);
    return (read > low && read < high) || (even && (read == low || read == high));
  };
  for (int precision = 0;; ++precision) {
    const std::string text = fmt::format("{:.{}e}", magnitude, precision);
    if (identifies(text) || precision > 16) return from_scientific(text);
    // Below a power of two the neighbour is nearer, so that only the next decimal upwards may do.
    const Digits down = from_scientific(text);
    const std::string padded = down.digits + std::string(static_cast<size_t>(precision) + 1 - down.digits.size(), '0');
    const std::string up = fmt::format("{}e{}", std::stoll(padded) + 1, down.point - precision - 1);
    if (identifies(up)) return from_scientific(fmt::format("{:.{}e}", std::strtod(up.c_str(), nullptr), precision));
  }
}

Digits shortest_digits(DType dtype, double magnitude) {
  if (dtype == DType::float16) return shortest_half<float16>(magnitude);
  if (dtype == DType::bfloat16) return shortest_half<bfloat16>(magnitude);
  if (dtype == DType::float32) return shortest(static_cast<float>(magnitude));
  return shortest(magnitude);
}

// "12.5", "3.": as few digits as identify the value, at most `precision` after the point; the point always there.
std::string positional(DType dtype, double value, int precision, bool plus) {
  const std::string sign = std::signbit(value) ? "-" : plus ? "+" : "";
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign + "0.";
  const Digits d = shortest_digits(dtype, magnitude);
  const int count = static_cast<int>(d.digits.size());
  if (count - d.point > precision) {
    std::string text = fmt::format("{:.{}f}", magnitude, precision);
    while (text.back() == '0') text.pop_back();
    return sign + text;
  }
  if (d.point <= 0) return sign + "0." + std::string(static_cast<size_t>(-d.point), '0') + d.digits;
  if (count <= d.point) return sign + d.digits + std::string(static_cast<size_t>(d.point - count), '0') + ".";
  return sign + d.digits.substr(0, static_cast<size_t>(d.point)) + "." + d.digits.substr(static_cast<size_t>(d.point));
}

struct Scientific {
  std::string integer, fraction;  // "-1", "25"
  int exponent = 0;
};
Scientific scientific(DType dtype, double value, int precision, bool plus) {
  Scientific result;
  result.integer = std::signbit(value) ? "-" : plus ? "+" : "";
  const double magnitude = std::fabs(value);
  Digits d{"0", 1};
  if (magnitude != 0) d = shortest_digits(dtype, magnitude);
  if (static_cast<int>(d.digits.size()) - 1 > precision)
    d = from_scientific(fmt::format("{:.{}e}", magnitude, precision));
  result.integer += d.digits[0];
  result.fraction = d.digits.substr(1);
  result.exponent = d.point - 1;
  return result;
}
std::string exponent_text(int exponent, int least_digits) {
  return fmt::format("e{}{:0{}d}", exponent < 0 ? '-' : '+', std::abs(exponent), least_digits);
}

// A number rounded to the precision of its dtype.
double rounded_to(DType dtype, double value) {
  if (dtype == DType::float16) return static_cast<float>(float16(static_cast<float>(value)));
  if (dtype == DType::bfloat16) return static_cast<float>(bfloat16(static_cast<float>(value)));
  return dtype == DType::float32 ? static_cast<double>(static_cast<float>(value)) : value;
}
// Decimal digits that the type holds (numpy.finfo.precision).
int decimal_digits(DType dtype) {
  if (dtype == DType::float16) return 3;
  if (dtype == DType::bfloat16) return 2;
  return dtype == DType::float32 ? 6 : 15;
}

// One format for all numbers of an array.
class FloatFormat {
 public:
  FloatFormat(DType dtype, const std::vector<double>& values, bool plus) : dtype_(dtype), plus_(plus) {
    double largest = 0, smallest = INFINITY;
    bool any_finite = false, any_special = false, negative_infinity = false;
    for (double value : values) {
      if (!std::isfinite(value)) {
        any_special = true;
        negative_infinity = negative_infinity || (std::isinf(value) && value < 0);
        continue;
      }
      any_finite = true;
      if (value == 0) continue;
      largest = std::max(largest, std::fabs(value));
      smallest = std::min(smallest, std::fabs(value));
    }
    if (largest > 0) {
      const double cutoff = std::pow(10.0, std::min(8, decimal_digits(dtype)));
      exponential_ =
          largest >= cutoff || smallest < rounded_to(dtype, 0.0001) || rounded_to(dtype, largest / smallest) > 1000;
    }
    if (any_finite && exponential_) {
      size_t exponent_digits = 2;
      for (double value : values) {
        if (!std::isfinite(value)) continue;
        const Scientific s = scientific(dtype_, value, kPrecision, plus_);
        left_ = std::max(left_, s.integer.size());
        precision_ = std::max(precision_, s.fraction.size());
        exponent_digits = std::max(exponent_digits, std::to_string(std::abs(s.exponent)).size());
      }
      exponent_digits_ = static_cast<int>(exponent_digits);
      right_ = exponent_digits + 2 + precision_;
    } else if (any_finite) {
      for (double value : values) {
        if (!std::isfinite(value)) continue;
        const std::string text = positional(dtype_, value, kPrecision, plus_);
        const size_t point = text.find('.');
        left_ = std::max(left_, point);
        right_ = std::max(right_, text.size() - point - 1);
      }
    }
    if (any_special) {
      const size_t beside = right_ + 1, infinity = 3 + (plus_ || negative_infinity ? 1 : 0);
      left_ = std::max({left_, beside < 3 ? 3 - beside : 0, beside < infinity ? infinity - beside : 0});
    }
  }

  std::string operator()(double value) const {
    if (!std::isfinite(value)) {
      const std::string sign = !std::isnan(value) && value < 0 ? "-" : plus_ ? "+" : "";
      return fmt::format("{:>{}}", sign + (std::isnan(value) ? "nan" : "inf"), left_ + right_ + 1);
    }
    if (exponential_) {
      Scientific s = scientific(dtype_, value, static_cast<int>(precision_), plus_);
      if (s.fraction.size() < precision_) {
        // Beyond the digits that identify a number come those of its exact value, as NumPy prints them.
        const std::string exact = fmt::format("{:.{}e}", value, precision_);
        s.fraction = exact.substr(exact.find('.') + 1, precision_);
        s.integer.back() = exact[exact.find('.') - 1];
        s.exponent = std::atoi(exact.c_str() + exact.find('e') + 1);
      }
      return fmt::format("{:>{}}.{}{}", s.integer, left_, s.fraction, exponent_text(s.exponent, exponent_digits_));
    }
    const std::string text = positional(dtype_, value, kPrecision, plus_);
    const size_t point = text.find('.');
    return std::string(left_ > point ? left_ - point : 0, ' ') + text +
           std::string(right_ - (text.size() - point - 1), ' ');
  }

 private:
  DType dtype_;
  bool plus_;
  bool exponential_ = false;
  size_t left_ = 0, right_ = 0;  // widths before and after the point
  size_t precision_ = 0;         // exponential: digits after the point
  int exponent_digits_ = 0;
};

double component(const Scalar& value, bool imaginary) {
  return imaginary ? value.as_complex().imag() : value.as_complex().real();
}

// Formats the elements of one array.
std::vector<std::string> format_elements(DType dtype, const std::vector<Scalar>& values, bool zero_dimensional) {
  std::vector<std::string> words;
  words.reserve(values.size());
  if (kind(dtype) == 'b') {
    for (const Scalar& v : values) words.push_back(v.as_bool() ? zero_dimensional ? "True" : " True" : "False");
  } else if (is_integer(dtype)) {
    size_t width = 0;
    for (const Scalar& v : values) {
      words.push_back(kind(dtype) == 'u' ? std::to_string(v.as_uint64()) : std::to_string(v.as_int64()));
      width = std::max(width, words.back().size());
    }
    for (std::string& word : words) word.insert(0, width - word.size(), ' ');
  } else {
    std::vector<double> reals, imaginaries;
    for (const Scalar& v : values) {
      reals.push_back(component(v, false));
      if (is_complex(dtype)) imaginaries.push_back(component(v, true));
    }
    const FloatFormat real_format(real_type(dtype), reals, /*plus=*/false);
    if (!is_complex(dtype)) {
      for (double v : reals) words.push_back(real_format(v));
      return words;
    }
    const FloatFormat imaginary_format(real_type(dtype), imaginaries, /*plus=*/true);
    for (size_t i = 0; i < values.size(); ++i) {
      std::string imaginary = imaginary_format(imaginaries[i]);
      imaginary.insert(imaginary.find_last_not_of(' ') + 1, "j");
      words.push_back(real_format(reals[i]) + imaginary);
    }
  }
  return words;
}

// What of the array is shown, on the host: along an axis that is cut, kEdgeItems from both ends.
struct Shown {
  Dims shape;
  std::vector<Scalar> values;
};

void copy_corners(const NdArray& from, const NdArray& into, int axis) {
  if (axis == from.ndim()) {
    into.assign(from.to(kCpu), default_context(kCpu));
    return;
  }
  const int64_t size = from.shape()[axis];
  if (size == into.shape()[axis]) return copy_corners(from, into, axis + 1);
  for (const Slice& edge : {Slice{{}, kEdgeItems, {}}, Slice{-kEdgeItems, {}, {}}}) {
    std::vector<IndexItem> index(static_cast<size_t>(axis), IndexItem(full_slice));
    index.push_back(edge);
    copy_corners(from[index], into[index], axis + 1);
  }
}

Shown gather(const NdArray& array, bool summarise) {
  Shown shown{array.shape(), {}};
  NdArray host = array;
  if (summarise) {
    for (int64_t& extent : shown.shape) extent = std::min(extent, 2 * kEdgeItems);
    host = NdArray(shown.shape, array.dtype(), default_context(kCpu));
    copy_corners(array, host, 0);
  } else {
    host = array.to(kCpu);
    if (!host.is_contiguous()) host = host.copy(default_context(kCpu));
  }
  const int64_t count = host.size();
  shown.values.reserve(static_cast<size_t>(count));
  const char* data = static_cast<const char*>(host.raw());
  for (int64_t i = 0; i < count; ++i) shown.values.push_back(Scalar::load(array.dtype(), data + i * array.itemsize()));
  return shown;
}

class Layout {
 public:
  Layout(const Dims& shape, const Dims& shown, const std::vector<std::string>& words, std::string separator,
         bool summarise)
      : shape_(shape), shown_(shown), words_(words), separator_(std::move(separator)), summarise_(summarise) {
    bare_separator_ = separator_.substr(0, separator_.find_last_not_of(' ') + 1);
  }

  std::string format(int axis, const std::string& indent, int width) {
    if (axis == shape_.size()) return words_[next_++];
    const bool cut = summarise_ && shape_[axis] > 2 * kEdgeItems;
    const int64_t count = shown_[axis];
    std::string text;
    if (axis == shape_.size() - 1) {
      const int room = width - static_cast<int>(std::max<size_t>(bare_separator_.size(), 1));
      std::string line = indent;
      for (int64_t i = 0; i < count; ++i) {
        if (cut && i == kEdgeItems) {
          extend(text, line, "...", room, indent);
          line += separator_;
        }
        extend(text, line, words_[next_++], room, indent);
        if (i + 1 < count) line += separator_;
      }
      text += line;
    } else {
      const std::string deeper = indent + ' ';
      const std::string between = bare_separator_ + std::string(static_cast<size_t>(shape_.size() - axis - 1), '\n');
      for (int64_t i = 0; i < count; ++i) {
        if (cut && i == kEdgeItems) text.append(indent).append("...").append(between);
        text.append(indent).append(format(axis + 1, deeper, width - 1));
        if (i + 1 < count) text.append(between);
      }
    }
    return '[' + text.substr(indent.size()) + ']';
  }

 private:
  // Appends to the line, or begins a new one if that helps.
  static void extend(std::string& text, std::string& line, const std::string& word, int room,
                     const std::string& indent) {
    if (static_cast<int>(line.size() + word.size()) > room && line.size() > indent.size()) {
      text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
      line = indent;
    }
    line += word;
  }

  const Dims& shape_;
  const Dims& shown_;
  const std::vector<std::string>& words_;
  const std::string separator_;
  std::string bare_separator_;
  const bool summarise_;
  size_t next_ = 0;
};

// `part` is the array of `shape`, or only its corners where the array is summarised.
std::string format_array(const NdArray& part, const Dims& shape, const std::string& separator, size_t prefix,
                         int width) {
  if (element_count(shape) == 0) return "[]";
  const bool summarise = element_count(shape) > kThreshold;
  const Shown shown = gather(part, summarise);
  const std::vector<std::string> words = format_elements(part.dtype(), shown.values, shape.empty());
  Layout layout(shape, shown.shape, words, separator, summarise);
  return layout.format(0, std::string(prefix + 1, ' '), width);
}

std::string format_repr(const NdArray& part, const Dims& shape) {
  const std::string open = "array(";
  std::string text = open + format_array(part, shape, ", ", open.size(), kLineWidth - 1);
  std::string extras;
  const int64_t size = element_count(shape);
  if ((size == 0 && shape.size() != 1) || size > kThreshold) extras = "shape=" + to_string(shape);
  const DType dtype = part.dtype();
  const bool implied =
      dtype == DType::bool_ || dtype == DType::int64 || dtype == DType::float64 || dtype == DType::complex128;
  if (!implied || size == 0) extras += (extras.empty() ? "dtype=" : ", dtype=") + std::string(name(dtype));
  if (extras.empty()) return text + ")";
  text += ',';
  extras += ')';
  const size_t newline = text.rfind('\n');
  const size_t last = newline == std::string::npos ? text.size() : text.size() - newline - 1;
  if (last + extras.size() + 1 > kLineWidth) return text + '\n' + std::string(open.size(), ' ') + extras;
  return text + ' ' + extras;
}

// A NumPy float scalar's str(): positional from 1e-4 up to what the type's digits can tell apart.
std::string float_scalar(DType dtype, double value, bool plus, bool trim_zeros) {
  constexpr int kAllDigits = 1100;
  if (std::isnan(value)) return plus ? "+nan" : "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : plus ? "+inf" : "inf";
  const double magnitude = std::fabs(value);
  const double cutoff = dtype == DType::float64 ? 1e16 : std::pow(10.0, decimal_digits(dtype));
  if (magnitude == 0 || (magnitude < cutoff && magnitude >= 1e-4)) {
    std::string text = positional(dtype, value, kAllDigits, plus);
    if (text.back() == '.') trim_zeros ? text.pop_back() : text.push_back('0');
    return text;
  }
  const Scientific s = scientific(dtype, value, kAllDigits, plus);
  return s.integer + (s.fraction.empty() ? "" : "." + s.fraction) + exponent_text(s.exponent, 2);
}

}  // namespace

std::string to_string(const Scalar& value) {
  const DType dtype = value.dtype();
  if (kind(dtype) == 'b') return value.as_bool() ? "True" : "False";
  if (kind(dtype) == 'u') return std::to_string(value.as_uint64());
  if (kind(dtype) == 'i') return std::to_string(value.as_int64());
  if (!is_complex(dtype)) return float_scalar(dtype, value.as_double(), /*plus=*/false, /*trim_zeros=*/false);
  const std::complex<double> z = value.as_complex();
  const std::string imaginary = float_scalar(real_type(dtype), z.imag(), /*plus=*/true, /*trim_zeros=*/true);
  if (z.real() == 0 && !std::signbit(z.real()))
    return float_scalar(real_type(dtype), z.imag(), /*plus=*/false, /*trim_zeros=*/true) + "j";
  return "(" + float_scalar(real_type(dtype), z.real(), /*plus=*/false, /*trim_zeros=*/true) + imaginary + "j)";
}

std::string NdArray::to_string() const {
  if (ndim() == 0) return local::to_string(item());
  return format_array(*this, shape_, " ", 0, kLineWidth);
}

std::string NdArray::repr() const { return format_repr(*this, shape_); }

std::string summary_string(const NdArray& corners, const Dims& shape) {
  return format_array(corners, shape, " ", 0, kLineWidth);
}

std::string summary_repr(const NdArray& corners, const Dims& shape) { return format_repr(corners, shape); }

}  // namespace quarry::local
