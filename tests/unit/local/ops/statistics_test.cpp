// Statistics against plain loops, on every device: sizes that are worked on in parts, awkward shapes, errors. Values
// against NumPy are in the oracle's cases.
#include "local/ops/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "local/ops/reduce.h"
#include "local/ops/ufunc.h"

namespace quarry::local {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class StatisticsTest : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (!available(GetParam())) GTEST_SKIP() << "no device of kind " << name(GetParam());
    scope_.emplace(Device{GetParam(), 0});
  }

  static std::vector<int64_t> random_integers(int64_t n, int64_t end, unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<int64_t> values(static_cast<size_t>(n));
    for (int64_t& value : values) value = static_cast<int64_t>(random() % static_cast<uint64_t>(end));
    return values;
  }
  static std::vector<double> random_reals(int64_t n, unsigned seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> values(static_cast<size_t>(n));
    for (double& value : values) value = normal(random);
    return values;
  }

 private:
  std::optional<DeviceScope> scope_;
};
INSTANTIATE_TEST_SUITE_P(All, StatisticsTest,
                         ::testing::Values(DeviceKind::cpu, DeviceKind::emulated, DeviceKind::cuda),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(StatisticsTest, BincountInParts) {
  for (int64_t bins : {int64_t{1}, int64_t{10}, int64_t{5000}, int64_t{400000}}) {
    const std::vector<int64_t> x = random_integers(300000, bins, 1), w = random_integers(300000, 1000, 2);
    std::vector<int64_t> counts(static_cast<size_t>(bins)), sums(static_cast<size_t>(bins));
    for (size_t i = 0; i < x.size(); ++i) {
      ++counts[static_cast<size_t>(x[i])];
      sums[static_cast<size_t>(x[i])] += w[i];  // exact as float64 too
    }
    EXPECT_EQ(to_vector<int64_t>(ops::bincount(from_vector(x), {}, bins)), counts);
    const std::vector<double> got = to_vector<double>(ops::bincount(from_vector(x), from_vector(w), bins));
    EXPECT_EQ(std::vector<int64_t>(got.begin(), got.end()), sums);
  }
}

TEST_P(StatisticsTest, BincountOfViewsAndErrors) {
  const NdArray x = from_vector<int16_t>({5, 0, 5, 1, 2, 0});
  const NdArray backwards = x[{Slice{{}, {}, -2}}];  // 0 1 0
  EXPECT_EQ(to_vector<int64_t>(ops::bincount(backwards)), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(to_vector<double>(ops::bincount(backwards, backwards)), (std::vector<double>{0, 1}));
  EXPECT_EQ(ops::bincount(NdArray({0}, DType::int8), {}, 2).shape(), (Dims{2}));
  EXPECT_THROW(ops::bincount(from_vector<int64_t>({1, -1})), InvalidArgument);
  EXPECT_THROW(ops::bincount(from_vector<uint64_t>({1, ~uint64_t{0}})), InvalidArgument);
  EXPECT_THROW(ops::bincount(from_vector<float>({1})), TypeError);
  EXPECT_THROW(ops::bincount(x, backwards), InvalidArgument);
  EXPECT_THROW(ops::bincount(x, {}, -1), InvalidArgument);
  EXPECT_THROW(ops::bincount(x.reshape({2, 3})), InvalidArgument);
}

TEST_P(StatisticsTest, Average) {
  const NdArray a = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3}), w = from_vector<float>({1, 0, 3});
  const auto [mean, weight] = std::get<ops::ArrayPair>(ops::average(a, 1, w, /*returned=*/true));
  EXPECT_EQ(to_vector<float>(mean), (std::vector<float>{2.5F, 5.5F}));
  EXPECT_EQ(to_vector<float>(weight), (std::vector<float>{4, 4}));
  EXPECT_EQ(std::get<NdArray>(ops::average(a)).item<float>(), 3.5F);
  EXPECT_EQ(std::get<NdArray>(ops::average(a, {}, a, false, true)).shape(), (Dims{1, 1}));
  EXPECT_THROW(ops::average(a, {}, w), TypeError);
  EXPECT_THROW(ops::average(a, 0, w), InvalidArgument);
  EXPECT_THROW(ops::average(a, 1, from_vector<float>({1, -2, 1})), InvalidArgument);
  EXPECT_THROW(ops::average(from_vector<float>({1}, {}), 0), IndexError);
}

}  // namespace
}  // namespace quarry::local
