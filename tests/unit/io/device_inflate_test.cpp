// The device's decoder of zlib streams, on the host with a warp of one thread: every kind of block, any place in
// memory, and damage. On GPUs tests/unit/chunked/exec/device_decoding_test.cpp runs it.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/one_thread_warp.h"

// After what stands for CUDA.
#include "quarry/local/cuda/inflate.cuh"

namespace quarry::io {
namespace {

using local::StreamStatus;
using Content = std::vector<unsigned char>;

// Bytes of several kinds: noise, few values, mostly zeros, repeats near and far, zeros, letters.
Content bytes_of(std::mt19937& generator, size_t count) {
  Content out(count);
  const unsigned kind = generator() % 6;
  for (size_t i = 0; i < count; ++i) {
    const auto noise = static_cast<unsigned char>(generator());
    switch (kind) {
      case 0:
        out[i] = noise;
        break;
      case 1:
        out[i] = noise % 4;
        break;
      case 2:
        out[i] = noise % 50 == 0 ? static_cast<unsigned char>(i % 7) : 0;
        break;
      case 3:
        out[i] = i > 300 ? out[i - 1 - generator() % 300] : noise;
        break;
      case 4:
        out[i] = 0;
        break;
      default:
        out[i] = noise % 3 == 0 ? noise : static_cast<unsigned char>(65 + noise % 20);
    }
  }
  return out;
}

// By zlib: any window, memory, level and strategy, which make stored, fixed and dynamic blocks.
Content stream_of(std::mt19937& generator, const Content& bytes) {
  constexpr int kStrategies[] = {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED};
  z_stream state{};
  deflateInit2(&state, static_cast<int>(generator() % 10), Z_DEFLATED, 9 + static_cast<int>(generator() % 7),
               1 + static_cast<int>(generator() % 9), kStrategies[generator() % 5]);
  Content out(deflateBound(&state, bytes.size()) + 64);
  Content copy = bytes;
  state.next_in = copy.data();
  state.avail_in = static_cast<unsigned>(copy.size());
  state.next_out = out.data();
  state.avail_out = static_cast<unsigned>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

StreamStatus decode(const Content& stream, size_t shift, Content& room) {
  std::vector<uint32_t> words((shift + stream.size() + 3) / 4);
  auto* const from = reinterpret_cast<std::byte*>(words.data()) + shift;
  if (!stream.empty()) std::memcpy(from, stream.data(), stream.size());
  const auto tables = std::make_unique<local::cuda::Tables>();
  return local::cuda::decode({from, static_cast<int64_t>(stream.size()), reinterpret_cast<std::byte*>(room.data()),
                              static_cast<int64_t>(room.size())},
                             *tables);
}

size_t length_of(std::mt19937& generator) { return generator() % 4 == 0 ? generator() % 10 : generator() % 100'000; }

TEST(DeviceInflate, GivesTheBytes) {
  std::mt19937 generator(1);
  for (int i = 0; i < 400; ++i) {
    const Content bytes = bytes_of(generator, length_of(generator)), stream = stream_of(generator, bytes);
    Content room(bytes.size(), 0x55);
    ASSERT_EQ(decode(stream, generator() % 4, room), StreamStatus::good) << i;
    ASSERT_TRUE(room == bytes) << i;
  }
}

TEST(DeviceInflate, TellsWhatIsWrong) {
  std::mt19937 generator(2);
  std::map<StreamStatus, int> found;
  for (int i = 0; i < 600; ++i) {
    const Content bytes = bytes_of(generator, length_of(generator) + 1);
    Content stream = stream_of(generator, bytes);
    Content room(bytes.size());
    StreamStatus status{};
    switch (i % 4) {
      case 0:  // a bit is another one: it may be one that nobody looks at
        stream[generator() % stream.size()] ^= static_cast<unsigned char>(1U << generator() % 8);
        status = decode(stream, generator() % 4, room);
        EXPECT_TRUE(status != StreamStatus::good || room == bytes) << i;
        break;
      case 1:  // it ends early
        stream.resize(generator() % stream.size());
        status = decode(stream, generator() % 4, room);
        EXPECT_NE(status, StreamStatus::good) << i;
        break;
      case 2:  // more room, and less
        room.resize(bytes.size() + 1 + generator() % 5);
        status = decode(stream, 0, room);
        EXPECT_EQ(status, StreamStatus::too_short) << i;
        room.resize(generator() % bytes.size());
        EXPECT_EQ(decode(stream, 0, room), StreamStatus::too_long) << i;
        break;
      default:  // the checksum
        stream[stream.size() - 1 - generator() % 4] ^= 1;
        status = decode(stream, 0, room);
        EXPECT_EQ(status, StreamStatus::wrong_checksum) << i;
    }
    ++found[status];
  }
  EXPECT_GT(found[StreamStatus::damaged], 100);
}

// What came before does not matter: the tables of an earlier stream.
TEST(DeviceInflate, StreamsThatNobodyMadeAreRefused) {
  std::mt19937 generator(3);
  Content room(1000);
  for (int i = 0; i < 20'000; ++i) {
    Content stream(2 + generator() % 100);
    for (unsigned char& byte : stream) byte = static_cast<unsigned char>(generator());
    stream[0] = 0x78;
    stream[1] = 0x9c;
    ASSERT_NE(decode(stream, generator() % 4, room), StreamStatus::good);
  }
}

}  // namespace
}  // namespace quarry::io
