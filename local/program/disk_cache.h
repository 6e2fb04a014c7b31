// Compiled kernels on disk, of every device.
#pragma once

#include <atomic>
#include <string>

namespace quarry::local {

// A file name for what is made from `text`.
std::string content_name(const std::string& text);

// Compiled code by name, one file each, written by rename. Entries that do not read back whole are ignored, as is a
// folder that cannot be written to; each is logged once as a warning.
class DiskCache {
 public:
  // Empty folder: no caching.
  explicit DiskCache(std::string folder);
  // QUARRY_CACHE_DIR, else $XDG_CACHE_HOME/quarry/kernels, else ~/.cache/quarry/kernels; made with mode 0700. Empty
  // where that cannot be, or where others could write there, which is logged.
  static std::string default_folder();

  bool load(const std::string& name, std::string& code) const;
  void store(const std::string& name, const std::string& code) const noexcept;
  const std::string& folder() const { return folder_; }

 private:
  void warn_once(std::atomic_flag& warned, const std::string& message) const;

  std::string folder_;
  mutable std::atomic_flag warned_damaged_, warned_unwritable_;
};

}  // namespace quarry::local
