// Fourier transforms against sums in long double, and their identities.
#include "quarry/local/ops/fft/fft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <thread>

#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

namespace fft = ops::fft;
using Complex = std::complex<double>;
using Complexes = std::vector<Complex>;
using Exact = std::complex<long double>;

class Fft : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Fft);

Complexes noise(int64_t count, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Complexes values(static_cast<size_t>(count));
  for (Complex& value : values) value = Complex(uniform(random), uniform(random));
  return values;
}
NdArray complexes(const Dims& shape, DType dtype = DType::complex128, uint64_t seed = 1) {
  return from_vector(noise(element_count(shape), seed), shape).astype(dtype);
}
NdArray reals(const Dims& shape, DType dtype = DType::float64, uint64_t seed = 1) {
  return complexes(shape, DType::complex128, seed).real().astype(dtype);
}
Complexes values(const NdArray& x) { return to_vector<Complex>(x.astype(DType::complex128)); }

// The definition, with sums in long double.
std::vector<Exact> definition(const Complexes& x, int sign) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<Exact> roots(x.size()), y(x.size());
  for (int64_t k = 0; k < n; ++k) {
    const long double angle =
        2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / static_cast<long double>(n);
    roots[static_cast<size_t>(k)] = {std::cos(angle), static_cast<long double>(sign) * std::sin(angle)};
  }
  for (int64_t k = 0; k < n; ++k) {
    Exact sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += Exact(x[static_cast<size_t>(j)]) * roots[static_cast<size_t>(j * k % n)];
    y[static_cast<size_t>(k)] = sum;
  }
  return y;
}

// ||x - y|| / ||y|| over the elements of x.
template <class Reference>
double distance(const Complexes& x, const std::vector<Reference>& y) {
  EXPECT_LE(x.size(), y.size());
  long double difference = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += std::norm(Exact(x[i]) - Exact(y[i]));
    size += std::norm(Exact(y[i]));
  }
  return size == 0 ? static_cast<double>(difference) : static_cast<double>(std::sqrt(difference / size));
}
constexpr double kClose = 4e-15;  // of float64 results computed in different ways
double bound(DType dtype, int64_t points) {
  const double epsilon = real_type(dtype) == DType::float32 ? 0x1p-24 : 0x1p-53;
  return epsilon * (2 + std::log2(static_cast<double>(points)));
}

TEST_P(Fft, AgreesWithTheDefinition) {
  for (const int64_t n :
       {1, 2, 3, 4, 5, 8, 13, 16, 30, 61, 64, 67, 100, 127, 134, 210, 256, 509, 1000, 1009, 2018, 2048}) {
    for (const DType dtype : {DType::complex64, DType::complex128}) {
      SCOPED_TRACE(std::to_string(n) + " " + name(dtype));
      const NdArray z = complexes({n}, dtype, static_cast<uint64_t>(n)), x = z.real().copy();
      const std::vector<Exact> forward = definition(values(z), -1), backward = definition(values(z), +1);
      const std::vector<Exact> spectrum = definition(values(x), -1);
      EXPECT_EQ(fft::fft(z).dtype(), dtype);
      EXPECT_LE(distance(values(fft::fft(z)), forward), bound(dtype, n));
      EXPECT_LE(distance(values(fft::ifft(z, {}, -1, "forward")), backward), bound(dtype, n));
      EXPECT_LE(distance(values(fft::fft(x)), spectrum), bound(dtype, n));
      const NdArray half = fft::rfft(x);
      EXPECT_EQ(half.shape(), (Dims{n / 2 + 1}));
      EXPECT_LE(distance(values(half), spectrum), bound(dtype, n));
      const NdArray back = fft::irfft(half, n);
      EXPECT_EQ(back.dtype(), real_type(dtype));
      EXPECT_LE(distance(values(back), values(x)), 2 * bound(dtype, n));
    }
  }
}

