#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include "quarry/local/base/error.h"
#include "quarry/scheduler/blocks/block_memory.h"
#include "quarry/scheduler/blocks/spill_file.h"

namespace quarry::scheduler {
namespace {

using ::testing::HasSubstr;

std::vector<char> noise(int64_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<char> data(static_cast<size_t>(bytes));
  for (char& c : data) c = static_cast<char>(random());
  return data;
}

TEST(CachedMemory, ReusesBlocksOfTheSameSizeAndStaysWithinTheLimit) {
  constexpr int64_t kBlock = 4 << 20;
  CachedMemory memory(CachedMemory::pages(), 4 * kBlock);
  void* a = memory.allocate(kBlock);
  std::memset(a, 1, kBlock);
  memory.deallocate(a, kBlock);
  EXPECT_EQ(memory.acquired_bytes(), kBlock);
  EXPECT_EQ(memory.allocate(kBlock), a);
  memory.deallocate(a, kBlock);
  // Sizes that never repeat: the kept blocks make way.
  for (int i = 1; i < 64; ++i) {
    const int64_t bytes = kBlock + i * 4096;
    void* b = memory.allocate(bytes);
    std::memset(b, i, static_cast<size_t>(bytes));
    memory.deallocate(b, bytes);
    EXPECT_LE(memory.acquired_bytes(), 4 * kBlock);
  }
  memory.free_unused();
  EXPECT_EQ(memory.acquired_bytes(), 0);
}

TEST(SmallBlocks, KeepsBlocksOfASizeForTheNextRequestOfIt) {
  CachedMemory memory(CachedMemory::pages(), 1 << 20);
  {
    SmallBlocks blocks(memory);
    EXPECT_EQ(blocks.take(256), nullptr);
    void* const a = memory.allocate(256);
    void* const b = memory.allocate(512);
    void* const large = memory.allocate(1 << 16);
    blocks.put(a, 256);
    blocks.put(b, 512);
    EXPECT_EQ(blocks.kept_bytes(), 768);
    blocks.put(large, 1 << 16);  // goes back at once
    EXPECT_EQ(blocks.kept_bytes(), 768);
    EXPECT_EQ(blocks.take(1 << 16), nullptr);
    EXPECT_EQ(blocks.take(512), b);
    EXPECT_EQ(blocks.take(512), nullptr);
    blocks.give_back();
    EXPECT_EQ(blocks.kept_bytes(), 0);
    EXPECT_EQ(blocks.take(256), nullptr);
    blocks.put(b, 512);
  }
  memory.free_unused();
  EXPECT_EQ(memory.acquired_bytes(), 0);
}

TEST(CachedMemory, SmallAndEmptyBlocksAreAlignedAndDistinct) {
  CachedMemory memory(CachedMemory::pages(), 1 << 20);
  std::vector<std::pair<void*, int64_t>> blocks;
  for (const int64_t bytes : {0, 0, 1, 256, 257, 32767, 32768, 32769})
    blocks.emplace_back(memory.allocate(bytes), bytes);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks[i].first) % 256, 0u);
    std::memset(blocks[i].first, 7, static_cast<size_t>(blocks[i].second));
    for (size_t j = 0; j < i; ++j) EXPECT_NE(blocks[i].first, blocks[j].first);
  }
  for (const auto& [data, bytes] : blocks) memory.deallocate(data, bytes);
  memory.free_unused();
  EXPECT_EQ(memory.acquired_bytes(), 0);
}

TEST(CachedMemory, SystemRefusalIsOutOfMemory) {
  CachedMemory::Source none;
  none.take = [](int64_t) -> void* { return nullptr; };
  none.give_back = [](void*, int64_t) {};
  CachedMemory memory(none, 1 << 30);
  EXPECT_THROW(memory.allocate(12345), local::OutOfMemory);
  EXPECT_EQ(memory.acquired_bytes(), 0);
  none.take = [](int64_t) -> void* { throw local::DeviceError("no pinned memory"); };
  CachedMemory throwing(none, 1 << 30);
  EXPECT_THROW(throwing.allocate(12345), local::OutOfMemory);
  EXPECT_EQ(throwing.acquired_bytes(), 0);
}

