// Medians and quantiles by counting passes are those of local arrays, bit by bit.
#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/cuts.h"
#include "tests/support/evaluate.h"
#include "tests/support/random_expressions.h"
#include "tests/support/runtime_on.h"

namespace quarry {
namespace {

using local::NdArray;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
constexpr const char* kMethods[] = {"inverted_cdf",
                                    "averaged_inverted_cdf",
                                    "closest_observation",
                                    "interpolated_inverted_cdf",
                                    "hazen",
                                    "weibull",
                                    "linear",
                                    "median_unbiased",
                                    "normal_unbiased",
                                    "lower",
                                    "higher",
                                    "midpoint",
                                    "nearest"};

void expect_equal(const Array& got, const NdArray& expected, const std::string& what) {
  const NdArray value = got.to_host();
  EXPECT_EQ(value.dtype(), expected.dtype()) << what;
  EXPECT_TRUE(testing::close(value, expected, 0, 0)) << what << ":\n"
                                                     << value.to_string() << "\nlocally " << expected.to_string();
}

void check(const NdArray& x, const Array& cut, const Axes& axis) {
  const std::string what = cut.repr() + " of " + x.to_string();
  expect_equal(median(cut, axis), local::median(x, axis), "median " + what);
  expect_equal(nanmedian(cut, axis, {}, false, true), local::nanmedian(x, axis, {}, false, true), "nanmedian " + what);
  if (x.dtype() == DType::bool_) return;
  const NdArray q{0., 0.1, 0.5, 0.77, 1.};
  static size_t turn = 0;  // all methods in turn: each costs some passes
  for (size_t i = 0; i < 3; ++i) {
    const char* method = kMethods[turn++ % std::size(kMethods)];
    expect_equal(quantile(cut, 0.3, axis, {.method = method}), local::quantile(x, 0.3, axis, {.method = method}),
                 std::string(method) + " " + what);
    expect_equal(nanquantile(cut, q, axis, {.method = method}), local::nanquantile(x, q, axis, {.method = method}),
                 std::string("nanquantile ") + method + " " + what);
  }
  expect_equal(percentile(cut, 25, axis, {.keepdims = true}), local::percentile(x, 25, axis, {.keepdims = true}), what);
  expect_equal(nanpercentile(cut, {5, 95}, axis), local::nanpercentile(x, {5, 95}, axis), what);
}

std::vector<NdArray> samples(int64_t n) {
  local::Generator g = local::default_rng(9);
  const NdArray normal = g.normal(0, 1, n), few = g.integers(0, 3, n);
  const NdArray missing = local::where(g.random(n) < 0.2, kNan, normal);
  return {normal,
          normal.astype(f32),
          normal.astype(f16),
          missing,
          local::full({n}, 2.5),
          local::full({n}, kNan),
          local::where(few == 0, -kInf, local::where(few == 1, kInf, normal)),
          local::exp(normal * 200),
          local::where(few == 0, -0., 0.),
          few.astype(u8),
          few == 1,
          g.integers(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), n, i64, true),
          g.integers(0, std::numeric_limits<uint64_t>::max(), n, u64, true),
          g.integers(-100, 100, n, i16)};
}

TEST(Quantiles, CountElementsOfWholeArrays) {
  std::mt19937 random(1);
  const testing::SmallChunks small(64);
  for (const int64_t n : {9, 70, 301})
    for (const NdArray& x : samples(n)) check(x, testing::cut(x, random), {});
}

TEST(Quantiles, CountElementsOfManyRowsAtOnce) {
  std::mt19937 random(2);
  for (const NdArray& flat : samples(40 * 6 * 5)) {
    const NdArray x = flat.reshape({40, 6, 5});
    const testing::SmallChunks small(int64_t{1} << (random() % 2 == 0 ? 7 : 12));
    const Array cut = testing::cut(x, random);
    check(x, cut, 0);
    check(x, cut, {0, 2});
    check(x, cut, -1);
  }
}

TEST(Quantiles, OfSmallAndEmptyArrays) {
  std::mt19937 random(3);
  for (const NdArray& x : {NdArray{{1., 5.}, {2., kNan}, {3., 4.}}, local::arange(12).reshape({2, 3, 2})})
    for (const Array& cut : testing::cuts(x, random)) check(x, cut, 0);
  const NdArray scalar = local::full({}, 3.);
  check(scalar, Array::from_local(scalar), {});
  EXPECT_TRUE(local::isnan(median(zeros({0})).to_host()).item<bool>());
  EXPECT_THROW(percentile(zeros({0}), 50), local::IndexError);
  EXPECT_EQ(median(zeros({0, 3}), 1).shape(), (Dims{0}));
  const NdArray x{1., 2., 4.}, w{1., 0., 5.};
  expect_equal(quantile(Array::from_local(x), 0.5, {}, {.method = "inverted_cdf", .weights = Array::from_local(w)}),
               local::quantile(x, 0.5, {}, {.method = "inverted_cdf", .weights = w}), "weights");
}

TEST(Quantiles, ManyOfThemAtOnce) {
  std::mt19937 random(4);
  const testing::SmallChunks small(256);
  const NdArray x = local::default_rng(1).standard_cauchy(1000), q = local::linspace(0, 1, 67);
  expect_equal(quantile(testing::cut(x, random), q), local::quantile(x, q), "67 quantiles");
}

// Of an array that no rank may have whole, in chunks that no task holds before they are cut.
TEST(Quantiles, InLittleMemory) {
  const int64_t n = 400000;
  const NdArray x = local::default_rng(2).standard_normal(n), lines = x.reshape({400, 1000});
  for (const char* budget : {"5MiB", "8MiB", "16MiB"}) {
    const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu, budget));
    const Array a = random::default_rng(2).standard_normal({n});
    expect_equal(median(a), local::median(x), budget);
    expect_equal(quantile(a, NdArray{0.1, 0.9}), local::quantile(x, NdArray{0.1, 0.9}), budget);
    expect_equal(median(random::default_rng(2).standard_normal({400, 1000}), 0), local::median(lines, 0), budget);
    expect_equal(topk(a, 3), local::flip(local::sort(x)[{local::Slice{n - 3, n, {}}}]), budget);
    EXPECT_EQ(sum(histogram(a).first).item<int64_t>(), n) << budget;
    EXPECT_EQ(sum(bincount((a > 0).astype(DType::int64))).item<int64_t>(), n) << budget;
    expect_equal(flatnonzero(a > 3), local::flatnonzero(x > 3), budget);
  }
}

