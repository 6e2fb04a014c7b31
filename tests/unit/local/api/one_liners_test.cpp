// Every line of one_liners.def compiles and gives what NumPy gives for the line beside it.
#include <gtest/gtest.h>

#include "quarry/local/local.h"
#include "tests/support/one_liners.h"

namespace {

namespace ql = quarry::local;
using namespace quarry::names;

struct Arrays {
  ql::NdArray x = ql::arange(12.).reshape(3, 4), y = x * 7 % 5;
  ql::NdArray a{{4., 1., 0.}, {1., 3., 1.}, {0., 1., 2.}}, b{{1., 2., 0.}, {0., 1., 3.}, {2., 0., 1.}};
  ql::NdArray v{1., 3., 2., 4.}, w{0.5, 1., 2., 0.25}, i{2, 0, 1}, k{5, 2, 9, 2, 7, 5}, n{1., ql::nan, 3., ql::inf};
  ql::NdArray z = ql::array({std::complex<double>(1, 2), std::complex<double>(0, -1), 3});
  ql::NdArray m = x > 4;
};

class OneLiners : public testing::TestWithParam<ql::DeviceKind> {};

TEST_P(OneLiners, MeanWhatNumPyMeans) {
  if (!ql::available(GetParam())) GTEST_SKIP() << "no such device here";
  const ql::DeviceScope scope(ql::Device{GetParam(), 0});
  quarry::test::OneLiners lines("local");
#define QUARRY_CHAPTER(title)
#define QUARRY_LINE(line, ...)                                               \
  {                                                                          \
    const Arrays arrays;                                                     \
    [[maybe_unused]] const auto& [x, y, a, b, v, w, i, k, n, z, m] = arrays; \
    lines.check(line, __VA_ARGS__);                                          \
  }
#define QUARRY_DONE(line, changed, ...)                                      \
  {                                                                          \
    const Arrays arrays;                                                     \
    [[maybe_unused]] const auto& [x, y, a, b, v, w, i, k, n, z, m] = arrays; \
    __VA_ARGS__;                                                             \
    lines.check(line, changed);                                              \
  }
#include "tests/unit/local/api/one_liners.def"
#undef QUARRY_CHAPTER
#undef QUARRY_LINE
#undef QUARRY_DONE
  EXPECT_GE(lines.checked(), 200);
}

INSTANTIATE_TEST_SUITE_P(All, OneLiners,
                         testing::Values(ql::DeviceKind::cpu, ql::DeviceKind::emulated, ql::DeviceKind::cuda),
                         [](const auto& info) { return std::string(ql::name(info.param)); });

}  // namespace
