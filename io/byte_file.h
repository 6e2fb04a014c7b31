// Files by offset: whole reads and writes however the system splits them, errors as exceptions.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace quarry::io {

class DirectReads;  // io/direct_reads.h

// What the parser reads from: a file or, in tests, memory.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual int64_t size() const = 0;
  // Fills `to` from `offset`; the range is inside [0, size()).
  virtual void read_at(int64_t offset, std::span<std::byte> to) const = 0;
};

class ByteFile : public ByteSource {
 public:
  enum class Mode { read, write, create };  // create: written, and made where there is none
  // Throws IoError naming the file and the system's reason.
  ByteFile(std::string path, Mode mode);
  // For reading; shared by all who have the same file, unchanged, open this way.
  static std::shared_ptr<const ByteFile> shared(const std::string& path);
  ~ByteFile() override;
  ByteFile(const ByteFile&) = delete;
  ByteFile& operator=(const ByteFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const override { return size_; }  // when it was opened
  // Blocking and thread-safe. Throws IoError, also where the file ends early.
  void read_at(int64_t offset, std::span<std::byte> to) const override;
  // Fills the buffers one after the other from `offset`; changes the entries of `buffers`.
  void read_at(int64_t offset, std::span<iovec> buffers) const;
  void write_at(int64_t offset, std::span<const std::byte> from) const;
  void write_at(int64_t offset, std::span<iovec> buffers) const;
  void resize(int64_t bytes) const;  // what is added reads as zeros; size() stays
  void sync() const;                 // to the device

 private:
  const std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
  std::array<int64_t, 4> identity_{};  // device, file, time of its last change in seconds and nanoseconds
  // For tests, by QUARRY_FAULT_READ_RATE (bytes per second of each thread at most) and QUARRY_FAULT_READ_BYTES (then
  // reading fails), as they are when the file is opened; 0: none.
  int64_t fault_rate_ = 0, fault_bytes_ = 0;
  mutable std::atomic<int64_t> read_bytes_{0};
  std::unique_ptr<DirectReads> direct_;  // of files that are read; null: all goes through the page cache
  void pretend_faults(int64_t bytes) const;
  void read_cached(int64_t offset, std::span<iovec> buffers) const;
};

// Throws InvalidArgument unless `path` names a readable regular file.
void check_regular_file(const std::string& path);

// "no space left on device" for ENOSPC, EDQUOT and EFBIG, else the system's message.
std::string system_reason(int error);

}  // namespace quarry::io
