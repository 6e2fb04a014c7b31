// The device's decoder of Zstandard frames, on the host with a warp of one thread: every level and kind of block, any
// place in memory, and damage. On GPUs tests/unit/chunked/exec/device_decoding_test.cpp runs it.
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/one_thread_warp.h"

// After what stands for CUDA.
#include "quarry/local/cuda/zstd.cuh"

namespace quarry::io {
namespace {

using local::StreamStatus;
using Content = std::vector<unsigned char>;

constexpr int kKinds = 8;
// Noise; one value; text of few words; shuffled floats; repeats near; repeats far; few values; mostly zeros.
Content bytes_of(std::mt19937& generator, int kind, size_t count) {
  Content out(count);
  const auto noise = [&] { return static_cast<unsigned char>(generator()); };
  const std::string words[] = {"decoded ", "by ", "a ", "warp ", "of threads ", "quickly, ", "once more.\n", "x"};
  std::string word;
  for (size_t i = 0; i < count; ++i) {
    switch (kind) {
      case 0:
        out[i] = noise();
        break;
      case 1:
        out[i] = 7;
        break;
      case 2:
        if (word.empty()) word = words[generator() % 8];
        out[i] = static_cast<unsigned char>(word.front());
        word.erase(0, 1);
        break;
      case 3: {
        const size_t plane = count / 4;
        if (plane == 0 || i >= plane) break;  // written with the first
        const float value = std::round(std::sin(static_cast<float>(generator() % 5000)) * 256) / 16;
        unsigned char bytes[4];
        std::memcpy(bytes, &value, 4);
        for (size_t b = 0; b < 4; ++b) out[b * plane + i] = bytes[b];
        break;
      }
      case 4:
        out[i] = i > 300 && generator() % 16 != 0 ? out[i - 1 - generator() % 300] : noise();
        break;
      case 5:
        out[i] = i >= 5000 && i / 700 % 3 != 0 ? out[i - 5000] : noise();
        break;
      case 6:
        out[i] = noise() % 5 * 3;
        break;
      default:
        out[i] = noise() % 50 == 0 ? static_cast<unsigned char>(i % 7) : 0;
    }
  }
  return out;
}

struct Settings {
  int level = 3;
  bool has_size = true, has_checksum = false;
  int window_log = 0;  // as the level says
};

Content frame_of(const Content& bytes, const Settings& settings) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, settings.level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, settings.has_checksum ? 1 : 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, settings.has_size ? 1 : 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, settings.window_log);
  Content out(ZSTD_compressBound(bytes.size()));
  const size_t made = ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size());
  EXPECT_FALSE(ZSTD_isError(made)) << ZSTD_getErrorName(made);
  out.resize(made);
  ZSTD_freeCCtx(context);
  return out;
}

Settings settings_of(std::mt19937& generator) {
  constexpr int kLevels[] = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 19, -1, -5, -20, -100};
  return {kLevels[generator() % 16], generator() % 3 != 0, generator() % 2 == 0,
          generator() % 4 == 0 ? 10 + static_cast<int>(generator() % 8) : 0};
}

StreamStatus decode(const Content& stream, size_t shift, Content& room, size_t room_shift = 0) {
  std::vector<uint32_t> words((shift + stream.size() + 3) / 4);
  auto* const from = reinterpret_cast<std::byte*>(words.data()) + shift;
  if (!stream.empty()) std::memcpy(from, stream.data(), stream.size());
  constexpr unsigned char kMark = 0xa5;  // beside the room
  Content place(room_shift + room.size() + 16, kMark);
  const auto tables = std::make_unique<local::cuda::zstd::Tables>();
  const StreamStatus status = local::cuda::zstd::decode(
      {from, static_cast<int64_t>(stream.size()), reinterpret_cast<std::byte*>(place.data() + room_shift),
       static_cast<int64_t>(room.size())},
      *tables);
  std::copy_n(place.begin() + static_cast<std::ptrdiff_t>(room_shift), room.size(), room.begin());
  EXPECT_EQ(std::count(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(room_shift), kMark),
            static_cast<std::ptrdiff_t>(room_shift));
  EXPECT_EQ(std::count(place.end() - 16, place.end(), kMark), 16);
  return status;
}

void expect_decoded(const Content& stream, const Content& bytes, std::mt19937& generator) {
  Content room(bytes.size(), 0x55);
  ASSERT_EQ(decode(stream, generator() % 4, room, generator() % 9), StreamStatus::good);
  ASSERT_TRUE(room == bytes);
}

size_t length_of(std::mt19937& generator) { return generator() % 4 == 0 ? generator() % 40 : generator() % 100'000; }

TEST(DeviceZstd, EveryLevelAndKind) {
  std::mt19937 generator(1);
  for (int level = -7; level <= 19; ++level)
    for (int kind = 0; kind < kKinds; ++kind) {
      const Content bytes = bytes_of(generator, kind, 20'000 + generator() % 1000);
      SCOPED_TRACE("level " + std::to_string(level) + ", kind " + std::to_string(kind));
      expect_decoded(frame_of(bytes, {.level = level, .has_checksum = kind % 2 == 0}), bytes, generator);
    }
}

TEST(DeviceZstd, AnySize) {
  std::mt19937 generator(2);
  for (int i = 0; i < 400; ++i) {
    const Content bytes = bytes_of(generator, i % kKinds, length_of(generator));
    SCOPED_TRACE(i);
    expect_decoded(frame_of(bytes, settings_of(generator)), bytes, generator);
  }
  for (int kind = 0; kind < kKinds; ++kind)
    for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 17, (size_t{1} << 17) + 1, size_t{1} << 20}) {
      const Content bytes = bytes_of(generator, kind, size);
      SCOPED_TRACE("kind " + std::to_string(kind) + ", " + std::to_string(size) + " bytes");
      for (const int level : {1, 3, 7}) expect_decoded(frame_of(bytes, {.level = level}), bytes, generator);
    }
}

