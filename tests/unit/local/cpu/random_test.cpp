#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/program/device_math.h"
#include "tests/support/shared_data.h"

namespace quarry::local {
namespace {

TEST(Random, PhiloxKnownAnswersSharedData) {
  const auto path = test::shared_data() / "random123/kat_vectors";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  std::ifstream file(path);
  std::string line;
  int checked = 0;
  while (std::getline(file, line)) {
    if (line.rfind("philox4x32 10 ", 0) != 0) continue;
    std::istringstream words(line.substr(14));
    uint32_t w[10];
    for (uint32_t& x : w) words >> std::hex >> x;
    const fn::philox_block block = fn::philox4x32_10(w[0], w[1], w[2], w[3], w[4], w[5]);
    for (int k = 0; k < 4; ++k) EXPECT_EQ(block.w[k], w[6 + k]) << line;
    ++checked;
  }
  EXPECT_EQ(checked, 3);
}

TEST(Random, PhiloxKnownAnswer) {
  // Of the same set: all zeros, and pi's digits as counter and key.
  const fn::philox_block zero = fn::philox4x32_10(0, 0, 0, 0, 0, 0);
  EXPECT_EQ(zero.w[0], 0x6627e8d5u);
  EXPECT_EQ(zero.w[3], 0x9b00dbd8u);
  const fn::philox_block pi = fn::philox4x32_10(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0);
  EXPECT_EQ(pi.w[1], 0x94fdccebu);
}

template <class T>
std::vector<T> draw(Op op, int64_t begin, int64_t count, uint64_t seed, uint64_t stream, DType dtype) {
  Program p;
  // Seeds above INT64_MAX keep their bits.
  const ValueId args[] = {p.index(0), p.constant(Scalar(seed), DType::uint64),
                          p.constant(Scalar(stream), DType::uint64)};
  p.output(p.apply(op, args, dtype));
  std::vector<T> out(static_cast<size_t>(count));
  Launch launch;
  launch.shape = {count};
  launch.index_offset = {begin};
  launch.outputs = {{out.data(), {sizeof(T)}}};
  ExecContext context;
  context.memory = &default_pool(kCpu);
  cpu_engine().run(p, launch, context);
  return out;
}

template <class T>
void check_positions(Op op, DType dtype, T (*of_index)(int64_t, uint64_t, uint64_t)) {
  const uint64_t seed = 0xfedcba9876543210ull, stream = 5;
  const int64_t far = (int64_t{1} << 40) + 3;
  for (int64_t begin : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1001}, far})
    for (int64_t count : {1, 2, 3, 7, 1500}) {
      const std::vector<T> values = draw<T>(op, begin, count, seed, stream, dtype);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(values[static_cast<size_t>(i)], of_index(begin + i, seed, stream)) << begin << " + " << i;
    }
}

TEST(Random, ValuesDependOnTheIndexOnly) {
  check_positions<uint32_t>("random_bits"_op, DType::uint32, &fn::random_bits<uint32_t>);
  check_positions<uint64_t>("random_bits"_op, DType::uint64, &fn::random_bits<uint64_t>);
  check_positions<float>("random_uniform"_op, DType::float32, &fn::random_uniform<float>);
  check_positions<double>("random_uniform"_op, DType::float64, &fn::random_uniform<double>);
  check_positions<float>("random_normal"_op, DType::float32, &fn::random_normal<float>);
  check_positions<double>("random_normal"_op, DType::float64, &fn::random_normal<double>);
}

// Samples of keys by the engine, with constant parameters or arrays of them.
template <class T>
std::vector<T> sample(Op op, DType dtype, const std::vector<uint64_t>& keys,
                      const std::vector<std::vector<T>>& arrays) {
  Program p;
  Launch launch;
  const auto n = static_cast<int64_t>(keys.size());
  launch.shape = {n};
  std::vector<uint64_t> own_keys = keys;
  std::vector<std::vector<T>> own = arrays;
  std::vector<ValueId> args{p.input(DType::uint64)};
  launch.inputs.push_back({own_keys.data(), {8}});
  for (std::vector<T>& values : own) {
    if (values.size() == 1) {
      args.push_back(p.constant(Scalar(values[0]), dtype));
      continue;
    }
    args.push_back(p.input(dtype));
    launch.inputs.push_back({values.data(), {sizeof(T)}});
  }
  p.output(p.apply(op, args, op == "random_hypergeometric"_op ? std::optional<DType>(dtype) : std::nullopt));
  std::vector<T> out(keys.size());
  launch.outputs = {{out.data(), {sizeof(T)}}};
  ExecContext context;
  context.memory = &default_pool(kCpu);
  cpu_engine().run(p, launch, context);
  return out;
}

