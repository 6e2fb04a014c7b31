#include "quarry/io/partial.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
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
  if (!kept_ && !all.discarded) ::unlink(path_.c_str());
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
  if (::rename(path_.c_str(), name.c_str()) != 0)
    throw local::IoError(fmt::format("cannot rename '{}' to '{}': {}", path_, name, system_reason(errno)));
  kept_ = true;
}

void discard_partial_files() noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.discarded = true;
  for (const std::string& path : all.paths) ::unlink(path.c_str());
}

bool partial_files_discarded() noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.discarded;
}

}  // namespace quarry::io
