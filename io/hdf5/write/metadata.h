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
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/metadata.h"
#include "quarry/io/output.h"
#include "quarry/io/storage/bytes.h"

namespace quarry::io::hdf5 {

// Where metadata is written: a file, of which the beginning may stay as it is for now. What is to change there is
// collected, and read as if it had changed.
class MetadataTarget final : public ByteSource {
 public:
  struct Patch {
    int64_t at = 0;
    std::vector<std::byte> bytes;
  };
  explicit MetadataTarget(const ByteFile& file, int64_t kept_bytes = 0) : file_(file), kept_bytes_(kept_bytes) {}

  int64_t size() const override { return file_.size(); }
  void read_at(int64_t offset, std::span<std::byte> to) const override;
  // Not across the end of what is kept.
  void write_at(int64_t offset, std::span<const std::byte> from);
  // In the order in which they were written.
  const std::vector<Patch>& patches() const { return patches_; }

 private:
  const ByteFile& file_;
  const int64_t kept_bytes_;
  std::vector<Patch> patches_;
};

// The index of a data set's chunks, to be made anew.
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

// What index_chunks() needs, of the chunked data set with that object header; none where that cannot make its index: of
// kinds that only the library makes, and in files whose free space is managed.
std::optional<NewIndex> describe_index(const Metadata& file, int64_t header);
// The same of a data set without chunks; none where it has some.
std::optional<NewIndex> describe_new_index(const Metadata& file, int64_t header);

// Where the superblock says that the file ends; -1: it says nothing that can be.
int64_t stated_end(const ByteSource& file, const FileFormat& format);
// Whether it does end there: then its end can be moved.
bool ends_where_it_says(const ByteSource& file, const FileFormat& format);

// Makes the index of `chunks`, numbers ascending and each once, at `at`; returns where it ends. Throws IoError.
int64_t index_chunks(MetadataTarget& file, const NewIndex& made, const local::Dims& shape, int64_t itemsize,
                     const std::vector<PlacedChunk>& chunks, int64_t at);
// The last step of that where IndexWriter has made it: the data set's index is the one at `address`.
void name_index(MetadataTarget& file, const NewIndex& made, int64_t address);

// Gives an axis of the data set with that object header another extent than `shape` has; false where the header does
// not say itself what its shape is. Throws IoError.
bool set_extent(MetadataTarget& file, const FileFormat& format, int64_t header, const local::Dims& shape, int axis,
                int64_t extent);

// The superblock's end of the file, absolute, with the checksum that it has in a whole file. Throws IoError.
void set_end(MetadataTarget& file, const FileFormat& format, int64_t end);

}  // namespace quarry::io::hdf5
