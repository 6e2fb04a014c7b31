// What virtual data sets are made of. The library reads the list without looking whether it ends.
#pragma once

#include <string>
#include <vector>

#include "quarry/io/hdf5/parse/metadata.h"
#include "quarry/io/hdf5/parse/object.h"

namespace quarry::io::hdf5 {

struct VirtualSource {
  std::string file, object;  // with %b for a number where there are many; file ".": the same one
};

// Throws IoError where the list is damaged: its checksum, and all names and selections are looked at.
std::vector<VirtualSource> read_virtual_sources(const Metadata& file, const Object& object);

}  // namespace quarry::io::hdf5
