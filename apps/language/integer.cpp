// Schoolbook arithmetic on limbs: additions cost n, products and quotients n^2, text n^2.
#include "quarry/apps/language/integer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "quarry/local/base/error.h"

namespace quarry::apps::expression {

using local::InvalidArgument;

namespace {

using Limbs = std::vector<uint32_t>;
constexpr int kLimbBits = 32;

void trim(Limbs& limbs) {
  while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
}

int64_t bit_count(const Limbs& limbs) {
  if (limbs.empty()) return 0;
  return static_cast<int64_t>(limbs.size()) * kLimbBits - std::countl_zero(limbs.back());
}

void check_bits(int64_t bits) {
  if (bits <= Int::kMostBits) return;
  throw InvalidArgument("the integer result has more than " + std::to_string(Int::kMostBits) + " bits");
}

std::strong_ordering compare(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  return std::lexicographical_compare_three_way(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

Limbs add(const Limbs& a, const Limbs& b) {
  Limbs sum;
  uint64_t carry = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()) || carry != 0; ++i) {
    carry += (i < a.size() ? uint64_t{a[i]} : 0) + (i < b.size() ? b[i] : 0);
    sum.push_back(static_cast<uint32_t>(carry));
    carry >>= kLimbBits;
  }
  return sum;
}

// a - b for a >= b.
Limbs subtract(Limbs a, const Limbs& b) {
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t limb = int64_t{a[i]} - (i < b.size() ? int64_t{b[i]} : 0) + borrow;
    borrow = limb < 0 ? -1 : 0;
    a[i] = static_cast<uint32_t>(limb);
  }
  trim(a);
  return a;
}

Limbs multiply(const Limbs& a, const Limbs& b) {
  Limbs product(a.size() + b.size(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      carry += uint64_t{a[i]} * b[j] + product[i + j];
      product[i + j] = static_cast<uint32_t>(carry);
      carry >>= kLimbBits;
    }
    product[i + b.size()] = static_cast<uint32_t>(carry);
  }
  trim(product);
  return product;
}

Limbs shift_left(const Limbs& a, int64_t count) {
  if (a.empty()) return {};
  const auto whole = static_cast<size_t>(count / kLimbBits);
  const auto part = static_cast<unsigned>(count % kLimbBits);
  Limbs result(whole, 0);
  uint64_t carry = 0;
  for (const uint32_t limb : a) {
    carry |= uint64_t{limb} << part;
    result.push_back(static_cast<uint32_t>(carry));
    carry >>= kLimbBits;
  }
  result.push_back(static_cast<uint32_t>(carry));
  trim(result);
  return result;
}

// Rounded down; `lost` tells whether a bit that was set fell out.
Limbs shift_right(const Limbs& a, int64_t count, bool& lost) {
  const auto whole = std::min(static_cast<size_t>(count / kLimbBits), a.size());
  const auto part = static_cast<unsigned>(count % kLimbBits);
  lost = std::any_of(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(whole), [](uint32_t x) { return x != 0; });
  Limbs result;
  for (size_t i = whole; i < a.size(); ++i) {
    const uint64_t both = uint64_t{a[i]} | (i + 1 < a.size() ? uint64_t{a[i + 1]} << kLimbBits : 0);
    result.push_back(static_cast<uint32_t>(both >> part));
  }
  if (whole < a.size()) lost = lost || (a[whole] & ((uint64_t{1} << part) - 1)) != 0;
  trim(result);
  return result;
}

// Divides in place by a single limb; the remainder.
uint32_t divide_small(Limbs& a, uint32_t divisor) {
  uint64_t rest = 0;
  for (size_t i = a.size(); i-- > 0;) {
    rest = rest << kLimbBits | a[i];
    a[i] = static_cast<uint32_t>(rest / divisor);
    rest %= divisor;
  }
  trim(a);
  return static_cast<uint32_t>(rest);
}

// Quotient and remainder: Knuth, The Art of Computer Programming 2, 4.3.1, algorithm D.
std::pair<Limbs, Limbs> divide_limbs(const Limbs& a, const Limbs& b) {
  if (compare(a, b) < 0) return {Limbs(), a};
  if (b.size() == 1) {
    Limbs quotient = a;
    const uint32_t rest = divide_small(quotient, b[0]);
    return {quotient, rest == 0 ? Limbs() : Limbs{rest}};
  }
  // The divisor's highest bit is set, so that a guessed digit is at most two too large.
  const int scale = std::countl_zero(b.back());
  const Limbs divisor = shift_left(b, scale);
  Limbs rest = shift_left(a, scale);
  rest.resize(a.size() + 1, 0);
  const size_t n = divisor.size();
  Limbs quotient(rest.size() - n, 0);
  for (size_t j = quotient.size(); j-- > 0;) {
    const uint64_t top = uint64_t{rest[j + n]} << kLimbBits | rest[j + n - 1];
    uint64_t digit = top / divisor[n - 1], left = top % divisor[n - 1];
    while (left >> kLimbBits == 0 &&
           (digit >> kLimbBits != 0 || digit * divisor[n - 2] > (left << kLimbBits | rest[j + n - 2]))) {
      --digit;
      left += divisor[n - 1];
    }
    int64_t borrow = 0;
    uint64_t carry = 0;
    for (size_t i = 0; i < n; ++i) {
      carry += digit * divisor[i];
      const int64_t limb = int64_t{rest[i + j]} - static_cast<int64_t>(carry & UINT32_MAX) + borrow;
      rest[i + j] = static_cast<uint32_t>(limb);
      borrow = limb >> kLimbBits;
      carry >>= kLimbBits;
    }
    const int64_t limb = int64_t{rest[j + n]} - static_cast<int64_t>(carry) + borrow;
    rest[j + n] = static_cast<uint32_t>(limb);
    if (limb < 0) {  // one too large: add the divisor back
      --digit;
      uint64_t sum = 0;
      for (size_t i = 0; i < n; ++i) {
        sum += uint64_t{rest[i + j]} + divisor[i];
        rest[i + j] = static_cast<uint32_t>(sum);
        sum >>= kLimbBits;
      }
      rest[j + n] += static_cast<uint32_t>(sum);
    }
    quotient[j] = static_cast<uint32_t>(digit);
  }
  trim(quotient);
  trim(rest);
  bool lost = false;
  return {quotient, shift_right(rest, scale, lost)};
}

// magnitude * 2^exponent and, with `more`, a bit beyond its last one, to the nearest double, ties to even; infinity
// beyond the largest.
double rounded(const Limbs& magnitude, int64_t exponent, bool more) {
  const int64_t bits = bit_count(magnitude);
  constexpr int64_t kLeastExponent = -1074;  // of a subnormal's last bit
  const int64_t precision = std::min<int64_t>(std::numeric_limits<double>::digits, bits + exponent - kLeastExponent);
  if (bits + exponent > std::numeric_limits<double>::max_exponent) return std::numeric_limits<double>::infinity();
  if (precision < 0) return 0;
  const int64_t drop = bits - precision;
  bool below = false;
  Limbs kept = drop >= 1 ? shift_right(magnitude, drop - 1, below) : shift_left(magnitude, 1 - drop);
  below = below || more;  // beyond the bit that decides, which is the last one kept
  uint64_t value = 0;
  for (size_t i = kept.size(); i-- > 0;) value = value << kLimbBits | kept[i];
  const bool up = (value & 1) != 0 && (below || (value & 2) != 0);
  return std::ldexp(static_cast<double>((value >> 1) + (up ? 1 : 0)), static_cast<int>(exponent + drop));
}

}  // namespace

