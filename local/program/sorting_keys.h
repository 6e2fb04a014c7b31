// Elements as unsigned integers in NumPy's order: what radix sorts work on. Host and device code.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define QUARRY_KEY_FUNCTION __host__ __device__ inline
#else
#define QUARRY_KEY_FUNCTION inline
#endif

namespace quarry::local::keys {

// Per class: encode() orders as the elements do and decode() inverts it; rank() is equal where the elements are.
template <class T>
struct UnsignedKey {
  using Bits = T;
  QUARRY_KEY_FUNCTION static Bits encode(Bits x) { return x; }
  QUARRY_KEY_FUNCTION static Bits decode(Bits key) { return key; }
  QUARRY_KEY_FUNCTION static Bits rank(Bits x) { return x; }
};

template <class T>
struct SignedKey {
  using Bits = T;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  QUARRY_KEY_FUNCTION static Bits encode(Bits x) { return static_cast<Bits>(x ^ kSign); }
  QUARRY_KEY_FUNCTION static Bits decode(Bits key) { return static_cast<Bits>(key ^ kSign); }
  QUARRY_KEY_FUNCTION static Bits rank(Bits x) { return encode(x); }
};

// `Infinity`: the bits of +inf. decode(encode(x)) of a NaN is a NaN without a sign.
template <class T, T Infinity>
struct FloatKey {
  using Bits = T;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  static constexpr Bits kInfinity = static_cast<Bits>(Infinity | kSign);  // key of +inf; above it only NaN
  static constexpr Bits kLast = static_cast<Bits>(~Bits{0});
  QUARRY_KEY_FUNCTION static bool is_nan(Bits x) { return static_cast<Bits>(x & ~kSign) > Infinity; }
  QUARRY_KEY_FUNCTION static Bits encode(Bits x) {
    const bool flip = (x & kSign) && !is_nan(x);
    return static_cast<Bits>(flip ? ~x : x | kSign);
  }
  QUARRY_KEY_FUNCTION static Bits decode(Bits key) { return static_cast<Bits>(key & kSign ? key & ~kSign : ~key); }
  QUARRY_KEY_FUNCTION static Bits rank(Bits x) {
    if (is_nan(x)) return kLast;
    return x == kSign ? kSign : encode(x);
  }
};

// One of the classes above, chosen at run time: for kernels compiled by the width of keys alone.
template <class T>
struct RuntimeKey {
  using Bits = T;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  Bits flip = 0;        // integers: what differs between element and key
  Bits infinity = 0;    // floats: the bits of +inf
  bool ranked = false;  // key() is rank(), else encode()
  QUARRY_KEY_FUNCTION Bits key(Bits x) const {
    if (infinity == 0) return static_cast<Bits>(x ^ flip);
    const bool nan = static_cast<Bits>(x & static_cast<Bits>(~kSign)) > infinity;
    if (ranked && nan) return static_cast<Bits>(~Bits{0});
    if (ranked && x == kSign) return kSign;
    return static_cast<Bits>((x & kSign) != 0 && !nan ? ~x : x | kSign);
  }
  QUARRY_KEY_FUNCTION Bits decode(Bits key) const {
    if (infinity == 0) return static_cast<Bits>(key ^ flip);
    return static_cast<Bits>((key & kSign) != 0 ? key & ~kSign : ~key);
  }
};

using Float16Key = FloatKey<uint16_t, 0x7c00>;
using BFloat16Key = FloatKey<uint16_t, 0x7f80>;
using Float32Key = FloatKey<uint32_t, 0x7f800000u>;
using Float64Key = FloatKey<uint64_t, 0x7ff0000000000000u>;

// Two words, the first one more significant, that rank complex numbers. Those with a NaN take values of the first word
// that no real part has.
template <class Part>
struct ComplexKey {
  using Bits = typename Part::Bits;
  struct Words {
    Bits high, low;
  };
  QUARRY_KEY_FUNCTION static Words rank(Bits real, Bits imag) {
    const bool no_real = Part::is_nan(real), no_imag = Part::is_nan(imag);
    if (no_real && no_imag) return {Part::kLast, Part::kLast};
    if (no_real) return {static_cast<Bits>(Part::kInfinity + 2), Part::rank(imag)};
    if (no_imag) return {static_cast<Bits>(Part::kInfinity + 1), Part::rank(real)};
    return {Part::rank(real), Part::rank(imag)};
  }
};

}  // namespace quarry::local::keys