// Frames one after the other, with what is skipped between, before and behind them.
TEST(DeviceZstd, SeveralFrames) {
  std::mt19937 generator(3);
  for (int i = 0; i < 100; ++i) {
    Content stream, bytes;
    const auto skip = [&] {
      if (generator() % 2 == 0) return;
      const size_t count = generator() % 20;
      for (const size_t byte : {size_t{0x50 + generator() % 16}, size_t{0x2a}, size_t{0x4d}, size_t{0x18}, count,
                                size_t{0}, size_t{0}, size_t{0}})
        stream.push_back(static_cast<unsigned char>(byte));
      for (size_t k = 0; k < count; ++k) stream.push_back(static_cast<unsigned char>(generator()));
    };
    skip();
    for (size_t frame = 0, frames = 1 + generator() % 4; frame < frames; ++frame) {
      const Content part = bytes_of(generator, static_cast<int>(generator() % kKinds), length_of(generator) / 4);
      const Content one = frame_of(part, settings_of(generator));
      stream.insert(stream.end(), one.begin(), one.end());
      bytes.insert(bytes.end(), part.begin(), part.end());
      skip();
    }
    SCOPED_TRACE(i);
    expect_decoded(stream, bytes, generator);
  }
}

TEST(DeviceZstd, TellsWhatIsWrong) {
  std::mt19937 generator(4);
  std::map<StreamStatus, int> found;
  for (int i = 0; i < 4000; ++i) {
    const Content bytes = bytes_of(generator, static_cast<int>(generator() % kKinds), length_of(generator) / 10 + 1);
    Settings settings = settings_of(generator);
    if (i % 4 == 3) settings.has_checksum = true;
    Content stream = frame_of(bytes, settings);
    Content room(bytes.size());
    StreamStatus status{};
    SCOPED_TRACE(i);
    switch (i % 4) {
      case 0:  // a bit is another one: what is found good then is what the library finds
        stream[generator() % stream.size()] ^= static_cast<unsigned char>(1U << generator() % 8);
        status = decode(stream, generator() % 4, room);
        if (status == StreamStatus::good) {
          Content expected(bytes.size());
          ASSERT_EQ(ZSTD_decompress(expected.data(), expected.size(), stream.data(), stream.size()), bytes.size());
          EXPECT_TRUE(room == expected);
        }
        break;
      case 1:  // it ends early
        stream.resize(generator() % stream.size());
        status = decode(stream, generator() % 4, room);
        EXPECT_NE(status, StreamStatus::good);
        break;
      case 2:  // more room, and less
        room.resize(bytes.size() + 1 + generator() % 5);
        status = decode(stream, 0, room);
        EXPECT_EQ(status, StreamStatus::too_short);
        room.resize(generator() % bytes.size());
        EXPECT_EQ(decode(stream, 0, room), StreamStatus::too_long);
        break;
      default:  // the checksum
        stream[stream.size() - 1 - generator() % 4] ^= 1;
        status = decode(stream, 0, room);
        EXPECT_EQ(status, StreamStatus::wrong_checksum);
    }
    ++found[status];
  }
  EXPECT_GT(found[StreamStatus::damaged], 1000);
}

// Many changes of one stream, in every part of it.
TEST(DeviceZstd, DamageAnywhere) {
  std::mt19937 generator(5);
  for (int kind = 2; kind < kKinds; ++kind) {
    const Content bytes = bytes_of(generator, kind, 3000);
    const Content stream = frame_of(bytes, {.level = kind % 2 == 0 ? 3 : 15});
    for (int i = 0; i < 2000; ++i) {
      Content damaged = stream, room(bytes.size()), expected(bytes.size());
      for (unsigned n = 0; n <= generator() % 4; ++n)
        damaged[4 + generator() % (damaged.size() - 4)] = static_cast<unsigned char>(generator());
      if (decode(damaged, generator() % 4, room, generator() % 9) != StreamStatus::good) continue;
      ASSERT_EQ(ZSTD_decompress(expected.data(), expected.size(), damaged.data(), damaged.size()), bytes.size());
      EXPECT_TRUE(room == expected);
    }
  }
}

TEST(DeviceZstd, DictionariesAreNamed) {
  // A frame of one raw block of a byte, which asks for dictionary 7.
  const Content stream{0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 1, 9, 0, 0, 42};
  Content room(1);
  EXPECT_EQ(decode(stream, 0, room), StreamStatus::dictionary);
  Content without = stream;
  without[5] = 0;  // none
  EXPECT_EQ(decode(without, 0, room), StreamStatus::good);
  EXPECT_EQ(room[0], 42);
}

TEST(DeviceZstd, NothingIsNoBytes) {
  Content none, room(1);
  EXPECT_EQ(decode({}, 0, none), StreamStatus::good);
  EXPECT_EQ(decode({}, 0, room), StreamStatus::too_short);
}

}  // namespace
}  // namespace quarry::io
