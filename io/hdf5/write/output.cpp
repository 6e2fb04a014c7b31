// Creating files and data sets, and making them visible as a whole.
//
// All is written to a Replacement, NAME.partial, which begins as a copy of the file where there is one and takes its
// place at commit (docs/adr/0006). The library has the file open only while data sets are created (create.h). Encoded
// chunks go behind what it wrote, and their indexes behind them (metadata.h, docs/adr/0026); only in files whose free
// space is managed the library stores them. Until then the file's signature says that it is unfinished.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>

#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/parse/file.h"
#include "quarry/io/hdf5/parse/signature.h"
#include "quarry/io/hdf5/process/library_process.h"
#include "quarry/io/hdf5/write/create.h"
#include "quarry/io/hdf5/write/hdf5_writer.h"
#include "quarry/io/hdf5/write/metadata.h"
#include "quarry/io/hdf5/write/scales.h"
#include "quarry/io/storage/objects.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/base/trace.h"

namespace quarry::io {
namespace hdf5 {
namespace {

using local::Dims;

constexpr int64_t kMetadataAlignment = 8;

// The specification as it will be created. Throws InvalidArgument for what cannot be.
OutputSpec checked_spec(OutputSpec spec) {
  spec.object = normalized_object(spec.object);
  const auto fail = [&](const std::string& reason) {
    throw local::InvalidArgument(fmt::format("cannot create '{}': {}", spec.object, reason));
  };
  if (spec.is_group) {
    OutputSpec group;
    group.object = spec.object;
    group.attributes = spec.attributes;
    group.is_group = true;
    return group;
  }
  if (spec.object == "/") fail("a data set needs a name");
  if (spec.text) {
    if (!spec.text->is_bytes && spec.text->value.find('\0') != std::string::npos)
      fail("a string of HDF5 ends at a zero character, which this one holds");
    spec.shape = {};
    spec.dtype = local::DType::uint8;
  }
  for (int64_t extent : spec.shape)
    if (extent < 0) fail(fmt::format("the shape {} has a negative extent", local::to_string(spec.shape)));
  const int64_t item = local::itemsize(spec.dtype);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(local::element_count(spec.shape), item, &bytes))
    fail(fmt::format("the shape {} is more bytes than 64 bits count", local::to_string(spec.shape)));
  for (const int axis : spec.unlimited)
    if (axis < 0 || axis >= spec.shape.size())
      fail(fmt::format("the shape {} has no axis {} that could grow", local::to_string(spec.shape), axis));
  check_dims(spec);
  if (spec.shape.empty()) {
    spec.chunks.reset();
    spec.filters.clear();
    return spec;
  }
  for (const Filter& filter : spec.filters)
    if (const FilterKind* const kind = find_kind(filter.kind); !kind || !kind->written)
      fail(fmt::format("filter {} cannot be written", filter.name));
  if (!spec.chunks) {
    if (!spec.filters.empty()) fail("filters need chunks");
    if (!spec.unlimited.empty()) fail("axes that can grow need chunks");
    return spec;
  }
  if (spec.chunks->size() != spec.shape.size())
    fail(
        fmt::format("chunks {} do not fit the shape {}", local::to_string(*spec.chunks), local::to_string(spec.shape)));
  int64_t chunk_bytes = item;
  for (int d = 0; d < spec.shape.size(); ++d) {
    int64_t& extent = (*spec.chunks)[d];
    if (extent <= 0) fail(fmt::format("chunks {} are not positive", local::to_string(*spec.chunks)));
    if (std::ranges::find(spec.unlimited, d) == spec.unlimited.end())
      extent = std::min(extent, std::max<int64_t>(spec.shape[d], 1));
    if (__builtin_mul_overflow(chunk_bytes, extent, &chunk_bytes) || chunk_bytes > int64_t{UINT32_MAX})
      fail(fmt::format("chunks {} of {} have 4 GiB or more", local::to_string(*spec.chunks), local::name(spec.dtype)));
  }
  return spec;
}

class Hdf5Output final : public OutputFile {
 public:
  Hdf5Output(std::string file, std::vector<OutputSpec> specs, bool overwrite) : file_(std::move(file)) {
    for (OutputSpec& spec : specs) specs_.push_back(checked_spec(std::move(spec)));
    check_paths(specs_);
    check_targets(overwrite);
    place_.emplace(file_, unfiltered_bytes(specs_));
    create_all(overwrite);
    bytes_.emplace(place_->path(), ByteFile::Mode::write);
    const auto opened = MetadataFile::open(place_->path());
    prepare_places(opened);
    for (size_t i = 0; i < specs_.size(); ++i) locate(opened, i);
    mark(FileState::unfinished);
  }

