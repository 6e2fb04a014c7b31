// A data set that is open in the HDF5 library, of a file that may be damaged: for the library's process.
#pragma once

#include <span>
#include <string>

#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"

namespace quarry::io::hdf5 {

// What a LibraryDataset needs to know.
std::string library_dataset_of(const StoredDataset& stored);

class LibraryDataset {
 public:
  // Of library_dataset_of(). Opens the file. Throws IoError, NotSupported.
  explicit LibraryDataset(ByteReader in);

  // Reads element low[d] + i * step[d], i < count[d], into C-contiguous memory. Throws IoError.
  void read(const local::Dims& low, const local::Dims& step, const local::Dims& count, std::span<std::byte> to) const;

 private:
  Handle file_, dataset_, type_;
  int64_t item_ = 0;
};

}  // namespace quarry::io::hdf5
