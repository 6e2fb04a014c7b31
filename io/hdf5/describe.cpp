#include "quarry/io/hdf5/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <optional>

#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/io/hdf5/filters.h"
#include "quarry/io/hdf5/parse/object_header.h"
#include "quarry/io/hdf5/types.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;

// Registered filters that quarry does not read itself, and files often name without a text.
std::string filter_name(H5Z_filter_t id, const char* text) {
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
    if (known.id == id) return known.name;
  return *text ? text : "without a name";
}

// Fills info.filters; the reasons why the chunks cannot be decoded directly, or at all.
void describe_filters(hid_t create, StoredDataset& out, std::string& indirect) {
  const int count = check_call(H5Pget_nfilters(create), "filters");
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0, values[16] = {};
    size_t value_count = std::size(values);
    char text[80] = "";
    const H5Z_filter_t id =
        H5Pget_filter2(create, static_cast<unsigned>(i), &flags, &value_count, values, sizeof text - 1, text, &config);
    if (id < 0) throw_library_error("filters");
    Filter filter{Filter::Kind::other, 0, filter_name(id, text)};
    const Codec* const codec = find_codec_by_id(id);
    if (codec) filter.kind = codec->kind;
    if (id == H5Z_FILTER_SHUFFLE) filter.kind = Filter::Kind::shuffle;
    if (id == H5Z_FILTER_FLETCHER32) filter.kind = Filter::Kind::fletcher32;
    if (const FilterKind* const kind = find_kind(filter.kind)) {
      filter.name = kind->name;
      filter.values.assign(values, values + std::min(value_count, std::size(values)));
      if (codec && kind->most_level > 0 && filter.values.size() > codec->level_at)
        filter.level = static_cast<int>(std::min(filter.values[codec->level_at], static_cast<uint32_t>(INT_MAX)));
    } else {
      indirect = "filter " + filter.name;
      if (H5Zfilter_avail(id) <= 0)
        out.unreadable = fmt::format(
            "filter {} (number {}) is not available; the HDF5 library loads it where HDF5_PLUGIN_PATH names a folder "
            "that holds its plugin",
            filter.name, id);
    }
    out.info.filters.push_back(std::move(filter));
  }
  H5Eclear2(H5E_DEFAULT);
  if (indirect.empty() && !directly_decodable(out.info.filters)) indirect = "an unusual order of filters";
}

Dims describe_shape(hid_t dataset) {
  const Handle space = check_handle(H5Dget_space(dataset), "dataspace");
  switch (H5Sget_simple_extent_type(space)) {
    case H5S_SCALAR:
      return {};
    case H5S_NULL:
      throw local::TypeError("its dataspace is null: it has no elements and no shape");
    case H5S_SIMPLE:
      break;
    case H5S_NO_CLASS:
      throw_library_error("dataspace");
  }
  hsize_t extents[H5S_MAX_RANK];
  const int rank = check_call(H5Sget_simple_extent_dims(space, extents, nullptr), "dataspace");
  Dims shape;
  for (int d = 0; d < rank; ++d) {
    if (extents[d] > static_cast<hsize_t>(INT64_MAX))
      throw local::NotSupported(fmt::format("axis {} has {} elements, more than 64 signed bits", d, extents[d]));
    shape.push_back(static_cast<int64_t>(extents[d]));
  }
  return shape;
}

// One element as the file has it; zeros where the file does not say.
std::vector<std::byte> fill_element(hid_t create, hid_t type, int64_t bytes) {
  std::vector<std::byte> fill(static_cast<size_t>(bytes), std::byte{0});
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  if (H5Pfill_value_defined(create, &defined) < 0 || defined != H5D_FILL_VALUE_USER_DEFINED) return fill;
  check_call(H5Pget_fill_value(create, type, fill.data()), "fill value");
  return fill;
}

// All sizes that reading computes with fit 64 bits.
void check_size(const Dims& shape, int64_t itemsize) {
  int64_t bytes = itemsize;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes))
      throw local::NotSupported(fmt::format("its shape {} is more bytes than 64 bits count", local::to_string(shape)));
}

// Nothing where the file's addresses are of a size that the parser does not read.
std::optional<FileFormat> file_format(hid_t file_id, int64_t file_bytes) {
  const Handle create = check_handle(H5Fget_create_plist(file_id), "file properties");
  size_t offset_bytes = 0, length_bytes = 0;
  hsize_t base = 0;
  check_call(H5Pget_sizes(create, &offset_bytes, &length_bytes), "file properties");
  check_call(H5Pget_userblock(create, &base), "file properties");
  const auto usable = [](size_t width) { return width == 2 || width == 4 || width == 8; };
  if (!usable(offset_bytes) || !usable(length_bytes)) return std::nullopt;
  if (base > static_cast<hsize_t>(file_bytes)) throw local::IoError("damaged: the user block");
  unsigned tables = 0;
  check_call(H5Pget_shared_mesg_nindexes(create, &tables), "file properties");
  return FileFormat{static_cast<int>(offset_bytes), static_cast<int>(length_bytes), static_cast<int64_t>(base),
                    tables > 0};
}