// As NumPy's: weights of none, of some elements, of whole lines, of integers, and what does not add up exactly.
std::vector<NdArray> weights_of(const Dims& shape) {
  local::Generator g = local::default_rng(13);
  const local::Ints ints(shape);
  const NdArray random = g.random(ints), few = g.integers(0, 3, ints);
  return {random,
          few.astype(f64),
          few.astype(u8),
          few > 0,
          random.astype(f32),
          random * 1e18,
          local::where(few == 0, random, 1e-3 * random),
          few + (int64_t{1} << 52)};
}

void check_weighted(const NdArray& x, const Array& cut, const NdArray& w, const Array& cut_w, const Axes& axis) {
  const std::string what = cut.repr() + " of " + x.to_string() + " with " + w.to_string();
  const NdArray q{0., 0.1, 1 / 3., 0.5, 0.77, 1.}, table{{0., 50.}, {99., 100.}};
  constexpr const char* kMethod = "inverted_cdf";
  expect_equal(quantile(cut, q, axis, {.method = kMethod, .weights = cut_w}),
               local::quantile(x, q, axis, {.method = kMethod, .weights = w}), "quantile " + what);
  expect_equal(nanquantile(cut, 0.3, axis, {.method = kMethod, .keepdims = true, .weights = cut_w}),
               local::nanquantile(x, 0.3, axis, {.method = kMethod, .keepdims = true, .weights = w}),
               "nanquantile " + what);
  expect_equal(percentile(cut, 50, axis, {.method = kMethod, .weights = cut_w}),
               local::percentile(x, 50, axis, {.method = kMethod, .weights = w}), "percentile " + what);
  expect_equal(nanpercentile(cut, table, axis, {.method = kMethod, .weights = cut_w}),
               local::nanpercentile(x, table, axis, {.method = kMethod, .weights = w}), "nanpercentile " + what);
  expect_equal(quantile(cut, q.astype(f32), axis, {.method = kMethod, .weights = cut_w}),
               local::quantile(x, q.astype(f32), axis, {.method = kMethod, .weights = w}), "of float32 " + what);
}