TEST_P(Fft, RoundTripsOverAnyAxes) {
  const Dims shape{6, 5, 8, 3};
  const std::vector<std::vector<int64_t>> choices = {{0},          {1},          {2},    {3},       {0, 1},
                                                     {1, 0},       {3, 1},       {2, 3}, {0, 1, 2}, {3, 0, 2},
                                                     {0, 1, 2, 3}, {3, 2, 1, 0}, {1, 1}, {-1, -2}};
  for (const DType dtype : {DType::complex64, DType::complex128}) {
    const NdArray z = complexes(shape, dtype), x = reals(shape, real_type(dtype));
    for (const auto& axes : choices) {
      EXPECT_LE(distance(values(fft::ifftn(fft::fftn(z, {}, axes), {}, axes)), values(z)), 2 * bound(dtype, 720));
      if (axes == std::vector<int64_t>{1, 1}) continue;
      std::vector<int64_t> lengths;
      for (const int64_t axis : axes) lengths.push_back(x.shape(axis));
      const NdArray half = fft::rfftn(x, {}, axes, "ortho");
      EXPECT_LE(distance(values(fft::irfftn(half, lengths, axes, "ortho")), values(x)), 2 * bound(dtype, 720));
    }
  }
}

TEST_P(Fft, SeveralAxesAreOneAfterTheOther) {
  const NdArray z = complexes({4, 9, 10});
  const NdArray want = fft::fft(fft::fft(fft::fft(z, {}, 2), {}, 1), {}, 0);
  EXPECT_LE(distance(values(fft::fftn(z)), values(want)), bound(DType::complex128, 360));
  const NdArray x = reals({4, 9, 10});
  const NdArray some = fft::fft(fft::rfft(x, {}, 0), {}, 2);
  EXPECT_LE(distance(values(fft::rfftn(x, {}, std::vector<int64_t>{2, 0})), values(some)),
            bound(DType::complex128, 40));
}

TEST_P(Fft, IsLinearAndKeepsTheNorm) {
  const NdArray a = complexes({3, 500}), b = complexes({3, 500}, DType::complex128, 2);
  const NdArray left = fft::fft(a * 2.5 - b), right = fft::fft(a) * 2.5 - fft::fft(b);
  EXPECT_LE(distance(values(left), values(right)), 2 * bound(DType::complex128, 500));
  // Parseval: the unitary transform keeps the sum of squares.
  double before = 0, after = 0;
  for (const Complex& value : values(a)) before += std::norm(value);
  for (const Complex& value : values(fft::fft2(a, {}, fft::last_two(), "ortho"))) after += std::norm(value);
  EXPECT_NEAR(after, before, 1e-13 * before);
  // A shift is a phase.
  const NdArray moved = fft::fft(ops::roll(a, 7, 1));
  Complexes phases(500);
  for (size_t k = 0; k < phases.size(); ++k)
    phases[k] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(7 * k % 500) / 500);
  EXPECT_LE(distance(values(moved), values(fft::fft(a) * from_vector(phases))), 2 * bound(DType::complex128, 500));
}

TEST_P(Fft, OfAnyLayout) {
  const NdArray base = complexes({8, 10, 12});
  const NdArray views[] = {base.T(), base[{Slice{{}, {}, -1}, Slice{1, 9, 2}, Slice{{}, {}, -3}}],
                           base[{Slice{0, 1, 1}}].broadcast_to({4, 10, 12}),
                           base[{int64_t{2}, newaxis, full_slice, Slice{3, {}, {}}}],
                           base[{full_slice, full_slice, Slice{1, {}, {}}}]};
  for (const NdArray& view : views) {
    const NdArray packed = view.copy();
    for (int64_t axis = 0; axis < 3; ++axis) {
      EXPECT_LE(distance(values(fft::fft(view, {}, axis)), values(fft::fft(packed, {}, axis))), kClose);
      EXPECT_LE(distance(values(fft::rfft(view.real(), {}, axis)), values(fft::rfft(packed.real().copy(), {}, axis))),
                1e-15);
      if (view.shape()[static_cast<int>(axis)] == 1) continue;  // one element of a half spectrum gives none
      EXPECT_LE(distance(values(fft::irfft(view, {}, axis)), values(fft::irfft(packed, {}, axis))), kClose);
    }
    EXPECT_LE(distance(values(fft::fftn(view)), values(fft::fftn(packed))), kClose);
    EXPECT_LE(distance(values(fft::irfftn(view)), values(fft::irfftn(packed))), kClose);
  }
}

