// What the readers of the chunk indexes share: the entries that come out of them.
#pragma once

#include <functional>
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

// Whether place a comes before b in lexicographic order.
bool precedes(const local::Dims& a, const local::Dims& b);
// Of a number in C order.
local::Dims place_in(const local::Dims& grid, int64_t number);

// Positions in an index: of arrays their elements, of trees chunk numbers in the shape's grid.
struct IndexRange {
  int64_t begin = 0, end = INT64_MAX;
};

// Takes the chunks of an index, or of a range of it, checks them, and leaves out those outside of the shape, which has
// shrunk.
class ChunkCollector {
 public:
  using Use = std::function<void(const ChunkEntry&)>;
  // What it refers to must outlive it.
  ChunkCollector(const ByteSource& file, const LayoutMessage& layout, const ChunkedShape& data, const IndexRange& range,
                 Use use);

  int rank() const { return layout_.chunk.size(); }
  bool filtered() const { return data_.filtered; }
  const IndexRange& range() const { return range_; }
  // Whether any of so many elements of an array is wanted.
  bool wants(int64_t first, int64_t count) const { return first < range_.end && range_.begin - first < count; }
  // Of a tree, whose chunks are in lexicographic order: whether nothing before that place is wanted, or nothing there
  // and behind it.
  bool begins_at(const local::Dims& at) const { return !first_.empty() && !precedes(first_, at); }
  bool ends_before(const local::Dims& at) const { return !last_.empty() && precedes(last_, at); }
  // A tree in another order, of which parts are not found.
  void note_disorder() { ordered_ = false; }
  bool ordered() const { return ordered_; }
  // `at` counts chunks along each axis.
  void add(const local::Dims& at, const StoredChunk& chunk);
  // Of an unfiltered chunk, `bytes` are all of it.
  StoredChunk stored(Cursor& in, const FileFormat& format, int size_bytes) const;

 private:
  std::string origin(const local::Dims& at) const;
  bool passes_the_end(const local::Dims& at) const;

  const ByteSource& file_;
  const LayoutMessage& layout_;
  const ChunkedShape& data_;
  const local::Dims grid_;
  const IndexRange range_;
  local::Dims first_, last_;  // of a part of a tree; else empty
  const bool is_tree_;
  const Use use_;
  local::Dims previous_;  // of a tree
  bool ordered_ = true;
};

// Gives `out` what it wants of the index.
void read_entries(const ByteSource& file, const IndexPlace& place, ChunkCollector& out);
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
  // Of a chunk. Throws IoError where it is beyond 64 bits.
  int64_t position(const local::Dims& at) const;
  // How many there can be; kUnlimited with an axis without limit.
  int64_t count() const { return count_; }

 private:
  local::Dims grid_;
  int slowest_ = -1;
  int64_t count_ = 1;
};

}  // namespace quarry::io::hdf5
