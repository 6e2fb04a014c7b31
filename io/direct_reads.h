// Reading a file around the page cache (O_DIRECT): for files that do not fit there, where the disk is faster so.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace quarry::io {

// In the order of the words of the option direct_io.
enum class DirectIo : uint8_t {
  automatic,  // files larger than half of the memory that is free, where the first reads of either way say so
  on,         // wherever the file system can
  off,
};

// For all files that are opened from here on; before, what the environment says.
void choose_direct_io(DirectIo how);
// Bytes that this process has read so.
int64_t direct_bytes();

// Of one file. Thread-safe.
class DirectReads {
 public:
  // Null where reads of the file go through the page cache anyway.
  static std::unique_ptr<DirectReads> of(const std::string& path, int64_t size);
  ~DirectReads();
  DirectReads(const DirectReads&) = delete;
  DirectReads& operator=(const DirectReads&) = delete;

  // Reads into the buffers one after the other, `bytes` in all; where it is false the caller reads all of it through
  // the page cache and then calls note_cached(). Through 1 MiB of memory of the calling thread.
  bool read(int64_t offset, std::span<const iovec> buffers, int64_t bytes);
  void note_cached(int64_t bytes, int64_t nanoseconds) { note(/*direct=*/false, bytes, nanoseconds); }

 private:
  DirectReads(int fd, bool measures) : fd_(fd), measures_(measures) {}
  bool is_wanted(int64_t offset, int64_t bytes) const;
  void note(bool direct, int64_t bytes, int64_t nanoseconds);

  const int fd_;
  const bool measures_;
  std::atomic<bool> refused_{false};                          // by the file system
  std::atomic<int64_t> bytes_[2] = {}, nanoseconds_[2] = {};  // that the first reads of either way took: cached, direct
};

}  // namespace quarry::io