Int::Int(bool negative, uint64_t magnitude) {
  constexpr uint64_t kHigh = uint64_t{1} << 63;
  if (magnitude < kHigh || (negative && magnitude == kHigh)) {
    small_ = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  } else {
    large_ = std::make_shared<const Large>(
        Large{negative, {static_cast<uint32_t>(magnitude), static_cast<uint32_t>(magnitude >> kLimbBits)}});
  }
}

Int::Int(bool negative, Limbs limbs) {
  trim(limbs);
  check_bits(bit_count(limbs));
  if (limbs.size() <= 2) {
    uint64_t magnitude = 0;
    for (size_t i = limbs.size(); i-- > 0;) magnitude = magnitude << kLimbBits | limbs[i];
    *this = Int(negative, magnitude);
  } else {
    large_ = std::make_shared<const Large>(Large{negative, std::move(limbs)});
  }
}

Int::Limbs Int::limbs() const {
  if (large_) return large_->limbs;
  const uint64_t magnitude = small_ < 0 ? 0 - static_cast<uint64_t>(small_) : static_cast<uint64_t>(small_);
  Limbs limbs{static_cast<uint32_t>(magnitude), static_cast<uint32_t>(magnitude >> kLimbBits)};
  trim(limbs);
  return limbs;
}

std::optional<Int> Int::parse(std::string_view digits, int base) {
  if (digits.empty()) return std::nullopt;
  if (base == 10 && digits.size() > kMostDigits) {
    throw InvalidArgument("an integer of " + std::to_string(digits.size()) + " digits exceeds the limit of " +
                          std::to_string(kMostDigits));
  }
  Limbs limbs;
  for (const char c : digits) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 10
                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                             : base;
    if (digit >= base) return std::nullopt;
    auto carry = static_cast<uint64_t>(digit);
    for (uint32_t& limb : limbs) {
      carry += uint64_t{limb} * static_cast<uint64_t>(base);
      limb = static_cast<uint32_t>(carry);
      carry >>= kLimbBits;
    }
    if (carry != 0) limbs.push_back(static_cast<uint32_t>(carry));
    check_bits(bit_count(limbs));
  }
  return Int(false, std::move(limbs));
}

