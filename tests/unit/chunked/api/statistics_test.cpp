// Statistics of chunked arrays are those of local ones, however the arrays are cut.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/cuts.h"
#include "tests/support/evaluate.h"

namespace quarry {
namespace {

using local::NdArray;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

template <class A>
using Results = std::vector<std::pair<std::string, A>>;

#define QUARRY_CASE(...) results.emplace_back(#__VA_ARGS__, __VA_ARGS__);

// With x of three axes, `w` for its last one, and a mask.
template <class A>
Results<A> nan_functions(const A& x, const A& m) {
  Results<A> results;
  QUARRY_CASE(nansum(x))
  QUARRY_CASE(nansum(x, 1))
  QUARRY_CASE(nansum(x, {0, 2}, {}, {}, true))
  QUARRY_CASE(nansum(x, {}, c128))
  QUARRY_CASE(nansum(x, 0, {}, {}, false, 2))
  QUARRY_CASE(nansum(x, -1, {}, {}, false, {}, m))
  QUARRY_CASE(nanprod(x, 1))
  QUARRY_CASE(nanprod(x, 2, {}, {}, true, 3, m))
  QUARRY_CASE(nanmin(x, 0, {}, false, 1))
  QUARRY_CASE(nanmax(x, {}, {}, false, 1, m))
  QUARRY_CASE(nanmean(x))
  QUARRY_CASE(nanmean(x, 1))
  QUARRY_CASE(nanmean(x, {0, 1}, {}, {}, true))
  QUARRY_CASE(nanmean(x, 2, {}, {}, false, m))
  QUARRY_CASE(nanvar(x))
  QUARRY_CASE(nanvar(x, 0))
  QUARRY_CASE(nanvar(x, {1, 2}, {}, {}, 1))
  QUARRY_CASE(nanstd(x, 2, {}, {}, 0, true))
  QUARRY_CASE(nanstd(x, 1, {}, {}, 0, false, m, {}, 1))
  QUARRY_CASE(nan_to_num(x))
  return results;
}

// Needs an element in every slice.
template <class A>
Results<A> extreme_functions(const A& x) {
  Results<A> results;
  QUARRY_CASE(nanmin(x))
  QUARRY_CASE(nanmin(x, 1))
  QUARRY_CASE(nanmax(x, {0, 2}, {}, true))
  QUARRY_CASE(nanmax(x, 0))
  QUARRY_CASE(ptp(x))
  QUARRY_CASE(ptp(x, {1, 2}))
  QUARRY_CASE(ptp(x, 0, {}, true))
  QUARRY_CASE(average(x))
  QUARRY_CASE(average(x, 1))
  QUARRY_CASE(average(x, 0, {}, returned).second)
  return results;
}

template <class A>
Results<A> positions(const A& x) {
  Results<A> results;
  QUARRY_CASE(nanargmin(x))
  QUARRY_CASE(nanargmax(x))
  QUARRY_CASE(nanargmin(x, 1))
  QUARRY_CASE(nanargmax(x, -1, {}, true))
  return results;
}

// x and y of two axes, v and w of the last one.
template <class A>
Results<A> averages(const A& x, const A& y, const A& v, const A& w, const A& f) {
  Results<A> results;
  QUARRY_CASE(average(x, 1, w))
  QUARRY_CASE(average(x, -1, w, true))
  QUARRY_CASE(average(x, 1, w, returned).second)
  QUARRY_CASE(average(x, {}, x * x + 1))
  QUARRY_CASE(average(x.T(), {1, 0}, x * x + 1))
  QUARRY_CASE(cov(x))
  QUARRY_CASE(cov(x, y))
  QUARRY_CASE(cov(x, {}, false))
  QUARRY_CASE(cov(x, y, false, true))
  QUARRY_CASE(cov(x, {}, true, false, 0))
  QUARRY_CASE(cov(x, {}, true, false, {}, f))
  QUARRY_CASE(cov(x, y, true, false, {}, {}, w))
  QUARRY_CASE(cov(x, {}, true, true, 2, f, w))
  QUARRY_CASE(cov(x, {}, true, false, {}, {}, {}, f32))
  QUARRY_CASE(cov(v))
  QUARRY_CASE(cov(v, v * 2 - 1))
  QUARRY_CASE(corrcoef(x))
  QUARRY_CASE(corrcoef(x, y))
  QUARRY_CASE(corrcoef(x, {}, false))
  QUARRY_CASE(corrcoef(v))
  QUARRY_CASE(cov(x + y * std::complex<double>(0, 1)))
  QUARRY_CASE(corrcoef(x + y * std::complex<double>(0, 1)))
  const auto total = [](const A& a, int64_t axis) { return sum(a, axis); };
  QUARRY_CASE(apply_over_axes(total, x, {0, -1}))
  return results;
}
#undef QUARRY_CASE

void compare(const Results<Array>& lazy, const Results<NdArray>& expected, const std::string& what,
             double tolerance = 1e-12) {
  std::vector<Array> arrays;
  for (const auto& result : lazy) arrays.push_back(result.second);
  const std::vector<NdArray> got = to_host(arrays);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].dtype(), expected[i].second.dtype()) << lazy[i].first << " " << what;
    EXPECT_TRUE(testing::close(got[i], expected[i].second, tolerance, tolerance))
        << lazy[i].first << " of " << what << "\n"
        << got[i].to_string() << "\nlocally " << expected[i].second.to_string();
  }
}

