// fuse(): the same arrays as the operations one by one, in as few kernels.
#include "quarry/local/ops/fuse/fuse.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "quarry/local/local.h"
#include "tests/support/on_devices.h"

namespace {

namespace ql = quarry::local;
using ql::Dims;
using ql::DType;
using ql::fuse;
using ql::NdArray;

class Fuse : public quarry::test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Fuse);

constexpr DType kDTypes[] = {
#define QUARRY_DTYPE(name, text, type, kind, compute) DType::name,
#include "quarry/local/base/dtype.def"
#undef QUARRY_DTYPE
};

// Numbers of every kind, as far as the dtype has them.
NdArray values(DType dtype, const Dims& shape, int seed = 0) {
  const double special[] = {0, 1, 2.5, -1.25, 3, -7, 100, 0.1, -0.0, 64, 5e-3, 11, -2, 17.75, 8, 6};
  std::vector<double> list(static_cast<size_t>(ql::element_count(shape)));
  for (size_t i = 0; i < list.size(); ++i) list[i] = special[(i * 7 + static_cast<size_t>(seed)) % 16];
  if (ql::is_float(dtype) && list.size() > 4) {
    list[3] = std::numeric_limits<double>::quiet_NaN();
    list[4] = std::numeric_limits<double>::infinity();
  }
  const NdArray x = ql::from_vector(list, shape);
  if (ql::is_complex(dtype)) return (x + x * std::complex<double>(0, 0.5)).astype(dtype);
  return ql::kind(dtype) == 'u' ? ql::absolute(x).astype(dtype) : x.astype(dtype);
}

// dtype, shape and every bit; any NaN is a NaN.
void expect_same(const NdArray& got, const NdArray& wanted, const std::string& what) {
  ASSERT_EQ(got.dtype(), wanted.dtype()) << what;
  ASSERT_EQ(got.shape(), wanted.shape()) << what;
  EXPECT_EQ(got.device(), wanted.device()) << what;
  EXPECT_TRUE(ql::array_equal(got, wanted, ql::is_float(got.dtype()) || ql::is_complex(got.dtype())))
      << what << "\n"
      << got.to_string() << "\n"
      << wanted.to_string();
  if (ql::is_float(got.dtype())) {
    EXPECT_TRUE(ql::array_equal(ql::signbit(got), ql::signbit(wanted))) << what << ": signs of zeros";
  }
}

// The results, or the same error.
void expect_alike(const std::function<NdArray()>& fused, const std::function<NdArray()>& plain,
                  const std::string& what) {
  NdArray wanted;
  try {
    wanted = plain();
  } catch (const ql::TypeError&) {
    EXPECT_THROW(fused(), ql::TypeError) << what;
    return;
  } catch (const ql::InvalidArgument&) {
    EXPECT_THROW(fused(), ql::InvalidArgument) << what;
    return;
  }
  expect_same(fused(), wanted, what);
}

constexpr bool has_dtype_of_arguments(ql::OpRule rule) {
  return rule != ql::OpRule::cast && rule != ql::OpRule::random && rule != ql::OpRule::bounded &&
         rule != ql::OpRule::sampler;
}