template <class T>
auto bits_of(T value) {
  return std::bit_cast<std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>(value);
}

template <class T, class F>
void check_samples(Op op, DType dtype, const std::vector<std::vector<T>>& parameters, const F& function) {
  constexpr size_t kCount = 3001;
  std::vector<uint64_t> keys(kCount);
  for (size_t i = 0; i < kCount; ++i) keys[i] = fn::random_bits<uint64_t>(static_cast<int64_t>(i), 11, 12);
  const size_t count = parameters[0].size();
  std::vector<std::vector<T>> varying(count, std::vector<T>(kCount));
  for (const std::vector<T>& given : parameters) {
    std::vector<std::vector<T>> constants;
    for (const T& value : given) constants.push_back({value});
    const std::vector<T> out = sample<T>(op, dtype, keys, constants);
    for (size_t i = 0; i < kCount; ++i) {
      const T expected = function(keys[i], given);
      ASSERT_EQ(bits_of(out[i]), bits_of(expected))
          << name(dtype) << " operation " << static_cast<int>(op) << ": " << given[0] << " " << given.back();
    }
  }
  // Runs of parameters of many lengths.
  for (size_t i = 0; i < kCount; ++i) {
    const auto row = static_cast<size_t>(std::sqrt(static_cast<double>(i) * 7)) % parameters.size();
    for (size_t k = 0; k < count; ++k) varying[k][i] = parameters[row][k];
  }
  const std::vector<T> out = sample<T>(op, dtype, keys, varying);
  for (size_t i = 0; i < kCount; ++i) {
    std::vector<T> given;
    for (size_t k = 0; k < count; ++k) given.push_back(varying[k][i]);
    const T expected = function(keys[i], given);
    ASSERT_EQ(bits_of(out[i]), bits_of(expected)) << "operation " << static_cast<int>(op) << " at " << i;
  }
}

TEST(Random, SamplesAreThoseOfTheFunctions) {
  using Given = std::vector<double>;
  const double nan = std::nan("");
  check_samples<double>("random_gamma"_op, DType::float64, {{2.5}, {0.5}, {1}, {0.01}, {1e9}, {0}, {-1}, {nan}},
                        [](uint64_t key, const Given& g) { return fn::random_gamma(key, g[0]); });
  check_samples<double>("random_log_gamma"_op, DType::float64, {{2.5}, {0.5}, {1}, {1e-3}, {0}, {nan}},
                        [](uint64_t key, const Given& g) { return fn::random_log_gamma(key, g[0]); });
  check_samples<double>("random_poisson"_op, DType::float64, {{4}, {0}, {9.999}, {10}, {37}, {1e5}, {1e18}, {-1}},
                        [](uint64_t key, const Given& g) { return fn::random_poisson(key, g[0]); });
  check_samples<double>(
      "random_binomial"_op, DType::float64,
      {{40, 0.3}, {40, 0.7}, {5, 0.3}, {1, 1}, {0, 0.5}, {20, 0.5}, {1e6, 1e-6}, {1e15, 0.4}, {10, 0}, {10, nan}},
      [](uint64_t key, const Given& g) { return fn::random_binomial(key, g[0], g[1]); });
  check_samples<double>("random_zipf"_op, DType::float64, {{2}, {1.01}, {30}, {1000}, {2000}, {1}},
                        [](uint64_t key, const Given& g) { return fn::random_zipf(key, g[0]); });
  check_samples<double>("random_von_mises"_op, DType::float64,
                        {{4}, {1e-9}, {1e-6}, {1e-5}, {0.3}, {1e5}, {1e7}, {nan}},
                        [](uint64_t key, const Given& g) { return fn::random_von_mises(key, g[0]); });
  const auto both = [](int64_t good, int64_t bad) { return good << 32 | bad; };
  check_samples<int64_t>(
      "random_hypergeometric"_op, DType::int64,
      {{both(20, 30), 10},
       {both(30, 20), 45},
       {both(30, 20), 60},
       {both(5, 5), 3},
       {both(0, 40), 12},
       {both(999999999, 999999999), 1000000000},
       {both(5000, 3000), 7000}},
      [](uint64_t key, const std::vector<int64_t>& g) { return fn::random_hypergeometric<int64_t>(key, g[0], g[1]); });
}

