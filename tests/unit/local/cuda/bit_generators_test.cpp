// cuRAND's generators on the CPU side of its host interface, which needs no GPU: the same sequences as on one.
#include "quarry/local/cuda/bit_generators.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/sobol.h"
#include "quarry/local/cuda/scrambled_sobol.h"
#include "tests/unit/local/cuda/kernels_on_host.h"

namespace quarry::local::cuda {
namespace {

using Kind = BitGenerator::Kind;

template <class T>
std::vector<T> of_vendor(VendorGenerator& generator, int64_t count) {
  std::vector<T> words(static_cast<size_t>(count));
  generator.fill(words.data(), count);
  return words;
}

template <class T>
void compare_points(Kind kind) {
  for (const int64_t dimensions : {1, 2, 3, 40, 1111}) {
    const BitGenerator start{kind, 0, 0, dimensions};
    VendorGenerator vendor(start, VendorGenerator::Side::host);
    for (const int64_t offset : {0, 1, 255, 12345}) {
      const int64_t points = 300, count = points * dimensions;
      BitGenerator bits = start;
      bits.offset = static_cast<uint64_t>(offset);
      vendor.skip_to(bits.offset);
      std::vector<T> ours(static_cast<size_t>(count));
      cpu_random_words().fill(bits, ours.data(), count, ExecContext{});
      ASSERT_EQ(ours, of_vendor<T>(vendor, count)) << dimensions << " dimensions from " << offset;
      EXPECT_EQ(vendor.offset(), bits.offset + points);
      bits.offset += points;
      cpu_random_words().fill(bits, ours.data(), count, ExecContext{});
      ASSERT_EQ(ours, of_vendor<T>(vendor, count)) << "continued";
    }
  }
}

TEST(CudaBitGenerators, SobolsPointsAreTheCpus) {
  compare_points<uint32_t>(Kind::sobol32);
  compare_points<uint64_t>(Kind::sobol64);
}

TEST(CudaBitGenerators, PseudoRandomSequencesContinueAndSkip) {
  for (const Kind kind : {Kind::xorwow, Kind::mrg32k3a, Kind::mtgp32}) {
    const BitGenerator bits{kind, 5};
    VendorGenerator one(bits, VendorGenerator::Side::host), other(bits, VendorGenerator::Side::host);
    const std::vector<uint32_t> all = of_vendor<uint32_t>(one, 1000);
    EXPECT_EQ(of_vendor<uint32_t>(other, 300), std::vector<uint32_t>(all.begin(), all.begin() + 300)) << name(kind);
    EXPECT_EQ(of_vendor<uint32_t>(other, 700), std::vector<uint32_t>(all.begin() + 300, all.end())) << name(kind);
    if (!other.can_skip()) {
      EXPECT_THROW(other.skip_to(3), DeviceError);
      continue;
    }
    other.skip_to(3);
    EXPECT_EQ(of_vendor<uint32_t>(other, 997), std::vector<uint32_t>(all.begin() + 3, all.end())) << name(kind);
  }
}

// The kernel on the host against the CPU's points, over cuRAND's direction numbers.
template <class T>
void compare_scrambled(Kind kind) {
  KernelsOnHost kernels;
  const ModuleSource source = sobol_source(sizeof(T));
  EXPECT_NE(compile(source.text, 90).find(source.kernels[0]), std::string::npos);
  kernels.add(source, "sobol");
  try {
    kernels.compile();
  } catch (const NotSupported&) {
    GTEST_SKIP() << "no compiler";
  }
  const auto address = [](const void* data) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(data)); };
  // The last points that there are, too.
  const auto end = static_cast<uint64_t>(std::numeric_limits<T>::max());
  for (const auto& [dimensions, points, offset] : {std::tuple{int64_t{1}, int64_t{1}, uint64_t{0}},
                                                   {int64_t{3}, int64_t{20000}, uint64_t{0}},
                                                   {int64_t{40}, int64_t{700}, uint64_t{255}},
                                                   {int64_t{2}, int64_t{8192}, uint64_t{123456789}},
                                                   {int64_t{1111}, int64_t{3}, uint64_t{(1 << 20) - 1}},
                                                   {int64_t{2}, int64_t{300}, end - 299}}) {
    const BitGenerator bits{kind, /*seed=*/static_cast<uint64_t>(points), offset, dimensions};
    const int64_t count = dimensions * points;
    std::vector<T> expected(static_cast<size_t>(count)), words(static_cast<size_t>(count));
    cpu_random_words().fill(bits, expected.data(), count, ExecContext{});
    const std::vector<char> numbers = scrambled_directions(bits);
    const auto blocks =
        static_cast<int64_t>(offset % 256 + static_cast<uint64_t>(points) + kSobolTile - 1) / kSobolTile;
    ASSERT_EQ(kernels.call("scrambled_points", blocks, dimensions,
                           {address(numbers.data()), address(words.data()), static_cast<int64_t>(offset), points}),
              "");
    ASSERT_EQ(words, expected) << dimensions << " dimensions from " << offset;
  }
}

TEST(CudaBitGenerators, ScrambledPointsAreTheCpus) {
  compare_scrambled<uint32_t>(Kind::scrambled_sobol32);
  compare_scrambled<uint64_t>(Kind::scrambled_sobol64);
  EXPECT_THROW(cuda_random_words().check({Kind::sobol32, 0, 0, 20001}), NotSupported);
  EXPECT_EQ(scrambled_directions({Kind::scrambled_sobol32, 1, 0, 20000}).size(), 20000 * 33 * sizeof(uint32_t));
}

TEST(CudaBitGenerators, Orderings) {
  const auto make = [](Kind kind, BitGenerator::Ordering ordering) {
    VendorGenerator(BitGenerator{kind, 5, 0, 1, ordering}, VendorGenerator::Side::host);
  };
  make(Kind::xorwow, BitGenerator::Ordering::best);
  make(Kind::xorwow, BitGenerator::Ordering::seeded);
  EXPECT_THROW(make(Kind::mrg32k3a, BitGenerator::Ordering::seeded), NotSupported);
}

}  // namespace
}  // namespace quarry::local::cuda
