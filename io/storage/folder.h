// The folder that takes an output's place at commit.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>

#include "quarry/io/partial.h"

namespace quarry::io {

// NAME.partial beside NAME, as a Replacement of files: empty until commit() begins. What stays of NAME then has the
// same place in both, and costs no room where the file system has links. NAME itself is not touched before the other
// one takes its place.
class FolderReplacement {
 public:
  // `bytes` will be written: refuses what the device has no room for. What a killed run left is removed; a folder that
  // another process is writing is refused. Throws IoError, also where NAME is no folder.
  FolderReplacement(const std::string& folder, double bytes);
  // Goes on with the NAME.partial of a run that kept it, as its state() says. Throws InvalidArgument where NAME is not
  // any more the folder that it was, or is the output already; IoError as the other one.
  FolderReplacement(const std::string& folder, const std::string& state);
  ~FolderReplacement();
  FolderReplacement(const FolderReplacement&) = delete;
  FolderReplacement& operator=(const FolderReplacement&) = delete;

  const std::string& path() const { return partial_->path(); }
  const std::string& target() const { return target_; }  // NAME, symbolic links followed
  bool fresh() const { return fresh_; }                  // there is no NAME

  // The folder stays where it is not committed, and `state` makes a later FolderReplacement go on with it.
  void keep() { partial_->keep(); }
  std::string state() const;

  // Gives the file `place`, a path below both, of NAME to NAME.partial too. Throws IoError.
  void keep_file(const std::string& place) const;
  // All that was written below NAME.partial by this process's node goes to the device; then it becomes NAME. Throws
  // IoError, also where NAME is not any more the folder that it was.
  void commit();

  // Whether a name in NAME.partial is of the file that keeps other processes out.
  static bool is_lock(const std::string& name);

 private:
  void find_target();
  void open_alone(bool empty);
  void clear() const;

  std::string name_;    // as the user gave it
  std::string target_;  // symbolic links followed
  bool fresh_ = true;
  struct stat before_ {};
  int lock_ = -1;
  std::optional<Partial> partial_;
};

// Sends what this node wrote to the file system that has the folder to its device. Throws IoError.
void sync_file_system(const std::string& folder);

}  // namespace quarry::io