TEST(Random, UniformsAreTheBitsScaled) {
  const std::vector<uint32_t> w = draw<uint32_t>("random_bits"_op, 0, 100, 7, 1, DType::uint32);
  const std::vector<float> u = draw<float>("random_uniform"_op, 0, 100, 7, 1, DType::float32);
  const std::vector<uint64_t> w64 = draw<uint64_t>("random_bits"_op, 0, 100, 7, 1, DType::uint64);
  const std::vector<double> u64 = draw<double>("random_uniform"_op, 0, 100, 7, 1, DType::float64);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(u[i], static_cast<float>(w[i] >> 8) * 0x1p-24f);
    EXPECT_EQ(u64[i], static_cast<double>(w64[i] >> 11) * 0x1p-53);
  }
}

TEST(Random, NormalsHaveTheirMoments) {
  const int64_t n = 1 << 20;
  const std::vector<double> x = draw<double>("random_normal"_op, 0, n, 42, 0, DType::float64);
  const std::vector<float> y = draw<float>("random_normal"_op, 0, n, 42, 1, DType::float32);
  const auto moments = [&](const auto& values) {
    double m[4] = {};
    for (double v : values) m[0] += v, m[1] += v * v, m[2] += v * v * v, m[3] += v * v * v * v;
    const double count = static_cast<double>(n);
    EXPECT_NEAR(m[0] / count, 0, 5e-3);
    EXPECT_NEAR(m[1] / count, 1, 7e-3);
    EXPECT_NEAR(m[2] / count, 0, 2e-2);
    EXPECT_NEAR(m[3] / count, 3, 5e-2);
  };
  moments(x);
  moments(y);
}

TEST(Random, SharedFunctionsAreAccurate) {
  for (int i = 0; i < 100000; ++i) {
    const double t = (i + 0.37) / 100000.0;
    const fn::sincos_pair<double> turn = fn::shared_sincos_turns(t);
    const long double angle = 2 * 3.14159265358979323846264338327950288L * t;
    EXPECT_NEAR(turn.sine, static_cast<double>(sinl(angle)), 3e-16);
    EXPECT_NEAR(turn.cosine, static_cast<double>(cosl(angle)), 3e-16);
    const double l = static_cast<double>(logl(t));
    EXPECT_NEAR(fn::shared_log(t), l, 4e-16 * std::abs(l) + 1e-18);
    const float tf = static_cast<float>(t), lf = static_cast<float>(std::log(static_cast<double>(tf)));
    EXPECT_NEAR(fn::shared_log(tf), lf, 3e-7f * std::abs(lf) + 1e-9f);
    const double part = (t - 0.5) * (M_PI / 2);
    const float partf = static_cast<float>(part);
    const fn::sincos_pair<float> of = fn::shared_sincos(partf);
    EXPECT_NEAR(of.sine, std::sin(static_cast<double>(partf)), 8e-8 * std::abs(part) + 1e-12);
    EXPECT_NEAR(of.cosine, std::cos(static_cast<double>(partf)), 8e-8);
  }
}

TEST(Random, IntegersStayInRangeAndReachIt) {
  Program p;
  const ValueId bits_args[] = {p.index(0), p.constant(Scalar(3), DType::uint64), p.constant(Scalar(4), DType::uint64)};
  const ValueId args[] = {p.apply("random_bits"_op, bits_args, DType::uint64), p.constant(Scalar(-3), DType::int64),
                          p.constant(Scalar(4), DType::int64)};
  p.output(p.apply("random_integers"_op, args));
  std::vector<int64_t> out(70000);
  Launch launch;
  launch.shape = {70000};
  launch.outputs = {{out.data(), {8}}};
  ExecContext context;
  context.memory = &default_pool(kCpu);
  cpu_engine().run(p, launch, context);
  int counts[7] = {};
  for (int64_t v : out) {
    ASSERT_GE(v, -3);
    ASSERT_LT(v, 4);
    ++counts[v + 3];
  }
  for (int c : counts) EXPECT_NEAR(c, 10000, 500);
}

}  // namespace
}  // namespace quarry::local
