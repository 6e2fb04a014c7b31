// The numbers of a chunked generator are those of a local one of the same seed, for any chunks; so are the errors.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/local.h"
#include "tests/support/evaluate.h"
#include "tests/support/on_devices.h"
#include "tests/support/random_expressions.h"
#include "tests/support/runtime_on.h"

namespace quarry {
namespace {

using local::NdArray;
using Size = local::Size;

template <class A>
using Draws = std::vector<std::pair<std::string, A>>;

// Every distribution, with numbers and with `p` in (0, 1), an array that broadcasts to the size, as a parameter.
template <class A, class Generator>
Draws<A> draw_all(Generator& g, const Size& size, const A& p) {
  Draws<A> draws;
#define QUARRY_DRAW(...) draws.emplace_back(#__VA_ARGS__, __VA_ARGS__);
  QUARRY_DRAW(g.random(size))
  QUARRY_DRAW(g.random(size, f32))
  QUARRY_DRAW(g.integers(10, {}, size))
  QUARRY_DRAW(g.integers(-5, 9, size))
  QUARRY_DRAW(g.integers(-128, 127, size, i8, true))
  QUARRY_DRAW(g.integers(0, 256, size, u8))
  QUARRY_DRAW(g.integers(0, std::numeric_limits<uint64_t>::max(), size, u64, true))
  QUARRY_DRAW(g.integers(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), size, i64, true))
  QUARRY_DRAW(g.integers(0, 2, size, DType::bool_))
  QUARRY_DRAW(g.integers(p * 3 - 4, p * 2 + 7, size))
  QUARRY_DRAW(g.uniform(-2, 3.5, size))
  QUARRY_DRAW(g.uniform(p - 1, p + 1, size, f32))
  QUARRY_DRAW(g.standard_normal(size))
  QUARRY_DRAW(g.standard_normal(size, f32))
  QUARRY_DRAW(g.normal(1, 3, size))
  QUARRY_DRAW(g.normal(p, p, size))
  QUARRY_DRAW(g.standard_exponential(size))
  QUARRY_DRAW(g.standard_exponential(size, f32, "inv"))
  QUARRY_DRAW(g.exponential(2.5, size))
  QUARRY_DRAW(g.exponential(p, size))
  QUARRY_DRAW(g.standard_gamma(0.5, size))
  QUARRY_DRAW(g.standard_gamma(p, size, f32))
  QUARRY_DRAW(g.gamma(3, 2, size))
  QUARRY_DRAW(g.gamma(p * 4, p, size))
  QUARRY_DRAW(g.beta(2, 3, size))
  QUARRY_DRAW(g.beta(p, 0.25, size))
  QUARRY_DRAW(g.chisquare(3, size))
  QUARRY_DRAW(g.f(3, p * 8, size))
  QUARRY_DRAW(g.gumbel(1, 2, size))
  QUARRY_DRAW(g.laplace(p, 2, size, f32))
  QUARRY_DRAW(g.logistic(0, 1, size))
  QUARRY_DRAW(g.lognormal(0.5, 0.25, size))
  QUARRY_DRAW(g.noncentral_chisquare(3, p, size))
  QUARRY_DRAW(g.noncentral_f(3, 4, 0.5, size))
  QUARRY_DRAW(g.pareto(3, size))
  QUARRY_DRAW(g.power(p, size))
  QUARRY_DRAW(g.rayleigh(2, size))
  QUARRY_DRAW(g.standard_cauchy(size))
  QUARRY_DRAW(g.standard_t(5, size))
  QUARRY_DRAW(g.triangular(-1, p, 2, size))
  QUARRY_DRAW(g.vonmises(1, p * 3, size))
  QUARRY_DRAW(g.wald(2, p, size))
  QUARRY_DRAW(g.weibull(0, size))
  QUARRY_DRAW(g.weibull(p * 2, size))
  QUARRY_DRAW(g.binomial(12, 0.25, size))
  QUARRY_DRAW(g.binomial(1000, p, size))
  QUARRY_DRAW(g.geometric(p, size))
  QUARRY_DRAW(g.hypergeometric(20, 30, 15, size))
  QUARRY_DRAW(g.logseries(p, size))
  QUARRY_DRAW(g.negative_binomial(4, p, size))
  QUARRY_DRAW(g.poisson(3.5, size))
  QUARRY_DRAW(g.poisson(p * 100, size))
  QUARRY_DRAW(g.zipf(p + 1.5, size))
  QUARRY_DRAW(g.multinomial(20, A{0.2, 0.3, 0.5}, size))
  QUARRY_DRAW(g.multinomial(7, A{1.}, size))
  QUARRY_DRAW(g.multivariate_hypergeometric({3, 4, 5}, 6, size))
  QUARRY_DRAW(g.choice(7, size))
  QUARRY_DRAW(g.choice(3, size, true, A{0.2, 0.3, 0.5}))
  QUARRY_DRAW(g.choice(A{3., 1., 4.}, size))
#undef QUARRY_DRAW
  return draws;
}

void expect_same_bits(const NdArray& chunked, const NdArray& local) {
  ASSERT_EQ(chunked.dtype(), local.dtype());
  ASSERT_EQ(chunked.shape(), local.shape());
  const NdArray packed = local.copy();
  if (local.size() > 0) {
    EXPECT_EQ(std::memcmp(chunked.raw(), packed.raw(), static_cast<size_t>(packed.nbytes())), 0)
        << chunked.to_string() << "\n"
        << packed.to_string();
  }
}

class GeneratorOnDevices : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(GeneratorOnDevices);

TEST_P(GeneratorOnDevices, GivesTheLocalNumbersOnAnyChunks) {
  const Runtime runtime(testing::runtime_on(GetParam(), "256MiB"));
  // A GPU compiles a kernel for every distribution and form of its parameters.
  const std::vector<Dims> shapes = GetParam() == local::DeviceKind::cuda
                                       ? std::vector<Dims>{{}, {37, 11}}
                                       : std::vector<Dims>{{}, {1}, {0}, {3, 0, 2}, {37, 11}, {5, 4, 6}};
  for (const Dims& shape : shapes) {
    for (const int64_t bytes : {int64_t{24}, int64_t{200}, int64_t{1} << 20}) {
      if (bytes == 24 && local::element_count(shape) > 100) continue;
      const testing::SmallChunks small(bytes);
      local::Generator l(17);
      random::Generator c(17);
      const NdArray p = local::linspace(0.1, 0.9, shape.empty() ? 1 : shape.back());
      const Size size = local::Ints(shape);
      const NdArray local_p = shape.empty() ? p.reshape(Dims{}) : p;
      const Draws<NdArray> expected = draw_all<NdArray>(l, size, local_p);
      const Draws<Array> lazy = draw_all<Array>(c, size, Array::from_local(local_p));
      std::vector<Array> arrays;
      for (const auto& draw : lazy) arrays.push_back(draw.second);
      const std::vector<NdArray> got = to_host(arrays);
      for (size_t i = 0; i < got.size(); ++i) {
        SCOPED_TRACE(lazy[i].first + " " + local::to_string(shape) + ", chunks of " + std::to_string(bytes));
        expect_same_bits(got[i], expected[i].second.to(local::Device{}));
      }
      EXPECT_EQ(c.bit_generator().offset, l.bit_generator().offset);
    }
  }
}

TEST(Generator, TakesTheShapeOfItsParameters) {
  const testing::SmallChunks small(32);
  const NdArray mean = local::arange(3.).reshape({3, 1}), scale = local::arange(5.);
  random::Generator c(1);
  local::Generator l(1);
  expect_same_bits(c.normal(mean, scale).to_host(), l.normal(mean, scale));
  EXPECT_EQ(c.poisson(Array::from_local(scale)).shape(), (Dims{5}));
  EXPECT_EQ(c.normal().shape(), Dims{});
}

TEST(Generator, DrawsVectorsAsTheLocalOne) {
  const testing::SmallChunks small(80);
  random::Generator c(3);
  local::Generator l(3);
  const NdArray alpha{0.5, 2., 7.}, mean{1., -1.}, cov{{2., 0.5}, {0.5, 1.}};
  EXPECT_TRUE(testing::close(c.dirichlet(Array::from_local(alpha), {9, 2}).to_host(), l.dirichlet(alpha, {9, 2}), 1e-14,
                             1e-15));
  EXPECT_TRUE(testing::close(c.multivariate_normal(Array::from_local(mean), Array::from_local(cov), 20).to_host(),
                             l.multivariate_normal(mean, cov, 20), 1e-13, 1e-13));
  const NdArray trials = local::arange(4).reshape({4, 1}), pvals{{0.25, 0.75}, {0.5, 0.5}, {1., 0.}};
  expect_same_bits(c.multinomial(trials, Array::from_local(pvals)).to_host(), l.multinomial(trials, pvals));
  expect_same_bits(c.permutation(10).to_host(), l.permutation(10));
  expect_same_bits(c.permutation(Array::from_local(cov), 1).to_host(), l.permutation(cov, 1));
  expect_same_bits(c.choice(10, {2, 3}, false).to_host(), l.choice(10, {2, 3}, false));
  EXPECT_EQ(c.bit_generator().offset, l.bit_generator().offset);
}

TEST(Generator, SpawnsAndAdvancesAsTheLocalOne) {
  random::Generator c = random::default_rng(local::SeedSequence({1, 2}));
  local::Generator l = local::default_rng(local::SeedSequence({1, 2}));
  EXPECT_EQ(c.seed(), l.seed());
  random::Generator child = c.spawn(2)[1];
  local::Generator other = l.spawn(2)[1];
  child.advance(3);
  other.advance(3);
  expect_same_bits(child.random(5).to_host(), other.random(5));
  EXPECT_EQ(random::default_rng(5).seed(), 5u);
  EXPECT_NO_THROW(random::default_rng().random(2).to_host());
}

// What a call throws; empty: nothing.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const local::Error& error) {
    return error.what();
  }
  return {};
}