  // Goes on with one that was kept.
  Hdf5Output(const std::string& file, ByteReader kept) : file_(file) {
    place_.emplace(file_, kept.get_string());
    bytes_.emplace(place_->path(), ByteFile::Mode::write);
    mark(FileState::unfinished);  // it may have been about to be committed
    places_ = kept.get<bool>();
    placed_begin_ = kept.get<int64_t>();
    end_ = placed_begin_;
    const auto count = kept.get<int64_t>();
    placed_.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      writers_.push_back(std::static_pointer_cast<Hdf5Writer>(writer_of(kept.get_string())));
      specs_.push_back(writers_.back()->spec());
      indexes_.push_back(writers_.back()->index());
    }
  }

  std::string keep() override {
    for (const OutputSpec& spec : specs_)
      if (spec.text || spec.is_group || (!places_ && !spec.filters.empty()))
        throw local::NotSupported(
            fmt::format("writing '{}' cannot be resumed: the HDF5 library must write '{}' itself", file_, spec.object));
    place_->keep();
    place_->sync();
    ByteWriter out;
    out.put_string(place_->state());
    out.put(places_);
    out.put(placed_begin_);
    out.put<int64_t>(std::ssize(specs_));
    for (const auto& writer : writers_) out.put_string(writer->layout());
    return out.take();
  }

  std::shared_ptr<Writer> writer(size_t index) override { return writers_.at(index); }

  void write_encoded(size_t index, const Dims& chunk, std::span<const std::byte> bytes) override {
    const OutputSpec& spec = specs_.at(index);
    if (places_) {
      const PlacedChunk placed = writers_[index]->place(chunk, reserve(std::ssize(bytes)), bytes);
      return add_placed(index, std::span(&placed, 1));
    }
    const int64_t begin_ns = local::tracing() ? local::trace_clock_ns() : 0;
    store_chunk(index, chunk, bytes);
    writers_[index]->count_written(static_cast<int64_t>(bytes.size()));
    if (!local::tracing()) return;
    local::TraceEvent event;
    event.name = fmt::format("write {}{}", spec.object, local::to_string(chunk));
    event.track = "write";
    event.begin_ns = begin_ns;
    event.end_ns = local::trace_clock_ns();
    event.bytes = static_cast<int64_t>(bytes.size());
    event.detail = "library: one writer registers encoded chunks";
    local::trace(std::move(event));
  }

  int64_t reserve(int64_t bytes) override {
    QUARRY_CHECK(places_ && bytes >= 0);
    return end_.fetch_add(bytes);
  }

  void add_placed(size_t index, std::span<const PlacedChunk> chunks) override {
    const std::lock_guard lock(placed_mutex_);
    std::vector<PlacedChunk>& placed = placed_.at(index);
    placed.insert(placed.end(), chunks.begin(), chunks.end());
    // Those of a run that is resumed come before others are reserved.
    for (const PlacedChunk& chunk : chunks) end_ = std::max(end_.load(), chunk.offset + chunk.bytes);
  }

  int64_t reserve_index(size_t index, int64_t end) override {
    const int64_t at = local::align_up(std::max(end, end_of_placed()), kMetadataAlignment);
    indexed_end_ = index_writer_at(index, at)->end();
    made_at_.resize(specs_.size());
    made_at_[index] = at;
    return at;
  }

  void finish_index(size_t index, std::vector<PlacedChunk> nodes) override {
    MetadataTarget file(*bytes_);
    name_index(file, *indexes_[index], index_writer_at(index, made_at_[index])->finish(file, std::move(nodes)));
  }

  void commit() override {
    if (stores_) call_library(LibraryCall::finish, {}, fmt::format("cannot write '{}'", file_));
    if (places_) index_placed();
    place_->sync();  // no signature before everything else is there
    mark(FileState::whole);
    try {
      place_->commit();
    } catch (...) {  // interrupted, or the file that it was to replace is another one
      mark(FileState::unfinished);
      throw;
    }
  }

