// Statistics against plain loops, on every device: sizes that are worked on in parts, awkward shapes, errors. Values
// against NumPy are in the oracle's cases.
#include "quarry/local/ops/statistics/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class StatisticsTest : public test::OnDevice {
 protected:
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
};
QUARRY_ON_EVERY_DEVICE(StatisticsTest);

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

// The linear method in double precision.
double linear(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at), high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

TEST_P(StatisticsTest, QuantilesOfLongAndManyRows) {
  const std::vector<double> values = random_reals(120000, 5);
  const NdArray flat = from_vector(values);
  const std::vector<double> quantiles{0, 0.01, 0.5, 0.77, 1};
  const std::vector<double> got = to_vector<double>(ops::quantile(flat, from_vector(quantiles)));
  for (size_t i = 0; i < quantiles.size(); ++i) {
    EXPECT_NEAR(got[i], linear(values, quantiles[i]), 1e-12);
    EXPECT_EQ(ops::quantile(flat, quantiles[i]).item<double>(), got[i]);
  }
  EXPECT_NEAR(ops::median(flat).item<double>(), linear(values, 0.5), 1e-12);
  const NdArray columns = flat.reshape({300, 400}), backwards = columns[{Slice{{}, {}, -1}, Slice{{}, {}, -1}}];
  const std::vector<double> of_columns = to_vector<double>(ops::quantile(columns, 0.3, 0));
  std::vector<double> reversed = to_vector<double>(ops::quantile(backwards, 0.3, 0));
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(of_columns, reversed);  // strides do not show
  for (size_t c = 0; c < 400; c += 37) {
    std::vector<double> column;
    for (size_t r = 0; r < 300; ++r) column.push_back(values[r * 400 + c]);
    EXPECT_NEAR(of_columns[c], linear(column, 0.3), 1e-12);
  }
}

TEST_P(StatisticsTest, QuantilesOfOneLongRow) {
  for (const int64_t n : {int64_t{150000}, int64_t{200001}}) {
    std::vector<double> values = random_reals(n, 16);
    for (size_t i = 0; i < values.size(); i += 5) values[i] = std::round(values[i]);
    const NdArray a = from_vector(values);
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    // The sort, and selections of up to eight positions, find the same.
    for (const std::vector<double>& quantiles :
         {std::vector<double>{0.3}, {0, 1}, {0.5, 0.25, 0.75}, {0.01, 0.3, 0.3, 0.5, 0.7, 0.8, 0.9}}) {
      const auto got = to_vector<double>(ops::quantile(a, from_vector(quantiles)));
      const auto low = to_vector<double>(ops::quantile(a, from_vector(quantiles), {}, {}, false, "lower"));
      ASSERT_EQ(got.size(), quantiles.size());
      for (size_t i = 0; i < quantiles.size(); ++i) {
        EXPECT_NEAR(got[i], linear(values, quantiles[i]), 1e-12);
        EXPECT_EQ(low[i], sorted[static_cast<size_t>(quantiles[i] * static_cast<double>(n - 1))]);
      }
    }
    const auto middle = static_cast<size_t>(n / 2);
    EXPECT_EQ(ops::median(a).item<double>(), n % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2);
    EXPECT_EQ(ops::quantile(a, NdArray({0}, DType::float64)).shape(), (Dims{0}));
    const NdArray integers = from_vector(random_integers(n, 100000, 17));
    EXPECT_EQ(ops::quantile(integers, NdArray({0}, DType::float64)).shape(), (Dims{0}));
    EXPECT_EQ(ops::median(integers).item<double>(), ops::median(integers.astype(DType::float64)).item<double>());
    values[static_cast<size_t>(n / 3)] = kNan;
    const NdArray with_nan = from_vector(values);
    EXPECT_TRUE(std::isnan(ops::median(with_nan).item<double>()));
    EXPECT_TRUE(std::isnan(ops::quantile(with_nan, 0.1).item<double>()));
    EXPECT_FALSE(std::isnan(ops::nanquantile(with_nan, 0.1).item<double>()));
  }
}

