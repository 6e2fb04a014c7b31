// Blocks of metadata that are read once and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "quarry/io/byte_file.h"

namespace quarry::io::hdf5 {

// Reads the blocks of one structure (an index, a group, a heap). No block is read twice and all together are no larger
// than the file; else IoError, so that a hostile file costs at most time and memory proportional to its size.
class BlockReader {
 public:
  explicit BlockReader(const ByteSource& file) : file_(file) {}

  // Counts a block that the caller reads: one without a checksum.
  void count(int64_t address, int64_t bytes);
  // A block that ends with a checksum, which is compared and left out.
  std::vector<std::byte> read(int64_t address, int64_t bytes, const char* what);

  const ByteSource& file() const { return file_; }

 private:
  const ByteSource& file_;
  std::unordered_set<int64_t> seen_;
  int64_t bytes_ = 0;
};

// Throws IoError unless the block ends with its checksum; `address` and `what` name it.
void check_checksum(std::span<const std::byte> block, int64_t address, const char* what);

}  // namespace quarry::io::hdf5
