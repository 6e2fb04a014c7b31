#include "quarry/apps/language/python.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "quarry/local/base/error.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

[[noreturn]] void unsupported(BinaryOp op, const Number& left, const Number& right) {
  throw TypeError(std::string("unsupported operand type(s) for ") + symbol(op) + ": '" + type_name(left) + "' and '" +
                  type_name(right) + "'");
}

bool is_int(const Number& value) { return value.index() <= 1; }
Int as_int(const Number& value) {
  const bool* b = std::get_if<bool>(&value);
  return b != nullptr ? Int(*b ? 1 : 0) : std::get<Int>(value);
}

Number binary_int(BinaryOp op, const Number& left, const Number& right) {
  const Int a = as_int(left), b = as_int(right);
  const bool bools = left.index() == 0 && right.index() == 0;
  const auto truth_or_int = [&](Int result) { return bools ? Number{!result.is_zero()} : Number{std::move(result)}; };
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::subtract:
      return a - b;
    case BinaryOp::multiply:
      return a * b;
    case BinaryOp::divide:
      if (b.is_zero()) throw InvalidArgument("division by zero");
      return Int::true_divide(a, b);
    case BinaryOp::floor_divide:
      if (b.is_zero()) throw InvalidArgument("integer division or modulo by zero");
      return Int::divide(a, b).first;
    case BinaryOp::remainder:
      if (b.is_zero()) throw InvalidArgument("integer division or modulo by zero");
      return Int::divide(a, b).second;
    case BinaryOp::power:
      if (!b.is_negative()) return a.power(b);
      if (a.is_zero()) throw InvalidArgument("0.0 cannot be raised to a negative power");
      return std::pow(a.as_double(), b.as_double());
    case BinaryOp::matmul:
      unsupported(op, left, right);
    case BinaryOp::left_shift:
      if (b.is_negative()) throw InvalidArgument("negative shift count");
      return a.shifted_left(b);
    case BinaryOp::right_shift:
      if (b.is_negative()) throw InvalidArgument("negative shift count");
      return a.shifted_right(b);
    case BinaryOp::bit_and:
      return truth_or_int(a & b);
    case BinaryOp::bit_xor:
      return truth_or_int(a ^ b);
    case BinaryOp::bit_or:
      return truth_or_int(a | b);
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
  const double a = to_float(left), b = to_float(right);
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
  const std::complex<double> a = to_complex(left), b = to_complex(right);
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

}  // namespace