TEST_P(StatisticsTest, QuantilesLeaveNanOut) {
  std::vector<double> values = random_reals(3000, 6);
  for (size_t i = 0; i < values.size(); ++i)
    if (i % 7 == 3 || i / 100 == 4) values[i] = kNan;  // row 4 has no number
  const NdArray rows = from_vector(values, {30, 100});
  const NdArray nan = ops::nanquantile(rows, from_vector<double>({0.2, 0.9}), 1), plain = ops::quantile(rows, 0.2, 1);
  const std::vector<double> got = to_vector<double>(nan), middle = to_vector<double>(ops::nanmedian(rows, 1));
  for (size_t r = 0; r < 30; ++r) {
    EXPECT_TRUE(std::isnan(to_vector<double>(plain)[r]));
    std::vector<double> numbers;
    for (size_t c = 0; c < 100; ++c)
      if (!std::isnan(values[r * 100 + c])) numbers.push_back(values[r * 100 + c]);
    if (r == 4) {
      EXPECT_TRUE(std::isnan(got[r]) && std::isnan(got[30 + r]) && std::isnan(middle[r]));
      continue;
    }
    EXPECT_NEAR(got[r], linear(numbers, 0.2), 1e-12);
    EXPECT_NEAR(got[30 + r], linear(numbers, 0.9), 1e-12);
    EXPECT_NEAR(middle[r], linear(numbers, 0.5), 1e-12);
  }
  EXPECT_TRUE(std::isnan(ops::median(rows).item<double>()));
  EXPECT_TRUE(std::isnan(ops::nanmedian(rows[{4}]).item<double>()));
  EXPECT_FALSE(std::isnan(ops::nanpercentile(rows, 50).item<double>()));
}

TEST_P(StatisticsTest, QuantileDtypes) {
  const auto dtype = [](const NdArray& a, const Arg& q, std::string_view method = "linear") {
    return ops::quantile(a, q, {}, {}, false, method).dtype();
  };
  const NdArray f = from_vector<float>({1, 2, 4}), i = from_vector<int8_t>({1, 2, 4});
  const NdArray h = f.astype(DType::float16), b = f.astype(DType::bfloat16);
  EXPECT_EQ(dtype(f, 0.3), DType::float32);
  EXPECT_EQ(dtype(f, from_vector<double>({0.3})), DType::float64);
  EXPECT_EQ(dtype(f, from_vector<float>({0.3F})), DType::float32);
  EXPECT_EQ(dtype(h, 0.3), DType::float16);
  EXPECT_EQ(dtype(b, 0.3), DType::bfloat16);
  EXPECT_EQ(dtype(i, 0.3), DType::float64);
  EXPECT_EQ(dtype(i, 0.3, "lower"), DType::int8);
  EXPECT_EQ(dtype(i, 1), DType::int8);
  EXPECT_EQ(ops::quantile(b, 0.75).item<float>(), 3);
  EXPECT_EQ(ops::median(b).item<float>(), 2);
  EXPECT_EQ(ops::median(b).dtype(), DType::bfloat16);
  EXPECT_EQ(ops::median(i).dtype(), DType::float64);
  EXPECT_THROW(ops::quantile(i.astype(DType::bool_), 0.3), TypeError);
  EXPECT_THROW(ops::quantile(f.astype(DType::complex64), 0.3), TypeError);
  EXPECT_THROW(ops::quantile(f, 1.1), InvalidArgument);
  EXPECT_THROW(ops::percentile(f, kNan), InvalidArgument);
  EXPECT_THROW(ops::quantile(f, 0.5, {}, {}, false, "best"), InvalidArgument);
  EXPECT_THROW(ops::quantile(NdArray({0}, DType::float32), 0.5), IndexError);
  EXPECT_THROW(ops::median(f, 1), IndexError);
  const NdArray out({}, DType::int32);
  EXPECT_THROW(ops::quantile(f, 0.5, {}, out), TypeError);
  EXPECT_EQ(ops::median(f, {}, out).item<int32_t>(), 2);
}

