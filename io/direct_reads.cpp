#include "quarry/io/direct_reads.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "quarry/local/base/log.h"
#include "quarry/local/base/options.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/base/trace.h"

namespace quarry::io {
namespace {

// Disks and file systems want offsets, lengths and addresses that are multiples of at most this.
constexpr int64_t kUnit = 4096;
constexpr int64_t kPieceBytes = int64_t{1} << 20;
// Shorter reads gain nothing.
constexpr int64_t kLeastBytes = int64_t{256} << 10;
// Until so many bytes were read either way, stretches of the file go by one and the other in turn.
constexpr int64_t kMeasuredBytes = int64_t{128} << 20;
constexpr int64_t kStretchBytes = int64_t{8} << 20;

// -1: as the environment says.
std::atomic<int> chosen = -1;
std::atomic<int64_t> all_bytes = 0;

DirectIo how() {
  const int now = chosen.load(std::memory_order_relaxed);
  return now >= 0 ? static_cast<DirectIo>(now) : local::OptionValue(local::Option::direct_io).choice<DirectIo>();
}

// Of the memory that the page cache may take.
int64_t available_bytes() {
  const long pages = ::sysconf(_SC_AVPHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<int64_t>(pages) * bytes : INT64_MAX;
}

// The calling thread's piece; null where there is no memory.
std::byte* piece() {
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  static thread_local std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(kUnit), static_cast<size_t>(kPieceBytes))));
  return memory.get();
}

// Copies to buffers one after the other.
class Scatter {
 public:
  explicit Scatter(std::span<const iovec> buffers) : buffers_(buffers) {}
  void put(const std::byte* from, int64_t bytes) {
    for (auto left = static_cast<size_t>(bytes); left > 0;) {
      const iovec& buffer = buffers_.front();
      const size_t now = std::min(left, buffer.iov_len - used_);
      std::memcpy(static_cast<std::byte*>(buffer.iov_base) + used_, from, now);
      from += now;
      left -= now;
      used_ += now;
      if (used_ < buffer.iov_len) continue;
      buffers_ = buffers_.subspan(1);
      used_ = 0;
    }
  }

 private:
  std::span<const iovec> buffers_;
  size_t used_ = 0;  // of the first
};

}  // namespace

void choose_direct_io(DirectIo how) { chosen = static_cast<int>(how); }
int64_t direct_bytes() { return all_bytes.load(std::memory_order_relaxed); }

std::unique_ptr<DirectReads> DirectReads::of(const std::string& path, int64_t size) {
  if (size < kLeastBytes) return nullptr;
  const DirectIo by = how();
  if (by == DirectIo::off) return nullptr;
  if (by == DirectIo::automatic && size < available_bytes() / 2) return nullptr;
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd >= 0) return std::unique_ptr<DirectReads>(new DirectReads(fd, by == DirectIo::automatic));
  local::log(local::LogLevel::debug,
             fmt::format("'{}' cannot be read around the page cache: {}", path, std::strerror(errno)));
  return nullptr;
}

DirectReads::~DirectReads() { ::close(fd_); }

bool DirectReads::is_wanted(int64_t offset, int64_t bytes) const {
  if (bytes < kLeastBytes || refused_.load(std::memory_order_relaxed)) return false;
  if (!measures_) return true;
  int64_t read[2], took[2];
  for (int way = 0; way < 2; ++way) {
    read[way] = bytes_[way].load(std::memory_order_relaxed);
    took[way] = nanoseconds_[way].load(std::memory_order_relaxed);
  }
  if (read[0] < kMeasuredBytes || read[1] < kMeasuredBytes) return offset / kStretchBytes % 2 != 0;
  // Nanoseconds for a byte.
  const auto cost = [&](int way) { return static_cast<double>(took[way]) / static_cast<double>(read[way]); };
  return cost(1) < cost(0);
}

void DirectReads::note(bool direct, int64_t bytes, int64_t nanoseconds) {
  if (direct) all_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (!measures_ || bytes < kLeastBytes) return;
  std::atomic<int64_t>& read = bytes_[direct ? 1 : 0];
  if (read.load(std::memory_order_relaxed) >= kMeasuredBytes) return;
  nanoseconds_[direct ? 1 : 0].fetch_add(nanoseconds, std::memory_order_relaxed);
  read.fetch_add(bytes, std::memory_order_relaxed);
}

bool DirectReads::read(int64_t offset, std::span<const iovec> buffers, int64_t bytes) {
  if (!is_wanted(offset, bytes)) return false;
  std::byte* const memory = piece();
  if (memory == nullptr) return false;
  const int64_t begin_ns = local::trace_clock_ns(), end = offset + bytes;
  Scatter scatter(buffers);
  for (int64_t at = offset; at < end;) {
    const int64_t first = at / kUnit * kUnit, last = std::min(first + kPieceBytes, local::align_up(end, kUnit));
    ssize_t got = -1;
    do got = ::pread(fd_, memory, static_cast<size_t>(last - first), first);
    while (got < 0 && errno == EINTR);
    const int64_t read_end = std::min(first + static_cast<int64_t>(got), end);
    if (got < 0 || read_end <= at) {  // it is refused, or the file has become shorter, which the other way tells
      if (got < 0) refused_.store(true, std::memory_order_relaxed);
      return false;
    }
    scatter.put(memory + (at - first), read_end - at);
    at = read_end;
  }
  note(/*direct=*/true, bytes, local::trace_clock_ns() - begin_ns);
  return true;
}

}  // namespace quarry::io
