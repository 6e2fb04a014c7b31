// Of every type: formats, classification, casts, byte order, truth, comparison, selection.
namespace quarry::local {

// Layout of std::complex<T>.
template <class T>
struct cx {
  T re, im;
};

}  // namespace quarry::local
namespace quarry::local::fn {

template <class T>
struct traits {  // floats and complex have none
  static constexpr bool integer = false;
};
#define QUARRY_INTEGER(T, U, is_signed_, bits_)                                          \
  template <>                                                                            \
  struct traits<T> {                                                                     \
    static constexpr bool integer = true;                                                \
    static constexpr bool is_signed = is_signed_;                                        \
    static constexpr int bits = bits_;                                                   \
    using unsigned_type = U;                                                             \
    static constexpr T lowest = static_cast<T>(is_signed_ ? U(1) << (bits_ - 1) : U(0)); \
  };
QUARRY_INTEGER(int8_t, uint8_t, true, 8)
QUARRY_INTEGER(int16_t, uint16_t, true, 16)
QUARRY_INTEGER(int32_t, uint32_t, true, 32)
QUARRY_INTEGER(int64_t, uint64_t, true, 64)
QUARRY_INTEGER(uint8_t, uint8_t, false, 8)
QUARRY_INTEGER(uint16_t, uint16_t, false, 16)
QUARRY_INTEGER(uint32_t, uint32_t, false, 32)
QUARRY_INTEGER(uint64_t, uint64_t, false, 64)
#undef QUARRY_INTEGER
template <class T>
concept Integer = traits<T>::integer;
template <class T>
concept Signed = Integer<T> && traits<T>::is_signed;
template <class A, class B>
inline constexpr bool same_type = false;
template <class A>
inline constexpr bool same_type<A, A> = true;
template <class T>
concept Real = same_type<T, float> || same_type<T, double>;
template <class T>
concept Bool = same_type<T, bool>;
template <class T>
concept Half = same_type<T, float16> || same_type<T, bfloat16>;
template <class T>
using unsigned_of = typename traits<T>::unsigned_type;

template <Real T>
struct real_format;
template <>
struct real_format<float> {
  using bits = uint32_t;
  using sint = int32_t;
  static constexpr int mantissa = 23, exponent_bias = 127;
  static constexpr uint32_t infinity = 0x7f800000u;
};
template <>
struct real_format<double> {
  using bits = uint64_t;
  using sint = int64_t;
  static constexpr int mantissa = 52, exponent_bias = 1023;
  static constexpr uint64_t infinity = 0x7ff0000000000000ull;
};
template <Real T>
QUARRY_FN T infinity() {
  return QUARRY_BIT_CAST(T, real_format<T>::infinity);
}
template <Real T>
QUARRY_FN T quiet_nan() {
  return QUARRY_BIT_CAST(T, real_format<T>::infinity | (real_format<T>::infinity >> 1));
}
template <Real T>
QUARRY_FN typename real_format<T>::bits magnitude_bits(T x) {
  return QUARRY_BIT_CAST(typename real_format<T>::bits, x) & ~(typename real_format<T>::bits(1) << (sizeof(T) * 8 - 1));
}

// ---- Classification ----

template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN bool isnan(T) { return false; }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN bool isinf(T) { return false; }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN bool isfinite(T) { return true; }
template <Real T>
QUARRY_FN bool isnan(T x) {
  return x != x;
}
template <Real T>
QUARRY_FN bool isinf(T x) {
  return magnitude_bits(x) == real_format<T>::infinity;
}
template <Real T>
QUARRY_FN bool isfinite(T x) {
  return magnitude_bits(x) < real_format<T>::infinity;
}
template <Real T>
QUARRY_FN bool signbit(T x) {
  return QUARRY_BIT_CAST(typename real_format<T>::sint, x) < 0;
}
template <class T>
QUARRY_FN bool isnan(cx<T> x) {
  return x.re != x.re || x.im != x.im;
}
template <class T>
QUARRY_FN bool isinf(cx<T> x) {
  return isinf(x.re) || isinf(x.im);
}
template <class T>
QUARRY_FN bool isfinite(cx<T> x) {
  return isfinite(x.re) && isfinite(x.im);
}

// ---- Casts ----

template <class T>
QUARRY_FN T identity(T x) {
  return x;
}

// Rounds to odd, so that rounding again to a narrower format is as rounding once.
QUARRY_FN float round_to_odd(double x) {
  const float f = static_cast<float>(x);
  const double back = static_cast<double>(f);
  if (back == x || x != x) return f;
  uint32_t bits = QUARRY_BIT_CAST(uint32_t, f);
  const bool away = (x < 0 ? -back : back) > (x < 0 ? -x : x);
  bits -= away ? 1u : 0u;
  return QUARRY_BIT_CAST(float, bits | 1u);
}

// Out of range: the lowest value of a signed conversion of 32 bits (targets of up to 32) or 64, of which narrower
// targets keep the low bits; uint32 and uint64 convert their upper half apart. As NumPy on x86-64.
template <Real S>
QUARRY_FN int32_t to_int32(S x) {
  return x > S(-2147483649.0) && x >= S(-2147483648.0) && x < S(2147483648.0) ? static_cast<int32_t>(x)
         : sizeof(S) == 8 && x > S(-2147483649.0) && x < S(2147483648.0)      ? static_cast<int32_t>(x)
                                                                              : static_cast<int32_t>(0x80000000u);
}
template <Real S>
QUARRY_FN int64_t to_int64(S x) {
  return x >= S(-9223372036854775808.0) && x < S(9223372036854775808.0) ? static_cast<int64_t>(x)
                                                                        : static_cast<int64_t>(0x8000000000000000ull);
}

// astype(S -> T). Half formats convert as their float value; T and S are storage types otherwise.
template <class T>
struct convert {
  template <Bool S>
  QUARRY_FN T from(S x) {
    return static_cast<T>(x ? 1 : 0);
  }
  template <Integer S>
  QUARRY_FN T from(S x) {
    return static_cast<T>(x);
  }
  template <Real S>
  QUARRY_FN T from(S x) {
    if constexpr (Integer<T>) {
      if constexpr (same_type<T, uint64_t>) {
        constexpr S half = S(9223372036854775808.0);
        return x >= half ? static_cast<uint64_t>(to_int64(x - half)) ^ 0x8000000000000000ull
                         : static_cast<uint64_t>(to_int64(x));
      } else if constexpr (same_type<T, uint32_t>) {
        constexpr S half = S(2147483648.0);
        return x >= half ? static_cast<uint32_t>(to_int32(x - half)) ^ 0x80000000u : static_cast<uint32_t>(to_int32(x));
      } else if constexpr (same_type<T, int64_t>) {
        return to_int64(x);
      } else {
        return static_cast<T>(to_int32(x));
      }
    } else {
      return static_cast<T>(x);
    }
  }
  template <Half S>
  QUARRY_FN T from(S x) {
    return from(static_cast<float>(x));
  }
  template <class S>
  QUARRY_FN T from(cx<S> x) {
    return from(x.re);
  }
};
template <>
struct convert<bool> {
  template <class S>
  QUARRY_FN bool from(S x) {
    if constexpr (Half<S>)
      return static_cast<float>(x) != 0.0f;
    else
      return x != S(0);
  }
  template <class S>
  QUARRY_FN bool from(cx<S> x) {
    return x.re != 0 || x.im != 0;
  }
};
template <Half T>
struct convert<T> {
  template <class S>
  QUARRY_FN T from(S x) {
    if constexpr (same_type<S, T>)
      return x;
    else if constexpr (same_type<S, double> && same_type<T, float16>)
      return T(round_to_odd(x));
    else if constexpr (Bool<S>)
      return T(x ? 1.0f : 0.0f);
    else
      return T(static_cast<float>(x));
  }
  template <class S>
  QUARRY_FN T from(cx<S> x) {
    return from(x.re);
  }
};
template <class R>
struct convert<cx<R>> {
  template <class S>
  QUARRY_FN cx<R> from(S x) {
    return {convert<R>::from(x), R(0)};
  }
  template <class S>
  QUARRY_FN cx<R> from(cx<S> x) {
    return {static_cast<R>(x.re), static_cast<R>(x.im)};
  }
};

// Byte order.
QUARRY_FN uint16_t byte_swap(uint16_t x) { return static_cast<uint16_t>((x << 8) | (x >> 8)); }
QUARRY_FN uint32_t byte_swap(uint32_t x) { return (x << 24) | ((x & 0xff00u) << 8) | ((x >> 8) & 0xff00u) | (x >> 24); }
QUARRY_FN uint64_t byte_swap(uint64_t x) {
  return (uint64_t(byte_swap(static_cast<uint32_t>(x))) << 32) | byte_swap(static_cast<uint32_t>(x >> 32));
}

// ---- Truth and comparison ----

template <class T>
QUARRY_FN bool truth(T x) {
  return convert<bool>::from(x);
}
template <class T>
QUARRY_FN bool logical_and(T x, T y) {
  return static_cast<bool>(truth(x) & truth(y));
}
template <class T>
QUARRY_FN bool logical_or(T x, T y) {
  return static_cast<bool>(truth(x) | truth(y));
}
template <class T>
QUARRY_FN bool logical_xor(T x, T y) {
  return truth(x) != truth(y);
}
template <class T>
QUARRY_FN bool logical_not(T x) {
  return !truth(x);
}

template <class T>
QUARRY_FN bool equal(T x, T y) {
  return x == y;
}
template <class T>
QUARRY_FN bool not_equal(T x, T y) {
  return x != y;
}
template <class T>
QUARRY_FN bool less(T x, T y) {
  return x < y;
}
template <class T>
QUARRY_FN bool less_equal(T x, T y) {
  return x <= y;
}
// Mixed signs compare by value.
QUARRY_FN bool equal(int64_t x, uint64_t y) { return x >= 0 && static_cast<uint64_t>(x) == y; }
QUARRY_FN bool equal(uint64_t x, int64_t y) { return equal(y, x); }
QUARRY_FN bool not_equal(int64_t x, uint64_t y) { return !equal(x, y); }
QUARRY_FN bool not_equal(uint64_t x, int64_t y) { return !equal(y, x); }
QUARRY_FN bool less(int64_t x, uint64_t y) { return x < 0 || static_cast<uint64_t>(x) < y; }
QUARRY_FN bool less(uint64_t x, int64_t y) { return y >= 0 && x < static_cast<uint64_t>(y); }
QUARRY_FN bool less_equal(int64_t x, uint64_t y) { return !less(y, x); }
QUARRY_FN bool less_equal(uint64_t x, int64_t y) { return !less(y, x); }
// Complex numbers in lexicographic order; a NaN in either imaginary part makes unequal real parts incomparable.
template <class T>
QUARRY_FN bool equal(cx<T> x, cx<T> y) {
  return x.re == y.re && x.im == y.im;
}
template <class T>
QUARRY_FN bool not_equal(cx<T> x, cx<T> y) {
  return x.re != y.re || x.im != y.im;
}
template <class T>
QUARRY_FN bool less(cx<T> x, cx<T> y) {
  return (x.re < y.re && !isnan(x.im) && !isnan(y.im)) || (x.re == y.re && x.im < y.im);
}
template <class T>
QUARRY_FN bool less_equal(cx<T> x, cx<T> y) {
  return (x.re < y.re && !isnan(x.im) && !isnan(y.im)) || (x.re == y.re && x.im <= y.im);
}

// Propagate NaN, the first one.
template <class T>
QUARRY_FN T maximum(T x, T y) {
  return less_equal(y, x) || isnan(x) ? x : y;
}
template <class T>
QUARRY_FN T minimum(T x, T y) {
  return less_equal(x, y) || isnan(x) ? x : y;
}
template <class T>
QUARRY_FN T fmax(T x, T y) {
  return less_equal(y, x) || isnan(y) ? x : y;
}
template <class T>
QUARRY_FN T fmin(T x, T y) {
  return less_equal(x, y) || isnan(y) ? x : y;
}
template <class T>
QUARRY_FN T clip(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}
template <class T>
QUARRY_FN T where(bool condition, T x, T y) {
  return condition ? x : y;
}

}  // namespace quarry::local::fn