TEST_P(StatisticsTest, WeightedQuantileIsThatOfRepeatedElements) {
  const std::vector<double> values = random_reals(2000, 8);
  const std::vector<int64_t> weights = random_integers(2000, 5, 9);
  std::vector<double> repeated;
  for (size_t i = 0; i < values.size(); ++i)
    repeated.insert(repeated.end(), static_cast<size_t>(weights[i]), values[i]);
  const NdArray q = from_vector<double>({0.011, 0.35, 0.5, 0.999});
  EXPECT_EQ(to_vector<double>(
                ops::quantile(from_vector(values), q, {}, {}, false, "inverted_cdf", false, from_vector(weights))),
            to_vector<double>(ops::quantile(from_vector(repeated), q, {}, {}, false, "inverted_cdf")));
}

// NumPy's rule, element by element.
std::vector<int64_t> counts_between(const std::vector<double>& values, const std::vector<double>& edges) {
  std::vector<int64_t> counts(edges.size() - 1);
  for (double x : values) {
    if (!(x >= edges.front() && x <= edges.back())) continue;
    const auto bin = static_cast<size_t>(std::upper_bound(edges.begin(), edges.end(), x) - edges.begin()) - 1;
    ++counts[std::min(bin, counts.size() - 1)];
  }
  return counts;
}

TEST_P(StatisticsTest, HistogramInParts) {
  std::vector<double> values = random_reals(250000, 11);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = std::round(values[i] * 8) / 8;  // on edges
  values[17] = kNan;
  values[18] = std::numeric_limits<double>::infinity();
  const NdArray a = from_vector(values);
  for (int64_t bins : {int64_t{1}, int64_t{10}, int64_t{64}, int64_t{4000}, int64_t{100000}}) {
    const auto [counts, edges] = ops::histogram(a, bins, std::pair<Scalar, Scalar>{-2.0, 2.0});
    EXPECT_EQ(edges.shape(), (Dims{bins + 1}));
    EXPECT_EQ(to_vector<int64_t>(counts), counts_between(values, to_vector<double>(edges)));
    const auto [searched, same] = ops::histogram(a, edges);  // not known to be uniform
    EXPECT_EQ(to_vector<int64_t>(searched), to_vector<int64_t>(counts));
    const auto [weighted, also] = ops::histogram(a, bins, std::pair<Scalar, Scalar>{-2.0, 2.0}, {},
                                                 apply("multiply"_op, {apply("equal"_op, {a, a}), 2}));
    EXPECT_EQ(to_vector<int64_t>(ops::floor_divide(weighted, 2)), to_vector<int64_t>(counts));
  }
  EXPECT_THROW(ops::histogram(a), InvalidArgument);  // no finite range
  EXPECT_THROW(ops::histogram(a.astype(DType::complex128)), TypeError);
  EXPECT_THROW(ops::histogram(a, from_vector<double>({1, 0})), InvalidArgument);
  EXPECT_THROW(ops::histogram(a, int64_t{0}), InvalidArgument);
}

// Arithmetic alone gives some of these the wrong bin: edges, and the numbers before and behind them.
TEST_P(StatisticsTest, HistogramBesideEdges) {
  const auto check = [&]<class T>(T low, T high, int64_t bins) {
    SCOPED_TRACE(low);
    const ops::BinRange range = std::pair<Scalar, Scalar>{Scalar(double{low}), Scalar(double{high})};
    const NdArray edges = ops::histogram_bin_edges(from_vector<T>({low, high}), bins, range);
    ASSERT_EQ(edges.dtype(), dtype_of_v<T>);
    std::vector<T> values;
    for (const T edge : to_vector<T>(edges))
      for (const T x : {std::nextafter(edge, low - 1), edge, std::nextafter(edge, high + 1)}) values.push_back(x);
    constexpr size_t kMany = 600000;  // several for each thread of a GPU
    while (values.size() < kMany) values.insert(values.end(), values.begin(), values.end());
    const std::vector<double> wide(values.begin(), values.end());
    EXPECT_EQ(to_vector<int64_t>(ops::histogram(from_vector(values), bins, range).first),
              counts_between(wide, to_vector<double>(edges.astype(DType::float64))));
  };
  check(0.0, 1.0, 100);
  check(1e6, 1e6 + 1, 77);
  check(-1e-3, 0.7, 1000);
  check(0.0F, 1.0F, 100);
  check(1000.0F, 1001.0F, 30);
}

