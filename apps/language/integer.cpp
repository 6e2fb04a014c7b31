// Over GMP: what does not fit int64 is an mpz_class.
#include "quarry/apps/language/integer.h"

#include <gmpxx.h>

#include <algorithm>
#include <cmath>

#include "quarry/local/base/error.h"

namespace quarry::apps::expression {

using local::InvalidArgument;

struct Int::Large {
  mpz_class value;
};

namespace {

int64_t bit_count(const mpz_class& value) {
  return value == 0 ? 0 : static_cast<int64_t>(mpz_sizeinbase(value.get_mpz_t(), 2));
}

void check_bits(int64_t bits) {
  if (bits <= Int::kMostBits) return;
  throw InvalidArgument("the integer result has more than " + std::to_string(Int::kMostBits) + " bits");
}

bool fits_int64(const mpz_class& value) { return value.fits_slong_p(); }
static_assert(sizeof(long) == sizeof(int64_t));

mpz_class shifted(const mpz_class& value, int64_t left) {
  return left >= 0 ? mpz_class(value << static_cast<mp_bitcnt_t>(left))
                   : mpz_class(value >> static_cast<mp_bitcnt_t>(-left));  // rounds down
}

// value * 2^exponent for a value >= 0 and, with `more`, a bit beyond its last one, to the nearest double, ties to even;
// infinity beyond the largest.
double rounded(const mpz_class& value, int64_t exponent, bool more) {
  const int64_t bits = bit_count(value);
  constexpr int64_t kLeastExponent = -1074;  // of a subnormal's last bit
  const int64_t precision = std::min<int64_t>(std::numeric_limits<double>::digits, bits + exponent - kLeastExponent);
  if (bits + exponent > std::numeric_limits<double>::max_exponent) return std::numeric_limits<double>::infinity();
  if (precision < 0) return 0;
  const int64_t drop = bits - precision;
  const mpz_class kept = shifted(value, 1 - drop);  // the last bit of it decides
  const bool below = more || (drop > 1 && shifted(kept, drop - 1) != value);
  const uint64_t word = kept.get_ui();
  const bool up = (word & 1) != 0 && (below || (word & 2) != 0);
  return std::ldexp(static_cast<double>((word >> 1) + (up ? 1 : 0)), static_cast<int>(exponent + drop));
}

}  // namespace

Int::Int(bool negative, uint64_t magnitude) {
  constexpr uint64_t kHigh = uint64_t{1} << 63;
  if (magnitude < kHigh || (negative && magnitude == kHigh)) {
    small_ = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  } else {
    mpz_class value(magnitude);
    if (negative) value = -value;
    large_ = std::make_shared<const Large>(Large{std::move(value)});
  }
}

Int::Int(Large value) {
  check_bits(bit_count(value.value));
  if (fits_int64(value.value))
    small_ = value.value.get_si();
  else
    large_ = std::make_shared<const Large>(std::move(value));
}

Int::Large Int::any() const { return large_ ? *large_ : Large{mpz_class(small_)}; }

std::optional<Int> Int::parse(std::string_view digits, int base) {
  if (digits.empty()) return std::nullopt;
  if (base == 10 && digits.size() > kMostDigits) {
    throw InvalidArgument("an integer of " + std::to_string(digits.size()) + " digits exceeds the limit of " +
                          std::to_string(kMostDigits));
  }
  for (const char c : digits) {  // GMP skips spaces
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 10
                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                             : base;
    if (digit >= base) return std::nullopt;
  }
  return Int(Large{mpz_class(std::string(digits), base)});
}

Int Int::truncated(double value) { return Int(Large{mpz_class(value)}); }

bool Int::is_negative() const { return large_ ? large_->value < 0 : small_ < 0; }
bool Int::is_odd() const { return large_ ? mpz_odd_p(large_->value.get_mpz_t()) != 0 : (small_ & 1) != 0; }
int64_t Int::bits() const { return bit_count(any().value); }

std::optional<int64_t> Int::as_int64() const {
  if (large_) return std::nullopt;
  return small_;
}

std::optional<uint64_t> Int::as_uint64() const {
  if (!large_) return small_ < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(small_));
  if (!large_->value.fits_ulong_p()) return std::nullopt;
  return large_->value.get_ui();
}

double Int::as_double() const {
  if (!large_) return static_cast<double>(small_);
  const double magnitude = rounded(abs(large_->value), 0, false);
  if (std::isinf(magnitude)) throw InvalidArgument("int too large to convert to float");
  return is_negative() ? -magnitude : magnitude;
}

