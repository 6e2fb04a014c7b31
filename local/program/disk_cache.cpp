#include "quarry/local/program/disk_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "quarry/local/base/log.h"
#include "quarry/local/base/options.h"

namespace quarry::local {
namespace {

// 64 bits of a text; two seeds give independent values.
uint64_t hash(const std::string& text, uint64_t seed) {
  uint64_t h = seed ^ (text.size() * 0x9e3779b97f4a7c15u);
  const auto mix = [&h](uint64_t word) {
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
    h *= 0xc4ceb9fe1a85ec53u;
    h ^= h >> 29;
  };
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    mix(word);
  }
  uint64_t last = 0;
  std::memcpy(&last, text.data() + i, text.size() - i);
  mix(last);
  return h;
}

constexpr char kMagic[8] = {'q', 'r', 'y', 'k', 'e', 'r', 'n', '1'};
constexpr uint64_t kChecksumSeed = 0x51f15eed;

struct EntryHeader {
  char magic[8];
  uint64_t bytes;
  uint64_t checksum;
};

}  // namespace

std::string content_name(const std::string& text) {
  return fmt::format("{:016x}{:016x}", hash(text, 1), hash(text, 2));
}

DiskCache::DiskCache(std::string folder) : folder_(std::move(folder)) {}

std::string DiskCache::default_folder() {
  std::filesystem::path folder;
  if (const std::string own = OptionValue(Option::cache_dir).text(); !own.empty())
    folder = own;
  else if (const std::string cache = environment("XDG_CACHE_HOME", ""); !cache.empty())
    folder = std::filesystem::path(cache) / "quarry" / "kernels";
  else if (const std::string home = environment("HOME", ""); !home.empty())
    folder = std::filesystem::path(home) / ".cache" / "quarry" / "kernels";
  else {
    log(LogLevel::warn, "kernels are not cached: none of QUARRY_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    return "";
  }
  std::error_code error;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), error);
  ::mkdir(folder.c_str(), 0700);  // whether it was there already or cannot be made shows below
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    log(LogLevel::warn, fmt::format("kernels are not cached: the folder {} cannot be made", folder.string()));
    return "";
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    // Code from a folder that others can write to would be theirs.
    log(LogLevel::warn, fmt::format("kernels are not cached: {} is writable by others", folder.string()));
    return "";
  }
  return folder.string();
}

void DiskCache::warn_once(std::atomic_flag& warned, const std::string& message) const {
  if (!warned.test_and_set()) log(LogLevel::warn, message);
}

bool DiskCache::load(const std::string& name, std::string& code) const {
  if (folder_.empty()) return false;
  const auto damaged = [&] {
    warn_once(warned_damaged_, fmt::format("a cached kernel is damaged and compiled anew: {}/{}", folder_, name));
    return false;
  };
  std::ifstream file(folder_ + "/" + name, std::ios::binary);
  if (!file) return false;
  std::stringstream content;
  content << file.rdbuf();
  const std::string all = content.str();
  EntryHeader header;
  if (all.size() < sizeof header) return damaged();
  std::memcpy(&header, all.data(), sizeof header);
  std::string payload = all.substr(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.bytes != payload.size() ||
      header.checksum != hash(payload, kChecksumSeed))
    return damaged();
  code = std::move(payload);
  return true;
}

// A cache that cannot be written costs time, not correctness: nothing here throws.
void DiskCache::store(const std::string& name, const std::string& code) const noexcept try {
  if (folder_.empty()) return;
  static std::atomic<int> serial = 0;
  const std::string path = folder_ + "/" + name;
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), serial++);
  EntryHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.bytes = code.size();
  header.checksum = hash(code, kChecksumSeed);
  bool whole = false;
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(code.data(), static_cast<std::streamsize>(code.size()));
    file.close();
    whole = file.good();
  }
  if (whole && ::rename(temporary.c_str(), path.c_str()) == 0) return;
  ::unlink(temporary.c_str());
  warn_once(warned_unwritable_, fmt::format("kernels are not cached: cannot write to {}", folder_));
} catch (...) {
}

}  // namespace quarry::local
