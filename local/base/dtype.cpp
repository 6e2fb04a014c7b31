#include "quarry/local/base/dtype.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/dtype_text.h"
#include "quarry/local/base/error.h"

namespace quarry::local {
namespace {

struct DTypeRow {
  const char* name;
  char kind;
  int64_t itemsize;
};

constexpr std::array<DTypeRow, kDTypeCount> kRows = {{
#define QUARRY_DTYPE(name, text, type, kind, compute) {text, #kind[0], static_cast<int64_t>(sizeof(type))},
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
}};

const DTypeRow& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

DType signed_of_size(int64_t bytes) {
  return bytes == 1 ? DType::int8 : bytes == 2 ? DType::int16 : bytes == 4 ? DType::int32 : DType::int64;
}
DType complex_of_real(DType real) { return real == DType::float64 ? DType::complex128 : DType::complex64; }

// The smallest standard float that holds every value of an integer or bool type, as NumPy sees it.
DType float_for_integer(DType dtype) {
  const int64_t bytes = itemsize(dtype);
  return bytes == 1 ? DType::float16 : bytes == 2 ? DType::float32 : DType::float64;
}

int weak_rank(char kind_letter) {
  switch (kind_letter) {
    case 'b':
      return 0;
    case 'i':
    case 'u':
      return 1;
    case 'f':
      return 2;
    default:
      return 3;
  }
}

// Float to integer as astype() does on every device (local/program/op_functions.h): out of range it is the lowest
// number of 32 bits for narrow targets, else of 64; uint32 and uint64 convert their upper half apart.
int64_t float_to_int64(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? static_cast<int64_t>(value) : INT64_MIN;
}
uint64_t float_to_uint64(double value) {
  constexpr uint64_t kHigh = uint64_t{1} << 63;
  return value >= 0x1p63 ? static_cast<uint64_t>(float_to_int64(value - 0x1p63)) ^ kHigh
                         : static_cast<uint64_t>(float_to_int64(value));
}
int32_t float_to_int32(double value) {
  return value > -0x1p31 - 1 && value < 0x1p31 ? static_cast<int32_t>(value) : INT32_MIN;
}
template <class T>
T float_to_integer(double value) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    return float_to_uint64(value);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return float_to_int64(value);
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    constexpr uint32_t kHigh = uint32_t{1} << 31;
    return value >= 0x1p31 ? static_cast<uint32_t>(float_to_int32(value - 0x1p31)) ^ kHigh
                           : static_cast<uint32_t>(float_to_int32(value));
  } else {
    return static_cast<T>(float_to_int32(value));
  }
}

}  // namespace

int64_t itemsize(DType dtype) { return row(dtype).itemsize; }
const char* name(DType dtype) { return row(dtype).name; }
char kind(DType dtype) { return row(dtype).kind; }
bool is_integer(DType dtype) { return kind(dtype) == 'i' || kind(dtype) == 'u'; }
bool is_float(DType dtype) { return kind(dtype) == 'f'; }
bool is_complex(DType dtype) { return kind(dtype) == 'c'; }

DType detail::real_type(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  if (dtype == DType::complex128) return DType::float64;
  return dtype;
}

