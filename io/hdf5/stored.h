// What opening a data set finds out: its description and where its bytes are.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/dataset.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/storage/bytes.h"

namespace quarry::io::hdf5 {

// Of an integer that fills only a part of its bytes. precision 0: it fills them.
struct IntegerBits {
  uint8_t offset = 0, precision = 0;  // in bits, from the lowest
  bool is_signed = false, big_endian = false;
};

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
  IntegerBits bits;
  int64_t record_bytes = 0;         // of an element in the file: of numbers, arrays of numbers, or compounds
  int64_t field_offset = 0;         // in it, of what is read
  int array_axes = 0;               // last axes of the shape that belong to an element
  std::vector<std::string> fields;  // of a compound: the name of the field that is read, and of fields in it
  int64_t file_bytes = 0;           // size of the file when it was opened
  std::string file;                 // that holds it, where an external link leads to another one than info.file
  int64_t header = 0;               // library: of the object, as the library counts addresses
};

struct StoredDataset {
  DatasetInfo info;
  Storage storage;
  std::string unreadable;  // why reading will fail though the description is complete (a missing filter); else empty
};

// Makes elements as the file has them, of bool or of integers with few bits, those of the dtype, in place.
void fix_elements(const StoredDataset& stored, std::span<std::byte> elements);

// The file whose bytes are read.
const std::string& data_file(const StoredDataset& stored);

void put_filters(const std::vector<Filter>& filters, ByteWriter& out);
std::vector<Filter> get_filters(ByteReader& in);
void put_attributes(const std::map<std::string, Attribute>& attributes, ByteWriter& out);
std::map<std::string, Attribute> get_attributes(ByteReader& in);
void serialize(const StoredDataset& stored, ByteWriter& out);
StoredDataset deserialize(ByteReader& in);
std::shared_ptr<Dataset> dataset_of(StoredDataset stored);

}  // namespace quarry::io::hdf5
