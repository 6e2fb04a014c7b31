// The disk tier: one anonymous file with space reuse and a checksum for every piece of every block.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace quarry::scheduler {

// A 64-bit checksum: any change of one 8-byte word changes it.
uint64_t checksum(const void* data, int64_t bytes);

// Made in `directory` when first needed and unlinked at once, so that it vanishes with the process. Thread-safe; reads
// and writes of different slots run in parallel.
class SpillFile {
 public:
  static constexpr int64_t kPieceBytes = 64 << 10;  // what one checksum covers

  // Room for one block.
  struct Slot {
    int64_t offset = -1;
    int64_t bytes = 0;
    std::vector<uint64_t> checksums;  // one per piece
    uint64_t writing = 0;             // which one of this process filled it last
    explicit operator bool() const { return offset >= 0; }
  };

  // limit_bytes -1: what the disk holds; 0 or an empty directory: no spilling.
  SpillFile(std::string directory, int64_t limit_bytes);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  bool is_enabled() const { return limit_ != 0 && !directory_.empty(); }
  // Throws IoError "no space left" naming the directory when the limit does not allow it, IoError when the file cannot
  // be made.
  Slot reserve(int64_t bytes);
  // Writes [offset, offset + bytes) of the block; offset is a multiple of kPieceBytes and so is bytes, unless it ends
  // the block. Throws IoError ("no space left" when the disk is full); the slot is then still reserved.
  void write(Slot& slot, int64_t offset, const void* data, int64_t bytes);
  // Any part of a block that was written. A piece of which a thread reads several parts one after the other is read
  // once. Throws IoError when the disk fails or the data is not what was written.
  void read(const Slot& slot, int64_t offset, int64_t bytes, void* to) const;
  void release(Slot& slot) noexcept;
  int64_t used_bytes() const;

 private:
  void open_file();
  const std::string directory_;
  const int64_t limit_;
  mutable std::mutex mutex_;
  int file_ = -1;
  int64_t end_ = 0;   // of the file
  int64_t used_ = 0;  // by slots
  std::map<int64_t, int64_t> gaps_;
};

}  // namespace quarry::scheduler
