#include "quarry/io/partial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "quarry/io/byte_file.h"
#include "quarry/local/base/error.h"

namespace quarry::io {
namespace {

struct Registry {
  std::mutex mutex;
  std::multiset<std::string> paths;
  bool discarded = false;
};

// A file, or a folder, to which other processes may still be adding files.
void remove_path(const std::string& path) noexcept {
  if (::unlink(path.c_str()) == 0 || (errno != EISDIR && errno != EPERM)) return;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error != std::errc::directory_not_empty) return;
  }
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

[[noreturn]] void throw_not_renamed(const std::string& from, const std::string& to) {
  throw local::IoError(fmt::format("cannot rename '{}' to '{}': {}", from, to, system_reason(errno)));
}

// A folder that holds something cannot be renamed over. What was there is removed afterwards.
void replace_folder(const std::string& path, const std::string& name) {
  if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE) == 0) return remove_path(path);
  if (errno != EINVAL && errno != ENOSYS) throw_not_renamed(path, name);
  // Two steps, where the file system exchanges nothing (NFS).
  const std::string old = path + ".old";
  if (::rename(name.c_str(), old.c_str()) != 0) throw_not_renamed(name, old);
  if (::rename(path.c_str(), name.c_str()) != 0) {
    const int error = errno;
    ::rename(old.c_str(), name.c_str());
    errno = error;
    throw_not_renamed(path, name);
  }
  remove_path(old);
}

// Leaked on purpose: the thread that handles signals may outlive this file's statics.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

}  // namespace

Partial::Partial(std::string path, bool kept) : path_(std::move(path)), kept_(kept), listed_(!kept) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.discarded) throw local::Cancelled("interrupted");
  if (listed_) all.paths.insert(path_);
}

Partial::~Partial() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (listed_) all.paths.erase(all.paths.find(path_));
  if (!kept_ && !all.discarded) remove_path(path_);
}

void Partial::keep() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.discarded) throw local::Cancelled("interrupted");
  if (std::exchange(listed_, false)) all.paths.erase(all.paths.find(path_));
  kept_ = true;
}

void Partial::rename_to(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);  // not between the question and the rename
  if (all.discarded) throw local::Cancelled("interrupted");
  if (is_folder(path_) && is_folder(name))
    replace_folder(path_, name);
  else if (::rename(path_.c_str(), name.c_str()) != 0)
    throw_not_renamed(path_, name);
  kept_ = true;
}

void discard_partial_files() noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.discarded = true;
  for (const std::string& path : all.paths) remove_path(path);
}

bool partial_files_discarded() noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.discarded;
}

}  // namespace quarry::io
