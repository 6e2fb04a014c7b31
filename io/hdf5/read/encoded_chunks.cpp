// Compressed chunks, with shuffling below and checksums above compression or without, for devices.
#include <fmt/format.h>

#include <algorithm>

#include "quarry/io/encoded_chunks.h"
#include "quarry/io/hdf5/filters.h"
#include "quarry/io/hdf5/read/hdf5_dataset.h"
#include "quarry/io/storage/trace.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::io::hdf5 {
class Hdf5Dataset::Streams final : public EncodedChunks {
 public:
  Streams(const Hdf5Dataset& dataset, const StreamFilters& filters) : dataset_(dataset) {
    layout_ = {filters.format, dataset.block_bytes_, dataset.stored_.storage.index.largest(), filters.shuffled != 1};
  }

  const Layout& layout() const override { return layout_; }

  std::vector<Part> parts(const local::Region& region) const override {
    return parts_of(region, dataset_.stored_.info.shape, dataset_.block_);
  }

  Stored read(int64_t number, std::span<std::byte> room) const override {
    const std::optional<ChunkEntry> entry = dataset_.find(number);
    const std::span<std::byte> chunk = room.first(static_cast<size_t>(layout_.chunk_bytes));
    if (!entry) {
      fill_chunk(chunk, dataset_.stored_.storage.fill);
      return {chunk, false};
    }
    if (const auto kept = dataset_.kept_.get()) kept->note_read(number, entry->bytes);
    if (entry->mask != 0) {  // some of the filters were not applied
      const std::span<std::byte> scratch = room.last(static_cast<size_t>(scratch_bytes()));
      const std::span<std::byte> stored = scratch.first(entry->bytes);
      dataset_.load(entry->address, stored);
      dataset_.decode(*entry, stored.data(), chunk,
                      scratch.subspan(static_cast<size_t>(aligned(layout_.stored_bytes))));
      return {chunk, false};
    }
    const std::span<std::byte> stored = room.first(entry->bytes);
    dataset_.load(entry->address, stored);
    try {
      return {without_checksums(dataset_.stored_.info.filters, stored), true};
    } catch (const local::IoError& error) {
      dataset_.refuse_chunk(number, error.what());
    }
  }

  void refuse(int64_t number, local::StreamStatus status) const override {
    dataset_.refuse_chunk(number, reason_of(layout_.format, status).c_str());
  }

 private:
  static int64_t aligned(int64_t bytes) { return local::align_up(bytes, local::kAllocationAlignment); }
  int64_t scratch_bytes() const override {
    return aligned(layout_.stored_bytes) + decode_scratch_bytes(dataset_.stored_.info.filters, layout_.chunk_bytes);
  }

  const Hdf5Dataset& dataset_;
  Layout layout_;
};

std::unique_ptr<EncodedChunks> Hdf5Dataset::make_streams() const {
  const Storage& storage = stored_.storage;
  const bool plain = dense() && storage.bits.precision == 0 && storage.array_axes == 0 && record_ == item_ && !bools_;
  if (storage.kind != Storage::Kind::chunked || library_ || !plain) return nullptr;
  const std::optional<StreamFilters> filters = stream_filters(stored_.info.filters, record_);
  if (!filters || (filters->shuffled != 1 && filters->shuffled != item_)) return nullptr;
  return std::make_unique<Streams>(*this, *filters);
}

}  // namespace quarry::io::hdf5