TEST(Slab, RandomUseNeverOverlapsAndCoalescesFully) {
  constexpr int64_t kBytes = 1 << 20;
  std::vector<char> backing(kBytes);
  Slab slab(backing.data(), kBytes);
  std::mt19937 random(5);
  std::vector<std::pair<char*, int64_t>> used;
  for (int step = 0; step < 20000; ++step) {
    if (used.empty() || random() % 2) {
      const int64_t bytes = 256 * (1 + random() % 200);
      auto* data = static_cast<char*>(slab.allocate(bytes, random() % 3 == 0));
      if (!data) continue;
      ASSERT_GE(data, backing.data());
      ASSERT_LE(data + bytes, backing.data() + kBytes);
      for (const auto& [other, length] : used) ASSERT_TRUE(data + bytes <= other || other + length <= data);
      used.emplace_back(data, bytes);
    } else {
      std::swap(used[random() % used.size()], used.back());
      slab.deallocate(used.back().first, used.back().second);
      used.pop_back();
    }
    const int64_t sum = std::accumulate(used.begin(), used.end(), int64_t{0},
                                        [](int64_t s, const auto& piece) { return s + piece.second; });
    ASSERT_EQ(slab.free_bytes(), kBytes - sum);
  }
  for (const auto& [data, bytes] : used) slab.deallocate(data, bytes);
  EXPECT_EQ(slab.allocate(kBytes, false), backing.data());
  EXPECT_EQ(slab.allocate(256, true), nullptr);
}

TEST(Checksum, EveryChangedByteShows) {
  for (const int64_t bytes : {1, 7, 8, 63, 64, 65, 1000}) {
    std::vector<char> data = noise(bytes, 3);
    const uint64_t sum = checksum(data.data(), bytes);
    for (char& c : data) {
      c = static_cast<char>(c ^ 0x10);
      EXPECT_NE(checksum(data.data(), bytes), sum);
      c = static_cast<char>(c ^ 0x10);
    }
    EXPECT_EQ(checksum(data.data(), bytes), sum);
  }
  const char zeros[16] = {};
  EXPECT_NE(checksum(zeros, 8), checksum(zeros, 16));
}

TEST(SpillFile, PartsComeBackAsWritten) {
  SpillFile file(::testing::TempDir(), -1);
  const int64_t bytes = 20 * SpillFile::kPieceBytes + 12345;
  const std::vector<char> data = noise(bytes, 1);
  SpillFile::Slot first = file.reserve(bytes);
  SpillFile::Slot second = file.reserve(bytes);
  file.write(first, 0, data.data(), bytes);
  const int64_t cut = 3 * SpillFile::kPieceBytes;
  file.write(second, 0, data.data(), cut);
  file.write(second, cut, data.data() + cut, bytes - cut);
  std::mt19937_64 random(2);
  for (int i = 0; i < 50; ++i) {
    const int64_t offset = static_cast<int64_t>(random() % static_cast<uint64_t>(bytes + 1));
    const int64_t length = static_cast<int64_t>(random() % static_cast<uint64_t>(bytes - offset + 1));
    std::vector<char> back(static_cast<size_t>(length) + 1, 'x');
    file.read(i % 2 ? first : second, offset, length, back.data());
    EXPECT_TRUE(std::equal(back.begin(), back.end() - 1, data.begin() + offset)) << offset << " " << length;
    EXPECT_EQ(back.back(), 'x');
  }
  file.release(first);
  file.release(second);
  EXPECT_EQ(file.used_bytes(), 0);
}

