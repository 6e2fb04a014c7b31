// What the .zarray (version 2) or zarr.json (version 3) of a Zarr array says.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "quarry/io/dataset.h"

namespace quarry::io::zarr {

enum class Codec : uint8_t { zlib, gzip, zstd, lz4, blosc, crc32c };

struct Metadata {
  DatasetInfo info;             // with chunks; without file and object
  bool fortran_order = false;   // inside chunks
  std::vector<Codec> codecs;    // in the order in which they were applied
  std::vector<std::byte> fill;  // one element, in the file's byte order
  std::string prefix;           // of chunks' names
  char separator = '.';         // between their numbers
};

// Parses it. `name`: what errors call it. Throws IoError (damaged), TypeError (a type quarry has no dtype for),
// NotSupported (a codec, named; sharding; irregular chunks).
Metadata parse_metadata(const std::string& json, int version, const std::string& name);

}  // namespace quarry::io::zarr
