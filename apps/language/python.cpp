#include "quarry/apps/language/python.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "quarry/local/base/error.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

constexpr Int kLeast = std::numeric_limits<int64_t>::min();
constexpr Int kLargest = std::numeric_limits<uint64_t>::max();

Int check_range(Int value) {
  if (value < kLeast || value > kLargest) {
    throw InvalidArgument("the integer result " + to_string(value) + " does not fit 64 bits");
  }
  return value;
}

[[noreturn]] void unsupported(BinaryOp op, const Number& left, const Number& right) {
  throw TypeError(std::string("unsupported operand type(s) for ") + symbol(op) + ": '" + type_name(left) + "' and '" +
                  type_name(right) + "'");
}

bool is_int(const Number& value) { return value.index() <= 1; }
Int as_int(const Number& value) {
  const bool* b = std::get_if<bool>(&value);
  return b != nullptr ? Int{*b ? 1 : 0} : std::get<Int>(value);
}
double as_double(const Number& value) {
  const double* d = std::get_if<double>(&value);
  return d != nullptr ? *d : static_cast<double>(as_int(value));
}
std::complex<double> as_complex(const Number& value) {
  const auto* c = std::get_if<std::complex<double>>(&value);
  return c != nullptr ? *c : std::complex<double>(as_double(value), 0);
}

Int floor_divide(Int a, Int b) {
  const Int quotient = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? quotient - 1 : quotient;
}

Int shift_left(Int value, Int count) {
  if (value == 0) return 0;
  if (count >= 64) throw InvalidArgument("the integer result of << does not fit 64 bits");
  return check_range(value * (Int{1} << count));
}

Int power(Int base, Int exponent) {
  Int result = 1;
  const bool trivial = base == 0 || base == 1 || base == -1;
  if (trivial) {
    if (exponent == 0) return 1;
    return base == -1 && exponent % 2 == 0 ? 1 : base;
  }
  for (Int i = 0; i < exponent; ++i) {  // at most 64 rounds: |base| >= 2
    if (__builtin_mul_overflow(result, base, &result) || result < kLeast || result > kLargest) {
      throw InvalidArgument("the integer result of " + to_string(base) + " ** " + to_string(exponent) +
                            " does not fit 64 bits");
    }
  }
  return result;
}

Number binary_int(BinaryOp op, const Number& left, const Number& right) {
  const Int a = as_int(left), b = as_int(right);
  const bool bools = left.index() == 0 && right.index() == 0;
  switch (op) {
    case BinaryOp::add:
      return check_range(a + b);
    case BinaryOp::subtract:
      return check_range(a - b);
    case BinaryOp::multiply: {
      Int result = 0;
      if (__builtin_mul_overflow(a, b, &result)) {
        throw InvalidArgument("the integer result of * does not fit 64 bits");
      }
      return check_range(result);
    }
    case BinaryOp::divide:
      if (b == 0) throw InvalidArgument("division by zero");
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case BinaryOp::floor_divide:
      if (b == 0) throw InvalidArgument("integer division or modulo by zero");
      return check_range(floor_divide(a, b));
    case BinaryOp::remainder:
      if (b == 0) throw InvalidArgument("integer division or modulo by zero");
      return a - floor_divide(a, b) * b;
    case BinaryOp::power:
      if (b >= 0) return power(a, b);
      if (a == 0) throw InvalidArgument("0.0 cannot be raised to a negative power");
      return std::pow(static_cast<double>(a), static_cast<double>(b));
    case BinaryOp::matmul:
      unsupported(op, left, right);
    case BinaryOp::left_shift:
      if (b < 0) throw InvalidArgument("negative shift count");
      return shift_left(a, b);
    case BinaryOp::right_shift:
      if (b < 0) throw InvalidArgument("negative shift count");
      return b >= 100 ? Int{a < 0 ? -1 : 0} : a >> b;
    case BinaryOp::bit_and:
      return bools ? Number{(a & b) != 0} : Number{a & b};
    case BinaryOp::bit_xor:
      return bools ? Number{(a ^ b) != 0} : Number{check_range(a ^ b)};
    case BinaryOp::bit_or:
      return bools ? Number{(a | b) != 0} : Number{check_range(a | b)};
  }
  return Int{0};
}

// CPython's float_divmod: the remainder takes the divisor's sign, zeros too.
double float_remainder(double a, double b) {
  double mod = std::fmod(a, b);
  if (mod != 0) {
    if ((b < 0) != (mod < 0)) mod += b;
    return mod;
  }
  return std::copysign(0.0, b);
}

