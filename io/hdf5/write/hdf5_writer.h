// Writing chunks of a dataset that exists already, at their offsets.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/format.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/io/hdf5/write/index_writer.h"
#include "quarry/io/output.h"

namespace quarry::io::hdf5 {

// What the serialized layout of a writer begins with.
enum class WriterKind : uint8_t { created, change };

class Hdf5Writer final : public Writer {
 public:
  // `stored` describes what was created, at its place while it is written; `name` is the file as the user named it;
  // `places`: the index of chunks will be made of where they are; `index`: such that all ranks can write it.
  Hdf5Writer(OutputSpec spec, StoredDataset stored, std::string name, bool places, std::optional<NewIndex> index = {});

  const OutputSpec& spec() const override { return spec_; }
  const Format& format() const override { return hdf5::format(); }
  std::string layout() const override;
  void write(const local::Region& region, const void* from) override;
  using Writer::encode;
  std::span<const std::byte> encode(const local::Dims& chunk, const void* from, const local::Dims& strides,
                                    const local::Dims& count, std::span<std::byte> scratch) const override;
  int64_t encode_scratch_bytes() const override;
  bool places_chunks() const override { return places_; }
  uint32_t checksum_written(const local::Region& region) const override;
  uint32_t checksum_written(const PlacedChunk& placed) const override;
  PlacedChunk place(const local::Dims& chunk, int64_t offset, std::span<const std::byte> bytes) override;
  int64_t index_node_chunks() const override { return index_ ? node_chunks(*index_) : 0; }
  std::vector<PlacedChunk> write_index(int64_t at, std::span<const PlacedChunk> chunks,
                                       const PlacedChunk* next) override;
  const std::optional<NewIndex>& index() const { return index_; }
  void sync() const override;
  int64_t bytes_written() const override { return bytes_written_; }
  // Of a chunk that the library stored.
  void count_written(int64_t bytes) { bytes_written_ += bytes; }

 private:
  const ByteFile& file() const;
  int64_t chunk_bytes() const;

  const OutputSpec spec_;
  const StoredDataset stored_;
  const std::string name_;
  const bool places_;
  const std::optional<NewIndex> index_;
  mutable std::mutex file_mutex_;
  mutable std::unique_ptr<ByteFile> file_;
  std::atomic<int64_t> bytes_written_{0};
};

}  // namespace quarry::io::hdf5