TEST(Generator, RefusesWhatTheLocalOneRefuses) {
  random::Generator c(1);
  local::Generator l(1);
  const NdArray nan_mean{1., std::numeric_limits<double>::quiet_NaN()}, mixed{0.5, -1.}, large{0.5, 1e30};
#define QUARRY_REFUSED(...)                               \
  {                                                       \
    const std::string expected = error_of([&, &g = l]() { \
      using A = NdArray;                                  \
      (void)sizeof(A);                                    \
      __VA_ARGS__;                                        \
    }),                                                   \
                      got = error_of([&, &g = c]() {      \
                        using A = Array;                  \
                        (void)sizeof(A);                  \
                        __VA_ARGS__;                      \
                      });                                 \
    EXPECT_NE(expected, "") << #__VA_ARGS__;              \
    EXPECT_EQ(got, expected) << #__VA_ARGS__;             \
  }
  QUARRY_REFUSED(g.integers(3, 3, 2))
  QUARRY_REFUSED(g.integers(0, 300, 2, i8))
  QUARRY_REFUSED(g.integers(-1, 3, 2, u8))
  QUARRY_REFUSED(g.integers(0, 3, 2, f32))
  QUARRY_REFUSED(g.integers(A{1., 5.}, A{2., 3.}))
  QUARRY_REFUSED(g.normal(0, -1, 2))
  QUARRY_REFUSED(g.normal(nan_mean, 1))
  QUARRY_REFUSED(g.normal(0, mixed))
  QUARRY_REFUSED(g.normal(std::complex<double>(0, 1), 1))
  QUARRY_REFUSED(g.normal(0, 1, 2, DType::int64))
  QUARRY_REFUSED(g.normal(A{1., 2., 3.}, 1, 2))
  QUARRY_REFUSED(g.uniform(0, 1, -2))
  QUARRY_REFUSED(g.uniform(2, 1))
  QUARRY_REFUSED(g.uniform(A{0., 3.}, 1))
  QUARRY_REFUSED(g.uniform(-1e308, 1e308))
  QUARRY_REFUSED(g.poisson(large))
  QUARRY_REFUSED(g.poisson(mixed))
  QUARRY_REFUSED(g.binomial(-1, 0.5))
  QUARRY_REFUSED(g.binomial(A{1.5}, 0.5))
  QUARRY_REFUSED(g.binomial(1, 1.5))
  QUARRY_REFUSED(g.geometric(0))
  QUARRY_REFUSED(g.hypergeometric(2, 3, 6))
  QUARRY_REFUSED(g.hypergeometric(A{2}, 3, 6))
  QUARRY_REFUSED(g.hypergeometric(2000000000, 3, 6))
  QUARRY_REFUSED(g.triangular(0, 3, 2))
  QUARRY_REFUSED(g.zipf(1))
  QUARRY_REFUSED(g.logseries(1))
  QUARRY_REFUSED(g.standard_exponential(2, DType::float64, "ziggurat"))
  QUARRY_REFUSED(g.multinomial(3, A{0.5, 0.75, 0.5}))
  QUARRY_REFUSED(g.multinomial(3, A{0.5, -1.}))
  QUARRY_REFUSED(g.multivariate_hypergeometric({3, 4}, 8))
  QUARRY_REFUSED(g.dirichlet(A{1., -1.}))
  QUARRY_REFUSED(g.multivariate_normal(A{1., 2.}, A{{1.}}))
  QUARRY_REFUSED(g.choice(0, 3))
  QUARRY_REFUSED(g.choice(3, 5, false))
  QUARRY_REFUSED(g.choice(3, 5, true, A{0.5, 0.5}))
  QUARRY_REFUSED(g.choice(3, 5, true, A{0.5, 0.5, 0.5}))
  QUARRY_REFUSED(g.advance(-100))
#undef QUARRY_REFUSED
  EXPECT_THROW(random::Generator{local::Sobol32()}, local::NotSupported);
  EXPECT_THROW(random::default_rng(-1), local::InvalidArgument);
  const testing::SmallChunks small(64);
  EXPECT_THROW(c.permutation(1000), local::NotSupported);
}

}  // namespace
}  // namespace quarry