std::string Int::to_string() const {
  if (!large_) return std::to_string(small_);
  std::string text = large_->value.get_str();
  if (text.size() - (is_negative() ? 1 : 0) > kMostDigits) {
    throw InvalidArgument("the integer has more than " + std::to_string(kMostDigits) + " digits, too many for text");
  }
  return text;
}

Int Int::operator-() const { return Int(Large{-any().value}); }

Int operator+(const Int& a, const Int& b) {
  int64_t sum = 0;
  if (!a.large_ && !b.large_ && !__builtin_add_overflow(a.small_, b.small_, &sum)) return sum;
  return Int(Int::Large{a.any().value + b.any().value});
}

Int operator*(const Int& a, const Int& b) {
  int64_t product = 0;
  if (!a.large_ && !b.large_ && !__builtin_mul_overflow(a.small_, b.small_, &product)) return product;
  check_bits(a.bits() + b.bits() - 1);
  return Int(Int::Large{a.any().value * b.any().value});
}

// Of two's complements.
Int operator&(const Int& a, const Int& b) { return Int(Int::Large{a.any().value & b.any().value}); }
Int operator|(const Int& a, const Int& b) { return Int(Int::Large{a.any().value | b.any().value}); }
Int operator^(const Int& a, const Int& b) { return Int(Int::Large{a.any().value ^ b.any().value}); }

Int Int::shifted_left(const Int& count) const {
  if (is_zero()) return 0;
  const std::optional<int64_t> places = count.as_int64();
  check_bits(places && *places <= kMostBits ? bits() + *places : kMostBits + 1);
  return Int(Large{shifted(any().value, *places)});
}

Int Int::shifted_right(const Int& count) const {
  const std::optional<int64_t> places = count.as_int64();
  if (!places || *places >= bits()) return is_negative() ? -1 : 0;
  return Int(Large{shifted(any().value, -*places)});
}

Int Int::power(const Int& exponent) const {
  if (exponent.is_zero()) return 1;
  if (is_zero() || *this == 1) return *this;
  if (*this == -1) return exponent.is_odd() ? -1 : 1;
  const std::optional<int64_t> count = exponent.as_int64();
  check_bits(count && *count <= kMostBits ? (bits() - 1) * *count + 1 : kMostBits + 1);
  mpz_class result;
  mpz_pow_ui(result.get_mpz_t(), any().value.get_mpz_t(), static_cast<unsigned long>(*count));
  return Int(Large{std::move(result)});
}

std::pair<Int, Int> Int::divide(const Int& a, const Int& b) {
  mpz_class quotient, rest;
  mpz_fdiv_qr(quotient.get_mpz_t(), rest.get_mpz_t(), a.any().value.get_mpz_t(), b.any().value.get_mpz_t());
  return {Int(Large{std::move(quotient)}), Int(Large{std::move(rest)})};
}

double Int::true_divide(const Int& a, const Int& b) {
  if (a.is_zero()) return b.is_negative() ? -0.0 : 0.0;
  // A quotient of 64 or 65 bits and whether there is a remainder decide the rounding.
  constexpr int64_t kQuotientBits = 64;
  const int64_t shift = kQuotientBits - (a.bits() - b.bits());
  const mpz_class dividend = shifted(abs(a.any().value), std::max<int64_t>(shift, 0));
  const mpz_class divisor = shifted(abs(b.any().value), std::max<int64_t>(-shift, 0));
  mpz_class quotient, rest;
  mpz_fdiv_qr(quotient.get_mpz_t(), rest.get_mpz_t(), dividend.get_mpz_t(), divisor.get_mpz_t());
  const double magnitude = rounded(quotient, -shift, rest != 0);
  if (std::isinf(magnitude)) throw InvalidArgument("integer division result too large for a float");
  return a.is_negative() != b.is_negative() ? -magnitude : magnitude;
}

std::strong_ordering operator<=>(const Int& a, const Int& b) {
  if (!a.large_ && !b.large_) return a.small_ <=> b.small_;
  return cmp(a.any().value, b.any().value) <=> 0;
}

std::partial_ordering operator<=>(const Int& a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (std::isinf(b)) return b > 0 ? std::partial_ordering::less : std::partial_ordering::greater;
  return cmp(a.any().value, b) <=> 0;
}

std::string to_string(const Int& value) { return value.to_string(); }

}  // namespace quarry::apps::expression
