// Writing a created data set at its file offsets.
#include "quarry/io/hdf5/write/hdf5_writer.h"

#include <fmt/format.h>

#include <memory>

#include "quarry/io/hdf5/filters.h"
#include "quarry/io/hdf5/write/change_writer.h"
#include "quarry/io/storage/inflate.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/io/storage/strided.h"
#include "quarry/io/storage/trace.h"
#include "quarry/local/base/log.h"

namespace quarry::io {
namespace hdf5 {

using local::Dims;

Hdf5Writer::Hdf5Writer(OutputSpec spec, StoredDataset stored, std::string name, bool places,
                       std::optional<NewIndex> index)
    : spec_(std::move(spec)),
      stored_(std::move(stored)),
      name_(std::move(name)),
      places_(places),
      index_(std::move(index)) {
  if (!spec_.filters.empty() && !places_) return;
  // Now, while it has its name: discard_partial_files() may take that. An error is one of the first write.
  try {
    file();
  } catch (const local::IoError& error) {
    local::log(local::LogLevel::debug, error.what());
  }
}

std::string Hdf5Writer::layout() const {
  // The specification travels as the description of what was created, under the name the user gave.
  StoredDataset named = stored_;
  named.info.object = spec_.object;
  named.info.attributes = spec_.attributes;
  ByteWriter out;
  out.put(WriterKind::created);
  hdf5::serialize(named, out);
  out.put_string(name_);
  out.put(places_);
  out.put(index_.has_value());
  if (index_) hdf5::serialize(*index_, out);
  return out.take();
}

const ByteFile& Hdf5Writer::file() const {
  const std::lock_guard lock(file_mutex_);
  if (!file_) file_ = std::make_unique<ByteFile>(stored_.info.file, ByteFile::Mode::write);
  return *file_;
}

void Hdf5Writer::write(const local::Region& region, const void* from) {
  const DatasetInfo& info = stored_.info;
  const AscendingRegion ascending(region, info.shape);
  if (ascending.empty()) return;
  if (!info.filters.empty()) throw local::InvalidArgument(fmt::format("'{}' is filtered: encode it", spec_.object));
  QUARRY_CHECK(ascending.unit_steps() && !ascending.flipped());
  const int64_t item = local::itemsize(info.dtype), bytes = region.elements() * item;
  const TraceCall traced("write", "write", spec_.object, region.start, bytes, "direct");
  const Dims block = info.chunks ? *info.chunks : info.shape;
  try {
    Runs runs(file());
    PartCursor cursor(ascending, info.shape, block);
    for (Part part; cursor.next(part);) {
      int64_t offset = stored_.storage.offset;
      if (info.chunks) {
        const std::optional<ChunkEntry> entry = stored_.storage.index.find(part.number);
        QUARRY_CHECK(entry);  // allocated early
        offset = entry->address;
      }
      add_part(runs, part, offset, block, region.count, item, static_cast<const std::byte*>(from));
    }
    runs.flush();
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("writing '{}' to '{}': {}", spec_.object, name_, error.what()));
  }
  bytes_written_ += bytes;
}

int64_t Hdf5Writer::chunk_bytes() const {
  return local::element_count(*stored_.info.chunks) * local::itemsize(stored_.info.dtype);
}

int64_t Hdf5Writer::encode_scratch_bytes() const {
  return stored_.info.filters.empty()
             ? 0
             : hdf5::encode_scratch_bytes(stored_.info.filters, local::itemsize(stored_.info.dtype), chunk_bytes());
}

std::span<const std::byte> Hdf5Writer::encode(const Dims& chunk, const void* from, const Dims& strides,
                                              const Dims& count, std::span<std::byte> scratch) const {
  const DatasetInfo& info = stored_.info;
  QUARRY_CHECK(info.chunks && chunk.size() == info.shape.size() && count.size() == info.shape.size());
  QUARRY_CHECK(static_cast<int64_t>(scratch.size()) >= encode_scratch_bytes());
  for (int d = 0; d < count.size(); ++d) QUARRY_CHECK(count[d] >= 0 && count[d] <= (*info.chunks)[d]);
  const int64_t item = local::itemsize(info.dtype), bytes = chunk_bytes();
  if (count != *info.chunks) std::memset(scratch.data(), 0, static_cast<size_t>(bytes));
  copy_box(count, item, static_cast<const std::byte*>(from), strides, scratch.data(),
           local::contiguous_strides(*info.chunks, item));
  return encode_chunk(info.filters, item, bytes, scratch);
}

PlacedChunk Hdf5Writer::place(const Dims& chunk, int64_t offset, std::span<const std::byte> bytes) {
  QUARRY_CHECK(places_);
  const Dims grid = chunk_grid(stored_.info.shape, *stored_.info.chunks);
  const PlacedChunk placed{dot(chunk, local::contiguous_strides(grid, 1)), offset, std::ssize(bytes)};
  const TraceCall traced("write", "write", spec_.object, chunk, placed.bytes, "encoded");
  try {
    file().write_at(offset, bytes);
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("writing '{}' to '{}': {}", spec_.object, name_, error.what()));
  }
  bytes_written_ += placed.bytes;
  return placed;
}

std::vector<PlacedChunk> Hdf5Writer::write_index(int64_t at, std::span<const PlacedChunk> chunks,
                                                 const PlacedChunk* next) {
  QUARRY_CHECK(index_);
  if (chunks.empty()) return {};
  const DatasetInfo& info = stored_.info;
  const int64_t every = local::element_count(chunk_grid(info.shape, *info.chunks));
  MetadataTarget target(file());
  try {
    return index_writer(*index_, info.shape, local::itemsize(info.dtype), every, at)
        ->write_nodes(target, chunks[0].number, chunks, next);
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("writing '{}' to '{}': {}", spec_.object, name_, error.what()));
  }
}

uint32_t Hdf5Writer::checksum_written(const local::Region& region) const {
  const std::shared_ptr<Dataset> written = dataset_of(stored_);
  std::vector<std::byte> bytes(static_cast<size_t>(region.elements() * local::itemsize(stored_.info.dtype)));
  std::vector<std::byte> scratch(static_cast<size_t>(written->read_scratch_bytes(region)));
  written->read(region, bytes.data(), scratch);
  return io::checksum(0, bytes);
}

uint32_t Hdf5Writer::checksum_written(const PlacedChunk& placed) const {
  std::vector<std::byte> bytes(static_cast<size_t>(placed.bytes));
  file().read_at(placed.offset, bytes);
  return io::checksum(0, bytes);
}

void Hdf5Writer::sync() const {
  try {
    file().sync();
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("writing '{}' to '{}': {}", spec_.object, name_, error.what()));
  }
}

std::shared_ptr<Writer> writer_of(const std::string& layout) {
  ByteReader in(layout);
  if (in.get<WriterKind>() == WriterKind::change) return change_writer_of(in);
  StoredDataset stored = deserialize(in);
  std::string name = in.get_string();
  const auto places = in.get<bool>();
  std::optional<NewIndex> index;
  if (in.get<bool>()) index = deserialize_new_index(in);
  const DatasetInfo& info = stored.info;
  OutputSpec spec{info.object, info.shape, info.dtype, info.chunks, info.filters, info.attributes};
  return std::make_shared<Hdf5Writer>(std::move(spec), std::move(stored), std::move(name), places, std::move(index));
}

}  // namespace hdf5
}  // namespace quarry::io
