// Files and folders that exist only until what they hold is complete or given up, or kept for a run that goes on with
// them.
#pragma once

#include <string>

namespace quarry::io {

// A path whose file, or folder with all that is in it, goes away: removed by the destructor, by whoever fails to make
// it, and by discard_partial_files().
class Partial {
 public:
  // From here on the path is this object's; makes no file. Throws Cancelled after discard_partial_files(). `kept`: as
  // if keep() had been called before.
  explicit Partial(std::string path, bool kept = false);
  ~Partial();
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  const std::string& path() const { return path_; }
  // From here on the file stays where it is not renamed, for a later run that goes on with it.
  void keep();
  // Gives the file its name for good, replacing what has that name; a folder replaces a folder, in one step where the
  // file system can do that. Throws IoError, or Cancelled where the file has been discarded: then nothing is replaced.
  void rename_to(const std::string& name);

 private:
  const std::string path_;
  bool kept_;
  bool listed_;
};

// Removes the files of all Partials and lets no others be made: for a process that has been told to end and may be
// killed soon. What has one of them open can go on using it. From any thread, not from a signal handler.
void discard_partial_files() noexcept;
// Whether that has happened.
bool partial_files_discarded() noexcept;

// Whether a run that has not ended, or was killed, has made the folder.
bool is_unfinished_folder(const std::string& path);

}  // namespace quarry::io
