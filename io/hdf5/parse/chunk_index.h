// Where the chunks of a data set are: found without the HDF5 library by reading the object header's layout message and
// the chunk index it points to, of any of the format's kinds. Nothing read from the file is believed: every address,
// size and count is checked against the file's size and the shape before use, and no node is read twice, so that a
// hostile file costs at most time and memory proportional to its size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/local/base/shape.h"

namespace quarry::io::hdf5 {

// Of the superblock.
struct FileFormat {
  int offset_bytes = 8, length_bytes = 8;  // of addresses and of lengths
  int64_t base = 0;                        // what addresses count from
  bool message_table = false;              // messages may lie in a table of shared ones
};

inline constexpr int64_t kNoAddress = -1;

// The layout message of a data set's object header.
struct LayoutMessage {
  enum class Kind { compact, contiguous, chunked, other };
  Kind kind = Kind::other;
  int64_t address = kNoAddress;  // absolute, of the raw data or of the chunk index
  local::Dims chunk;             // chunked
  int64_t itemsize = 0;          // chunked
  enum class Index { btree, single, row, fixed_array, extensible_array, btree2 };
  Index index = Index::btree;     // chunked
  bool unfiltered_edges = false;  // chunked: filters are not applied to chunks that pass the shape's end
  int64_t single_bytes = 0;       // single, filtered: bytes stored; otherwise 0
  uint32_t single_mask = 0;       // and the filters skipped
  std::string reason;             // other: what it is
};

// Throws IoError with the reason where the header is damaged. `header` is relative to format.base.
LayoutMessage read_layout_message(const ByteSource& file, const FileFormat& format, int64_t header);

struct ChunkEntry {
  int64_t number = 0;   // in C order of the chunk grid
  int64_t address = 0;  // absolute
  uint32_t bytes = 0;   // stored
  uint32_t mask = 0;    // bit i: filter i was skipped
  friend bool operator==(const ChunkEntry&, const ChunkEntry&) = default;
};

// The stored chunks of a data set, by number in C order of the grid. Immutable, small: 24 bytes a chunk.
class ChunkIndex {
 public:
  ChunkIndex() = default;
  // Throws IoError where two entries have one number.
  ChunkIndex(const local::Dims& shape, const local::Dims& chunk, std::vector<ChunkEntry> entries);

  const local::Dims& grid() const { return grid_; }
  // Null where the chunk is not stored.
  const ChunkEntry* find(int64_t number) const;
  const std::vector<ChunkEntry>& entries() const { return entries_; }
  int64_t stored_bytes() const { return stored_bytes_; }
  int64_t largest() const { return largest_; }  // stored bytes of the largest chunk

  void serialize(ByteWriter& out) const;
  static ChunkIndex deserialize(ByteReader& in, const local::Dims& shape, const local::Dims& chunk);

 private:
  local::Dims grid_;
  std::vector<ChunkEntry> entries_;  // by number
  bool complete_ = false;            // entries_[i].number == i
  int64_t stored_bytes_ = 0, largest_ = 0;
};

// Chunks along each axis. Throws NotSupported where they are too many to count.
local::Dims chunk_grid(const local::Dims& shape, const local::Dims& chunk);

// Of an axis that may grow without end.
inline constexpr int64_t kUnlimited = INT64_MAX;

// What an index is read for.
struct ChunkedShape {
  local::Dims shape, limits;  // limits: the extents that the axes may grow to, kUnlimited at most
  int64_t chunk_bytes = 0;    // of a decoded chunk; unfiltered ones are stored in exactly that
  bool filtered = false;
};

// Reads the chunk index that a layout message names. Throws IoError with the reason.
ChunkIndex read_chunk_index(const ByteSource& file, const FileFormat& format, const LayoutMessage& layout,
                            const ChunkedShape& data);

}  // namespace quarry::io::hdf5