bool detail::is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
DType detail::widened(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

namespace {

constexpr DTypeAlias kAliases[] = {
    {"bool_", DType::bool_},        {"int", DType::int64},
    {"int_", DType::int64},         {"uint", DType::uint64},
    {"intp", DType::int64},         {"uintp", DType::uint64},
    {"byte", DType::int8},          {"ubyte", DType::uint8},
    {"short", DType::int16},        {"ushort", DType::uint16},
    {"intc", DType::int32},         {"uintc", DType::uint32},
    {"long", DType::int64},         {"ulong", DType::uint64},
    {"longlong", DType::int64},     {"ulonglong", DType::uint64},
    {"half", DType::float16},       {"single", DType::float32},
    {"float", DType::float64},      {"double", DType::float64},
    {"csingle", DType::complex64},  {"complex", DType::complex128},
    {"cdouble", DType::complex128}, {"b1", DType::bool_, true},
    {"?", DType::bool_, true},      {"i1", DType::int8, true},
    {"b", DType::int8, true},       {"i2", DType::int16, true},
    {"h", DType::int16, true},      {"i4", DType::int32, true},
    {"i", DType::int32, true},      {"i8", DType::int64, true},
    {"l", DType::int64, true},      {"q", DType::int64, true},
    {"p", DType::int64, true},      {"n", DType::int64, true},
    {"u1", DType::uint8, true},     {"B", DType::uint8, true},
    {"u2", DType::uint16, true},    {"H", DType::uint16, true},
    {"u4", DType::uint32, true},    {"I", DType::uint32, true},
    {"u8", DType::uint64, true},    {"L", DType::uint64, true},
    {"Q", DType::uint64, true},     {"P", DType::uint64, true},
    {"N", DType::uint64, true},     {"f2", DType::float16, true},
    {"e", DType::float16, true},    {"f4", DType::float32, true},
    {"f", DType::float32, true},    {"f8", DType::float64, true},
    {"d", DType::float64, true},    {"c8", DType::complex64, true},
    {"F", DType::complex64, true},  {"c16", DType::complex128, true},
    {"D", DType::complex128, true},
};

}  // namespace

std::span<const DTypeAlias> dtype_aliases() { return kAliases; }

char letter(DType dtype) {
  for (const DTypeAlias& alias : kAliases) {
    if (alias.is_code && alias.text.size() == 1 && alias.dtype == dtype) return alias.text[0];
  }
  return 'E';
}

std::optional<DTypeText> parse_dtype_text(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (text == kRows[static_cast<size_t>(i)].name) return DTypeText{static_cast<DType>(i)};
  const char order = text.empty() ? '\0' : text[0];
  const bool has_order = order == '<' || order == '>' || order == '=' || order == '|';
  if (has_order) text.remove_prefix(1);
  static_assert(std::endian::native == std::endian::little);
  for (const DTypeAlias& alias : kAliases) {
    if (text != alias.text || (has_order && !alias.is_code)) continue;
    return DTypeText{alias.dtype, order == '>' && itemsize(alias.dtype) > 1};
  }
  return std::nullopt;
}

std::optional<DType> parse_dtype(std::string_view text) {
  const std::optional<DTypeText> found = parse_dtype_text(text);
  if (!found || found->swapped) return std::nullopt;
  return found->dtype;
}

bool can_cast(DType from, DType to, Casting casting) {
  switch (casting) {
    case Casting::no:
    case Casting::equiv:
      return from == to;
    case Casting::safe:
      return promote_types(from, to) == to;
    case Casting::same_kind:
      return promote_types(from, to) == to || kind(from) == kind(to) ||
             (weak_rank(kind(from)) <= weak_rank(kind(to)) && !(kind(from) == 'i' && kind(to) == 'u'));
    case Casting::unsafe:
      return true;
  }
  return false;
}

const char* name(Casting casting) {
  switch (casting) {
    case Casting::no:
      return "no";
    case Casting::equiv:
      return "equiv";
    case Casting::safe:
      return "safe";
    case Casting::same_kind:
      return "same_kind";
    case Casting::unsafe:
      return "unsafe";
  }
  return "";
}

namespace {

DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (kind(a) == 'b') return b;
  if (kind(b) == 'b') return a;
  if (is_complex(a) || is_complex(b)) {
    const DType ra = is_complex(a) ? real_type(a) : a, rb = is_complex(b) ? real_type(b) : b;
    return complex_of_real(promoted(ra, promoted(rb, DType::float32)));
  }
  if (is_float(a) || is_float(b)) {
    if (!is_float(a)) std::swap(a, b);  // a is the float
    if (!is_float(b)) {
      const DType fb = float_for_integer(b);
      if (fb == DType::float16) return a;  // every float holds 8-bit integers
      return a == DType::bfloat16 || a == DType::float16 ? fb : promoted(a, fb);
    }
    if (itemsize(a) == itemsize(b)) return DType::float32;  // float16 with bfloat16
    return itemsize(a) > itemsize(b) ? a : b;
  }
  if (kind(a) == kind(b)) return itemsize(a) > itemsize(b) ? a : b;
  if (kind(a) == 'u') std::swap(a, b);  // a signed, b unsigned
  if (itemsize(a) > itemsize(b)) return a;
  return itemsize(b) == 8 ? DType::float64 : signed_of_size(2 * itemsize(b));
}

}  // namespace

// Type resolution tries loop after loop.
DType promote_types(DType a, DType b) {
  static const auto table = [] {
    std::array<std::array<DType, kDTypeCount>, kDTypeCount> every{};
    for (int i = 0; i < kDTypeCount; ++i)
      for (int j = 0; j < kDTypeCount; ++j)
        every[static_cast<size_t>(i)][static_cast<size_t>(j)] = promoted(static_cast<DType>(i), static_cast<DType>(j));
    return every;
  }();
  return table[static_cast<size_t>(a)][static_cast<size_t>(b)];
}

