// What the HDF5 library writes into files: new objects, chunks that it stores itself, and changes that only it can
// make. Into a file that others wrote it does so in a process of its own (io/hdf5/process).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/io/output.h"
#include "quarry/io/storage/bytes.h"

namespace quarry::io::hdf5 {

// Objects to be made.
struct Creation {
  std::string path, name;  // of the file, and as the user named it
  bool fresh = true;       // the file is made, too
  bool overwrite = false;  // of attributes of groups that are there
  std::vector<OutputSpec> specs;
};
void serialize(const Creation& creation, ByteWriter& out);
Creation deserialize_creation(ByteReader& in);
// Throws IoError, InvalidArgument.
void create_objects(const Creation& creation);

// A data set that a change in a copy of the file makes anew, in whole or in part.
struct LibraryChange {
  std::string object;
  bool appends = false;
  local::Dims shape;     // that it will have
  local::Region region;  // that is written
  bool bitfield = false;
  StoredDataset elements;  // of the region
};
void serialize(const std::vector<LibraryChange>& changes, ByteWriter& out);
std::vector<LibraryChange> deserialize_changes(ByteReader& in);
// `underway` is called from time to time. Throws IoError.
void apply_changes(const std::string& path, const std::string& name, const std::vector<LibraryChange>& changes,
                   const std::function<void()>& underway);

// Encoded chunks of data sets of one file.
class ChunkStore {
 public:
  // Opens the file. Throws IoError.
  ChunkStore(const std::string& path, std::string name);
  // At the coordinates of its first element. Throws IoError.
  void store(const std::string& object, const local::Dims& origin, std::span<const std::byte> bytes);
  // Throws IoError: the disk may be full.
  void close();

 private:
  const std::string name_;
  Handle file_;
};

}  // namespace quarry::io::hdf5
