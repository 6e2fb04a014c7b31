// Transforms of chunked arrays: what the rows of names.def, whose arrays are small, do not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/expr/node.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/local.h"
#include "tests/support/chunked_values.h"
#include "tests/support/evaluate.h"
#include "tests/support/on_devices.h"
#include "tests/support/runtime_on.h"

namespace quarry {
namespace {

using ::testing::HasSubstr;
using namespace names;

NdArray numbers(const Dims& shape) { return local::random::default_rng(11).normal(0., 1., Ints(shape)); }
Array cut(const NdArray& array, const Dims& chunk) { return Array::from_local(array).rechunk(chunk); }

void expect_close(const Array& got, const NdArray& expected, double bound = 1e-12) {
  const NdArray values = got.to_host();
  ASSERT_EQ(local::to_string(values.shape()), local::to_string(expected.shape()));
  EXPECT_EQ(local::name(values.dtype()), local::name(expected.dtype()));
  EXPECT_TRUE(testing::close(values, expected, bound, bound))
      << "largest difference " << local::max(local::absolute(values - expected)).repr();
}

// The stages of transforms behind an array: their names, and the bytes of their largest chunks.
struct Stages {
  std::vector<std::string> names;
  int64_t largest_bytes = 0;
};
Stages stages_of(const Array& array) {
  Stages stages;
  for (const expr::NodePtr& node : expr::topological(std::array{array.node()})) {
    const auto* applied = node->as<expr::Apply>();
    if (applied == nullptr) continue;
    stages.names.emplace_back(applied->op->name());
    const op::ArraySpec& made = applied->outputs[0];
    stages.largest_bytes = std::max(stages.largest_bytes, largest_chunk_bytes(made.grid, local::itemsize(made.dtype)));
  }
  return stages;
}

class Fourier : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  const Runtime runtime_{testing::runtime_on(GetParam())};
};
QUARRY_ON_DEVICE_KINDS(Fourier);

TEST_P(Fourier, AxesThatFitAChunkAreTransformedTogether) {
  const NdArray x = numbers({6, 10, 8});
  const ChunkPolicyScope small = testing::small_chunks(10 * 8 * 16);
  const Array all = fft::fftn(cut(x, {2, 3, 4}));
  EXPECT_EQ(stages_of(all).names, (std::vector<std::string>{"fft.fft", "fft.fft"}));
  EXPECT_LE(stages_of(all).largest_bytes, 10 * 8 * 16);
  expect_close(all, local::fft::fftn(x));
  expect_close(fft::rfftn(cut(x, {2, 3, 4})), local::fft::rfftn(x));
  const NdArray z = x + numbers({6, 10, 8}) * std::complex<double>(0, 1);
  expect_close(fft::ifftn(cut(z, {1, 10, 3}), none, none, "ortho"), local::fft::ifftn(z, none, none, "ortho"));
  expect_close(fft::irfftn(cut(z, {6, 1, 8})), local::fft::irfftn(z));
  const std::vector<int64_t> lengths{7, 3, 9}, axes{2, 0, 1};
  expect_close(fft::irfftn(cut(z, {4, 4, 4}), lengths, axes), local::fft::irfftn(z, lengths, axes));
  expect_close(fft::rfftn(cut(x, {4, 4, 4}), lengths, axes), local::fft::rfftn(x, lengths, axes));
}

TEST_P(Fourier, OtherAxesAreCutWithinTheUsualBytes) {
  const NdArray x = numbers({64, 48});
  const ChunkPolicyScope small = testing::small_chunks(64 * 16 * 4);
  const Array columns = fft::fft(cut(x, {5, 48}), none, 0);
  EXPECT_EQ(columns.chunks().counts(), (Dims{1, 16}));
  expect_close(columns, local::fft::fft(x, none, 0));
  // Chunks that have whole lines stay as they are.
  EXPECT_EQ(fft::fft(cut(x, {64, 20}), none, 0).chunks().counts(), (Dims{1, 3}));
  EXPECT_EQ(fft::fft(cut(x, {7, 48}), none, 1).chunks().counts(), (Dims{10, 1}));
}

TEST_P(Fourier, OneChunkHasTheBitsOfLocalArrays) {
  QUARRY_SKIP_ON_CUDA("the local arrays are on the CPU");
  const NdArray x = numbers({30, 40}), z = x + numbers({30, 40}) * std::complex<double>(0, 1);
  const std::vector<std::pair<Array, NdArray>> pairs{
      {fft::fft2(Array::from_local(x)), local::fft::fft2(x)},
      {fft::irfftn(Array::from_local(z)), local::fft::irfftn(z)},
      {fft::hfft(Array::from_local(z), 33, 0, "ortho"), local::fft::hfft(z, 33, 0, "ortho")}};
  for (const auto& [chunked, local] : pairs) {
    const NdArray got = chunked.to_host();
    ASSERT_EQ(got.nbytes(), local.nbytes());
    EXPECT_EQ(std::memcmp(got.raw(), local.copy().raw(), static_cast<size_t>(got.nbytes())), 0);
  }
}

// Whatever chunks its line is in, if it is no short one: so a budget may decide about them.
TEST_P(Fourier, LinesHaveTheSameBitsInAnyChunks) {
  QUARRY_SKIP_ON_CUDA("the local arrays are on the CPU");
  const auto same = [](const Array& chunked, const NdArray& local) {
    const NdArray got = chunked.to_host(), expected = local.copy();
    ASSERT_EQ(got.nbytes(), expected.nbytes());
    EXPECT_EQ(std::memcmp(got.raw(), expected.raw(), static_cast<size_t>(got.nbytes())), 0)
        << chunked.repr() << local::max(local::absolute(got - expected)).repr();
  };
  for (const int64_t n : {96, 101, 250, 2048}) {
    const NdArray x = numbers({n, 37}), z = x + numbers({n, 37}) * std::complex<double>(0, 1), c = z.astype(c64);
    for (const int64_t width : {1, 5, 37}) {
      for (const bool rows : {false, true}) {
        const int axis = rows ? 1 : 0;
        const auto lines = [&](const NdArray& array) { return rows ? array.T().copy() : array; };
        const auto chunks = [&](const NdArray& array) {
          const Array whole = Array::from_local(lines(array));
          return rows ? whole.rechunk({width, -1}) : whole.rechunk({-1, width});
        };
        same(fft::fft(chunks(x), none, axis), local::fft::fft(lines(x), none, axis));
        same(fft::fft(chunks(z), none, axis), local::fft::fft(lines(z), none, axis));
        same(fft::ifft(chunks(c), none, axis), local::fft::ifft(lines(c), none, axis));
        same(fft::rfft(chunks(x), n + 3, axis), local::fft::rfft(lines(x), n + 3, axis));
        same(fft::irfft(chunks(z), 2 * n + 1, axis), local::fft::irfft(lines(z), 2 * n + 1, axis));
      }
    }
  }
}

TEST_P(Fourier, SixteenBitFloats) {
  const NdArray x = numbers({6, 10}).astype(f16);
  const ChunkPolicyScope small = testing::small_chunks(10 * 8);
  for (const fft::Norm norm : {fft::Norm(), fft::Norm("ortho"), fft::Norm("forward")}) {
    expect_close(fft::irfft(cut(x, {2, 3}), none, 1, norm), local::fft::irfft(x, none, 1, norm), 2e-3);
    expect_close(fft::irfftn(cut(x, {2, 3}), none, none, norm), local::fft::irfftn(x, none, none, norm), 1e-5);
    expect_close(fft::rfftn(cut(x, {2, 3}), none, none, norm), local::fft::rfftn(x, none, none, norm), 1e-5);
    expect_close(fft::ifftn(cut(x, {2, 3}), none, none, norm), local::fft::ifftn(x, none, none, norm), 1e-5);
  }
}

// A line of many chunks: no stage holds it.
TEST_P(Fourier, LongLinesGoInFourSteps) {
  const int64_t n = 3000;
  const NdArray x = numbers({n}), z = x + numbers({n}) * std::complex<double>(0, 1);
  const ChunkPolicyScope small = testing::small_chunks(1024);
  const Array spectrum = fft::fft(cut(z, {128}));
  EXPECT_GT(spectrum.chunks().count(), 40);
  EXPECT_LE(stages_of(spectrum).largest_bytes, 128 * 16);
  expect_close(spectrum, local::fft::fft(z));
  for (const fft::Norm norm : {fft::Norm("ortho"), fft::Norm("forward"), fft::Norm("backward")}) {
    expect_close(fft::ifft(cut(z, {64}), none, -1, norm), local::fft::ifft(z, none, -1, norm));
    expect_close(fft::rfft(cut(x, {64}), none, 0, norm), local::fft::rfft(x, none, 0, norm));
    expect_close(fft::irfft(cut(z, {64}), none, 0, norm), local::fft::irfft(z, none, 0, norm), 1e-11);
    expect_close(fft::hfft(cut(z, {64}), none, 0, norm), local::fft::hfft(z, none, 0, norm), 1e-10);
    expect_close(fft::ihfft(cut(x, {64}), none, 0, norm), local::fft::ihfft(x, none, 0, norm));
  }
  expect_close(fft::fft(cut(x, {100}), 2048), local::fft::fft(x, 2048));
  expect_close(fft::ifft(cut(x, {100}), 3600), local::fft::ifft(x, 3600));
  expect_close(fft::irfft(cut(z, {100}), 2025), local::fft::irfft(z, 2025));
  expect_close(fft::irfft(cut(z, {100}), 8000), local::fft::irfft(z, 8000));
  const NdArray single = z.astype(c64);
  expect_close(fft::fft(cut(single, {100})), local::fft::fft(single), 1e-4);
  const NdArray rows = numbers({3, 600, 2});
  expect_close(fft::fft(cut(rows, {1, 100, 2}), none, 1), local::fft::fft(rows, none, 1));
  const NdArray matrix = numbers({2, 1200});
  expect_close(fft::rfft2(cut(matrix, {1, 100})), local::fft::rfft2(matrix));
}

// The sum of squares is that of the transform over the number of points.
void expect_parseval(const Array& x, const Array& spectrum, int64_t points) {
  const double before = sum(multiply(x, x)).item<double>();
  const Array squares = add(multiply(real(spectrum), real(spectrum)), multiply(imag(spectrum), imag(spectrum)));
  EXPECT_NEAR(sum(squares).item<double>() / static_cast<double>(points) / before, 1, 1e-10);
}

// Columns of an array of rows, four times what a rank may hold: no task takes all of its rows.
TEST(FourierInLittleMemory, BothAxesAndLongLines) {
  RuntimeOptions options = testing::runtime_on(local::DeviceKind::cpu);
  options.memory = "4MiB";
  const Runtime runtime(options);
  const ChunkPolicyScope small = testing::small_chunks(64 << 10);
  const Array x = random::default_rng(3).normal(0., 1., {1024, 1024});
  expect_parseval(x, fft::fft2(x), x.size());
  const Array line = random::default_rng(4).normal(0., 1., {1 << 20});
  expect_parseval(line, fft::fft(line), line.size());
}

TEST(FourierInLittleMemory, LinesWithoutFactors) {
  RuntimeOptions options = testing::runtime_on(local::DeviceKind::cpu);
  options.memory = "4MiB";
  const Runtime runtime(options);
  const ChunkPolicyScope small = testing::small_chunks(64 << 10);
  const int64_t n = (1 << 18) - 5;  // a prime, a line of as many bytes as a rank may hold
  const Array line = random::default_rng(7).normal(0., 1., {n}), spectrum = fft::fft(line);
  expect_parseval(line, spectrum, n);
  const NdArray wanted = local::fft::fft(local::random::default_rng(7).normal(0., 1., n));
  for (const int64_t first : {int64_t{0}, n / 2, n - 1000}) {
    const auto part = local::Slice{first, first + 1000, {}};
    expect_close(spectrum[part], wanted[{part}], 1e-10);
  }
  EXPECT_LE(runtime.statistics().peak_device_bytes, runtime.memory_bytes());
}

// A line of fewer than four usual chunks, which a task would hold elsewhere.
TEST(FourierInLittleMemory, LinesThatTheBudgetDoesNotHold) {
  RuntimeOptions options = testing::runtime_on(local::DeviceKind::cpu);
  options.memory = "24MiB";
  const Runtime runtime(options);
  const Array line = random::default_rng(6).normal(0., 1., {1 << 20});
  expect_parseval(line, fft::fft(line), line.size());
}

TEST(FourierInLittleMemory, ChunksAreCutToFitTheBudget) {
  RuntimeOptions options = testing::runtime_on(local::DeviceKind::cpu);
  options.memory = "32MiB";
  const Runtime runtime(options);
  const Array x = random::default_rng(5).normal(0., 1., {4096, 1024});
  const Array rows = fft::fft(x);
  EXPECT_EQ(rows.chunks().count(), 2);  // of 32 MiB
  expect_parseval(x, rows, 1024);
}

// A prime number of points, or twice one, has no factors of like size.
TEST_P(Fourier, LinesWithoutFactorsAreConvolutions) {
  const ChunkPolicyScope small = testing::small_chunks(2048);
  for (const int64_t n : {613, 2 * 1009}) {
    const NdArray x = numbers({n}), z = x + local::flip(numbers({n})) * std::complex<double>(0, 1);
    const Array spectrum = fft::fft(cut(z, {29}));
    EXPECT_GT(spectrum.chunks().count(), 4) << n;
    EXPECT_LE(stages_of(spectrum).largest_bytes, 4 * 2048) << n;
    expect_close(spectrum, local::fft::fft(z));
    for (const fft::Norm norm : {fft::Norm("ortho"), fft::Norm("forward"), fft::Norm("backward")}) {
      expect_close(fft::fft(cut(z, {n}), none, -1, norm), local::fft::fft(z, none, -1, norm));
      expect_close(fft::ifft(cut(z, {30}), none, -1, norm), local::fft::ifft(z, none, -1, norm));
      expect_close(fft::rfft(cut(x, {64}), none, 0, norm), local::fft::rfft(x, none, 0, norm));
      expect_close(fft::ihfft(cut(x, {64}), none, 0, norm), local::fft::ihfft(x, none, 0, norm));
      expect_close(fft::irfft(cut(z, {64}), n, 0, norm), local::fft::irfft(z, n, 0, norm));
      expect_close(fft::hfft(cut(z, {64}), n, 0, norm), local::fft::hfft(z, n, 0, norm));
    }
    const NdArray single = z.astype(c64);
    expect_close(fft::fft(cut(single, {100})), local::fft::fft(single), 1e-4);
    expect_close(fft::ifft(cut(single, {100}), none, -1, "ortho"), local::fft::ifft(single, none, -1, "ortho"), 1e-5);
    expect_close(fft::rfft(cut(x.astype(f32), {100})), local::fft::rfft(x.astype(f32)), 1e-4);
    expect_close(fft::fft(cut(local::round(x * 9).astype(i16), {100})), local::fft::fft(local::round(x * 9)), 1e-11);
  }
}

TEST_P(Fourier, LinesWithoutFactorsInAnyShape) {
  const ChunkPolicyScope small = testing::small_chunks(512);
  const NdArray x = numbers({2, 211, 3}), z = x + numbers({2, 211, 3}) * std::complex<double>(0, 1);
  expect_close(fft::fft(cut(z, {1, 50, 2}), none, 1), local::fft::fft(z, none, 1));
  expect_close(fft::rfft(cut(x, {2, 7, 1}), none, -2, "ortho"), local::fft::rfft(x, none, -2, "ortho"));
  // Cut off, filled up, backwards, every second one, and of what is computed.
  expect_close(fft::fft(cut(x, {1, 50, 2}), 199, 1), local::fft::fft(x, 199, 1));
  expect_close(fft::ifft(cut(z, {1, 50, 2}), 503, 1), local::fft::ifft(z, 503, 1));
  expect_close(fft::irfft(cut(z, {1, 50, 2}), 397, 1), local::fft::irfft(z, 397, 1));
  expect_close(fft::fft(cut(z, {1, 50, 2})(_, "::-1"_s, "::2"_s), none, 1),
               local::fft::fft(z(_, "::-1"_s, "::2"_s), none, 1));
  expect_close(fft::fft(cut(x, {1, 50, 2}) * 2 + 1, none, 1), local::fft::fft(x * 2 + 1, none, 1));
  // Several axes: the others go by themselves.
  expect_close(fft::fftn(cut(z, {1, 50, 3})), local::fft::fftn(z));
  expect_close(fft::irfftn(cut(z, {1, 50, 3}), std::vector<int64_t>{2, 211, 4}),
               local::fft::irfftn(z, std::vector<int64_t>{2, 211, 4}), 1e-11);
  expect_close(fft::rfft2(cut(numbers({2, 1009}), {1, 100})), local::fft::rfft2(numbers({2, 1009})));
  expect_close(fft::fft(cut(numbers({1009, 0}), {100, 1}), none, 0), local::fft::fft(numbers({1009, 0}), none, 0));
}

// They lose no more than some digits, however many points there are.
TEST_P(Fourier, LongLinesWithoutFactorsStayAccurate) {
  const ChunkPolicyScope small = testing::small_chunks(32 << 10);
  constexpr int64_t n = 65537;
  const NdArray z = numbers({n}) + local::flip(numbers({n})) * std::complex<double>(0, 1);
  const auto error = [&](const NdArray& x) {
    const NdArray wanted = local::fft::fft(x.astype(c128)), got = fft::fft(cut(x, {9999})).to_host().astype(c128);
    return (local::linalg::norm(got - wanted) / local::linalg::norm(wanted)).item<double>();
  };
  EXPECT_LT(error(z), 3e-15);
  EXPECT_LT(error(z.astype(c64)), 1e-6);
}

TEST_P(Fourier, NanStaysInItsLine) {
  NdArray x = numbers({5, 6});
  x[{2, 3}].fill(local::nan);
  const NdArray lost = local::isnan(fft::rfft(cut(x, {2, 2})).to_host());
  EXPECT_TRUE(local::array_equal(lost, local::isnan(local::fft::rfft(x))));
  EXPECT_EQ(local::sum(lost).item<int64_t>(), 4);
}

TEST_P(Fourier, MistakesAreTheLocalOnes) {
  const Array x = cut(numbers({4, 6}), {3, 4}), z = x * std::complex<double>(0, 1);
  EXPECT_THROW(fft::fft(x, 0), local::InvalidArgument);
  EXPECT_THROW(fft::fft(x, -3, 0), local::InvalidArgument);
  EXPECT_THROW(fft::fft(x, none, 2), local::IndexError);
  EXPECT_THROW(fft::fft(x, none, -1, "both"), local::InvalidArgument);
  EXPECT_THROW(fft::rfft(z), local::TypeError);
  EXPECT_THROW(fft::rfftn(z), local::TypeError);
  EXPECT_THROW(fft::irfft(x(_, ":1"_s)), local::InvalidArgument);
  EXPECT_THROW(fft::fft(zeros({3, 0})), local::InvalidArgument);
  EXPECT_THROW(fft::fftn(x, std::vector<int64_t>{3}, std::vector<int64_t>{0, 1}), local::InvalidArgument);
  EXPECT_THROW(fft::rfftn(x, none, std::vector<int64_t>{}), local::IndexError);
  EXPECT_THROW(fft::fft2(cut(numbers({5}), {2})), local::IndexError);
  try {
    fft::fft(x, none, -1, "both");
  } catch (const local::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Invalid norm value both"));
  }
}

// What is known of an array of 10^12 elements is known without planning its transforms.
TEST_P(Fourier, LargeArraysAreLazy) {
  const Array x = zeros({1000, 1000, 1000, 1000});
  EXPECT_EQ(fft::rfft(x).shape(), (Dims{1000, 1000, 1000, 501}));
  EXPECT_EQ(fft::fftn(x).dtype(), c128);
  EXPECT_EQ(fft::fft(zeros({int64_t{1} << 40})).shape(), (Dims{int64_t{1} << 40}));
}

}  // namespace
}  // namespace quarry
