// The disk cache of compiled kernels: damaged entries and folders that cannot be written are worked around, and said
// once.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "quarry/local/program/disk_cache.h"

namespace quarry::local {
namespace {

class KernelCache : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/quarry-cache-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string root_;
};

TEST_F(KernelCache, GivesBackWhatWasStored) {
  const DiskCache cache(root_);
  const std::string code = std::string("\x7f\0ELF", 5) + std::string(100000, 'x');
  std::string loaded;
  EXPECT_FALSE(cache.load("a", loaded));
  cache.store("a", code);
  ASSERT_TRUE(cache.load("a", loaded));
  EXPECT_EQ(loaded, code);
  cache.store("a", "");
  ASSERT_TRUE(cache.load("a", loaded));
  EXPECT_EQ(loaded, "");
  for (const auto& entry : std::filesystem::directory_iterator(root_)) EXPECT_EQ(entry.path().extension(), "");
}

TEST_F(KernelCache, IgnoresDamagedEntries) {
  const DiskCache cache(root_);
  cache.store("a", "machine code");
  const std::string path = root_ + "/a";
  std::string loaded = "untouched";
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('!');
  }
  EXPECT_FALSE(cache.load("a", loaded));
  std::filesystem::resize_file(path, 30);
  EXPECT_FALSE(cache.load("a", loaded));
  std::filesystem::resize_file(path, 0);
  EXPECT_FALSE(cache.load("a", loaded));
  EXPECT_EQ(loaded, "untouched");
}

int lines_of(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

TEST_F(KernelCache, SaysOnceThatEntriesAreDamaged) {
  const DiskCache cache(root_);
  cache.store("a", "machine code");
  std::filesystem::resize_file(root_ + "/a", 20);
  std::string loaded;
  testing::internal::CaptureStderr();
  EXPECT_FALSE(cache.load("missing", loaded));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(cache.load("a", loaded));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_of(said), 1) << said;
  EXPECT_NE(said.find(root_ + "/a"), std::string::npos) << said;
  cache.store("a", "machine code");
  EXPECT_TRUE(cache.load("a", loaded));
}

TEST_F(KernelCache, SaysOnceThatItCannotWrite) {
  const DiskCache cache(root_ + "/is/not/there");
  std::string loaded;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) cache.store("a", "machine code");
  EXPECT_FALSE(cache.load("a", loaded));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_of(said), 1) << said;
  EXPECT_NE(said.find("/is/not/there"), std::string::npos) << said;
}

TEST_F(KernelCache, SaysThatItsFolderCannotBeMade) {
  const std::string file = root_ + "/file";
  std::ofstream(file) << "no folder";
  setenv("QUARRY_CACHE_DIR", (file + "/kernels").c_str(), 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(DiskCache::default_folder(), "");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_of(said), 1) << said;
  unsetenv("QUARRY_CACHE_DIR");
}

TEST_F(KernelCache, IsPrivate) {
  const std::string folder = root_ + "/below/kernels";
  setenv("QUARRY_CACHE_DIR", folder.c_str(), 1);
  EXPECT_EQ(DiskCache::default_folder(), folder);
  struct stat status {};
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  // Someone else could have put code there.
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  EXPECT_EQ(DiskCache::default_folder(), "");
  unsetenv("QUARRY_CACHE_DIR");
}

TEST_F(KernelCache, WorksWithoutAFolder) {
  const DiskCache cache("");
  cache.store("a", "code");
  std::string loaded;
  EXPECT_FALSE(cache.load("a", loaded));
}

}  // namespace
}  // namespace quarry::local