Number unary(UnaryOp op, const Number& value) {
  if (op == UnaryOp::logical_not) return !truth(value);
  if (is_int(value)) {
    const Int v = as_int(value);
    return op == UnaryOp::plus ? v : op == UnaryOp::minus ? -v : -v - 1;
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

namespace {

bool ordered(CompareOp op, std::partial_ordering order) {
  switch (op) {
    case CompareOp::less:
      return std::is_lt(order);
    case CompareOp::less_equal:
      return std::is_lteq(order);
    case CompareOp::greater:
      return std::is_gt(order);
    case CompareOp::greater_equal:
      return std::is_gteq(order);
    case CompareOp::equal:
      return std::is_eq(order);
    case CompareOp::not_equal:
      return std::is_neq(order);
  }
  return false;
}

std::partial_ordering reversed(std::partial_ordering order) {
  if (std::is_lt(order)) return std::partial_ordering::greater;
  return std::is_gt(order) ? std::partial_ordering::less : order;
}

// Python compares ints with floats by their values, not by what a float can hold of an int.
std::partial_ordering order(const Number& left, const Number& right) {
  const double* a = std::get_if<double>(&left);
  const double* b = std::get_if<double>(&right);
  if (a != nullptr && b != nullptr) return *a <=> *b;
  if (a != nullptr) return reversed(as_int(right) <=> *a);
  return b != nullptr ? as_int(left) <=> *b : std::partial_ordering(as_int(left) <=> as_int(right));
}

bool is_equal(const Number& left, const Number& right) {
  const auto parts = [](const Number& value) -> std::pair<Number, double> {
    const auto* c = std::get_if<std::complex<double>>(&value);
    return c != nullptr ? std::pair<Number, double>(c->real(), c->imag()) : std::pair<Number, double>(value, 0);
  };
  const auto [a, b] = parts(left);
  const auto [c, d] = parts(right);
  return b == d && std::is_eq(order(a, c));
}

}  // namespace

bool compare(CompareOp op, const Number& left, const Number& right) {
  if (op == CompareOp::equal) return is_equal(left, right);
  if (op == CompareOp::not_equal) return !is_equal(left, right);
  if (std::max(left.index(), right.index()) > 2) {
    throw TypeError(std::string("'") + symbol(op) + "' not supported between instances of '" + type_name(left) +
                    "' and '" + type_name(right) + "'");
  }
  return ordered(op, order(left, right));
}

bool truth(const Number& value) {
  return is_int(value) ? !as_int(value).is_zero() : to_complex(value) != std::complex<double>(0, 0);
}

const char* type_name(const Number& value) {
  static constexpr const char* kNames[] = {"bool", "int", "float", "complex"};
  return kNames[value.index()];
}

double to_float(const Number& value) {
  const double* d = std::get_if<double>(&value);
  return d != nullptr ? *d : as_int(value).as_double();
}
std::complex<double> to_complex(const Number& value) {
  const auto* c = std::get_if<std::complex<double>>(&value);
  return c != nullptr ? *c : std::complex<double>(to_float(value), 0);
}

Number absolute(const Number& value) {
  if (const auto* c = std::get_if<std::complex<double>>(&value)) return std::hypot(c->real(), c->imag());
  if (const double* d = std::get_if<double>(&value)) return std::abs(*d);
  const Int i = as_int(value);
  return i.is_negative() ? -i : i;
}

namespace {

// The inverse of a modulo m > 0, by Euclid's algorithm.
Int modular_inverse(const Int& a, const Int& m) {
  Int rest = m, next = a, result = 0, factor = 1;
  while (!next.is_zero()) {
    const Int quotient = Int::divide(rest, next).first;
    rest = std::exchange(next, rest - quotient * next);
    result = std::exchange(factor, result - quotient * factor);
  }
  if (rest != 1) throw InvalidArgument("base is not invertible for the given modulus");
  return Int::divide(result, m).second;
}

}  // namespace

Number power_modulo(const Number& base, const Number& exponent, const Number& modulus) {
  if (!is_int(base) || !is_int(exponent) || !is_int(modulus))
    throw TypeError("pow() 3rd argument not allowed unless all arguments are integers");
  const Int m = as_int(modulus), size = m.is_negative() ? -m : m;
  if (m.is_zero()) throw InvalidArgument("pow() 3rd argument cannot be 0");
  Int square = Int::divide(as_int(base), size).second, rest = as_int(exponent), result = Int::divide(1, size).second;
  if (rest.is_negative()) {
    square = modular_inverse(square, size);
    rest = -rest;
  }
  for (; !rest.is_zero(); rest = rest.shifted_right(1)) {
    if (rest.is_odd()) result = Int::divide(result * square, size).second;
    square = Int::divide(square * square, size).second;
  }
  return Int::divide(result, m).second;
}

namespace {

// To a multiple of 10^-digits, ties to even.
Int round_int(const Int& value, const Int& digits) {
  if (!digits.is_negative()) return value;
  if (value.bits() < (-digits).as_double()) return 0;  // less than half of the unit, which is more than 2^(3 digits)
  const Int unit = Int(10).power(-digits);
  auto [quotient, rest] = Int::divide(value, unit);
  const std::strong_ordering half = rest + rest <=> unit;
  if (std::is_gt(half) || (std::is_eq(half) && quotient.is_odd())) quotient = quotient + 1;
  return quotient * unit;
}

// The decimal text with so many digits, which the C library rounds correctly, read back.
double round_float(double value, const Int& digits) {
  if (!std::isfinite(value)) return value;
  constexpr int64_t kMost = 400;  // no double has a digit there
  const std::optional<int64_t> places = digits.as_int64();
  if (!digits.is_negative() && (!places || *places > kMost)) return value;
  if (!places || *places < -kMost) return std::copysign(0.0, value);
  if (*places < 0) {
    // A fraction decides between half of the unit and more than half.
    Int whole = Int::truncated(value);
    const Int unit = Int(10).power(-digits), rest = Int::divide(whole, unit).second;
    if (rest + rest == unit && value != std::trunc(value)) whole = whole + (value < 0 ? -1 : 1);
    return std::copysign(round_int(whole, digits).as_double(), value);
  }
  char text[kMost + 400];
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(*places), value);
  return std::strtod(text, nullptr);
}

}  // namespace

Number round(const Number& value, const std::optional<Int>& digits) {
  if (is_int(value)) return round_int(as_int(value), digits.value_or(0));
  const double* d = std::get_if<double>(&value);
  if (d == nullptr) throw TypeError("type complex doesn't define __round__ method");
  if (digits) return round_float(*d, *digits);
  if (!std::isfinite(*d)) return to_integer(value);
  return Int::truncated(std::nearbyint(*d));
}

Int to_integer(const Number& value) {
  if (is_int(value)) return as_int(value);
  const double* d = std::get_if<double>(&value);
  if (d == nullptr) throw TypeError("a complex does not convert to int");
  if (std::isnan(*d)) throw InvalidArgument("cannot convert float NaN to integer");
  if (std::isinf(*d)) throw InvalidArgument("cannot convert float infinity to integer");
  return Int::truncated(*d);
}

namespace {

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

// Without the single underscores between digits; nothing for others.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      result += text[i];
    } else if (i == 0 || i + 1 == text.size() || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0 ||
               std::isalnum(static_cast<unsigned char>(text[i + 1])) == 0) {
      return std::nullopt;
    }
  }
  return result;
}

