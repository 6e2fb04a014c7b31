// Element types, NumPy 2's promotion between them, and scalars.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "quarry/local/base/half.h"

namespace quarry::local {

enum class DType : uint8_t {
#define QUARRY_DTYPE(name, text, type, kind, compute) name,
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
};

namespace detail {

inline constexpr int kDTypeCount = 15;

template <DType>
struct dtype_traits;
template <class T>
struct dtype_of;
#define QUARRY_DTYPE(name_, text, type_, kind_, compute_) \
  template <>                                             \
  struct dtype_traits<DType::name_> {                     \
    using type = type_;                                   \
    using compute = compute_;                             \
    static constexpr const char* name = text;             \
    static constexpr char kind = #kind_[0];               \
  };                                                      \
  template <>                                             \
  struct dtype_of<type_> {                                \
    static constexpr DType value = DType::name_;          \
  };
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE

// What C++ programs write as a number.
template <class T>
concept Literal =
    std::is_arithmetic_v<T> || std::is_same_v<T, std::complex<double>> || std::is_same_v<T, std::complex<float>>;

DType real_type(DType dtype);  // complex64 -> float32, complex128 -> float64, others themselves
bool is_half(DType dtype);     // float16 or bfloat16
DType widened(DType dtype);    // float32 for these two, whose values are computed in it, others themselves

// Calls f.template operator()<T>() with the C++ type of `dtype`.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
#define QUARRY_DTYPE(name, text, type, kind, compute) \
  case DType::name:                                   \
    return f.template operator()<type>();
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
  }
  __builtin_unreachable();
}

}  // namespace detail

template <class T>
inline constexpr DType dtype_of_v = detail::dtype_of<T>::value;

int64_t itemsize(DType dtype);
const char* name(DType dtype);
char kind(DType dtype);        // 'b', 'i', 'u', 'f' or 'c', as NumPy's dtype.kind (bfloat16 is 'f')
bool is_integer(DType dtype);  // signed or unsigned, not bool
bool is_float(DType dtype);
bool is_complex(DType dtype);
// By NumPy's name ("float64", also the aliases "float", "int", "complex", "f8", "<f8" ...); nothing if unknown.
std::optional<DType> parse_dtype(std::string_view text);

enum class Casting : uint8_t { no, equiv, safe, same_kind, unsafe };
bool can_cast(DType from, DType to, Casting casting);
const char* name(Casting casting);

// A number with a dtype. A weak scalar is a C++ or Python literal: it adapts to the arrays it meets (NEP 50). A strong
// one has the dtype it names.
class Scalar {
 public:
  Scalar() = default;
  // Literals: bool, integers, floating point, complex. Weak.
  template <class T>
  requires std::is_arithmetic_v<T> Scalar(T value) : weak_(true) {
    if constexpr (std::is_same_v<T, bool>) {
      dtype_ = DType::bool_, int_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      dtype_ = std::is_unsigned_v<T> && static_cast<uint64_t>(value) > INT64_MAX ? DType::uint64 : DType::int64;
      int_ = static_cast<int64_t>(value);
    } else {
      dtype_ = DType::float64, real_ = static_cast<double>(value);
    }
  }
  Scalar(std::complex<double> value)
      : dtype_(DType::complex128), weak_(true), real_(value.real()), imag_(value.imag()) {}
  Scalar(std::complex<float> value) : Scalar(std::complex<double>(value)) {}
  // The value converted to `dtype` as NumPy's astype does; not weak.
  static Scalar strong(const Scalar& value, DType dtype);

  DType dtype() const { return dtype_; }
  bool weak() const { return weak_; }
  bool as_bool() const;
  int64_t as_int64() const;  // floats truncate; the bits of a uint64 above INT64_MAX
  uint64_t as_uint64() const;
  double as_double() const;  // the real part of a complex
  std::complex<double> as_complex() const;
  // As a C++ number, converted as NumPy's astype does.
  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, bool>)
      return as_bool();
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(std::is_unsigned_v<T> ? static_cast<int64_t>(as_uint64()) : as_int64());
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(as_double());
    else
      return static_cast<T>(as_complex());
  }
  // Writes itemsize(dtype) bytes, converted as NumPy's astype does.
  void store(DType dtype, void* out) const;
  static Scalar load(DType dtype, const void* in);  // not weak

 private:
  DType dtype_ = DType::int64;
  bool weak_ = true;
  int64_t int_ = 0;  // bool and integer values
  double real_ = 0, imag_ = 0;
};

// NumPy 2's promote_types. bfloat16 joins as ml_dtypes does: with float16 it gives float32, with integers what float16
// gives where that is no float16.
DType promote_types(DType a, DType b);

namespace detail {

// One operand of a promotion: an array's or strong scalar's dtype, or a weak literal's kind.
struct PromotionOperand {
  DType dtype;
  bool weak = false;
};
// Throws InvalidArgument (Python's OverflowError) when a weak integer literal does not fit the integer dtype it adapts
// to.
void check_weak_fits(const Scalar& value, DType dtype);

}  // namespace detail

// NumPy 2's result_type under NEP 50 (weak literals: bool < int < float < complex; alone they are bool, int64, float64,
// complex128).
DType result_type(std::span<const detail::PromotionOperand> operands);

}  // namespace quarry::local
