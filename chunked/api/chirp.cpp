#include "quarry/chunked/api/chirp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"

namespace quarry::chirps {
namespace {

// j^2 modulo `modulus`, for j below it: digit by digit of j where the square has more than 63 bits.
Array square_modulo(const Array& j, int64_t modulus) {
  const int bits = std::bit_width(static_cast<uint64_t>(modulus));
  if (2 * bits <= 63) return remainder(j * j, modulus);
  const int digit = 62 - bits;  // the sum of two products of so many bits fits
  QUARRY_CHECK(digit > 0);
  const int64_t base = int64_t{1} << digit;
  const int digits = (bits + digit - 1) / digit;
  Array result;
  for (int i = digits - 1; i >= 0; --i) {
    const Array shifted = i == 0 ? j : right_shift(j, int64_t{i} * digit);
    const Array product = j * bitwise_and(shifted, base - 1);
    result = remainder(i == digits - 1 ? product : result * base + product, modulus);
  }
  return result;
}

bool has_small_factors(int64_t n) {
  for (const int64_t factor : {2, 3, 5, 7})
    while (n % factor == 0) n /= factor;
  return n == 1;
}
int64_t next_of_small_factors(int64_t n) {
  while (!has_small_factors(n)) ++n;
  return n;
}

}  // namespace

Array chirp(const Array& positions, int64_t n, bool conjugates, DType dtype) {
  const Array squares = square_modulo(positions, 2 * n);
  // Half a turn either way: angles are small, and so are their errors.
  const Array part = where(squares > n, squares - 2 * n, squares).astype(DType::float64) / static_cast<double>(n);
  const Array angle = part * (conjugates ? std::numbers::pi : -std::numbers::pi);
  return cos(angle).astype(dtype) + sin(angle).astype(dtype) * std::complex<double>(0, 1);
}

Padded padded(int64_t n) {
  int64_t root = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root > n) --root;
  const int64_t rows = next_of_small_factors(std::max<int64_t>(root, 1));
  const int64_t columns = next_of_small_factors((n + rows - 1) / rows);
  return {std::min(rows, columns), std::max(rows, columns)};
}

}  // namespace quarry::chirps