TEST_P(Fft, CutsAndFillsUp) {
  const NdArray x = reals({5, 6});
  const NdArray filled({8, 9}, DType::float64);
  filled.fill(0);
  filled[{Slice{0, 5, 1}, Slice{0, 6, 1}}].assign(x);
  const std::vector<int64_t> both{0, 1}, larger{8, 9}, smaller{4, 3};
  EXPECT_LE(distance(values(fft::fftn(x, larger, both)), values(fft::fftn(filled))), kClose);
  EXPECT_LE(distance(values(fft::rfftn(x, larger, both)), values(fft::rfftn(filled))), kClose);
  EXPECT_LE(distance(values(fft::fftn(x, smaller, both)), values(fft::fftn(x[{Slice{0, 4, 1}, Slice{0, 3, 1}}]))),
            1e-15);
  // Of nothing but what fills it up.
  const NdArray none = fft::fft(NdArray({3, 0}, DType::complex64), 4);
  EXPECT_EQ(none.shape(), (Dims{3, 4}));
  for (const Complex& value : values(none)) EXPECT_EQ(value, Complex());
  EXPECT_EQ(fft::irfft(NdArray({0, 3}, DType::complex64)).shape(), (Dims{0, 4}));
}

TEST_P(Fft, LongLinesAndManyLines) {
  for (const Dims& shape :
       {Dims{1 << 18}, Dims{3 * 5 * 7 * 1024}, Dims{2, 100003}, Dims{700, 11, 13}, Dims{2048, 96}, Dims{5, 40000}}) {
    for (const DType dtype : {DType::complex64, DType::complex128}) {
      SCOPED_TRACE(to_string(shape) + name(dtype));
      const NdArray z = complexes(shape, dtype), x = z.real().copy();
      for (const int64_t axis : {int64_t{0}, int64_t{-1}}) {
        EXPECT_LE(distance(values(fft::ifft(fft::fft(z, {}, axis), {}, axis)), values(z)), 2 * bound(dtype, z.size()));
        const NdArray half = fft::rfft(x, {}, axis);
        EXPECT_LE(distance(values(fft::irfft(half, x.shape(axis), axis)), values(x)), 2 * bound(dtype, z.size()));
        const NdArray whole = fft::fft(x, {}, axis);
        const int d = normalize_axis(axis, x.ndim());
        std::vector<IndexItem> first(static_cast<size_t>(x.ndim()), full_slice);
        first[static_cast<size_t>(d)] = Slice{0, half.shape(d), 1};
        EXPECT_LE(distance(values(whole[first]), values(half)), 2 * bound(dtype, z.size()));
      }
      // One frequency.
      Complexes wave(static_cast<size_t>(shape.back()));
      const int64_t n = shape.back(), frequency = n / 3;
      for (int64_t j = 0; j < n; ++j)
        wave[static_cast<size_t>(j)] =
            std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(j * frequency % n) / static_cast<double>(n));
      const Complexes peak = values(fft::fft(from_vector(wave).astype(dtype), {}, -1, "forward"));
      for (int64_t k = 0; k < n; ++k)
        ASSERT_NEAR(std::abs(peak[static_cast<size_t>(k)]), k == frequency ? 1 : 0, 100 * bound(dtype, n));
    }
  }
}

TEST_P(Fft, WritesToOut) {
  const NdArray z = complexes({6, 10});
  const Complexes want = values(fft::fft(z));
  const NdArray out({6, 10}, DType::complex128);
  EXPECT_EQ(fft::fft(z, {}, -1, {}, out).raw(), out.raw());
  EXPECT_LE(distance(values(out), want), kClose);
  const NdArray narrow = NdArray({10, 6}, DType::complex64).T();
  EXPECT_EQ(fft::fft(z, {}, -1, {}, narrow).dtype(), DType::complex64);
  EXPECT_LE(distance(values(narrow), want), 1e-7);
  const NdArray same = z.copy();
  EXPECT_EQ(fft::fft(same, {}, -1, {}, same).raw(), same.raw());
  EXPECT_LE(distance(values(same), want), kClose);
  const NdArray half({6, 6}, DType::complex128);
  EXPECT_EQ(fft::ihfft(z.real(), {}, -1, {}, half).raw(), half.raw());
  EXPECT_LE(distance(values(half), values(fft::ihfft(z.real()))), kClose);
  EXPECT_THROW(fft::fft(z, {}, -1, {}, NdArray({6, 9}, DType::complex128)), InvalidArgument);
  EXPECT_THROW(fft::fft(z, {}, -1, {}, NdArray({6, 10}, DType::float64)), TypeError);
  EXPECT_THROW(fft::fft(z, {}, -1, {}, NdArray({1, 10}, DType::complex128).broadcast_to({6, 10})), InvalidArgument);
}

