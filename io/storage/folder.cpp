#include "quarry/io/storage/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include "quarry/io/byte_file.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/journal.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/local/base/error.h"

namespace quarry::io {
namespace {

namespace fs = std::filesystem;

// In NAME.partial, as long as it is written: the lock of it ends with the process, so that what a killed run left can
// be taken over.
constexpr const char* kLock = ".quarry-lock";

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

bool same(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw local::IoError(fmt::format("cannot write '{}': {}", name, why));
}

}  // namespace

void FolderReplacement::find_target() {
  target_ = name_;
  const std::optional<std::string> real = real_path(name_);
  if (!real) return;
  target_ = *real;
  fresh_ = false;
  if (::stat(target_.c_str(), &before_) != 0) fail(name_, system_reason(errno));
  if (!S_ISDIR(before_.st_mode)) fail(name_, "it is a file, and the output is a folder");
  if (::access(target_.c_str(), R_OK | W_OK | X_OK) != 0) fail(name_, system_reason(errno));
}

FolderReplacement::FolderReplacement(const std::string& folder, const std::string& state)
    : name_(without_slashes(folder)) {
  find_target();
  ByteReader in(state);
  const auto fresh = in.get<bool>();
  const auto before = in.get<struct stat>(), made = in.get<struct stat>();
  const auto refuse = [&](const char* why) {
    throw local::InvalidArgument(fmt::format("the output '{}' cannot be resumed: {}", name_, why));
  };
  if (!fresh_ && same(made, before_)) refuse("it is complete");  // killed before what it replaced was removed
  if (fresh != fresh_) refuse(fresh ? "it was made since" : "it was removed since");
  if (!fresh && !same(before, before_)) refuse("it was replaced since");
  open_alone(/*empty=*/false);
}

std::string FolderReplacement::state() const {
  struct stat made {};
  if (::stat(path().c_str(), &made) != 0) fail(name_, fmt::format("'{}': {}", path(), system_reason(errno)));
  ByteWriter out;
  out.put(fresh_);
  out.put(before_);
  out.put(made);
  return out.take();
}

FolderReplacement::FolderReplacement(const std::string& folder, double bytes) : name_(without_slashes(folder)) {
  find_target();
  open_alone(/*empty=*/true);
  try {
    remove_job(path());
    clear();
    const int at = ::open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) fail(name_, system_reason(errno));
    const std::unique_ptr<const int, void (*)(const int*)> closer(&at, [](const int* fd) { ::close(*fd); });
    check_room(at, name_, bytes);
    if (!fresh_) take_owner(at, before_, name_);
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

FolderReplacement::~FolderReplacement() {
  partial_.reset();  // while no other process can have it
  ::close(lock_);
}

void FolderReplacement::open_alone(bool empty) {
  const std::string path = target_ + ".partial", lock = path + "/" + kLock;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    if (empty && ::mkdir(path.c_str(), fresh_ ? 0777 : 0700) != 0 && errno != EEXIST) fail(name_, system_reason(errno));
    const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT && empty) continue;  // its last owner has just renamed or removed it
    if (fd < 0) fail(name_, fmt::format("'{}': {}", path, system_reason(errno)));
    if (!lock_alone(fd)) {
      ::close(fd);
      fail(name_, fmt::format("another process is writing '{}'", path));
    }
    struct stat mine {
    }, named{};
    if (::fstat(fd, &mine) == 0 && ::stat(lock.c_str(), &named) == 0 && same(mine, named)) {
      lock_ = fd;
      try {
        partial_.emplace(path, /*kept=*/!empty);
      } catch (...) {  // interrupted
        if (empty) {
          ::unlink(lock.c_str());
          ::rmdir(path.c_str());
        }
        ::close(lock_);
        throw;
      }
      return;
    }
    ::close(fd);
  }
  fail(name_, fmt::format("'{}' does not stay in its place", path));
}

// What a killed run left.
void FolderReplacement::clear() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path(), error)) {
    if (entry.path().filename() != kLock) fs::remove_all(entry.path(), error);
    if (error) break;
  }
  if (error) fail(name_, fmt::format("'{}' cannot be emptied: {}", path(), system_reason(error.value())));
}

void FolderReplacement::keep_file(const std::string& place) const {
  if (partial_files_discarded()) throw local::Cancelled("interrupted");
  const fs::path from = fs::path(target_) / place, to = fs::path(path()) / place;
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), /*flags=*/0) == 0) return;
  std::error_code error;
  if (fs::is_symlink(from, error))
    fs::copy_symlink(from, to, error);
  else
    fs::copy_file(from, to, error);
  if (error) fail(name_, fmt::format("keeping '{}': {}", from.string(), system_reason(error.value())));
}

void FolderReplacement::commit() {
  sync_file_system(path());
  struct stat now {};
  const bool exists = ::stat(target_.c_str(), &now) == 0;
  if (exists != !fresh_ || (exists && !same(before_, now)))
    throw local::IoError(fmt::format("'{}' was {} while the output was computed; it stays as it is", name_,
                                     fresh_   ? "made"
                                     : exists ? "replaced"
                                              : "removed"));
  const std::string parent = fs::path(target_).parent_path().string();
  partial_->rename_to(target_);
  ::unlink((target_ + "/" + kLock).c_str());  // not before: no other process takes the folder for one that was left
  const int directory = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

bool FolderReplacement::is_lock(const std::string& name) { return name == kLock; }

bool is_unfinished_folder(const std::string& path) { return ::access((path + "/" + kLock).c_str(), F_OK) == 0; }

void sync_file_system(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int status = fd < 0 ? -1 : ::syncfs(fd);
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (status != 0) throw local::IoError(fmt::format("cannot sync '{}': {}", folder, system_reason(error)));
}

}  // namespace quarry::io
