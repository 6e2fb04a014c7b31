// Reads around the page cache bring what is in the file, wherever they begin and end.
#include "quarry/io/direct_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/local/base/error.h"
#include "tests/support/temp_dir.h"

namespace quarry::io {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Direct : public ::testing::Test {
 protected:
  static constexpr int64_t kBytes = (int64_t{10} << 20) + 1234;

  Direct() : bytes_(static_cast<size_t>(kBytes), '\0') {
    std::mt19937 generator(1);
    for (char& byte : bytes_) byte = static_cast<char>(generator());
    std::ofstream(path_, std::ios::binary) << bytes_;
  }
  ~Direct() override { choose_direct_io(DirectIo::automatic); }
  void SetUp() override {
    choose_direct_io(DirectIo::on);
    if (!DirectReads::of(path_, kBytes)) GTEST_SKIP() << "the file system of '" << path_ << "' has no O_DIRECT";
  }
  std::string read(int64_t offset, int64_t count) const {
    std::string to(static_cast<size_t>(count), '?');
    ByteFile(path_, ByteFile::Mode::read).read_at(offset, std::as_writable_bytes(std::span(to)));
    return to;
  }
  const test::TempDir folder_;
  const std::string path_ = folder_ / "f";
  std::string bytes_;
};

TEST_F(Direct, AnyRangeIsAsItIsInTheFile) {
  std::mt19937_64 generator(2);
  const int64_t before = direct_bytes();
  for (int i = 0; i < 60; ++i) {
    const auto offset = static_cast<int64_t>(generator() % static_cast<uint64_t>(kBytes));
    const auto count = static_cast<int64_t>(generator() % static_cast<uint64_t>(kBytes - offset)) + 1;
    ASSERT_TRUE(read(offset, count) == bytes_.substr(static_cast<size_t>(offset), static_cast<size_t>(count)))
        << offset << " " << count;
  }
  EXPECT_GT(direct_bytes(), before);
  for (const int64_t at : {0, 1, 4095, 4096, 4097})
    EXPECT_TRUE(read(at, kBytes - at) == bytes_.substr(static_cast<size_t>(at)));
}

TEST_F(Direct, SeveralBuffersAreFilledInOrder) {
  std::string first(300 << 10, '?'), second(7, '?'), third(1 << 20, '?');
  iovec buffers[] = {
      {first.data(), first.size()}, {nullptr, 0}, {second.data(), second.size()}, {third.data(), third.size()}};
  const int64_t before = direct_bytes();
  ByteFile(path_, ByteFile::Mode::read).read_at(77, std::span(buffers));
  EXPECT_TRUE(first + second + third == bytes_.substr(77, first.size() + second.size() + third.size()));
  EXPECT_EQ(direct_bytes() - before, static_cast<int64_t>(first.size() + second.size() + third.size()));
}

TEST_F(Direct, ShortReadsGoThroughThePageCache) {
  const int64_t before = direct_bytes();
  EXPECT_TRUE(read(5, 1000) == bytes_.substr(5, 1000));
  EXPECT_EQ(direct_bytes(), before);
}

TEST_F(Direct, WhatIsOffIsOff) {
  choose_direct_io(DirectIo::off);
  EXPECT_EQ(DirectReads::of(path_, kBytes), nullptr);
  const int64_t before = direct_bytes();
  EXPECT_TRUE(read(1, kBytes - 1) == bytes_.substr(1));
  EXPECT_EQ(direct_bytes(), before);
  // By itself of files that the page cache cannot hold.
  choose_direct_io(DirectIo::automatic);
  EXPECT_EQ(DirectReads::of(path_, kBytes), nullptr);
  EXPECT_NE(DirectReads::of(path_, INT64_MAX), nullptr);
}

// Both ways are tried, on stretches of the file in turn; then the faster one is taken.
TEST_F(Direct, TheFirstReadsDecide) {
  constexpr int64_t kRead = int64_t{1} << 20, kStretch = int64_t{8} << 20, kMeasured = int64_t{128} << 20;
  choose_direct_io(DirectIo::automatic);
  for (const bool is_cache_slow : {false, true}) {
    const auto reads = DirectReads::of(path_, INT64_MAX);
    std::string to(static_cast<size_t>(kRead), '?');
    const iovec buffer{to.data(), to.size()};
    for (int64_t read = 0; read < kMeasured; read += kRead) {
      EXPECT_FALSE(reads->read(0, {&buffer, 1}, kRead));
      EXPECT_TRUE(reads->read(kStretch, {&buffer, 1}, kRead));
      reads->note_cached(kRead, is_cache_slow ? int64_t{1} << 40 : 1);
    }
    EXPECT_EQ(reads->read(0, {&buffer, 1}, kRead), is_cache_slow);
    EXPECT_EQ(reads->read(kStretch, {&buffer, 1}, kRead), is_cache_slow);
  }
}

TEST_F(Direct, FilesThatEndEarlyAreTold) {
  const ByteFile file(path_, ByteFile::Mode::read);
  std::filesystem::resize_file(path_, 1 << 20);
  std::vector<std::byte> to(2 << 20);
  EXPECT_THAT([&] { file.read_at(100, std::span<std::byte>(to)); },
              ThrowsMessage<local::IoError>(HasSubstr("ends early")));
}

}  // namespace
}  // namespace quarry::io
