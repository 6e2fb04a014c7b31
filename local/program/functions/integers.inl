// Integers and bool: overflow wraps.
namespace quarry::local::fn {

template <Bool T>
QUARRY_FN bool add(T x, T y) {
  return static_cast<bool>(x | y);
}
template <Bool T>
QUARRY_FN bool multiply(T x, T y) {
  return static_cast<bool>(x & y);
}
template <Bool T>
QUARRY_FN bool absolute(T x) {
  return x;
}
// 64-bit unsigned arithmetic never overflows by promotion to int.
template <Integer T>
using wide_of = unsigned_of<T>;
template <Integer T>
QUARRY_FN T add(T x, T y) {
  return static_cast<T>(static_cast<unsigned_of<T>>(x) + static_cast<unsigned_of<T>>(y));
}
template <Integer T>
QUARRY_FN T subtract(T x, T y) {
  return static_cast<T>(static_cast<unsigned_of<T>>(x) - static_cast<unsigned_of<T>>(y));
}
template <Integer T>
QUARRY_FN T multiply(T x, T y) {
  // 1u keeps the product of two uint16_t out of signed int.
  return static_cast<T>(1u * static_cast<unsigned_of<T>>(x) * static_cast<unsigned_of<T>>(y));
}
template <Integer T>
QUARRY_FN T negative(T x) {
  return static_cast<T>(unsigned_of<T>(0) - static_cast<unsigned_of<T>>(x));
}
template <Integer T>
QUARRY_FN T absolute(T x) {
  if constexpr (Signed<T>)
    return x < 0 ? negative(x) : x;
  else
    return x;
}
template <Integer T>
QUARRY_FN T square(T x) {
  return multiply(x, x);
}
template <Integer T>
QUARRY_FN T sign(T x) {
  if constexpr (Signed<T>)
    return static_cast<T>((x > 0) - (x < 0));
  else
    return static_cast<T>(x > 0);
}
template <Integer T>
QUARRY_FN T reciprocal(T x) {
  return convert<T>::from(1.0 / static_cast<double>(x));
}
// Division by zero gives 0; the lowest value over -1 wraps to itself.
template <Integer T>
QUARRY_FN T floor_divide(T x, T y) {
  if (y == 0) return 0;
  if constexpr (Signed<T>) {
    if (y == -1) return negative(x);
    const T quotient = static_cast<T>(x / y);
    const bool exact = static_cast<T>(quotient * y) == x;  // a remainder would be a second division
    return static_cast<T>(!exact & ((x < 0) != (y < 0)) ? quotient - 1 : quotient);
  } else {
    return static_cast<T>(x / y);
  }
}
template <Integer T>
QUARRY_FN T fmod(T x, T y) {
  if (y == 0) return 0;
  if constexpr (Signed<T>)
    if (y == -1) return 0;
  return static_cast<T>(x % y);
}
template <Integer T>
QUARRY_FN T remainder(T x, T y) {
  const T r = fmod(x, y);
  if constexpr (Signed<T>)
    return static_cast<T>(r != 0 && ((r < 0) != (y < 0)) ? r + y : r);
  else
    return r;
}
// A negative exponent, which NumPy refuses, gives the truncated value: 1 and -1 keep their powers, 0 and the rest give
// 0.
template <Integer T>
QUARRY_FN T power(T x, T y) {
  if constexpr (Signed<T>)
    if (y < 0) return x == 1 ? T(1) : x == -1 ? static_cast<T>((y & 1) ? -1 : 1) : T(0);
  unsigned_of<T> base = static_cast<unsigned_of<T>>(x), result = 1, n = static_cast<unsigned_of<T>>(y);
  while (n != 0) {
    if (n & 1u) result = static_cast<unsigned_of<T>>(1u * result * base);
    base = static_cast<unsigned_of<T>>(1u * base * base);
    n = static_cast<unsigned_of<T>>(n >> 1);
  }
  return static_cast<T>(result);
}
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T bitwise_and(T x, T y) { return static_cast<T>(x & y); }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T bitwise_or(T x, T y) { return static_cast<T>(x | y); }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T bitwise_xor(T x, T y) { return static_cast<T>(x ^ y); }
template <Integer T>
QUARRY_FN T invert(T x) {
  return static_cast<T>(~x);
}
template <Bool T>
QUARRY_FN bool invert(T x) {
  return !x;
}
// Shifts by the width or more, or by a negative count, leave no bits (all sign bits to the right).
template <Integer T>
QUARRY_FN T left_shift(T x, T y) {
  const unsigned_of<T> n = static_cast<unsigned_of<T>>(y);
  return n < traits<T>::bits ? static_cast<T>(1ull * static_cast<unsigned_of<T>>(x) << n) : T(0);
}
template <Integer T>
QUARRY_FN T right_shift(T x, T y) {
  const unsigned_of<T> n = static_cast<unsigned_of<T>>(y);
  if constexpr (Signed<T>)
    return static_cast<T>(n < traits<T>::bits ? x >> n : x < 0 ? -1 : 0);
  else
    return n < traits<T>::bits ? static_cast<T>(x >> n) : T(0);
}
template <Integer T>
QUARRY_FN uint8_t bitwise_count(T x) {
  uint64_t v = static_cast<uint64_t>(static_cast<unsigned_of<T>>(absolute(x)));
  v = v - ((v >> 1) & 0x5555555555555555ull);
  v = (v & 0x3333333333333333ull) + ((v >> 2) & 0x3333333333333333ull);
  v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0full;
  return static_cast<uint8_t>((v * 0x0101010101010101ull) >> 56);
}
template <Integer T>
QUARRY_FN T gcd(T x, T y) {
  unsigned_of<T> a = static_cast<unsigned_of<T>>(absolute(x)), b = static_cast<unsigned_of<T>>(absolute(y));
  while (b != 0) {
    const unsigned_of<T> rest = static_cast<unsigned_of<T>>(a % b);
    a = b;
    b = rest;
  }
  return static_cast<T>(a);
}
template <Integer T>
QUARRY_FN T lcm(T x, T y) {
  const unsigned_of<T> divisor = static_cast<unsigned_of<T>>(gcd(x, y));
  if (divisor == 0) return 0;
  const unsigned_of<T> a = static_cast<unsigned_of<T>>(absolute(x)), b = static_cast<unsigned_of<T>>(absolute(y));
  return static_cast<T>(1u * static_cast<unsigned_of<T>>(a / divisor) * b);
}
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T floor(T x) { return x; }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T ceil(T x) { return x; }
template <class T>
requires(Integer<T> || Bool<T>) QUARRY_FN T trunc(T x) { return x; }
template <class T>
QUARRY_FN T real(T x) {
  return x;
}
template <class T>
QUARRY_FN T imag(T) {
  return T(0);
}
template <class T>
QUARRY_FN T conjugate(T x) {
  return x;
}

}  // namespace quarry::local::fn
