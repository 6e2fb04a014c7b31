#include "quarry/io/hdf5/parse/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace quarry::io::hdf5 {
namespace {

constexpr int64_t kMaxElements = 4096;  // of an attribute's array
constexpr int64_t kMaxText = 1 << 20;

// `count` bits from bit `first` on, of bytes from the lowest.
uint64_t bits_of(std::span<const std::byte> bytes, int64_t first, int64_t count) {
  uint64_t value = 0;
  for (int64_t i = 0; i < std::min<int64_t>(count, 64); ++i) {
    const int64_t bit = first + i;
    const auto byte = std::to_integer<uint64_t>(bytes[static_cast<size_t>(bit / 8)]);
    value |= (byte >> bit % 8 & 1) << i;
  }
  return value;
}

// From the lowest byte on.
std::vector<std::byte> in_order(const Type& type, std::span<const std::byte> bytes) {
  std::vector<std::byte> out(bytes.begin(), bytes.end());
  if (type.order == Type::Order::big) std::ranges::reverse(out);
  return out;
}

struct Integer {
  uint64_t bits;
  bool is_signed;
  int64_t value() const { return static_cast<int64_t>(bits); }
  double real() const { return is_signed ? static_cast<double>(value()) : static_cast<double>(bits); }
};

Integer integer(const Type& type, std::span<const std::byte> bytes) {
  const auto ordered = in_order(type, bytes);
  uint64_t value = bits_of(ordered, type.offset, type.precision);
  if (type.is_signed && type.precision < 64 && (value >> (type.precision - 1) & 1) != 0)
    value |= ~uint64_t{0} << type.precision;
  return {value, type.is_signed};
}

double real(const Type& type, std::span<const std::byte> bytes) {
  const auto ordered = in_order(type, bytes);
  const auto exponent =
      static_cast<int64_t>(bits_of(ordered, type.exponent, std::min<int64_t>(type.exponent_bits, 32)));
  const bool negative = bits_of(ordered, type.sign, 1) != 0;
  // Of more than 64 bits, the highest.
  const int64_t taken = std::min<int64_t>(type.mantissa_bits, 64);
  const uint64_t fraction = bits_of(ordered, type.mantissa + type.mantissa_bits - taken, taken);
  const int64_t top = (int64_t{1} << std::min<int64_t>(type.exponent_bits, 32)) - 1;
  const auto fraction_value = std::ldexp(static_cast<long double>(fraction), -static_cast<int>(taken));
  long double value = 0;
  if (exponent == top) {
    const bool infinite = type.implied || taken < 2 ? fraction == 0 : (fraction << (65 - taken)) == 0;
    value = infinite ? std::numeric_limits<long double>::infinity() : std::numeric_limits<long double>::quiet_NaN();
  } else {
    constexpr int64_t kFar = 1 << 20;
    const int64_t power = std::clamp(std::max<int64_t>(exponent, 1) - type.bias, -kFar, kFar);
    const long double whole = type.implied ? (exponent > 0 ? 1 : 0) + fraction_value : 2 * fraction_value;
    value = std::ldexp(whole, static_cast<int>(power));
  }
  return static_cast<double>(negative ? -value : value);
}

std::optional<std::string> text(const Metadata& file, const Type& type, std::span<const std::byte> bytes) {
  if (type.kind == Type::Kind::text) {
    if (type.bytes > kMaxText) return std::nullopt;
    return fixed_text(bytes, type.padding);
  }
  Cursor in(bytes, "a text of variable length");
  const int64_t length = in.u32(), collection = in.address(file.format());
  const unsigned index = in.u32();
  if (length == 0 || collection == kNoAddress || collection == file.format().base) return std::string();
  if (length > kMaxText) return std::nullopt;
  return fixed_text(file.global_heap().object(collection, index, static_cast<uint64_t>(length)),
                    Type::Padding::terminator);
}

}  // namespace

std::string fixed_text(std::span<const std::byte> bytes, Type::Padding padding) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.resize(std::min(text.size(), text.find('\0')));
  if (padding == Type::Padding::spaces) text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::optional<Attribute> read_attribute_value(const Metadata& file, const Type& type, int64_t elements, bool is_scalar,
                                              std::span<const std::byte> bytes) {
  using Kind = Type::Kind;
  if (elements > kMaxElements) return std::nullopt;
  if (type.is_text) {
    if (is_scalar || elements == 1) return text(file, type, bytes);
    std::vector<std::string> texts;
    int64_t left = file.bytes().size();  // each is in it once
    for (int64_t i = 0; i < elements; ++i) {
      const auto item = static_cast<size_t>(type.bytes);
      std::optional<std::string> one = text(file, type, bytes.subspan(static_cast<size_t>(i) * item, item));
      if (!one) return std::nullopt;
      left -= std::ssize(*one);
      if (left < 0) damaged("the texts of an attribute are longer than the file");
      texts.push_back(std::move(*one));
    }
    return texts;
  }
  const bool is_integer = type.kind == Kind::integer;
  if (!is_integer && (type.kind != Kind::real || type.order == Type::Order::other)) return std::nullopt;
  if (is_integer && type.precision > 64) return std::nullopt;
  const auto item = static_cast<size_t>(type.bytes);
  const bool one = is_scalar || elements == 1;
  if (one && is_integer) {
    const Integer value = integer(type, bytes.first(item));
    if (value.is_signed || value.value() >= 0) return value.value();
  }
  std::vector<double> values;
  for (int64_t i = 0; i < elements; ++i) {
    const auto element = bytes.subspan(static_cast<size_t>(i) * item, item);
    values.push_back(is_integer ? integer(type, element).real() : real(type, element));
  }
  if (one) return values.at(0);
  return values;
}

}  // namespace quarry::io::hdf5
