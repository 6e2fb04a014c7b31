// An HDF5 file that is open for its metadata, and the way from a path to an object.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/parse/metadata.h"
#include "quarry/io/hdf5/parse/object.h"

namespace quarry::io::hdf5 {

struct MetadataFile {
  // Throws InvalidArgument where there is no such file, IoError where it is no HDF5 file or is damaged; both name it.
  static std::shared_ptr<const MetadataFile> open(const std::string& path);
  MetadataFile(std::string name, const std::shared_ptr<const ByteFile>& opened)
      : path(std::move(name)), bytes(opened), metadata(opened) {}

  // Those of a group, sorted by name. The group asked for last is kept: many objects are looked for one after the
  // other. Thread-safe. Throws IoError where they are damaged.
  std::shared_ptr<const std::vector<Link>> links(const Object& group) const;

  const std::string path;
  const std::shared_ptr<const ByteFile> bytes;
  const Metadata metadata;

 private:
  mutable std::mutex mutex_;
  mutable int64_t kept_group_ = -1;
  mutable std::shared_ptr<const std::vector<Link>> kept_links_;
};

// The files that are there which a name in another file may mean: an absolute name as it is, then beside that file,
// then where the program stands.
std::vector<std::string> existing_targets(const MetadataFile& from, const std::string& name);

// Where a path leads: an object, of this file or of one behind external links.
struct Found {
  enum class State : uint8_t {
    found,
    missing,   // there is no link of that name
    dangling,  // there is one, which leads nowhere or in circles: `reason`
  };
  State state = State::missing;
  std::shared_ptr<const MetadataFile> file;
  Object object;
  std::string reason = {};
};

// Follows hard, soft and external links from the root group on. `path` is absolute and normalised. Throws IoError where
// an object on the way is damaged.
Found find_object(const std::shared_ptr<const MetadataFile>& file, const std::string& path);

}  // namespace quarry::io::hdf5
