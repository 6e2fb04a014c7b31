// A file's metadata: the superblock, and what it says about where everything else is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/heaps.h"
#include "quarry/io/hdf5/parse/object_header.h"
#include "quarry/io/hdf5/parse/parser.h"

namespace quarry::io::hdf5 {

// Thread-compatible: one thread at a time.
class Metadata {
 public:
  // Reads the superblock and its extension. Throws IoError: no HDF5 file, truncated (and by how much), damaged, not
  // closed by its writer; NotSupported for addresses of more than eight bytes.
  explicit Metadata(std::shared_ptr<const ByteSource> file);
  Metadata(const Metadata&) = delete;
  Metadata& operator=(const Metadata&) = delete;

  // Metadata is read from here: the file, under what its cache image says is newer.
  const ByteSource& bytes() const { return *source_; }
  const FileFormat& format() const { return format_; }
  int64_t root() const { return root_; }  // header of the root group, relative to format().base
  GlobalHeap& global_heap() const { return *global_; }
  // Most entries of a node of a version 1 B-tree of chunks are twice as many.
  int chunk_tree_half() const { return chunk_tree_half_; }
  // Whether the file keeps lists of its free space, or pages, which whoever writes has to care for.
  bool manages_space() const { return manages_space_; }

  // A message, followed to where it is if it is shared; `copy` keeps it alive. Throws IoError.
  std::span<const std::byte> body(const HeaderMessage& message, std::vector<std::byte>& copy) const;
  // Of a reference to a message of `type`.
  std::vector<std::byte> shared_body(unsigned type, Cursor& reference) const;
  // The same of an ID in the heap of shared messages.
  std::vector<std::byte> message_of_heap(unsigned type, std::span<const std::byte> id) const;

 private:
  void read_superblock();
  void read_extension(int64_t address);
  void read_message_table(Cursor& in);
  void read_cache_image(Cursor& in);
  void read_free_space(std::span<const std::byte> message);

  struct MessageIndex {
    unsigned types = 0;  // a bit for each that it holds
    int64_t heap = kNoAddress;
    mutable std::unique_ptr<FractalHeap> opened;
  };
  std::shared_ptr<const ByteSource> file_, source_;
  FileFormat format_;
  int64_t root_ = 0;
  int chunk_tree_half_ = 32;  // where the file does not say
  bool manages_space_ = false;
  std::vector<MessageIndex> indexes_;
  std::unique_ptr<GlobalHeap> global_;
};

}  // namespace quarry::io::hdf5