TEST(WeightedQuantiles, OfWholeArrays) {
  std::mt19937 random(5);
  const testing::SmallChunks small(128);
  for (const int64_t n : {17, 230})
    for (const NdArray& x : samples(n))
      for (const NdArray& w : weights_of({n}))
        check_weighted(x, testing::cut(x, random), w, testing::cut(w, random), {});
}

TEST(WeightedQuantiles, AlongAxes) {
  std::mt19937 random(6);
  const Dims shape{15, 4, 21};
  size_t turn = 0;
  for (const NdArray& flat : samples(15 * 4 * 21)) {
    const NdArray x = flat.reshape(shape);
    const std::vector<NdArray> all = weights_of(shape);
    const NdArray& w = all[turn++ % all.size()];
    for (const int64_t bytes : {int64_t{128}, int64_t{4096}}) {  // lines are long, and short
      const testing::SmallChunks small(bytes);
      const Array cut = testing::cut(x, random), cut_w = testing::cut(w, random);
      check_weighted(x, cut, w, cut_w, 0);
      check_weighted(x, cut, w, cut_w, {0, 2});
      check_weighted(x, cut, w, cut_w, {});
      // One for each position of the axes, in the order that they are given in.
      const NdArray of_axis = local::abs(weights_of({21})[0]), of_two = weights_of({21, 15})[2] + 1;
      check_weighted(x, cut, of_axis, testing::cut(of_axis, random), -1);
      check_weighted(x, cut, of_two, testing::cut(of_two, random), {2, 0});
    }
  }
}

TEST(WeightedQuantiles, OfViewsAndOfWhatIsComputed) {
  const testing::SmallChunks small(128);
  std::mt19937 random(7);
  const NdArray x = local::default_rng(3).normal(0, 1, {40, 12}), w = local::default_rng(4).random({40, 12});
  const Array a = testing::cut(x, random), b = testing::cut(w, random);
  expect_equal(
      quantile(a("::-1"_s, "::2"_s) * 2, 0.4, 0, {.method = "inverted_cdf", .weights = (b + 1)("::-1"_s, "::2"_s)}),
      local::quantile(x("::-1"_s, "::2"_s) * 2, 0.4, 0,
                      {.method = "inverted_cdf", .weights = (w + 1)("::-1"_s, "::2"_s)}),
      "of views");
  const NdArray line{3., 1., 2.}, none{0., 0., 1.}, q = local::linspace(0, 1, 70);
  const testing::SmallChunks one(8);
  expect_equal(
      quantile(testing::cut(line, random), q, {}, {.method = "inverted_cdf", .weights = Array::from_local(none)}),
      local::quantile(line, q, {}, {.method = "inverted_cdf", .weights = none}), "70 quantiles");
}

// Quantiles that are the shares themselves: a sum that is rounded otherwise gives the next element.
TEST(WeightedQuantiles, HaveTheBitsOfSumsInOrder) {
  const testing::SmallChunks small(256);
  std::mt19937 random(9);
  constexpr int64_t n = 2000;
  const NdArray x = local::default_rng(5).permutation(n), w = local::default_rng(6).lognormal(0, 2, n);
  const NdArray sums = local::cumsum(local::take(w, local::argsort(x)));
  const NdArray q = sums / sums[{n - 1}];
  expect_equal(quantile(testing::cut(x, random), q, {}, {.method = "inverted_cdf", .weights = testing::cut(w, random)}),
               local::quantile(x, q, {}, {.method = "inverted_cdf", .weights = w}), "of float64");
  expect_equal(quantile(testing::cut(x, random), q, {}, {.method = "inverted_cdf", .weights = testing::cut(w, random)}),
               local::arange(n), "elements in order");
}

// NaN has its place at the end, or none; so has what it weighs.
TEST(WeightedQuantiles, OfNan) {
  const testing::SmallChunks small(64);
  std::mt19937 random(8);
  NdArray x = local::default_rng(3).normal(0, 1, {3, 50});
  x[{1, local::Slice{5, 40, {}}}].fill(kNan);
  x[{2}].fill(kNan);
  NdArray w = local::default_rng(4).random({3, 50});
  const Array cut = testing::cut(x, random);
  check_weighted(x, cut, w, testing::cut(w, random), 1);
  check_weighted(x, cut, w, testing::cut(w, random), {});
  // Weights of NaN do not count where NaN are left out.
  w[{1, 7}].fill(kNan);
  const QuantileOptions options{.method = "inverted_cdf", .weights = testing::cut(w, random)};
  expect_equal(nanquantile(cut, 0.6, 1, options),
               local::nanquantile(x, 0.6, 1, {.method = "inverted_cdf", .weights = w}), "NaN left out");
  EXPECT_THROW(quantile(cut, 0.6, 1, options), local::InvalidArgument);
}

