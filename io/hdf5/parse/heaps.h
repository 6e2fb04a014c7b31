// Heaps of a file: names of old groups in local heaps, values of variable length in the global one, links and
// attributes of objects that have many in fractal heaps.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/io/hdf5/parse/blocks.h"
#include "quarry/io/hdf5/parse/chunk_index.h"

namespace quarry::io::hdf5 {

class LocalHeap {
 public:
  // Reads it. Throws IoError where it is damaged.
  LocalHeap(const ByteSource& file, const FileFormat& format, int64_t address);
  // The text at an offset, which ends with a zero byte.
  std::string text(uint64_t offset) const;

 private:
  std::vector<std::byte> data_;
};

// All collections of the global heap that were asked for, each read once.
class GlobalHeap {
 public:
  GlobalHeap(const ByteSource& file, const FileFormat& format) : file_(file), format_(format) {}
  // The bytes of an object of the collection at `address`. Throws IoError where there is none, or less than `bytes`.
  std::span<const std::byte> object(int64_t address, unsigned index, uint64_t bytes);
  // All of it.
  std::span<const std::byte> object(int64_t address, unsigned index);

 private:
  struct Collection {
    std::vector<std::byte> bytes;
    std::map<unsigned, std::pair<size_t, size_t>> objects;  // first byte and size
  };
  const Collection& collection(int64_t address);

  const ByteSource& file_;
  const FileFormat& format_;
  std::map<int64_t, Collection> collections_;
  int64_t bytes_ = 0;
};

class FractalHeap {
 public:
  // Reads its head. Throws IoError where it is damaged, NotSupported where its blocks are filtered.
  FractalHeap(const ByteSource& file, const FileFormat& format, int64_t address);
  size_t id_bytes() const { return id_bytes_; }
  // The object of an ID of id_bytes().
  std::vector<std::byte> object(std::span<const std::byte> id);

 private:
  struct Block {  // that holds objects
    int64_t start = 0;
    std::vector<std::byte> bytes;
  };
  std::vector<std::byte> managed(uint64_t offset, uint64_t length);
  std::vector<std::byte> huge(std::span<const std::byte> id);
  const std::vector<int64_t>& children(int64_t address, int rows);
  const Block& direct(int64_t address, int64_t start, int64_t bytes);
  int64_t row_bytes(int row) const { return row == 0 ? start_ : start_ << (row - 1); }

  const ByteSource& file_;
  const FileFormat& format_;
  BlockReader blocks_;
  const int64_t address_;
  size_t id_bytes_ = 0;
  bool checked_ = false;  // data blocks have checksums
  int64_t width_ = 0, start_ = 0, most_direct_ = 0, most_managed_ = 0;
  int offset_bits_ = 0, direct_rows_ = 0;
  int64_t root_ = kNoAddress, huge_tree_ = kNoAddress;
  int root_rows_ = 0;
  std::map<int64_t, std::vector<int64_t>> indirect_;
  std::map<int64_t, Block> direct_;
  std::optional<std::map<uint64_t, std::pair<int64_t, int64_t>>> huge_;
};

}  // namespace quarry::io::hdf5
