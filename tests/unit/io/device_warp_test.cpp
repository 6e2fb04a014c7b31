// The device's decoders of streams on the host with a whole warp, whose threads run far apart: what one thread writes
// is there before another reads it, and nobody waits for those that have ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "quarry/io/codecs/streams.h"
#include "tests/support/whole_warp.h"

// After what stands for CUDA.
#include "quarry/local/cuda/inflate.cuh"
#include "quarry/local/cuda/zstd.cuh"

namespace quarry::io {
namespace {

using local::StreamStatus;
using Content = std::vector<std::byte>;

// Noise; repeats near; few values; mostly zeros; repeats far.
constexpr int kKinds = 5;
Content bytes_of(std::mt19937& generator, int kind, size_t count) {
  Content out(count);
  for (size_t i = 0; i < count; ++i) {
    const auto noise = static_cast<unsigned>(generator() & 0xff);
    switch (kind) {
      case 1:
        out[i] = i > 100 && noise % 16 != 0 ? out[i - 1 - generator() % 100] : static_cast<std::byte>(noise);
        break;
      case 2:
        out[i] = static_cast<std::byte>(noise % 5 * 3);
        break;
      case 3:
        out[i] = static_cast<std::byte>(noise % 50 == 0 ? i % 7 : 0);
        break;
      case 4:
        out[i] = i >= 500 && i / 90 % 3 != 0 ? out[i - 500] : static_cast<std::byte>(noise);
        break;
      default:
        out[i] = static_cast<std::byte>(noise);
    }
  }
  return out;
}

template <class Tables>
void expect_decoded(StreamStatus (*decode)(const local::EncodedStream&, Tables&), const Content& stream,
                    const Content& bytes, bool backward) {
  std::vector<uint32_t> words((stream.size() + 3) / 4);
  if (!stream.empty()) std::memcpy(words.data(), stream.data(), stream.size());
  Content room(bytes.size());
  const local::EncodedStream encoded{reinterpret_cast<const std::byte*>(words.data()), std::ssize(stream), room.data(),
                                     std::ssize(room)};
  const auto tables = std::make_unique<Tables>();
  StreamStatus statuses[local::cuda::kWarp];
  const auto body = [&] { statuses[local::cuda::threadIdx.x] = decode(encoded, *tables); };
  ASSERT_TRUE(local::cuda::Warp::instance().run(body, backward));
  for (const StreamStatus status : statuses) ASSERT_EQ(status, StreamStatus::good);
  ASSERT_TRUE(room == bytes);
}

void expect_both(std::mt19937& generator, int kind, size_t count, int level) {
  const Content bytes = bytes_of(generator, kind, count);
  Content zlib(most_zlib_bytes(level % 10, count)), zstd(most_zstd_bytes(count));
  zlib.resize(encode_zlib(level % 10, bytes, zlib));
  zstd.resize(encode_zstd(level, bytes, zstd));
  for (const bool backward : {false, true}) {
    SCOPED_TRACE("kind " + std::to_string(kind) + ", " + std::to_string(count) + " bytes, level " +
                 std::to_string(level) + (backward ? ", backward" : ""));
    expect_decoded<local::cuda::Tables>(&local::cuda::decode, zlib, bytes, backward);
    expect_decoded<local::cuda::zstd::Tables>(&local::cuda::zstd::decode, zstd, bytes, backward);
  }
}

TEST(DeviceWarp, ThreadsWaitForEachOther) {
  std::mt19937 generator(1);
  for (const int level : {1, 3, 6, 19})
    for (int kind = 0; kind < kKinds; ++kind)
      for (const size_t count : {size_t{1}, size_t{31}, size_t{300}, size_t{4000}})
        expect_both(generator, kind, count, level);
  expect_both(generator, 1, 140'000, 3);  // more than a block
}

TEST(DeviceWarp, ThreadsAgreeOnDamage) {
  std::mt19937 generator(2);
  const Content bytes = bytes_of(generator, 1, 1000);
  Content zstd(most_zstd_bytes(bytes.size()));
  zstd.resize(encode_zstd(3, bytes, zstd));
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    Content damaged = zstd, room(bytes.size());
    for (unsigned n = 0; n <= generator() % 3; ++n)
      damaged[generator() % damaged.size()] = static_cast<std::byte>(generator());
    const auto tables = std::make_unique<local::cuda::zstd::Tables>();
    std::vector<uint32_t> words((damaged.size() + 3) / 4);
    std::memcpy(words.data(), damaged.data(), damaged.size());
    StreamStatus statuses[local::cuda::kWarp];
    ASSERT_TRUE(local::cuda::Warp::instance().run(
        [&] {
          statuses[local::cuda::threadIdx.x] = local::cuda::zstd::decode(
              {reinterpret_cast<const std::byte*>(words.data()), std::ssize(damaged), room.data(), std::ssize(room)},
              *tables);
        },
        i % 2 != 0));
    for (const StreamStatus status : statuses) ASSERT_EQ(status, statuses[0]);
  }
}

}  // namespace
}  // namespace quarry::io
