#include "quarry/chunked/api/chirp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <string>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"

namespace quarry {
namespace {

constexpr double kUlps = 4e-16;

// With squares of 128 bits.
std::complex<double> reference(int64_t j, int64_t n, bool conjugates) {
  const auto wide = static_cast<unsigned __int128>(j);
  const auto rest = static_cast<long double>(wide * wide % static_cast<unsigned __int128>(2 * n));
  const long double angle =
      (conjugates ? 1 : -1) * std::numbers::pi_v<long double> * rest / static_cast<long double>(n);
  return {static_cast<double>(std::cos(angle)), static_cast<double>(std::sin(angle))};
}

TEST(Chirps, AreExactForLinesOfAnyLength) {
  for (const int64_t n : {int64_t{1}, int64_t{2}, int64_t{1009}, (int64_t{1} << 30) + 3, (int64_t{1} << 31) - 1,
                          (int64_t{1} << 40) + 15, (int64_t{1} << 52) + 21, (int64_t{1} << 59) - 55}) {
    std::vector<int64_t> at;
    for (const int64_t j : {int64_t{0}, int64_t{1}, int64_t{2}, n / 3, n / 2, n - n / 7 - 1, n - 2, n - 1})
      if (j >= 0 && j < n) at.push_back(j);
    const Array positions = Array::from_local(local::from_vector(at));
    for (const bool conjugates : {false, true}) {
      const NdArray wide = chirps::chirp(positions, n, conjugates, DType::complex128).to_host();
      const NdArray narrow = chirps::chirp(positions, n, conjugates, DType::complex64).to_host();
      EXPECT_EQ(narrow.dtype(), DType::complex64);
      for (size_t i = 0; i < at.size(); ++i) {
        const std::string what = std::to_string(at[i]) + " of " + std::to_string(n);
        const auto place = static_cast<int64_t>(i);
        const std::complex<double> wanted = reference(at[i], n, conjugates);
        EXPECT_LT(std::abs(wide[{place}].item<std::complex<double>>() - wanted), kUlps) << what;
        EXPECT_LT(std::abs(std::complex<double>(narrow[{place}].item<std::complex<float>>()) - wanted), 1e-7) << what;
      }
    }
  }
}

TEST(Chirps, ArePaddedToLittleMore) {
  for (const int64_t n : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{2017}, int64_t{1000003}, int64_t{2} << 40}) {
    const auto [rows, columns] = chirps::padded(n);
    EXPECT_GE(rows * columns, n);
    EXPECT_LE(rows, columns);
    EXPECT_LE(columns - rows, columns / 8 + 2) << n;
    EXPECT_LE(static_cast<double>(rows * columns), 1.1 * static_cast<double>(n) + 2) << n;
    for (int64_t left : {rows, columns}) {
      for (const int64_t factor : {2, 3, 5, 7})
        while (left % factor == 0) left /= factor;
      EXPECT_EQ(left, 1) << n;
    }
  }
}

}  // namespace
}  // namespace quarry
