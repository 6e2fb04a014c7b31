// Reading through the HDF5 library, under its lock: for virtual, external and oddly typed or filtered data sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"

namespace quarry::io::hdf5 {

// Keeps its file open from the first read on. Thread-safe.
class LibraryReader {
 public:
  explicit LibraryReader(const StoredDataset& stored);
  ~LibraryReader();
  LibraryReader(const LibraryReader&) = delete;
  LibraryReader& operator=(const LibraryReader&) = delete;

  // Reads element low[d] + i * step[d], i < count[d], into C-contiguous memory. Blocks. Throws IoError.
  void read(const local::Dims& low, const local::Dims& step, const local::Dims& count, void* to);

 private:
  void open();
  void close() noexcept;

  const std::string path_;
  const int64_t header_;  // where the library finds the object
  const local::DType dtype_;
  const bool bitfield_;
  const std::vector<std::string> fields_;
  Handle file_, dataset_, type_;
};

}  // namespace quarry::io::hdf5