DType result_type(std::span<const PromotionOperand> operands) {
  QUARRY_CHECK(!operands.empty());
  std::optional<DType> strong;
  std::optional<DType> weak;
  for (const PromotionOperand& operand : operands) {
    if (operand.weak) {
      if (!weak || weak_rank(kind(operand.dtype)) > weak_rank(kind(*weak))) weak = operand.dtype;
    } else {
      strong = strong ? promote_types(*strong, operand.dtype) : operand.dtype;
    }
  }
  if (!strong) return *weak;
  if (!weak || weak_rank(kind(*weak)) <= weak_rank(kind(*strong))) return *strong;
  switch (kind(*weak)) {
    case 'i':
    case 'u':
      return DType::int64;  // only bool is below
    case 'f':
      return DType::float64;  // bool or integer with a float literal
    default:
      return is_float(*strong) ? complex_of_real(promote_types(*strong, DType::float32)) : DType::complex128;
  }
}

void detail::check_weak_fits(const Scalar& value, DType dtype) {
  if (!value.weak() || !is_integer(value.dtype()) || !is_integer(dtype)) return;
  const bool value_unsigned = value.dtype() == DType::uint64;
  const int bits = static_cast<int>(itemsize(dtype) * 8);
  bool fits;
  if (kind(dtype) == 'u') {
    fits =
        value_unsigned ? bits == 64 : value.as_int64() >= 0 && (bits == 64 || value.as_int64() < (int64_t{1} << bits));
  } else {
    fits = !value_unsigned && (bits == 64 || (value.as_int64() >= -(int64_t{1} << (bits - 1)) &&
                                              value.as_int64() < (int64_t{1} << (bits - 1))));
  }
  if (!fits) {
    throw InvalidArgument(fmt::format(
        "Python integer {} out of bounds for {}",
        value_unsigned ? fmt::format("{}", value.as_uint64()) : fmt::format("{}", value.as_int64()), name(dtype)));
  }
}

bool Scalar::as_bool() const {
  return is_integer(dtype_) || kind(dtype_) == 'b' ? int_ != 0 : real_ != 0 || imag_ != 0;
}
int64_t Scalar::as_int64() const { return is_integer(dtype_) || kind(dtype_) == 'b' ? int_ : float_to_int64(real_); }
uint64_t Scalar::as_uint64() const {
  return is_integer(dtype_) || kind(dtype_) == 'b' ? static_cast<uint64_t>(int_) : float_to_uint64(real_);
}
double Scalar::as_double() const {
  if (dtype_ == DType::uint64) return static_cast<double>(static_cast<uint64_t>(int_));
  return is_integer(dtype_) || kind(dtype_) == 'b' ? static_cast<double>(int_) : real_;
}
std::complex<double> Scalar::as_complex() const { return {as_double(), imag_}; }

void Scalar::store(DType dtype, void* out) const {
  dispatch(dtype, [&]<class T>() {
    T value;
    if constexpr (std::is_same_v<T, bool>) {
      value = as_bool();
    } else if constexpr (std::is_integral_v<T>) {
      value = is_integer(dtype_) || kind(dtype_) == 'b' ? static_cast<T>(static_cast<uint64_t>(int_))
                                                        : float_to_integer<T>(real_);
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(as_double());
    } else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      value = T(static_cast<float>(as_double()));
    } else {
      value = T(static_cast<typename T::value_type>(as_double()), static_cast<typename T::value_type>(imag_));
    }
    std::memcpy(out, &value, sizeof value);
  });
}

Scalar Scalar::load(DType dtype, const void* in) {
  Scalar s;
  s.dtype_ = dtype;
  s.weak_ = false;
  dispatch(dtype, [&]<class T>() {
    T value;
    std::memcpy(&value, in, sizeof value);
    if constexpr (std::is_integral_v<T>) {
      s.int_ = static_cast<int64_t>(value);
    } else if constexpr (requires { value.imag(); }) {
      s.real_ = value.real();
      s.imag_ = value.imag();
    } else {
      s.real_ = static_cast<double>(static_cast<float>(value));
      if constexpr (std::is_same_v<T, double>) s.real_ = value;
    }
  });
  return s;
}

Scalar Scalar::strong(const Scalar& value, DType dtype) {
  alignas(16) unsigned char bytes[16];
  value.store(dtype, bytes);
  return load(dtype, bytes);
}

}  // namespace quarry::local
