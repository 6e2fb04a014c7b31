#include "quarry/io/hdf5/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <utility>

#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/io/hdf5/filters.h"
#include "quarry/io/hdf5/parse/virtual.h"
#include "quarry/io/hdf5/process/library_process.h"
#include "quarry/io/hdf5/types.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;

// Registered filters that quarry does not read itself, and files often name without a text.
std::string filter_name(const StoredFilter& filter) {
  struct Known {
    H5Z_filter_t id;
    const char* name;
  };
  static constexpr Known kKnown[] = {{H5Z_FILTER_NBIT, "nbit"}, {H5Z_FILTER_SCALEOFFSET, "scaleoffset"},
                                     {32002, "mafisc"},         {32013, "zfp"},
                                     {32016, "fpzip"},          {32017, "sz"},
                                     {32019, "jpeg"},           {32024, "sz3"},
                                     {32026, "blosc2"},         {32027, "blosc2-grok"}};
  for (const Known& known : kKnown)
    if (known.id == filter.id) return known.name;
  return filter.name.empty() ? "without a name" : filter.name;
}

bool library_has(int filter) {
  const LibraryLock lock;
  const bool has = H5Zfilter_avail(filter) > 0;
  H5Eclear2(H5E_DEFAULT);
  return has;
}

// Fills info.filters; the reasons why the chunks cannot be decoded directly, or at all.
void describe_filters(const std::vector<StoredFilter>& stored, StoredDataset& out, std::string& indirect) {
  for (const StoredFilter& one : stored) {
    Filter filter{Filter::Kind::other, 0, filter_name(one)};
    const Codec* const codec = find_codec_by_id(one.id);
    if (codec) filter.kind = codec->kind;
    if (one.id == H5Z_FILTER_SHUFFLE) filter.kind = Filter::Kind::shuffle;
    if (one.id == H5Z_FILTER_FLETCHER32) filter.kind = Filter::Kind::fletcher32;
    if (const FilterKind* const kind = find_kind(filter.kind)) {
      filter.name = kind->name;
      filter.values = one.values;
      if (codec && kind->most_level > 0 && filter.values.size() > codec->level_at)
        filter.level = static_cast<int>(std::min(filter.values[codec->level_at], static_cast<uint32_t>(INT_MAX)));
    } else {
      indirect = "filter " + filter.name;
      if (!library_has(one.id))
        out.unreadable = fmt::format(
            "filter {} (number {}) is not available; the HDF5 library loads it where HDF5_PLUGIN_PATH names a folder "
            "that holds its plugin",
            filter.name, one.id);
    }
    out.info.filters.push_back(std::move(filter));
  }
  if (indirect.empty() && !directly_decodable(out.info.filters)) indirect = "an unusual order of filters";
}

const Dims& countable_shape(const Dataspace& space) {
  if (space.is_null) throw local::TypeError("its dataspace is null: it has no elements and no shape");
  if (space.countable) return space.shape;
  for (size_t d = 0; d < space.stated.size(); ++d)
    if (space.stated[d] > static_cast<uint64_t>(INT64_MAX))
      throw local::NotSupported(fmt::format("axis {} has {} elements, more than 64 signed bits", d, space.stated[d]));
  throw local::NotSupported("its shape has more elements than 64 bits count");
}

// A virtual data set without limit along an axis is as large as what is there of its sources.
Dims virtual_shape(const MetadataFile& file, const Object& object) {
  ByteWriter request;
  request.put_string(file.path);
  request.put(object.header);
  const std::string reply = call_library(LibraryCall::get_shape, request.take());
  ByteReader in(reply);
  Dims shape = object.space->shape;
  for (int64_t& extent : shape) {
    extent = in.get<int64_t>();
    if (extent < 0) throw local::IoError("damaged: the library finds another shape");
  }
  return shape;
}

