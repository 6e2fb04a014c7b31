// Reading by the HDF5 library, in its process: virtual, external and oddly typed or filtered data sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "quarry/io/hdf5/stored.h"
#include "quarry/io/storage/pieces.h"

namespace quarry::io::hdf5 {

// Thread-safe; one thread reads at a time, of all data sets of the process.
class LibraryReader {
 public:
  explicit LibraryReader(const StoredDataset& stored);
  ~LibraryReader();
  LibraryReader(const LibraryReader&) = delete;
  LibraryReader& operator=(const LibraryReader&) = delete;

  // Reads the region, in ascending order, into C-contiguous memory. Blocks. Throws IoError, NotSupported.
  void read(const AscendingRegion& region, std::byte* to);

 private:
  std::string request(const AscendingRegion& region, const local::Dims& at, const local::Dims& count, int half) const;

  const std::string opened_;  // how the library's process opens it: by a number, once
  const int64_t item_;
  const local::Dims shape_, block_;  // what is decoded as a whole; else the shape
};

}  // namespace quarry::io::hdf5
