// Python's int: an integer of any size.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace quarry::apps::expression {

// Values within int64 are kept as such, others as numbers of GMP that copies share. Results of more than kMostBits bits
// throw InvalidArgument, so that no expression of a few characters takes minutes or all memory.
class Int {
 public:
  static constexpr int64_t kMostBits = int64_t{1} << 18;
  static constexpr size_t kMostDigits = 4300;  // of decimal text, read or written: Python's limit too

  Int() = default;
  template <std::integral T>
  Int(T value) : Int(value < 0, value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value)) {}
  // Digits of base 2 to 36 without a sign; nothing if it is anything else. Throws InvalidArgument for more than
  // kMostDigits decimal digits.
  static std::optional<Int> parse(std::string_view digits, int base);
  // A finite number without its fraction.
  static Int truncated(double value);

  bool is_negative() const;
  bool is_zero() const { return large_ == nullptr && small_ == 0; }
  bool is_odd() const;
  // The bits of the magnitude.
  int64_t bits() const;
  std::optional<int64_t> as_int64() const;  // nothing where it does not fit
  std::optional<uint64_t> as_uint64() const;
  bool fits_64_bits() const { return as_int64() || as_uint64(); }
  // The nearest double, ties to even. Throws InvalidArgument beyond the largest one, as Python's OverflowError.
  double as_double() const;
  std::string to_string() const;  // throws InvalidArgument for more than kMostDigits digits

  Int operator-() const;
  friend Int operator+(const Int& a, const Int& b);
  friend Int operator-(const Int& a, const Int& b) { return a + -b; }
  friend Int operator*(const Int& a, const Int& b);
  friend Int operator&(const Int& a, const Int& b);
  friend Int operator|(const Int& a, const Int& b);
  friend Int operator^(const Int& a, const Int& b);
  Int shifted_left(const Int& count) const;   // of a count that is not negative
  Int shifted_right(const Int& count) const;  // rounds down
  Int power(const Int& exponent) const;       // not negative
  // The quotient rounded down, and the remainder, which has the divisor's sign. The divisor is not 0.
  static std::pair<Int, Int> divide(const Int& a, const Int& b);
  // a / b, correctly rounded. Throws InvalidArgument beyond the largest double. The divisor is not 0.
  static double true_divide(const Int& a, const Int& b);

  friend bool operator==(const Int& a, const Int& b) { return std::is_eq(a <=> b); }
  friend std::strong_ordering operator<=>(const Int& a, const Int& b);
  // Exact; unordered for NaN.
  friend std::partial_ordering operator<=>(const Int& a, double b);

 private:
  struct Large;
  Int(bool negative, uint64_t magnitude);
  explicit Int(Large value);
  Large any() const;

  int64_t small_ = 0;
  std::shared_ptr<const Large> large_;  // where the value does not fit int64
};

std::string to_string(const Int& value);

}  // namespace quarry::apps::expression
