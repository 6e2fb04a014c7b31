#include "quarry/io/storage/replacement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <libgen.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/journal.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry::io {
namespace {

constexpr int64_t kCopyBytes = int64_t{32} << 20;    // between two looks at whether to go on
constexpr int64_t kBounceBytes = int64_t{1} << 20;   // where the system does not copy by itself
constexpr int64_t kNotedBytes = int64_t{256} << 20;  // a copy of this size is worth a line
constexpr int64_t kStatBlock = 512;                  // the unit of st_blocks

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }

 private:
  const int fd_;
};

std::string directory_of(std::string path) { return ::dirname(path.data()); }

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool unchanged(const struct stat& a, const struct stat& b) {
  return same_file(a, b) && a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// The next part of the file that has data, from `begin`: [first, second). Empty at the end.
std::pair<int64_t, int64_t> next_data(int fd, int64_t begin, int64_t size) {
  if (begin >= size) return {size, size};
  const off_t data = ::lseek(fd, begin, SEEK_DATA);
  if (data < 0) return errno == ENXIO ? std::pair{size, size} : std::pair{begin, size};
  const off_t hole = ::lseek(fd, data, SEEK_HOLE);
  return {data, hole < 0 ? size : std::min<int64_t>(hole, size)};
}

// Copies bytes at the same offset; returns how many. -1: errno says why not.
int64_t copy_some(int from, int to, int64_t offset, int64_t bytes) {
  off_t in = offset, out = offset;
  const ssize_t copied = ::copy_file_range(from, &in, to, &out, static_cast<size_t>(bytes), 0);
  // What the system cannot copy by itself is copied here; 0 too: some file systems say that instead.
  const bool refused = copied < 0 && (errno == ENOSYS || errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP);
  if (copied != 0 && !refused) return copied;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(bytes, kBounceBytes)));
  const ssize_t got = ::pread(from, buffer.data(), buffer.size(), offset);
  if (got <= 0) return got;
  for (ssize_t done = 0; done < got;) {
    const ssize_t put = ::pwrite(to, buffer.data() + done, static_cast<size_t>(got - done), offset + done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return -1;
    done += put;
  }
  return got;
}

}  // namespace

std::optional<std::string> real_path(const std::string& file) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(file.c_str(), nullptr), std::free);
  if (!real) return std::nullopt;
  return real.get();
}

bool is_named(int fd, const std::string& path) {
  struct stat mine {
  }, named{};
  return ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0 && same_file(mine, named);
}

void sync_folder_of(const std::string& path) {
  const Descriptor directory(::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory >= 0) ::fsync(directory);
}

std::string unfinished_path(const std::string& file) {
  std::string path = real_path(file).value_or(file);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();  // of a folder
  return path + ".partial";
}
std::string job_path(const std::string& unfinished) { return unfinished + ".job"; }
std::string states_path(const std::string& unfinished) { return unfinished + ".states"; }

void check_room(int fd, const std::string& name, double bytes, const std::string& note) {
  struct statvfs space;
  if (::fstatvfs(fd, &space) != 0) return;
  const double room = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  if (bytes <= room) return;
  throw local::IoError(fmt::format("cannot write '{}': no space left on device: {:.0f} bytes are needed{}, {:.0f} free",
                                   name, bytes, note, room));
}

bool lock_alone(int fd) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES);
}

void take_owner(int fd, const struct stat& before, const std::string& name) {
  // The owner may be another user's, whom only root can give the file back.
  if (::fchown(fd, before.st_uid, before.st_gid) != 0)
    local::log(local::LogLevel::debug, fmt::format("the owner of '{}' becomes its writer", name));
  constexpr mode_t kRights = 07777;
  if (::fchmod(fd, before.st_mode & kRights) != 0)
    throw local::IoError(fmt::format("cannot write '{}': the mode of its copy: {}", name, system_reason(errno)));
}

void Replacement::find_target() {
  const std::optional<std::string> real = real_path(name_);
  target_ = real.value_or(name_);
  fresh_ = !real;
}

Replacement::Replacement(const std::string& file, const std::string& state) : name_(file) {
  find_target();
  ByteReader in(state);
  const auto fresh = in.get<bool>();
  copied_bytes_ = in.get<int64_t>();
  before_ = in.get<struct stat>();
  struct stat now {};
  if (fresh != fresh_ || (!fresh && (::stat(target_.c_str(), &now) != 0 || !unchanged(before_, now))))
    throw local::InvalidArgument(fmt::format("the output '{}' cannot be resumed: it was {} since", name_,
                                             fresh    ? "made"
                                             : fresh_ ? "removed"
                                                      : "changed"));
  open_alone(/*empty=*/false);
}

std::string Replacement::state() const {
  ByteWriter out;
  out.put(fresh_);
  out.put(copied_bytes_);
  out.put(before_);
  return out.take();
}

