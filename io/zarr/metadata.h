// What the .zarray (version 2) or zarr.json (version 3) of a Zarr array says, and what those of outputs will say.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "quarry/io/dataset.h"
#include "quarry/io/output.h"

namespace quarry::io::zarr {

// One step of encoding a chunk.
struct Codec {
  enum class Kind : uint8_t { shuffle, zlib, gzip, zstd, lz4, blosc, crc32c } kind;
  int level = 0;
  size_t element = 1;  // bytes that shuffle and blosc shuffle together
};

// The names of chunks' files.
struct ChunkKeys {
  std::string prefix;
  char separator = '.';  // between their numbers
  // By coordinates in the grid of chunks.
  std::string of(const local::Dims& at) const;
};

struct Metadata {
  DatasetInfo info;             // with chunks; without file and object
  bool fortran_order = false;   // inside chunks
  std::vector<Codec> codecs;    // in the order in which they were applied
  std::vector<std::byte> fill;  // one element, in the file's byte order
  ChunkKeys keys;
};

// Parses it. `attributes`: the content of .zattrs, "" where there is none; version 3 has them in zarr.json. `name`:
// what errors call it. Throws IoError (damaged), TypeError (a type quarry has no dtype for), NotSupported (a codec,
// named; sharding; irregular chunks).
Metadata parse_metadata(const std::string& json, const std::string& attributes, int version, const std::string& name);
// Of a group: the content of .zattrs or zarr.json.
std::map<std::string, Attribute> parse_group_attributes(const std::string& json, int version, const std::string& name);

// --- of outputs, in C order and little-endian ---

// The steps for the filters of a specification. Throws InvalidArgument for a filter that arrays of the version have
// not.
std::vector<Codec> codecs_of(const OutputSpec& spec, int version);
ChunkKeys usual_keys(int version);
// Names and contents of the files that make a folder an array or a group.
using MetadataFiles = std::vector<std::pair<std::string, std::string>>;
MetadataFiles array_files(const OutputSpec& spec, int version);
MetadataFiles group_files(const std::map<std::string, Attribute>& attributes, int version);
// Those of a group that is there, with `attributes` besides its own, or in place of its own of the same names.
// `files`: what it has; copies of others' metadata, which would be out of date, are left out. Throws IoError.
MetadataFiles changed_group(const MetadataFiles& files, const std::map<std::string, Attribute>& attributes,
                            bool overwrite, const std::string& name);

}  // namespace quarry::io::zarr