TEST(WeightedQuantiles, InLittleMemory) {
  const int64_t n = 300000;
  const NdArray x = local::default_rng(2).standard_normal(n), w = local::default_rng(3).random(n);
  const NdArray q{0., 0.1, 0.5, 0.999, 1.}, lines = x.reshape({3, n / 3}), narrow = w.astype(f32);
  for (const char* budget : {"5MiB", "16MiB"}) {
    const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu, budget));
    const Array a = random::default_rng(2).standard_normal({n}), b = random::default_rng(3).random({n});
    expect_equal(quantile(a, q, {}, {.method = "inverted_cdf", .weights = b}),
                 local::quantile(x, q, {}, {.method = "inverted_cdf", .weights = w}), budget);
    expect_equal(quantile(reshape(a, {3, n / 3}), q, 1, {.method = "inverted_cdf", .weights = reshape(b, {3, n / 3})}),
                 local::quantile(lines, q, 1, {.method = "inverted_cdf", .weights = w.reshape({3, n / 3})}), budget);
    expect_equal(quantile(reshape(a, {300, n / 300}), 0.3, 1,
                          {.method = "inverted_cdf", .weights = b[local::Slice{0, n / 300, {}}]}),
                 local::quantile(x.reshape({300, n / 300}), 0.3, 1,
                                 {.method = "inverted_cdf", .weights = w[{local::Slice{0, n / 300, {}}}]}),
                 budget);
    EXPECT_LE(runtime.statistics().peak_device_bytes, runtime.memory_bytes());
  }
}

TEST(WeightedQuantiles, RefuseWhatTheLocalOnesRefuse) {
  for (const int64_t bytes : {64, 65536}) {
    const testing::SmallChunks small(bytes);
    const Array x = arange(100.).rechunk({9}), z = x * std::complex<double>(0, 1);
    const auto with = [](const Array& weights) {
      return QuantileOptions{.method = "inverted_cdf", .weights = weights};
    };
    EXPECT_THROW(quantile(x, 0.5, {}, with(x - 1)), local::InvalidArgument);
    EXPECT_THROW(quantile(x, 0.5, {}, with(x * 0)), local::InvalidArgument);
    EXPECT_THROW(quantile(x, 0.5, {}, with(x / 0)), local::InvalidArgument);
    EXPECT_THROW(quantile(x, 0.5, {}, with(arange(99.))), local::Error);
    EXPECT_THROW(quantile(x, 0.5, {}, with(z)), local::TypeError);
    EXPECT_THROW(quantile(z, 0.5, {}, with(x)), local::TypeError);
    EXPECT_THROW(quantile(x, 1.5, {}, with(x)), local::InvalidArgument);
    EXPECT_THROW(quantile(x, 0.5, 1, with(x)), local::IndexError);
    EXPECT_THROW(quantile(x, 0.5, {}, {.weights = x}), local::InvalidArgument);
    EXPECT_THROW(quantile(x, 0.5, {}, {.out = x, .method = "inverted_cdf", .weights = x}), local::TypeError);
  }
}

TEST(Quantiles, RefuseWhatTheLocalOnesRefuse) {
  const testing::SmallChunks small(64);
  const Array x = arange(100.), z = x * std::complex<double>(0, 1);
  EXPECT_THROW(percentile(x, 101), local::InvalidArgument);
  EXPECT_THROW(quantile(x, -0.1), local::InvalidArgument);
  EXPECT_THROW(quantile(x, 0.5, 1), local::IndexError);
  EXPECT_THROW(quantile(x, 0.5, {}, {.method = "middle"}), local::InvalidArgument);
  EXPECT_THROW(quantile(x, 0.5, {}, {.out = x}), local::TypeError);
  EXPECT_THROW(median(x, {}, x), local::TypeError);
  EXPECT_THROW(quantile(z, 0.5), local::Error);
  EXPECT_THROW(quantile(x > 3, 0.5), local::TypeError);
}

}  // namespace
}  // namespace quarry
