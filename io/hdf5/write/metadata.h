// Metadata that quarry writes itself, in a file that the HDF5 library has closed: the index of a data set's chunks, and
// what names it.
//
// Encoded chunks lie behind the library's last byte, wherever ranks put them. The index is made at once of all of them,
// behind the last one; then the layout message of the object header gets its address, and the superblock the new end of
// the file.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/output.h"

namespace quarry::io::hdf5 {

// A data set that was created and has no chunk yet.
struct NewIndex {
  FileFormat format;
  int64_t header = 0;     // the object header, relative to format.base
  int tree_entries = 64;  // most of a node of a version 1 B-tree
  LayoutMessage layout;
  int64_t message_at = 0;                              // in the file: of the layout message
  std::optional<std::pair<int64_t, int64_t>> checked;  // as HeaderMessage has it
};

void serialize(const NewIndex& made, ByteWriter& out);
NewIndex deserialize_new_index(ByteReader& in);

// What index_chunks() needs, of an open data set without chunks; none where that cannot make its index: of kinds that
// only the library makes, and in files whose free space is managed.
std::optional<NewIndex> describe_new_index(hid_t file_id, hid_t dataset, const ByteSource& file);

// Whether the superblock says that the file ends where it does: then its end can be moved.
bool ends_where_it_says(const ByteSource& file, const FileFormat& format);

// Makes the index of `chunks`, numbers ascending and each once, at `at`; returns where it ends. Throws IoError.
int64_t index_chunks(const ByteFile& file, const NewIndex& made, const local::Dims& shape, int64_t itemsize,
                     const std::vector<PlacedChunk>& chunks, int64_t at);

// The superblock's end of the file, absolute, with the checksum that it has in a whole file. Throws IoError.
void set_end(const ByteFile& file, const FileFormat& format, int64_t end);

}  // namespace quarry::io::hdf5