TEST_P(Fft, TypesAndErrors) {
  EXPECT_EQ(fft::fft(reals({4}, DType::float16)).dtype(), DType::complex64);
  EXPECT_EQ(fft::fft(reals({4}, DType::bfloat16)).dtype(), DType::complex64);
  EXPECT_EQ(fft::irfft(reals({4}, DType::float16)).dtype(), DType::float16);
  EXPECT_EQ(fft::rfft(test::arange({4})).dtype(), DType::complex128);
  EXPECT_EQ(fft::hfft(complexes({4}, DType::complex64)).dtype(), DType::float32);
  const NdArray z = complexes({4, 5});
  EXPECT_THROW(fft::rfft(z), TypeError);
  EXPECT_THROW(fft::fft(z, 0), InvalidArgument);
  EXPECT_THROW(fft::fft(z, {}, 2), IndexError);
  EXPECT_THROW(fft::fft(z, {}, 0, "unitary"), InvalidArgument);
  EXPECT_THROW(fft::fft(z[{int64_t{0}, int64_t{0}}]), IndexError);
  EXPECT_THROW(fft::fftn(z, std::vector<int64_t>{3}, std::vector<int64_t>{0, 1}), InvalidArgument);
  EXPECT_THROW(fft::fftn(z, {}, std::vector<int64_t>{0, 2}), IndexError);
  EXPECT_THROW(fft::rfftn(reals({})), IndexError);
  EXPECT_THROW(fft::irfft(z[{full_slice, Slice{0, 1, 1}}]), InvalidArgument);
  EXPECT_THROW(fft::fftfreq(0), InvalidArgument);
  EXPECT_THROW(fft::fftfreq(4, 0), InvalidArgument);
  // The device is usable afterwards.
  EXPECT_LE(distance(values(fft::ifft(fft::fft(z))), values(z)), kClose);
}

TEST_P(Fft, Frequencies) {
  using Doubles = std::vector<double>;
  EXPECT_EQ(test::doubles(fft::fftfreq(5, 0.2)), (Doubles{0, 1, 2, -2, -1}));
  EXPECT_EQ(test::doubles(fft::fftfreq(4)), (Doubles{0, 0.25, -0.5, -0.25}));
  EXPECT_EQ(test::doubles(fft::rfftfreq(5, 0.2)), (Doubles{0, 1, 2}));
  EXPECT_EQ(test::doubles(fft::rfftfreq(4)), (Doubles{0, 0.25, 0.5}));
  EXPECT_EQ(test::doubles(fft::fftshift(fft::fftfreq(5, 0.2))), (Doubles{-2, -1, 0, 1, 2}));
  EXPECT_EQ(test::doubles(fft::ifftshift(fft::fftshift(test::arange({3, 4}), {0}), {0})),
            test::doubles(test::arange({3, 4})));
}

TEST_P(Fft, FromSeveralThreads) {
  constexpr int kThreads = 4;
  const Device device = current_device();
  std::vector<double> worst(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const DeviceScope scope(device);
      for (int round = 0; round < 30; ++round) {
        const int64_t n = 20 + (round * 37 + t) % 300;
        const NdArray z = complexes({3, n}, DType::complex128, static_cast<uint64_t>(n));
        worst[static_cast<size_t>(t)] =
            std::max(worst[static_cast<size_t>(t)], distance(values(fft::ifft2(fft::fft2(z))), values(z)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const double distance : worst) EXPECT_LE(distance, 1e-14);
}

}  // namespace
}  // namespace quarry::local