Dims shape_of(const MetadataFile& file, const Object& object) {
  const Dims& stated = countable_shape(*object.space);
  const bool grows = std::ranges::find(object.space->limits, kUnlimited) != object.space->limits.end();
  return object.layout->kind == LayoutMessage::Kind::virtual_ && grows ? virtual_shape(file, object) : stated;
}

// All sizes that reading computes with fit 64 bits.
void check_size(const Dims& shape, int64_t itemsize) {
  int64_t bytes = itemsize;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes))
      throw local::NotSupported(fmt::format("its shape {} is more bytes than 64 bits count", local::to_string(shape)));
}

Dims with_array_axes(const Dims& outer, const Dims& array) {
  Dims all = outer;
  for (int64_t extent : array) {
    if (all.size() == local::kMaxDims)
      throw local::NotSupported(fmt::format("its arrays within elements make more than {} axes", local::kMaxDims));
    all.push_back(extent);
  }
  return all;
}

// Of a decoded chunk.
int64_t bytes_of_chunk(const Dims& chunk, int64_t item) {
  int64_t bytes = item;
  for (const int64_t extent : chunk)
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > int64_t{UINT32_MAX})
      throw local::IoError("damaged: chunks of more than 4 GiB");
  return bytes;
}

// Where no filter that was applied changes a chunk's size, the stored size follows from it. The library does not look
// whether undoing the filters gave a whole chunk.
void check_stored_sizes(const ChunkIndex& index, const std::vector<Filter>& filters, int64_t chunk_bytes) {
  constexpr int64_t kChecksumBytes = 4;
  index.for_each([&](const ChunkEntry& entry) {
    int64_t bytes = chunk_bytes;
    bool fixed = true;
    for (size_t i = 0; i < filters.size(); ++i) {
      if (i < 32 && (entry.mask >> i & 1u)) continue;
      fixed = fixed && (filters[i].kind == Filter::Kind::shuffle || filters[i].kind == Filter::Kind::fletcher32);
      if (filters[i].kind == Filter::Kind::fletcher32) bytes += kChecksumBytes;
    }
    if (fixed && entry.bytes != bytes)
      throw local::IoError(fmt::format("damaged: chunk number {} is stored in {} bytes instead of {}", entry.number,
                                       entry.bytes, bytes));
  });
}

// What one description is made of, step by step.
class Description {
 public:
  Description(const MetadataFile& file, const Object& object, StoredDataset& out)
      : file_(file), object_(object), out_(out), elements_(shape_of(file, object)) {}

  // `index` gives the chunk index when it is asked.
  template <class Index>
  void run(Index&& index) {
    DatasetInfo& info = out_.info;
    Storage& storage = out_.storage;
    const ElementType element = describe_element(*object_.type, storage.fields);
    const FileType& number = element.number;
    check_size(elements_, element.bytes);
    info.shape = with_array_axes(elements_, element.array);
    info.dtype = number.dtype;
    storage.bitfield = number.bitfield;
    storage.bits = number.bits;
    storage.record_bytes = element.bytes;
    storage.field_offset = element.offset;
    storage.array_axes = element.array.size();
    array_ = element.array;
    check_size(info.shape, local::itemsize(number.dtype));
    indirect_ = number.conversion;
    if (!storage.fields.empty() && (storage.bits.precision > 0 || info.dtype == local::DType::bool_))
      indirect_ = "a field of bits is converted";
    if (indirect_.empty()) set_fill();
    describe_layout(index);
    info.direct = indirect_.empty();
    if (!info.direct && storage.array_axes > 0)
      throw local::NotSupported(fmt::format("its elements are arrays, which are read directly only: {}", indirect_));
    info.library_reason = indirect_;
    if (info.direct)
      info.swapped = number.swapped;
    else
      storage.kind = Storage::Kind::library;
  }

 private:
  int64_t total_bytes() const { return local::element_count(elements_) * out_.storage.record_bytes; }

