// Files that exist only until what they hold is complete or given up.
#pragma once

#include <string>

namespace quarry::io {

// A path whose file goes away: removed by the destructor, by whoever fails to make it, and by discard_partial_files().
class Partial {
 public:
  // From here on the path is this object's; makes no file. Throws Cancelled after discard_partial_files().
  explicit Partial(std::string path);
  ~Partial();
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  const std::string& path() const { return path_; }
  // Gives the file its name for good, replacing what has that name. Throws IoError, or Cancelled where the file has
  // been discarded: then nothing is replaced.
  void rename_to(const std::string& name);

 private:
  const std::string path_;
  bool kept_ = false;
};

// Removes the files of all Partials and lets no others be made: for a process that has been told to end and may be
// killed soon. What has one of them open can go on using it. From any thread, not from a signal handler.
void discard_partial_files() noexcept;
// Whether that has happened.
bool partial_files_discarded() noexcept;

}  // namespace quarry::io
