// Descriptions of data sets and files, by quarry's own reading of their metadata (io/hdf5/parse).
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/parse/file.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/io/storage/objects.h"

namespace quarry::io::hdf5 {

// Of an index that is held whole where a data set is only read: some 100,000 chunks.
inline constexpr int64_t kMostIndexBytes = int64_t{1} << 20;

// Describes one data set, or fields of its compound type; its chunk index is read once.
class Describer {
 public:
  // What is described is asked for as `object` of `file`. Chunk indexes that take more memory than `most_index_bytes`
  // stay in their file.
  Describer(const MetadataFile& in, const Object& object, int64_t most_index_bytes = INT64_MAX)
      : in_(in), object_(object), most_index_bytes_(most_index_bytes) {}
  // `fields` are the names of a field and of fields in it; none: the element itself. Throws TypeError, NotSupported,
  // IoError, and InvalidArgument where there is no such field, all without a name.
  StoredDataset describe(const std::string& file, const std::string& object, const std::vector<std::string>& fields);

 private:
  const ChunkIndex& chunk_index(const local::Dims& chunk);

  const MetadataFile& in_;
  const Object& object_;
  const int64_t most_index_bytes_;
  std::optional<ChunkIndex> index_;
  std::exception_ptr index_error_;
};

// Opens and describes; as Describer. Throws as Dataset::open.
StoredDataset describe_dataset(const std::string& file, const std::string& object,
                               int64_t most_index_bytes = INT64_MAX);
StoredDataset describe_dataset(const std::shared_ptr<const MetadataFile>& opened, const std::string& object,
                               int64_t most_index_bytes = INT64_MAX);

// The data set or group whose path is most like `object`; empty where none is close.
std::string nearest_object(const MetadataFile& file, const std::string& object);
// Throws InvalidArgument: there is no such object, with the nearest.
[[noreturn]] void throw_missing(const MetadataFile& file, const std::string& object);

// Before the library opens an object of a file: what it will read is as the format has it, in the sources of a virtual
// data set too. Throws IoError.
void check_for_library(const MetadataFile& file, const Object& object);

// The shape of a virtual data set as the library finds it: for its process (io/hdf5/process). Throws IoError.
local::Dims library_shape(const std::string& path, int64_t header);

void write_attributes(hid_t object, const std::map<std::string, Attribute>& attributes);
// Whether a link of that path exists, every component of it, to the library.
bool object_exists(hid_t file, const std::string& object);

}  // namespace quarry::io::hdf5