double float_floor_divide(double a, double b) {
  double mod = std::fmod(a, b);
  double quotient = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double floored = std::floor(quotient);
  if (quotient - floored > 0.5) floored += 1.0;
  return floored;
}

std::complex<double> multiply(std::complex<double> a, std::complex<double> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Smith's algorithm, as CPython.
std::complex<double> divide(std::complex<double> a, std::complex<double> b) {
  if (b.real() == 0 && b.imag() == 0) throw InvalidArgument("complex division by zero");
  if (std::abs(b.real()) >= std::abs(b.imag())) {
    const double ratio = b.imag() / b.real();
    const double denominator = b.real() + b.imag() * ratio;
    return {(a.real() + a.imag() * ratio) / denominator, (a.imag() - a.real() * ratio) / denominator};
  }
  const double ratio = b.real() / b.imag();
  const double denominator = b.real() * ratio + b.imag();
  return {(a.real() * ratio + a.imag()) / denominator, (a.imag() * ratio - a.real()) / denominator};
}

// As CPython: repeated squaring for small integer exponents, the polar form otherwise.
std::complex<double> complex_power(std::complex<double> a, std::complex<double> b) {
  if (b.real() == 0 && b.imag() == 0) return 1;
  if (a.real() == 0 && a.imag() == 0) {
    if (b.imag() != 0 || b.real() < 0) throw InvalidArgument("0.0 to a negative or complex power");
    return 0;
  }
  if (b.imag() == 0 && b.real() == std::floor(b.real()) && std::abs(b.real()) <= 100) {
    const auto exponent = static_cast<int64_t>(b.real());
    std::complex<double> result = 1, square = a;
    for (int64_t rest = std::abs(exponent); rest > 0; rest >>= 1) {
      if ((rest & 1) != 0) result = multiply(result, square);
      square = multiply(square, square);
    }
    return exponent < 0 ? divide(1, result) : result;
  }
  const double magnitude = std::hypot(a.real(), a.imag()), angle = std::atan2(a.imag(), a.real());
  double length = std::pow(magnitude, b.real()), phase = angle * b.real();
  if (b.imag() != 0) {
    length /= std::exp(angle * b.imag());
    phase += b.imag() * std::log(magnitude);
  }
  return {length * std::cos(phase), length * std::sin(phase)};
}

Number binary_float(BinaryOp op, const Number& left, const Number& right) {
  const double a = as_double(left), b = as_double(right);
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::subtract:
      return a - b;
    case BinaryOp::multiply:
      return a * b;
    case BinaryOp::divide:
      if (b == 0) throw InvalidArgument("float division by zero");
      return a / b;
    case BinaryOp::floor_divide:
      if (b == 0) throw InvalidArgument("float floor division by zero");
      return float_floor_divide(a, b);
    case BinaryOp::remainder:
      if (b == 0) throw InvalidArgument("float modulo by zero");
      return float_remainder(a, b);
    case BinaryOp::power: {
      if (a == 0 && b < 0) throw InvalidArgument("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) return complex_power(a, b);
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        throw InvalidArgument("the float result of ** is too large");
      }
      return result;
    }
    case BinaryOp::matmul:
    case BinaryOp::left_shift:
    case BinaryOp::right_shift:
    case BinaryOp::bit_and:
    case BinaryOp::bit_xor:
    case BinaryOp::bit_or:
      break;
  }
  unsupported(op, left, right);
}

Number binary_complex(BinaryOp op, const Number& left, const Number& right) {
  const std::complex<double> a = as_complex(left), b = as_complex(right);
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::subtract:
      return a - b;
    case BinaryOp::multiply:
      return multiply(a, b);
    case BinaryOp::divide:
      return divide(a, b);
    case BinaryOp::power:
      return complex_power(a, b);
    case BinaryOp::floor_divide:
    case BinaryOp::remainder:
    case BinaryOp::matmul:
    case BinaryOp::left_shift:
    case BinaryOp::right_shift:
    case BinaryOp::bit_and:
    case BinaryOp::bit_xor:
    case BinaryOp::bit_or:
      break;
  }
  unsupported(op, left, right);
}

template <class T>
bool ordered(CompareOp op, T a, T b) {
  switch (op) {
    case CompareOp::less:
      return a < b;
    case CompareOp::less_equal:
      return a <= b;
    case CompareOp::greater:
      return a > b;
    case CompareOp::greater_equal:
      return a >= b;
    case CompareOp::equal:
      return a == b;
    case CompareOp::not_equal:
      return a != b;
  }
  return false;
}

