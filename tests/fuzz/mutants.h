// Damaged files: changes of a few bytes by a seed, and everything quarry does with them.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/io/dataset.h"
#include "quarry/io/hdf5/parse/checksum.h"
#include "quarry/local/base/detail.h"

namespace quarry::test {

using Content = std::vector<std::byte>;

inline Content load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  Content out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}

inline void save(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// Bytes of the block at `at`, which ends with its checksum; 0 where there is none.
inline size_t checked_bytes(std::span<const std::byte> bytes, size_t at) {
  constexpr size_t kMost = 4096;
  const std::span<const std::byte> block = bytes.subspan(at, std::min(kMost, bytes.size() - at));
  for (size_t content = 6; content + 4 <= block.size(); ++content) {
    uint32_t stated = 0;
    std::memcpy(&stated, block.data() + content, sizeof stated);
    if (io::hdf5::metadata_checksum(block.first(content)) == stated) return content + sizeof stated;
  }
  return 0;
}

// A file, and the blocks of its metadata that checksums guard: who damages a file on purpose makes them right.
class Original {
 public:
  explicit Original(Content bytes) : bytes_(std::move(bytes)) {
    for (size_t i = 0; i < bytes_.size(); ++i)
      if (bytes_[i] != std::byte{0}) used_.push_back(i);
    const std::string text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    for (const char* const signature : {"\x89HDF", "OHDR", "OCHK", "FRHP", "FHDB", "FHIB", "FSHD", "FSSE", "BTHD",
                                        "BTIN", "BTLF", "FAHD", "FADB", "EAHD", "EAIB", "EASB", "EADB", "SMTB", "SMLI"})
      for (size_t at = text.find(signature); at != std::string::npos && blocks_.size() < kMostBlocks;
           at = text.find(signature, at + 1))
        if (const size_t bytes = checked_bytes(bytes_, at)) blocks_.emplace_back(at, bytes);
  }
  const Content& bytes() const { return bytes_; }

  Content mutated(unsigned seed) const {
    std::mt19937 random(seed);
    Content bytes = bytes_;
    if (bytes.empty()) return bytes;
    const unsigned changes = 1 + random() % 4;
    if (!blocks_.empty() && random() % 2 == 0) {
      for (unsigned i = 0; i < changes; ++i) {
        const auto [at, size] = blocks_[random() % blocks_.size()];
        change(bytes[at + random() % (size - 4)], random);
        const uint32_t sum = io::hdf5::metadata_checksum(std::span(bytes).subspan(at, size - 4));
        std::memcpy(bytes.data() + at + size - 4, &sum, sizeof sum);
      }
      return bytes;
    }
    if (random() % 16 == 0) bytes.resize(1 + random() % bytes.size());
    // Much of a small file is zeros that nothing refers to: most changes go where something is.
    for (unsigned i = 0; i < changes; ++i) {
      size_t at = used_.empty() || random() % 4 == 0 ? random() : used_[random() % used_.size()];
      change(bytes[at % bytes.size()], random);
    }
    return bytes;
  }

 private:
  static constexpr size_t kMostBlocks = 200;

  static void change(std::byte& byte, std::mt19937& random) {
    switch (random() % 5) {
      case 0:
        byte = static_cast<std::byte>(random());
        break;
      case 1:
        byte = std::byte{0xff};
        break;
      case 2:
        byte = std::byte{0};
        break;
      case 3:
        byte ^= static_cast<std::byte>(1u << random() % 8);
        break;
      default:
        byte = static_cast<std::byte>(std::to_integer<int>(byte) + 1);
    }
  }

  const Content bytes_;
  std::vector<size_t> used_;
  std::vector<std::pair<size_t, size_t>> blocks_;  // where, and how long with the checksum
};

// What came of a file.
struct Use {
  int read = 0, refused = 0;
  int ended = 0;  // times that the HDF5 library crashed in its process, or hung, or wanted too much memory
};

// Everything quarry does with a file: `info` of it, and reading a corner of each data set in both ways, by what another
// rank gets too. What a budget would refuse is left out.
inline Use use_file(const std::string& file) {
  constexpr int64_t kMostScratch = 16 << 20, kMostElements = 1 << 16;
  Use use;
  const auto refuse = [&](const local::Error& error) {
    const std::string what = error.what();
    ++use.refused;
    for (const char* const says : {"the HDF5 library crashed", "did not end within", "needs more memory than"})
      use.ended += what.find(says) != std::string::npos;
  };
  std::vector<io::ObjectInfo> objects;
  try {
    objects = io::list_objects(file);
  } catch (const local::Error& error) {
    refuse(error);
  }
  for (const io::ObjectInfo& object : objects) {
    if (object.is_group || !object.note.empty()) continue;
    try {
      const auto dataset = io::Dataset::open(file, object.path);
      local::Region region = local::Region::whole(dataset->info().shape);
      for (int64_t& count : region.count) count = std::min<int64_t>(count, 64);
      for (int d = 0; region.elements() > kMostElements; ++d) region.count[d] = 1;
      if (std::max(dataset->visit_scratch_bytes(region), dataset->read_scratch_bytes(region)) > kMostScratch) continue;
      Content out(static_cast<size_t>(region.elements() * local::itemsize(dataset->info().dtype)));
      Content scratch(static_cast<size_t>(dataset->read_scratch_bytes(region)));
      dataset->read(region, out.data(), scratch);
      scratch.resize(static_cast<size_t>(dataset->visit_scratch_bytes(region)));
      io::Dataset::deserialize(dataset->serialize())->visit(region, scratch, [](const io::Dataset::Piece&) {});
      ++use.read;
    } catch (const local::Error& error) {
      refuse(error);
    }
  }
  return use;
}

// So much more address space than the process has.
inline void limit_memory(int64_t more) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::ifstream status("/proc/self/statm");
  int64_t pages = 0;
  status >> pages;
  const auto limit = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + more);
  const rlimit memory{limit, limit};
  ::setrlimit(RLIMIT_AS, &memory);
#else
  static_cast<void>(more);
#endif
}

}  // namespace quarry::test