  // What reads of never-written places give.
  void set_fill() {
    Storage& storage = out_.storage;
    const int64_t item = local::itemsize(out_.info.dtype);
    if (object_.fill.empty()) {  // zeros where the file does not say
      storage.fill.assign(static_cast<size_t>(item), std::byte{0});
      return;
    }
    const auto at = object_.fill.begin() + storage.field_offset;  // of a whole element
    storage.fill.assign(at, at + item);
    for (int64_t i = 1; i < local::element_count(array_); ++i)
      if (!std::equal(storage.fill.begin(), storage.fill.end(), at + i * item))
        indirect_ = "arrays with different fill values";
    fix_elements(out_, storage.fill);
  }

  template <class Index>
  void describe_layout(Index&& index) {
    DatasetInfo& info = out_.info;
    const LayoutMessage& layout = *object_.layout;
    switch (layout.kind) {
      case LayoutMessage::Kind::compact:
        info.layout = "compact";
        take_compact();
        return;
      case LayoutMessage::Kind::contiguous:
        if (object_.external) {
          info.layout = "external";
          info.stored_bytes = total_bytes();
          if (indirect_.empty()) indirect_ = "external storage";
          return;
        }
        info.layout = "contiguous";
        locate_contiguous();
        return;
      case LayoutMessage::Kind::chunked:
        info.layout = "chunked";
        describe_chunks(index);
        return;
      case LayoutMessage::Kind::virtual_:
        info.layout = "virtual";
        if (indirect_.empty()) indirect_ = "a virtual data set";
        return;
      case LayoutMessage::Kind::other:
        break;
    }
    throw local::NotSupported(fmt::format("its layout is {}, which is not read", layout.reason));
  }

  void take_compact() {
    Storage& storage = out_.storage;
    storage.kind = Storage::Kind::memory;
    storage.data.assign(object_.compact.begin(), object_.compact.begin() + total_bytes());
    if (storage.fields.empty() && indirect_.empty()) fix_elements(out_, storage.data);
    out_.info.stored_bytes = total_bytes();
  }

  void locate_contiguous() {
    Storage& storage = out_.storage;
    storage.kind = Storage::Kind::contiguous;
    const int64_t offset = object_.layout->address;
    if (offset == kNoAddress || total_bytes() == 0) return;
    if (offset > storage.file_bytes || total_bytes() > storage.file_bytes - offset)
      throw local::IoError(fmt::format("damaged: its {} bytes at {} lie outside of the file's {}", total_bytes(),
                                       offset, storage.file_bytes));
    storage.offset = offset;
    out_.info.stored_bytes = total_bytes();
  }

  template <class Index>
  void describe_chunks(Index&& index) {
    DatasetInfo& info = out_.info;
    const LayoutMessage& layout = *object_.layout;
    if (layout.chunk.size() != elements_.size()) throw local::IoError("damaged: chunks and shape have different ranks");
    const int64_t chunk_bytes = bytes_of_chunk(layout.chunk, out_.storage.record_bytes);
    info.chunks = with_array_axes(layout.chunk, array_);
    std::string indirect;
    describe_filters(object_.filters, out_, indirect);
    if (indirect_.empty()) indirect_ = indirect;
    // Also where the library will read: it believes the sizes that the index states.
    const ChunkIndex& chunks = index(layout.chunk);
    info.stored_bytes = chunks.stored_bytes();
    if (!indirect_.empty()) {
      ChunkIndex readable = chunks;
      readable.read_from([this]() -> const ByteSource& { return file_.metadata.bytes(); });
      return check_stored_sizes(readable, info.filters, chunk_bytes);
    }
    out_.storage.kind = Storage::Kind::chunked;
    out_.storage.index = chunks;
    // Arrays inside elements are not cut: chunks keep their numbers.
    out_.storage.index.regrid(info.shape, *info.chunks);
  }

  const MetadataFile& file_;
  const Object& object_;
  StoredDataset& out_;
  const Dims elements_;  // the file's shape
  Dims array_;           // of arrays inside its elements
  std::string indirect_;
};

}  // namespace

