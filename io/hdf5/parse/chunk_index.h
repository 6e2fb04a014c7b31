// Where the chunks of a data set are: found without the HDF5 library by reading the object header's layout message and
// the chunk index it points to, of any of the format's kinds. Nothing read from the file is believed: every address,
// size and count is checked against the file's size and the shape before use, and no node is read twice, so that a
// hostile file costs at most time and memory proportional to its size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
};

inline constexpr int64_t kNoAddress = -1;

// The layout message of a data set's object header.
struct LayoutMessage {
  enum class Kind { compact, contiguous, chunked, virtual_, other };
  Kind kind = Kind::other;
  int64_t address = kNoAddress;  // absolute, of the raw data or of the chunk index
  local::Dims chunk;             // chunked
  int64_t itemsize = 0;          // chunked
  enum class Index { btree, single, row, fixed_array, extensible_array, btree2 };
  Index index = Index::btree;     // chunked
  int64_t address_at = 0;         // chunked: where the address stands in the message
  int page_bits = 0;              // fixed_array: pages have two to the power of so many elements
  bool unfiltered_edges = false;  // chunked: filters are not applied to chunks that pass the shape's end
  bool sized_single = false;      // single: bytes stored and mask stand before the address
  int64_t single_bytes = 0;       // single, filtered: bytes stored; otherwise 0
  uint32_t single_mask = 0;       // and the filters skipped
  uint32_t heap_index = 0;        // virtual: the object of the heap collection at `address` that lists the sources
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

class IndexParts;
struct IndexPlace;

// The stored chunks of a data set, by number in C order of the grid. Immutable. Chunks in a row take no memory; others
// mostly follow each other in number and address with like sizes, so that differences take a byte each: some eight
// bytes a chunk, and every sixteenth as it is, to begin from. A large index stays in its file (IndexParts).
class ChunkIndex {
 public:
  class Maker;
  ChunkIndex() = default;
  ChunkIndex(const local::Dims& shape, const local::Dims& chunk);  // nothing is stored

  const local::Dims& grid() const { return grid_; }
  // Of a shape that has as many chunks, with the same numbers.
  void regrid(const local::Dims& shape, const local::Dims& chunk);
  // Of an index that stays in its file: what gives that file, from any thread; its errors are find()'s and
  // for_each()'s.
  void read_from(std::function<const ByteSource&()> file);
  // None where the chunk is not stored. Throws IoError where a part of an index in its file cannot be read.
  std::optional<ChunkEntry> find(int64_t number) const;
  // Calls f(entry) for all that are stored: by number, or as they follow each other in an index in its file.
  void for_each(const auto& f) const {
    if (parts_) return for_each_in_file(f);
    Cursor cursor = begin();
    for (int64_t i = 0; i < count_; ++i) f(cursor.next(*this));
  }
  int64_t count() const { return count_; }  // that are stored
  int64_t stored_bytes() const { return stored_bytes_; }
  int64_t largest() const { return largest_; }  // stored bytes of the largest chunk
  int64_t memory_bytes() const;                 // of the index itself, without parts
  bool is_in_file() const { return parts_ != nullptr; }

  void serialize(ByteWriter& out) const;
  static ChunkIndex deserialize(ByteReader& in, const local::Dims& shape, const local::Dims& chunk);

 private:
  friend ChunkIndex read_chunk_index(const ByteSource& file, const IndexPlace& place, int64_t most_bytes);
  void for_each_in_file(const std::function<void(const ChunkEntry&)>& f) const;

  static constexpr int64_t kStride = 16;
  struct Mark {
    ChunkEntry entry;
    int64_t behind = 0;  // its code, in codes_
  };
  // Goes through entries, from the first one or one behind a mark.
  struct Cursor {
    ChunkEntry last;
    ByteReader codes;
    ChunkEntry next(const ChunkIndex& index);
  };
  Cursor begin() const { return {kBefore, ByteReader(codes_)}; }
  static constexpr ChunkEntry kBefore{-1, 0, 0, 0};  // the differences of the first one are to it

  local::Dims grid_;
  int64_t count_ = 0;
  bool complete_ = false;  // all chunks are stored: entry i is that of number i
  bool in_row_ = false;    // and each lies behind the one before and is as long
  ChunkEntry first_;
  std::string codes_;
  std::vector<Mark> marks_;
  int64_t stored_bytes_ = 0, largest_ = 0;
  std::shared_ptr<IndexParts> parts_;
};

// Makes an index out of entries, best in the order of numbers: else all of them are held until the end.
class ChunkIndex::Maker {
 public:
  // An index that takes more memory than `most_bytes` is only counted.
  Maker(const local::Dims& shape, const local::Dims& chunk, int64_t most_bytes = INT64_MAX)
      : most_bytes_(most_bytes), made_(shape, chunk) {}
  void add(const ChunkEntry& entry);
  bool only_counts() const { return only_counts_; }
  // Throws IoError where two entries have one number. Of one that was only counted: without entries.
  ChunkIndex take();

 private:
  void append(const ChunkEntry& entry);
  void count(const ChunkEntry& entry);
  void bound();

  const int64_t most_bytes_;
  bool only_counts_ = false;
  ChunkIndex made_;
  ByteWriter codes_;
  ChunkEntry last_ = kBefore;
  std::vector<ChunkEntry> unordered_;
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

// Where an index is, and of what.
struct IndexPlace {
  FileFormat format;
  LayoutMessage layout;
  ChunkedShape data;
  int64_t part_chunks = 4096;  // that are looked for together where it stays in its file
};

// Reads the chunk index that a layout message names. Throws IoError with the reason. One that would take more memory
// than `most_bytes` stays in its file, if it is in such an order that parts of it can be found there; a part of it
// takes less than that.
ChunkIndex read_chunk_index(const ByteSource& file, const IndexPlace& place, int64_t most_bytes = INT64_MAX);

}  // namespace quarry::io::hdf5