Int Int::truncated(double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::trunc(std::abs(value)), &exponent);
  constexpr int kDigits = std::numeric_limits<double>::digits;
  const auto whole = static_cast<uint64_t>(std::ldexp(fraction, kDigits));
  const Int magnitude(false, whole);
  const Int result =
      exponent >= kDigits ? magnitude.shifted_left(exponent - kDigits) : magnitude.shifted_right(kDigits - exponent);
  return value < 0 ? -result : result;
}

bool Int::is_negative() const { return large_ ? large_->negative : small_ < 0; }
bool Int::is_odd() const { return large_ ? (large_->limbs[0] & 1u) != 0 : (small_ & 1) != 0; }
int64_t Int::bits() const { return bit_count(limbs()); }

std::optional<int64_t> Int::as_int64() const {
  if (large_) return std::nullopt;
  return small_;
}

std::optional<uint64_t> Int::as_uint64() const {
  if (!large_) return small_ < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(small_));
  if (large_->negative || large_->limbs.size() > 2) return std::nullopt;
  return uint64_t{large_->limbs[1]} << kLimbBits | large_->limbs[0];
}

double Int::as_double() const {
  if (!large_) return static_cast<double>(small_);
  const double magnitude = rounded(large_->limbs, 0, false);
  if (std::isinf(magnitude)) throw InvalidArgument("int too large to convert to float");
  return large_->negative ? -magnitude : magnitude;
}

