// Generators over bit generators other than Philox. The points of Sobol are SciPy's (qmc.Sobol, 32 bits) and cuRAND's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>

#include "quarry/local/ops/random/random.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class BitGeneratorTest : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(BitGeneratorTest);

using test::doubles;

TEST_P(BitGeneratorTest, SobolsFirstPoints) {
  Generator g(Sobol32(3));
  const std::vector<double> expected{0, 0.5, 0.75, 0.25, 0.375, 0.875,  //
                                     0, 0.5, 0.25, 0.75, 0.375, 0.875,  //
                                     0, 0.5, 0.25, 0.75, 0.625, 0.125};
  EXPECT_EQ(doubles(g.random(Dims{3, 6})), expected);
  EXPECT_EQ(g.bit_generator().offset, 6u);
  EXPECT_EQ(doubles(Generator(Sobol64(3)).random(18)), expected);
  EXPECT_EQ(doubles(Generator(Sobol32(3)).random(18, DType::float32)), expected);
}

TEST_P(BitGeneratorTest, SobolsPointsFarAway) {
  struct Row {
    int64_t dimensions;
    std::vector<double> words;  // the last coordinate of points 1, 2, 3, 5, 1000 and 4095
  };
  const Row rows[] = {{1, {2147483648, 3221225472, 1073741824, 3758096384, 943718400, 1048576}},
                      {2, {2147483648, 1073741824, 3221225472, 3758096384, 415236096, 4042260480}},
                      {3, {2147483648, 1073741824, 3221225472, 536870912, 2227175424, 1435500544}},
                      {100, {2147483648, 3221225472, 1073741824, 1610612736, 801112064, 4134535168}},
                      {1111, {2147483648, 3221225472, 1073741824, 1610612736, 1589641216, 1454374912}}};
  for (const Row& row : rows) {
    size_t k = 0;
    for (const int64_t point : {1, 2, 3, 5, 1000, 4095}) {
      Generator g(Sobol32(row.dimensions, point));
      EXPECT_EQ(doubles(g.random(row.dimensions)).back(), row.words[k++] * 0x1p-32) << row.dimensions << " " << point;
    }
  }
  const int64_t far = (int64_t{1} << 40) + 77;
  EXPECT_EQ(doubles(Generator(Sobol64(2, far)).random(2)).back(),
            static_cast<double>(0xa98000007f800000u >> 11) * 0x1p-53);
  EXPECT_EQ(doubles(Generator(Sobol64(1111, far)).random(1111)).back(),
            static_cast<double>(0xf9278006c8800000u >> 11) * 0x1p-53);
}

TEST_P(BitGeneratorTest, DrawsContinueTheSequence) {
  const std::function<BitGenerator(int64_t)> makers[] = {
      [](int64_t at) { return Sobol32(5, at); }, [](int64_t at) { return Sobol64(5, at); },
      [](int64_t at) { return ScrambledSobol32(5, 0, at); }, [](int64_t at) { return ScrambledSobol64(5, 0, at); }};
  for (const auto& make : makers) {
    const std::vector<double> all = doubles(Generator(make(0)).random(Dims{5, 70000}));
    Generator g(make(0));
    for (const int64_t count : {1, 255, 257, 40000}) {
      const auto first = static_cast<size_t>(g.bit_generator().offset);
      const std::vector<double> part = doubles(g.random(Dims{5, count}));
      for (size_t d = 0; d < 5; ++d) {
        for (size_t i = 0; i < static_cast<size_t>(count); ++i)
          ASSERT_EQ(part[d * static_cast<size_t>(count) + i], all[d * 70000 + first + i]) << d << " " << first + i;
      }
    }
    g.advance(-513);
    g.advance(13);
    EXPECT_EQ(doubles(g.random(5)), doubles(Generator(make(40013)).random(5)));
    Generator copy = g;
    EXPECT_EQ(doubles(copy.random(5)), doubles(g.random(5)));
  }
}

// Every 2^k points from a multiple of 2^k on have one coordinate in each of 2^k equal parts.
TEST_P(BitGeneratorTest, CoordinatesAreSpreadEvenly) {
  constexpr int64_t kParts = 512, kDimensions = 40;
  for (const BitGenerator& bits : {Sobol32(kDimensions, 1024), Sobol64(kDimensions), ScrambledSobol32(kDimensions),
                                   ScrambledSobol64(kDimensions, 0, 512)}) {
    const std::vector<double> x = doubles(Generator(bits).random(Dims{kDimensions, kParts}));
    for (int64_t d = 0; d < kDimensions; ++d) {
      std::set<int64_t> parts;
      for (int64_t i = 0; i < kParts; ++i)
        parts.insert(static_cast<int64_t>(x[static_cast<size_t>(d * kParts + i)] * static_cast<double>(kParts)));
      EXPECT_EQ(parts.size(), static_cast<size_t>(kParts)) << name(bits.kind) << " dimension " << d;
    }
  }
}