NdArray with_nans(NdArray x, std::mt19937& random) {
  for (int64_t i = 0; i < x.size() / 3; ++i)
    x.ravel()[static_cast<int64_t>(random() % static_cast<size_t>(x.size()))].fill(kNan);
  return x;
}

TEST(NanFunctions, AreTheLocalOnesOnAnyChunks) {
  std::mt19937 random(5);
  for (const Dims& shape : {Dims{5, 4, 7}, Dims{1, 1, 1}, Dims{3, 9, 2}, Dims{0, 3, 2}}) {
    const NdArray numbers = local::default_rng(2).normal(1, 2, local::Ints(shape));
    for (const DType dtype : {f64, f32, f16, i32, c128}) {
      NdArray x = numbers.astype(dtype);
      if (dtype == DType::complex128) x = x * std::complex<double>(1, 0.5);
      if (dtype != DType::int32 && x.size() > 1) x = with_nans(x, random);
      const NdArray m = numbers < 2;
      const auto expected = nan_functions(x, m);
      for (const Array& cut : testing::cuts(x, random)) {
        const std::string what = x.to_string() + " " + cut.repr();
        compare(nan_functions(cut, Array::from_local(m)), expected, what,
                dtype == DType::float16   ? 1e-2
                : dtype == DType::float32 ? 1e-5
                                          : 1e-12);
      }
    }
  }
}

TEST(NanFunctions, FindExtremesWhereverNaNsAre) {
  std::mt19937 random(6);
  for (const Dims& shape : {Dims{5, 4, 7}, Dims{2, 1, 3}}) {
    NdArray x = with_nans(local::default_rng(3).normal(1, 2, local::Ints(shape)), random);
    const NdArray full = local::where(local::isnan(x), 9., x);
    for (const Array& cut : testing::cuts(x, random)) compare(extreme_functions(cut), extreme_functions(x), cut.repr());
    const NdArray some = local::where(local::arange(shape[1]).reshape({shape[1], 1}) == 0, full, x);
    const NdArray found = local::where(local::arange(shape[2]) == 0, full, some);
    for (const Array& cut : testing::cuts(found, random)) compare(positions(cut), positions(found), cut.repr());
    for (const Array& cut : testing::cuts(full.astype(i64), random))
      compare(positions(cut), positions(full.astype(i64)), cut.repr());
  }
}

TEST(NanFunctions, RefuseWhatTheLocalOnesRefuse) {
  const Array nothing = zeros({0, 3}), missing = Array{{1., kNan}, {2., kNan}}.rechunk({1, 1});
  EXPECT_THROW(nanmin(nothing), local::InvalidArgument);
  EXPECT_THROW(nanmax(nothing, 0), local::InvalidArgument);
  EXPECT_EQ(nanmax(nothing, 1).shape(), (Dims{0}));
  EXPECT_THROW(nanargmax(missing, 0), local::InvalidArgument);
  EXPECT_EQ(nanargmax(missing, 1).to_host().to_string(),
            local::nanargmax(NdArray{{1., kNan}, {2., kNan}}, 1).to_string());
  EXPECT_THROW(nanargmin(nothing), local::InvalidArgument);
  EXPECT_THROW(nanmax(missing, 0, {}, false, {}, missing > 1), local::InvalidArgument);
  EXPECT_THROW(nansum(missing, {}, {}, missing), local::TypeError);
  EXPECT_THROW(nansum(missing, {}, {}, {}, false, {}, missing), local::TypeError);
  EXPECT_THROW(nanmean(missing, {}, i32), local::TypeError);
  EXPECT_THROW(nanvar(missing, 2), local::IndexError);
}

TEST(NanFunctions, ReplaceInfinities) {
  const NdArray x{1., kNan, kInf, -kInf}, z = x * std::complex<double>(1, 0);
  const Array c = Array::from_local(x).rechunk({1});
  EXPECT_EQ(nan_to_num(c).to_host().to_string(), local::nan_to_num(x).to_string());
  EXPECT_EQ(nan_to_num(c, true, 7, 8., -9).to_host().to_string(), local::nan_to_num(x, true, 7, 8., -9).to_string());
  EXPECT_EQ(nan_to_num(c.astype(f32)).to_host().to_string(), local::nan_to_num(x.astype(f32)).to_string());
  EXPECT_TRUE(testing::close(nan_to_num(Array::from_local(z)).to_host(), local::nan_to_num(z)));
}