std::string Int::to_string() const {
  if (!large_) return std::to_string(small_);
  const auto too_long = [] {
    throw InvalidArgument("the integer has more than " + std::to_string(kMostDigits) + " digits, too many for text");
  };
  constexpr double kDigitsPerBit = 0.30103;  // a little above log10(2)
  if (static_cast<double>(bits() - 1) * 0.30102 > static_cast<double>(kMostDigits)) too_long();
  constexpr uint32_t kPart = 1'000'000'000;
  constexpr int kPartDigits = 9;
  std::string text;
  text.reserve(static_cast<size_t>(static_cast<double>(bits()) * kDigitsPerBit) + kPartDigits);
  for (Limbs rest = large_->limbs; !rest.empty();) {
    uint32_t part = divide_small(rest, kPart);
    for (int i = 0; i < kPartDigits && (part != 0 || !rest.empty()); ++i, part /= 10) {
      text += static_cast<char>('0' + part % 10);
    }
  }
  if (text.size() > kMostDigits) too_long();
  if (large_->negative) text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

Int Int::operator-() const { return Int(!is_negative(), limbs()); }

Int operator+(const Int& a, const Int& b) {
  int64_t sum = 0;
  if (!a.large_ && !b.large_ && !__builtin_add_overflow(a.small_, b.small_, &sum)) return sum;
  const Limbs x = a.limbs(), y = b.limbs();
  if (a.is_negative() == b.is_negative()) return Int(a.is_negative(), add(x, y));
  if (compare(x, y) >= 0) return Int(a.is_negative(), subtract(x, y));
  return Int(b.is_negative(), subtract(y, x));
}

Int operator*(const Int& a, const Int& b) {
  int64_t product = 0;
  if (!a.large_ && !b.large_ && !__builtin_mul_overflow(a.small_, b.small_, &product)) return product;
  check_bits(a.bits() + b.bits() - 1);
  return Int(a.is_negative() != b.is_negative(), multiply(a.limbs(), b.limbs()));
}

// In two's complement, with a limb for the sign.
Int bitwise(const Int& a, const Int& b, uint32_t (*combine)(uint32_t, uint32_t)) {
  const size_t size = std::max(a.limbs().size(), b.limbs().size()) + 1;
  const auto negated = [](Limbs& limbs) {
    uint64_t carry = 1;
    for (uint32_t& limb : limbs) {
      carry += static_cast<uint32_t>(~limb);
      limb = static_cast<uint32_t>(carry);
      carry >>= kLimbBits;
    }
  };
  const auto complement = [&](const Int& value) {
    Limbs limbs = value.limbs();
    limbs.resize(size, 0);
    if (value.is_negative()) negated(limbs);
    return limbs;
  };
  Limbs x = complement(a);
  const Limbs y = complement(b);
  for (size_t i = 0; i < size; ++i) x[i] = combine(x[i], y[i]);
  const bool negative = x.back() >> (kLimbBits - 1) != 0;
  if (negative) negated(x);
  return Int(negative, std::move(x));
}
Int operator&(const Int& a, const Int& b) {
  return bitwise(a, b, [](uint32_t x, uint32_t y) { return x & y; });
}
Int operator|(const Int& a, const Int& b) {
  return bitwise(a, b, [](uint32_t x, uint32_t y) { return x | y; });
}
Int operator^(const Int& a, const Int& b) {
  return bitwise(a, b, [](uint32_t x, uint32_t y) { return x ^ y; });
}

Int Int::shifted_left(const Int& count) const {
  if (is_zero()) return 0;
  const std::optional<int64_t> places = count.as_int64();
  check_bits(places && *places <= kMostBits ? bits() + *places : kMostBits + 1);
  return Int(is_negative(), shift_left(limbs(), *places));
}

Int Int::shifted_right(const Int& count) const {
  const std::optional<int64_t> places = count.as_int64();
  if (!places || *places >= bits()) return is_negative() ? -1 : 0;
  bool lost = false;
  const Int magnitude(false, shift_right(limbs(), *places, lost));
  if (!is_negative()) return magnitude;
  return -(magnitude + (lost ? 1 : 0));
}

Int Int::power(const Int& exponent) const {
  if (exponent.is_zero()) return 1;
  if (is_zero() || *this == 1) return *this;
  if (*this == -1) return exponent.is_odd() ? -1 : 1;
  const std::optional<int64_t> count = exponent.as_int64();
  check_bits(count && *count <= kMostBits ? (bits() - 1) * *count + 1 : kMostBits + 1);
  Int result = 1, square = *this;
  for (int64_t rest = *count;;) {
    if ((rest & 1) != 0) result = result * square;
    rest >>= 1;
    if (rest == 0) return result;
    square = square * square;
  }
}

std::pair<Int, Int> Int::divide(const Int& a, const Int& b) {
  auto [quotient, rest] = divide_limbs(a.limbs(), b.limbs());
  const bool opposite = a.is_negative() != b.is_negative();
  Int q(opposite, std::move(quotient)), r(a.is_negative(), std::move(rest));
  if (opposite && !r.is_zero()) return {q - 1, r + b};
  return {q, r};
}

double Int::true_divide(const Int& a, const Int& b) {
  if (a.is_zero()) return b.is_negative() ? -0.0 : 0.0;
  // A quotient of 64 or 65 bits and whether there is a remainder decide the rounding.
  constexpr int64_t kQuotientBits = 64;
  const int64_t shift = kQuotientBits - (a.bits() - b.bits());
  const auto [quotient, rest] = divide_limbs(shift > 0 ? shift_left(a.limbs(), shift) : a.limbs(),
                                             shift < 0 ? shift_left(b.limbs(), -shift) : b.limbs());
  const double magnitude = rounded(quotient, -shift, !rest.empty());
  if (std::isinf(magnitude)) throw InvalidArgument("integer division result too large for a float");
  return a.is_negative() != b.is_negative() ? -magnitude : magnitude;
}

std::strong_ordering operator<=>(const Int& a, const Int& b) {
  if (!a.large_ && !b.large_) return a.small_ <=> b.small_;
  if (a.is_negative() != b.is_negative()) return b.is_negative() <=> a.is_negative();
  return a.is_negative() ? compare(b.limbs(), a.limbs()) : compare(a.limbs(), b.limbs());
}

std::partial_ordering operator<=>(const Int& a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (std::isinf(b)) return b > 0 ? std::partial_ordering::less : std::partial_ordering::greater;
  const double whole = std::trunc(b);
  const std::strong_ordering order = a <=> Int::truncated(b);
  return order != 0 ? std::partial_ordering(order) : whole <=> b;
}

std::string to_string(const Int& value) { return value.to_string(); }

}  // namespace quarry::apps::expression