TEST_P(BitGeneratorTest, ScramblesDependOnTheSeed) {
  const std::vector<double> a = doubles(Generator(ScrambledSobol32(2, 7)).random(1000));
  EXPECT_EQ(a, doubles(Generator(ScrambledSobol32(2, 7)).random(1000)));
  EXPECT_NE(a, doubles(Generator(ScrambledSobol32(2, 8)).random(1000)));
  EXPECT_NE(a, doubles(Generator(Sobol32(2)).random(1000)));
  // The first point is uniform over the seeds.
  double sum = 0;
  for (int64_t seed = 0; seed < 1000; ++seed) sum += doubles(Generator(ScrambledSobol64(1, seed)).random(1))[0];
  EXPECT_NEAR(sum / 1000, 0.5, 0.04);
}

TEST_P(BitGeneratorTest, ScrambledPointsAreTheSameOnEveryDevice) {
  for (const BitGenerator& bits : {ScrambledSobol32(40, 7, 3), ScrambledSobol64(1111, 8, 12345), ScrambledSobol32()}) {
    const Dims shape{bits.dimensions, 10000};
    std::vector<double> expected;
    {
      const DeviceScope host(kCpu);
      expected = doubles(Generator(bits).random(shape));
    }
    EXPECT_EQ(doubles(Generator(bits).random(shape)), expected) << name(bits.kind);
  }
}

