// What opening a data set finds out: its description and where its bytes are.
#pragma once

#include <string>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/dataset.h"
#include "quarry/io/hdf5/parse/bytes.h"
#include "quarry/io/hdf5/parse/chunk_index.h"

namespace quarry::io::hdf5 {

struct Storage {
  enum class Kind : uint8_t {
    contiguous,  // one block at `offset`; kNoAddress: never written
    chunked,     // by `index`
    memory,      // compact: all of it is in `data`
    library,     // only the library can read it
  };
  Kind kind = Kind::library;
  int64_t offset = kNoAddress;
  ChunkIndex index;
  std::vector<std::byte> data;
  std::vector<std::byte> fill;  // one element in the file's byte order, for what was never written
  bool bitfield = false;        // library: a bit field read as an unsigned integer
  int64_t file_bytes = 0;       // size of the file when it was opened
};

struct StoredDataset {
  DatasetInfo info;
  Storage storage;
  std::string unreadable;  // why reading will fail though the description is complete (a missing filter); else empty
};

void serialize(const StoredDataset& stored, ByteWriter& out);
StoredDataset deserialize(ByteReader& in);

}  // namespace quarry::io::hdf5