TEST_P(StatisticsTest, HistogramOfEveryDtype) {
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (is_complex(dtype)) continue;
    const NdArray a = from_vector<double>({0, 1, 1, 0, 1}).astype(dtype);
    const auto [counts, edges] = ops::histogram(a[{Slice{{}, {}, -1}}], int64_t{2});
    EXPECT_EQ(to_vector<int64_t>(counts), (std::vector<int64_t>{2, 3})) << name(dtype);
    EXPECT_EQ(edges.dtype(), is_float(dtype) ? dtype : DType::float64);
    for (const char* rule : {"auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges"})
      EXPECT_EQ(ops::sum(ops::histogram(a, rule).first).item<int64_t>(), 5) << rule;
  }
}

TEST_P(StatisticsTest, PointsInBins) {
  const std::vector<double> x = random_reals(70000, 12), y = random_reals(70000, 13);
  const std::vector<double> edges{-2, -0.5, 0, 1, 3};
  std::vector<double> expected(16);
  for (size_t i = 0; i < x.size(); ++i) {
    const std::vector<int64_t> row = counts_between({x[i]}, edges), column = counts_between({y[i]}, edges);
    for (size_t r = 0; r < 4; ++r)
      for (size_t c = 0; c < 4; ++c) expected[r * 4 + c] += static_cast<double>(row[r] * column[c]);
  }
  const auto [counts, of_x, of_y] = ops::histogram2d(from_vector(x), from_vector(y), from_vector(edges));
  EXPECT_EQ(counts.shape(), (Dims{4, 4}));
  EXPECT_EQ(to_vector<double>(counts), expected);
  const auto [same, list] =
      ops::histogramdd(ArrayTuple{from_vector(x), from_vector(y)}, ArrayTuple{from_vector(edges), from_vector(edges)});
  EXPECT_EQ(to_vector<double>(same), expected);
  EXPECT_THROW(ops::histogramdd(from_vector(x, {35000, 2}), from_vector<int64_t>({1, 2, 3})), InvalidArgument);
}

TEST_P(StatisticsTest, Covariance) {
  const int64_t variables = 7, observations = 3000;
  std::vector<double> values = random_reals(variables * observations, 14);
  for (double& value : values) value += 1e6;  // a mean that would swallow digits
  const NdArray x = from_vector(values, {variables, observations});
  const std::vector<double> c = to_vector<double>(ops::cov(x)), r = to_vector<double>(ops::corrcoef(x));
  const auto mean = [&](size_t i) {
    double sum = 0;
    for (size_t k = 0; k < 3000; ++k) sum += values[i * 3000 + k] - 1e6;
    return 1e6 + sum / 3000;
  };
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(r[i * 7 + i], 1, 1e-15);
    for (size_t j = 0; j < 7; ++j) {
      const double mean_i = mean(i), mean_j = mean(j);
      double sum = 0;
      for (size_t k = 0; k < 3000; ++k) sum += (values[i * 3000 + k] - mean_i) * (values[j * 3000 + k] - mean_j);
      EXPECT_NEAR(c[i * 7 + j], sum / 2999, 1e-9);
      EXPECT_EQ(c[i * 7 + j], c[j * 7 + i]);
    }
  }
  EXPECT_EQ(ops::cov(x.T(), {}, /*rowvar=*/false).shape(), (Dims{7, 7}));
  const std::vector<double> ones(3000, 1);
  const std::vector<double> weighted =
      to_vector<double>(ops::cov(x, {}, true, false, {}, from_vector(ones), from_vector(ones)));
  for (size_t i = 0; i < c.size(); ++i) EXPECT_NEAR(weighted[i], c[i], 1e-9);
  EXPECT_THROW(ops::cov(x, {}, true, false, 0.5), InvalidArgument);
  EXPECT_THROW(ops::cov(x, {}, true, false, {}, from_vector<double>({1})), InvalidArgument);
  EXPECT_THROW(ops::cov(x.reshape({7, 3, 1000})), InvalidArgument);
}

}  // namespace
}  // namespace quarry::local
