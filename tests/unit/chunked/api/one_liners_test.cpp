// Every line of one_liners.def compiles for chunked arrays and gives what NumPy gives for the line beside it; and what
// is written over both kinds of array compiles and agrees for both.
#include <gtest/gtest.h>

#include <sstream>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/one_liners.h"
#include "tests/support/runtime_on.h"

namespace {

namespace qy = quarry;
namespace ql = quarry::local;
using namespace quarry::names;
using namespace std::complex_literals;

qy::Array cut(const ql::NdArray& array, const ql::Dims& chunk) { return qy::Array::from_local(array).rechunk(chunk); }

struct Arrays {
  qy::Array x = cut(ql::arange(12.).reshape(3, 4), {2, 3}), y = cut((ql::arange(12.) * 7 % 5).reshape(3, 4), {2, 3});
  qy::Array a = cut({{4., 1., 0.}, {1., 3., 1.}, {0., 1., 2.}}, {2, 2});
  qy::Array v = cut({1., 3., 2., 4.}, {3}), w = cut({0.5, 1., 2., 0.25}, {3});
  qy::Array k = cut({5, 2, 9, 2, 7, 5}, {3}), n = cut({1., ql::nan, 3., ql::inf}, {3});
  qy::Array z = cut({std::complex<double>(1, 2), std::complex<double>(0, -1), 3}, {2});
  qy::Array m = x > 4;
};

// One-element results of both kinds, arrays, and what is no array at all.
quarry::test::LineValue line_value(const qy::Array& array) { return array.to_host(); }
quarry::test::LineValue line_value(const qy::ArrayList& arrays) { return line_value(qy::Array(arrays)); }
template <class T>
quarry::test::LineValue line_value(const T& value) {
  return value;
}

class ChunkedOneLiners : public testing::TestWithParam<ql::DeviceKind> {};

TEST_P(ChunkedOneLiners, MeanWhatNumPyMeans) {
  if (!ql::available(GetParam())) GTEST_SKIP() << "no such device here";
  const qy::Runtime runtime(quarry::testing::runtime_on(GetParam()));
  quarry::test::OneLiners lines("chunked");
  const Arrays arrays;
  [[maybe_unused]] const auto& [x, y, a, v, w, k, n, z, m] = arrays;
#define QUARRY_CHAPTER(title)
#define QUARRY_LINE(line, ...) lines.check(line, line_value(__VA_ARGS__));
#define QUARRY_DONE(line, changed, ...)                         \
  {                                                             \
    Arrays fresh;                                               \
    [[maybe_unused]] auto& [x, y, a, v, w, k, n, z, m] = fresh; \
    __VA_ARGS__;                                                \
    lines.check(line, line_value(changed));                     \
  }
#include "tests/unit/chunked/api/one_liners.def"
#undef QUARRY_CHAPTER
#undef QUARRY_LINE
#undef QUARRY_DONE
  EXPECT_GE(lines.checked(), 300);
}

// Written once, for arrays of one process and chunked ones.
template <class A>
A standardised(const A& x) {
  return (x - x.mean(0)) / x.std({.axis = 0, .ddof = 1});
}
template <class A>
double log_likelihood(const A& x) {
  return -0.5 * (log(square(x(_, slice(1, none))) + 1) + abs(x(_, newaxis, 0))).mean();
}

template <class A>
A repaired(A x) {
  x[isnan(x)] = 0.;
  x("1:"_s, 0) += 1;
  x[x > 0.5] *= 2;
  x(0, "::-1"_s) = x(1, _);
  return x;
}

TEST_P(ChunkedOneLiners, OneTemplateTakesBothKinds) {
  if (!ql::available(GetParam())) GTEST_SKIP() << "no such device here";
  const qy::Runtime runtime(quarry::testing::runtime_on(GetParam()));
  const ql::NdArray local = ql::sin(ql::arange(12.)).reshape(4, 3);
  const qy::Array chunked = cut(local, {2, 2});
  EXPECT_TRUE(ql::allclose(standardised(local), standardised(chunked).to_host(), 1e-13, 1e-13));
  EXPECT_NEAR(log_likelihood(local), log_likelihood(chunked), 1e-13);
  const ql::NdArray holes = ql::where(local > 0.9, ql::nan, local);
  const qy::Array chunked_holes = cut(holes, {2, 2});
  EXPECT_TRUE(ql::allclose(repaired(holes.copy()), repaired(chunked_holes).to_host(), 1e-13, 1e-13));
  EXPECT_TRUE(ql::isnan(chunked_holes.to_host()).any());
}

TEST(ChunkedArray, PrintsWhatItIsAndComputesNothing) {
  std::ostringstream text;
  text << qy::zeros({6, 4}, f32).rechunk({4, 4});
  EXPECT_EQ(text.str(), "Array(shape=(6, 4), dtype=float32, chunks=" +
                            qy::zeros({6, 4}).rechunk({4, 4}).chunks().to_string() + ")");
}

TEST(ChunkedArray, OptionsOfReductionsSayWhatTheyAreFor) {
  const qy::Array x = qy::arange(4);
  EXPECT_THROW(x.sum(0, {.axis = 0}), ql::TypeError);
  EXPECT_THROW(x.sum({.ddof = 1}), ql::TypeError);
  EXPECT_THROW(x.min({.where = x > 1}), ql::InvalidArgument);  // without an initial value
  EXPECT_EQ(static_cast<int64_t>(x.sum({.initial = 1, .where = x > 1})), 6);
}

INSTANTIATE_TEST_SUITE_P(All, ChunkedOneLiners,
                         testing::Values(ql::DeviceKind::cpu, ql::DeviceKind::emulated, ql::DeviceKind::cuda),
                         [](const auto& info) { return std::string(ql::name(info.param)); });

}  // namespace
