// The index of a data set's chunks, written where its place is known beforehand: several processes can each write the
// lowest nodes of a range of chunks, and one the rest (docs/adr/0046).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quarry/io/hdf5/write/metadata.h"

namespace quarry::io::hdf5 {

class IndexWriter {
 public:
  virtual ~IndexWriter() = default;
  // Chunks of a lowest node: the last one may have fewer.
  virtual int64_t node_chunks() const = 0;
  virtual int64_t end() const = 0;  // where the index ends in the file
  // Writes the nodes of those chunks, in the order of their numbers; the first one begins at chunk `first`, which is a
  // multiple of node_chunks(). Of an array that counts all chunks that there could be, those missing are marked; of a
  // tree those that are stored. `next`: the chunk behind the last one; null: there is none. Returns what finish() needs
  // to know: of each node the number and bytes of its first chunk, and the node's own offset. Throws IoError.
  virtual std::vector<PlacedChunk> write_nodes(MetadataTarget& file, int64_t first, std::span<const PlacedChunk> chunks,
                                               const PlacedChunk* next) const = 0;
  // After those of all chunks: writes what is above. `nodes`: as they were returned, in order. Returns the address of
  // the index. Throws IoError.
  virtual int64_t finish(MetadataTarget& file, std::vector<PlacedChunk> nodes) const = 0;
};

// `stored`: how many chunks there are; `at`: where the index begins. For a tree or an array.
std::unique_ptr<IndexWriter> index_writer(const NewIndex& made, const local::Dims& shape, int64_t itemsize,
                                          int64_t stored, int64_t at);
// node_chunks() of it; 0: no tree or array.
int64_t node_chunks(const NewIndex& made);

}  // namespace quarry::io::hdf5