 private:
  // What is in a file that is there, others may have written.
  void create_all(bool overwrite) {
    const Creation creation{place_->path(), file_, place_->fresh(), overwrite, specs_};
    if (creation.fresh) return create_objects(creation);
    ByteWriter request;
    serialize(creation, request);
    call_library(LibraryCall::create, request.take(), fmt::format("cannot write '{}'", file_));
  }

  // Before an existing file is copied.
  void check_targets(bool overwrite) const {
    if (::access(file_.c_str(), F_OK) != 0) return;
    const auto opened = MetadataFile::open(file_);
    for (const OutputSpec& spec : specs_) check_target(opened, spec, overwrite);
  }

  void check_target(const std::shared_ptr<const MetadataFile>& opened, const OutputSpec& spec, bool overwrite) const {
    const std::string& object = spec.object;
    const bool is_group = spec.is_group;
    if (object == "/") return;
    for (size_t end = 1; end < object.size();) {
      end = std::min(object.find('/', end + 1), object.size());
      const std::string head = object.substr(0, end);
      const Found found = find_object(opened, head);
      if (found.state == Found::State::missing) return;
      const bool leads_to_group = found.state == Found::State::found && found.object.kind == Object::Kind::group;
      if (end < object.size()) {
        if (leads_to_group) continue;
        throw local::InvalidArgument(fmt::format("cannot create '{}' in '{}': '{}' is no group", object, file_, head));
      }
      if (is_group && leads_to_group) return;
      if (is_group)
        throw local::InvalidArgument(fmt::format("cannot create '{}' in '{}': it is no group", object, file_));
      if (leads_to_group)
        throw local::InvalidArgument(fmt::format("'{}' in '{}' is a group; it is not replaced", object, file_));
      if (!overwrite)
        throw local::InvalidArgument(
            fmt::format("'{}' exists in '{}'; it is replaced only with overwrite", object, file_));
    }
  }

  // Finds where a created data set lies. Space that the library reused is cleared: padding must not show old data.
  void locate(const std::shared_ptr<const MetadataFile>& opened, size_t index) {
    const OutputSpec& spec = specs_[index];
    if (spec.text || spec.is_group) {
      writers_.push_back(nullptr);
      return;
    }
    StoredDataset stored = describe_dataset(opened, spec.object);
    if (spec.filters.empty() && !stored.info.direct)
      throw local::IoError(
          fmt::format("cannot write '{}' to '{}' by offset: {}", spec.object, file_, stored.info.library_reason));
    if (spec.filters.empty() && !place_->fresh()) clear_reused(stored, place_->copied_bytes());
    writers_.push_back(
        std::make_shared<Hdf5Writer>(spec, std::move(stored), file_, places_ && indexes_[index], indexes_[index]));
  }

  void clear_reused(const StoredDataset& stored, int64_t old_bytes) const {
    const auto clear = [&](int64_t offset, int64_t bytes) {
      bytes = std::min(bytes, old_bytes - offset);
      const std::vector<std::byte> zeros(static_cast<size_t>(std::clamp<int64_t>(bytes, 0, 1 << 20)));
      for (int64_t done = 0; done < bytes; done += static_cast<int64_t>(zeros.size()))
        bytes_->write_at(offset + done, std::span(zeros).first(static_cast<size_t>(
                                            std::min<int64_t>(static_cast<int64_t>(zeros.size()), bytes - done))));
    };
    if (stored.storage.kind == Storage::Kind::contiguous && stored.storage.offset != kNoAddress)
      clear(stored.storage.offset, stored.info.stored_bytes);
    stored.storage.index.for_each([&](const ChunkEntry& entry) { clear(entry.address, entry.bytes); });
  }

  // Where encoded chunks may be put, and what their indexes will need; `places_` stays false where the library must
  // store them.
  void prepare_places(const std::shared_ptr<const MetadataFile>& opened) {
    const ByteFile& file = *bytes_;
    indexes_.resize(specs_.size());
    places_ = ends_where_it_says(file, opened->metadata.format());
    for (size_t i = 0; i < specs_.size() && places_; ++i) {
      if (specs_[i].filters.empty()) continue;
      const Found found = find_object(opened, specs_[i].object);
      QUARRY_CHECK(found.state == Found::State::found);
      indexes_[i] = describe_new_index(opened->metadata, found.object.header);
      places_ = indexes_[i].has_value();
    }
    placed_.resize(specs_.size());
    end_ = placed_begin_ = file.size();
  }

