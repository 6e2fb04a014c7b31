#include "quarry/io/byte_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "quarry/io/direct_reads.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/options.h"
#include "quarry/local/base/trace.h"

namespace quarry::io {
namespace {

// Drops the first `bytes` bytes of the buffers; returns the first one that is left.
size_t advance(std::span<iovec> buffers, size_t first, size_t bytes) {
  while (first < buffers.size() && bytes >= buffers[first].iov_len) bytes -= buffers[first++].iov_len;
  if (bytes > 0) {
    buffers[first].iov_base = static_cast<char*>(buffers[first].iov_base) + bytes;
    buffers[first].iov_len -= bytes;
  }
  return first;
}

int64_t bytes_of(std::span<const iovec> buffers) {
  size_t bytes = 0;
  for (const iovec& buffer : buffers) bytes += buffer.iov_len;
  return static_cast<int64_t>(bytes);
}

}  // namespace

std::string system_reason(int error) {
  if (error == ENOSPC) return "no space left on device";
  if (error == EDQUOT) return "no space left on device (disk quota exceeded)";
  if (error == EFBIG) return "no space left on device (file size limit)";
  return std::strerror(error);
}

void check_regular_file(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0)
    throw local::InvalidArgument(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  if (S_ISDIR(status.st_mode)) throw local::InvalidArgument(fmt::format("cannot open '{}': it is a directory", path));
  if (!S_ISREG(status.st_mode))
    throw local::InvalidArgument(fmt::format("cannot open '{}': it is not a regular file", path));
  if (::access(path.c_str(), R_OK) != 0)
    throw local::InvalidArgument(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
}

ByteFile::ByteFile(std::string path, Mode mode)
    : path_(std::move(path)),
      fault_rate_(local::OptionValue(local::Option::fault_read_rate).bytes()),
      fault_bytes_(local::OptionValue(local::Option::fault_read_bytes).bytes()) {
  const int flags = mode == Mode::read ? O_RDONLY : mode == Mode::create ? O_RDWR | O_CREAT : O_RDWR;
  constexpr mode_t kRights = 0666;  // less the umask
  do fd_ = ::open(path_.c_str(), flags | O_CLOEXEC, kRights);
  while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) throw local::IoError(fmt::format("cannot open '{}': {}", path_, system_reason(errno)));
  struct stat status;
  if (::fstat(fd_, &status) != 0) {
    const int error = errno;
    ::close(fd_);
    throw local::IoError(fmt::format("cannot open '{}': {}", path_, system_reason(error)));
  }
  size_ = status.st_size;
  identity_ = {static_cast<int64_t>(status.st_dev), static_cast<int64_t>(status.st_ino), status.st_mtim.tv_sec,
               status.st_mtim.tv_nsec};
  // The file that is open, even where another one has taken its name.
  if (mode == Mode::read) direct_ = DirectReads::of(fmt::format("/proc/self/fd/{}", fd_), size_);
}

std::shared_ptr<const ByteFile> ByteFile::shared(const std::string& path) {
  using Files = std::map<std::array<int64_t, 4>, std::weak_ptr<const ByteFile>>;
  static std::mutex mutex;
  static auto* const files = new Files;  // leaked: data sets with static lifetime may come here late
  auto opened = std::make_shared<const ByteFile>(path, Mode::read);
  const std::lock_guard lock(mutex);
  std::erase_if(*files, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const ByteFile>& known = (*files)[opened->identity_];
  // Clocks of file systems tick slowly: one that became longer is another one.
  if (auto file = known.lock(); file && file->size() == opened->size()) return file;
  known = opened;
  return opened;
}

ByteFile::~ByteFile() { ::close(fd_); }

void ByteFile::pretend_faults(int64_t bytes) const {
  if (fault_rate_ > 0) {
    constexpr double kNanoseconds = 1e9;
    const double ns = static_cast<double>(bytes) / static_cast<double>(fault_rate_) * kNanoseconds;
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::llround(ns)));
  }
  if (fault_bytes_ > 0 && read_bytes_.fetch_add(bytes) > fault_bytes_) {
    throw local::IoError(fmt::format("cannot read from '{}': a fault of the test", path_));
  }
}

void ByteFile::read_at(int64_t offset, std::span<std::byte> to) const {
  iovec buffer{to.data(), to.size()};
  read_at(offset, {&buffer, 1});
}

void ByteFile::read_at(int64_t offset, std::span<iovec> buffers) const {
  if (!direct_) return read_cached(offset, buffers);
  const int64_t bytes = bytes_of(buffers);
  if (direct_->read(offset, buffers, bytes)) return pretend_faults(bytes);
  const int64_t begin_ns = local::trace_clock_ns();
  read_cached(offset, buffers);
  direct_->note_cached(bytes, local::trace_clock_ns() - begin_ns);
}

void ByteFile::read_cached(int64_t offset, std::span<iovec> buffers) const {
  for (size_t first = advance(buffers, 0, 0); first < buffers.size();) {
    const ssize_t got = ::preadv(fd_, buffers.data() + first, static_cast<int>(buffers.size() - first), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw local::IoError(fmt::format("cannot read {} bytes at {} of '{}': {}", bytes_of(buffers.subspan(first)),
                                       offset, path_, system_reason(errno)));
    if (got == 0)
      throw local::IoError(fmt::format("'{}' ends early: {} bytes are missing at offset {}", path_,
                                       bytes_of(buffers.subspan(first)), offset));
    first = advance(buffers, first, static_cast<size_t>(got));
    offset += got;
    pretend_faults(got);
  }
}

void ByteFile::write_at(int64_t offset, std::span<const std::byte> from) const {
  iovec buffer{const_cast<std::byte*>(from.data()), from.size()};
  write_at(offset, {&buffer, 1});
}

void ByteFile::write_at(int64_t offset, std::span<iovec> buffers) const {
  for (size_t first = advance(buffers, 0, 0); first < buffers.size();) {
    const ssize_t put = ::pwritev(fd_, buffers.data() + first, static_cast<int>(buffers.size() - first), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      throw local::IoError(
          fmt::format("cannot write to '{}' at offset {}: {}", path_, offset, system_reason(put < 0 ? errno : ENOSPC)));
    first = advance(buffers, first, static_cast<size_t>(put));
    offset += put;
  }
}

void ByteFile::resize(int64_t bytes) const {
  if (::ftruncate(fd_, bytes) != 0)
    throw local::IoError(fmt::format("cannot write to '{}': {}", path_, system_reason(errno)));
}

void ByteFile::sync() const {
  if (::fsync(fd_) != 0) throw local::IoError(fmt::format("cannot sync '{}': {}", path_, system_reason(errno)));
}

}  // namespace quarry::io
