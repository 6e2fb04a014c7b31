// Sliding products and interpolation are those of local arrays, however the arrays are cut.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/cuts.h"
#include "tests/support/evaluate.h"

namespace quarry {
namespace {

using local::NdArray;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

void expect_equal(const Array& got, const NdArray& expected, const std::string& what, double tolerance) {
  const NdArray value = got.to_host();
  EXPECT_EQ(value.dtype(), expected.dtype()) << what;
  EXPECT_TRUE(testing::close(value, expected, tolerance, tolerance))
      << what << ":\n"
      << value.to_string() << "\nlocally " << expected.to_string();
}

TEST(SlidingProducts, AreTheLocalOnesOnAnyChunks) {
  std::mt19937 random(1);
  for (const DType dtype : {f64, f32, f16, i64, i8, DType::bool_, c128}) {
    for (const int64_t taps : {1, 2, 5, 40, 90, 200}) {
      const NdArray a = local::round(local::default_rng(1).normal(0, 3, 150)).astype(dtype);
      const NdArray v = local::round(local::default_rng(2).normal(0, 2, taps)).astype(dtype);
      const double tolerance = dtype == f16 ? 2e-3 : 1e-6;
      for (const Array& cut : testing::cuts(a, random)) {
        const Array w = testing::cut(v, random);
        for (const char* mode : {"full", "same", "valid"}) {
          const std::string what = std::string(mode) + " of " + std::to_string(taps) + " taps, " + cut.repr();
          expect_equal(convolve(cut, w, mode), local::convolve(a, v, mode), what, tolerance);
          expect_equal(correlate(cut, w, mode), local::correlate(a, v, mode), what, tolerance);
        }
      }
    }
  }
}

// Beyond the ends there is nothing, which is not zero times infinity.
TEST(SlidingProducts, OfInfinitiesStopAtTheEnds) {
  const NdArray a{1., 2., kInf, 4., 5.}, v{kInf, 1., kNan};
  for (const int64_t chunk : {1, 2, 5})
    for (const char* mode : {"full", "same", "valid"})
      expect_equal(convolve(Array::from_local(a).rechunk({chunk}), Array::from_local(v), mode),
                   local::convolve(a, v, mode), mode, 0);
}

TEST(Interpolation, IsTheLocalOneOnAnyChunks) {
  std::mt19937 random(2);
  const NdArray x =
      local::concatenate({local::default_rng(1).normal(0, 3, 32), NdArray{kNan, 0., kInf}}).reshape({5, 7});
  const NdArray xp = local::arange(-3, 3, 0.01), fp = local::sin(xp) + local::remainder(local::arange(600), 3);
  const NdArray z = fp + local::cos(xp) * std::complex<double>(0, 1);
  for (const Array& cut : testing::cuts(x, random)) {
    const Array points = testing::cut(xp, random), values = testing::cut(fp, random);
    expect_equal(interp(cut, points, values), local::interp(x, xp, fp), cut.repr(), 1e-13);
    expect_equal(interp(cut, points, values, -1., 7), local::interp(x, xp, fp, -1., 7), cut.repr(), 1e-13);
    expect_equal(interp(cut, points, values, {}, {}, 2.5), local::interp(x, xp, fp, {}, {}, 2.5), cut.repr(), 1e-13);
    expect_equal(interp(cut, points, Array::from_local(z)), local::interp(x, xp, z), cut.repr(), 1e-13);
    expect_equal(interp(cut, 1.5 * points, values, 3), local::interp(x, 1.5 * xp, fp, 3), cut.repr(), 1e-13);
  }
  EXPECT_THROW(interp(arange(3.), Array{1., 2.}, Array{1.}), local::InvalidArgument);
  EXPECT_THROW(interp(arange(3.), zeros({0}), zeros({0})), local::InvalidArgument);
  EXPECT_THROW(interp(arange(3.), Array{1., 2.}, Array{1., 2.}, {}, {}, 0.), local::InvalidArgument);
  EXPECT_THROW(interp(arange(3.) * std::complex<double>(0, 1), Array{1.}, Array{1.}), local::TypeError);
}

}  // namespace
}  // namespace quarry