class Describer {
 public:
  Describer(hid_t file_id, hid_t dataset, StoredDataset& out) : file_id_(file_id), dataset_(dataset), out_(out) {}

  void run() {
    const Handle type = check_handle(H5Dget_type(dataset_), "type");
    const ElementType element = describe_element(type, out_.storage.fields);
    const FileType& stored = element.number;
    DatasetInfo& info = out_.info;
    Storage& storage = out_.storage;
    elements_ = describe_shape(dataset_);
    check_size(elements_, element.bytes);
    info.shape = with_array_axes(elements_, element.array);
    info.dtype = stored.dtype;
    storage.bitfield = stored.bitfield;
    storage.bits = stored.bits;
    storage.record_bytes = element.bytes;
    storage.field_offset = element.offset;
    storage.array_axes = element.array.size();
    itemsize_ = local::itemsize(stored.dtype);
    check_size(info.shape, itemsize_);
    indirect_ = stored.conversion;
    if (!storage.fields.empty() && (storage.bits.precision > 0 || info.dtype == local::DType::bool_))
      indirect_ = "a field of bits is converted";
    array_ = element.array;
    describe_layout(type);
    info.direct = indirect_.empty();
    if (!info.direct && storage.array_axes > 0)
      throw local::NotSupported(fmt::format("its elements are arrays, which are read directly only: {}", indirect_));
    info.library_reason = indirect_;
    if (info.direct) {
      info.swapped = stored.swapped;
      return;
    }
    out_.storage.kind = Storage::Kind::library;
    info.stored_bytes = static_cast<int64_t>(std::min<hsize_t>(H5Dget_storage_size(dataset_), INT64_MAX));
  }

 private:
  void describe_layout(hid_t type) {
    const Handle create = check_handle(H5Dget_create_plist(dataset_), "creation properties");
    const bool direct_type = indirect_.empty();
    if (direct_type) set_fill(create, type);
    switch (H5Pget_layout(create)) {
      case H5D_COMPACT:
        out_.info.layout = "compact";
        if (direct_type) read_compact(type);
        return;
      case H5D_CONTIGUOUS:
        if (H5Pget_external_count(create) > 0) {
          out_.info.layout = "external";
          indirect_ = "external storage";
          return;
        }
        out_.info.layout = "contiguous";
        if (direct_type) locate_contiguous();
        return;
      case H5D_CHUNKED:
        out_.info.layout = "chunked";
        describe_chunks(create);
        return;
      case H5D_VIRTUAL:
        out_.info.layout = "virtual";
        indirect_ = "a virtual data set";
        return;
      case H5D_LAYOUT_ERROR:
      case H5D_NLAYOUTS:
        break;
    }
    throw_library_error("layout");
  }

  static Dims with_array_axes(const Dims& outer, const Dims& array) {
    Dims all = outer;
    for (int64_t extent : array) {
      if (all.size() == local::kMaxDims)
        throw local::NotSupported(fmt::format("its arrays within elements make more than {} axes", local::kMaxDims));
      all.push_back(extent);
    }
    return all;
  }

  // What reads of never-written places give.
  void set_fill(hid_t create, hid_t type) {
    Storage& storage = out_.storage;
    const std::vector<std::byte> element = fill_element(create, type, storage.record_bytes);
    const auto at = element.begin() + storage.field_offset;
    storage.fill.assign(at, at + itemsize_);
    for (int64_t i = 1; i < local::element_count(array_); ++i)
      if (!std::equal(storage.fill.begin(), storage.fill.end(), at + i * itemsize_))
        indirect_ = "arrays with different fill values";
    fix_elements(out_, storage.fill);
  }

  int64_t total_bytes() const { return local::element_count(elements_) * out_.storage.record_bytes; }

  void read_compact(hid_t type) {
    constexpr int64_t kMaxCompact = 65536;  // the format's limit
    Storage& storage = out_.storage;
    if (total_bytes() > kMaxCompact) damaged_sizes();
    storage.kind = Storage::Kind::memory;
    storage.data.resize(static_cast<size_t>(total_bytes()));
    if (!storage.data.empty())
      check_call(H5Dread(dataset_, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, storage.data.data()), "cannot be read");
    if (storage.fields.empty()) fix_elements(out_, storage.data);
    out_.info.stored_bytes = total_bytes();
  }

  [[noreturn]] void damaged_sizes() const {
    throw local::IoError(fmt::format("damaged: {} bytes in compact storage", total_bytes()));
  }