const ChunkIndex& Describer::chunk_index(const Dims& chunk) {
  if (index_error_) std::rethrow_exception(index_error_);
  if (index_) return *index_;
  try {
    const Dataspace& space = *object_.space;
    const ChunkedShape shape{space.shape, space.limits, bytes_of_chunk(chunk, object_.type->bytes),
                             !object_.filters.empty()};
    index_ = read_chunk_index(in_.metadata.bytes(), {in_.metadata.format(), *object_.layout, shape}, most_index_bytes_);
  } catch (const local::Error&) {
    index_error_ = std::current_exception();
    throw;
  }
  return *index_;
}

StoredDataset Describer::describe(const std::string& file, const std::string& object,
                                  const std::vector<std::string>& fields) {
  StoredDataset out;
  out.info.file = file;
  out.info.object = object;
  out.info.attributes = object_.attributes;
  out.storage.fields = fields;
  out.storage.file_bytes = in_.bytes->size();
  if (in_.path != file) out.storage.file = in_.path;
  out.storage.header = object_.header;
  Description(in_, object_, out).run([this](const Dims& chunk) -> const ChunkIndex& { return chunk_index(chunk); });
  return out;
}

namespace {

// The longest part before a colon that is an object; behind it stand fields of its compound type.
std::pair<Found, std::vector<std::string>> object_and_fields(const std::shared_ptr<const MetadataFile>& file,
                                                             const std::string& path) {
  Found whole = find_object(file, path);
  std::vector<std::string> fields;
  std::string head = path;
  for (size_t colon = path.rfind(':'); whole.state == Found::State::missing && colon != std::string::npos && colon > 0;
       colon = path.rfind(':', colon - 1)) {
    fields.insert(fields.begin(), head.substr(colon + 1));
    head.resize(colon);
    Found found = find_object(file, head);
    if (found.state != Found::State::missing) return {std::move(found), fields};
  }
  return {std::move(whole), std::vector<std::string>()};
}

}  // namespace

bool object_exists(hid_t file, const std::string& object) {
  for (size_t end = 0; end < object.size();) {
    end = std::min(object.find('/', end + 1), object.size());
    const std::string head = object.substr(0, end);
    if (head == "/") continue;
    if (H5Lexists(file, head.c_str(), H5P_DEFAULT) <= 0) {
      H5Eclear2(H5E_DEFAULT);
      return false;
    }
  }
  return true;
}

void throw_missing(const MetadataFile& file, const std::string& object) {
  const std::string nearest = nearest_object(file, object);
  throw local::InvalidArgument(fmt::format("no object '{}' in '{}'{}", object, file.path,
                                           nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

namespace {

// Names with %b stand for those with 0, 1, 2, ... in its place.
std::string numbered(const std::string& name, int64_t number) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%' || i + 1 == name.size()) {
      out += name[i];
      continue;
    }
    ++i;
    out += name[i] == 'b' ? std::to_string(number) : std::string(1, name[i]);
  }
  return out;
}

// Whether there was something to look at.
bool check_source(const MetadataFile& file, const std::string& name, const std::string& object, int depth);

void check_for_library(const MetadataFile& file, const Object& object, int depth) {
  constexpr int kMostDepth = 8;
  constexpr int64_t kMostNumbers = 10000;
  const Object root = read_object(file.metadata, file.metadata.root());
  read_links(file.metadata, root);
  for (const std::string& name : object.external.value_or(std::vector<std::string>())) {
    std::error_code error;
    if (std::filesystem::exists(name, error)) check_regular_file(name);
  }
  if (!object.layout || object.layout->kind != LayoutMessage::Kind::virtual_) return;
  if (depth > kMostDepth) throw local::IoError("virtual data sets are nested too deeply");
  for (const VirtualSource& source : read_virtual_sources(file.metadata, object)) {
    const bool many = numbered(source.file, 0) != numbered(source.file, 1) ||
                      numbered(source.object, 0) != numbered(source.object, 1);
    for (int64_t i = 0; i < (many ? kMostNumbers : 1); ++i)
      if (!check_source(file, numbered(source.file, i), numbered(source.object, i), depth + 1)) break;
  }
}

// What is not there is fill values.
bool check_source(const MetadataFile& file, const std::string& name, const std::string& object, int depth) {
  bool any = false;
  for (const std::string& place : name == "." ? std::vector{file.path} : existing_targets(file, name)) {
    const auto source = MetadataFile::open(place);
    const Found found = find_object(source, normalized_object(object));
    if (found.state != Found::State::found) continue;
    any = true;
    check_for_library(*found.file, found.object, depth);
  }
  return any;
}

}  // namespace

