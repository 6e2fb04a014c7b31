// Creation, random numbers and local data, by value.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/random.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/base/error.h"
#include "tests/support/evaluate.h"
#include "tests/support/random_expressions.h"

namespace quarry {
namespace {

local::NdArray value(const Array& array) { return testing::evaluate(plan::make_plan({array.node()}, {}))[0]; }

template <class T>
std::vector<T> values(const Array& array) {
  const local::NdArray host = value(array);
  const T* data = host.data<T>();
  return std::vector<T>(data, data + host.size());
}

TEST(Creation, Arange) {
  EXPECT_EQ(values<int64_t>(arange(5)), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(values<int64_t>(arange(7, -3, -4)), (std::vector<int64_t>{7, 3, -1}));
  EXPECT_EQ(values<int64_t>(arange(3, 3)), std::vector<int64_t>{});
  EXPECT_EQ(values<double>(arange(0, 1, 0.25)), (std::vector<double>{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(values<float>(arange(0, 3, 1, DType::float32)), (std::vector<float>{0, 1, 2}));
  // NumPy counts with ceil((stop - start) / step), here 4, and takes the difference of the first two elements as the
  // step.
  EXPECT_EQ(values<double>(arange(1, 1.3, 0.1)), (std::vector<double>{1, 1.1, 1.2000000000000002, 1.3000000000000003}));
  EXPECT_THROW(arange(0, 5, 0), local::InvalidArgument);
  EXPECT_THROW(arange(0, std::nan("")), local::InvalidArgument);
  EXPECT_EQ(arange(0, int64_t{1} << 40).size(), int64_t{1} << 40);
}

TEST(Special, FunctionsOfScipy) {
  const Array x = arange(3);
  EXPECT_EQ(special::gammaln(x).dtype(), DType::float64);
  EXPECT_EQ(special::erf(arange(0, 3, 1, DType::float32)).dtype(), DType::float32);
  EXPECT_THROW(special::erf(zeros({2}, DType::complex128)), local::TypeError);
  const std::vector<double> got = values<double>(special::erf(x) + special::psi(x + 1));
  for (size_t i = 0; i < got.size(); ++i) {
    const double digamma = std::vector<double>{-0.57721566490153286, 0.42278433509846714, 0.92278433509846714}[i];
    EXPECT_NEAR(got[i], std::erf(static_cast<double>(i)) + digamma, 1e-15);
  }
  EXPECT_NEAR(values<double>(special::betainc(2, 3, full({1}, 0.5)))[0], 0.6875, 1e-15);
}

TEST(Creation, Linspace) {
  EXPECT_EQ(values<double>(linspace(0, 1, 5)), (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(values<double>(linspace(0, 1, 4, false)), (std::vector<double>{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(values<double>(linspace(3, 9, 1)), std::vector<double>{3});
  EXPECT_EQ(values<double>(linspace(3, 9, 0)), std::vector<double>{});
  EXPECT_EQ(values<int64_t>(linspace(0, 10, 4, true, DType::int64)), (std::vector<int64_t>{0, 3, 6, 10}));
  EXPECT_EQ(values<double>(linspace(0, 0.3, 4)).back(), 0.3);  // exactly
  EXPECT_THROW(linspace(0, 1, -1), local::InvalidArgument);
}

TEST(Creation, EyeAndFull) {
  EXPECT_EQ(values<double>(eye(2, 3, 1)), (std::vector<double>{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(values<int64_t>(eye(2, 2, -1, DType::int64)), (std::vector<int64_t>{0, 0, 1, 0}));
  EXPECT_EQ(full({2}, 3).dtype(), DType::int64);
  EXPECT_EQ(full({2}, true).dtype(), DType::bool_);
  EXPECT_EQ(values<float>(ones({2}, DType::float32)), (std::vector<float>{1, 1}));
  EXPECT_EQ(empty({0, 3}).size(), 0);
}

TEST(Creation, LocalDataComesBack) {
  const std::vector<double> data{1, 2, 3, 4, 5, 6};
  const local::NdArray host = local::from_vector(data, {2, 3});
  EXPECT_EQ(values<double>(Array::from_local(host)), data);
  EXPECT_EQ(values<double>(Array::from_local(host.T())), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(Array::from_local(host).node()->hash, Array::from_local(host.copy()).node()->hash);
}

TEST(Random, DoesNotDependOnChunks) {
  auto draw = [](int64_t chunk_bytes) {
    const testing::SmallChunks small(chunk_bytes);
    random::Generator generator(42);
    const Array u = generator.random({37, 11}), n = generator.standard_normal({37, 11}),
                i = generator.integers(-5, 9, {37, 11});
    return std::vector<local::NdArray>{value(u), value(n), value(i), value(n[{local::Slice{{}, {}, -3}}])};
  };
  const auto whole = draw(1 << 20), cut = draw(64);
  for (size_t k = 0; k < whole.size(); ++k)
    EXPECT_EQ(std::memcmp(whole[k].raw(), cut[k].raw(), static_cast<size_t>(whole[k].nbytes())), 0) << k;
  EXPECT_TRUE(testing::close(whole[1][{local::Slice{{}, {}, -3}}], whole[3], 0, 0));
}

TEST(Random, HasTheMomentsAndRangesAskedFor) {
  random::Generator generator(7);
  const std::vector<double> u = values<double>(generator.uniform(2, 4, {100000}));
  const std::vector<double> n = values<double>(generator.normal(1, 3, {100000}));
  const std::vector<int64_t> i = values<int64_t>(generator.integers(-2, 3, {100000}));
  double mean_u = 0, mean_n = 0, square_n = 0;
  int64_t counts[5] = {};
  for (double x : u) {
    ASSERT_TRUE(x >= 2 && x < 4);
    mean_u += x / 1e5;
  }
  for (double x : n) mean_n += x / 1e5;
  for (double x : n) square_n += (x - mean_n) * (x - mean_n) / 1e5;
  for (int64_t x : i) {
    ASSERT_TRUE(x >= -2 && x < 3);
    ++counts[x + 2];
  }
  EXPECT_NEAR(mean_u, 3, 0.01);  // five standard errors
  EXPECT_NEAR(mean_n, 1, 0.05);
  EXPECT_NEAR(std::sqrt(square_n), 3, 0.04);
  for (int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 20000, 700);
}

TEST(Random, EveryCallHasItsOwnStream) {
  random::Generator a(1), b(1), c(2);
  const auto first = values<double>(a.random(8)), second = values<double>(a.random(8));
  EXPECT_NE(first, second);
  EXPECT_EQ(values<double>(b.random(8)), first);
  EXPECT_NE(values<double>(c.random(8)), first);
  random::seed(1);
  EXPECT_EQ(values<double>(random::uniform({8})), first);
}

TEST(Random, RefusesNonsense) {
  random::Generator g(1);
  EXPECT_THROW(g.integers(3, 3, 2), local::InvalidArgument);
  EXPECT_THROW(g.integers(0, 300, 2, DType::int8), local::InvalidArgument);
  EXPECT_THROW(g.normal(0, -1, 2), local::InvalidArgument);
  EXPECT_THROW(g.uniform(0, 1, 2, DType::int64), local::TypeError);
  EXPECT_THROW(g.uniform(0, 1, -2), local::InvalidArgument);
}

}  // namespace
}  // namespace quarry
