// cuRAND's generators on the CPU side of its host interface, which needs no GPU: the same sequences as on one.
#include "local/cuda/bit_generators.h"

#include <gtest/gtest.h>

#include <vector>

#include "local/base/error.h"
#include "local/cpu/sobol.h"

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

TEST(CudaBitGenerators, Scrambles) {
  const BitGenerator bits{Kind::scrambled_sobol64, 0, 0, 2};
  VendorGenerator generator(bits, VendorGenerator::Side::host);
  const std::vector<uint64_t> words = of_vendor<uint64_t>(generator, 4);
  EXPECT_EQ(words[0], 0xe20866fe27bec92au);
  EXPECT_THROW(generator.fill(nullptr, 3), DeviceError);
  EXPECT_THROW(cuda_random_words().check({Kind::scrambled_sobol64, 1, 0, 2}), NotSupported);
  EXPECT_THROW(cuda_random_words().check({Kind::sobol32, 0, 0, 20001}), NotSupported);
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