void check_for_library(const MetadataFile& file, const Object& object) { check_for_library(file, object, 0); }

Dims library_shape(const std::string& path, int64_t header) {
  const auto file = MetadataFile::open(path);
  const Object object = read_object(file->metadata, header);
  check_for_library(*file, object);
  const Handle opened = open_file(path, H5F_ACC_RDONLY);
  const Handle dataset = check_handle(H5Oopen_by_addr(opened, static_cast<haddr_t>(header)), "cannot be opened");
  const Handle space = check_handle(H5Dget_space(dataset), "dataspace");
  hsize_t extents[H5S_MAX_RANK];
  if (!object.space || H5Sget_simple_extent_ndims(space) != object.space->shape.size())
    throw local::IoError("damaged: the library finds another number of axes");
  const int rank = check_call(H5Sget_simple_extent_dims(space, extents, nullptr), "dataspace");
  Dims shape;
  for (int d = 0; d < rank; ++d)
    shape.push_back(static_cast<int64_t>(std::min(extents[d], static_cast<hsize_t>(INT64_MAX))));
  return shape;
}

StoredDataset describe_dataset(const std::string& file, const std::string& object, int64_t most_index_bytes) {
  const std::string normalized = normalized_object(object);  // an error of its own, whatever the file
  return describe_dataset(MetadataFile::open(file), normalized, most_index_bytes);
}

StoredDataset describe_dataset(const std::shared_ptr<const MetadataFile>& opened, const std::string& path,
                               int64_t most_index_bytes) {
  const std::string object = normalized_object(path), &file = opened->path;
  const auto context = [&](const std::exception& error) {
    return fmt::format("'{}' in '{}': {}", object, file, error.what());
  };
  std::vector<std::string> fields;
  try {
    Found found;
    std::tie(found, fields) = object_and_fields(opened, object);
    if (found.state == Found::State::missing) throw_missing(*opened, object);
    if (found.state == Found::State::dangling)
      throw local::InvalidArgument(
          fmt::format("'{}' in '{}' is a link that leads nowhere: {}", object, file, found.reason));
    switch (found.object.kind) {
      case Object::Kind::group:
        throw local::InvalidArgument(fmt::format("'{}' in '{}' is a group, not a data set", object, file));
      case Object::Kind::type:
        throw local::InvalidArgument(fmt::format("'{}' in '{}' is no data set but a named type", object, file));
      case Object::Kind::other:
        throw local::IoError("damaged: it is no data set, group or type");
      case Object::Kind::dataset:
        break;
    }
    return Describer(*found.file, found.object, most_index_bytes).describe(file, object, fields);
  } catch (const local::TypeError& error) {
    throw local::TypeError(context(error));
  } catch (const local::NotSupported& error) {
    throw local::NotSupported(context(error));
  } catch (const local::IoError& error) {
    throw local::IoError(context(error));
  } catch (const local::InvalidArgument& error) {
    const std::string what = error.what();
    throw local::InvalidArgument(what.find(file) == std::string::npos ? context(error) : what);
  }
}

}  // namespace quarry::io::hdf5