TEST(Averages, AreTheLocalOnesOnAnyChunks) {
  std::mt19937 random(7);
  local::Generator g = local::default_rng(4);
  for (const Dims& shape : {Dims{4, 9}, Dims{2, 6}, Dims{7, 5}}) {
    const NdArray x = g.normal(5, 1, local::Ints(shape)), y = g.random(local::Ints(shape)), v = g.random(shape[1]),
                  w = g.random(shape[1]) + 0.5, f = g.integers(1, 4, shape[1]);
    const auto expected = averages(x, y, v, w, f);
    for (const Array& cut : testing::cuts(x, random))
      compare(averages(cut, testing::cut(y, random), testing::cut(v, random), testing::cut(w, random),
                       testing::cut(f, random)),
              expected, cut.repr(), 1e-6);
  }
  EXPECT_EQ(cov(zeros({0, 3})).shape(), (Dims{0, 0}));
}

TEST(Averages, RefuseWhatTheLocalOnesRefuse) {
  const Array x = arange(6.).reshape(2, 3);
  EXPECT_THROW(average(x, 1, Array{1., -1., 0.}), local::InvalidArgument);
  EXPECT_THROW(average(x, {}, Array{1., 1., 0.}), local::TypeError);
  EXPECT_THROW(average(x, 0, Array{1., 1., 0.}), local::InvalidArgument);
  EXPECT_THROW(average(zeros({0})(slice(0, 0), newaxis), 1), local::InvalidArgument);
  EXPECT_THROW(cov(zeros({2, 2, 2})), local::InvalidArgument);
  EXPECT_THROW(cov(x, {}, true, false, 0.5), local::InvalidArgument);
  EXPECT_THROW(cov(x, {}, true, false, {}, Array{1.5, 1., 1.}), local::TypeError);
  EXPECT_THROW(cov(x, {}, true, false, {}, Array{1, -1, 1}), local::InvalidArgument);
  EXPECT_THROW(cov(x, {}, true, false, {}, {}, Array{1., 1.}), local::InvalidArgument);
  EXPECT_THROW(cov(x, {}, true, false, {}, {}, {}, i32), local::TypeError);
  EXPECT_THROW(moment(x, -1), local::InvalidArgument);
  EXPECT_THROW(stats::f_oneway({x}), local::TypeError);
  EXPECT_THROW(stats::power_divergence(x, {}, 0, 0, "pearsn"), local::InvalidArgument);
  EXPECT_THROW(stats::chisquare(Array{1., 2.}, Array{1., 3.}), local::InvalidArgument);
  EXPECT_THROW(stats::ttest_1samp(x, Array{1., 2.}), local::InvalidArgument);
}

// The statistics of SciPy's functions by their formulas are in one_liners.def; here by any chunks.
TEST(Tests, DoNotDependOnChunks) {
  std::mt19937 random(8);
  const NdArray x = local::default_rng(5).gamma(2, 1, {23, 4}), y = local::default_rng(6).gamma(2, 1, {23, 4});
  std::vector<std::vector<NdArray>> all;
  const auto run = [](const Array& a, const Array& b) {
    std::vector<Array> values{stats::skew(a), stats::kurtosis(a, {}, true, false), stats::moment(a, 3),
                              moment(a, 4, 1)};
    for (const stats::TestResult& test :
         {stats::skewtest(a), stats::kurtosistest(a), stats::normaltest(a, {}), stats::chisquare(a),
          stats::power_divergence(a, {}, 1, 0, "cressie-read"), stats::f_oneway({a, b, a * 2}),
          stats::ttest_1samp(a, 2.), stats::ttest_ind(a, b), stats::ttest_ind(a, b, 0, false),
          stats::ttest_rel(a, b)}) {
      values.push_back(test.statistic);
      values.push_back(test.pvalue);
    }
    return to_host(values);
  };
  const std::vector<NdArray> whole = run(Array::from_local(x), Array::from_local(y));
  for (const Array& cut : testing::cuts(x, random)) {
    const std::vector<NdArray> got = run(cut, testing::cut(y, random));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(testing::close(got[i], whole[i], 1e-10, 1e-12)) << i;
  }
  EXPECT_TRUE(local::isnan(stats::skewtest(arange(5.)).pvalue.to_host()).item<bool>());
  EXPECT_TRUE(local::isnan(stats::skew(ones({5})).to_host()).item<bool>());
  EXPECT_TRUE(local::isnan(stats::ttest_ind(ones({0}), ones({3})).statistic.to_host()).item<bool>());
}

}  // namespace
}  // namespace quarry