// Ints within 64 bits are exact in an x86 long double, so mixed comparison is exact.
static_assert(std::numeric_limits<long double>::digits >= 64);
long double as_long_double(const Number& value) {
  const double* d = std::get_if<double>(&value);
  return d != nullptr ? static_cast<long double>(*d) : static_cast<long double>(as_int(value));
}

}  // namespace

Number unary(UnaryOp op, const Number& value) {
  if (op == UnaryOp::logical_not) return !truth(value);
  if (is_int(value)) {
    const Int v = as_int(value);
    return check_range(op == UnaryOp::plus ? v : op == UnaryOp::minus ? -v : -v - 1);
  }
  if (op == UnaryOp::invert) throw TypeError(std::string("bad operand type for unary ~: '") + type_name(value) + "'");
  if (const double* d = std::get_if<double>(&value)) return op == UnaryOp::plus ? *d : -*d;
  const std::complex<double> c = std::get<std::complex<double>>(value);
  return op == UnaryOp::plus ? c : -c;
}

Number binary(BinaryOp op, const Number& left, const Number& right) {
  const size_t widest = std::max(left.index(), right.index());
  if (widest <= 1) return binary_int(op, left, right);
  return widest == 2 ? binary_float(op, left, right) : binary_complex(op, left, right);
}

bool compare(CompareOp op, const Number& left, const Number& right) {
  const size_t widest = std::max(left.index(), right.index());
  if (widest <= 1) return ordered(op, as_int(left), as_int(right));
  if (widest == 2) return ordered(op, as_long_double(left), as_long_double(right));
  if (op != CompareOp::equal && op != CompareOp::not_equal) {
    throw TypeError(std::string("'") + symbol(op) + "' not supported between instances of '" + type_name(left) +
                    "' and '" + type_name(right) + "'");
  }
  return (as_complex(left) == as_complex(right)) == (op == CompareOp::equal);
}

bool truth(const Number& value) {
  return is_int(value) ? as_int(value) != 0 : as_complex(value) != std::complex<double>(0, 0);
}

const char* type_name(const Number& value) {
  static constexpr const char* kNames[] = {"bool", "int", "float", "complex"};
  return kNames[value.index()];
}

std::string to_string(Int value) {
  __extension__ typedef unsigned __int128 Magnitude;
  Magnitude rest = value < 0 ? -static_cast<Magnitude>(value) : static_cast<Magnitude>(value);
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest != 0);
  if (value < 0) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

namespace {

// The shortest digits that read back as the value, laid out as Python's repr; `point_zero` adds ".0" to whole numbers.
std::string shortest(double value, bool point_zero) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string text(buffer, end);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  std::string mantissa = text.substr(0, e);
  if (exponent < -4 || exponent >= 16) {
    const std::string magnitude = std::to_string(std::abs(exponent));
    return mantissa + (exponent < 0 ? "e-" : "e+") + (magnitude.size() < 2 ? "0" : "") + magnitude;
  }
  const bool negative = mantissa[0] == '-';
  std::string digits;
  for (const char c : mantissa) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string result;
  if (exponent < 0) {
    result = "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else {
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    result = digits.substr(0, whole);
    if (digits.size() > whole)
      result += "." + digits.substr(whole);
    else if (point_zero)
      result += ".0";
  }
  return negative ? "-" + result : result;
}

}  // namespace

std::string repr(bool value) { return value ? "True" : "False"; }
std::string repr(Int value) { return to_string(value); }
std::string repr(double value) { return shortest(value, /*point_zero=*/true); }

std::string repr(std::complex<double> value) {
  std::string imag = shortest(value.imag(), /*point_zero=*/false) + "j";
  if (value.real() == 0 && !std::signbit(value.real())) return imag;
  const bool sign = imag[0] != '-';
  return "(" + shortest(value.real(), /*point_zero=*/false) + (sign ? "+" : "") + imag + ")";
}

std::string repr(const std::string& value) {
  const bool apostrophes = value.find('\'') != std::string::npos && value.find('"') == std::string::npos;
  const char quote = apostrophes ? '"' : '\'';
  std::string result(1, quote);
  for (const char c : value) {
    const auto u = static_cast<unsigned char>(c);
    static constexpr char kHex[] = "0123456789abcdef";
    if (c == quote || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (c == '\r') {
      result += "\\r";
    } else if (u < 0x20 || u == 0x7f) {
      result += {'\\', 'x', kHex[u >> 4], kHex[u & 15]};
    } else {
      result += c;
    }
  }
  return result + quote;
}

std::string repr(const Number& value) {
  return std::visit([](const auto& v) { return repr(v); }, value);
}

}  // namespace quarry::apps::expression
