// What the readers of the chunk indexes share: the entries that come out of them.
#pragma once

#include <string>

#include "quarry/io/hdf5/parse/blocks.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/parser.h"

namespace quarry::io::hdf5 {

// An element of an index: where a chunk is and, of filtered ones, its bytes and mask.
struct StoredChunk {
  int64_t address = kNoAddress, bytes = 0;
  uint32_t mask = 0;
};

// Takes the chunks of an index, checks them, and leaves out those outside of the shape, which has shrunk.
class ChunkCollector {
 public:
  ChunkCollector(const ByteSource& file, const LayoutMessage& layout, const ChunkedShape& data);

  int rank() const { return layout_.chunk.size(); }
  bool filtered() const { return data_.filtered; }
  // `at` counts chunks along each axis.
  void add(const local::Dims& at, const StoredChunk& chunk);
  // Of an unfiltered chunk, `bytes` are all of it.
  StoredChunk stored(Cursor& in, const FileFormat& format, int size_bytes) const;
  ChunkIndex take() { return index_.take(); }

 private:
  std::string origin(const local::Dims& at) const;
  bool passes_the_end(const local::Dims& at) const;

  const ByteSource& file_;
  const LayoutMessage& layout_;
  const ChunkedShape& data_;
  const local::Dims grid_;
  ChunkIndex::Maker index_;
};

// The readers, each for one kind of index at layout.address.
void read_fixed_array(BlockReader& blocks, const FileFormat& format, const LayoutMessage& layout,
                      const ChunkedShape& data, ChunkCollector& out);
void read_extensible_array(BlockReader& blocks, const FileFormat& format, const LayoutMessage& layout,
                           const ChunkedShape& data, ChunkCollector& out);
void read_version_2_tree(BlockReader& blocks, const FileFormat& format, const LayoutMessage& layout,
                         ChunkCollector& out);

// The order of the chunks in an array: C order of the grid that the limits allow, but an axis without limit is the
// slowest one.
class ArrayOrder {
 public:
  // Throws IoError where more axes than `unlimited` have no limit.
  ArrayOrder(const local::Dims& limits, const local::Dims& chunk, int unlimited);
  // Chunks along each axis, of the index's i-th.
  local::Dims at(int64_t i) const;
  // How many there can be; kUnlimited with an axis without limit.
  int64_t count() const { return count_; }

 private:
  local::Dims grid_;
  int slowest_ = -1;
  int64_t count_ = 1;
};

}  // namespace quarry::io::hdf5
