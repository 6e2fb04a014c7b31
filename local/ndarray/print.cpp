// NumPy 2's str() and repr(), with its print options.
#include "quarry/local/ndarray/print.h"

#include <fmt/format.h>
#include <ostream>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "quarry/local/ndarray/launch.h"

namespace quarry::local {
namespace {

constexpr int kAllDigits = 1100;  // no number has more

PrintOptions& thread_options() {
  thread_local PrintOptions options;
  return options;
}

// How many elements are shown at the ends of an axis that is cut.
struct Edges {
  int64_t leading, trailing;
  explicit Edges(const PrintOptions& options)
      : leading(options.edgeitems), trailing(std::max<int64_t>(options.edgeitems, 1)) {}
  bool cut(int64_t size) const { return size > 2 * leading && size > leading + trailing; }
};

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

// How many digits of a number are wanted after the point.
struct Precision {
  int most = kAllDigits;
  int least = 0;       // filled with those of the exact value
  bool unique = true;  // no more than identify the number; else exactly `most`
};

// "12.5", "3.": the point is always there.
std::string positional(DType dtype, double value, const Precision& precision, bool plus) {
  const std::string sign = std::signbit(value) ? "-" : plus ? "+" : "";
  const double magnitude = std::fabs(value);
  const auto exactly = [&](int digits) {
    return sign + fmt::format("{:.{}f}", magnitude, digits) + (digits == 0 ? "." : "");
  };
  if (!precision.unique) return exactly(precision.most);
  Digits d;
  if (magnitude != 0) d = shortest_digits(dtype, magnitude);
  const int count = static_cast<int>(d.digits.size()), after = count - d.point;
  if (std::max(after, 0) < precision.least) return exactly(precision.least);
  if (magnitude == 0) return sign + "0.";
  if (after > precision.most) {
    std::string text = exactly(precision.most);
    const size_t least = text.find('.') + 1 + static_cast<size_t>(precision.least);
    while (text.size() > least && text.back() == '0') text.pop_back();
    return text;
  }
  if (d.point <= 0) return sign + "0." + std::string(static_cast<size_t>(-d.point), '0') + d.digits;
  if (count <= d.point) return sign + d.digits + std::string(static_cast<size_t>(d.point - count), '0') + ".";
  return sign + d.digits.substr(0, static_cast<size_t>(d.point)) + "." + d.digits.substr(static_cast<size_t>(d.point));
}

struct Scientific {
  std::string integer, fraction;  // "-1", "25"
  int exponent = 0;
};
Scientific scientific(DType dtype, double value, const Precision& precision, bool plus) {
  Scientific result;
  result.integer = std::signbit(value) ? "-" : plus ? "+" : "";
  const double magnitude = std::fabs(value);
  const auto exactly = [&](int digits) {
    const std::string text = fmt::format("{:.{}e}", magnitude, digits);
    const size_t e = text.find('e'), point = std::min(text.find('.'), e);
    result.integer += text.substr(0, point);
    result.fraction = point < e ? text.substr(point + 1, e - point - 1) : "";
    result.exponent = std::atoi(text.c_str() + e + 1);
    return result;
  };
  if (!precision.unique) return exactly(precision.most);
  Digits d{"0", 1};
  if (magnitude != 0) d = shortest_digits(dtype, magnitude);
  if (static_cast<int>(d.digits.size()) - 1 < precision.least) return exactly(precision.least);
  if (static_cast<int>(d.digits.size()) - 1 > precision.most) {
    d = from_scientific(fmt::format("{:.{}e}", magnitude, precision.most));
    if (static_cast<int>(d.digits.size()) - 1 < precision.least) return exactly(precision.least);
  }
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
  // `zero_dimensional`: the one number of an array without axes.
  FloatFormat(DType dtype, const std::vector<double>& values, const PrintOptions& options, char sign, FloatMode mode,
              bool zero_dimensional)
      : dtype_(dtype), options_(options), sign_(sign) {
    const bool oldest = options.legacy == PrintLegacy::v1_13;
    if (oldest && !zero_dimensional && sign_ == '-') sign_ = ' ';
    double largest = 0, smallest = INFINITY;
    bool any_finite = false, any_special = false, negative_infinity = false, negative = false;
    for (double value : values) {
      if (!std::isfinite(value)) {
        any_special = true;
        negative_infinity = negative_infinity || (std::isinf(value) && value < 0);
        continue;
      }
      any_finite = true;
      negative = negative || std::signbit(value);
      if (value == 0) continue;
      largest = std::max(largest, std::fabs(value));
      smallest = std::min(smallest, std::fabs(value));
    }
    if (largest > 0) {
      const int digits = options.legacy == PrintLegacy::none ? std::min(8, decimal_digits(dtype)) : 8;
      const double cutoff = std::pow(10.0, digits);
      exponential_ =
          largest >= cutoff ||
          (!options.suppress && (smallest < rounded_to(dtype, 0.0001) || rounded_to(dtype, largest / smallest) > 1000));
    }
    if (mode != FloatMode::unique && options.precision < 0)
      throw InvalidArgument(fmt::format("precision must be >= 0, not {}", options.precision));
    Precision first;
    first.unique = mode != FloatMode::fixed;
    if (mode != FloatMode::unique) first.most = options.precision;
    precision_ = first;
    if (any_finite && exponential_) {
      first.unique = first.unique && (!oldest || mode == FloatMode::unique);
      precision_.unique = first.unique;
      size_t exponent_digits = 2, fraction = 0;
      for (double value : values) {
        if (!std::isfinite(value)) continue;
        const Scientific s = scientific(dtype_, value, first, sign_ == '+');
        left_ = std::max(left_, s.integer.size());
        fraction = std::max(fraction, s.fraction.size());
        exponent_digits = std::max(exponent_digits, std::to_string(std::abs(s.exponent)).size());
      }
      if (oldest) left_ = 3;  // two blanks and a sign
      exponent_digits_ = static_cast<int>(exponent_digits);
      precision_.most = precision_.least = static_cast<int>(fraction);
      right_ = exponent_digits + 2 + fraction;
    } else if (any_finite) {
      for (double value : values) {
        if (!std::isfinite(value)) continue;
        const std::string text = positional(dtype_, value, first, sign_ == '+');
        const size_t point = text.find('.');
        const size_t sign_size = text[0] == '-' || text[0] == '+' ? 1 : 0;
        left_ = std::max(left_, oldest ? point - sign_size + 1 : point);
        right_ = std::max(right_, text.size() - point - 1);
      }
      if (mode == FloatMode::fixed || mode == FloatMode::maxprec_equal)
        precision_.most = precision_.least = static_cast<int>(right_);
    }
    if (!oldest && sign_ == ' ' && any_finite && !negative) ++left_;
    if (any_special) {
      const size_t beside = right_ + 1, nan = options.nanstr.size();
      const size_t infinity = options.infstr.size() + (sign_ != '-' || negative_infinity ? 1 : 0);
      left_ = std::max({left_, beside < nan ? nan - beside : 0, beside < infinity ? infinity - beside : 0});
    }
  }

  std::string operator()(double value) const {
    if (!std::isfinite(value)) {
      const std::string sign = !std::isnan(value) && value < 0 ? "-" : sign_ == '+' ? "+" : "";
      const std::string& word = std::isnan(value) ? options_.nanstr : options_.infstr;
      return fmt::format("{:>{}}", sign + word, left_ + right_ + 1);
    }
    if (exponential_) {
      const Scientific s = scientific(dtype_, value, precision_, sign_ == '+');
      return fmt::format("{:>{}}.{}{}", s.integer, left_, s.fraction, exponent_text(s.exponent, exponent_digits_));
    }
    const std::string text = positional(dtype_, value, precision_, sign_ == '+');
    const size_t point = text.find('.'), after = text.size() - point - 1;
    return std::string(left_ > point ? left_ - point : 0, ' ') + text +
           std::string(right_ > after ? right_ - after : 0, ' ');
  }

 private:
  DType dtype_;
  const PrintOptions& options_;
  char sign_;
  bool exponential_ = false;
  size_t left_ = 0, right_ = 0;  // widths before and after the point
  Precision precision_;
  int exponent_digits_ = 0;
};

double component(const Scalar& value, bool imaginary) {
  return imaginary ? value.as_complex().imag() : value.as_complex().real();
}

std::vector<std::string> format_integers(const std::vector<Scalar>& values, bool is_unsigned, char sign) {
  bool negative = false;
  for (const Scalar& v : values) negative = negative || (!is_unsigned && v.as_int64() < 0);
  if (sign == ' ' && negative) sign = '-';
  std::vector<std::string> words;
  size_t width = 0;
  for (const Scalar& v : values) {
    words.push_back(is_unsigned ? std::to_string(v.as_uint64()) : std::to_string(v.as_int64()));
    if (sign != '-' && words.back()[0] != '-') words.back().insert(0, 1, sign);
    width = std::max(width, words.back().size());
  }
  for (std::string& word : words) word.insert(0, width - word.size(), ' ');
  return words;
}

// The user's text of such elements, or null.
const ElementTexts::mapped_type* users_text(DType dtype, const ElementTexts& texts) {
  if (texts.empty()) return nullptr;
  std::array<std::string_view, 2> names{"bool", ""};
  if (is_integer(dtype)) names = {"int", "int_kind"};
  if (is_float(dtype)) names = {"float", "float_kind"};
  if (is_complex(dtype)) names = {"complexfloat", "complex_kind"};
  for (const std::string_view name : {names[0], names[1], std::string_view("all")})
    if (const auto found = texts.find(name); found != texts.end() && found->second) return &found->second;
  return nullptr;
}

// Formats the elements of one array.
std::vector<std::string> format_elements(DType dtype, const std::vector<Scalar>& values, bool zero_dimensional,
                                         const PrintOptions& options) {
  if (const auto* text = users_text(dtype, options.formatter)) {
    std::vector<std::string> words;
    for (const Scalar& value : values) words.push_back((*text)(value));
    return words;
  }
  if (is_integer(dtype)) return format_integers(values, kind(dtype) == 'u', options.sign);
  std::vector<std::string> words;
  words.reserve(values.size());
  if (kind(dtype) == 'b') {
    for (const Scalar& v : values) words.push_back(v.as_bool() ? zero_dimensional ? "True" : " True" : "False");
    return words;
  }
  std::vector<double> reals, imaginaries;
  for (const Scalar& v : values) {
    reals.push_back(component(v, false));
    if (is_complex(dtype)) imaginaries.push_back(component(v, true));
  }
  const bool parts = is_complex(dtype) && options.legacy == PrintLegacy::v1_13;  // have modes of their own
  const FloatFormat real_format(real_type(dtype), reals, options, options.sign,
                                parts ? FloatMode::maxprec_equal : options.floatmode, zero_dimensional);
  if (!is_complex(dtype)) {
    for (double v : reals) words.push_back(real_format(v));
    return words;
  }
  const FloatFormat imaginary_format(real_type(dtype), imaginaries, options, '+',
                                     parts ? FloatMode::maxprec : options.floatmode, zero_dimensional);
  for (size_t i = 0; i < values.size(); ++i) {
    std::string imaginary = imaginary_format(imaginaries[i]);
    imaginary.insert(imaginary.find_last_not_of(' ') + 1, "j");
    words.push_back(real_format(reals[i]) + imaginary);
  }
  return words;
}

// What of the array is shown, on the host: along an axis that is cut, its ends.
struct Shown {
  Dims shape;
  std::vector<Scalar> values;
};

void copy_corners(const NdArray& from, const NdArray& into, const Edges& edges, int axis) {
  if (axis == from.ndim()) {
    into.assign(from.to(kCpu), default_context(kCpu));
    return;
  }
  const int64_t size = from.shape()[axis];
  if (size == into.shape()[axis]) return copy_corners(from, into, edges, axis + 1);
  for (const Slice& edge : {Slice{{}, edges.leading, {}}, Slice{-edges.trailing, {}, {}}}) {
    std::vector<IndexItem> index(static_cast<size_t>(axis), IndexItem(full_slice));
    index.push_back(edge);
    copy_corners(from[index], into[index], edges, axis + 1);
  }
}

Shown gather(const NdArray& array, bool summarise, const Edges& edges) {
  Shown shown{array.shape(), {}};
  NdArray host = array;
  if (summarise) {
    for (int64_t& extent : shown.shape)
      if (edges.cut(extent)) extent = edges.leading + edges.trailing;
    host = NdArray(shown.shape, array.dtype(), default_context(kCpu));
    copy_corners(array, host, edges, 0);
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
         bool summarise, const Edges& edges, bool oldest)
      : shape_(shape),
        shown_(shown),
        words_(words),
        separator_(std::move(separator)),
        summarise_(summarise),
        edges_(edges),
        oldest_(oldest) {
    bare_separator_ = separator_.substr(0, separator_.find_last_not_of(' ') + 1);
  }

  std::string format(int axis, const std::string& indent, int64_t width) {
    if (axis == shape_.size()) return words_[next_++];
    const bool cut = summarise_ && edges_.cut(shape_[axis]);
    const int64_t count = shown_[axis];
    std::string text;
    if (axis == shape_.size() - 1) {
      const int64_t room = width - static_cast<int64_t>(std::max<size_t>(bare_separator_.size(), oldest_ ? 0 : 1));
      std::string line = indent;
      for (int64_t i = 0; i < count; ++i) {
        if (cut && i == edges_.leading) {
          extend(text, line, "...", room, indent);
          line += oldest_ ? ", " : separator_;
        }
        const bool last = i + 1 == count;
        extend_lines(text, line, words_[next_++], last && oldest_ ? width : room, indent);
        if (!last) line += separator_;
      }
      text += line;
    } else {
      const std::string deeper = indent + ' ';
      const std::string between = bare_separator_ + std::string(static_cast<size_t>(shape_.size() - axis - 1), '\n');
      for (int64_t i = 0; i < count; ++i) {
        if (cut && i == edges_.leading) text.append(indent).append("...").append(oldest_ ? ", \n" : between);
        text.append(indent).append(format(axis + 1, deeper, oldest_ ? width : width - 1));
        if (i + 1 < count) text.append(between);
      }
    }
    return '[' + text.substr(indent.size()) + ']';
  }

 private:
  static void end_line(std::string& text, const std::string& line) {
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  // Appends to the line, or begins a new one if that helps.
  void extend(std::string& text, std::string& line, const std::string& word, int64_t room,
              const std::string& indent) const {
    if (static_cast<int64_t>(line.size() + word.size()) > room && (oldest_ || line.size() > indent.size())) {
      end_line(text, line);
      line = indent;
    }
    line += word;
  }
  // The same for a word of the user's that may have several lines, which stay below each other.
  void extend_lines(std::string& text, std::string& line, const std::string& word, int64_t room,
                    const std::string& indent) const {
    if (oldest_ || word.find('\n') == std::string::npos) return extend(text, line, word, room, indent);
    std::vector<std::string> parts;
    size_t widest = 0;
    for (size_t begin = 0; begin < word.size();) {
      const size_t end = std::min(word.find('\n', begin), word.size());
      parts.push_back(word.substr(begin, end - begin));
      widest = std::max(widest, parts.back().size());
      begin = end + 1;
    }
    if (static_cast<int64_t>(line.size() + widest) > room && line.size() > indent.size()) {
      end_line(text, line);
      line = indent;
    }
    const std::string below(line.size(), ' ');
    line += parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      end_line(text, line);
      line = below + parts[i];
    }
    line.append(widest - parts.back().size(), ' ');
  }

  const Dims& shape_;
  const Dims& shown_;
  const std::vector<std::string>& words_;
  const std::string separator_;
  std::string bare_separator_;
  const bool summarise_;
  const Edges edges_;
  const bool oldest_;  // NumPy 1.13's lines
  size_t next_ = 0;
};

// repr() of the Python number that item() of the array gives.
std::string python_number(const Scalar& value) {
  const DType dtype = value.dtype();
  if (is_float(dtype)) return to_string(Scalar::strong(value, DType::float64));
  return to_string(is_complex(dtype) ? Scalar::strong(value, DType::complex128) : value);
}

// `part` is the array of `shape`, or only its corners where the array is summarised.
std::string format_part(const NdArray& part, const Dims& shape, const PrintOptions& options,
                        const std::string& separator, size_t prefix, size_t suffix) {
  const bool oldest = options.legacy == PrintLegacy::v1_13;
  if (oldest && shape.empty()) return python_number(part.item());
  if (element_count(shape) == 0) return "[]";
  const bool summarise = element_count(shape) > options.threshold;
  const Edges edges(options);
  const Shown shown = gather(part, summarise, edges);
  const std::vector<std::string> words = format_elements(part.dtype(), shown.values, shape.empty(), options);
  Layout layout(shape, shown.shape, words, separator, summarise, edges, oldest);
  return layout.format(0, std::string(prefix + 1, ' '),
                       options.linewidth - (oldest ? 0 : static_cast<int64_t>(suffix)));
}

std::string repr_of_part(const NdArray& part, const Dims& shape, const PrintOptions& options) {
  const std::string open = "array(";
  std::string text = open + format_part(part, shape, options, ", ", open.size(), 1);
  std::string extras;
  const int64_t size = element_count(shape);
  const bool tells_shape = options.legacy == PrintLegacy::none && size > options.threshold;
  if ((size == 0 && shape.size() != 1) || tells_shape) extras = "shape=" + to_string(shape);
  const DType dtype = part.dtype();
  const bool oldest = options.legacy == PrintLegacy::v1_13;
  const bool implied = (dtype == DType::bool_ && !oldest) || dtype == DType::int64 || dtype == DType::float64 ||
                       dtype == DType::complex128;
  if (!implied || size == 0) extras += (extras.empty() ? "dtype=" : ", dtype=") + std::string(name(dtype));
  if (extras.empty()) return text + ")";
  text += ',';
  extras += ')';
  const size_t newline = text.rfind('\n');
  const size_t last = newline == std::string::npos ? text.size() : text.size() - newline - 1;
  if (!oldest && static_cast<int64_t>(last + extras.size() + 1) > options.linewidth)
    return text + '\n' + std::string(open.size(), ' ') + extras;
  return text + ' ' + extras;
}

// What the corners of a summary were cut with.
PrintOptions summary_options() {
  PrintOptions options = print_options();
  options.threshold = PrintOptions{}.threshold;
  options.edgeitems = PrintOptions{}.edgeitems;
  return options;
}

// A NumPy float scalar's str(): positional from 1e-4 up to what the type's digits can tell apart.
std::string float_scalar(DType dtype, double value, bool plus, bool trim_zeros) {
  if (std::isnan(value)) return plus ? "+nan" : "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : plus ? "+inf" : "inf";
  const double magnitude = std::fabs(value);
  const double cutoff = dtype == DType::float64 ? 1e16 : std::pow(10.0, decimal_digits(dtype));
  if (magnitude == 0 || (magnitude < cutoff && magnitude >= 1e-4)) {
    std::string text = positional(dtype, value, {}, plus);
    if (text.back() == '.') trim_zeros ? text.pop_back() : text.push_back('0');
    return text;
  }
  const Scientific s = scientific(dtype, value, {}, plus);
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

const PrintOptions& print_options() { return thread_options(); }

void set_print_options(PrintOptions options) {
  if (options.sign != '-' && options.sign != '+' && options.sign != ' ')
    throw InvalidArgument("sign option must be one of ' ', '+', or '-'");
  if (options.precision < 0) throw InvalidArgument(fmt::format("precision must be >= 0, not {}", options.precision));
  if (options.edgeitems < 0) throw InvalidArgument(fmt::format("edgeitems must be >= 0, not {}", options.edgeitems));
  thread_options() = std::move(options);
}

std::string detail::format_array(const NdArray& array, const PrintOptions& options, const std::string& separator,
                                 const std::string& prefix, const std::string& suffix) {
  return format_part(array, array.shape(), options, separator, prefix.size(), suffix.size());
}

std::string detail::format_repr(const NdArray& array, const PrintOptions& options) {
  if (options.override_repr) return options.override_repr(array);
  return repr_of_part(array, array.shape(), options);
}

std::ostream& operator<<(std::ostream& out, const NdArray& array) { return out << array.to_string(); }

std::string NdArray::to_string() const {
  if (ndim() > 0) return format_array(*this, print_options());
  return print_options().legacy == PrintLegacy::v1_13 ? python_number(item()) : local::to_string(item());
}

std::string NdArray::repr() const { return format_repr(*this, print_options()); }

std::string detail::summary_string(const NdArray& corners, const Dims& shape) {
  return format_part(corners, shape, summary_options(), " ", 0, 0);
}

std::string detail::summary_repr(const NdArray& corners, const Dims& shape) {
  return repr_of_part(corners, shape, summary_options());
}

namespace ops {
namespace {

PrintOptions options_with(std::optional<int64_t> line_width, std::optional<int64_t> precision,
                          std::optional<bool> suppress) {
  PrintOptions options = print_options();
  if (line_width) options.linewidth = *line_width;
  // A negative precision matters to floating point numbers only.
  if (precision) options.precision = static_cast<int>(std::clamp<int64_t>(*precision, -1, kAllDigits));
  if (suppress) options.suppress = *suppress;
  return options;
}

FloatMode parse_float_mode(std::string_view text) {
  if (text == "fixed") return FloatMode::fixed;
  if (text == "unique") return FloatMode::unique;
  if (text == "maxprec") return FloatMode::maxprec;
  if (text == "maxprec_equal") return FloatMode::maxprec_equal;
  throw InvalidArgument(fmt::format(
      "floatmode option must be one of \"fixed\", \"unique\", \"maxprec\", \"maxprec_equal\", not \"{}\"", text));
}

char parse_sign(std::string_view text) {
  if (text != "-" && text != "+" && text != " ")
    throw InvalidArgument(fmt::format("sign option must be one of ' ', '+', or '-', not '{}'", text));
  return text.front();
}

std::optional<PrintLegacy> parse_legacy(const Legacy& legacy) {
  if (const bool* on = std::get_if<bool>(&legacy)) return *on ? std::nullopt : std::optional(PrintLegacy::none);
  constexpr std::pair<std::string_view, PrintLegacy> kNames[] = {{"1.13", PrintLegacy::v1_13},
                                                                 {"1.21", PrintLegacy::v1_21},
                                                                 {"1.25", PrintLegacy::v1_25},
                                                                 {"2.1", PrintLegacy::v2_1},
                                                                 {"2.2", PrintLegacy::v2_2}};
  for (const auto& [name, mode] : kNames)
    if (name == std::get<std::string_view>(legacy)) return mode;
  return std::nullopt;
}

// The current options with those that are given.
PrintOptions changed_options(std::optional<int64_t> precision, std::optional<int64_t> threshold,
                             std::optional<int64_t> edgeitems, std::optional<int64_t> linewidth,
                             std::optional<bool> suppress, std::optional<std::string_view> sign,
                             std::optional<std::string_view> floatmode, const std::optional<Legacy>& legacy) {
  PrintOptions options = options_with(linewidth, precision, suppress);
  if (threshold) options.threshold = *threshold;
  if (edgeitems && *edgeitems < 0) throw InvalidArgument(fmt::format("edgeitems must be >= 0, not {}", *edgeitems));
  if (edgeitems) options.edgeitems = *edgeitems;
  if (floatmode) options.floatmode = parse_float_mode(*floatmode);
  if (sign) options.sign = parse_sign(*sign);
  if (legacy) options.legacy = parse_legacy(*legacy).value_or(options.legacy);
  return options;
}

}  // namespace

std::string array2string(const NdArray& a, std::optional<int64_t> max_line_width, std::optional<int64_t> precision,
                         std::optional<bool> suppress_small, std::string_view separator, std::string_view prefix,
                         const std::optional<ElementTexts>& formatter, std::optional<int64_t> threshold,
                         std::optional<int64_t> edgeitems, std::optional<std::string_view> sign,
                         std::optional<std::string_view> floatmode, std::string_view suffix,
                         const std::optional<Legacy>& legacy) {
  PrintOptions options =
      changed_options(precision, threshold, edgeitems, max_line_width, suppress_small, sign, floatmode, legacy);
  if (formatter) options.formatter = *formatter;
  return format_array(a, options, std::string(separator), std::string(prefix), std::string(suffix));
}

std::string array_repr(const NdArray& arr, std::optional<int64_t> max_line_width, std::optional<int64_t> precision,
                       std::optional<bool> suppress_small) {
  return format_repr(arr, options_with(max_line_width, precision, suppress_small));
}

std::string array_str(const NdArray& a, std::optional<int64_t> max_line_width, std::optional<int64_t> precision,
                      std::optional<bool> suppress_small) {
  const PrintOptions options = options_with(max_line_width, precision, suppress_small);
  if (a.ndim() == 0) return options.legacy == PrintLegacy::v1_13 ? python_number(a.item()) : local::to_string(a.item());
  return format_array(a, options);
}

namespace {

PrintOptions all_options(std::optional<int64_t> precision, std::optional<int64_t> threshold,
                         std::optional<int64_t> edgeitems, std::optional<int64_t> linewidth,
                         std::optional<bool> suppress, std::optional<std::string> nanstr,
                         std::optional<std::string> infstr, const std::optional<ElementTexts>& formatter,
                         std::optional<std::string_view> sign, std::optional<std::string_view> floatmode,
                         const std::optional<Legacy>& legacy,
                         const std::optional<std::function<std::string(const NdArray&)>>& override_repr) {
  PrintOptions options = changed_options(precision, threshold, edgeitems, linewidth, suppress, sign, floatmode, legacy);
  if (nanstr) options.nanstr = std::move(*nanstr);
  if (infstr) options.infstr = std::move(*infstr);
  options.formatter = formatter.value_or(ElementTexts{});
  options.override_repr = override_repr.value_or(nullptr);
  if (options.legacy == PrintLegacy::v1_13) options.sign = '-';
  return options;
}

}  // namespace

void set_printoptions(std::optional<int64_t> precision, std::optional<int64_t> threshold,
                      std::optional<int64_t> edgeitems, std::optional<int64_t> linewidth, std::optional<bool> suppress,
                      std::optional<std::string> nanstr, std::optional<std::string> infstr,
                      const std::optional<ElementTexts>& formatter, std::optional<std::string_view> sign,
                      std::optional<std::string_view> floatmode, const std::optional<Legacy>& legacy,
                      const std::optional<std::function<std::string(const NdArray&)>>& override_repr) {
  set_print_options(all_options(precision, threshold, edgeitems, linewidth, suppress, std::move(nanstr),
                                std::move(infstr), formatter, sign, floatmode, legacy, override_repr));
}

PrintScope printoptions(std::optional<int64_t> precision, std::optional<int64_t> threshold,
                        std::optional<int64_t> edgeitems, std::optional<int64_t> linewidth,
                        std::optional<bool> suppress, std::optional<std::string> nanstr,
                        std::optional<std::string> infstr, const std::optional<ElementTexts>& formatter,
                        std::optional<std::string_view> sign, std::optional<std::string_view> floatmode,
                        const std::optional<Legacy>& legacy,
                        const std::optional<std::function<std::string(const NdArray&)>>& override_repr) {
  return PrintScope(all_options(precision, threshold, edgeitems, linewidth, suppress, std::move(nanstr),
                                std::move(infstr), formatter, sign, floatmode, legacy, override_repr));
}

}  // namespace ops
}  // namespace quarry::local
