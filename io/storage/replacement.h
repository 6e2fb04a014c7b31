// The file that takes an output's place at commit.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "quarry/io/partial.h"

namespace quarry::io {

// Symbolic links followed; none where there is no such file.
std::optional<std::string> real_path(const std::string& file);
// Whether the open file is the one of that name.
bool is_named(int fd, const std::string& path);
// Sends what names are in the folder of a file to the device, as far as that can be done.
void sync_folder_of(const std::string& path);
// Where the Replacement of a file is: NAME.partial, of the file that symbolic links lead to.
std::string unfinished_path(const std::string& file);
// Beside it, what a run that can be resumed notes of itself. Gone as soon as another run begins anew.
std::string job_path(const std::string& unfinished);
// The folder of its saved states (io/saved_states.h).
std::string states_path(const std::string& unfinished);

// Throws IoError where the device of an open file or folder has no room for so many bytes of the output `name`. `note`:
// said of them.
void check_room(int fd, const std::string& name, double bytes, const std::string& note = "");
// Whether this process has the open file alone, until it closes it. True where the file system has no locks.
bool lock_alone(int fd);
// Gives an open file or folder the owner and mode that `before` tells of, which `name` has. Throws IoError.
void take_owner(int fd, const struct stat& before, const std::string& name);

// NAME.partial beside NAME: empty where there is no NAME or nothing of it is wanted, else a copy of it that shares its
// blocks where the file system can do that; with the owner and mode of NAME. NAME itself is not touched before commit()
// puts the other in its place.
class Replacement {
 public:
  enum class Content { copy, nothing };
  // `more_bytes` will be added: refuses, before anything is copied, what the device has no room for. A NAME.partial
  // that a killed run left is replaced; one that another process is writing is refused. Throws IoError; Cancelled
  // where discard_partial_files() comes while it copies.
  Replacement(const std::string& file, double more_bytes, Content content = Content::copy);
  // Goes on with the NAME.partial of a run that kept it, as its state() says. Throws InvalidArgument where it is gone,
  // or NAME is not any more what was copied; IoError as the other one.
  Replacement(const std::string& file, const std::string& state);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  const std::string& path() const { return partial_->path(); }
  bool fresh() const { return fresh_; }                   // there is no NAME
  int64_t copied_bytes() const { return copied_bytes_; }  // its size; 0 where fresh
  // The file stays where it is not committed, and `state` makes a later Replacement go on with it.
  void keep() { partial_->keep(); }
  std::string state() const;
  // Sends what is written so far to the device. Throws IoError.
  void sync() const;
  // Data synced, then renamed, then the directory synced. Throws IoError also where NAME is not any more what was
  // copied.
  void commit();

 private:
  void find_target();
  void open_alone(bool empty);
  void copy(int from, double more_bytes);
  void check_room(double bytes) const;

  std::string name_;    // as the user gave it
  std::string target_;  // symbolic links followed
  bool fresh_ = true;
  struct stat before_ {};  // of the target, when it was copied
  int64_t copied_bytes_ = 0;
  int fd_ = -1;
  std::optional<Partial> partial_;
};

}  // namespace quarry::io
