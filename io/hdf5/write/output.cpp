// Creating files and data sets, and making them visible as a whole.
//
// All is written to a Replacement, NAME.partial, which begins as a copy of the file where there is one and takes its
// place at commit (docs/adr/0006). The library has the file open only while data sets are created. Encoded chunks go
// behind what it wrote, and their indexes behind them (metadata.h, docs/adr/0026); only in files whose free space is
// managed the library stores them. Until then the file's signature says that it is unfinished.
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
#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/parse/signature.h"
#include "quarry/io/hdf5/types.h"
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

// Data of at least this size begins at a page of the file: reads and writes then touch no page twice.
constexpr hsize_t kAlignedBytes = 64 << 10, kPageBytes = 4096;
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

// h5py's types of str and of bytes.
Handle text_type(const OutputText& text) {
  Handle type = check_handle(H5Tcopy(H5T_C_S1), "string type");
  if (text.is_bytes) {
    check_call(H5Tset_size(type, std::max<size_t>(text.value.size(), 1)), "string type");
    check_call(H5Tset_strpad(type, H5T_STR_NULLPAD), "string type");
  } else {
    check_call(H5Tset_size(type, H5T_VARIABLE), "string type");
    check_call(H5Tset_cset(type, H5T_CSET_UTF8), "string type");
  }
  return type;
}

void write_text(hid_t dataset, hid_t type, const OutputText& text, const std::string& context) {
  const char* const pointer = text.value.c_str();  // ends with a zero, which is the value of no bytes
  check_call(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                      text.is_bytes ? static_cast<const void*>(pointer) : static_cast<const void*>(&pointer)),
             context);
}

Handle create_dataset(hid_t parent, const std::string& path, const OutputSpec& spec) {
  const std::string context = fmt::format("cannot create '{}'", spec.object);
  const Handle type = spec.text ? text_type(*spec.text) : memory_type(spec.dtype);
  hsize_t extents[local::kMaxDims], limits[local::kMaxDims], chunk[local::kMaxDims];
  const int rank = spec.shape.size();
  for (int d = 0; d < rank; ++d) extents[d] = limits[d] = static_cast<hsize_t>(spec.shape[d]);
  for (const int axis : spec.unlimited) limits[axis] = H5S_UNLIMITED;
  const Handle space =
      check_handle(rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, extents, limits), context);
  const Handle create = check_handle(H5Pcreate(H5P_DATASET_CREATE), context);
  // The library writes text itself.
  if (!spec.text) check_call(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER), context);
  check_call(H5Pset_obj_track_times(create, false), context);
  if (!spec.text)
    check_call(H5Pset_alloc_time(create, spec.filters.empty() ? H5D_ALLOC_TIME_EARLY : H5D_ALLOC_TIME_INCR), context);
  if (spec.chunks) {
    for (int d = 0; d < rank; ++d) chunk[d] = static_cast<hsize_t>((*spec.chunks)[d]);
    check_call(H5Pset_chunk(create, rank, chunk), context);
  }
  for (const Filter& filter : spec.filters) {
    if (filter.kind == Filter::Kind::shuffle) {
      check_call(H5Pset_shuffle(create), context);
    } else if (filter.kind == Filter::Kind::fletcher32) {
      check_call(H5Pset_fletcher32(create), context);
    } else {
      const int64_t item = local::itemsize(spec.dtype), bytes = local::element_count(*spec.chunks) * item;
      const Codec* const codec = find_codec(filter.kind);
      const auto values = codec->values(filter, item, bytes);
      check_call(H5Pset_filter(create, codec->id, H5Z_FLAG_MANDATORY, values.size(), values.data()), context);
    }
  }
  const Handle links = check_handle(H5Pcreate(H5P_LINK_CREATE), context);
  check_call(H5Pset_create_intermediate_group(links, 1), context);
  Handle dataset = check_handle(H5Dcreate2(parent, path.c_str(), type, space, links, create, H5P_DEFAULT), context);
  if (spec.text) write_text(dataset, type, *spec.text, context);
  write_attributes(dataset, spec.attributes);
  if (spec.fill_value) {
    constexpr hsize_t kOne = 1;
    std::array<std::byte, 16> value{};
    spec.fill_value->store(spec.dtype, value.data());
    const Handle one = check_handle(H5Screate_simple(1, &kOne, nullptr), context);
    const Handle attribute =
        check_handle(H5Acreate2(dataset, "_FillValue", type, one, H5P_DEFAULT, H5P_DEFAULT), context);
    check_call(H5Awrite(attribute, type, value.data()), context);
  }
  return dataset;
}