  std::unique_ptr<IndexWriter> index_writer_at(size_t index, int64_t at) const {
    const OutputSpec& spec = specs_[index];
    const int64_t every = local::element_count(chunk_grid(spec.shape, *spec.chunks));
    return index_writer(*indexes_[index], spec.shape, local::itemsize(spec.dtype), every, at);
  }

  // Behind the chunks that this process knows, and the indexes that are there.
  int64_t end_of_placed() const {
    int64_t end = std::max(placed_begin_, indexed_end_);
    for (const std::vector<PlacedChunk>& chunks : placed_)
      for (const PlacedChunk& chunk : chunks) end = std::max(end, chunk.offset + chunk.bytes);
    return end;
  }

  void index_placed() {
    for (std::vector<PlacedChunk>& chunks : placed_) keep_last_of_each(chunks);
    int64_t end = end_of_placed();
    if (end == placed_begin_) return;
    MetadataTarget file(*bytes_);
    for (size_t i = 0; i < placed_.size(); ++i) {
      if (!indexes_[i] || placed_[i].empty()) continue;
      end = index_chunks(file, *indexes_[i], specs_[i].shape, local::itemsize(specs_[i].dtype), placed_[i],
                         local::align_up(end, kMetadataAlignment));
    }
    bytes_->resize(end);
    for (const std::optional<NewIndex>& index : indexes_) {
      if (!index) continue;
      set_end(file, index->format, end);
      return;
    }
  }

  void mark(FileState state) const {
    std::optional<Signature> signature = find_signature(*bytes_);
    QUARRY_CHECK(signature);
    signature->state = state;
    put_signature(*bytes_, *signature);
  }

  // By the library, of which the process has the file open until it is committed.
  void store_chunk(size_t index, const Dims& chunk, std::span<const std::byte> bytes) {
    const OutputSpec& spec = specs_[index];
    QUARRY_CHECK(spec.chunks && chunk.size() == spec.shape.size());
    Dims origin = chunk;
    for (int d = 0; d < chunk.size(); ++d) origin[d] *= (*spec.chunks)[d];
    LibrarySession session(fmt::format("writing '{}' to '{}'", spec.object, file_));
    if (!std::exchange(stores_, true)) mark(FileState::whole);  // else the library does not open it
    const int64_t total = std::ssize(bytes);
    do {  // by what the shared memory holds
      const auto part = bytes.first(std::min(bytes.size(), session.half(0).size()));
      std::ranges::copy(part, session.half(0).begin());
      bytes = bytes.subspan(part.size());
      ByteWriter request;
      request.put_string(place_->path());
      request.put_string(file_);
      request.put_string(spec.object);
      request.put_dims(origin);
      request.put(total);
      request.put<int64_t>(std::ssize(part));
      session.send(LibraryCall::store_chunk, request.take());
      session.receive();
    } while (!bytes.empty());
  }

  const std::string file_;
  std::optional<Replacement> place_;  // the file that is written; closed by the library before it goes
  std::optional<ByteFile> bytes_;     // the same, whether it keeps its name or not
  std::vector<OutputSpec> specs_;
  std::vector<std::shared_ptr<Hdf5Writer>> writers_;
  // Encoded chunks: placed, or stored by the library.
  bool places_ = false;
  std::vector<std::optional<NewIndex>> indexes_;  // none of data sets that are not filtered
  int64_t placed_begin_ = 0;
  std::atomic<int64_t> end_{0};  // of the room that is reserved
  std::mutex placed_mutex_;
  std::vector<std::vector<PlacedChunk>> placed_;
  // Of indexes that were not made of placed_.
  std::vector<int64_t> made_at_;
  int64_t indexed_end_ = 0;
  bool stores_ = false;  // the library has stored chunks; guarded by its session
};

}  // namespace

std::unique_ptr<OutputFile> create_output(const std::string& file, std::vector<OutputSpec> specs, bool overwrite) {
  return std::make_unique<Hdf5Output>(file, std::move(specs), overwrite);
}

std::unique_ptr<OutputFile> resume_output(const std::string& file, const std::string& kept) {
  return std::make_unique<Hdf5Output>(file, ByteReader(kept));
}

}  // namespace hdf5
}  // namespace quarry::io
