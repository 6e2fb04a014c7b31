// Arrays whose elements lie at fixed distances in a file: reading regions of them, and writing boxes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "quarry/io/byte_file.h"
#include "quarry/io/dataset.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/io/storage/runs.h"

namespace quarry::io {

// A file that is opened when it is first read: not every rank reads every file. Thread-safe.
class LazyFile final : public ByteSource {
 public:
  // `bytes`: its size when it was described. A file that became shorter is not read.
  LazyFile(std::string path, int64_t bytes);
  int64_t size() const override { return bytes_; }
  void read_at(int64_t offset, std::span<std::byte> to) const override;

 private:
  const std::string path_;
  const int64_t bytes_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const ByteFile> file_;
};

// Element i of the array lies at byte offset + sum(i[d] * spans[d]) of the source.
struct StridedPlace {
  int64_t offset = 0;
  local::Dims shape, spans;  // spans in bytes, not negative
  int64_t item = 1;          // bytes of an element
  bool bools = false;        // every byte that is not 0 is read as 1
};

// Reads regions as Dataset::read() and visit() do. Axes may lie in any order (C, Fortran) and with gaps (fields of
// records). Thread-safe.
class StridedReader {
 public:
  StridedReader(std::shared_ptr<const ByteSource> source, StridedPlace place, std::string object);

  static int64_t scratch_bytes();
  void read(const local::Region& region, void* to, std::span<std::byte> scratch) const;
  void visit(const local::Region& region, std::span<std::byte> scratch,
             const std::function<void(const Dataset::Piece&)>& consume) const;
  int64_t bytes_read() const { return bytes_read_; }

 private:
  void load(int64_t offset, std::span<std::byte> to) const;
  bool read_runs(const AscendingRegion& region, std::byte* to) const;

  const std::shared_ptr<const ByteSource> source_;
  const StridedPlace place_;
  const std::string object_;
  local::Dims order_;  // axes from the widest span to the narrowest
  mutable std::atomic<int64_t> bytes_read_{0};
};

// Writes C-contiguous `from` into the box `region` (steps 1) of a C-ordered array of `shape` that begins at `offset`.
void write_box(const ByteFile& file, int64_t offset, const local::Dims& shape, int64_t item,
               const local::Region& region, const std::byte* from);

// Adds the runs of a part of a C-contiguous region of `count` elements at `from`: where they belong in a C-ordered
// block of the file that begins at `offset`.
void add_part(Runs& runs, const Part& part, int64_t offset, const local::Dims& block, const local::Dims& count,
              int64_t item, const std::byte* from);

}  // namespace quarry::io
