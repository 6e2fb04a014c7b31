// The parts of the service that need no ranks; tests/mpi/service.cpp has the rest.
#include "quarry/chunked/exec/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "quarry/chunked/exec/hyperslab.h"
#include "quarry/chunked/exec/service_messages.h"
#include "quarry/local/device/sharing.h"

namespace quarry::exec {
namespace {

// Packs element by element.
std::vector<std::byte> pack(const Hyperslab& hyperslab, const std::vector<std::byte>& block) {
  std::vector<std::byte> packed;
  const local::Dims strides = local::contiguous_strides(hyperslab.shape, hyperslab.itemsize);
  local::Dims at = local::Dims::filled(hyperslab.shape.size());
  const int64_t elements = local::element_count(hyperslab.count);
  for (int64_t i = 0; i < elements; ++i) {
    int64_t offset = 0;
    for (int d = 0; d < at.size(); ++d) offset += (hyperslab.start[d] + at[d]) * strides[d];
    packed.insert(packed.end(), block.begin() + offset, block.begin() + offset + hyperslab.itemsize);
    for (int d = at.size() - 1; d >= 0 && ++at[d] == hyperslab.count[d]; --d) at[d] = 0;
  }
  return packed;
}

TEST(HyperslabRuns, AnySegmentOfAnyHyperslab) {
  std::mt19937_64 random(1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 500; ++round) {
    Hyperslab hyperslab;
    hyperslab.itemsize = 1 + below(16);
    const int ndim = static_cast<int>(below(5));
    for (int d = 0; d < ndim; ++d) {
      const int64_t extent = 1 + below(6);
      const int64_t start = below(extent);
      hyperslab.shape.push_back(extent);
      const bool whole = below(2) == 0;
      hyperslab.start.push_back(whole ? 0 : start);
      hyperslab.count.push_back(whole ? extent : below(extent - start + 1));
    }
    std::vector<std::byte> block(static_cast<size_t>(local::element_count(hyperslab.shape) * hyperslab.itemsize));
    for (std::byte& b : block) b = static_cast<std::byte>(random());
    const std::vector<std::byte> expected = pack(hyperslab, block);
    const HyperslabRuns runs(hyperslab);
    ASSERT_EQ(runs.bytes(), static_cast<int64_t>(expected.size()));
    const auto read = [&](int64_t offset, int64_t bytes, void* to) {
      ASSERT_GE(offset, 0);
      ASSERT_LE(offset + bytes, static_cast<int64_t>(block.size()));
      std::memcpy(to, block.data() + offset, static_cast<size_t>(bytes));
    };
    std::vector<std::byte> scratch(static_cast<size_t>(below(200)));
    std::vector<std::byte> got(expected.size());
    const int64_t segment = 1 + below(100);
    for (int64_t begin = 0; begin < runs.bytes(); begin += segment) {
      runs.read(begin, std::min(segment, runs.bytes() - begin), got.data() + begin, scratch, read);
    }
    ASSERT_TRUE(got == expected) << round;
  }
}

TEST(HyperslabRuns, ShortRunsAreReadTogether) {
  // 100 runs of 16 bytes, 32 bytes apart.
  const HyperslabRuns runs({{100, 8}, {0, 2}, {100, 4}, 4});
  std::vector<std::byte> scratch(4096), to(1600);
  int calls = 0;
  runs.read(0, 1600, to.data(), scratch, [&](int64_t, int64_t bytes, void* into) {
    std::memset(into, 0, static_cast<size_t>(bytes));
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

// By engines and by kernels, several hyperslabs at a time, from and to addresses of any alignment.
class DeviceBoxes : public ::testing::TestWithParam<local::DeviceKind> {};

TEST_P(DeviceBoxes, AnyBox) {
  if (!local::available(GetParam())) GTEST_SKIP() << "no GPU on this machine";
  local::Backend& backend = local::backend(GetParam());
  local::MemorySharing* const sharing = local::memory_sharing(GetParam());
  constexpr int64_t kSlab = int64_t{32} << 20;
  void* const slab = backend.allocate_slab(0, kSlab);
  const auto stream = backend.create_stream(0, local::StreamRole::to_device);
  std::mt19937_64 random(2);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 60; ++round) {
    std::vector<local::BoxCopy> copies;
    std::vector<std::vector<std::byte>> blocks, expected;
    std::vector<std::byte*> results;
    auto* free = static_cast<std::byte*>(slab);
    const int64_t align = int64_t{1} << below(5);
    const int64_t hyperslabs = 1 + below(30);
    for (int64_t b = 0; b < hyperslabs; ++b) {
      Hyperslab hyperslab;
      hyperslab.itemsize = round % 3 == 0 ? 1 + below(16) : align;
      const int ndim = static_cast<int>(below(5));
      const int64_t most = ndim == 0 ? 1 : ndim == 1 ? 100000 : ndim == 2 ? 300 : 12;
      for (int d = 0; d < ndim; ++d) {
        const int64_t extent = 1 + below(most);
        const int64_t start = below(extent);
        const bool whole = below(3) == 0;
        hyperslab.shape.push_back(extent);
        hyperslab.start.push_back(whole ? 0 : start);
        hyperslab.count.push_back(whole ? extent : 1 + below(extent - start));
      }
      auto& block =
          blocks.emplace_back(static_cast<size_t>(local::element_count(hyperslab.shape) * hyperslab.itemsize));
      for (std::byte& byte : block) byte = static_cast<std::byte>(random());
      expected.push_back(pack(hyperslab, block));
      const auto bytes = static_cast<int64_t>(block.size());
      if (free + 2 * bytes + 64 > static_cast<std::byte*>(slab) + kSlab) break;
      stream->copy(free, block.data(), bytes);
      std::byte* const to = free + (bytes + 15) / 16 * 16 + (round % 2 == 0 ? 0 : align);
      copies.push_back(HyperslabRuns(hyperslab).device_copy(free, to).value());
      results.push_back(to);
      free = to + (bytes + 31) / 16 * 16;
    }
    sharing->copy_boxes(copies, *stream, round % 4 == 3 ? local::CopyBy::engines : local::CopyBy::kernel);
    for (size_t b = 0; b < results.size(); ++b) {
      std::vector<std::byte> got(expected[b].size());
      stream->copy(got.data(), results[b], static_cast<int64_t>(got.size()));
      stream->synchronize();
      ASSERT_TRUE(got == expected[b]) << round << " " << b;
    }
  }
  backend.free_slab(0, slab, kSlab);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceBoxes, ::testing::Values(local::DeviceKind::emulated, local::DeviceKind::cuda),
                         [](const auto& kind) { return local::name(kind.param); });

TEST(HyperslabRuns, AxesThatContinueEachOtherAreOne) {
  // Two of three planes, of every row the same columns.
  const auto copy = HyperslabRuns({{3, 10, 8}, {1, 0, 2}, {2, 10, 4}, 4}).device_copy(nullptr, nullptr).value();
  EXPECT_EQ(copy.axes, 1);
  EXPECT_EQ(copy.outer[0].count, 20);
  EXPECT_EQ(copy.outer[0].stride, 32);
  EXPECT_EQ(copy.run_bytes, 16);
  const local::Dims many = local::Dims::filled(9, 3), some = local::Dims::filled(9, 2),
                    zeros = local::Dims::filled(9, 0);
  EXPECT_FALSE(HyperslabRuns({many, zeros, some, 4}).device_copy(nullptr, nullptr).has_value());
}

TEST(HyperslabRuns, OutsideTheBlockThrows) {
  EXPECT_THROW(HyperslabRuns({{10}, {5}, {6}, 4}), local::InvalidArgument);
  EXPECT_THROW(HyperslabRuns({{10}, {-1}, {3}, 4}), local::InvalidArgument);
  EXPECT_THROW(HyperslabRuns({{10}, {0}, {3}, 0}), local::InvalidArgument);
  EXPECT_THROW(HyperslabRuns({{10, 2}, {0}, {3}, 4}), local::InvalidArgument);
  EXPECT_EQ(HyperslabRuns({{}, {}, {}, 8}).bytes(), 8);
  EXPECT_EQ(HyperslabRuns({{4, 0}, {0, 0}, {4, 0}, 8}).bytes(), 0);
}

TEST(Messages, SurviveTheWay) {
  Message request;
  request.epoch = 77;
  request.path = 3;
  request.request = {5,
                     {1, 2, int64_t{1} << 40},
                     {local::Dims::filled(32, 3), local::Dims::filled(32, 1), local::Dims::filled(32, 2), 8},
                     6,
                     9};
  const Message got = decode(encode(request));
  EXPECT_EQ(got.kind, MessageKind::fetch);
  EXPECT_EQ(got.path, 3);
  EXPECT_EQ(got.epoch, 77u);
  EXPECT_EQ(got.request.fetch, 5u);
  EXPECT_EQ(got.request.key, request.request.key);
  EXPECT_EQ(got.request.hyperslab.count, local::Dims::filled(32, 2));
  EXPECT_EQ(got.request.first_segment, 6);
  EXPECT_EQ(got.request.segments, 9);
  Message failed;
  failed.kind = MessageKind::failed;
  failed.error = {local::ErrorCode::budget, std::string(10000, 'x'), 123};
  EXPECT_LE(encode(failed).size(), 4096u);
  EXPECT_EQ(decode(encode(failed)).error.detail, 123);
  EXPECT_EQ(decode(encode(failed)).error.code, local::ErrorCode::budget);
}

TEST(Messages, CutShortIsAnError) {
  Message request;
  request.request.hyperslab = {{10}, {0}, {10}, 4};
  const std::vector<std::byte> bytes = encode(request);
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THROW(decode(std::span(bytes).first(n)), local::CommError);
  }
}

}  // namespace
}  // namespace quarry::exec