// Every ufunc of one and two arguments that takes the dtype, in a chain that is one program.
TEST_P(Fuse, EveryUfuncIsAsTheOperationsOneByOne) {
  for (const DType dtype : kDTypes) {
    const NdArray x = values(dtype, {2, 17}), y = values(dtype, {17}, 5);
#define QUARRY_TEST_1(f)                                                                                        \
  expect_alike([&] { return fuse([](auto a) { return ql::where(a == a, ql::ops::f(a), ql::ops::f(a)); })(x); }, \
               [&] { return ql::ops::f(x); }, fmt::format("{} {}", #f, ql::name(dtype)));
#define QUARRY_TEST_2(f)                                                                                           \
  expect_alike([&] { return fuse([](auto a, auto b) { return ql::ops::f(a, b); })(x, y); },                        \
               [&] { return ql::ops::f(x, y); }, fmt::format("{} {}", #f, ql::name(dtype)));                       \
  expect_alike([&] { return fuse([](auto a) { return ql::ops::f(a, 3); })(x); }, [&] { return ql::ops::f(x, 3); }, \
               fmt::format("{} {} with a literal", #f, ql::name(dtype)));
#define QUARRY_TEST_3(f)                                                                       \
  expect_alike([&] { return fuse([](auto a, auto b) { return ql::ops::f(a, 2, b); })(x, y); }, \
               [&] { return ql::ops::f(x, 2, y); }, fmt::format("{} {}", #f, ql::name(dtype)));
#define QUARRY_OP(f, aliases, arity, kinds, result, rule, ...) \
  if constexpr (has_dtype_of_arguments(ql::OpRule::rule)) {    \
    QUARRY_TEST_##arity(f)                                     \
  }
#define QUARRY_SPECIAL(f, ...) QUARRY_OP(special::f, __VA_ARGS__)
#include "quarry/local/program/ufunc.def"
#undef QUARRY_OP
  }
}

TEST_P(Fuse, DtypesPromoteAsNumPys) {
  for (const DType a : kDTypes)
    for (const DType b : kDTypes) {
      const NdArray x = values(a, {19}), y = values(b, {19}, 3);
      const auto f = [](const auto& p, const auto& q) { return p * q + 1; };
      expect_alike([&] { return fuse(f)(x, y); }, [&] { return f(x, y); },
                   fmt::format("{} {}", ql::name(a), ql::name(b)));
      const auto g = [](const auto& p, const auto& q) { return ql::where(p < q, p, 2.5 * q); };
      expect_alike([&] { return fuse(g)(x, y); }, [&] { return g(x, y); },
                   fmt::format("{} {}", ql::name(a), ql::name(b)));
    }
}

TEST_P(Fuse, ShapesBroadcastAndViewsAreRead) {
  const auto f = fuse([](auto x, auto y, auto z) { return x * y + z; });
  const NdArray x = values(DType::float64, {5, 1, 7}), y = values(DType::float64, {4, 7}, 2);
  expect_same(f(x, y, 2), x * y + 2, "broadcast");
  const NdArray reversed = y.T()[{ql::full_slice, ql::Slice{{}, {}, -1}, ql::newaxis}];
  expect_same(f(x.T(), reversed, 1.5), x.T() * reversed + 1.5, "views");
  expect_same(f(x[{int64_t{0}, int64_t{0}, int64_t{1}}], 3, y), x[{int64_t{0}, int64_t{0}, int64_t{1}}] * 3 + y, "0-d");
  const NdArray none = ql::zeros(Dims{0, 7});
  expect_same(f(none, y[{ql::Slice{0, 1, {}}}], 1), none * y[{ql::Slice{0, 1, {}}}] + 1, "empty");
  EXPECT_THROW(f(x, ql::zeros(Dims{3}), 1), ql::InvalidArgument);
  EXPECT_EQ(f.traces(), 3);  // two arrays and an int, or a double; an int between arrays. Shapes need no trace
}

TEST_P(Fuse, LiteralsAreWeakAndMayChange) {
  const auto f = fuse([](auto x, auto s) { return x * s - s; });
  const NdArray x = ql::arange(5).astype(DType::float32), bytes = ql::arange(5).astype(DType::int8);
  for (const double s : {1.5, -2.0, 1e30}) expect_same(f(x, s), x * s - s, "double");
  EXPECT_EQ(f.traces(), 1);
  for (const int s : {1, -2, 100}) expect_same(f(bytes, s), bytes * s - s, "int");
  EXPECT_EQ(f.traces(), 2);
  EXPECT_THROW(f(bytes, 300), ql::InvalidArgument);
  expect_same(f(bytes, 7), bytes * 7 - 7, "after an error");
  // Literals among themselves.
  const auto g = fuse([](auto x, auto s) { return x * (s * 2 + 1); });
  for (const double s : {1.5, -2.0}) expect_same(g(x, s), x * (s * 2 + 1), "folded");
  const auto h = fuse([](auto x, auto s) { return x * ql::sqrt(s); });
  EXPECT_EQ(h(x, 4.0).dtype(), DType::float64);  // NumPy's sqrt(4.0) is a float64, not a literal
  expect_same(fuse([](auto x, auto s) { return x + s; })(x, ql::Scalar::strong(2, DType::float64)),
              ql::add(x, ql::Scalar::strong(2, DType::float64)), "strong");
  expect_same(fuse([](auto s) { return s; })(7), ql::full(Dims{}, 7), "a literal alone");
}

TEST_P(Fuse, SeveralResultsInEveryForm) {
  const NdArray x = values(DType::float64, {3, 8}), y = values(DType::int32, {8}, 1);
  const auto f = fuse([](auto a, auto b) { return std::tuple(a + b, b * 2, a.astype(DType::float32)); });
  const auto [sum, twice, narrow] = f(x, y);
  expect_same(sum, x + y, "sum");
  expect_same(twice, y * 2, "the shape of its own inputs");
  expect_same(narrow, x.astype(DType::float32), "cast");
  const std::array<NdArray, 2> pair = fuse([](auto a) { return std::array{ql::sin(a), ql::cos(a)}; })(x);
  expect_same(pair[0], ql::sin(x), "sin");
  expect_same(pair[1], ql::cos(x), "cos");
  const auto [quotient, rest] = fuse([](auto a, auto b) { return ql::divmod(a, b); })(y, 3);
  expect_same(quotient, ql::floor_divide(y, 3), "quotient");
  expect_same(rest, ql::remainder(y, 3), "remainder");
  const auto many = fuse([](auto a) { return std::vector{a, a}; })(x);
  ASSERT_EQ(many.size(), 2u);
  expect_same(many[1], x, "an argument itself");
  EXPECT_NE(many[0].raw(), x.raw());
  EXPECT_NE(many[0].raw(), many[1].raw());
}

// Reductions that do not round, bit for bit; the others within the roundings of their terms.
TEST_P(Fuse, ReductionsAtTheEnd) {
  for (const DType dtype :
       {DType::int32, DType::uint8, DType::float32, DType::float64, DType::complex128, DType::float16}) {
    const NdArray x = ql::remainder(quarry::test::arange({6, 5, 70}) * 37, 101).astype(dtype);
    for (const ql::Axes& axes : {ql::Axes(), ql::Axes(0), ql::Axes(-1), ql::Axes{0, 2}}) {
      for (const bool keepdims : {false, true}) {
        const ql::ReduceOptions keep{.keepdims = keepdims};
        const auto text = fmt::format("{} {}", ql::name(dtype), keepdims);
        const auto f = fuse([&](auto a) {
          const auto b = a * a + 1;
          return std::tuple(ql::sum(b, axes, keep), ql::max(b, axes, keep), ql::any(b, axes, keep),
                            ql::mean(b, axes, keep), b);
        });
        const auto [sum, max, any, mean, b] = f(x);
        const NdArray plain = x * x + 1;
        expect_same(b, plain, text);
        expect_same(max, ql::max(plain, axes, keep), text);
        expect_same(any, ql::any(plain, axes, keep), text);
        const NdArray wanted = ql::sum(plain, axes, keep);
        if (ql::is_integer(dtype)) expect_same(sum, wanted, text);
        EXPECT_EQ(sum.dtype(), wanted.dtype());
        EXPECT_EQ(mean.dtype(), ql::mean(plain, axes, keep).dtype());
        const double bound = dtype == DType::float16 ? 1e-3 : dtype == DType::float32 ? 1e-6 : 1e-14;
        EXPECT_TRUE(ql::allclose(sum, wanted, bound)) << text;
        EXPECT_TRUE(ql::allclose(mean, ql::mean(plain, axes, keep), bound)) << text;
      }
    }
    if (dtype == DType::complex128) continue;
    for (const int axis : {0, 1, -1}) {
      const auto f = fuse([&](auto a) { return std::pair(ql::argmax(a % 50, axis), ql::argmin(a % 50, axis)); });
      const auto [last, first] = f(x);
      expect_same(last, ql::argmax(x % 50, axis), "argmax");
      expect_same(first, ql::argmin(x % 50, axis), "argmin");
    }
    expect_same(fuse([](auto a) { return ql::argmax(a % 50); })(x), ql::argmax(x % 50), "flat argmax");
  }
}

TEST_P(Fuse, MomentsOfValuesFarFromZero) {
  const NdArray x = ql::sin(quarry::test::arange({1000}) * 1.7) + 1e8;
  const auto f = fuse([](auto a, auto s) { return std::pair(ql::var(a * s, {}, {.ddof = 1}), ql::std(a * s)); });
  for (const double s : {2.0, 3.0}) {
    const auto [var, deviation] = f(x, s);
    EXPECT_NEAR(var.item<double>(), ql::var(x * s, {}, {.ddof = 1}).item<double>(), 1e-10);
    EXPECT_NEAR(deviation.item<double>(), ql::std(x * s).item<double>(), 1e-10);
  }
  expect_same(fuse([](auto a) { return ql::var(a + 1, 1); })(ql::zeros(Dims{2, 0})), ql::var(ql::zeros(Dims{2, 0}), 1),
              "of nothing");
}

TEST_P(Fuse, ReductionsOfDifferentShapes) {
  const NdArray x = quarry::test::arange({4, 6}), y = quarry::test::arange({6});
  const auto [all, rows, own, columns] = fuse(
      [](auto a, auto b) { return std::tuple(ql::sum(a + b), ql::sum(a + b, 1), ql::sum(b), ql::max(a, 0)); })(x, y);
  expect_same(all, ql::sum(x + y), "all");
  expect_same(rows, ql::sum(x + y, 1), "rows");
  expect_same(own, ql::sum(y), "not once per row of x");
  expect_same(columns, ql::max(x, 0), "columns");
  EXPECT_EQ(fuse([](auto a) { return ql::sum(a, {}, {.dtype = DType::int8}); })(ql::full(Dims{300}, 1)).item<int8_t>(),
            44);
  // Extents change: positions are counted anew.
  const auto where_max = fuse([](auto a) { return ql::argmax(a); });
  expect_same(where_max(x), ql::argmax(x), "24 elements");
  expect_same(where_max(x.T()), ql::argmax(x.T()), "transposed");
  expect_same(where_max(y), ql::argmax(y), "6 elements");
}

TEST_P(Fuse, OneFunctionForArraysAndTraces) {
  const auto softplus = [](const auto& x) { return ql::maximum(0, x) + ql::log1p(ql::exp(-ql::absolute(x))); };
  const NdArray x = ql::arange(1001) * 0.06 - 30;
  expect_same(fuse(softplus)(x), softplus(x), "softplus");
  const auto hypotenuse = [](const auto& a, const auto& b) { return sqrt(a * a + b * b); };  // found by the arguments
  const auto f = fuse(hypotenuse);
  expect_same(f(x, 4.0), ql::sqrt(x * x + 4.0 * 4.0), "hypotenuse");
}

// A position in the array and Philox make the numbers; a fused expression gives those of the generator.
TEST_P(Fuse, RandomNumbersAreThoseOfTheOperations) {
  const NdArray index = ql::arange(1000);
  const auto f = fuse([](auto i) {
    return ql::ops::random_normal(i, ql::Scalar::strong(7, DType::uint64), ql::Scalar::strong(3, DType::uint64),
                                  DType::float32) *
           2;
  });
  expect_same(f(index),
              ql::ops::random_normal(index, ql::Scalar::strong(7, DType::uint64), ql::Scalar::strong(3, DType::uint64),
                                     DType::float32) *
                  2,
              "normal");
  // Those of a generator: element by element a function of seed, stream and position.
  const NdArray x = quarry::test::arange({7, 30}).astype(DType::float32);
  const auto noisy = fuse([](auto a, auto seed, auto stream) {
    return a + ql::ops::random_normal(ql::position_of(a), seed, stream, DType::float32);
  });
  ql::Generator generator = ql::default_rng(5);
  for (uint64_t stream = 0; stream < 2; ++stream) {
    const NdArray wanted = x + generator.standard_normal(ql::Ints{7, 30}, DType::float32);
    expect_same(noisy(x, ql::Scalar::strong(5, DType::uint64), ql::Scalar::strong(stream, DType::uint64)), wanted,
                "of a generator");
  }
  expect_same(fuse([](auto a) { return ql::position_of(a); })(x), quarry::test::arange({7, 30}), "positions");
  expect_same(fuse([](auto a) { return ql::max(ql::position_of(a) % 7, 0); })(x),
              ql::max(quarry::test::arange({7, 30}) % 7, 0), "reduced positions");
}

TEST_P(Fuse, Mistakes) {
  const NdArray x = ql::arange(6).astype(DType::float64), i = ql::arange(6);
  EXPECT_THROW(fuse([](auto a) { return a << 1; })(x), ql::TypeError);
  EXPECT_THROW(fuse([](auto a) { return ql::sum(a, 3); })(x), ql::IndexError);
  EXPECT_THROW(fuse([](auto a) { return ql::sum(a) + 1; })(x), ql::NotSupported);
  EXPECT_THROW(fuse([](auto a) { return ql::sum(ql::sum(a)); })(x), ql::NotSupported);
  EXPECT_THROW(fuse([](auto a) { return ql::sum(a).astype(DType::int8); })(x), ql::NotSupported);
  EXPECT_THROW(fuse([](auto a) { return ql::max(a); })(ql::zeros(Dims{0})), ql::InvalidArgument);
  EXPECT_THROW(fuse([](auto a) { return ql::max(a, {}, {.dtype = DType::int8}); })(x), ql::TypeError);
  EXPECT_THROW(fuse([](auto a) { return ql::sum(a, {}, {.ddof = 1}); })(x), ql::TypeError);
  EXPECT_THROW(fuse([](auto a) { return ql::sum(a, {}, {.initial = ql::Scalar(1)}); })(x), ql::NotSupported);
  EXPECT_THROW(fuse([](auto a, auto b) { return ql::power(a, b); })(i, i - 3), ql::InvalidArgument);
  EXPECT_THROW(fuse([](auto a) { return ql::power(a, -1); })(i), ql::InvalidArgument);
  EXPECT_THROW(fuse([](auto) { return std::vector<ql::Traced>{}; })(x), ql::InvalidArgument);
  if (GetParam() == ql::DeviceKind::emulated) {
    const NdArray host = x.to(ql::kCpu);
    EXPECT_THROW(fuse([](auto a, auto b) { return a + b; })(x, host), ql::InvalidArgument);
  }
  // And works afterwards.
  expect_same(fuse([](auto a) { return a + 1; })(x), x + 1, "afterwards");
}

}  // namespace
