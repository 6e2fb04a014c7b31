// The implementation of Dataset: direct reading by offset, or the library's for what has no direct path.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "quarry/io/chunk_cache.h"
#include "quarry/io/dataset.h"
#include "quarry/io/encoded_chunks.h"
#include "quarry/io/hdf5/format.h"
#include "quarry/io/hdf5/read/library_reader.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/io/storage/pieces.h"

namespace quarry::io::hdf5 {

class Hdf5Dataset final : public Dataset {
 public:
  explicit Hdf5Dataset(StoredDataset stored);

  const DatasetInfo& info() const override { return stored_.info; }
  const Format& format() const override { return hdf5::format(); }
  std::string layout() const override;
  int64_t read_scratch_bytes(const local::Region& region) const override;
  void read(const local::Region& region, void* to, std::span<std::byte> scratch) const override;
  int64_t visit_scratch_bytes(const local::Region& region) const override;
  void visit(const local::Region& region, std::span<std::byte> scratch,
             const std::function<void(const Piece&)>& consume) const override;
  int64_t bytes_read() const override { return bytes_read_; }
  int64_t decoded_chunk_bytes() const override { return filtered() && !library_ ? block_bytes_ : 0; }
  void keep_chunks(const std::shared_ptr<CachedChunks>& chunks) override { kept_.attach(chunks); }
  bool goes_through_again() const override { return kept_.go_through_again(); }
  const EncodedChunks* encoded_chunks() const override { return streams_.get(); }
  const StoredDataset& stored() const { return stored_; }

 private:
  using Consume = std::function<void(const Piece&)>;
  class Rows;     // gathers the runs of a direct read
  class Streams;  // for devices

  struct Buffers {  // what the caller's scratch is split into, each aligned for vectors
    std::span<std::byte> stored, block, unshuffle;
  };
  Buffers split(std::span<std::byte> scratch) const;

  const ByteFile& file() const;
  bool filtered() const { return !stored_.info.filters.empty(); }
  int64_t piece_bytes() const;
  int64_t scratch_bytes() const;
  void load(int64_t offset, std::span<std::byte> to) const;
  void decode(const ChunkEntry& entry, const std::byte* bytes, std::span<std::byte> to,
              std::span<std::byte> scratch) const;
  // Throws IoError, which names file, data set and chunk.
  [[noreturn]] void refuse_chunk(int64_t number, const char* reason) const;
  std::unique_ptr<EncodedChunks> make_streams() const;

  // Calls f(part, entry, bytes): entry null where the chunk is missing; bytes as stored, null where `whole` leaves
  // reading to f. Neighbours on disk are read together.
  template <class Whole, class F>
  void for_each_block(const AscendingRegion& region, std::span<std::byte> buffer, Whole&& whole, F&& f) const;
  // The same of filtered chunks: f(part, block), null where the chunk is missing. `place(part)`: where the chunk is to
  // be decoded to, where others do not want it; null: anywhere, which then is block.
  template <class Place, class F>
  void for_each_decoded(const AscendingRegion& region, const Buffers& buffers, Place&& place, F&& f) const;
  // As the index has it. Throws IoError, with names, where a part of the index cannot be read.
  std::optional<ChunkEntry> find(int64_t number) const;
  int64_t block_offset(int64_t number) const;  // in the file; kNoAddress where it is missing

  void visit_direct(const AscendingRegion& region, std::span<std::byte> scratch, const Consume& consume) const;
  void visit_library(const AscendingRegion& region, std::span<std::byte> scratch, const Consume& consume) const;
  void visit_stored(const AscendingRegion& region, const Part& part, int64_t offset, std::span<std::byte> buffer,
                    Piece& piece, const Consume& consume) const;
  void visit_memory(const AscendingRegion& region, const Part& part, const std::byte* block, Piece& piece,
                    const Consume& consume) const;

  void read_library(const AscendingRegion& region, std::byte* to) const;
  void read_rows(const AscendingRegion& region, std::byte* to, std::span<std::byte> scratch) const;
  void read_filtered(const AscendingRegion& region, std::byte* to, std::span<std::byte> scratch) const;
  // Whether the elements of a block follow each other without gaps.
  bool dense() const { return stored_.storage.fields.empty(); }

  const StoredDataset stored_;
  const int64_t item_;
  const bool bools_;
  const local::Dims block_;  // shape of the blocks that the file stores: chunks, or all of it
  const int64_t record_;     // bytes of what the file calls an element
  const local::Dims spans_;  // bytes between neighbours along each axis of a block
  const int64_t block_bytes_;
  const local::Dims no_spans_;  // zeros: every element is the fill value
  const std::string how_;       // it is read, for traces
  std::unique_ptr<LibraryReader> library_;
  std::unique_ptr<EncodedChunks> streams_;
  mutable std::mutex file_mutex_;  // no once_flag: a call_once() that throws never ends under ThreadSanitizer
  mutable std::shared_ptr<const ByteFile> file_;
  mutable std::atomic<int64_t> bytes_read_{0};
  AttachedChunks kept_;
};

}  // namespace quarry::io::hdf5