// The distance of Kolmogorov and Smirnov.
double distance(std::vector<double> x, const std::function<double(double)>& cdf) {
  std::sort(x.begin(), x.end());
  double d = 0;
  const auto n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double p = cdf(x[i]), k = static_cast<double>(i);
    d = std::max({d, (k + 1) / n - p, p - k / n});
  }
  return d;
}
double normal_p(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

TEST_P(BitGeneratorTest, DistributionsOfPoints) {
  constexpr int64_t kCount = 1 << 16;
  constexpr double kNear = 2.0 / kCount;
  for (const BitGenerator& bits : {Sobol32(), Sobol64(), ScrambledSobol32(), ScrambledSobol64()}) {
    Generator g(bits);
    const auto far = [&](const NdArray& x, const std::function<double(double)>& cdf) {
      return distance(doubles(x), cdf);
    };
    const auto same = [](double x) { return x; };
    EXPECT_LT(far(g.random(kCount), same), kNear);
    EXPECT_LT(far(g.uniform(-2, 6, kCount), [](double x) { return (x + 2) / 8; }), kNear);
    EXPECT_LT(far(g.standard_normal(kCount), normal_p), kNear);
    EXPECT_LT(far(g.normal(3, 0.5, kCount), [](double x) { return normal_p((x - 3) / 0.5); }), kNear);
    EXPECT_LT(far(g.standard_exponential(kCount), [](double x) { return -std::expm1(-x); }), kNear);
    EXPECT_LT(far(g.logistic(0, 1, kCount), [](double x) { return 1 / (1 + std::exp(-x)); }), kNear);
    EXPECT_LT(far(g.random(kCount, DType::float32), same), kNear);
    EXPECT_LT(far(g.standard_normal(kCount, DType::float32), normal_p), kNear);
    const std::vector<double> dice = doubles(g.integers(1, Arg(7), kCount));
    for (const double side : {1, 2, 3, 4, 5, 6})
      EXPECT_NEAR(static_cast<double>(std::count(dice.begin(), dice.end(), side)), kCount / 6.0, 2.5);
  }
}

TEST_P(BitGeneratorTest, NormalsAreQuantiles) {
  const std::vector<double> u = doubles(Generator(Sobol64(1, 1)).random((1 << 14) - 1));
  const std::vector<double> z = doubles(Generator(Sobol64(1, 1)).standard_normal((1 << 14) - 1));
  for (size_t i = 0; i < u.size(); ++i) {
    const double p = u[i] + 0x1p-53, q = p < 0.5 ? normal_p(z[i]) : normal_p(-z[i]);
    ASSERT_NEAR(q / std::min(p, 1 - p), 1, 3e-14) << "at " << p;
  }
  EXPECT_NEAR(doubles(Generator(Sobol64()).standard_normal(1))[0], -8.209536151601387, 1e-13);
  EXPECT_NEAR(doubles(Generator(Sobol32()).standard_normal(1))[0], -6.3379577545537895, 1e-13);
}

TEST_P(BitGeneratorTest, ShapesAndParameters) {
  Generator g(Sobol32(2));
  EXPECT_EQ(g.random(0).shape(), (Dims{0}));
  EXPECT_EQ(g.bit_generator().offset, 0u);
  const NdArray scale = from_vector(std::vector<double>{1, 100}, Dims{2, 1});
  const std::vector<double> x = doubles(g.uniform(0, scale, Dims{2, 2})), expected{0, 0.5, 0, 50};
  EXPECT_EQ(x, expected);
  NdArray out(Dims{2, 2}, DType::float64);
  g.random({}, DType::float64, out);
  EXPECT_EQ(doubles(out), (std::vector<double>{0.75, 0.25, 0.25, 0.75}));
}

template <class E>
void fails(const char* part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error, expected: " << part;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_P(BitGeneratorTest, Errors) {
  fails<InvalidArgument>("Sobol32 has 1 to 20000 dimensions, not 0", [] { Sobol32(0); });
  fails<InvalidArgument>("not 20001", [] { ScrambledSobol64(20001); });
  fails<InvalidArgument>("not -1", [] { Sobol64(-1); });
  fails<InvalidArgument>("offset must not be negative, got -2", [] { Sobol32(1, -2); });
  fails<InvalidArgument>("the seed -1", [] { XORWOW(-1); });
  fails<InvalidArgument>("the seed -3", [] { ScrambledSobol32(1, -3); });
  fails<InvalidArgument>("ordering must be one of", [] { XORWOW(1, 0, "worst"); });
  Generator g(Sobol32(3));
  fails<InvalidArgument>("7 numbers are no whole points of 3 dimensions", [&] { g.random(7); });
  fails<InvalidArgument>("1 numbers", [&] { g.random(); });
  fails<InvalidArgument>("cannot go back by 1 from 0", [&] { g.advance(-1); });
  fails<InvalidArgument>("2^32 points", [] { Generator(Sobol32(1, (int64_t{1} << 32) - 2)).random(3); });
  EXPECT_EQ(doubles(Generator(Sobol32(1, (int64_t{1} << 32) - 2)).random(2)).back(), 0x1p-32);
  fails<NotSupported>("more than one number per element", [&] { g.standard_gamma(2, 3); });
  fails<NotSupported>("more than one number per element", [&] { g.poisson(2, 3); });
  fails<NotSupported>("more than one number per element", [&] { g.wald(1, 1, 3); });
  fails<NotSupported>("more than one number per element", [&] { g.permutation(int64_t{3}); });
  fails<NotSupported>("multivariate_normal", [&] {
    g.multivariate_normal(from_vector(std::vector<double>{0}), from_vector(std::vector<double>{1}, Dims{1, 1}));
  });
  EXPECT_EQ(Generator(Sobol32(1)).random(1).shape(), (Dims{1}));  // the device is usable afterwards
}

TEST_P(BitGeneratorTest, PseudoRandomGeneratorsNeedAGpu) {
  for (const BitGenerator& bits : {XORWOW(1), MRG32k3a(2), MT19937(3), MTGP32(4), XORWOW(5, 1001, "best")}) {
    Generator g(bits);
    if (GetParam() != DeviceKind::cuda) {
      fails<NotSupported>("needs a GPU", [&] { g.random(10); });
      continue;
    }
    constexpr int64_t kCount = 100000;
    constexpr double kLikely = 2.23 / 316.2;  // p = 1e-4
    const std::vector<double> x = doubles(g.random(kCount));
    EXPECT_EQ(x, doubles(Generator(bits).random(kCount))) << name(bits.kind);
    EXPECT_EQ(g.bit_generator().offset, bits.offset + 2 * kCount);
    EXPECT_LT(distance(x, [](double u) { return u; }), kLikely) << name(bits.kind);
    EXPECT_LT(distance(doubles(g.random(kCount, DType::float32)), [](double u) { return u; }), kLikely);
    EXPECT_EQ(g.bit_generator().offset, bits.offset + 3 * kCount);
    EXPECT_LT(distance(doubles(g.standard_normal(kCount)), normal_p), kLikely) << name(bits.kind);
    EXPECT_LT(distance(doubles(g.standard_gamma(1, kCount)), [](double y) { return -std::expm1(-y); }), kLikely);
    g.advance(3);
    EXPECT_LT(distance(doubles(g.random(kCount)), [](double u) { return u; }), kLikely);
  }
  if (GetParam() != DeviceKind::cuda)
    fails<NotSupported>("1112 dimensions needs a GPU", [] { Generator(Sobol32(1112)).random(1112); });
}

}  // namespace
}  // namespace quarry::local