  // A file other than the one asked for (through an external link) is left to the library.
  bool elsewhere() {
    H5O_info_t mine, root;
    if (H5Oget_info2(dataset_, &mine, H5O_INFO_BASIC) < 0 ||
        H5Oget_info_by_name2(file_id_, "/", &root, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
      throw_library_error("object information");
    header_ = mine.addr;
    if (mine.fileno != root.fileno) indirect_ = "it lies in another file behind an external link";
    return mine.fileno != root.fileno;
  }

  void locate_contiguous() {
    if (elsewhere()) return;
    Storage& storage = out_.storage;
    storage.kind = Storage::Kind::contiguous;
    const haddr_t offset = H5Dget_offset(dataset_);
    H5Eclear2(H5E_DEFAULT);
    if (offset == HADDR_UNDEF || total_bytes() == 0) return;
    if (offset > static_cast<haddr_t>(storage.file_bytes) ||
        total_bytes() > storage.file_bytes - static_cast<int64_t>(offset))
      throw local::IoError(fmt::format("damaged: its {} bytes at {} lie outside of the file's {}", total_bytes(),
                                       offset, storage.file_bytes));
    storage.offset = static_cast<int64_t>(offset);
    out_.info.stored_bytes = total_bytes();
  }

  void describe_chunks(hid_t create) {
    DatasetInfo& info = out_.info;
    hsize_t extents[H5S_MAX_RANK];
    const int rank = check_call(H5Pget_chunk(create, H5S_MAX_RANK, extents), "chunks");
    if (rank != elements_.size()) throw local::IoError("damaged: chunks and shape have different ranks");
    Dims chunk;
    int64_t chunk_bytes = out_.storage.record_bytes;
    for (int d = 0; d < rank; ++d) {
      if (extents[d] == 0 || extents[d] > UINT32_MAX) throw local::IoError("damaged: a chunk dimension out of range");
      chunk.push_back(static_cast<int64_t>(extents[d]));
      if (__builtin_mul_overflow(chunk_bytes, chunk[d], &chunk_bytes) || chunk_bytes > int64_t{UINT32_MAX})
        throw local::IoError("damaged: chunks of more than 4 GiB");
    }
    info.chunks = with_array_axes(chunk, array_);
    std::string indirect;
    describe_filters(create, out_, indirect);
    if (indirect_.empty()) indirect_ = indirect;
    if (!elsewhere()) find_index(chunk);
  }

  // Also where the library will read: it believes the sizes that the index states.
  void find_index(const Dims& chunk) {
    const std::optional<FileFormat> format = file_format(file_id_, out_.storage.file_bytes);
    if (!format) {
      indirect_ = "unusual sizes of addresses";
      return;
    }
    const ByteFile bytes(out_.info.file, ByteFile::Mode::read);
    if (header_ > static_cast<haddr_t>(bytes.size())) throw local::IoError("damaged: the object header's address");
    const LayoutMessage message = read_layout_message(bytes, *format, static_cast<int64_t>(header_));
    if (message.kind != LayoutMessage::Kind::chunked) {
      if (indirect_.empty())
        indirect_ = message.kind == LayoutMessage::Kind::other ? message.reason : "an unexpected layout message";
      return;
    }
    if (!(message.chunk == chunk) || (indirect_.empty() && message.itemsize != out_.storage.record_bytes))
      throw local::IoError("damaged: the layout message and the library disagree about the chunks");
    int64_t chunk_bytes = message.itemsize;
    for (int64_t extent : chunk)
      if (__builtin_mul_overflow(chunk_bytes, extent, &chunk_bytes) || chunk_bytes > int64_t{UINT32_MAX})
        throw local::IoError("damaged: chunks of more than 4 GiB");
    ChunkIndex index =
        read_chunk_index(bytes, *format, message, {elements_, limits(), chunk_bytes, !out_.info.filters.empty()});
    if (!indirect_.empty()) return check_stored_sizes(index, chunk_bytes);
    out_.storage.kind = Storage::Kind::chunked;
    // Arrays inside elements are not cut: chunks keep their numbers.
    index.regrid(out_.info.shape, *out_.info.chunks);
    out_.storage.index = std::move(index);
    out_.info.stored_bytes = out_.storage.index.stored_bytes();
  }

  // Where no filter that was applied changes a chunk's size, the stored size follows from it. The library does not look
  // whether undoing the filters gave a whole chunk.
  void check_stored_sizes(const ChunkIndex& index, int64_t chunk_bytes) const {
    constexpr int64_t kChecksumBytes = 4;
    const auto& filters = out_.info.filters;
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

  Dims limits() const {
    const Handle space = check_handle(H5Dget_space(dataset_), "dataspace");
    hsize_t extents[H5S_MAX_RANK], most[H5S_MAX_RANK];
    const int rank = check_call(H5Sget_simple_extent_dims(space, extents, most), "dataspace");
    Dims out;
    for (int d = 0; d < rank; ++d)
      out.push_back(static_cast<int64_t>(std::min<hsize_t>(most[d], static_cast<hsize_t>(kUnlimited))));
    return out;
  }

  const hid_t file_id_, dataset_;
  StoredDataset& out_;
  int64_t itemsize_ = 0;
  Dims elements_, array_;  // the file's shape, and that of arrays inside its elements
  std::string indirect_;
  haddr_t header_ = 0;
};

[[noreturn]] void missing_object(hid_t file_id, const std::string& file, const std::string& object) {
  H5Eclear2(H5E_DEFAULT);
  if (object_exists(file_id, object))
    throw local::InvalidArgument(
        fmt::format("'{}' in '{}' is a link that leads nowhere or to a damaged object", object, file));
  const std::string nearest = nearest_object(file_id, object);
  throw local::InvalidArgument(fmt::format("no object '{}' in '{}'{}", object, file,
                                           nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
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

namespace {

// Before the library decodes the messages of an object of this file. Objects that are not there, or in another file,
// are left to it.
bool check_before_opening(hid_t file_id, const std::string& file, const std::string& object) {
  H5O_info_t info, root;
  const bool found = H5Oget_info_by_name2(file_id, object.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0 &&
                     H5Oget_info_by_name2(file_id, "/", &root, H5O_INFO_BASIC, H5P_DEFAULT) >= 0;
  H5Eclear2(H5E_DEFAULT);
  if (!found || info.fileno != root.fileno || info.type == H5O_TYPE_GROUP) return true;
  const ByteFile bytes(file, ByteFile::Mode::read);
  const std::optional<FileFormat> format = file_format(file_id, bytes.size());
  if (!format || info.addr > static_cast<haddr_t>(bytes.size())) return true;
  return check_object_header(bytes, *format, static_cast<int64_t>(info.addr));
}

}  // namespace

Handle open_object(hid_t file_id, const std::string& file, const std::string& object, bool* attributes_sound) {
  try {
    const bool sound = check_before_opening(file_id, file, object);
    if (attributes_sound) *attributes_sound = sound;
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("'{}' in '{}': {}", object, file, error.what()));
  }
  return Handle(H5Oopen(file_id, object.c_str(), H5P_DEFAULT));
}

namespace {

// The longest part before a colon that is an object; behind it stand fields of its compound type.
std::pair<std::string, std::vector<std::string>> object_and_fields(hid_t file_id, const std::string& path) {
  std::pair<std::string, std::vector<std::string>> out{path, {}};
  for (size_t colon = path.rfind(':'); colon != std::string::npos && colon > 0 && !object_exists(file_id, out.first);
       colon = path.rfind(':', colon - 1)) {
    out.second.insert(out.second.begin(), out.first.substr(colon + 1));
    out.first.resize(colon);
  }
  if (out.second.empty() || object_exists(file_id, out.first)) return out;
  return {path, {}};
}

}  // namespace

StoredDataset describe_dataset(hid_t file_id, const std::string& file, const std::string& object) {
  const LibraryLock lock;
  const auto [path, fields] = object_and_fields(file_id, object);
  const auto context = [&](const std::exception& error) {
    return fmt::format("'{}' in '{}': {}", object, file, error.what());
  };
  bool attributes_sound = true;
  const Handle opened = open_object(file_id, file, path, &attributes_sound);
  if (!opened) missing_object(file_id, file, object);
  const H5I_type_t kind = H5Iget_type(opened);
  if (kind == H5I_GROUP)
    throw local::InvalidArgument(fmt::format("'{}' in '{}' is a group, not a data set", object, file));
  if (kind != H5I_DATASET)
    throw local::InvalidArgument(fmt::format("'{}' in '{}' is no data set but a named type", object, file));
  StoredDataset out;
  out.info.file = file;
  out.info.object = object;
  out.storage.fields = fields;
  try {
    out.storage.file_bytes = ByteFile(file, ByteFile::Mode::read).size();
    Describer(file_id, opened, out).run();
    if (attributes_sound) out.info.attributes = read_attributes(opened);
  } catch (const local::TypeError& error) {
    throw local::TypeError(context(error));
  } catch (const local::NotSupported& error) {
    throw local::NotSupported(context(error));
  } catch (const local::IoError& error) {
    throw local::IoError(context(error));
  } catch (const local::InvalidArgument& error) {
    if (!fields.empty()) throw local::InvalidArgument(context(error));
    throw local::IoError(context(error));
  }
  return out;
}

StoredDataset describe_dataset(const std::string& file, const std::string& object) {
  const LibraryLock lock;
  const Handle opened = open_file(file, H5F_ACC_RDONLY);
  return describe_dataset(opened, file, normalized_object(object));
}

}  // namespace quarry::io::hdf5