Replacement::Replacement(const std::string& file, double more_bytes, Content content) : name_(file) {
  find_target();
  const Descriptor from(fresh_ ? -1 : ::open(target_.c_str(), O_RDWR | O_CLOEXEC));  // as if it were written itself
  if (!fresh_ && (from < 0 || ::fstat(from, &before_) != 0))
    throw local::IoError(fmt::format("cannot write '{}': {}", name_, system_reason(errno)));
  open_alone(/*empty=*/true);
  try {
    if (fresh_ || content == Content::nothing) {
      check_room(more_bytes);
    } else {
      copy(from, more_bytes);
    }
    if (!fresh_) take_owner(fd_, before_, name_);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Replacement::~Replacement() { ::close(fd_); }

// The lock ends with the process, so what a killed run left can be taken over.
void Replacement::open_alone(bool empty) {
  const std::string path = target_ + ".partial";
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const int fd = ::open(path.c_str(), O_RDWR | (empty ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW, fresh_ ? 0666 : 0600);
    if (fd < 0) throw local::IoError(fmt::format("cannot write '{}': {}", name_, system_reason(errno)));
    if (!lock_alone(fd)) {
      ::close(fd);
      throw local::IoError(fmt::format("cannot write '{}': another process is writing '{}'", name_, path));
    }
    // Its last owner may have renamed or removed it since it was opened.
    if (is_named(fd, path)) {
      fd_ = fd;
      try {
        partial_.emplace(path, /*kept=*/!empty);
        if (empty) remove_job(path);  // of what is overwritten here
        if (empty && ::ftruncate(fd_, 0) != 0)
          throw local::IoError(fmt::format("cannot write '{}': {}", name_, system_reason(errno)));
      } catch (...) {
        ::close(fd_);
        throw;
      }
      return;
    }
    ::close(fd);
  }
  throw local::IoError(fmt::format("cannot write '{}': '{}' does not stay in its place", name_, path));
}

void Replacement::check_room(double bytes) const {
  io::check_room(fd_, name_, bytes, fresh_ ? "" : " (of which the copy of the file that is there takes a part)");
}

void Replacement::copy(int from, double more_bytes) {
  const auto begin = std::chrono::steady_clock::now();
  const int64_t size = before_.st_size;
  const auto fail = [&](const char* what) {
    throw local::IoError(fmt::format("cannot write '{}': {} '{}': {}", name_, what, path(), system_reason(errno)));
  };
  const bool shared = ::ioctl(fd_, FICLONE, from) == 0;
  if (shared) {
    check_room(more_bytes);
  } else {
    const int64_t stored = std::min<int64_t>(static_cast<int64_t>(before_.st_blocks) * kStatBlock, size);
    check_room(more_bytes + static_cast<double>(stored));
    const bool noted = stored >= kNotedBytes;
    if (noted) {
      local::log(local::LogLevel::warn,
                 fmt::format("copying the {:.1f} GiB of '{}', to which objects are added: it stays as it is until the "
                             "new file is complete; an output file of its own needs no copy",
                             static_cast<double>(stored) / static_cast<double>(int64_t{1} << 30), name_));
    }
    for (auto [at, end] = next_data(from, 0, size); at < end; std::tie(at, end) = next_data(from, end, size)) {
      while (at < end) {
        if (partial_files_discarded()) throw local::Cancelled("interrupted");
        const int64_t copied = copy_some(from, fd_, at, std::min(end - at, kCopyBytes));
        if (copied < 0 && errno == EINTR) continue;
        if (copied < 0) fail("copying it to");
        if (copied == 0) throw local::IoError(fmt::format("cannot write '{}': it became shorter", name_));
        at += copied;
      }
    }
    if (::ftruncate(fd_, size) != 0) fail("copying it to");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (noted || local::log_enabled(local::LogLevel::info)) {
      local::log(noted ? local::LogLevel::warn : local::LogLevel::info,
                 fmt::format("copied {} bytes of '{}' in {:.2f} s", stored, name_, seconds));
    }
  }
  copied_bytes_ = size;
}

void Replacement::sync() const {
  if (::fsync(fd_) != 0) throw local::IoError(fmt::format("cannot sync '{}': {}", path(), system_reason(errno)));
}

void Replacement::commit() {
  sync();
  struct stat now {};
  const bool exists = ::stat(target_.c_str(), &now) == 0;
  if (exists != !fresh_ || (exists && !unchanged(before_, now)))
    throw local::IoError(fmt::format("'{}' was {} while the output was computed; it stays as it is", name_,
                                     fresh_   ? "made"
                                     : exists ? "changed"
                                              : "removed"));
  partial_->rename_to(target_);
  sync_folder_of(target_);
}

}  // namespace quarry::io
