// Writing elements of a data set that exists: at once where the file is not read yet, else into the journal of the
// change.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "quarry/io/hdf5/format.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/io/hdf5/write/hdf5_writer.h"
#include "quarry/io/output.h"

namespace quarry::io::hdf5 {

// How one data set is changed.
struct ChangePlan {
  StoredDataset before;  // as it is
  // As it will be. Where elements are written by offset, every chunk that they touch has its place.
  StoredDataset after;
  bool encodes = false;                       // filtered: whole chunks are encoded and placed
  std::optional<local::Region> waiting = {};  // elements that go to the journal, by `after`
  int64_t waiting_at = 0;                     // in it
  std::string journal = {};
  std::string name = {};  // of the file as the user gave it
};

class ChangeWriter final : public Writer {
 public:
  explicit ChangeWriter(ChangePlan plan);

  const OutputSpec& spec() const override { return spec_; }
  const Format& format() const override { return hdf5::format(); }
  std::string layout() const override;
  // Regions of the data set as it will be, inside of what is changed.
  void write(const local::Region& region, const void* from) override;
  using Writer::encode;
  std::span<const std::byte> encode(const local::Dims& chunk, const void* from, const local::Dims& strides,
                                    const local::Dims& count, std::span<std::byte> scratch) const override;
  std::span<const std::byte> encode_part(const local::Dims& chunk, const local::Dims& start, const void* from,
                                         const local::Dims& strides, const local::Dims& count,
                                         std::span<std::byte> scratch) const override;
  int64_t encode_scratch_bytes() const override;
  bool places_chunks() const override { return plan_.encodes; }
  PlacedChunk place(const local::Dims& chunk, int64_t offset, std::span<const std::byte> bytes) override;
  void sync() const override;
  int64_t bytes_written() const override;

 private:
  const ChangePlan plan_;
  const OutputSpec spec_;
  std::unique_ptr<Hdf5Writer> file_;     // null where all elements wait
  std::unique_ptr<Hdf5Writer> waiting_;  // null where none does
  std::shared_ptr<Dataset> old_;         // encoding: what is there
};

// What ChangeWriter::layout() gave, without its first byte.
std::shared_ptr<Writer> change_writer_of(ByteReader& in);

}  // namespace quarry::io::hdf5