TEST(SpillFile, PartsOfAPieceAreThoseOfTheLastWriting) {
  SpillFile file(::testing::TempDir(), -1);
  const std::vector<char> data = noise(2 * SpillFile::kPieceBytes, 1), other = noise(2 * SpillFile::kPieceBytes, 2);
  SpillFile::Slot slot = file.reserve(std::ssize(data));
  const auto expect_parts = [&](const std::vector<char>& written) {
    for (const int64_t offset : {int64_t{5}, int64_t{700}, SpillFile::kPieceBytes - 3, SpillFile::kPieceBytes + 9}) {
      char back[6] = {};
      file.read(slot, offset, sizeof back, back);
      EXPECT_TRUE(std::equal(back, back + sizeof back, written.begin() + offset)) << offset;
    }
  };
  file.write(slot, 0, data.data(), std::ssize(data));
  expect_parts(data);
  file.write(slot, 0, other.data(), std::ssize(other));
  expect_parts(other);
  // Another block in the same place.
  file.release(slot);
  slot = file.reserve(std::ssize(data));
  file.write(slot, 0, data.data(), std::ssize(data));
  expect_parts(data);
}

TEST(SpillFile, SpaceIsReused) {
  SpillFile file(::testing::TempDir(), 10 * 4096);
  std::vector<SpillFile::Slot> slots;
  std::mt19937 random(9);
  for (int i = 0; i < 1000; ++i) {
    if (!slots.empty() && (slots.size() == 5 || random() % 2)) {
      std::swap(slots[random() % slots.size()], slots.back());
      file.release(slots.back());
      slots.pop_back();
    } else {
      slots.push_back(file.reserve(1 + random() % 8192));
      // Within a small multiple of the limit: what was released is used again.
      ASSERT_LT(slots.back().offset, 40 * 4096);
    }
  }
  for (auto& slot : slots) file.release(slot);
}

TEST(SpillFile, LimitNamesTheDirectory) {
  SpillFile file(::testing::TempDir(), 8192);
  SpillFile::Slot slot = file.reserve(4096);
  try {
    file.reserve(8192);
    FAIL();
  } catch (const local::IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr("no space left"));
    EXPECT_THAT(e.what(), HasSubstr(::testing::TempDir()));
  }
  file.release(slot);
}

TEST(SpillFile, MissingDirectoryIsAnIoError) {
  SpillFile file("/does/not/exist", -1);
  EXPECT_TRUE(file.is_enabled());
  EXPECT_THROW(file.reserve(1), local::IoError);
  EXPECT_FALSE(SpillFile("", -1).is_enabled());
  EXPECT_FALSE(SpillFile("/tmp", 0).is_enabled());
}

// The file has no name, but /proc shows it.
std::string spill_path() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry, error).string().find("quarry-spill") != std::string::npos)
      return entry.path();
  }
  return {};
}

TEST(SpillFile, CorruptionIsFound) {
  SpillFile file(::testing::TempDir(), -1);
  const std::vector<char> data = noise(300000, 4);
  SpillFile::Slot slot = file.reserve(300000);
  file.write(slot, 0, data.data(), 300000);
  const int raw = open(spill_path().c_str(), O_WRONLY);
  ASSERT_GE(raw, 0);
  const char other = static_cast<char>(~data[200000]);
  ASSERT_EQ(pwrite(raw, &other, 1, slot.offset + 200000), 1);
  close(raw);
  std::vector<char> back(300000);
  EXPECT_NO_THROW(file.read(slot, 0, 100000, back.data()));
  EXPECT_THROW(file.read(slot, 0, 300000, back.data()), local::IoError);
}

TEST(SpillFile, AKilledProcessLeavesNothing) {
  std::string directory = ::testing::TempDir() + "spill-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    SpillFile file(directory, -1);
    const std::vector<char> data(1 << 20, 1);
    SpillFile::Slot slot = file.reserve(1 << 20);
    file.write(slot, 0, data.data(), 1 << 20);
    static_cast<void>(!write(ready[1], "x", 1));
    pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove(directory);
  close(ready[0]);
  close(ready[1]);
}

TEST(SpillFile, FailingWriteIsAnIoError) {
  SpillFile file(::testing::TempDir(), -1);
  SpillFile::Slot slot = file.reserve(1 << 20);
  const std::vector<char> data(1 << 20);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(file.write(slot, 0, data.data(), 1 << 20), local::IoError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NO_THROW(file.write(slot, 0, data.data(), 1 << 20));
}

}  // namespace
}  // namespace quarry::scheduler