class Hdf5Output final : public OutputFile {
 public:
  Hdf5Output(std::string file, std::vector<OutputSpec> specs, bool overwrite)
      : file_(std::move(file)), overwrite_(overwrite) {
    for (OutputSpec& spec : specs) specs_.push_back(checked_spec(std::move(spec)));
    check_paths(specs_);
    const LibraryLock lock;
    check_targets(overwrite);
    place_.emplace(file_, unfiltered_bytes(specs_));
    create_all();
    bytes_.emplace(place_->path(), ByteFile::Mode::write);
    prepare_places();
    for (size_t i = 0; i < specs_.size(); ++i) locate(i);
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
      indexes_.emplace_back();
      if (kept.get<bool>()) indexes_.back() = deserialize_new_index(kept);
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
    for (size_t i = 0; i < specs_.size(); ++i) {
      out.put_string(writers_[i]->layout());
      out.put(indexes_[i].has_value());
      if (indexes_[i]) serialize(*indexes_[i], out);
    }
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
    {
      const LibraryLock lock;
      open_for_chunks(index);
      hsize_t origin[local::kMaxDims];
      QUARRY_CHECK(spec.chunks && chunk.size() == spec.shape.size());
      for (int d = 0; d < chunk.size(); ++d)
        origin[d] = static_cast<hsize_t>(chunk[d]) * static_cast<hsize_t>((*spec.chunks)[d]);
      check_call(H5Dwrite_chunk(datasets_[index], H5P_DEFAULT, /*filters=*/0, origin, bytes.size(), bytes.data()),
                 fmt::format("writing '{}' to '{}'", spec.object, file_));
    }
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

  void commit() override {
    {
      const LibraryLock lock;
      datasets_.clear();
      if (opened_) close_file(opened_);
    }
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
  // Before an existing file is copied.
  void check_targets(bool overwrite) const {
    if (::access(file_.c_str(), F_OK) != 0) return;
    const Handle opened = open_file(file_, H5F_ACC_RDONLY);
    for (const OutputSpec& spec : specs_) check_target(opened, spec, overwrite);
  }

  void create_all() {
    Handle opened;
    if (place_->fresh()) {
      const Handle access = file_access();
      check_call(H5Pset_alignment(access, kAlignedBytes, kPageBytes), "alignment");
      opened = check_handle(H5Fcreate(place_->path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access),
                            fmt::format("cannot create '{}'", file_));
    } else {
      opened = open_file(place_->path(), H5F_ACC_RDWR);
    }
    for (const OutputSpec& spec : specs_) {
      if (spec.is_group) {
        create_group(opened, spec);
        continue;
      }
      if (!place_->fresh() && object_exists(opened, spec.object)) {
        detach_scales(opened, spec.object);
        check_call(H5Ldelete(opened, spec.object.c_str(), H5P_DEFAULT),
                   fmt::format("cannot replace '{}' in '{}'", spec.object, file_));
      }
      create_dataset(opened, spec.object, spec);
    }
    attach_scales(opened, specs_);
    close_file(opened);
  }

  void close_file(Handle& opened) {
    H5Fflush(opened, H5F_SCOPE_GLOBAL);
    std::string reason = library_error();
    if (!opened.reset()) throw local::IoError(fmt::format("cannot write '{}': {}", file_, reason));
  }

  // Attributes that are there stay, unless they are to be replaced.
  void create_group(hid_t opened, const OutputSpec& spec) const {
    const std::string context = fmt::format("cannot create '{}' in '{}'", spec.object, file_);
    const Handle links = check_handle(H5Pcreate(H5P_LINK_CREATE), context);
    check_call(H5Pset_create_intermediate_group(links, 1), context);
    const bool is_there = spec.object == "/" || object_exists(opened, spec.object);
    const Handle group =
        check_handle(is_there ? H5Gopen2(opened, spec.object.c_str(), H5P_DEFAULT)
                              : H5Gcreate2(opened, spec.object.c_str(), links, H5P_DEFAULT, H5P_DEFAULT),
                     context);
    std::map<std::string, Attribute> attributes = spec.attributes;
    for (const auto& [name, value] : spec.attributes) {
      if (H5Aexists(group, name.c_str()) <= 0) continue;
      if (overwrite_)
        check_call(H5Adelete(group, name.c_str()), context);
      else
        attributes.erase(name);
    }
    write_attributes(group, attributes);
  }

  void check_target(hid_t opened, const OutputSpec& spec, bool overwrite) const {
    const std::string& object = spec.object;
    const bool is_group = spec.is_group;
    if (object == "/") return;
    for (size_t end = 1; end < object.size();) {
      end = std::min(object.find('/', end + 1), object.size());
      const std::string head = object.substr(0, end);
      const htri_t found = H5Lexists(opened, head.c_str(), H5P_DEFAULT);
      H5Eclear2(H5E_DEFAULT);
      if (found <= 0) return;
      H5O_info_t info;
      const bool leads = H5Oget_info_by_name2(opened, head.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0;
      H5Eclear2(H5E_DEFAULT);
      if (end < object.size()) {
        if (leads && info.type == H5O_TYPE_GROUP) continue;
        throw local::InvalidArgument(fmt::format("cannot create '{}' in '{}': '{}' is no group", object, file_, head));
      }
      if (is_group && leads && info.type == H5O_TYPE_GROUP) return;
      if (is_group)
        throw local::InvalidArgument(fmt::format("cannot create '{}' in '{}': it is no group", object, file_));
      if (leads && info.type == H5O_TYPE_GROUP)
        throw local::InvalidArgument(fmt::format("'{}' in '{}' is a group; it is not replaced", object, file_));
      if (!overwrite)
        throw local::InvalidArgument(
            fmt::format("'{}' exists in '{}'; it is replaced only with overwrite", object, file_));
    }
  }

  // Finds where a created data set lies. Space that the library reused is cleared: padding must not show old data.
  void locate(size_t index) {
    const OutputSpec& spec = specs_[index];
    if (spec.text || spec.is_group) {
      writers_.push_back(nullptr);
      return;
    }
    StoredDataset stored = describe_dataset(place_->path(), spec.object);
    if (spec.filters.empty() && !stored.info.direct)
      throw local::IoError(
          fmt::format("cannot write '{}' to '{}' by offset: {}", spec.object, file_, stored.info.library_reason));
    if (spec.filters.empty() && !place_->fresh()) clear_reused(stored, place_->copied_bytes());
    writers_.push_back(std::make_shared<Hdf5Writer>(spec, std::move(stored), file_, places_ && !spec.filters.empty()));
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
  void prepare_places() {
    const Handle opened = open_file(place_->path(), H5F_ACC_RDONLY);
    const ByteFile& file = *bytes_;
    const std::optional<FileFormat> format = file_format(opened, file.size());
    indexes_.resize(specs_.size());
    places_ = format && ends_where_it_says(file, *format);
    for (size_t i = 0; i < specs_.size() && places_; ++i) {
      if (specs_[i].filters.empty()) continue;
      const Handle dataset = check_handle(H5Dopen2(opened, specs_[i].object.c_str(), H5P_DEFAULT),
                                          fmt::format("writing '{}' to '{}'", specs_[i].object, file_));
      indexes_[i] = describe_new_index(opened, dataset, file);
      places_ = indexes_[i].has_value();
    }
    placed_.resize(specs_.size());
    end_ = placed_begin_ = file.size();
  }

  void index_placed() {
    int64_t end = placed_begin_;
    for (std::vector<PlacedChunk>& chunks : placed_) {
      std::ranges::stable_sort(chunks, {}, &PlacedChunk::number);
      // Of those with one number the last one.
      const auto first = std::unique(chunks.rbegin(), chunks.rend(),
                                     [](const PlacedChunk& a, const PlacedChunk& b) { return a.number == b.number; });
      chunks.erase(chunks.begin(), first.base());
      for (const PlacedChunk& chunk : chunks) end = std::max(end, chunk.offset + chunk.bytes);
    }
    if (end == placed_begin_) return;
    MetadataTarget file(*bytes_);
    for (size_t i = 0; i < placed_.size(); ++i) {
      if (!indexes_[i]) continue;
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

  void open_for_chunks(size_t index) {
    if (!opened_) {
      mark(FileState::whole);  // else the library does not open it
      opened_ = open_file(place_->path(), H5F_ACC_RDWR);
      datasets_.resize(specs_.size());
    }
    if (!datasets_[index])
      datasets_[index] = check_handle(H5Dopen2(opened_, specs_[index].object.c_str(), H5P_DEFAULT),
                                      fmt::format("writing '{}' to '{}'", specs_[index].object, file_));
  }

  const std::string file_;
  const bool overwrite_ = false;
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
  Handle opened_;
  std::vector<Handle> datasets_;
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
