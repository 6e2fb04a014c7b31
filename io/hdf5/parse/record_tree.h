// B-trees of version 2: sorted records of one size, with a checksum on every node. They hold the chunks of data sets
// with several unlimited axes, and the links and attributes of objects that have many.
#pragma once

#include <functional>

#include "quarry/io/hdf5/parse/blocks.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/parser.h"

namespace quarry::io::hdf5 {

// What the records of a tree are.
namespace record_type {
inline constexpr unsigned kHugeObject = 1, kLinkName = 5, kAttributeName = 8, kChunk = 10, kFilteredChunk = 11;
}

// Whether the records before one, and those behind it, need not be read.
struct RecordNeighbours {
  bool skip_before = false, skip_behind = false;
};

// Calls begin(record bytes) with what the head says and then use(record) for every record of the tree at `address`, in
// order, but for those that `neighbours`, if there is one, spares. Throws IoError where it is damaged or of another
// type.
void for_each_record(BlockReader& blocks, const FileFormat& format, int64_t address, unsigned type,
                     const std::function<void(int64_t record_bytes)>& begin, const std::function<void(Cursor&)>& use,
                     const std::function<RecordNeighbours(Cursor)>& neighbours = {});

}  // namespace quarry::io::hdf5