// A float at the start of the text, without a sign or with one; how many characters it takes, 0 if there is none.
size_t read_float(std::string_view text, double& value) {
  std::string_view rest = text;
  const bool negative = take_sign(rest);
  const auto lower = [&](size_t i) { return std::tolower(static_cast<unsigned char>(rest[i])); };
  const auto is_word = [&](std::string_view word) {
    if (rest.size() < word.size()) return false;
    for (size_t i = 0; i < word.size(); ++i) {
      if (lower(i) != word[i]) return false;
    }
    return true;
  };
  size_t used = 0;
  for (const std::string_view word : {std::string_view("infinity"), std::string_view("inf"), std::string_view("nan")}) {
    if (used != 0 || !is_word(word)) continue;
    value = word == "nan" ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    used = word.size();
  }
  if (used == 0) {
    const bool digits = !rest.empty() && (std::isdigit(static_cast<unsigned char>(rest[0])) != 0 || rest[0] == '.');
    if (!digits) return 0;
    const std::string copy(rest);
    if (copy.size() > 1 && (copy[1] == 'x' || copy[1] == 'X')) return 0;  // hexadecimal is not Python's
    char* end = nullptr;
    value = std::strtod(copy.c_str(), &end);
    used = static_cast<size_t>(end - copy.c_str());
    if (used == 0) return 0;
  }
  if (negative) value = -value;
  return used + (text.size() - rest.size());
}

}  // namespace

Int parse_integer(const std::string& text, int base) {
  const auto fail = [&] {
    throw InvalidArgument("invalid literal for int() with base " + std::to_string(base) + ": " + repr(text));
  };
  if (base != 0 && (base < 2 || base > 36)) throw InvalidArgument("int() base must be >= 2 and <= 36, or 0");
  std::string_view rest = stripped(text);
  const bool negative = take_sign(rest);
  int used = base;
  if (rest.size() > 1 && rest[0] == '0') {
    const int prefix = std::tolower(static_cast<unsigned char>(rest[1]));
    const int named = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      used = named;
      rest.remove_prefix(rest.size() > 2 && rest[2] == '_' ? 3 : 2);
    }
  }
  const std::optional<std::string> digits = without_underscores(rest);
  if (!digits) fail();
  if (base == 0 && used == 0 && digits->size() > 1 && (*digits)[0] == '0' &&
      digits->find_first_not_of('0') != std::string::npos)
    fail();
  const std::optional<Int> value = Int::parse(*digits, used == 0 ? 10 : used);
  if (!value) fail();
  return negative ? -*value : *value;
}

double parse_float(const std::string& text) {
  const std::optional<std::string> plain = without_underscores(stripped(text));
  double value = 0;
  if (!plain || plain->empty() || read_float(*plain, value) != plain->size())
    throw InvalidArgument("could not convert string to float: " + repr(text));
  return value;
}

// "1", "2j", "1+2j", "(1-j)".
std::complex<double> parse_complex(const std::string& text) {
  const auto fail = [] { throw InvalidArgument("complex() arg is a malformed string"); };
  std::string_view inner = stripped(text);
  if (inner.size() > 1 && inner.front() == '(' && inner.back() == ')')
    inner = stripped(inner.substr(1, inner.size() - 2));
  const std::optional<std::string> plain = without_underscores(inner);
  if (!plain || plain->empty()) fail();
  std::string_view rest = *plain;
  // A number, or a sign alone before j.
  const auto part = [&](double& value) {
    const size_t used = read_float(rest, value);
    if (used > 0) {
      rest.remove_prefix(used);
      return true;
    }
    const bool negative = take_sign(rest);
    value = negative ? -1 : 1;
    return rest == "j" || rest == "J";
  };
  const auto take_j = [&] {
    if (rest != "j" && rest != "J") return false;
    rest = {};
    return true;
  };
  double first = 0, second = 0;
  if (!part(first)) fail();
  if (rest.empty()) return first;
  if (take_j()) return {0, first};
  if ((rest[0] != '+' && rest[0] != '-') || !part(second) || !take_j()) fail();
  return {first, second};
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
std::string repr(const Int& value) { return to_string(value); }
std::string repr(double value) { return shortest(value, /*point_zero=*/true); }

std::string repr(std::complex<double> value) {
  std::string imag = shortest(value.imag(), /*point_zero=*/false) + "j";
  if (value.real() == 0 && !std::signbit(value.real())) return imag;
  const bool sign = imag[0] != '-';
  return "(" + shortest(value.real(), /*point_zero=*/false) + (sign ? "+" : "") + imag + ")";
}

namespace {

// Of bytes, what is not ASCII is escaped too.
std::string quoted(const std::string& value, bool is_bytes) {
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
    } else if (u < 0x20 || u == 0x7f || (is_bytes && u > 0x7f)) {
      result += {'\\', 'x', kHex[u >> 4], kHex[u & 15]};
    } else {
      result += c;
    }
  }
  return result + quote;
}

}  // namespace

std::string repr(const std::string& value) { return quoted(value, /*is_bytes=*/false); }
std::string repr(const Bytes& value) { return "b" + quoted(value.text, /*is_bytes=*/true); }

std::string repr(const Number& value) {
  return std::visit([](const auto& v) { return repr(v); }, value);
}

}  // namespace quarry::apps::expression
